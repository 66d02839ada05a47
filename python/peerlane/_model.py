"""A model of safetensors files: tensors and parts of them, one by one, in a stream, or all at once."""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Literal, NamedTuple

from . import _peerlane
from ._broadcast import Group
from ._job import Ahead, Filled, Job
from ._pieces import REQUEST, SCRATCH, Cut, Part, PartKind, Piece, piece, pieces
from ._progress import Progress, Teller
from ._reader import NOTHING, Reading, warn
from ._reading import ABSENT_MAX, SAMPLES, Source, Tally, batches
from ._shards import Catalogue, TensorInfo
from ._types import Size
from ._views import Views
from .errors import BadInput, PeerlaneError

LOG = logging.getLogger("peerlane")
UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}
"""Factors of sizes."""


class FileRoute(NamedTuple):
    """How the tensors of one file came."""

    path: str
    route: str
    """``direct``: by DMA into the tensors' memory; ``mapped``: the page cache itself; ``page cache``: copied
    out of it; ``p2p``: from the drive to the GPU; ``host``: to the GPU through pinned host memory;
    ``broadcast``: from another rank."""
    reason: str
    reading: Reading


class ColumnPlan(NamedTuple):
    """How a tensor of which columns are asked for would come, and what either way would cost."""

    name: str
    bytes: int
    is_by_runs: bool
    """Whether each run of bytes is read by itself; else all between them is read, too."""
    requests: int
    """Runs."""
    run_bytes: int
    """Bytes of the whole blocks of 4 KiB that the runs lie in: a drive and the page cache give no less."""
    run_cost: int
    """Bytes that could be read in the time of the runs, with 24 KiB for each request."""
    whole_bytes: int
    """Bytes from the first run to the last, with all between them."""


class FilePlan(NamedTuple):
    """How the tensors of one file would come."""

    path: str
    route: str
    """As in :class:`FileRoute`."""
    reason: str
    bytes: int
    """Bytes of tensors."""
    read: int
    """Bytes to be asked of the file: more where a tensor's columns are read with all between them."""
    requests: int
    """Ranges to be read."""
    columns: list[ColumnPlan]
    """Tensors of which columns are asked for, and why they come as they do."""


class Report(NamedTuple):
    """How all tensors so far came."""

    bytes: int
    """Bytes of tensors that were handed out, in the types of the files."""
    read: int
    """Bytes asked of files, in whole blocks where the drive is asked."""
    routes: dict[str, int]
    """Bytes by route, as in :class:`FileRoute`."""
    page_cache: int
    """Bytes that came out of the page cache, or through it where the file takes no direct I/O."""
    disk: int
    """Bytes that came from the drive, round the page cache."""
    seconds: float
    """Time in which bytes were read; those of a mapping are not."""
    peak_pinned: int
    """The most host memory that all loads of this process had pinned for GPUs."""
    peak_memory: int
    """The most memory held for tensors before they were handed out, in bytes."""
    cast: dict[str, int]
    """Bytes that ``dtype=`` changed, by types: ``"F32 to bfloat16"``."""

    @property
    def rate(self) -> float:
        """GB/s (1e9 bytes) of what was read; 0 where nothing was."""
        moved = sum(size for route, size in self.routes.items() if route != "mapped")
        return moved / self.seconds / 1e9 if self.seconds and moved else 0.0

    def __str__(self) -> str:
        ways = ", ".join(f"{size / 1e9:.3f} GB {route}" for route, size in self.routes.items())
        words = f"{self.bytes / 1e9:.3f} GB of tensors: {ways or 'nothing read'}"
        words += f"; {self.page_cache / 1e9:.3f} GB from the page cache, {self.disk / 1e9:.3f} GB from the drive"
        if self.rate:
            words += f"; {self.seconds:.2f} s, {self.rate:.2f} GB/s"
        for types, size in self.cast.items():
            words += f"; {size / 1e9:.3f} GB cast from {types}"
        return words


