"""Reads a file into memory of a GPU and compares: reads.py torch|cupy|safetensors FILE DEVICE."""

from __future__ import annotations

import json
import sys
import warnings
from pathlib import Path
from typing import Any

import peerlane
import safetensors_files

RANGES = [(0, 0, 1 << 20), (3, 5001, 70_001), (1, 4095, 4097), (511, (64 << 20) + 1, (64 << 20) + 12_345)]
"""Place in the array, place in the file, and length."""
ODD = {
    "empty": ("F32", [0, 3], 0),
    "odd": ("BF16", [3, 5, 7], 210),
    "scalar": ("F64", [], 8),
    "bytes": ("U8", [4097], 4097),
}


def read(path: Path, zeros: Any, content: Any) -> None:
    """Reads each range into an array whose other bytes must stay zero."""
    data = path.read_bytes()
    reader = peerlane.Reader(path)
    for skip, at, length in RANGES:
        array = zeros(skip + length + 1)
        reader.read_into(array[skip : skip + length], at)
        if content(array) != bytes(skip) + data[at : at + length] + b"\0":
            sys.exit(f"{length} bytes from {at} on came with other content")


def into_torch(path: Path, device: str) -> None:
    import torch

    def zeros(length: int) -> Any:
        return torch.zeros(length, dtype=torch.uint8, device=device)

    read(path, zeros, lambda array: array.cpu().numpy().tobytes())


def into_cupy(path: Path, device: str) -> None:
    import cupy

    cupy.cuda.Device(int(device.rpartition(":")[2])).use()

    def zeros(length: int) -> Any:
        return cupy.zeros(length, cupy.uint8)

    read(path, zeros, lambda array: array.get().tobytes())


def safetensors(path: Path, device: str) -> None:
    import torch
    from peerlane.safetensors import load

    safetensors_files.write(path, ODD, seed=1)
    tensors = load(path, framework="torch", device=device)
    found = safetensors_files.difference([path], tensors, torch)
    if found:
        sys.exit(found)


def main() -> None:
    kind, path, device = sys.argv[1], Path(sys.argv[2]), sys.argv[3]
    warnings.simplefilter("ignore")
    {"torch": into_torch, "cupy": into_cupy, "safetensors": safetensors}[kind](path, device)
    print(json.dumps({"note": "content equal"}))


main()
