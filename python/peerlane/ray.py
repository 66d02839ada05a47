"""Tasks on the nodes of a Ray cluster, each with its own devices; ``pip install 'peerlane[ray]'``.

Every function returns one record, ``peerlane.nodes/1``, with an entry for each node: its answer, its
error, or the reason why it is missing. Work that a lost node had is repeated, and counts once.

All have these parameters:

``nodes``
    Names of the nodes that have to be there; all that are up where not given. A node that is named and
    not in the cluster is missing in the record.
``retries``
    Times that lost work is repeated on a node before the node is given up.
``patience``
    Seconds to wait for a lost node to come back under its name.
``progress``
    Called with a :class:`NodesProgress` when a node starts work, answers, is lost or is given up. A line
    on standard error where not given, if that is a terminal.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent import futures
from concurrent.futures import Future
from typing import Any

from . import _nodes
from ._gather import Answer, Node, NodeLost, NodesProgress, Work
from ._tasks import perform
from ._types import Path, Record
from .errors import NotPossible, PeerlaneError

__all__ = ["NodesProgress", "bench", "doctor", "scan", "simulate"]


def bench(
    workload: Path | Mapping[str, Any] | Callable[[Record], Mapping[str, Any]],
    *,
    scratch: Sequence[Path] = (),
    force: bool = False,
    timeout: int = 60,
    nodes: Sequence[str] | None = None,
    retries: int = 2,
    patience: float = 60,
    progress: Callable[[NodesProgress], object] | None = None,
) -> Record:
    """Measures a workload on each node, as :func:`peerlane.bench` does on one.

    Parameters
    ----------
    workload
        As in :func:`peerlane.bench`, or a function that makes one of the topology of a node, on that node.
    scratch, force, timeout
        As in :func:`peerlane.bench`, on each node.
    nodes, retries, patience, progress
        As the module says.

    Returns
    -------
    dict
        ``bench`` of each node is its record, ``used`` source and target with their devices, ``error`` that of a
        node that refused, ``missing`` the reason of one that was lost.
    """
    options = _options(nodes, retries, patience, progress)
    return _nodes.bench(_Cluster(), workload, scratch, force, timeout, options)


def doctor(
    *,
    nodes: Sequence[str] | None = None,
    retries: int = 2,
    patience: float = 60,
    progress: Callable[[NodesProgress], object] | None = None,
) -> Record:
    """Examines each node, as :func:`peerlane.doctor` does one; parameters are those of the module."""
    return _nodes.doctor(_Cluster(), _options(nodes, retries, patience, progress))


def scan(
    picture: Path,
    images: Path | Sequence[Path],
    *,
    scales: Sequence[float] = (1.0,),
    rotations: Sequence[float] = (0.0,),
    threshold: float = 0.9,
    threads: int | None = None,
    local: bool = False,
    nodes: Sequence[str] | None = None,
    retries: int = 2,
    patience: float = 60,
    progress: Callable[[NodesProgress], object] | None = None,
) -> Record:
    """Finds a picture in many images on all nodes, as :func:`peerlane.scan` does on one.

    The files are found here and divided: nodes need the images under the same paths, as on a shared file
    system. The picture is sent along.

    Parameters
    ----------
    picture, images, scales, rotations, threshold
        As in :func:`peerlane.scan`.
    threads
        Threads of each node; all its processors where not given.
    local
        Each node finds images itself by the words in ``images``, on its own drives, and searches
        them.
    nodes, retries, patience, progress
        As the module says.

    Returns
    -------
    dict
        ``scan`` is that of all nodes, with hits in the order of the images; with ``local`` each node has its own.

    Raises
    ------
    PeerlaneError
        No node is left for a part of the images. A result without some of them is never returned.
    """
    search = {
        "scales": scales,
        "rotations": rotations,
        "threshold": threshold,
        "threads": threads,
    }
    options = _options(nodes, retries, patience, progress)
    return _nodes.scan(_Cluster(), picture, images, search, local, options)


def simulate(
    variants: Sequence[Mapping[str, Any]],
    *,
    nodes: Sequence[str] | None = None,
    retries: int = 2,
    patience: float = 60,
    progress: Callable[[NodesProgress], object] | None = None,
) -> Record:
    """Predicts many variants on all nodes, as :func:`peerlane.simulate` does one.

    Parameters
    ----------
    variants
        Arguments of :func:`peerlane.simulate`, one mapping each. Files are sent along; a folder of a
        machine has to be on every node.
    nodes, retries, patience, progress
        As the module says.

    Returns
    -------
    dict
        ``variants`` has a ``record`` or an ``error`` for each, in their order.

    Raises
    ------
    PeerlaneError
        No node is left for some of them.
    """
    return _nodes.simulate(_Cluster(), variants, _options(nodes, retries, patience, progress))


def _options(
    nodes: Sequence[str] | None,
    retries: int,
    patience: float,
    progress: Callable[[NodesProgress], object] | None,
) -> _nodes.Options:
    return {"nodes": nodes, "retries": retries, "patience": patience, "progress": progress}


class _Cluster:
    """The cluster that this process is connected to, or the running one of this machine."""

    def __init__(self) -> None:
        self._ray = _module()
        if not self._ray.is_initialized():
            _connect(self._ray)
        self._perform = self._ray.remote(num_cpus=0, max_retries=0)(perform)
        self._refs: dict[Future[Answer], Any] = {}
        self._names: dict[str, str] = {}
        self._dead: set[str] = set()
        self._idle = threading.Event()

    def nodes(self) -> list[Node]:
        """Nodes that are up. A node that comes back gets its name when Ray has noticed that it was gone."""
        up = [
            one for one in self._ray.nodes() if one["Alive"] and one["NodeID"] not in self._dead
        ]
        is_first = not self._names
        taken = {self._names[one["NodeID"]] for one in up if one["NodeID"] in self._names}
        for one in sorted(up, key=lambda one: str(one["NodeID"])):
            name = _name(one)
            if name in taken and is_first:
                name = f"{name}/{one['NodeID'][:8]}"
            if one["NodeID"] not in self._names and name not in taken:
                taken.add(name)
                self._names[one["NodeID"]] = name
        return [
            Node(self._names[one["NodeID"]], one["NodeManagerAddress"], one["NodeID"])
            for one in up
            if one["NodeID"] in self._names
        ]

    def submit(self, node: Node, work: Work) -> Future[Answer]:
        """Sends work to one node and no other."""
        strategy = self._ray.util.scheduling_strategies.NodeAffinitySchedulingStrategy(
            node.id, soft=False
        )
        answer: Future[Answer] = Future()
        ref = self._perform.options(scheduling_strategy=strategy).remote(dict(work))
        self._refs[answer] = ref
        ref.future().add_done_callback(lambda inner: self._settle(inner, answer, node))
        return answer

    def wait(self, waiting: Collection[Future[Answer]], timeout: float) -> Collection[Future[Answer]]:
        """Waits for one of them, or for the timeout: Ray tells no change of nodes."""
        if not waiting:
            self._idle.wait(timeout)
            return []
        done = futures.wait(waiting, timeout, futures.FIRST_COMPLETED).done
        for future in done:
            self._refs.pop(future, None)
        return done

    def cancel(self, waiting: Collection[Future[Answer]]) -> None:
        """Asks the nodes to end work that is under way."""
        for future in waiting:
            ref = self._refs.pop(future, None)
            if ref is not None:
                self._ray.cancel(ref)

    def _settle(self, inner: Future[Answer], answer: Future[Answer], node: Node) -> None:
        """Turns the result of a task of Ray into an answer or a loss."""
        kinds = self._ray.exceptions
        error = inner.exception()
        if error is None:
            answer.set_result(inner.result())
        elif isinstance(error, kinds.RayTaskError):
            # Errors of the work are in answers: the task did not get so far.
            cause = str(error).strip().splitlines()[-1]
            reason = f"peerlane does not run there: {cause}"
            answer.set_exception(NodeLost(reason, is_final=True))
        else:
            died = (kinds.NodeDiedError, kinds.TaskUnschedulableError, kinds.LocalRayletDiedError)
            if isinstance(error, died):
                self._dead.add(node.id)
            answer.set_exception(NodeLost(_first_line(error)))


def _module() -> Any:
    """Ray, which is needed for nothing else."""
    try:
        import ray
        import ray.exceptions
        import ray.util.scheduling_strategies
    except ModuleNotFoundError as error:
        raise NotPossible(
            ["cannot use a cluster: the package ray is not installed", str(error)],
            hint="pip install 'peerlane[ray]'",
        ) from error
    return ray


def _connect(ray: Any) -> None:
    try:
        ray.init(address="auto", log_to_driver=False)
    except ConnectionError as error:
        raise PeerlaneError(
            ["cannot use a cluster: none runs here", _first_line(error)],
            hint="`ray start --head` starts one, ray.init(address=...) connects to another",
        ) from error


def _name(node: Mapping[str, Any]) -> str:
    """The name given to a node, else its host name."""
    given = node.get("NodeName")
    return str(given if given and given != node["NodeManagerAddress"] else node["NodeManagerHostname"])


def _first_line(error: BaseException) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[0] if lines else type(error).__name__
