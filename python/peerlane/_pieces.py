"""Tensors and parts of tensors as ranges of files, and ranges that are read together."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from math import gcd, prod
from operator import index
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from .errors import BadInput

if TYPE_CHECKING:
    from ._shards import Catalogue

BITS = {
    "BOOL": 8, "U8": 8, "I8": 8, "F8_E4M3": 8, "F8_E5M2": 8, "F8_E8M0": 8, "F8_E4M3FNUZ": 8,
    "F8_E5M2FNUZ": 8, "U16": 16, "I16": 16, "F16": 16, "BF16": 16, "U32": 32, "I32": 32, "F32": 32,
    "U64": 64, "I64": 64, "F64": 64, "C64": 64, "F4": 4, "F6_E2M3": 6, "F6_E3M2": 6,
}  # fmt: skip
"""Bits of a number, by type of the format."""

SMALL = 1 << 20
"""Size below which neighbours may be read together and copied out, in bytes."""
GROUP = 16 << 20
"""Bytes of neighbours that are read together, within the bound of memory."""
GAP = 4096
"""Largest gap read with its neighbours and kept in memory with their tensors, in bytes."""
SMALL_GAP = 64 << 10
"""Largest gap read between small tensors, which are then copied out, in bytes.

An eighth of 18,867 small tensors took 2.4 s with 24 KiB, 1.5 s with 32 KiB and 1.3 s with 64 KiB; that reads six times
their bytes (29 November 2026, two cores, one virtual disk, page cache dropped).
"""
REQUEST = 24 << 10
"""Bytes that could be read in the time that a request of its own costs, for runs of one tensor.