class Tensors(dict[str, Any]):
    """Tensors by name, and how they came."""

    def __init__(self, tensors: dict[str, Any], files: list[FileRoute], metadata: dict[str, str]):
        super().__init__(tensors)
        self.files = files
        """One a file."""
        self.metadata = metadata
        """What the files say of themselves (``__metadata__``)."""

    @property
    def route(self) -> str:
        """The routes of all files, each once, with ``+`` between them."""
        return "+".join(dict.fromkeys(file.route for file in self.files))


class Model:
    """Tensors of one file or of several, of which nothing but headers was read yet.

    :func:`peerlane.safetensors.open` gives one.
    """

    def __init__(
        self,
        catalogue: Catalogue,
        views: Views,
        *,
        memory: Size,
        pinned: Size | None,
        mapped: bool,
        progress: Progress,
        group: Any,
        reopen: Callable[[], Model] | None = None,
    ) -> None:
        self._reopen = reopen
        self._catalogue, self._views = catalogue, views
        self._memory = _size("memory", memory)
        self._group = None if group is None else Group(group, views)
        # What others are to get is read, not mapped, so that all ranks have the same parts.
        self._may_map = mapped and group is None
        self._progress = progress
        self._pinned = None if pinned is None else str(pinned)
        self._reset()
        Teller(progress, 0, str)

    def _reset(self) -> None:
        """Makes new locks, for this process alone, and clears the counts."""
        shards = self._catalogue.shards
        self._source = Source([one.path for one in shards], self._pinned, [one.identity for one in shards])
        self._tally = Tally()
        self._process = os.getpid()

    def __reduce__(self) -> tuple[Callable[[], Model], tuple[()]]:
        """Pickles the arguments of :func:`peerlane.safetensors.open`: unpickling opens the files again."""
        if self._reopen is None:
            raise TypeError("cannot pickle a Model that peerlane.safetensors.open did not make")
        return self._reopen, ()

    @property
    def metadata(self) -> dict[str, str]:
        """What the files say of themselves (``__metadata__``)."""
        return self._catalogue.metadata

    def keys(self) -> list[str]:
        """Names of all tensors, in the order of files and of offsets in them."""
        return list(self._catalogue.entries)

    def info(self, name: str) -> TensorInfo:
        """Type, shape, bytes and file of a tensor."""
        return self._catalogue.info(name)

    def tensor(self, name: str) -> Any:
        """One tensor."""
        return self._one(piece(self._catalogue.entry(name)))

    def slice(self, name: str, dim: int, begin: int, end: int) -> Any:
        """The part of a tensor from ``begin`` to ``end`` along a dimension.

        Rows are one range of the file. Of columns each run is read by itself, or all between them as well,
        whichever costs less.
        """
        return self._one(piece(self._catalogue.entry(name), (dim, begin, end)))

    def stream(
        self,
        order: Literal["file"] | Sequence[str] = "file",
        *,
        slices: Mapping[str, Cut] | None = None,
    ) -> Iterator[tuple[str, Any]]:
        """Names and tensors, read ahead of the caller within ``memory``.

        Each tensor is the caller's own: nothing takes its memory back, and dropping it frees it. No more is
        held than what was handed out and ``memory`` in addition, but for a tensor that is larger than that: it
        is read alone, and nothing in addition to it exceeds the bound.

        Parameters
        ----------
        order
            ``"file"`` for all tensors in the order of the files, or names.
        slices
            The part to be read of some of them, by name: dimension, begin, end.
        """
        names = None if isinstance(order, str) else order
        if isinstance(order, str) and order != "file":
            raise BadInput([f"order: 'file' or names are needed, not {order!r}"])
        job = self._job(pieces(self._catalogue, names, slices), is_apart=True)
        return self._stream(job)

    def load(
        self, names: Sequence[str] | None = None, *, slices: Mapping[str, Cut] | None = None
    ) -> Tensors:
        """All tensors, or those of some names, as one job without the bound of ``memory``.

        With ``dtype=`` or ``group=`` it is a stream, whose bound leaves no room for two copies of all.
        """
        wanted = pieces(self._catalogue, names, slices)
        if self._group is not None or any(self._views.casts(one) for one in wanted):
            job = self._job(wanted, is_apart=True)
            tensors = dict(self._stream(job))
        else:
            wanted.sort(key=lambda one: (one.shard, one.begin))
            job = self._job(wanted, is_apart=False)
            tensors = self._all(job)
        self._warn(job, 4)
        return Tensors(tensors, self._routes(job, wanted), self.metadata)

    def plan(
        self, names: Sequence[str] | None = None, *, slices: Mapping[str, Cut] | None = None
    ) -> list[FilePlan]:
        """What would be read of which file, and by which route, as the page cache is now; moves no tensor."""
        wanted = pieces(self._catalogue, names, slices)
        wanted.sort(key=lambda one: (one.shard, one.begin))
        job = self._job(wanted, is_apart=False)
        found = []
        for shard in sorted({one.shard for one in wanted}):
            parts = [part for part in job.parts if part.shard == shard]
            route, reason = self._planned(job, shard)
            size = sum(one.bytes for part in parts for one in part.pieces)
            read, requests = (sum(part.read for part in parts), sum(part.requests for part in parts))
            path = str(self._catalogue.shards[shard].path)
            columns = [_columns(one, part) for part in parts for one in part.pieces if one.runs > 1]
            found.append(FilePlan(path, route, reason, size, read, requests, columns))
        job.close()
        return found

    def report(self) -> Report:
        """How all tensors so far came."""
        tally = self._tally
        # A copy: a thread that reads ahead may count a further file.
        readings = list(tally.readings.values())
        cached = sum(reading.page_cache for reading in readings)
        disk = sum(reading.bytes for reading in readings) - cached
        pinned = _peerlane.pinned_peak() if self._views.is_gpu else 0
        routes, cast = dict(tally.routes), dict(tally.cast)
        return Report(
            tally.bytes, tally.read, routes, cached, disk, tally.seconds, pinned, tally.peak, cast
        )

    def _job(self, wanted: list[Piece], *, is_apart: bool) -> Job:
        if os.getpid() != self._process:
            self._reset()
        return Job(
            self._catalogue.shards,
            self._views,
            self._source,
            wanted,
            memory=(self._memory // (1 if self._group is None else 2)) if is_apart else None,
            may_map=self._may_map,
            tally=self._tally,
        )

    def _one(self, wanted: Piece) -> Any:
        job = self._job([wanted], is_apart=True)
        if self._group is not None:
            [(_, tensor)] = self._stream(job)
            return tensor
        try:
            [filled] = job.fill(job.parts, Teller(None, 0, str))
            job.tally.rise(job.cost(job.parts))
            self._warn(job, 4)
            return job.take(filled, 0)
        finally:
            job.close()

    def _all(self, job: Job) -> dict[str, Any]:
        teller = Teller(self._progress, job.total, lambda: job.route)
        tensors: dict[str, Any] = {}
        # Groups are freed once their tensors are copied: a batch at a time.
        whole = [part for part in job.parts if part.kind is not PartKind.GROUP]
        groups = [part for part in job.parts if part.kind is PartKind.GROUP]
        try:
            for batch in (whole, *batches(groups, SCRATCH, lambda part: part.length)):
                tensors |= self._loaded(job, batch, teller)
        finally:
            job.close()
        self._log()
        return {one.name: tensors[one.name] for part in job.parts for one in part.pieces}

    @staticmethod
    def _loaded(job: Job, batch: list[Part], teller: Teller) -> Iterator[tuple[str, Any]]:
        job.tally.rise(job.cost(batch))
        for filled in job.fill(batch, teller):
            for number, one in enumerate(filled.part.pieces):
                yield one.name, job.take(filled, number, teller)

    def _stream(self, job: Job) -> Iterator[tuple[str, Any]]:
        if self._group is not None:
            self._group.check(job, self._catalogue.shards)
        teller = Teller(self._progress, job.total, lambda: job.route)
        for ahead, filled, is_own in self._filled(job, teller):
            part, last = filled.part, len(filled.part.pieces) - 1
            # Popped as they are handed out: nothing here may hold what the caller drops.
            parts = [filled]
            del filled
            for number, one in enumerate(part.pieces):
                job.refuse_child()
                tensors = [job.take(parts[0], number, teller)]
                if number == last:
                    parts.clear()
                    if is_own:
                        ahead.give(part)
                yield one.name, tensors.pop()
        self._warn(job, 2)
        self._log()

    def _filled(self, job: Job, teller: Teller) -> Iterator[tuple[Ahead, Filled, bool]]:
        if self._group is not None:
            yield from self._group.filled(job, self._memory, teller)
            return
        ahead = Ahead(job, job.parts, self._memory, teller)
        try:
            while (filled := ahead.next()) is not None:
                found = [(ahead, filled, True)]
                filled = None
                yield found.pop()
        finally:
            ahead.close()

    def _log(self) -> None:
        if LOG.isEnabledFor(logging.INFO):
            rank = "" if self._group is None else f"rank {self._group.rank}: "
            LOG.info("%s%s", rank, self.report())

    def _warn(self, job: Job, stacklevel: int) -> None:
        for text in job.tally.notices:
            warn(text, stacklevel)
        job.tally.notices.clear()

    def _routes(self, job: Job, wanted: list[Piece]) -> list[FileRoute]:
        found = []
        for shard in sorted({one.shard for one in wanted}):
            path = str(self._catalogue.shards[shard].path)
            reading = job.tally.readings.get(shard, NOTHING)
            if reading.bytes:
                route, reason = self._came(job, shard, reading)
            elif any(one.bytes for one in wanted if one.shard == shard):
                route, reason = "broadcast", "other ranks read it"
            else:
                route, reason = "host" if self._views.is_gpu else "direct", "it has no data"
            found.append(FileRoute(path, route, reason, reading))
        if not wanted:
            # Files without a tensor were opened, too.
            route = "host" if self._views.is_gpu else "direct"
            for one in self._catalogue.shards:
                found.append(FileRoute(str(one.path), route, "it has no data", NOTHING))
        return found

    def _came(self, job: Job, shard: int, reading: Reading) -> tuple[str, str]:
        if not self._views.is_gpu:
            return self._on_host(job, shard)
        if reading.direct == reading.bytes:
            return "p2p", "by cuFile's counters"
        return "host", f"{reading.page_cache} bytes out of the page cache, {reading.copied} from the drive"

    def _on_host(self, job: Job, shard: int) -> tuple[str, str]:
        if shard in job.maps:
            found = SAMPLES - ABSENT_MAX
            return "mapped", f"of {SAMPLES} places of the file {found} at least are in the page cache"
        way = job.tally.last_route.get(shard)
        if way == "page cache" or (way is None and not self._source.is_direct(shard)):
            return "page cache", "it takes no direct I/O"
        if shard in job.unmappable:
            return "direct", "limits of open files or address space (ulimit -n -v) leave no room to map it"
        if self._may_map:
            return "direct", "not all of it is in the page cache"
        return "direct", "it is not to be mapped"

    def _planned(self, job: Job, shard: int) -> tuple[str, str]:
        if not any(part.end > part.begin for part in job.parts if part.shard == shard):
            return "host" if self._views.is_gpu else "direct", "it has no data"
        if not self._views.is_gpu:
            return self._on_host(job, shard)
        path, device = str(self._catalogue.shards[shard].path), self._views.place
        try:
            word, reason = _peerlane.route(path, device, {})
        except PeerlaneError as error:
            return "host", str(error)
        return ("p2p", reason) if word == "p2p" else ("host", reason)


def _columns(one: Piece, part: Part) -> ColumnPlan:
    is_by_runs = part.kind is PartKind.RUNS
    cost = one.in_blocks + one.runs * REQUEST
    return ColumnPlan(one.name, one.bytes, is_by_runs, one.runs, one.in_blocks, cost, one.end - one.begin)


def _size(name: str, value: Size) -> int:
    found = re.fullmatch(r"([0-9]+)([KMGT]?)(?:iB)?", str(value))
    if not found or not int(found[1]):
        raise BadInput([f"{name}: a size such as 2G is needed, not {value!r}"])
    return int(found[1]) * UNITS[found[2]]
