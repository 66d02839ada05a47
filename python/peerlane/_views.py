"""Tensors of a framework as views of memory that holds the data of a safetensors file."""

from __future__ import annotations

import importlib
import mmap
from contextlib import AbstractContextManager, nullcontext, suppress
from math import prod
from typing import Any, Protocol

from ._limits import MEMORY_HINT, has_huge_pages
from ._pieces import BITS, Piece, Step
from ._shards import TensorInfo
from .errors import BadInput, OutOfMemory

NUMPY = {
    "BOOL": "bool", "U8": "uint8", "I8": "int8", "U16": "uint16", "I16": "int16", "F16": "float16",
    "U32": "uint32", "I32": "int32", "F32": "float32", "U64": "uint64", "I64": "int64", "F64": "float64",
    "C64": "complex64",
}  # fmt: skip
"""Types of the format as NumPy and torch call them."""

ML_DTYPES = {
    "BF16": "bfloat16", "F8_E4M3": "float8_e4m3fn", "F8_E5M2": "float8_e5m2", "F8_E8M0": "float8_e8m0fnu",
    "F8_E4M3FNUZ": "float8_e4m3fnuz", "F8_E5M2FNUZ": "float8_e5m2fnuz",
}  # fmt: skip
"""Those that torch has and, for NumPy, the package ``ml_dtypes``."""

TORCH = NUMPY | ML_DTYPES | {"F4": "float4_e2m1fn_x2"}
"""All types of torch."""

PACKED = {"F4", "F6_E2M3", "F6_E3M2"}
"""Types below one byte: handed out as bytes, or as the packed type of torch."""

CAST = {"F16", "BF16", "F32", "F64"}
"""Types that ``dtype=`` changes: numbers of fewer bits mean nothing without their scales."""

TYPE_HINT = "name a type of numbers, e.g. float32 or bfloat16"

HUGE = 2 << 20
"""Bytes from which on pages of host memory may be huge."""


class Views(Protocol):
    """Tensors that a framework makes of bytes."""

    is_gpu: bool
    place: str
    """The device as :func:`peerlane.route` names it."""
    cast_width: int
    """Bytes of a number of the type that ``dtype=`` names."""

    def check(self, piece: Piece) -> None:
        """Refuses a type that the framework lacks, before anything is read."""

    def allocate(self, length: int, phase: int) -> Any:
        """Memory whose byte ``phase`` is the first of ``length``; on a GPU the phase is none."""

    def tensor(self, memory: Any, begin: int, piece: Piece, *, is_cast: bool = False) -> Any:
        """The tensor whose first byte is ``begin`` of the memory; a view where it is aligned."""

    def own(self, tensor: Any) -> Any:
        """A copy in memory of its own."""

    def columns(self, memory: Any, begin: int, piece: Piece) -> Any:
        """Copies runs, the first at ``begin``, into a new tensor of the type asked for."""

    def gather(
        self, source: Any, begin: int, step: Step, target: Any, piece: Piece, *, is_cast: bool
    ) -> None:
        """Copies the runs of a step, the first at ``begin``, next to each other to their place; or casts them."""

    def casts(self, piece: Piece) -> bool:
        """Whether a tensor is to have another type than its file has."""

    def cast(self, tensor: Any) -> Any:
        """The tensor in the type that is asked for."""

    def context(self) -> AbstractContextManager[Any]:
        """What another thread enters to work in the stream of this one."""


