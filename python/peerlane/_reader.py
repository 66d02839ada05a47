"""Reading into memory of the caller."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

from . import _peerlane
from ._types import Path, Size, words
from .errors import BadInput, RouteWarning


class Reading(NamedTuple):
    """Bytes of a read, by the path that they took."""

    bytes: int
    """Bytes read; fewer than there is room for only where the file ends."""
    direct: int
    """Bytes of them that the drive's DMA put where they are; into a GPU: by cuFile, without host memory."""
    shifted: int
    """Bytes of them that the drive's DMA put into the memory next to their place, and a CPU moved there."""
    copied: int
    """Bytes of them that came through host memory of Peerlane and were stored by a CPU, or by a GPU's copy engine."""
    page_cache: int
    """Bytes of them that came out of the page cache: where the file takes no direct I/O, and on their way to a GPU
    those that lay there."""

    def plus(self, other: Reading) -> Reading:
        """The sum of both, path by path."""
        return Reading(*map(sum, zip(self, other, strict=True)))


TIMEOUT = 60
"""Seconds to wait for a device."""

NOTHING = Reading(0, 0, 0, 0, 0)
"""Before anything was read."""


class Reader:
    """A file or block device, open for reading round the page cache.

    Parameters
    ----------
    path
        A file, a block device, or the PCI address of a drive.

    Raises
    ------
    BadInput
        It is not there, or nothing that has a size.
    PeerlaneError
        It cannot be opened.

    Examples
    --------
    >>> import pathlib, peerlane
    >>> _ = pathlib.Path("numbers.bin").write_bytes(bytes(range(100)))
    >>> buffer = bytearray(4)
    >>> reader = peerlane.Reader("numbers.bin")
    >>> reader.size, reader.read_into(buffer, offset=10).bytes, list(buffer)
    (100, 4, [10, 11, 12, 13])
    """

    __slots__ = ("_reader",)

    def __init__(self, path: Path) -> None:
        self._reader = _peerlane.Reader(words(path) or "")

    @property
    def path(self) -> str:
        """Absolute path, links resolved."""
        return self._reader.path

    @property
    def size(self) -> int:
        """Bytes that there are to be read."""
        return self._reader.size

    @property
    def block(self) -> int:
        """Offsets that are a multiple of it, into memory that is aligned to it, need no copy."""
        return self._reader.block

    @property
    def is_direct(self) -> bool:
        """Whether reads go round the page cache."""
        return self._reader.is_direct

    def read_into(
        self, target: Any, offset: int = 0, *, timeout: int = TIMEOUT, pinned: Size | None = None
    ) -> Reading:
        """Fills memory with the bytes at an offset, up to the end of the file.

        Whole blocks go to their place by DMA, if the memory is aligned as the file wants it. At
        another alignment they go next to it and are moved from there. A beginning and an end that
        are not whole blocks go through host memory of Peerlane, and so do all of 64 KiB and less
        that are not whole blocks in their place. The result has the bytes of each route.

        Memory of a GPU gets its bytes by cuFile, direct, if the machine has such a way (a
        ``RouteWarning`` says, once a process, why it was not taken); else through pinned host
        memory, by several threads: out of the page cache if they lie there, else round it. Work of
        the memory's owner in its current stream comes first (version 3 of the interface, and
        PyTorch; of others everything in the context is waited for), and all bytes are there on
        return.

        Parameters
        ----------
        target
            Anything writable with the buffer protocol (``bytearray``, ``memoryview``, ``numpy.ndarray``)
            or with ``__dlpack__`` on the CPU (``torch.Tensor``), or memory of a GPU with
            ``__cuda_array_interface__`` (``cupy.ndarray``, ``torch.Tensor``, Numba), in one piece and in
            C's order. All of it is filled, whatever its type is.
        offset
            Bytes from the beginning of the file.
        timeout
            Seconds to wait for a device.
        pinned
            The most pinned host memory of all loads of this process, for a GPU: ``PEERLANE_PINNED`` in the
            environment unless it is given, else 128 MiB.

        Raises
        ------
        BadInput
            The memory is read only, has gaps, or is none.
        CudaUnavailable
            The memory is that of a GPU, and there is no driver or no GPU.
        Interrupted
            Ctrl-C; ``done`` bytes are there, in host memory from the beginning on, on a GPU in no order.
        """
        if offset < 0 or not 1 <= timeout <= 86_400:
            raise BadInput(["offset: 0 or more is needed, timeout: 1 to 86400"])
        return Reading(**self._reader.read_into(target, offset, timeout, size(pinned), _warn_above))

    def _read_into(self, target: Any, offset: int, said: Callable[[str], object]) -> Reading:
        """Reads as :meth:`read_into` does, and hands warnings to a function."""
        return Reading(**self._reader.read_into(target, offset, TIMEOUT, None, said))

    def _read_ranges(self, ranges: list[tuple[int, Any]]) -> Reading:
        """Fills several memories of the host, each from an offset on, as one read."""
        return Reading(**self._reader.read_ranges(ranges, TIMEOUT))

    def __repr__(self) -> str:
        return f"Reader({self.path!r})"


_said: set[str] = set()


def size(value: Size | None) -> str | None:
    """A size as text; ``None`` stays ``None``."""
    return None if value is None else str(value)


def warn(text: str, stacklevel: int) -> None:
    """Says why bytes did not go directly, once a process."""
    if text not in _said:
        _said.add(text)
        warnings.warn(text, RouteWarning, stacklevel=stacklevel + 1)


def _warn_above(text: str) -> None:
    # Over the frames of this function and of `read_into`, to the line that called.
    warn(text, 3)
