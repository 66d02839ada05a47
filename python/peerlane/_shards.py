"""Files of safetensors, and what their headers and their index say."""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

from . import _peerlane
from ._pieces import Piece
from ._types import Path as AnyPath
from .errors import BadInput

INDEX_MAX = 100_000_000
"""The longest index that is read, in bytes."""
INDEX = ".safetensors.index.json"
"""End of the name of an index."""
FIRST_INDEX = "model.safetensors.index.json"
"""The index that a folder is asked for first."""
LFS_POINTER = b"version https://git-lfs"
"""The first bytes of the text that Git LFS leaves in place of a file."""
NAMED = 3
"""Missing shards that an error names."""

Identity: TypeAlias = tuple[int, int, int, int, int]
"""Device, inode, bytes, and second and nanosecond of the last change of a file."""


class TensorInfo(NamedTuple):
    """A tensor as its file describes it."""

    dtype: str
    """Type in the words of the format: ``BF16``, ``F8_E4M3``, ``F4``."""
    shape: tuple[int, ...]
    bytes: int
    file: str


class Shard(NamedTuple):
    """A file with its header read."""

    path: Path
    start: int
    """Byte where data begins."""
    size: int
    metadata: dict[str, str]
    identity: Identity
    """Identity of the file at the time of its header."""


class Catalogue:
    """Tensors of all files of a model, in the order of files and offsets."""

    def __init__(self, paths: AnyPath | Sequence[AnyPath]) -> None:
        try:
            found, wanted = files_of(paths)
        except OSError as error:
            raise BadInput([f"cannot read {paths}", str(error)]) from error
        self.shards: list[Shard] = []
        self.entries: dict[str, Piece] = {}
        for path in found:
            self._add(path, _header(path), wanted or {})
        for name, path in (wanted or {}).items():
            if name not in self.entries:
                raise BadInput([f"tensor {name!r} is not in {path}, where the index has it"])

    def _add(self, path: Path, header: dict[str, Any], wanted: Mapping[str, Path]) -> None:
        start, number = header["start"], len(self.shards)
        metadata, identity = header["metadata"] or {}, tuple(header["identity"])
        self.shards.append(Shard(path, start, header["size"], metadata, identity))
        entries = self.entries
        for name, dtype, shape, begin, end in header["tensors"]:
            if wanted.get(name, path) != path:
                # A copy left by an older save.
                continue
            if name in entries:
                raise BadInput(
                    [f"tensor {name!r} is in {self.shards[entries[name].shard].path} and in {path}"],
                    hint="name the index of the files, if there is one: it says which of them counts",
                )
            size = end - begin
            entries[name] = Piece(name, dtype, tuple(shape), number, start + begin, size, 1, size)

    def entry(self, name: str) -> Piece:
        """The tensor of a name."""
        found = self.entries.get(name)
        if found is None:
            raise BadInput([f"tensor {name!r} is in none of {len(self.shards)} files"])
        return found

    def info(self, name: str) -> TensorInfo:
        """What the file says of a tensor."""
        entry = self.entry(name)
        file = str(self.shards[entry.shard].path)
        return TensorInfo(entry.dtype, entry.shape, entry.bytes, file)

    @property
    def metadata(self) -> dict[str, str]:
        """What the files say of themselves (``__metadata__``)."""
        return {key: value for shard in self.shards for key, value in shard.metadata.items()}


def _header(path: Path) -> dict[str, Any]:
    header: dict[str, Any] = json.loads(_peerlane.safetensors_header(path))
    return header


def files_of(paths: AnyPath | Sequence[AnyPath]) -> tuple[list[Path], dict[str, Path] | None]:
    """Files to be read; with an index, the file of each tensor, too."""
    if isinstance(paths, bytes):
        paths = os.fsdecode(paths)
    if not isinstance(paths, (str, os.PathLike)):
        found = [Path(path).absolute() for path in paths or ()]
        if not found:
            raise BadInput(["no file of safetensors is named"])
        return found, None
    # Files are opened again when tensors are asked for, perhaps in another folder.
    path = Path(paths).absolute()
    if path.is_dir():
        path = _of_folder(path)
        if path.is_dir():
            return sorted(path.glob("*.safetensors")), None
    if path.suffix != ".json" and not _is_json(path):
        return [path], None
    names = {name: path.parent / file for name, file in _index(path).items()}
    files = sorted(set(names.values()))
    missing = [str(file.relative_to(path.parent)) for file in files if not file.exists()]
    if missing:
        shown = ", ".join(missing[:NAMED]) + (", ..." if len(missing) > NAMED else "")
        raise BadInput(
            [f"{len(missing)} of {len(files)} files that {path} names are missing: {shown}"],
            hint="fetch the missing files into the folder of the index",
        )
    return files, names


def _is_json(path: Path) -> bool:
    """Whether a file begins with a JSON object instead of a header length."""
    if path.suffix == ".safetensors" or not path.is_file():
        return False
    with path.open("rb") as file:
        begin = file.read(8)
    # A header length has zero bytes at its end: it is below 100 MB.
    return begin[:1] == b"{" and b"\0" not in begin


def _of_folder(folder: Path) -> Path:
    """The index of a folder; the folder itself where it has only files of safetensors."""
    # A glob takes a folder that it may not read for an empty one.
    os.scandir(folder).close()
    indexes = sorted(folder.glob(f"*{INDEX}"))
    if folder / FIRST_INDEX in indexes:
        return folder / FIRST_INDEX
    if len(indexes) > 1:
        raise BadInput(
            [f"{folder} has {len(indexes)} indexes"], hint="name one: " + indexes[0].name
        )
    if indexes:
        return indexes[0]
    if not any(folder.glob("*.safetensors")):
        raise BadInput([f"{folder} has neither *{INDEX} nor *.safetensors"])
    return folder


def _index(path: Path) -> dict[str, str]:
    """The file of each tensor, as an index has it."""
    try:
        facts = path.stat()
        if not stat.S_ISREG(facts.st_mode):
            raise BadInput([f"cannot read {path}: it is not a regular file"])
        if facts.st_size > INDEX_MAX:
            raise BadInput([f"cannot read {path}: an index has {INDEX_MAX} bytes at most"])
        content = path.read_bytes()
        if content.startswith(LFS_POINTER):
            raise BadInput(
                [f"cannot read {path}: it is a pointer of Git LFS, not the file itself"],
                hint="git lfs pull, in the folder of the file",
            )
        whole = json.loads(content, object_pairs_hook=_once)
        if isinstance(whole, dict) and "weight_map" not in whole:
            raise BadInput(
                [f"cannot read {path}: it is not an index of safetensors: it has no weight_map"],
                hint="name the files of safetensors themselves, or their folder",
            )
        names: dict[str, str] = whole["weight_map"]
        if not all(isinstance(name, str) for name in names.values()):
            raise TypeError("weight_map: names of files are texts")
    except BadInput:
        raise
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise BadInput([f"cannot read {path}: it is not an index of safetensors", repr(error)]) from error
    for name in set(names.values()):
        # An index from somewhere else must not lead out of its folder.
        if not name or Path(name).is_absolute() or ".." in Path(name).parts or "\0" in name:
            raise BadInput([f"{path}: the file {name!r} is not in its folder"])
    return names


def _once(pairs: Iterable[tuple[str, Any]]) -> dict[str, Any]:
    """An object of JSON with every key once."""
    found: dict[str, Any] = {}
    for key, value in pairs:
        if key in found:
            raise ValueError(f"the key {key!r} is there twice")
        found[key] = value
    return found
