#!/usr/bin/env python3
"""Times the load of safetensors files until every byte was touched, next to other loaders and fio.

Each loader runs in a process of its own, in random order within each repeat; a time begins when its libraries are
imported and ends when the largest value of each tensor was taken. Cold: the files were dropped from the page cache;
warm: they were read through it. fio reads the files by io_uring, direct, and touches nothing. Slices are rank 3 of 8:
columns of projections whose result is summed over ranks, rows of the other matrices, all of norms and routers.
"""
import json, os, random, shutil, struct, sys
from math import prod
from pathlib import Path

import common

SHAPES = {"large": (1, 60), "shards": (16, 64), "outline": (16, 18_867)}
"""Files and tensors of a model. The outline is that of Qwen3-30B-A3B, 61 GB: its names and row lengths, fewer rows."""
ROW = 25_600
"""Numbers of a row of large tensors: the intermediate size of Qwen3-32B."""

PEERLANE = """
from peerlane import safetensors
def opened(folder): return safetensors.open(folder, framework=framework)
"""
SLICES = """
def part(name, shape):
    if len(shape) < 2 or name.endswith("mlp.gate.weight"): return 0, 0, shape[0]
    dim = int("down_proj" in name or "o_proj" in name)
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
    slices = {name: part(name, model.info(name).shape) for name in model.keys()}
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
    for path in sorted(folder.glob("*.safetensors")):
        with safe_open(path, kind) as file:
            for name in file.offset_keys():
                one = file.get_slice(name)
                dim, begin, end = part(name, one.get_shape())
                yield name, one[begin:end] if dim == 0 else one[:, begin:end]
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
    "instanttensor": """
import instanttensor
def tensors(folder):
    files = [str(path) for path in sorted(folder.glob("*.safetensors"))]
    with instanttensor.safe_open(files, framework="pt", device="cpu", copy=True) as file:
        yield from file.tensors()
""",
}

PROGRAM = """
import json, os, pathlib, resource, sys, threading, time
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
def blocks(): return resource.getrusage(resource.RUSAGE_SELF).ru_inblock
begin, cpu, read, first, kept, count = time.monotonic(), time.process_time(), blocks(), 0.0, [], 0
for name, tensor in tensors(pathlib.Path(sys.argv[1])):
    first = first or time.monotonic() - begin
    tensor.max()
    count += tensor.nbytes
    if keeps: kept.append(tensor)
    del tensor
found = dict(seconds=time.monotonic() - begin, first=first, cpu=time.process_time() - cpu, bytes=count)
found["read"] = (blocks() - read) * 512
over.set()
print(json.dumps(found | dict(peak=max(0, max(peak[0], anonymous()) - before))))
"""


def outline(size):
    """Names and shapes of a mixture of experts, 2 bytes a number."""
    # 61,064,245,248 bytes at full height.
    def tall(rows): return max(8, rows * size // 61_064_245_248 // 8 * 8)
    for layer in range(48):
        begin = f"model.layers.{layer}."
        for name, rows, row in (("q", 4096, 2048), ("k", 512, 2048), ("v", 512, 2048), ("o", 2048, 4096)):
            yield f"{begin}self_attn.{name}_proj.weight", (tall(rows), row)
        for name, count in (("self_attn.q", 128), ("self_attn.k", 128), ("input_layer", 2048), ("post_layer", 2048)):
            yield f"{begin}{name}_norm.weight", (count,)
        yield f"{begin}mlp.gate.weight", (128, 2048)
        for expert in range(128):
            for name, rows, row in (("gate", 768, 2048), ("up", 768, 2048), ("down", 2048, 768)):
                yield f"{begin}mlp.experts.{expert}.{name}_proj.weight", (tall(rows), row)
    yield "model.norm.weight", (2048,)
    for name in ("lm_head.weight", "model.embed_tokens.weight"):
        yield name, (tall(151_936), 2048)


def shapes(shape, size):
    """Names and shapes of all tensors of a model."""
    if shape == "outline":
        return list(outline(size))
    _, count = SHAPES[shape]
    rows = max(8, size // count // ROW // 2 // 8 * 8)
    return [(f"{number:02}.{('up', 'down')[number % 2]}_proj.weight", (rows, ROW)) for number in range(count)]


def make(folder, shape, size, seed):
    """Writes a model of random bytes, as whole numbers of 2 bytes: none is not a number."""
    tensors, generator = shapes(shape, size), random.Random(seed)
    files, count = SHAPES[shape]
    assert len(tensors) == count
    for file in range(files):
        some = tensors[file * count // files : (file + 1) * count // files]
        header, end = {}, 0
        for name, dimensions in some:
            begin, end = end, end + 2 * prod(dimensions)
            header[name] = {"dtype": "I16", "shape": dimensions, "data_offsets": [begin, end]}
        text = json.dumps(header).encode()
        text += b" " * (-len(text) % 8)
        with (folder / f"model-{file:02}.safetensors").open("wb") as out:
            out.write(struct.pack("<Q", len(text)) + text)
            for _, dimensions in some:
                out.write(generator.randbytes(2 * prod(dimensions)))
            out.flush()
            os.fsync(out.fileno())


def load(python, name, folder, framework):
    program = PROGRAM.replace("{loader}", LOADERS[name])
    how = "drop" if "stream" in name else "keep"
    ran = common.run([python, "-c", program, folder, framework, how])
    return json.loads(ran.text.strip().splitlines()[-1])


def why_not(python, name, folder, framework):
    """The last line that a loader says where it does not run at all; the first load warms its libraries up."""
    try:
        load(python, name, folder, framework)
    except SystemExit as ended:
        return str(ended.code).strip().splitlines()[-1]
    return None


def drop(folder):
    """Drops files from the page cache, and no others."""
    for path in folder.iterdir():
        with path.open("rb") as file:
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


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
        cpu, peak, first = (common.spread([one[key] for one in found], 2) for key in ("cpu", "peak", "first"))
        read = f"{max(one['read'] / one['bytes'] for one in found):.2f}"
        peak = f"{max(one['peak'] for one in found) / 1e6:.0f} MB"
        rest = [f"{first} s", f"{cpu} s", peak, read]
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
        skipped = {name: why for name in names if (why := why_not(asked.python, name, folder, asked.framework))}
        names = [name for name in names if name not in skipped]
        for name, why in skipped.items():
            print(f"skipped: {name}: {why}")
        for state in ("cold", "warm"):
            # Direct reads are the same, warm or cold.
            others = ["fio"] if state == "cold" and shutil.which("fio") else []
            for _ in range(asked.repeats):
                for name in order.sample([*names, *others], len(names) + len(others)):
                    if state == "warm":
                        warm(folder)
                    else:
                        drop(folder)
                    found = fio(folder) if name == "fio" else load(asked.python, name, folder, asked.framework)
                    times.setdefault((state, name), []).append(found)
    finally:
        for path in folder.iterdir():
            path.unlink()
        folder.rmdir()
    if asked.json:
        asked.json.write_text(json.dumps({" ".join(key): found for key, found in times.items()}))
    for (state, name), found in times.items():
        print(row(state, name, found, [one["seconds"] for one in times[state, "peerlane"]]))


def warm(folder):
    for path in folder.iterdir():
        with path.open("rb") as file:
            while file.read(16 << 20):
                pass


if __name__ == "__main__":
    main()