class _HostMemory:
    """Memory of the host, in pages, so that DMA can put blocks where they belong."""

    is_gpu = False
    place = "host"

    def allocate(self, length: int, phase: int) -> Any:
        try:
            memory = mmap.mmap(-1, max(1, phase + length), mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        except OSError as error:
            raise OutOfMemory(
                [f"cannot have {length} bytes of host memory for tensors", str(error)],
                hint=MEMORY_HINT,
            ) from error
        if length >= HUGE and has_huge_pages(length):
            with suppress(OSError):
                memory.madvise(mmap.MADV_HUGEPAGE)
        return memoryview(memory)

    def context(self) -> AbstractContextManager[Any]:
        return nullcontext()


class NumpyViews(_HostMemory):
    """Arrays of NumPy in host memory."""

    def __init__(self, framework: str, device: str, dtype: Any = None) -> None:
        if framework != "numpy":
            raise BadInput([f"framework: numpy or torch is needed, not {framework!r}"])
        if device != "cpu":
            raise BadInput([f"device: NumPy has no memory on {device!r}; hint: framework='torch'"])
        self._numpy = _module("numpy", "numpy")
        self._cast: Any = None if dtype is None else self._named(dtype)
        self.cast_width = 0 if self._cast is None else self._cast.itemsize

    def check(self, piece: Piece) -> None:
        self._dtype(piece)

    def tensor(self, memory: Any, begin: int, piece: Piece, *, is_cast: bool = False) -> Any:
        dtype, shape = self._cast if is_cast else self._dtype(piece), shape_of(piece)
        try:
            if not piece.bytes:
                return self._numpy.empty(shape, dtype)
            length = prod(shape) * dtype.itemsize
            raw = self._numpy.frombuffer(memory, "uint8")[begin : begin + length]
            if begin % dtype.itemsize:
                # What is not aligned is slow everywhere, and refused by some.
                raw = raw.copy()
            return raw.view(dtype).reshape(shape)
        except ValueError as error:
            # Files may have more dimensions, and larger ones where another is 0.
            raise BadInput([f"NumPy has no array of the shape of tensor {piece.name!r}", str(error)]) from error

    def own(self, tensor: Any) -> Any:
        return tensor.copy()

    def columns(self, memory: Any, begin: int, piece: Piece) -> Any:
        dtype = self._dtype(piece)
        taken = self._numpy.dtype("uint8") if begin % dtype.itemsize else dtype
        found = self._runs(memory, begin, piece.runs, piece.run, piece.stride, taken)
        found = found if taken is dtype else found.copy().view(dtype)
        return found.astype(self._cast if self.casts(piece) else dtype, "C").reshape(shape_of(piece))

    def gather(
        self, source: Any, begin: int, step: Step, target: Any, piece: Piece, *, is_cast: bool
    ) -> None:
        numpy = self._numpy
        taken = self._dtype(piece) if is_cast else numpy.dtype("uint8")
        given = self._cast if is_cast else taken
        runs = self._runs(source, begin, step.runs, step.run, step.pitch, taken)
        at = step.done // taken.itemsize * given.itemsize
        into = numpy.frombuffer(target, "uint8")[at : at + runs.size * given.itemsize].view(given)
        into.reshape(runs.shape)[:] = runs

    def _runs(self, memory: Any, begin: int, count: int, run: int, pitch: int, dtype: Any) -> Any:
        """A view of runs of bytes as rows of numbers."""
        numpy = self._numpy
        # NumPy makes strides of its own types alone.
        own = numpy.dtype(f"u{dtype.itemsize}")
        flat = numpy.frombuffer(memory, "uint8")[begin : begin + pitch * (count - 1) + run].view(own)
        shape, steps = (count, run // own.itemsize), (pitch, own.itemsize)
        return numpy.lib.stride_tricks.as_strided(flat, shape, steps).view(dtype)

    def casts(self, piece: Piece) -> bool:
        is_wide = self._cast is not None and piece.dtype in CAST
        return is_wide and self._dtype(piece) != self._cast

    def cast(self, tensor: Any) -> Any:
        return tensor.astype(self._cast)

    def _named(self, dtype: Any) -> Any:
        try:
            known = self._numpy.dtype(dtype)
        except (TypeError, ValueError, SyntaxError):
            found = getattr(_module("ml_dtypes", "ml_dtypes"), str(dtype), None)
            if found is None:
                raise BadInput([f"dtype: NumPy has no type {dtype!r}"], hint=TYPE_HINT) from None
            known = self._numpy.dtype(found)
        # Types of ml_dtypes are of kind V, too, but none of them is numpy.void itself.
        if known.kind in "OSUTmM" or known.type is self._numpy.void:
            raise BadInput([f"dtype: {dtype!r} is not a type of numbers"], hint=TYPE_HINT)
        return known

    def _dtype(self, piece: Piece) -> Any:
        name = piece.dtype
        if name in PACKED:
            return self._numpy.dtype("uint8")
        if name in NUMPY:
            return self._numpy.dtype(NUMPY[name])
        if name in ML_DTYPES:
            return self._numpy.dtype(getattr(_module("ml_dtypes", "ml_dtypes"), ML_DTYPES[name]))
        raise _lacking("NumPy", piece)


class TorchViews(_HostMemory):
    """Tensors of PyTorch, in host memory or on a GPU."""

    def __init__(self, device: str, dtype: Any = None) -> None:
        kind, _, number = device.partition(":")
        if kind not in ("cpu", "cuda") or (number and not number.isdecimal()):
            raise BadInput([f"device: cpu, cuda or cuda:0 and so on is needed, not {device!r}"])
        self._torch = _module("torch", "torch")
        self._types: dict[str, Any] = {}
        self.device = device
        self.is_gpu = kind == "cuda"
        if self.is_gpu:
            self.place = f"gpu:{number or 0}"
        self._cast = dtype
        if isinstance(dtype, str):
            self._cast = getattr(self._torch, dtype.removeprefix("torch."), None)
        if dtype is not None and not isinstance(self._cast, self._torch.dtype):
            raise BadInput([f"dtype: PyTorch has no type {dtype!r}"])
        self.cast_width = 0 if dtype is None else self._cast.itemsize

    def check(self, piece: Piece) -> None:
        self._dtype(piece)

    def allocate(self, length: int, phase: int) -> Any:
        if not self.is_gpu:
            return super().allocate(length, phase)
        return self._torch.empty(length, dtype=self._torch.uint8, device=self.device)

    def context(self) -> AbstractContextManager[Any]:
        if not self.is_gpu:
            return super().context()
        cuda = self._torch.cuda
        found: AbstractContextManager[Any] = cuda.stream(cuda.current_stream(self.device))
        return found

    def tensor(self, memory: Any, begin: int, piece: Piece, *, is_cast: bool = False) -> Any:
        dtype, shape = self._cast if is_cast else self._dtype(piece), shape_of(piece)
        if not piece.bytes:
            return self._torch.empty(shape, dtype=dtype, device=self.device)
        count = prod(shape)
        if not self.is_gpu and not begin % dtype.itemsize:
            # Of the whole memory it would be a part, all of which torch.save writes.
            found = self._torch.frombuffer(memory, dtype=dtype, count=count, offset=begin)
            return found if shape == (count,) else found.view(shape)
        raw = self.flat(memory)[begin : begin + count * dtype.itemsize]
        if begin % dtype.itemsize:
            raw = raw.clone()
        return raw.view(dtype).reshape(shape)

    def own(self, tensor: Any) -> Any:
        return tensor.clone()

    def columns(self, memory: Any, begin: int, piece: Piece) -> Any:
        torch, dtype = self._torch, self._dtype(piece)
        taken = torch.uint8 if begin % dtype.itemsize else dtype
        found = self._runs(memory, begin, piece.runs, piece.run, piece.stride, taken)
        found = found if taken is dtype else found.contiguous().view(dtype)
        given = self._cast if self.casts(piece) else dtype
        return found.to(given, copy=True, memory_format=torch.contiguous_format).view(shape_of(piece))

    def gather(
        self, source: Any, begin: int, step: Step, target: Any, piece: Piece, *, is_cast: bool
    ) -> None:
        taken = self._dtype(piece) if is_cast else self._torch.uint8
        given = self._cast if is_cast else taken
        runs = self._runs(source, begin, step.runs, step.run, step.pitch, taken)
        at = step.done // taken.itemsize * given.itemsize
        into = self.flat(target)[at : at + runs.numel() * given.itemsize].view(given)
        into.view(runs.shape).copy_(runs)

    def _runs(self, memory: Any, begin: int, count: int, run: int, pitch: int, dtype: Any) -> Any:
        """A view of runs of bytes as rows of numbers."""
        flat = self.flat(memory)[begin : begin + pitch * (count - 1) + run].view(dtype)
        return flat.as_strided((count, run // dtype.itemsize), (pitch // dtype.itemsize, 1))

    def casts(self, piece: Piece) -> bool:
        is_wide = self._cast is not None and piece.dtype in CAST
        return is_wide and self._dtype(piece) != self._cast

    def cast(self, tensor: Any) -> Any:
        return tensor.to(self._cast)

    def flat(self, memory: Any) -> Any:
        """All bytes of memory as a tensor."""
        if self.is_gpu:
            return memory
        return self._torch.frombuffer(memory, dtype=self._torch.uint8)

    def dtype(self, name: str) -> Any:
        """The type of PyTorch for one of the format, if it has one; for a byte and less its bytes serve."""
        found = getattr(self._torch, TORCH.get(name, ""), None)
        return self._torch.uint8 if found is None and BITS.get(name, 16) <= 8 else found

    def _dtype(self, piece: Piece) -> Any:
        found = self._types.get(piece.dtype)
        if found is None:
            found = self._types[piece.dtype] = self.dtype(piece.dtype)
        if found is None:
            raise _lacking("this PyTorch", piece)
        return found


def shape_of(piece: Piece | TensorInfo) -> tuple[int, ...]:
    """The shape in numbers of a byte and more; what fills no row of bytes is flat."""
    if piece.dtype not in PACKED:
        return piece.shape
    bits = piece.shape[-1] * BITS[piece.dtype] if piece.shape else 1
    return (piece.bytes,) if bits % 8 else (*piece.shape[:-1], bits // 8)


def _module(name: str, package: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise BadInput([f"{name} is needed: {error}; hint: pip install {package}"]) from error


def _lacking(who: str, piece: Piece) -> BadInput:
    return BadInput([f"{who} has no type for {piece.dtype} of tensor {piece.name!r}"])
