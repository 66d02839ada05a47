"""Measures peerlane on a machine with a GPU; `benchmarks/gpu.sh` starts it."""
