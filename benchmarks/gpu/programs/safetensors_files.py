"""Safetensors files as these programs write, read and compare them; the standard library alone."""

from __future__ import annotations

import json
import mmap
import os
import random
import struct
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

SHARDS = 16
LARGE = 60
SMALL = 2000
LARGE_PART = 15 / 16
"""Share of the bytes that the large tensors have."""
PERIOD = 16_777_213
"""Length after which the content repeats: a prime, so that no two blocks of a file are equal."""

Shapes = Mapping[str, tuple[str, Sequence[int], int]]
"""Type, shape and bytes by name."""


def weights(size: int) -> dict[str, tuple[str, Sequence[int], int]]:
    """Returns 60 large and 2,000 small tensors of about `size` bytes in all."""
    large = int(size * LARGE_PART) // LARGE // 2 * 2
    mean = max(int(size * (1 - LARGE_PART)) // SMALL // 2, 1)
    lengths = {f"layer.{number:02}.weight": large for number in range(LARGE)}
    for number in range(SMALL):
        # From 2 bytes to twice the mean, in no order, so that few tensors begin at a page.
        lengths[f"small.{number:04}.scale"] = 2 * (1 + number * 7919 % (2 * mean - 1))
    return {name: ("BF16", [length // 2], length) for name, length in lengths.items()}


def write(path: Path, tensors: Shapes, seed: int) -> None:
    """Writes a file of random content."""
    block = random.Random(seed).randbytes(PERIOD)
    header: dict[str, Any] = {}
    at = 0
    for name, (dtype, shape, length) in tensors.items():
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [at, at + length]}
        at += length
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with path.open("wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        while at:
            at -= file.write(memoryview(block)[:at])
        file.flush()
        os.fsync(file.fileno())


def write_shards(folder: Path, tensors: Shapes, seed: int) -> None:
    """Writes the same tensors in 16 files with an index."""
    folder.mkdir()
    weight_map: dict[str, str] = {}
    for shard in range(SHARDS):
        name = f"model-{shard + 1:05}-of-{SHARDS:05}.safetensors"
        part = {key: tensors[key] for number, key in enumerate(tensors) if number % SHARDS == shard}
        write(folder / name, part, seed + shard)
        weight_map |= dict.fromkeys(part, name)
    index = {"metadata": {}, "weight_map": weight_map}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))


def read(path: Path) -> Iterator[tuple[str, dict[str, Any], memoryview]]:
    """Returns name, header and bytes of each tensor, out of a map of the file."""
    with path.open("rb") as file:
        data = memoryview(mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ))
    (length,) = struct.unpack("<Q", data[:8])
    for name, tensor in json.loads(bytes(data[8 : 8 + length])).items():
        if name != "__metadata__":
            begin, end = tensor["data_offsets"]
            yield name, tensor, data[8 + length + begin : 8 + length + end]


def difference(paths: Sequence[Path], tensors: Mapping[str, Any], torch: Any) -> str | None:
    """Compares tensors of PyTorch with their files; returns the first difference."""
    missing = set(tensors)
    for path in paths:
        for name, header, data in read(path):
            if name not in tensors:
                return f"tensor {name} is missing"
            missing.remove(name)
            tensor = tensors[name]
            if list(tensor.shape) != header["shape"]:
                return f"tensor {name} has the shape {list(tensor.shape)}"
            if not data:
                continue
            # A scalar has no view of another type, and random bits are no equal numbers.
            found = tensor.reshape(-1).view(torch.uint8)
            wanted = torch.frombuffer(bytearray(data), dtype=torch.uint8).to(tensor.device)
            if not torch.equal(found, wanted):
                return f"tensor {name} has other content"
    return f"tensor {missing.pop()} is not in the files" if missing else None
