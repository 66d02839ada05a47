"""A copier for fastsafetensors: its loaders, and programs that use them, read by Peerlane.

    import peerlane.fastsafetensors
    peerlane.fastsafetensors.use()

From then on all loaders of fastsafetensors in this process read files into the memory that they allocate by the
routes of :mod:`peerlane.safetensors`. Without ``use`` the copier is named:
``BaseSafeTensorsFileLoader(group, device, copier_type="peerlane")``. SGLang loads in processes of its own, in which its
plugins are called:

    SGLANG_PLUGINS=peerlane python -m sglang.launch_server --model-path MODEL --load-format fastsafetensors
"""

from __future__ import annotations

import ctypes
import logging
import os
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

try:
    from fastsafetensors.copier.base import (
        CopierInterface,
        validated_byte_ranges,
        validated_chunk_allocation_size,
    )
    from fastsafetensors.copier.registry import register_copier_constructor
    from fastsafetensors.st_types import DeviceType, DType
except ImportError as error:
    raise ImportError(f"{error}; hint: pip install 'fastsafetensors>=0.5'") from error

from ._reading import Fill, Source, Tally
from .errors import BadInput

__all__ = ["PeerlaneCopier", "use", "use_in_sglang"]

LOG = logging.getLogger("peerlane")


class _GpuMemory:
    """Memory of a GPU by its address."""

    def __init__(self, address: int, length: int) -> None:
        self.length = length
        # Version 2 names no stream: all work of the context is waited for.
        self.__cuda_array_interface__ = {
            "shape": (length,),
            "typestr": "|u1",
            "data": (address, False),
            "strides": None,
            "version": 2,
        }

    def __len__(self) -> int:
        return self.length


class PeerlaneCopier(CopierInterface):
    """Reads one file; a thread of its own does so from ``submit_io`` to ``wait_io``."""

    def __init__(self, metadata: Any, device: Any, framework: Any, pinned: str | None) -> None:
        self.metadata, self.device, self.framework = metadata, device, framework
        self._source = Source([Path(metadata.src)], pinned)
        self._is_gpu = device.type != DeviceType.CPU
        if self._is_gpu and device.type not in (DeviceType.CUDA, DeviceType.GPU):
            raise BadInput([f"peerlane reads into host memory and GPUs of NVIDIA, not {device.type}"])
        self._ranges: list[tuple[int, int]] | None = None
        self._names: set[str] | None = None
        self._size: int | None = None
        self._begin = metadata.header_length
        self._tally, self._stop = Tally(), threading.Event()
        self._thread: threading.Thread | None = None
        self._error: BaseException | None = None

    def set_byte_ranges(self, byte_ranges: list[tuple[int, int]] | None) -> None:
        """Reads these ranges of the file alone."""
        self._ranges = validated_byte_ranges(self.metadata, byte_ranges)

    def set_chunk(
        self,
        byte_ranges: list[tuple[int, int]],
        names: set[str],
        allocation_size: int | None = None,
    ) -> None:
        """Reads these tensors alone, into memory for their ranges."""
        self._ranges = validated_byte_ranges(self.metadata, byte_ranges)
        self._names = names
        self._size = validated_chunk_allocation_size(self._ranges, allocation_size)

    @classmethod
    def chunk_transient_multiplier(cls, paths: list[str]) -> int:
        """Memory of the device for a chunk: its own, once."""
        return 1

    @classmethod
    def fixed_device_overhead(cls, paths: list[str]) -> int:
        """Memory of the device in addition: pinned slots are the host's."""
        return 0

    def submit_io(self, use_buf_register: bool, max_copy_block_size: int) -> Any:
        """Allocates memory and begins to fill it."""
        first, size = self.metadata.header_length, self.metadata.size_bytes
        ranges = [(first, size)] if self._ranges is None else self._ranges
        self._begin = first
        length = size - first
        if self._names is not None:
            self._begin = min((begin for begin, _ in ranges), default=first)
            span = max((end for _, end in ranges), default=self._begin) - self._begin
            length = self._size or span
        memory = self.framework.alloc_tensor_memory(length, self.device)
        address = memory.get_base_address()
        self._thread = threading.Thread(target=self._read, args=(address, ranges), daemon=True)
        self._thread.start()
        return memory

    def wait_io(
        self, gbuf: Any, dtype: Any = DType.AUTO, noalign: bool = False, owner: Any = None
    ) -> Any:
        """Tensors, when all bytes are there."""
        self.finish_io()
        if self._error is not None:
            raise self._error
        tally = self._tally
        cached = sum(reading.page_cache for reading in tally.readings.values())
        ways = "+".join(tally.routes) or "nothing read"
        words = "fastsafetensors: %s: %.3f GB %s, %.3f GB of it from the page cache, %.2f s"
        size = sum(tally.routes.values())
        LOG.info(words, self.metadata.src, size / 1e9, ways, cached / 1e9, tally.seconds)
        return self.metadata._get_tensors(
            gbuf, self.device, self._begin, dtype=dtype, names=self._names, owner=owner
        )

    def finish_io(self) -> None:
        """Waits for all reads."""
        if self._thread is not None:
            self._thread.join()
            self._thread = None
        self._source.close()

    def _read(self, address: int, ranges: list[tuple[int, int]]) -> None:
        fills = [
            Fill(0, begin, self._memory(address + begin - self._begin, end - begin))
            for begin, end in ranges
        ]
        begun = time.monotonic()
        try:
            self._source.fill(fills, self._is_gpu, self._tally, lambda _: None, self._stop)
        except BaseException as error:
            self._error = error
        self._tally.spend(time.monotonic() - begun)

    def _memory(self, address: int, length: int) -> Any:
        if self._is_gpu:
            return _GpuMemory(address, length)
        return memoryview((ctypes.c_ubyte * length).from_address(address)).cast("B")


def use(pinned: str | None = None) -> None:
    """Has all loaders of fastsafetensors that are made from now on read by Peerlane.

    Parameters
    ----------
    pinned
        The most pinned host memory of all loads of this process, for a GPU, as in :func:`peerlane.safetensors.open`.
    """
    for name in ("gds", "nogds", "unified"):
        register_copier_constructor(name, PeerlaneCopier)(
            lambda device, **_: _constructor(device, pinned)
        )


def use_in_sglang() -> None:
    """Does so as a plugin of SGLang, where ``SGLANG_PLUGINS`` names it: without the variable SGLang calls all."""
    if "peerlane" in [name.strip() for name in os.environ.get("SGLANG_PLUGINS", "").split(",")]:
        use()


@register_copier_constructor("peerlane", PeerlaneCopier)
def _constructor(device: Any, pinned: str | None = None, **_: Any) -> Callable[..., Any]:
    """Returns the maker of a copier for each file."""
    return lambda metadata, device, framework: PeerlaneCopier(metadata, device, framework, pinned)
