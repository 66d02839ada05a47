"""Makes weights in one file and in 16 shards with an index: make_weights.py FOLDER SIZE SEED."""

from __future__ import annotations

import sys
from pathlib import Path

import safetensors_files


def main() -> None:
    folder, tensors, seed = Path(sys.argv[1]), safetensors_files.weights(int(sys.argv[2])), int(sys.argv[3])
    safetensors_files.write(folder / "model.safetensors", tensors, seed)
    safetensors_files.write_shards(folder / "shards", tensors, seed)


main()
