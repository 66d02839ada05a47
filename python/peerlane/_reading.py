"""Bytes of files into memory: mapped, by DMA, out of the page cache, or into a GPU."""

from __future__ import annotations

import mmap
import os
import resource
import stat
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from io import FileIO
from itertools import groupby
from pathlib import Path
from typing import Any, NamedTuple, TypeVar
from weakref import WeakSet

from . import _peerlane
from ._reader import NOTHING, TIMEOUT, Reader, Reading
from ._shards import Identity
from .errors import BadInput, OutOfMemory, PeerlaneError

T = TypeVar("T")
SAMPLES = 64
"""Places of a file that are looked up in the page cache."""
ABSENT_MAX = 4
"""Places that may be absent from it, since kernels reclaim single pages of files that are cached for long."""
THREADS = 8
"""Threads that read into host memory at the same time."""
TOGETHER = 8 << 20
"""Bytes of several ranges that a thread reads together."""
STEP = 64 << 20
"""Bytes of one range read between two checks for a stop."""
FILES = 128
"""Files that a load into a GPU has open at a time, each once or twice: a process may have 1024."""
CACHED_SECONDS = 1.0
"""Seconds for which one look at the page cache counts."""
NORESERVE = 0x4000
"""``MAP_NORESERVE``, unnamed in ``mmap`` before Python 3.13: reserves no memory for stores."""
STACK = 8 << 20
"""Bytes of a thread's stack."""
POPULATE_READ = 22
"""``MADV_POPULATE_READ`` of Linux 5.14, which the module ``mmap`` has no name for."""

_MAPS: WeakSet[mmap.mmap] = WeakSet()
"""Mappings of all models, each of which holds a descriptor."""


class Fill(NamedTuple):
    """Memory, and the range of a file that it is filled with."""

    shard: int
    offset: int
    memory: Any

    @property
    def length(self) -> int:
        """Bytes of both."""
        return len(self.memory)


class Stopped(PeerlaneError):
    """Nobody waits for the bytes any more."""


class Tally:
    """What was read: bytes by file and by route. Threads share it."""

    def __init__(self, above: Tally | None = None) -> None:
        self.readings: dict[int, Reading] = {}
        self.routes: dict[str, int] = {}
        self.last_route: dict[int, str] = {}
        """Latest route of each file."""
        self.read = 0
        """Bytes asked of files, in whole blocks where the drive is asked."""
        self.bytes = 0
        """Bytes of tensors that were handed out."""
        self.cast: dict[str, int] = {}
        self.seconds = 0.0
        self.peak = 0
        self.notices: list[str] = []
        self._above = above
        self._lock = threading.Lock()

    def count(self, shard: int, reading: Reading, read: int, route: str) -> None:
        """Counts bytes of a file, here and above."""
        with self._lock:
            self.readings[shard] = self.readings.get(shard, NOTHING).plus(reading)
            self.routes[route] = self.routes.get(route, 0) + reading.bytes
            self.last_route[shard] = route
            self.read += read
        if self._above is not None:
            self._above.count(shard, reading, read, route)

    def count_route(self, route: str, size: int) -> None:
        """Counts bytes that came from elsewhere."""
        with self._lock:
            self.routes[route] = self.routes.get(route, 0) + size
        if self._above is not None:
            self._above.count_route(route, size)

    def count_out(self, size: int, cast: str | None) -> None:
        """Counts a tensor that is handed out."""
        with self._lock:
            self.bytes += size
            if cast:
                self.cast[cast] = self.cast.get(cast, 0) + size
        if self._above is not None:
            self._above.count_out(size, cast)

    def spend(self, seconds: float) -> None:
        """Counts time in which bytes were read."""
        with self._lock:
            self.seconds += seconds
        if self._above is not None:
            self._above.spend(seconds)

    def rise(self, peak: int) -> None:
        """Keeps the most memory that was held at a time."""
        with self._lock:
            self.peak = max(self.peak, peak)
        if self._above is not None:
            self._above.rise(peak)


