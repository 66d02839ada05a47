"""Progress of a load, by bytes."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable
from typing import Literal, NamedTuple, TypeAlias

from .errors import BadInput

PAUSE = 0.05
"""Seconds between two calls."""
WIDTH = 30
"""Characters of a full bar."""


class LoadProgress(NamedTuple):
    """Bytes that are there, and how they came."""

    done: int
    total: int
    rate: float
    """GB/s (1e9 bytes) since the load began."""
    route: str
    """Routes so far, with ``+`` between them."""


Progress: TypeAlias = Callable[[LoadProgress], object] | Literal["bar"] | None
"""What hears of progress."""


class Teller:
    """Tells progress, from whatever thread has some; the last call has all bytes."""

    def __init__(self, progress: Progress, total: int, route: Callable[[], str]) -> None:
        if not (progress is None or callable(progress) or progress == "bar"):
            raise BadInput([f"progress: something to call or 'bar' is needed, not {progress!r}"])
        self._call = _bar if progress == "bar" else progress
        self._total, self._route = total, route
        self._lock = threading.Lock()
        self._begun = time.monotonic()
        self._done, self._told = 0, 0.0

    def add(self, size: int) -> None:
        """Tells of further bytes."""
        if self._call is None or not callable(self._call):
            return
        with self._lock:
            # A tensor of which only columns are wanted may be read as a whole.
            self._done = min(self._done + size, self._total)
            now = time.monotonic()
            if now - self._told < PAUSE and self._done < self._total:
                return
            if self._told and self._done == self._total and not size:
                return
            self._told = now
            rate = self._done / max(now - self._begun, 1e-9) / 1e9
            self._call(LoadProgress(self._done, self._total, rate, self._route()))


def _bar(progress: LoadProgress) -> None:
    """Draws a line over the one before; on anything but a terminal the last one alone."""
    is_last = progress.done == progress.total
    is_terminal = sys.stderr.isatty()
    if not (is_terminal or is_last):
        return
    share = progress.done / progress.total if progress.total else 1.0
    full = int(share * WIDTH)
    line = (
        f"[{'#' * full}{' ' * (WIDTH - full)}] {progress.done / 1e9:.2f} of "
        f"{progress.total / 1e9:.2f} GB, {progress.rate:.2f} GB/s, {progress.route}"
    )
    begin, end = ("\r", "\033[K") if is_terminal else ("", "")
    print(f"{begin}{line}{end}", end="\n" if is_last else "", file=sys.stderr, flush=True)
