#!/usr/bin/env python3
"""Rate of files into pinned slots on their way to a GPU, without a GPU: by the mock of CUDA, whose copies move nothing.

    tools/test-python --prepare && tools/test-python python/tests/test_cuda.py    # builds and installs the package
    benchmarks/load_slots.py --python target/python/venv/bin/python --size 1G --repeats 5

Alternates with `dd` of the same file with blocks of 4 MiB, out of the page cache or round it.
Drops the page cache of the file between cold repeats. It says nothing of a GPU, and nothing of the copy engine.
"""

from __future__ import annotations

import argparse
import json
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

import common

ROOT = pathlib.Path(__file__).resolve().parents[1]
MOCK = ROOT / "crates" / "memory" / "mock-cuda"
LOADER = """
import ctypes, json, sys, time
import peerlane
path, size = sys.argv[1], int(sys.argv[2])
library = ctypes.CDLL("libcuda.so.1")
context, address = ctypes.c_void_p(), ctypes.c_uint64()
library.cuInit(0)
library.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0)
library.cuCtxSetCurrent(context)
assert library.cuMemAlloc_v2(ctypes.byref(address), ctypes.c_size_t(size)) == 0

class Memory:
    __cuda_array_interface__ = {
        "shape": (size,), "typestr": "|u1", "data": (address.value, False), "version": 3, "stream": None,
    }

reader = peerlane.Reader(path)
for turn in sys.stdin:
    if turn == "cold\\n":
        import os
        file = os.open(path, os.O_RDONLY)
        os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)
        os.close(file)
    begin = time.perf_counter()
    reading = reader.read_into(Memory())
    print(json.dumps([time.perf_counter() - begin, reading.page_cache, reading.copied]), flush=True)
"""


def mock(folder: pathlib.Path) -> None:
    """Builds the mock of CUDA."""
    library = folder / "libcuda.so.1"
    flags = ["-std=gnu11", "-O1", "-shared", "-fPIC", f'-DSHIM="{MOCK / "shim.h"}"']
    subprocess.run(["cc", *flags, "-o", library, MOCK / "mock.c", MOCK / "compute.c"], check=True)
    (folder / "libcuda.so.1.conf").write_text("null=1\nno_register=1\ndelay=0\nmemory=100000000000\n")


def dd(path: pathlib.Path, is_cold: bool) -> float:
    """Seconds that dd takes to read the file."""
    flags = ["iflag=direct"] if is_cold else []
    begin = time.perf_counter()
    subprocess.run(["dd", f"if={path}", "of=/dev/null", "bs=4M", *flags], check=True, capture_output=True)
    return time.perf_counter() - begin


def measure(arguments: argparse.Namespace, folder: pathlib.Path) -> dict[str, list[tuple[float, float]]]:
    """Pairs of rates in GB/s, peerlane's and dd's, of repeats by turns."""
    path, size = folder / "file", common.size_of(arguments.size)
    common.fill(path, size, seed=1)
    command = [arguments.python, "-c", LOADER, path, str(size)]
    environment = os.environ | {"LD_LIBRARY_PATH": str(folder)}
    pairs: dict[str, list[tuple[float, float]]] = {"warm": [], "cold": []}
    with subprocess.Popen(
        command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdin and process.stdout
        for kind in (*["warm"] * (arguments.repeats + 1), *["cold"] * arguments.repeats):
            print(kind, file=process.stdin, flush=True)
            seconds, cached, _ = json.loads(process.stdout.readline())
            if kind == "cold" and cached:
                raise SystemExit(f"{cached} bytes were still cached")
            pairs[kind].append((size / seconds / 1e9, size / dd(path, kind == "cold") / 1e9))
        process.stdin.close()
    # The first one registers the slots.
    pairs["warm"].pop(0)
    return pairs


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--size", default="1G")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--folder", default=".")
    arguments = parser.parse_args()
    folder = pathlib.Path(tempfile.mkdtemp(prefix="peerlane-slots.", dir=arguments.folder)).resolve()
    try:
        mock(folder)
        pairs = measure(arguments, folder)
    finally:
        shutil.rmtree(folder)
    print(f"{os.cpu_count()} processors, load {os.getloadavg()[0]:.1f}, {arguments.size}\n")
    print("| | peerlane into slots, GB/s | dd, GB/s | ratio, median (lowest to highest) |\n|---|---|---|---|")
    for kind, both in pairs.items():
        ratios = [ours / theirs for ours, theirs in both]
        ours, theirs = (statistics.median(column) for column in zip(*both, strict=True))
        print(
            f"| {kind} | {ours:.2f} | {theirs:.2f} "
            f"| {statistics.median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f}) |"
        )


if __name__ == "__main__":
    main()
