#!/usr/bin/env python3
"""Times the load of safetensors files until every byte was touched, next to other loaders and fio.

Each loader runs in a process of its own, in random order within each repeat; a time begins when its libraries are
imported and ends when the largest value of each tensor was taken. Cold: the page cache is dropped before; warm: the
file was read through it. fio reads the file by io_uring, direct, and touches nothing.
"""
import json, random, struct, subprocess, sys
from pathlib import Path

import common

LOADERS = {
    "peerlane": """
from peerlane.safetensors import load
def get(path, framework): return load(path, framework=framework)
""",
    "safetensors": """
import importlib
loader = importlib.import_module("safetensors." + ("torch" if framework == "torch" else "numpy"))
def get(path, framework): return loader.load_file(path)
""",
    "fastsafetensors": """
import torch
from fastsafetensors import SafeTensorsFileLoader, SingleGroup
kept = []
def get(path, framework):
    loader = SafeTensorsFileLoader(SingleGroup(), torch.device("cpu"), nogds=True)
    loader.add_filenames({0: [path]})
    files = loader.copy_files_to_device()
    kept.extend([loader, files])
    return {name: files.get_tensor(name) for name in files.key_to_rank_lidx}
""",
    "runai": """
from runai_model_streamer import SafetensorsStreamer
kept = []
def get(path, framework):
    streamer = SafetensorsStreamer().__enter__()
    kept.append(streamer)
    streamer.stream_file(path)
    return {name: tensor for name, tensor in streamer.get_tensors()}
""",
}

PROGRAM = """
import sys, time
path, framework = sys.argv[1:]
# Loaded by some loaders at the beginning and by others when they are first called.
__import__(framework)
{loader}
begin = time.monotonic_ns()
tensors = get(path, framework)
for tensor in tensors.values():
    tensor.max()
print(time.monotonic_ns() - begin, getattr(tensors, "route", ""))
"""


def make(path, size, seed):
    """Writes tensors of 64 MiB of random bytes, as whole numbers: none is not a number."""
    each, generator = 64 << 20, random.Random(seed)
    count = size // each
    header = {
        f"t{number}": {"dtype": "I32", "shape": [each // 4], "data_offsets": [number * each, (number + 1) * each]}
        for number in range(count)
    }
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with path.open("wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for _ in range(count):
            file.write(generator.randbytes(each))


def load(python, name, path, framework):
    program = PROGRAM.format(loader=LOADERS[name])
    words = common.run([python, "-c", program, path, framework]).text.split()
    return int(words[0]) / 1e9, " ".join(words[1:])


def fio(path):
    command = ["fio", "--name=read", f"--filename={path}", "--rw=read", "--bs=1M", "--direct=1"]
    command += ["--ioengine=io_uring", "--iodepth=16", "--output-format=json"]
    return json.loads(common.run(command).text)["jobs"][0]["read"]["runtime"] / 1e3


def main():
    options = common.parser(__doc__)
    options.add_argument("--python", default=sys.executable, help="the interpreter that has the loaders")
    options.add_argument("--framework", choices=["numpy", "torch"], default="torch")
    options.add_argument("--size", type=common.size_of, default=4 << 30)
    options.add_argument("--repeats", type=int, default=5)
    options.add_argument("--folder", type=Path, default=Path("."))
    asked = options.parse_args()
    names = [name for name in LOADERS if asked.framework == "torch" or name in ("peerlane", "safetensors")]
    path = asked.folder / "benchmark.safetensors"
    make(path, asked.size, asked.seed)
    order, times, routes = random.Random(asked.seed), {}, {}
    try:
        for state in ("cold", "warm"):
            for _ in range(asked.repeats):
                for name in order.sample([*names, "fio"], len(names) + 1):
                    if state == "cold" and not common.drop_caches():
                        sys.exit("the page cache cannot be dropped: run it as root")
                    if name == "fio":
                        # Direct reads are the same, warm or cold.
                        if state == "warm":
                            continue
                        found, route = fio(path), ""
                    else:
                        if state == "warm":
                            warm(path)
                        found, route = load(asked.python, name, path, asked.framework)
                    times.setdefault((state, name), []).append(found)
                    routes[state, name] = route
    finally:
        path.unlink()
    for (state, name), found in times.items():
        ours = times[state, "peerlane"]
        ratio = [other / own for other, own in zip(found, ours)]
        print(f"| {state} | {name} {routes[state, name]} | {common.spread(found, 2)} s | {common.spread(ratio)} |")


def warm(path):
    with path.open("rb") as file:
        while file.read(16 << 20):
            pass


if __name__ == "__main__":
    main()
