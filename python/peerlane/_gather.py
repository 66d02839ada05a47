"""Tasks on several nodes: hands them out, repeats lost ones, and keeps account of every node.

Knows neither Ray nor Peerlane: an :class:`Executor` has the nodes and carries work to them. Leaves out
what work is. An error of the work is an answer, only :class:`NodeLost` is a loss.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, Protocol, TypeAlias

Work: TypeAlias = Mapping[str, Any]
"""A task as it is sent to a node."""

Answer: TypeAlias = dict[str, Any]
"""Result of a task as a node sends it back."""

POLL = 0.5
"""Seconds between two looks at which nodes are up."""


class Node(NamedTuple):
    """A node that is up."""

    name: str
    """Name, which stays the same when the node comes back."""
    address: str
    """Network address."""
    id: str
    """Identifier of this run of the node."""


class NodeLost(Exception):
    """A node was lost before it answered."""

    def __init__(self, reason: str, *, is_final: bool = False) -> None:
        super().__init__(reason)
        self.is_final = is_final
        """Set where another attempt would end in the same way."""


class WorkLost(Exception):
    """Parts could not be done by any node."""

    def __init__(self, reasons: list[str]) -> None:
        super().__init__("; ".join(reasons))
        self.reasons = reasons


class Executor(Protocol):
    """Nodes, and a way to give them work."""

    def nodes(self) -> Sequence[Node]:
        """Nodes that are up now."""

    def submit(self, node: Node, work: Work) -> Future[Answer]:
        """Sends work to a node; the future ends with the answer or with :class:`NodeLost`."""

    def wait(self, futures: Collection[Future[Answer]], timeout: float) -> Collection[Future[Answer]]:
        """Waits for one of the futures, or without any for a change of nodes; those that are done."""

    def cancel(self, futures: Collection[Future[Answer]]) -> None:
        """Ends work whose answer is no longer needed."""


class NodesProgress(NamedTuple):
    """How far a task on several nodes is."""

    done: int
    """Answers or parts that are there."""
    total: int
    """Nodes or parts in all."""
    node: str
    """Node that this is about."""
    event: Literal["started", "done", "lost", "missing"]
    """What became of its work."""


@dataclass(frozen=True)
class Rules:
    """Bounds of retries."""

    retries: int
    """Times that lost work is repeated on a node."""
    patience: float
    """Seconds to wait for a lost node to come back."""
    clock: Callable[[], float] = time.monotonic
    """Seconds that only grow."""


@dataclass
class NodeState:
    """Account of a node."""

    name: str
    address: str = ""
    attempts: int = 0
    parts: int = 0
    losses: int = 0
    answer: Answer | None = None
    """Its answer where it has the whole task, else that to its last part."""
    reason: str | None = None
    """Reason of the last loss."""
    missing: str | None = None
    """Reason for giving the node up."""
    down_since: float | None = None
    lost_parts: set[int] = field(default_factory=set)

    def lose(self, loss: NodeLost, rules: Rules) -> None:
        """Counts a loss; after too many the node is given up."""
        self.losses += 1
        self.reason = str(loss)
        if loss.is_final:
            self.missing = self.reason
        elif self.losses > rules.retries:
            self.missing = f"{self.reason} (lost {self.losses} times)"

    def is_given_up(self, rules: Rules) -> bool:
        """Counts time that the node is down; given up when it was down for too long."""
        now = rules.clock()
        if self.down_since is None:
            self.down_since = now
        if now - self.down_since >= rules.patience and self.missing is None:
            reason = self.reason or "it is not in the cluster"
            self.missing = f"{reason} (not back within {rules.patience:g} s)"
        return self.missing is not None


class Gather:
    """A task while nodes work on it."""

    def __init__(
        self,
        executor: Executor,
        names: Sequence[str] | None,
        rules: Rules,
        tell: Callable[[NodesProgress], object],
    ) -> None:
        """A task on the nodes of these names, or on all that are up."""
        self._executor = executor
        self._rules = rules
        self._tell = tell
        up = {node.name: node for node in executor.nodes()}
        wanted = sorted(up) if names is None else list(dict.fromkeys(names))
        self.states = [NodeState(name) for name in wanted]
        self.repeated = 0
        self._running: dict[Future[Answer], tuple[NodeState, int]] = {}
        self._done = 0
        self._total = 0

    def on_each(self, work: Work) -> None:
        """Gives every node the same work; each state then has an answer or the reason for none."""
        self._total = len(self.states)
        try:
            while self._hand_out_to_all(work):
                for state, _, answer in self._finished():
                    state.answer = answer
                    self._count(state)
        finally:
            self._executor.cancel(list(self._running))

    def divide(self, works: Sequence[Work]) -> list[Answer]:
        """Divides work among the nodes; the answer to each part, in order, each counted once.

        Raises
        ------
        WorkLost
            No node is left, or a part was lost too often.
        """
        self._total = len(works)
        answers: dict[int, Answer] = {}
        pending = deque(range(len(works)))
        lost = [0] * len(works)
        try:
            while len(answers) < len(works):
                self._hand_out_parts(works, pending)
                for state, part, answer in self._finished():
                    if answer is None:
                        lost[part] += 1
                        self._check_part(part, lost[part])
                        pending.appendleft(part)
                        self.repeated += 1
                    elif part not in answers:
                        answers[part] = state.answer = answer
                        state.parts += 1
                        self._count(state)
        finally:
            self._executor.cancel(list(self._running))
        self._close()
        return [answers[part] for part in range(len(works))]

    def _hand_out_to_all(self, work: Work) -> bool:
        """Starts work where none runs; false when every node has answered or is given up."""
        up = self._up()
        busy = self._busy()
        is_open = False
        for state in self.states:
            if state.answer is not None or state.missing is not None:
                continue
            if state.name not in busy and not self._start(state, up, work, 0):
                continue
            is_open = True
        return is_open

    def _hand_out_parts(self, works: Sequence[Work], pending: deque[int]) -> None:
        """Gives each idle node a part, if one is left for it."""
        up = self._up()
        busy = self._busy()
        usable = [state for state in self.states if state.missing is None]
        for state in usable:
            if state.name in busy:
                continue
            others = any(one.name in up and one is not state for one in usable)
            part = _choose(pending, state, others)
            if part is None:
                continue
            if state.name in up:
                pending.remove(part)
            self._start(state, up, works[part], part)
        if all(state.missing is not None for state in self.states):
            raise WorkLost(
                [f"{state.name}: {state.missing}" for state in self.states] or ["the cluster has no node"]
            )

    def _start(self, state: NodeState, up: Mapping[str, Node], work: Work, part: int) -> bool:
        """Starts work on a node that is up; false when a node that is down is given up."""
        node = up.get(state.name)
        if node is None:
            if state.is_given_up(self._rules):
                self._report(state, "missing")
                return False
            return True
        state.down_since = None
        state.address = node.address
        state.attempts += 1
        future = self._executor.submit(node, work)
        self._running[future] = (state, part)
        self._report(state, "started")
        return True

    def _finished(self) -> list[tuple[NodeState, int, Answer | None]]:
        """Waits for answers; a loss is an answer of none."""
        found: list[tuple[NodeState, int, Answer | None]] = []
        for future in self._executor.wait(list(self._running), POLL):
            state, part = self._running.pop(future)
            try:
                found.append((state, part, future.result()))
            except NodeLost as loss:
                state.lose(loss, self._rules)
                state.lost_parts.add(part)
                self._report(state, "lost" if state.missing is None else "missing")
                found.append((state, part, None))
        return found

    def _check_part(self, part: int, times: int) -> None:
        """Ends the task for a part that takes every node down."""
        if times > self._rules.retries + len(self.states):
            raise WorkLost([f"part {part} was lost {times} times"])

    def _close(self) -> None:
        """Names the nodes that were lost and are not back at the end."""
        up = self._up()
        for state in self.states:
            if state.missing is None and state.name not in up:
                state.missing = state.reason or "it is not in the cluster"
                self._report(state, "missing")

    def _up(self) -> dict[str, Node]:
        up = {node.name: node for node in self._executor.nodes()}
        for state in self.states:
            if state.name in up:
                state.address = up[state.name].address
        return up

    def _busy(self) -> set[str]:
        return {state.name for state, _ in self._running.values()}

    def _count(self, state: NodeState) -> None:
        if state.answer is not None:
            self._done += 1
            self._report(state, "done")

    def _report(self, state: NodeState, event: Literal["started", "done", "lost", "missing"]) -> None:
        self._tell(NodesProgress(self._done, self._total, state.name, event))


def _choose(pending: deque[int], state: NodeState, has_others: bool) -> int | None:
    """The first part that this node did not lose before; any where no other node is up."""
    fresh = (part for part in pending if part not in state.lost_parts)
    return next(fresh, None if has_others or not pending else pending[0])
