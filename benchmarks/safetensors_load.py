#!/usr/bin/env python3
"""Times the load of safetensors files until every byte was touched, next to other loaders and fio.

Each loader runs in a process of its own, in random order within each repeat; a time begins when its libraries are
imported and ends when the largest value of each tensor was taken. Cold: the page cache is dropped before; warm: the
files were read through it. fio reads the files by io_uring, direct, and touches nothing. Slices are rank 3 of 8: rows
of every second tensor, columns of the others.
"""
import json, random, shutil, struct, sys
from pathlib import Path

import common

SHAPES = {"large": (1, 60), "shards": (16, 64), "small": (1, 18_000)}
"""Files and tensors of a model."""

PEERLANE = """
from peerlane import safetensors
def opened(folder): return safetensors.open(folder, framework=framework)
"""
SLICES = """
def part(number, shape):
    dim = number % 2
    return dim, 3 * shape[dim] // 8, 4 * shape[dim] // 8
"""

LOADERS = {
    "peerlane": PEERLANE + """
def tensors(folder): yield from opened(folder).load().items()
""",
    "peerlane stream": PEERLANE + """
def tensors(folder): return safetensors.open(folder, framework=framework, memory="512M").stream()
""",
    "peerlane slices": PEERLANE + SLICES + """
def tensors(folder):
    model = opened(folder)
    slices = {name: part(number, model.info(name).shape) for number, name in enumerate(model.keys())}
    return model.stream(slices=slices)
""",
    "safetensors": """
from safetensors import safe_open
kind = "pt" if framework == "torch" else "numpy"
def tensors(folder):
    for path in sorted(folder.glob("*.safetensors")):
        with safe_open(path, kind) as file:
            for name in file.keys(): yield name, file.get_tensor(name)
""",
    "safetensors slices": SLICES + """
from safetensors import safe_open
kind = "pt" if framework == "torch" else "numpy"
def tensors(folder):
    number = 0
    for path in sorted(folder.glob("*.safetensors")):
        with safe_open(path, kind) as file:
            for name in file.offset_keys():
                one = file.get_slice(name)
                dim, begin, end = part(number, one.get_shape())
                yield name, one[begin:end] if dim == 0 else one[:, begin:end]
                number += 1
""",
    "fastsafetensors": """
import torch
from fastsafetensors import SafeTensorsFileLoader, SingleGroup
def tensors(folder):
    loader = SafeTensorsFileLoader(SingleGroup(), "cpu", nogds=True)
    loader.add_filenames({0: [str(path) for path in sorted(folder.glob("*.safetensors"))]})
    files = loader.copy_files_to_device()
    for name in files.key_to_rank_lidx: yield name, files.get_tensor(name)
""",
    "runai": """
from runai_model_streamer import SafetensorsStreamer
def tensors(folder):
    with SafetensorsStreamer() as streamer:
        streamer.stream_files([str(path) for path in sorted(folder.glob("*.safetensors"))])
        yield from streamer.get_tensors()
""",
}

PROGRAM = """
import json, os, pathlib, sys, threading, time
framework = sys.argv[2]
# Loaded by some loaders at the beginning and by others when they are first called.
__import__(framework)
{loader}
page, peak, over = os.sysconf("SC_PAGESIZE"), [0], threading.Event()
def anonymous():
    words = open("/proc/self/statm").read().split()
    return (int(words[1]) - int(words[2])) * page
def watch():
    while not over.wait(0.005): peak[0] = max(peak[0], anonymous())
before, keeps = anonymous(), sys.argv[3] == "keep"
threading.Thread(target=watch, daemon=True).start()
begin, cpu, first, kept, count = time.monotonic(), time.process_time(), 0.0, [], 0
for name, tensor in tensors(pathlib.Path(sys.argv[1])):
    first = first or time.monotonic() - begin
    tensor.max()
    count += tensor.nbytes
    if keeps: kept.append(tensor)
    del tensor
found = dict(seconds=time.monotonic() - begin, first=first, cpu=time.process_time() - cpu, bytes=count)
over.set()
print(json.dumps(found | dict(peak=max(0, max(peak[0], anonymous()) - before))))
"""


