"""Nodes that are plain processes: one a node, which dies as a node does."""

from __future__ import annotations

import multiprocessing
import threading
from collections.abc import Callable, Collection, Mapping
from concurrent import futures
from concurrent.futures import Future
from multiprocessing import connection
from typing import Any

from peerlane._gather import Node, NodeLost
from peerlane._tasks import perform

CONTEXT = multiprocessing.get_context("spawn")

# Of two threads that wait for a process at once, one finds no child and no exit status.
REAPING = threading.Lock()


def _serve(pipe: connection.Connection, act: Callable[[Mapping[str, Any]], Any]) -> None:
    while True:
        try:
            work = pipe.recv()
        except EOFError:
            return
        pipe.send(act(work))


class Processes:
    """An executor whose nodes can be killed and started again."""

    def __init__(
        self, names: Collection[str], act: Callable[[Mapping[str, Any]], Any] = perform
    ) -> None:
        self._act = act
        self._processes: dict[str, tuple[multiprocessing.process.BaseProcess, connection.Connection]] = {}
        self._changed = threading.Event()
        for name in names:
            self.start(name)

    def start(self, name: str) -> None:
        """Starts a node, or starts it again."""
        ours, theirs = CONTEXT.Pipe()
        process = CONTEXT.Process(target=_serve, args=(theirs, self._act), daemon=True)
        process.start()
        theirs.close()
        self._processes[name] = (process, ours)
        self._changed.set()

    def kill(self, name: str) -> None:
        """Ends a node by SIGKILL."""
        process, _ = self._processes[name]
        process.kill()
        with REAPING:
            process.join()

    def close(self) -> None:
        """Ends all nodes."""
        for name in self._processes:
            self.kill(name)

    def nodes(self) -> list[Node]:
        with REAPING:
            return [
                Node(name, "127.0.0.1", str(process.pid))
                for name, (process, _) in self._processes.items()
                if process.is_alive()
            ]

    def submit(self, node: Node, work: Mapping[str, Any]) -> Future[dict[str, Any]]:
        answer: Future[dict[str, Any]] = Future()
        process, pipe = self._processes[node.name]
        threading.Thread(target=_carry, args=(process, pipe, work, answer), daemon=True).start()
        return answer

    def wait(self, waiting, timeout):
        if waiting:
            return futures.wait(waiting, timeout, futures.FIRST_COMPLETED).done
        self._changed.wait(timeout)
        self._changed.clear()
        return []

    def cancel(self, waiting) -> None:
        pass


def _carry(process, pipe, work, answer) -> None:
    """Sends work and waits for the answer, or for the end of the process."""
    try:
        pipe.send(work)
        ready = connection.wait([pipe, process.sentinel])
        if pipe in ready:
            answer.set_result(pipe.recv())
            return
    except (EOFError, OSError):
        pass
    with REAPING:
        process.join()
    answer.set_exception(NodeLost(f"its process ended with {process.exitcode}"))