21 to 46 us a run of 512 to 4,096 bytes by eight threads, next to 0.56 to 1.17 GB/s for all between runs: 12 to 46 KiB
with the run itself (29 November 2026, two busy cores, one virtual disk, page cache dropped, direct I/O).
"""
BLOCK = 4096
"""Unit of what a drive reads: its physical sector, and a page of the page cache."""
STRETCH = 8 << 20
"""Bytes of a tensor that are read at a time where only its columns are wanted."""
SCRATCH = 8 * STRETCH
"""Bytes of several tensors that are read in that way at the same time."""

Cut: TypeAlias = tuple[int, int, int]
"""A part of a tensor: dimension, begin, end."""


class Piece(NamedTuple):
    """A tensor or a part of one, as runs of bytes that lie at equal distances in a file."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    shard: int
    begin: int
    """Byte of the file where the first run begins."""
    run: int
    """Bytes of a run."""
    runs: int
    """Number of runs."""
    stride: int
    """Bytes from the begin of a run to the next."""

    @property
    def bytes(self) -> int:
        """Bytes in all."""
        return self.run * self.runs

    @property
    def end(self) -> int:
        """The byte after the last run."""
        return self.begin + self.stride * (self.runs - 1) + self.run if self.bytes else self.begin

    @property
    def is_small(self) -> bool:
        """Whether it may be read with its neighbours and copied out."""
        return self.end - self.begin < SMALL and (self.runs == 1 or not self.is_by_runs)

    @property
    def in_blocks(self) -> int:
        """Bytes of the whole blocks that the runs lie in, each run by itself."""
        period = BLOCK // gcd(self.stride, BLOCK)
        sizes = [
            -(-((self.begin + number * self.stride) % BLOCK + self.run) // BLOCK) * BLOCK
            for number in range(min(period, self.runs))
        ]
        cycles, rest = divmod(self.runs, len(sizes))
        return cycles * sum(sizes) + sum(sizes[:rest])

    @property
    def is_by_runs(self) -> bool:
        """Whether reading each run by itself takes less time than reading the bytes between runs as well."""
        return self.in_blocks + self.runs * REQUEST < self.end - self.begin


def piece(whole: Piece, cut: Cut | None = None) -> Piece:
    """A tensor, or the part of it from ``begin`` to ``end`` along a dimension."""
    if cut is None:
        return whole
    name, dtype, shape, shard, begin, *_ = whole
    dim, first, last = _numbers(name, cut)
    dim = dim + len(shape) if dim < 0 else dim
    if not 0 <= dim < len(shape):
        raise BadInput([f"tensor {name!r} has {len(shape)} dimensions, none of number {cut[0]}"])
    if not 0 <= first <= last <= shape[dim]:
        words = f"{first} to {last} is no range of the {shape[dim]} of dimension {dim}"
        raise BadInput([f"tensor {name!r}: {words}"])
    found = (*shape[:dim], last - first, *shape[dim + 1 :])
    if not prod(found):
        return Piece(name, dtype, found, shard, begin, 0, 1, 0)
    each = prod(shape[dim + 1 :]) * BITS[dtype]
    count = prod(shape[:dim])
    bits = (first * each, (last - first) * each, shape[dim] * each)
    if any(part % 8 for part in bits[: 2 + (count > 1)]):
        words = f"{first} to {last} of dimension {dim} does not begin and end at bytes"
        raise BadInput([f"tensor {name!r} of {dtype}: {words}"])
    offset, run, stride = (part // 8 for part in bits)
    if run == stride:
        run, count = run * count, 1
    return Piece(name, dtype, found, shard, begin + offset, run, count, stride if count > 1 else run)


def _numbers(name: str, cut: Cut) -> Cut:
    """The three whole numbers of a cut, which a caller may have mistaken for something else."""
    try:
        dim, first, last = cut
        return index(dim), index(first), index(last)
    except (TypeError, ValueError) as error:
        raise BadInput(
            [f"tensor {name!r}: {cut!r} is no slice"],
            hint="give dimension, begin and end as whole numbers: (0, 0, 128)",
        ) from error


def pieces(
    catalogue: Catalogue, names: Sequence[str] | None, slices: Mapping[str, Cut] | None
) -> list[Piece]:
    """What is asked for, in the order of the names, or else of the files."""
    if isinstance(names, str):
        raise BadInput([f"names: a list of names is needed, not {names!r}"])
    if names is None and not slices:
        return list(catalogue.entries.values())
    slices = slices or {}
    chosen = list(catalogue.entries) if names is None else list(names)
    if len(set(chosen)) != len(chosen):
        raise BadInput(["a tensor is named twice"])
    absent = set(slices) - set(chosen)
    if absent:
        raise BadInput([f"slices: tensor {sorted(absent)[0]!r} is not among those to be loaded"])
    return [piece(catalogue.entry(name), slices.get(name)) for name in chosen]


class PartKind(Enum):
    """How a part comes into memory."""

    MAPPED = "mapped"
    """A range of the page cache, whose tensors are views of it."""
    RANGE = "range"
    """One range, whose tensors are views of one memory."""
    GROUP = "group"
    """One range of a file, from which small tensors are copied."""
    RUNS = "runs"
    """Each run of one tensor by itself."""
    STRETCHES = "stretches"
    """One tensor, some of it at a time, by way of scratch memory."""


class Step(NamedTuple):
    """Some runs of a piece that are read into scratch memory together."""

    begin: int
    """Byte of the file where the first run begins."""
    runs: int
    run: int
    stride: int
    """Bytes of the file from the begin of a run to the next."""
    is_packed: bool
    """Whether runs are read one by one, next to each other."""
    done: int
    """Bytes of the piece before it."""

    @property
    def pitch(self) -> int:
        """Bytes of scratch memory from the begin of a run to the next."""
        return self.run if self.is_packed else self.stride

    @property
    def length(self) -> int:
        """Bytes of scratch memory."""
        return self.pitch * (self.runs - 1) + self.run


@dataclass(slots=True)
class Part:
    """A range of one file that is read in one go, and the tensors in it."""

    kind: PartKind
    shard: int
    begin: int
    end: int
    pieces: list[Piece]
    bound: int = 0
    """Bytes of scratch memory that it may take."""
    width: int = 0
    """Bytes of a number in memory, where it is cast while it is read."""
    is_small: bool = False
    """Whether every tensor of it is small."""

    @property
    def length(self) -> int:
        """Bytes of memory that its tensors take before they are handed out."""
        if self.kind is PartKind.MAPPED:
            return 0
        if self.kind in (PartKind.RUNS, PartKind.STRETCHES):
            one = self.pieces[0]
            return one.bytes * 8 // BITS[one.dtype] * self.width if self.width else one.bytes
        return self.end - self.begin

    @property
    def scratch(self) -> int:
        """Bytes of memory that it takes while it is read, in addition."""
        if self.kind is not PartKind.STRETCHES:
            return 0
        return max((step.length for step in self.steps()), default=0)

    @property
    def cost(self) -> int:
        """Bytes of memory that it takes in all."""
        return self.length + self.scratch

    @property
    def requests(self) -> int:
        """Ranges that it is read by."""
        if self.kind is PartKind.STRETCHES:
            return sum(step.runs if step.is_packed else 1 for step in self.steps())
        return self.pieces[0].runs if self.kind is PartKind.RUNS else 1

    @property
    def read(self) -> int:
        """Bytes that are asked of the file, without what makes them whole blocks."""
        if self.kind in (PartKind.RUNS, PartKind.MAPPED):
            return self.bytes
        if self.kind is PartKind.STRETCHES:
            return sum(step.length for step in self.steps())
        return self.end - self.begin

    def steps(self) -> Iterator[Step]:
        """What is read into scratch memory at a time; nothing where all goes to its place."""
        if self.kind is not PartKind.STRETCHES or not self.bytes:
            return
        one = self.pieces[0]
        is_packed = one.runs == 1 or one.is_by_runs or one.stride > self.bound
        if one.run > self.bound:
            # Numbers of a run stay whole.
            each = max(1, self.bound // 8) * 8
            for number in range(one.runs):
                for first in range(0, one.run, each):
                    size = min(each, one.run - first)
                    begin, done = one.begin + number * one.stride + first, number * one.run + first
                    yield Step(begin, 1, size, size, True, done)
            return
        count = max(1, self.bound // (one.run if is_packed else one.stride))
        for number in range(0, one.runs, count):
            begin, done = one.begin + number * one.stride, number * one.run
            yield Step(begin, min(count, one.runs - number), one.run, one.stride, is_packed, done)

    @property
    def bytes(self) -> int:
        """Bytes of its tensors in the file."""
        return sum(one.bytes for one in self.pieces)


def parts(
    wanted: Iterable[Piece],
    is_apart: bool,
    is_mapped: Callable[[int], bool],
    bound: int = STRETCH,
    width: Callable[[Piece], int] = lambda _: 0,
) -> Iterator[Part]:
    """Ranges for pieces in their order, neighbours together; or, apart, those that are small only.

    What takes more than a bound of memory in addition to its place is read in steps; ``width`` says of which
    tensors the numbers are cast meanwhile, and their bytes afterwards.
    """
    last: Part | None = None
    for one in wanted:
        mapped = is_mapped(one.shard)
        joined = None if last is None else _joined(last, one, is_apart, mapped, bound)
        if joined is not None:
            last = joined
            continue
        if last is not None:
            yield last
        last = _part(one, is_apart, mapped, min(bound, STRETCH), width(one))
    if last is not None:
        yield last


def _part(one: Piece, is_apart: bool, mapped: bool, bound: int, width: int) -> Part:
    is_small = one.is_small and one.end - one.begin <= bound
    kind = PartKind.RANGE
    if mapped:
        kind = PartKind.MAPPED
    elif one.bytes > bound and width:
        return Part(PartKind.STRETCHES, one.shard, one.begin, one.end, [one], bound, width)
    elif is_small and (is_apart or one.runs > 1):
        kind = PartKind.GROUP
    elif one.runs > 1:
        is_wide = one.stride > bound or one.is_by_runs
        kind = PartKind.RUNS if is_wide else PartKind.STRETCHES
    return Part(kind, one.shard, one.begin, one.end, [one], bound, 0, is_small)


def _joined(part: Part, one: Piece, is_apart: bool, mapped: bool, bound: int) -> Part | None:
    """The part with one more piece, if it is one that both may be in."""
    if one.shard != part.shard:
        return None
    if not mapped:
        gap = one.begin - part.end
        is_small = part.is_small and one.is_small
        is_range = part.kind is PartKind.RANGE and not is_apart and one.runs == 1 and gap <= GAP
        if not 0 <= gap <= SMALL_GAP or one.end - part.begin > min(GROUP, bound) or not (is_range or is_small):
            return None
        part.kind = PartKind.RANGE if is_range else PartKind.GROUP
        part.is_small = is_small
    part.pieces.append(one)
    part.begin, part.end = min(part.begin, one.begin), max(part.end, one.end)
    return part
