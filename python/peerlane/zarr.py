"""A zarr store of a folder, read round the page cache, or straight into memory of a GPU.

>>> import numpy, zarr
>>> from peerlane.zarr import Store
>>> store = Store("weather.zarr")
>>> array = zarr.create_array(store, shape=(512, 512), chunks=(256, 256), dtype="float64")
>>> array[:] = numpy.arange(512 * 512, dtype="float64").reshape(512, 512)
>>> float(zarr.open_array(store, mode="r")[1, 2])
514.0

All but reading is zarr's own ``LocalStore``: either reads the data that the other wrote.
"""

from __future__ import annotations

import asyncio
import stat
import threading
import warnings
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Self

try:
    import numpy
    from zarr.abc.store import ByteRequest, OffsetByteRequest, RangeByteRequest, SuffixByteRequest
    from zarr.core.buffer import Buffer, BufferPrototype, default_buffer_prototype
    from zarr.storage import LocalStore
except ImportError as error:
    raise ImportError(f"{error}; hint: pip install 'peerlane[zarr]'") from error

from ._reader import NOTHING, Reader, Reading
from .errors import PeerlaneError, RouteWarning

__all__ = ["Store"]

SMALL = 64 << 10
"""Bytes below which the page cache serves: metadata is read again and again, and a request for less costs as much."""


class Store(LocalStore):
    """A folder as zarr's ``LocalStore`` has it, whose values are read through :class:`peerlane.Reader`.

    With zarr's GPU buffers (``zarr.config.enable_gpu()``) values come into memory of the GPU by the paths of
    ``Reader``; a ``RouteWarning`` is given once where that is not direct.

    Parameters
    ----------
    root
        The folder.
    read_only
        Whether nothing may be written.
    """

    def __init__(self, root: Path | str, *, read_only: bool = False) -> None:
        super().__init__(root, read_only=read_only)
        self._counts = _Counts()

    @property
    def reading(self) -> Reading:
        """Bytes of values read so far, by the path they took."""
        return self._counts.total

    def with_read_only(self, read_only: bool = False) -> Self:
        """The same folder, with its reads counted together."""
        store = super().with_read_only(read_only)
        store._counts = self._counts
        return store

    def get_sync(
        self,
        key: str,
        *,
        prototype: BufferPrototype | None = None,
        byte_range: ByteRequest | None = None,
    ) -> Buffer | None:
        self._ensure_open_sync()
        return self._value(key, prototype or default_buffer_prototype(), byte_range)

    async def get(
        self,
        key: str,
        prototype: BufferPrototype | None = None,
        byte_range: ByteRequest | None = None,
    ) -> Buffer | None:
        if not self._is_open:
            await self._open()
        prototype = prototype or default_buffer_prototype()
        return await asyncio.to_thread(self._value, key, prototype, byte_range)

    async def get_partial_values(
        self,
        prototype: BufferPrototype,
        key_ranges: Iterable[tuple[str, ByteRequest | None]],
    ) -> list[Buffer | None]:
        values = (self.get(key, prototype, byte_range) for key, byte_range in key_ranges)
        return await asyncio.gather(*values)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_counts": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state, _counts=_Counts())

    def _value(
        self, key: str, prototype: BufferPrototype, byte_range: ByteRequest | None
    ) -> Buffer | None:
        assert isinstance(key, str)
        path = self.root / key
        try:
            facts = path.stat()
        except (FileNotFoundError, NotADirectoryError):
            return None
        if not stat.S_ISREG(facts.st_mode):
            return None
        start, end = _bounds(byte_range, facts.st_size)
        empty = prototype.buffer.create_zero_length().as_array_like()
        # Of NumPy or, by its protocol, of the library that the GPU's buffers are made of.
        array: Any = numpy.empty_like(empty, shape=(end - start,), dtype="uint8")
        is_host = isinstance(array, numpy.ndarray)
        try:
            if is_host and end - start < SMALL:
                with path.open("rb") as file:
                    file.seek(start)
                    count = file.readinto(array)
                reading = Reading(bytes=count, direct=0, shifted=0, copied=0, page_cache=count)
            else:
                reading = self._read(path, array, start)
        except (FileNotFoundError, PeerlaneError):
            # It may have been deleted meanwhile.
            if path.exists():
                raise
            return None
        self._counts.add(reading)
        # The file may have become shorter meanwhile.
        return prototype.buffer.from_array_like(array[: reading.bytes])

    def _read(self, path: Path, array: Any, start: int) -> Reading:
        if not array.size:
            return NOTHING
        # Warnings are the process's: they must not be caught while other threads read.
        return Reader(path)._read_into(array, start, self._counts.warn_once)


class _Counts:
    """Bytes read by all threads of a store."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._has_warned = False
        self.total = NOTHING

    def add(self, reading: Reading) -> None:
        with self._lock:
            self.total = self.total.plus(reading)

    def warn_once(self, text: str) -> None:
        with self._lock:
            is_first, self._has_warned = not self._has_warned, True
        if is_first:
            warnings.warn(text, RouteWarning, stacklevel=2)


def _bounds(byte_range: ByteRequest | None, size: int) -> tuple[int, int]:
    """The first byte and the one after the last, within the file."""
    match byte_range:
        case None:
            return 0, size
        case RangeByteRequest(start=start, end=end):
            return min(start, size), max(min(end, size), min(start, size))
        case OffsetByteRequest(offset=offset):
            return min(offset, size), size
        case SuffixByteRequest(suffix=suffix):
            return max(0, size - suffix), size
        case other:
            raise TypeError(f"Unexpected byte_range, got {other}.")