def make(folder, shape, size, seed):
    """Writes a model of random bytes, as whole numbers: none is not a number."""
    (files, count), generator = SHAPES[shape], random.Random(seed)
    columns = 4096 if shape != "small" else 256
    rows = max(8, size // count // columns // 4 // 8 * 8)
    each = rows * columns * 4
    for file in range(files):
        some = range(file * count // files, (file + 1) * count // files)
        header = {
            f"t{number:05}": {"dtype": "I32", "shape": [rows, columns], "data_offsets": [at * each, (at + 1) * each]}
            for at, number in enumerate(some)
        }
        text = json.dumps(header).encode()
        text += b" " * (-len(text) % 8)
        with (folder / f"model-{file:02}.safetensors").open("wb") as out:
            out.write(struct.pack("<Q", len(text)) + text)
            for _ in some:
                out.write(generator.randbytes(each))


def load(python, name, folder, framework):
    program = PROGRAM.replace("{loader}", LOADERS[name])
    how = "drop" if "stream" in name else "keep"
    ran = common.run([python, "-c", program, folder, framework, how])
    return json.loads(ran.text.strip().splitlines()[-1]) | {"read": ran.read}


def fio(folder):
    files = ":".join(str(path) for path in sorted(folder.glob("*.safetensors")))
    command = ["fio", "--name=read", f"--filename={files}", "--rw=read", "--bs=1M", "--direct=1"]
    command += ["--file_service_type=sequential", "--ioengine=io_uring", "--iodepth=16", "--output-format=json"]
    return {"seconds": json.loads(common.run(command).text)["jobs"][0]["read"]["runtime"] / 1e3}


def row(state, name, found, ours):
    """The line of a loader in the table."""
    seconds = [one["seconds"] for one in found]
    ratio = common.spread([other / own for other, own in zip(seconds, ours)])
    rest = ["", "", "", ""]
    if name != "fio":
        middle = sorted(found, key=lambda one: one["seconds"])[len(found) // 2]
        read = f"{middle['read'] / middle['bytes']:.2f}"
        rest = [f"{middle['first']:.2f} s", f"{middle['cpu']:.2f} s", f"{middle['peak'] / 1e6:.0f} MB", read]
    return " | ".join(["", state, name, f"{common.spread(seconds, 2)} s", ratio, *rest, ""]).strip()


def main():
    options = common.parser(__doc__)
    options.add_argument("--python", default=sys.executable, help="the interpreter that has the loaders")
    options.add_argument("--framework", choices=["numpy", "torch"], default="torch")
    options.add_argument("--shape", choices=sorted(SHAPES), default="large")
    options.add_argument("--size", type=common.size_of, default=4 << 30)
    options.add_argument("--repeats", type=int, default=5)
    options.add_argument("--only", nargs="*", choices=sorted(LOADERS), help="these loaders, and peerlane")
    options.add_argument("--folder", type=Path, default=Path("."))
    asked = options.parse_args()
    names = [name for name in LOADERS if not asked.only or name in asked.only or name == "peerlane"]
    if asked.framework == "numpy":
        names = [name for name in names if name.split()[0] in ("peerlane", "safetensors")]
    folder = asked.folder / "benchmark-safetensors"
    folder.mkdir()
    order, times = random.Random(asked.seed), {}
    try:
        make(folder, asked.shape, asked.size, asked.seed)
        for state in ("cold", "warm"):
            # Direct reads are the same, warm or cold.
            others = ["fio"] if state == "cold" and shutil.which("fio") else []
            for _ in range(asked.repeats):
                for name in order.sample([*names, *others], len(names) + len(others)):
                    if state == "warm":
                        warm(folder)
                    elif not common.drop_caches():
                        sys.exit("the page cache cannot be dropped: run it as root")
                    found = fio(folder) if name == "fio" else load(asked.python, name, folder, asked.framework)
                    times.setdefault((state, name), []).append(found)
    finally:
        for path in folder.iterdir():
            path.unlink()
        folder.rmdir()
    for (state, name), found in times.items():
        print(row(state, name, found, [one["seconds"] for one in times[state, "peerlane"]]))


def warm(folder):
    for path in folder.iterdir():
        with path.open("rb") as file:
            while file.read(16 << 20):
                pass


if __name__ == "__main__":
    main()
