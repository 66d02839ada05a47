"""A reader for ``torch.distributed.checkpoint``: files of safetensors, and the checkpoints that it writes itself.

    import torch.distributed.checkpoint as dcp
    from peerlane.checkpoint import StorageReader
    dcp.load(state, storage_reader=StorageReader("folder"))

Of tensors in safetensors files only the ranges that a rank needs are read.
"""

from __future__ import annotations

import io
import json
import logging
from math import prod
from pathlib import Path
from typing import Any

try:
    import torch
    from torch.distributed.checkpoint import FileSystemReader
    from torch.distributed.checkpoint.metadata import (
        ChunkStorageMetadata,
        Metadata,
        MetadataIndex,
        StorageMeta,
        TensorProperties,
        TensorStorageMetadata,
    )
    from torch.futures import Future
except ImportError as error:
    raise ImportError(f"{error}; hint: pip install torch") from error

from . import safetensors
from ._pieces import Cut
from ._reader import NOTHING, Reader
from ._shards import files_of
from ._types import Size
from ._views import PACKED, TorchViews, shape_of
from .errors import BadInput, PeerlaneError

__all__ = ["StorageReader"]

LOG = logging.getLogger("peerlane")
SHARDING = "DCP_SHARDING_INFO"
"""Key of a file's metadata under which torch says which part of each tensor the file has."""
OFFSETS = "saved_offsets"
"""Key of the place of such a part."""


class StorageReader(FileSystemReader):
    """Reads a folder with ``*.safetensors``, or one that ``torch.distributed.checkpoint`` wrote.

    Parameters
    ----------
    path
        The folder.
    device
        The device that tensors come to before they are copied into those of the state.
    memory
        The most memory that is held in addition, as of a stream.
    """

    def __init__(
        self, path: str | Path, device: str = "cpu", *, memory: Size = "2G", pinned: Size | None = None
    ) -> None:
        super().__init__(path=path)
        self._options: dict[str, Any] = {"device": device, "memory": memory, "pinned": pinned}
        self._models: dict[str, safetensors.Model] = {}
        self._reading = NOTHING

    def reset(self, checkpoint_id: Any = None) -> None:
        """Forgets what was read."""
        super().reset(checkpoint_id)
        self._models = {}

    def read_metadata(self, *arguments: Any, **options: Any) -> Any:
        """Tensors of all files, and which part of them each has."""
        folder = Path(self.path)
        if not any(folder.glob("*.safetensors")):
            return super().read_metadata(*arguments, **options)
        files, indexed = files_of(folder)
        named = indexed or {}
        types = TorchViews("cpu")
        tensors: dict[str, Any] = {}
        where: dict[Any, str] = {}
        for file in files:
            model = safetensors.open(file, **self._options)
            self._models[str(file)] = model
            parts = json.loads(model.metadata.get(SHARDING, "null"))
            for name in model.keys():
                info = model.info(name)
                shape = shape_of(info)
                # Rows that do not fill bytes have no shape in PyTorch.
                if len(shape) != len(info.shape) or named.get(name, file) != file:
                    continue
                offsets = torch.Size(parts[name][OFFSETS] if parts else [0] * len(shape))
                size = [begin + length for begin, length in zip(offsets, shape, strict=True)]
                one = tensors.setdefault(
                    name,
                    TensorStorageMetadata(
                        properties=TensorProperties(dtype=types.dtype(info.dtype)),
                        size=torch.Size(size),
                        chunks=[],
                    ),
                )
                one.size = torch.Size(map(max, one.size, size))
                one.chunks.append(ChunkStorageMetadata(offsets, torch.Size(shape)))
                index = MetadataIndex(fqn=name, offset=offsets)
                if index in where:
                    raise BadInput([f"tensor {name!r} is in {where[index]} and in {file}"])
                where[index] = str(file)
        metadata = Metadata(state_dict_metadata=tensors, storage_data=where)
        metadata.storage_meta = StorageMeta()
        metadata.storage_meta.load_id = self.load_id
        return metadata

    def read_data(self, plan: Any, planner: Any) -> Any:
        """Fills the tensors of a plan."""
        if not self._models:
            done = super().read_data(plan, planner)
            LOG.info("torch.distributed.checkpoint: %s: %s", self.path, self._reading)
            return done
        by_file: dict[str, list[Any]] = {}
        for item in plan.items:
            by_file.setdefault(self.storage_data[item.storage_index], []).append(item)
        for file, items in by_file.items():
            while items:
                items = self._read_each_once(self._models[file], items, planner)
        future = Future()
        future.set_result(None)
        return future

    def _read_each_once(self, model: safetensors.Model, items: list[Any], planner: Any) -> list[Any]:
        """Fills one part of each tensor; returns the rest."""
        chosen: dict[str, Any] = {}
        rest = []
        for item in items:
            name = item.storage_index.fqn
            if name in chosen:
                rest.append(item)
            else:
                chosen[name] = item
        slices = {name: cut for name, item in chosen.items() if (cut := _cut(model, name, item))}
        for name, tensor in model.stream(list(chosen), slices=slices):
            item = chosen[name]
            for dim, (begin, length) in enumerate(zip(item.storage_offsets, item.lengths, strict=True)):
                if tensor.shape[dim] != length:
                    tensor = tensor.narrow(dim, begin, length)
            target = planner.resolve_tensor(item).detach()
            # PyTorch copies no numbers of four bits.
            is_packed = tensor.dtype == target.dtype and model.info(name).dtype in PACKED
            into, found = (one.view(torch.uint8) if is_packed else one for one in (target, tensor))
            into.copy_(found)
            planner.commit_tensor(item, target)
        return rest

    def _slice_file(self, file: Any, sinfo: Any) -> Any:
        """One entry of a file that ``torch.distributed.checkpoint`` wrote."""
        content = bytearray(sinfo.length)
        reading = Reader(file.name).read_into(content, sinfo.offset)
        if reading.bytes != sinfo.length:
            raise PeerlaneError([f"{file.name} ends before byte {sinfo.offset + sinfo.length}"])
        self._reading = self._reading.plus(reading)
        return io.BytesIO(content)


def _cut(model: safetensors.Model, name: str, item: Any) -> Cut | None:
    """The part to be read: along the dimension that leaves the least of the tensor."""
    info = model.info(name)
    shape = shape_of(info)
    if not prod(shape):
        return None
    lengths = enumerate(zip(item.lengths, shape, strict=True))
    # Rows of bytes that hold numbers of fewer bits stay whole.
    parts = [(length / size, dim) for dim, (length, size) in lengths if size == info.shape[dim]]
    share, dim = min(parts, default=(1.0, 0))
    begin = item.storage_offsets[dim] if share < 1 else 0
    return (dim, begin, begin + item.lengths[dim]) if share < 1 else None
