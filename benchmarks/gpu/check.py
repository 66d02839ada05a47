"""Tries the functions of peerlane with a GPU, and compares every result."""

from __future__ import annotations

import functools
import json
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from . import outputs, scan
from .results import Record
from .setting import ROOT, Setting
from .steps import Ended, Judge, Part, StepError

STEP_LIMIT = 30.0
CHANGE_LIMIT = 40.0
BYTES = (256 << 20) + 4097
"""Length of the file that is moved: no multiple of any block."""
PERIOD = 16_777_213
"""Length after which its content repeats: a prime, so that no two blocks are equal."""
IMAGES, SIDE = 40, 1024
ANSWERED = (0, 1)
"""Exit statuses of a question whose answer may be no."""
HOST_ROUTES = ("host", "host-serial", "host-page-cache", "host-mapped", "host-cufile")
GPU_BYTES = 80_000
"""Memory that python/tests/on_a_gpu.py allocates."""
RANGES = [(0, 0, 4096), (3, 5001, 70_001), (8, BYTES - 5000, 5000), (1, 7, 1)]
"""Reads of that program: place in the memory, place in the file, and length."""


def check(part: Part, setting: Setting) -> None:
    """Runs the part, step by step; a step that fails stops no other."""
    folder = setting.work / "check"
    folder.mkdir()
    source = folder / "source.bin"
    source.write_bytes((os.urandom(PERIOD) * (BYTES // PERIOD + 1))[:BYTES])
    questions(part, setting, source)
    streams(part, setting, source)
    copies(part, setting, source)
    searches(part, setting, folder / "hay")
    readers(part, setting, source)
    changes(part, setting, folder)


def peerlane(
    part: Part,
    setting: Setting,
    name: str,
    words: Sequence[object],
    judge: Judge = lambda _: {},
    good: Sequence[int] = (0,),
) -> Ended | None:
    """Runs the program as a step."""
    command = [str(setting.program), *map(str, words)]
    return part.step(name, command, STEP_LIMIT, judge, good, setting.env)


def questions(part: Part, setting: Setting, source: Path) -> None:
    gpu = f"gpu:{setting.gpu}"

    def names_gpu(ended: Ended) -> Record:
        if setting.address not in ended.output.lower():
            raise StepError(f"{setting.address} is not in its output")
        return {}

    peerlane(part, setting, "topo", ["topo", "--json"], judge=names_gpu)
    peerlane(part, setting, "doctor", ["doctor"], good=ANSWERED)
    peerlane(part, setting, "plan", ["plan", source, gpu], good=ANSWERED)
    peerlane(part, setting, "plan --probe", ["plan", source, gpu, "--probe"], good=ANSWERED)


def streams(part: Part, setting: Setting, source: Path) -> None:
    """Streams into and out of the GPU by each route; the program compares the content."""
    gpu, target = f"gpu:{setting.gpu}", source.with_name("streamed.bin")
    into = ["--source", source, "--target", gpu]
    out = ["--source", gpu, "--target", target, "--scratch", target, "--force"]
    once = ["--length", "256M", "--repeats", "1", "--warm-up", "0", "--json"]

    def rates(ended: Ended) -> Record:
        return {"gb_s": [case["gb_s"] for case in outputs.bench_cases(ended.output)]}

    for route in ("p2p", *HOST_ROUTES):
        # Out of a GPU there is no file to map.
        for direction, ends in (("into", into), ("out of", out))[: 1 if route == "host-mapped" else 2]:
            name = f"bench stream {direction} the GPU, {route}"
            peerlane(part, setting, name, ["bench", "stream", *ends, "--routes", route, *once], judge=rates)
        target.unlink(missing_ok=True)


def copies(part: Part, setting: Setting, source: Path) -> None:
    """Copies through the GPU with stages, and compares with the source."""
    folder, via = source.parent, ["--via", f"gpu:{setting.gpu}", "--route", "host"]
    new, manifest = folder / "new.bin", folder / "digests"

    def equals(target: Path, change: Callable[[bytes], bytes] = lambda data: data) -> Judge:
        def judge(_: Ended) -> Record:
            if target.read_bytes() != change(source.read_bytes()):
                raise StepError(f"{target.name} has other content")
            return {}

        return judge

    words = ["copy", source, new, *via, "--stage", "digest", "--manifest", manifest]
    if peerlane(part, setting, "copy --stage digest", words, judge=equals(new)):
        peerlane(part, setting, "verify --manifest", ["verify", new, "--manifest", manifest])
    else:
        part.skip("verify --manifest", "there is no copy to verify")

    kernel, twin, inverted = folder / "invert.cu", folder / "invert", folder / "inverted.bin"
    table = bytes(255 - value for value in range(256))
    kernel.write_text(outputs.code_block((ROOT / "docs" / "stages.md").read_text(), "void invert("))
    twin.write_text(
        f"#!{sys.executable}\nimport sys\n"
        "table = bytes(255 - value for value in range(256))\n"
        "sys.stdout.buffer.write(sys.stdin.buffer.read().translate(table))\n"
    )
    twin.chmod(0o755)
    stage = ["--stage", f"cuda:{kernel}:invert", "--stage-twin", twin]
    judge = equals(inverted, lambda data: data.translate(table))
    peerlane(part, setting, "copy --stage cuda", ["copy", source, inverted, *via, *stage], judge=judge)
    for path in (new, inverted):
        path.unlink(missing_ok=True)


def searches(part: Part, setting: Setting, hay: Path) -> None:
    """Searches by processors and by the GPU; hits must be equal byte for byte."""
    make = ["haystack", "make", "--seed", setting.seed, "--images", IMAGES, "--side", SIDE, "-q", "-o", hay]
    if not peerlane(part, setting, "haystack make", make):
        return
    wanted: dict[str, list[str]] = {}
    for poses, angles in scan.POSES.items():
        judge = functools.partial(scan.same_hits, poses=poses, wanted=wanted)
        for name, on in (("processors", "cpu"), ("GPU", f"gpu:{setting.gpu}")):
            words = ["scan", hay / "picture.png", hay / "images", "--json", "--on", on, *angles]
            peerlane(part, setting, f"scan, {poses}, {name}", words, judge=judge, good=scan.FOUND)


def readers(part: Part, setting: Setting, source: Path) -> None:
    """Reads into memory of the GPU from Python."""
    if missing := setting.missing("peerlane"):
        part.skip("Python", missing)
        return
    found = source.with_name("found.json")
    calls = [{"path": str(source), "skip": skip, "offset": at, "shape": [length]} for skip, at, length in RANGES]
    weights = source.with_name("small.safetensors")
    weights.write_bytes(small_weights())
    program = ROOT / "python" / "tests" / "on_a_gpu.py"
    command = [setting.python, program, json.dumps([*calls, {"load": [str(weights)]}]), found]

    def judge(_: Ended) -> Record:
        *reads, loaded = json.loads(found.read_text())
        with source.open("rb") as file:
            for (skip, at, length), read in zip(RANGES, reads, strict=True):
                file.seek(at)
                if bytes.fromhex(read["bytes"])[skip : skip + length] != file.read(length):
                    raise StepError(f"{length} bytes from {at} on came with other content")
        if bytes.fromhex(loaded["bytes"])[:GPU_BYTES] != small_weights()[-GPU_BYTES:]:
            raise StepError("the tensors have other content")
        return {}

    part.step("Reader and safetensors, driver alone", command, STEP_LIMIT, judge, env=setting.env)
    for kind in ("torch", "cupy"):
        name = f"Reader into {kind}"
        script(part, setting, name, kind, "reads.py", kind, source, setting.device)
    name = "safetensors: empty, odd and scalar tensors"
    script(part, setting, name, "torch", "reads.py", "safetensors", source.with_name("odd.safetensors"), setting.device)


def small_weights() -> bytes:
    """Returns a safetensors file whose tensors fill the memory of that program exactly."""
    half = GPU_BYTES // 2 - 1
    ranges = {"a": [0, half], "b": [half, GPU_BYTES]}
    header = {
        name: {"dtype": "U8", "shape": [end - begin], "data_offsets": [begin, end]}
        for name, (begin, end) in ranges.items()
    }
    text = json.dumps(header).encode()
    return len(text).to_bytes(8, "little") + text + bytes(number * 31 % 251 for number in range(GPU_BYTES))


def changes(part: Part, setting: Setting, folder: Path) -> None:
    """Loads weights that another process cuts, extends or makes unreadable meanwhile."""
    for kind in ("cut", "grow", "remove", "fail"):
        script(part, setting, f"safetensors: {kind} while loading", "torch", "changes.py", kind, folder, setting.device)


def script(part: Part, setting: Setting, name: str, module: str, *words: object) -> None:
    """Runs one of the programs that need peerlane and another module; its last line may be a note."""
    if missing := setting.missing("peerlane", module):
        part.skip(name, missing)
        return

    def judge(ended: Ended) -> Record:
        return outputs.json_lines(ended.output)[-1]

    part.step(name, setting.script(str(words[0]), *words[1:]), CHANGE_LIMIT, judge, env=setting.env)
