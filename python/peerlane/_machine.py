"""Machines, and predictions of workloads on them."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from typing import Any, Literal, Self, cast

from . import _peerlane
from ._types import Path, Record, RouteWord, words


def topology(*, machine: Path | None = None) -> Record:
    """A machine as PCIe sees it: functions, links, memories, and who reaches whom.

    Parameters
    ----------
    machine
        A folder with the ``sys/`` and ``proc/`` of a machine, an archive of one, a machine file, a name out
        of :func:`machines`, or ``-`` for the text of one on standard input. This machine where it is not
        given.

    Raises
    ------
    BadInput
        There is no such machine, or its description is none.

    Examples
    --------
    >>> import peerlane
    >>> pair = peerlane.topology(machine="pair")
    >>> pair["groups"]
    [{'memories': ['c'], 'initiators': ['a', 'b', 'c']}]
    """
    return _load(_peerlane.topology({"machine": words(machine)}))


def reach(topology: Record, memory: str, initiator: str) -> Record:
    """The kernel's decision on one pair of functions, read from a topology.

    Parameters
    ----------
    topology
        What :func:`topology` returned.
    memory
        The function with the memory, by a name out of ``memories`` in ``groups``.
    initiator
        The function that reads or writes it, by a name out of ``initiators`` there.

    Returns
    -------
    dict
        ``verdict``, ``distance`` in hops, ``redirecting``: functions on the path that redirect to the root
        complex, ``conditions`` and ``needs``: facts that are unknown.

    Raises
    ------
    BadInput
        The topology has no such memory or initiator.

    Examples
    --------
    >>> import peerlane
    >>> found = peerlane.reach(peerlane.topology(machine="split"), "c", "a")
    >>> found["verdict"]
    'refused'
    """
    return _load(_peerlane.reach(json.dumps(topology), memory, initiator))


def machines() -> list[str]:
    """Names of the machine descriptions that are built in, or lie in ``./machines``.

    Examples
    --------
    >>> import peerlane
    >>> "donard" in peerlane.machines()
    True
    """
    return _peerlane.machines()


class RouteAnswer(str):
    """A route in one word, which is a ``str``, with its reason.

    Examples
    --------
    >>> import peerlane
    >>> answer = peerlane.route("a", "b", machine="split")
    >>> answer == "host", len(answer.reason) > 0
    (True, True)
    """

    __slots__ = ("reason",)

    reason: str
    """The facts that decide, in one sentence or a few joined by semicolons."""

    def __new__(cls, word: RouteWord, reason: str) -> Self:
        """An answer of a word and its reason."""
        answer = super().__new__(cls, word)
        answer.reason = reason
        return answer

    def __getnewargs__(self) -> tuple[str, str]:  # type: ignore[override]
        """The arguments that pickle and copy make it anew with."""
        return str(self), self.reason


def route(path_or_device: Path, device: Path, *, machine: Path | None = None) -> RouteAnswer:
    """The route between a path and a device, or between two devices, in one word.

    Nothing is opened for data, no drive gets a command, and no root is needed. The word rests on the
    topology and on known behaviour of drivers: a copy proves its route before the first byte moves.

    Parameters
    ----------
    path_or_device
        A file or block device, or a device as ``device`` takes it.
    device
        ``"gpu:0"``, ``"mlx5_0"``, ``"eth0"``, ``"nvme2"``, ``"fpga:ADDRESS"``, ``"cmb:nvme2"``, a PCI
        address, or a path that exists.
    machine
        As in :func:`topology`.

    Returns
    -------
    RouteAnswer
        ``"p2p"``: between the devices. ``"host"``: through host memory only. ``"none"``: neither.
        ``"unknown"``: a fact decides that is unknown here; ``.reason`` names it.

    Raises
    ------
    BadInput
        There is no such file, device or machine.

    Examples
    --------
    >>> import peerlane
    >>> answer = peerlane.route("a", "b", machine="pair")
    >>> answer
    'p2p'
    >>> answer.reason
    'a and b reach cmb:c inside the switch'
    >>> if peerlane.route("a", "cmb:c", machine="pair") == "p2p":
    ...     print("direct")
    direct
    """
    word, reason = _peerlane.route(
        os.fspath(path_or_device), os.fspath(device), {"machine": words(machine)}
    )
    return RouteAnswer(word, reason)


def simulate(
    machine: Path,
    workload: Path | Mapping[str, Any],
    *,
    engine: Literal["auto", "closed", "flow", "tlp"] = "auto",
    parameters: Path | None = None,
) -> Record:
    """Predicts a workload on a machine that need not exist here.

    Parameters
    ----------
    machine
        As in :func:`topology`.
    workload
        A TOML file as ``peerlane bench run`` takes it, or the same as a dict.
    engine
        Model of rates: bounds of each flow alone, fluids that share links, or packets.
    parameters
        A file of parameters of drives and host, before those that are built in.

    Returns
    -------
    dict
        The record of a benchmark (``peerlane.bench/...``), marked as predicted.

    Examples
    --------
    >>> import peerlane
    >>> sweep = {"kind": "sweep", "source": ["a"], "target": ["b"], "blocks": ["1M"],
    ...          "length": "64M", "routes": ["p2p"], "repeats": 1}
    >>> len(peerlane.simulate("pair", sweep)["cases"])
    1
    """
    arguments = {
        "machine": words(machine),
        "engine": engine,
        "parameters": words(parameters),
    }
    if isinstance(workload, Mapping):
        return _load(_peerlane.simulate(arguments, json.dumps(_given(workload))))
    return _load(_peerlane.simulate({**arguments, "workload": os.fspath(workload)}, None))


def reproduce(sources: Sequence[str] = ()) -> Record:
    """The figures of published documents next to the model's figures for the same machines.

    Parameters
    ----------
    sources
        Documents, such as ``["004"]``; all of them where none is named.

    Examples
    --------
    >>> import peerlane
    >>> rows = peerlane.reproduce(["004"])["rows"]
    >>> {row["source"] for row in rows}
    {'004'}
    """
    return _load(_peerlane.reproduce(list(sources)))


def _load(text: str) -> Record:
    return cast(Record, json.loads(text))


def _given(value: Any) -> Any:
    """The same without the values ``None``, which TOML does not have."""
    if isinstance(value, Mapping):
        return {key: _given(one) for key, one in value.items() if one is not None}
    if isinstance(value, (list, tuple)):
        return [_given(one) for one in value]
    return value
