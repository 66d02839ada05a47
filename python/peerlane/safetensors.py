"""Tensors of safetensors files, read round the page cache or out of it, whichever is quicker, also into a GPU.

>>> import pathlib, struct
>>> header = b'{"weights":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}}'
>>> header += b" " * (-len(header) % 8)
>>> content = struct.pack("<Q", len(header)) + header + struct.pack("<2f", 1, 2)
>>> _ = pathlib.Path("two.safetensors").write_bytes(content)
>>> from peerlane.safetensors import load
>>> tensors = load("two.safetensors")
>>> tensors["weights"].tolist()
[1.0, 2.0]
"""

from __future__ import annotations

import json
import mmap
import os
import stat
import threading
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any, Literal, NamedTuple

from . import _peerlane
from ._reader import NOTHING, TIMEOUT, Reader, Reading, warn
from ._reader import size as size_words
from ._types import Size
from ._views import NumpyViews, TorchViews, Views
from .errors import BadInput, PeerlaneError

__all__ = ["FileRoute", "Tensors", "load"]

SAMPLES = 64
"""Places of a file that are looked up in the page cache: a file that is not in it answers at the first."""
PART = 256 << 20
"""Bytes read between two looks at whether another shard has failed."""
SHARDS = 8
"""Shards that are read into host memory at the same time."""
INDEX_MAX = 100_000_000
"""The longest index that is read, in bytes."""
POPULATE_READ = 22
"""``MADV_POPULATE_READ`` of Linux 5.14, which the module ``mmap`` has no name for."""


class FileRoute(NamedTuple):
    """How the tensors of one file came."""

    path: str
    route: str
    """``direct``: by DMA into the tensors' memory; ``mapped``: the page cache itself; ``page cache``: copied
    out of it; ``p2p``: from the drive to the GPU; ``host``: to the GPU through pinned host memory."""
    reason: str
    reading: Reading


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


def load(
    path: str | os.PathLike[str],
    device: str = "cpu",
    framework: Literal["numpy", "torch"] = "numpy",
    *,
    pinned: Size | None = None,
) -> Tensors:
    """Loads all tensors of a file, or of all files that an index names.

    A file that lies in the page cache is mapped: nothing is copied, stores to the tensors stay in this process,
    and **a file that is cut afterwards ends it** (``SIGBUS``), as with other loaders that map. Any other is read
    by direct I/O into memory of its own. Into a GPU all files are one load: several threads send
    bytes of the page cache and of the drive straight to their place.

    Parameters
    ----------
    path
        A ``.safetensors`` file, or the ``.safetensors.index.json`` next to several.
    device
        ``"cpu"``, ``"cuda"`` or ``"cuda:0"`` and so on; a GPU needs ``framework="torch"``.
    framework
        Whose tensors to make. ``bfloat16`` and ``float8`` of NumPy need the package ``ml_dtypes``.
    pinned
        The most pinned host memory of all loads of this process, for a GPU: ``PEERLANE_PINNED`` in the environment
        unless it is given, else 128 MiB.

    Raises
    ------
    BadInput
        A header or index is broken, names absent data, or has a type that the framework lacks.
    PeerlaneError
        A file cannot be read, or changed meanwhile.
    """
    views: Views = TorchViews(device) if framework == "torch" else NumpyViews(framework, device)
    shards, wanted = _shards(Path(path))
    headers = [_header(shard) for shard in shards]
    _check_names(shards, headers, wanted)
    for shard, header in zip(shards, headers, strict=True):
        views.check(shard, header["tensors"])
    if views.allocate is not None:
        loaded = _to_gpu(shards, headers, views, views.allocate, pinned)
    else:
        stop = threading.Event()
        loaded = _each(lambda pair: _load(*pair, views, stop), list(zip(shards, headers)), stop)
    tensors: dict[str, Any] = {}
    metadata: dict[str, str] = {}
    for header, (found, _) in zip(headers, loaded, strict=True):
        tensors |= found
        metadata |= header["metadata"] or {}
    return Tensors(tensors, [route for _, route in loaded], metadata)


def _shards(path: Path) -> tuple[list[Path], dict[str, str] | None]:
    """Files to be read; with an index, the file of each tensor, too."""
    if path.suffix != ".json":
        return [path], None
    try:
        facts = path.stat()
        if not stat.S_ISREG(facts.st_mode):
            raise BadInput([f"cannot read {path}: it is not a regular file"])
        if facts.st_size > INDEX_MAX:
            raise BadInput([f"cannot read {path}: an index has {INDEX_MAX} bytes at most"])
        names = json.loads(path.read_bytes())["weight_map"]
        if not all(isinstance(name, str) for name in names.values()):
            raise TypeError("weight_map: names of files are texts")
    except OSError as error:
        raise BadInput([f"cannot read {path}", str(error)]) from error
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise BadInput([f"cannot read {path}: it is not an index of safetensors", repr(error)]) from error
    for name in set(names.values()):
        # An index from somewhere else must not lead out of its folder.
        if not name or Path(name).is_absolute() or ".." in Path(name).parts or "\0" in name:
            raise BadInput([f"{path}: the file {name!r} is not in its folder"])
    return [path.parent / name for name in sorted(set(names.values()))], names


def _header(path: Path) -> dict[str, Any]:
    header: dict[str, Any] = json.loads(_peerlane.safetensors_header(path))
    return header


