"""Tensors of a framework as views of memory that holds the data of a safetensors file."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

from .errors import BadInput

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


class Views(Protocol):
    """Tensors that a framework makes of bytes."""

    allocate: Callable[[int], Any] | None
    """Allocates bytes on the GPU; ``None`` for tensors in host memory."""

    def check(self, path: Path, tensors: list[dict[str, Any]]) -> None:
        """Refuses a type that the framework lacks, before anything is read."""

    def make(self, memory: Any, start: int, tensors: list[dict[str, Any]]) -> dict[str, Any]:
        """Tensors by name, of data that begins at ``start`` of the memory."""


class NumpyViews:
    """Arrays of NumPy in host memory."""

    allocate: Callable[[int], Any] | None = None

    def __init__(self, framework: str, device: str) -> None:
        if framework != "numpy":
            raise BadInput([f"framework: numpy or torch is needed, not {framework!r}"])
        if device != "cpu":
            raise BadInput([f"device: NumPy has no memory on {device!r}; hint: framework='torch'"])
        self._numpy = _module("numpy", "numpy")

    def check(self, path: Path, tensors: list[dict[str, Any]]) -> None:
        for tensor in tensors:
            self._dtype(path, tensor)

    def make(self, memory: Any, start: int, tensors: list[dict[str, Any]]) -> dict[str, Any]:
        return {tensor["name"]: self._array(memory, start, tensor) for tensor in tensors}

    def _array(self, memory: Any, start: int, tensor: dict[str, Any]) -> Any:
        dtype, shape = self._dtype(None, tensor), tensor["shape"]
        if tensor["begin"] == tensor["end"]:
            return self._numpy.empty(shape, dtype)
        raw = self._numpy.frombuffer(memory, "uint8")[start + tensor["begin"] : start + tensor["end"]]
        if (start + tensor["begin"]) % dtype.itemsize:
            # What is not aligned is slow everywhere, and refused by some.
            raw = raw.copy()
        return raw.view(dtype).reshape(shape)

    def _dtype(self, path: Path | None, tensor: dict[str, Any]) -> Any:
        name = tensor["dtype"]
        if name in NUMPY:
            return self._numpy.dtype(NUMPY[name])
        if name in ML_DTYPES:
            return self._numpy.dtype(getattr(_module("ml_dtypes", "ml_dtypes"), ML_DTYPES[name]))
        raise _lacking("NumPy", path, tensor)


class TorchViews:
    """Tensors of PyTorch, in host memory or on a GPU."""

    def __init__(self, device: str) -> None:
        kind, _, number = device.partition(":")
        if kind not in ("cpu", "cuda") or (number and not number.isdecimal()):
            raise BadInput([f"device: cpu, cuda or cuda:0 and so on is needed, not {device!r}"])
        self._torch = _module("torch", "torch")
        self._device = device
        self.allocate: Callable[[int], Any] | None = self._empty if kind == "cuda" else None

    def check(self, path: Path, tensors: list[dict[str, Any]]) -> None:
        for tensor in tensors:
            self._dtype(path, tensor)

    def _empty(self, length: int) -> Any:
        return self._torch.empty(length, dtype=self._torch.uint8, device=self._device)

    def make(self, memory: Any, start: int, tensors: list[dict[str, Any]]) -> dict[str, Any]:
        flat = memory
        if self.allocate is None:
            flat = self._torch.frombuffer(memory, dtype=self._torch.uint8)
        return {tensor["name"]: self._tensor(flat, start, tensor) for tensor in tensors}

    def _tensor(self, flat: Any, start: int, tensor: dict[str, Any]) -> Any:
        dtype, shape = self._dtype(None, tensor), tensor["shape"]
        begin, end = start + tensor["begin"], start + tensor["end"]
        if begin == end:
            return self._torch.empty(shape, dtype=dtype, device=self._device)
        raw = flat[begin:end]
        if begin % dtype.itemsize:
            raw = raw.clone()
        return raw.view(dtype).reshape(shape)

    def _dtype(self, path: Path | None, tensor: dict[str, Any]) -> Any:
        name = tensor["dtype"]
        found = getattr(self._torch, (NUMPY | ML_DTYPES).get(name, ""), None)
        if found is None:
            raise _lacking("this PyTorch", path, tensor)
        return found


def _module(name: str, package: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise BadInput([f"{name} is needed: {error}; hint: pip install {package}"]) from error


def _lacking(who: str, path: Path | None, tensor: dict[str, Any]) -> BadInput:
    return BadInput([f"{path}: {who} has no type for {tensor['dtype']} of tensor {tensor['name']!r}"])
