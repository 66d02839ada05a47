"""One request for tensors: its parts in their order, their memory, and what is read ahead."""

from __future__ import annotations

import os
import threading
import time
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from itertools import zip_longest
from typing import Any, NamedTuple

from . import _limits
from ._pieces import BITS, SCRATCH, SMALL, STRETCH, Part, PartKind, Piece, Step, parts
from ._progress import Teller
from ._reader import Reading
from ._reading import Fill, Source, Stopped, Tally, batches, populate, started
from ._shards import Shard
from ._views import Views
from .errors import OutOfMemory, PeerlaneError

PAGE = 4096
"""Unit in which places of host memory agree with those of files."""
READ_AHEAD = 4
"""Batches that the bound of memory has room for: one is read while others wait to be handed out."""


class Filled(NamedTuple):
    """A part in memory."""

    part: Part
    memory: Any
    at: int
    """Place in the memory of the part's first byte."""


class Job:
    """Parts of files for one request, and how they come."""

    def __init__(
        self,
        shards: Sequence[Shard],
        views: Views,
        source: Source,
        wanted: Sequence[Piece],
        *,
        memory: int | None,
        may_map: bool,
        tally: Tally,
    ) -> None:
        for one in {one.dtype: one for one in wanted}.values():
            views.check(one)
        self._views, self._source = views, source
        self.tally = Tally(tally)
        self.stop = threading.Event()
        self.maps: dict[int, memoryview] = {}
        self.unmappable: set[int] = set()
        """Files in the page cache that limits keep from being mapped."""
        if may_map and not views.is_gpu:
            self._map({one.shard: shards[one.shard].size for one in wanted if one.bytes})
        # A batch takes no more; without a bound of memory all is read at once.
        bound = STRETCH if memory is None else max(1, memory // READ_AHEAD)
        width = (lambda _: 0) if memory is None else self._width
        self.parts = list(
            parts(wanted, memory is not None, lambda shard: shard in self.maps, bound, width)
        )
        self.total = sum(part.read for part in self.parts)
        """Bytes that are read."""
        self._process = os.getpid()

    def _map(self, sizes: Mapping[int, int]) -> None:
        for shard, size in sizes.items():
            if self._source.is_cached(shard, size):
                found = self._source.map(shard, size)
                if found is None:
                    self.unmappable.add(shard)
                else:
                    self.maps[shard] = found

    @property
    def route(self) -> str:
        """Routes of bytes so far."""
        return "+".join(self.tally.routes)

    def fill(self, batch: Sequence[Part], teller: Teller) -> list[Filled]:
        """Parts in memory, all read at the same time."""
        begun = time.monotonic()
        if not self._views.is_gpu:
            _limits.check(self.cost(batch))
        placed = [self.place(part) for part in batch]
        fills = [fill for one in placed for fill in _fills(one)]
        for stretched in batches(placed, SCRATCH, lambda one: one.part.scratch):
            stretched = [one for one in stretched if one.part.scratch]
            for steps in zip_longest(*(one.part.steps() for one in stretched)):
                together = [(one, step) for one, step in zip(stretched, steps, strict=True) if step]
                self._read(together, fills, teller)
                fills = []
        if fills:
            self._read([], fills, teller)
        self.tally.spend(time.monotonic() - begun)
        return placed

    @staticmethod
    def scratch(batch: Sequence[Part]) -> int:
        """Bytes of memory that parts take while they are read together, in addition to their own."""
        together = batches(batch, SCRATCH, lambda part: part.scratch)
        return max((sum(part.scratch for part in some) for some in together), default=0)

    def cost(self, batch: Sequence[Part]) -> int:
        """Bytes of memory that parts take while they are read together."""
        return sum(part.length for part in batch) + self.scratch(batch)

    def _read(self, steps: list[tuple[Filled, Step]], fills: list[Fill], teller: Teller) -> None:
        """Reads ranges to their place, and a step of each tensor that is read by way of scratch memory."""
        scratch = [self._scratch(filled.part, step) for filled, step in steps]
        for (filled, step), (memory, at) in zip(steps, scratch, strict=True):
            fills = [*fills, *_step_fills(filled.part.shard, step, memory, at)]
        self._source.fill(fills, self._views.is_gpu, self.tally, teller.add, self.stop)
        for (filled, step), (memory, at) in zip(steps, scratch, strict=True):
            one = filled.part.pieces[0]
            self._views.gather(memory, at, step, filled.memory, one, is_cast=filled.part.width > 0)

    def _scratch(self, part: Part, step: Step) -> tuple[Any, int]:
        # Numbers that are cast have to be aligned.
        is_in_place = not step.is_packed and not (part.width and _is_misaligned(part.pieces[0]))
        phase = step.begin % PAGE if is_in_place else 0
        memory = self._views.allocate(step.length, phase)
        return memory, 0 if self._views.is_gpu else phase

    def _width(self, one: Piece) -> int:
        # What a cast in steps does on a GPU did not run on one.
        return self._views.cast_width if self._views.casts(one) and not self._views.is_gpu else 0

    @property
    def is_in_child(self) -> bool:
        """Whether the process has forked since, and this is the child, without reading threads."""
        return os.getpid() != self._process

    def refuse_child(self) -> None:
        """Raises in a forked child."""
        if self.is_in_child:
            words = ["cannot continue a stream after its process forks: its thread reads in the parent"]
            raise PeerlaneError(words, hint="call stream() again in the child")

    def close(self) -> None:
        """Closes the files."""
        self._source.close()

    def context(self) -> AbstractContextManager[Any]:
        """What another thread enters to work in the stream of this one."""
        return self._views.context()

    def place(self, part: Part) -> Filled:
        """Memory for a part; that of a mapping has its content."""
        if not part.end - part.begin:
            return Filled(part, None, 0)
        if part.kind is PartKind.MAPPED:
            count = sum(one.bytes for one in part.pieces)
            self.tally.count(part.shard, Reading(count, 0, 0, 0, count), count, "mapped")
            return Filled(part, self.maps[part.shard], part.begin)
        is_range = part.kind in (PartKind.RANGE, PartKind.GROUP)
        # A tensor alone that the file misaligns is read to where it is aligned: no copy has to be made of it.
        is_moved = len(part.pieces) == 1 and _is_misaligned(part.pieces[0])
        at = 0 if self._views.is_gpu or not is_range or is_moved else part.begin % PAGE
        return Filled(part, self._views.allocate(part.length, at), at)

    def take(self, filled: Filled, number: int, teller: Teller | None = None) -> Any:
        """A tensor of a part, for the caller."""
        try:
            return self._take(filled, number, teller)
        except OutOfMemory:
            raise
        except (MemoryError, RuntimeError) as error:
            # PyTorch raises a RuntimeError by its allocator of host memory.
            if isinstance(error, RuntimeError) and "can't allocate memory" not in str(error):
                raise
            name = filled.part.pieces[number].name
            words = [f"cannot have host memory for tensor {name!r}", str(error)]
            raise OutOfMemory(words, hint=_limits.MEMORY_HINT) from error

    def _take(self, filled: Filled, number: int, teller: Teller | None) -> Any:
        part, memory, at = filled
        one = part.pieces[number]
        size = one.bytes
        begin = at + one.begin - part.begin
        is_cast = part.width > 0
        is_mapped = part.kind is PartKind.MAPPED
        if one.runs > 1 and (is_mapped or part.kind is PartKind.GROUP):
            tensor, is_cast = self._views.columns(memory, begin, one), True
        else:
            if is_mapped and size >= SMALL:
                populate(memory, begin, size)
            tensor = self._views.tensor(memory, begin, one, is_cast=is_cast)
            if part.kind is PartKind.GROUP:
                tensor = self._views.own(tensor)
        if is_mapped and teller is not None:
            teller.add(size)
        cast = None
        if self._views.casts(one):
            if not is_cast:
                before, tensor = tensor, self._views.cast(tensor)
                del before
            cast = f"{one.dtype} to {str(tensor.dtype).removeprefix('torch.')}"
        self.tally.count_out(size, cast)
        return tensor


def _is_misaligned(one: Piece) -> bool:
    """Whether a file has the numbers of a piece at places that are no multiple of their size."""
    return one.begin % max(1, BITS[one.dtype] // 8) != 0


def _step_fills(shard: int, step: Step, memory: Any, at: int) -> list[Fill]:
    """Ranges that are read into scratch memory."""
    if not step.is_packed:
        return [Fill(shard, step.begin, memory[at : at + step.length])]
    return [
        Fill(shard, step.begin + number * step.stride, memory[at + number * step.run :][: step.run])
        for number in range(step.runs)
    ]


def _fills(filled: Filled) -> list[Fill]:
    """Ranges that are read straight to their place."""
    part, memory, at = filled
    if part.kind in (PartKind.RANGE, PartKind.GROUP) and part.length:
        return [Fill(part.shard, part.begin, memory[at : at + part.length])]
    if part.kind is not PartKind.RUNS:
        return []
    one = part.pieces[0]
    return [
        Fill(one.shard, one.begin + number * one.stride, memory[number * one.run : (number + 1) * one.run])
        for number in range(one.runs)
    ]


class Budget:
    """A bound of memory that one thread takes of and another gives back to."""

    def __init__(self, limit: int) -> None:
        self._limit, self._used, self.peak = limit, 0, 0
        self._changed = threading.Condition()
        self._is_stopped = False

    def take(self, size: int) -> None:
        """Waits until there is room; what is larger than all of it has it alone."""
        with self._changed:
            self._changed.wait_for(
                lambda: self._is_stopped or not self._used or self._used + size <= self._limit
            )
            if self._is_stopped:
                raise Stopped(["the files are not read any more"])
            self._used += size
            self.peak = max(self.peak, self._used)

    def give(self, size: int) -> None:
        """Gives back."""
        with self._changed:
            self._used -= size
            self._changed.notify_all()

    def stop(self) -> None:
        """Ends all waits."""
        with self._changed:
            self._is_stopped = True
            self._changed.notify_all()


class Ahead:
    """Parts in memory in their order, read by a thread of its own while others are handed out."""

    def __init__(self, job: Job, wanted: Sequence[Part], memory: int, teller: Teller) -> None:
        self._job, self._teller = job, teller
        self._budget = Budget(memory)
        self._batches = batches(wanted, max(1, memory // READ_AHEAD), lambda part: part.cost)
        self._ready: deque[Filled] = deque()
        self._changed = threading.Condition()
        self._is_over = False
        self._error: BaseException | None = None
        self._thread: threading.Thread | None = None
        if any(part.kind is not PartKind.MAPPED for part in wanted):
            context = job.context()
            self._thread = threading.Thread(target=self._run, args=(context,), daemon=True)
            try:
                started(self._thread.start)
            except BaseException:
                job.close()
                raise

    def next(self) -> Filled | None:
        """The next part; ``None`` behind the last."""
        if self._thread is None:
            if not self._ready:
                self._ready.extend(self._job.fill(next(self._batches, []), self._teller))
            return self._ready.popleft() if self._ready else None
        self._job.refuse_child()
        with self._changed:
            self._changed.wait_for(lambda: self._ready or self._is_over)
            if self._ready:
                return self._ready.popleft()
        if self._error is not None:
            raise self._error
        return None

    def give(self, part: Part) -> None:
        """Says that all tensors of a part are the caller's."""
        self._budget.give(part.length)

    def close(self) -> None:
        """Ends the thread."""
        if self._job.is_in_child:
            # The parent's threads may hold its locks, here for ever.
            return
        self._job.stop.set()
        self._budget.stop()
        if self._thread is not None:
            self._thread.join()
        self._job.close()
        self._ready.clear()
        # Its traceback has this object, and all memory that was being filled.
        self._error = None
        self._job.tally.rise(self._budget.peak)

    def _run(self, context: Any) -> None:
        try:
            with context:
                for batch in self._batches:
                    self._budget.take(self._job.cost(batch))
                    filled = self._job.fill(batch, self._teller)
                    self._budget.give(self._job.scratch(batch))
                    with self._changed:
                        self._ready.extend(filled)
                        self._changed.notify_all()
                    del filled
        except BaseException as error:
            self._error = error
        finally:
            with self._changed:
                self._is_over = True
                self._changed.notify_all()