class Source:
    """Files of a model. Threads share it.

    With ``identities``, a file that replaced another one is an error.
    """

    def __init__(
        self, paths: Sequence[Path], pinned: str | None, identities: Sequence[Identity] | None = None
    ) -> None:
        self.paths = paths
        self._pinned = pinned
        self._identities = identities
        self._readers: dict[int, Reader] = {}
        self._cached: dict[int, float] = {}
        self._lock = threading.Lock()

    def is_cached(self, shard: int, size: int) -> bool:
        """Whether a file lies in the page cache, or did within the last second."""
        if time.monotonic() < self._cached.get(shard, 0) + CACHED_SECONDS:
            return True
        with self._open(shard) as file:
            found = _is_cached(file.fileno(), size)
        if found:
            self._cached[shard] = time.monotonic()
        return found

    def is_direct(self, shard: int) -> bool:
        """Whether reads of a file go round the page cache."""
        return self._reader(shard).is_direct

    def map(self, shard: int, size: int) -> memoryview | None:
        """A private mapping of a file; ``None`` if limits leave no room for one.

        Mappings are never shared: a store to one tensor must not change the next load.
        """
        if len(_MAPS) >= _files_max() // 4:
            return None
        with self._open(shard) as file:
            try:
                memory = mmap.mmap(
                    file.fileno(), size, mmap.MAP_PRIVATE | NORESERVE, mmap.PROT_READ | mmap.PROT_WRITE
                )
            except ValueError as error:
                raise PeerlaneError([f"{self.paths[shard]} became shorter while it was read"]) from error
            except OSError:
                return None
        _MAPS.add(memory)
        return memoryview(memory)

    def fill(
        self,
        fills: Sequence[Fill],
        is_gpu: bool,
        tally: Tally,
        told: Callable[[int], None],
        stop: threading.Event,
    ) -> None:
        """Fills all of them, and says how many bytes are there, again and again."""
        if is_gpu:
            for some in _by_files(fills):
                self._to_gpu(some, tally, told, stop)
        else:
            self._to_host(fills, tally, told, stop)

    def close(self) -> None:
        """Closes files that no thread reads."""
        with self._lock:
            self._readers.clear()

    def _open(self, shard: int) -> FileIO:
        path = self.paths[shard]
        try:
            # Opening a pipe that took the place of the file would wait for a writer.
            file = FileIO(path, opener=lambda name, mode: os.open(name, mode | os.O_NONBLOCK))
        except OSError as error:
            kind = BadInput if isinstance(error, FileNotFoundError) else PeerlaneError
            raise kind([f"cannot open {path}", str(error)]) from error
        try:
            self._compare(shard, os.fstat(file.fileno()))
        except BaseException:
            file.close()
            raise
        return file

    def _compare(self, shard: int, facts: os.stat_result) -> None:
        """Refuses any file but the one of the header, which describes no other bytes."""
        if self._identities is None or identity(facts) == self._identities[shard]:
            return
        what = "was replaced or changed"
        if not stat.S_ISREG(facts.st_mode):
            what = "became something else than a file"
        elif facts.st_size < self._identities[shard][2]:
            what = "became shorter"
        words = f"{self.paths[shard]} {what} after its header was read"
        raise PeerlaneError([words], hint="open the model again")

    def _reader(self, shard: int) -> Reader:
        with self._lock:
            found = self._readers.get(shard)
            if found is None:
                if len(self._readers) >= min(FILES, _files_max() // 8):
                    self._readers.clear()
                found = Reader(self.paths[shard])
                # Compared after the open, to notice a replacement just before it.
                self._compare(shard, self._facts(shard))
                self._readers[shard] = found
            return found

    def _to_host(
        self,
        fills: Sequence[Fill],
        tally: Tally,
        told: Callable[[int], None],
        stop: threading.Event,
    ) -> None:
        """Fills memory by several threads; a single range or batch on this thread."""
        # Each return to Python waits for its lock: 18,000 ranges by one call each took twice as long.
        some = list(batches(_steps(fills), TOGETHER, lambda fill: fill.length))

        def read(part: Sequence[Fill]) -> None:
            for shard, ranges in groupby(part, lambda fill: fill.shard):
                self._read(shard, list(ranges), tally, told, stop)

        if len(fills) == 1 or len(some) == 1:
            for part in some:
                read(part)
            return
        with ThreadPoolExecutor(max(1, min(THREADS, len(some), _files_max() // 8))) as threads:
            try:
                # A list of futures would keep the memory of a load that failed, in a cycle with its error.
                for _ in started(lambda: threads.map(read, some)):
                    pass
            except BaseException:
                stop.set()
                raise

    def _read(
        self,
        shard: int,
        fills: Sequence[Fill],
        tally: Tally,
        told: Callable[[int], None],
        stop: threading.Event,
    ) -> None:
        reader = self._reader(shard)
        if stop.is_set():
            raise Stopped([f"{reader.path} is not read any more"])
        reading = reader._read_ranges([(fill.offset, fill.memory) for fill in fills])
        size = sum(fill.length for fill in fills)
        if reading.bytes != size:
            raise PeerlaneError([f"{reader.path} became shorter while it was read"])
        self._compare_written(shard)
        block, end = reader.block, reader.size
        read = sum(
            min(-(-(fill.offset + fill.length) // block) * block, end) - fill.offset // block * block
            for fill in fills
        )
        tally.count(shard, reading, read, "direct" if reader.is_direct else "page cache")
        told(size)

    def _facts(self, shard: int) -> os.stat_result:
        path = self.paths[shard]
        try:
            return os.stat(path)
        except OSError as error:
            raise PeerlaneError([f"cannot look at {path}", str(error)]) from error

    def _compare_written(self, shard: int) -> None:
        """Refuses a file written to in place; a replaced file keeps its bytes for open readers."""
        with suppress(OSError):
            facts = os.stat(self.paths[shard])
            if self._identities is not None and identity(facts)[:2] == self._identities[shard][:2]:
                self._compare(shard, facts)

    def _to_gpu(
        self,
        fills: Sequence[Fill],
        tally: Tally,
        told: Callable[[int], None],
        stop: threading.Event,
    ) -> None:
        last = 0

        def heard(_phase: str, done: int, _total: int) -> None:
            nonlocal last
            if stop.is_set():
                raise Stopped(["the files are not read any more"])
            told(done - last)
            last = done

        shards = {fill.shard for fill in fills}
        for shard in shards:
            self._compare(shard, self._facts(shard))
        parts = [(self.paths[fill.shard], fill.offset, fill.memory) for fill in fills]
        found = _peerlane.load_to_gpu(parts, TIMEOUT, self._pinned, heard, tally.notices.append)
        for shard in shards:
            # The load opened it by name: it may have read a replacement.
            with suppress(OSError):
                self._compare(shard, os.stat(self.paths[shard]))
        total = 0
        for fill, reading in zip(fills, found, strict=True):
            counts = Reading(**reading)
            # A drive's bytes come directly for a whole range, or for none of it.
            tally.count(fill.shard, counts, fill.length, "p2p" if counts.direct else "host")
            total += fill.length
        told(total - last)


def identity(facts: os.stat_result) -> Identity:
    """Facts that distinguish files of one name."""
    return facts.st_dev, facts.st_ino, facts.st_size, *divmod(facts.st_mtime_ns, 10**9)


def _files_max() -> int:
    """Limit of open files of this process."""
    soft = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return 1 << 20 if soft == resource.RLIM_INFINITY else max(4, soft)


def populate(memory: Any, begin: int, length: int) -> None:
    """Has pages of a mapping that lie in the page cache mapped at once."""
    page = begin // mmap.PAGESIZE * mmap.PAGESIZE
    with suppress(OSError):
        memory.obj.madvise(POPULATE_READ, page, begin + length - page)


def started(start: Callable[[], T]) -> T:
    """What needs new threads, which a limit of memory or of tasks may refuse."""
    try:
        return start()
    except RuntimeError as error:
        words = ["cannot start a thread that reads files", str(error)]
        # Under a limit of address space, memory that was short may be there again: threads that began gave back what
        # glibc maps for an arena, 128 MiB for a moment (malloc/arena.c).
        is_limited = resource.getrlimit(resource.RLIMIT_AS)[0] != resource.RLIM_INFINITY
        kind = OutOfMemory if is_limited or not _has_room(STACK) else PeerlaneError
        raise kind(words, hint="ulimit -u -v shows the limits") from error


def _has_room(size: int) -> bool:
    """Whether memory of a size can be had."""
    try:
        mmap.mmap(-1, size).close()
    except OSError:
        return False
    return True


def batches(items: Iterable[T], limit: int, size: Callable[[T], int]) -> Iterator[list[T]]:
    """The same in their order, as many at a time as a bound has room for, at least one."""
    some: list[T] = []
    total = 0
    for item in items:
        if some and total + size(item) > limit:
            yield some
            some, total = [], 0
        some.append(item)
        total += size(item)
    if some:
        yield some


def _steps(fills: Iterable[Fill]) -> Iterator[Fill]:
    """Splits ranges at ``STEP`` bytes."""
    for fill in fills:
        for begin in range(0, fill.length, STEP):
            yield Fill(fill.shard, fill.offset + begin, fill.memory[begin : begin + STEP])


def _by_files(fills: Sequence[Fill]) -> Iterator[list[Fill]]:
    """The same in their order, of few files at a time."""
    some: list[Fill] = []
    shards: set[int] = set()
    for fill in fills:
        if len(shards | {fill.shard}) > FILES:
            yield some
            some, shards = [], set()
        some.append(fill)
        shards.add(fill.shard)
    if some:
        yield some


def _is_cached(file: int, size: int) -> bool:
    """Whether the page cache answers at places all over a file without asking the disk.

    ``RWF_NOWAIT`` may begin to read ahead where it does not answer (Linux 5.9); as a file that is read at random, one
    page at most.
    """
    try:
        os.posix_fadvise(file, 0, 0, os.POSIX_FADV_RANDOM)
    except OSError:
        return False
    absent = 0
    for offset in _places(size):
        try:
            absent += os.preadv(file, [bytearray(1)], offset, os.RWF_NOWAIT) != 1
        except OSError:
            absent += 1
        if absent > ABSENT_MAX:
            return False
    return True


def _places(size: int) -> Iterable[int]:
    """From the end on, since an earlier reader read the beginning first."""
    return (size * place // SAMPLES for place in reversed(range(SAMPLES)))