def _check_names(
    shards: list[Path], headers: list[dict[str, Any]], wanted: dict[str, str] | None
) -> None:
    """Checks the index against the files; no tensor may be in two."""
    where: dict[str, Path] = {}
    for shard, header in zip(shards, headers, strict=True):
        for tensor in header["tensors"]:
            name = tensor["name"]
            if name in where:
                raise BadInput([f"tensor {name!r} is in {where[name]} and in {shard}"])
            where[name] = shard
    for name, file in (wanted or {}).items():
        parts = Path(file).parts
        if name not in where or where[name].parts[-len(parts) :] != parts:
            raise BadInput([f"tensor {name!r} is not in {file}, where the index has it"])


def _each(
    work: Callable[[tuple[Path, dict[str, Any]]], tuple[dict[str, Any], FileRoute]],
    pairs: list[tuple[Path, dict[str, Any]]],
    stop: threading.Event,
) -> list[tuple[dict[str, Any], FileRoute]]:
    """Does the work for all shards; one alone on this thread, which hears Ctrl-C at once."""
    if len(pairs) == 1:
        return [work(pairs[0])]
    with ThreadPoolExecutor(SHARDS) as threads:
        futures = [threads.submit(work, pair) for pair in pairs]
        try:
            return [future.result() for future in futures]
        except BaseException:
            stop.set()
            threads.shutdown(wait=True, cancel_futures=True)
            raise


def _load(
    path: Path, header: dict[str, Any], views: Views, stop: threading.Event
) -> tuple[dict[str, Any], FileRoute]:
    start, size = header["start"], header["size"]
    memory, route = _to_host(path, start, size, stop)
    return views.make(memory, start, header["tensors"]), route


def _to_gpu(
    shards: list[Path],
    headers: list[dict[str, Any]],
    views: Views,
    allocate: Callable[[int], Any],
    pinned: Size | None,
) -> list[tuple[dict[str, Any], FileRoute]]:
    memories = [allocate(header["size"] - header["start"]) for header in headers]
    parts = [
        (path, header["start"], memory)
        for path, header, memory in zip(shards, headers, memories, strict=True)
    ]
    found = _peerlane.load_to_gpu(parts, TIMEOUT, size_words(pinned), _warn_above)
    return [
        (views.make(memory, 0, header["tensors"]), _gpu_route(path, Reading(**reading)))
        for (path, _, memory), header, reading in zip(parts, headers, found, strict=True)
    ]


def _gpu_route(path: Path, reading: Reading) -> FileRoute:
    if not reading.bytes:
        return FileRoute(str(path), "host", "it has no data", reading)
    if reading.direct == reading.bytes:
        return FileRoute(str(path), "p2p", "by cuFile's counters", reading)
    reason = f"{reading.page_cache} bytes out of the page cache, {reading.copied} from the drive"
    return FileRoute(str(path), "host", reason, reading)


def _warn_above(text: str) -> None:
    # Over the frames of this function, of `_to_gpu` and of `load`, to the line that called.
    warn(text, 4)


def _to_host(path: Path, start: int, size: int, stop: threading.Event) -> tuple[Any, FileRoute]:
    if size == start:
        return bytearray(size), FileRoute(str(path), "direct", "it has no data", NOTHING)
    with path.open("rb", buffering=0) as file:
        if _is_cached(file.fileno(), size):
            try:
                memory = mmap.mmap(
                    file.fileno(), size, mmap.MAP_PRIVATE, mmap.PROT_READ | mmap.PROT_WRITE
                )
            except ValueError as error:
                raise PeerlaneError([f"{path} became shorter while it was read"]) from error
            with suppress(OSError):
                memory.madvise(POPULATE_READ)
            count = size - start
            reason = f"each of {SAMPLES} places of the file that were looked up is in the page cache"
            return memory, FileRoute(str(path), "mapped", reason, Reading(count, 0, 0, 0, count))
    # The file's blocks lie in pages as they lie in the file, so that DMA may put them where they belong.
    memory = mmap.mmap(-1, size, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    with suppress(OSError):
        memory.madvise(mmap.MADV_HUGEPAGE)
    reader = Reader(path)
    begin = start // mmap.PAGESIZE * mmap.PAGESIZE
    reading = _read(reader, memoryview(memory)[begin:], begin, stop)
    route = "direct" if reader.is_direct else "page cache"
    reason = "not all of it is in the page cache" if reader.is_direct else "it takes no direct I/O"
    return memory, FileRoute(str(path), route, reason, reading)


def _read(reader: Reader, memory: Any, offset: int, stop: threading.Event) -> Reading:
    """Fills memory, part by part."""
    total = NOTHING
    for begin in range(0, len(memory), PART):
        if stop.is_set():
            raise PeerlaneError([f"{reader.path} is not read any more: another file failed"])
        part = memory[begin : begin + PART]
        reading = reader.read_into(part, offset + begin)
        if reading.bytes != len(part):
            raise PeerlaneError([f"{reader.path} became shorter while it was read"])
        total = total.plus(reading)
    return total


def _is_cached(file: int, size: int) -> bool:
    """Whether the page cache answers at places all over a file without asking the disk.

    ``RWF_NOWAIT`` may begin to read ahead where it does not answer (Linux 5.9); as a file that is read at random, one
    page at most.
    """
    os.posix_fadvise(file, 0, 0, os.POSIX_FADV_RANDOM)
    try:
        return all(
            os.preadv(file, [bytearray(1)], offset, os.RWF_NOWAIT) == 1
            for offset in _places(size)
        )
    except OSError:
        return False


def _places(size: int) -> Iterable[int]:
    """From the end on, since an earlier reader read the beginning first."""
    return (size * place // SAMPLES for place in reversed(range(SAMPLES)))
