"""Loads stay within bounds of memory and reading, and hand out nothing half read."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tracemalloc

import numpy as np
import pytest

import peerlane
from peerlane import _pieces, safetensors
from peerlane.safetensors import load
from test_safetensors import held as held
from test_safetensors import write


@pytest.fixture
def floats(tmp_path):
    """A file of one tensor of 16 MiB at an odd place, behind a small one; and its values."""
    values = np.random.default_rng(5).random((64, 65536), "f4")
    tensors = {("small", "U8", (3,)): b"123", ("large", "F32", values.shape): values.tobytes()}
    return write(tmp_path / "floats", tensors), values


CUTS = {"whole": None, "columns": (1, 3, 65000), "rows": (0, 1, 60), "narrow": (1, 5, 9), "wide": (1, 0, 32768)}


@pytest.mark.parametrize(
    ("memory", "cut"), [(size, cut) for size in ("2M", "64K") for cut in CUTS] + [("1K", "narrow")]
)
@pytest.mark.parametrize("dtype", [None, "float16", "float64"])
def test_large_tensors_stay_within_memory(floats, held, memory, dtype, cut):
    path, values = floats
    model = safetensors.open(path, framework="numpy", mapped=False, memory=memory, dtype=dtype)
    dim, begin, end = CUTS[cut] or (0, 0, 64)
    expected = values.take(range(begin, end), axis=dim).astype(dtype or "f4")
    slices = None if CUTS[cut] is None else {"large": CUTS[cut]}
    tracemalloc.start()
    try:
        [(_, found)] = model.stream(["large"], slices=slices)
        _, copies = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    bound = {"2M": 2 << 20, "64K": 64 << 10, "1K": 1 << 10}[memory]
    assert found.dtype == expected.dtype and (found == expected).all()
    assert model.report().bytes == expected.size * 4
    # Objects of the interpreter take less than any copy of a tensor would.
    assert held["most"] <= expected.nbytes + bound and copies < 3 << 20
    assert found.flags.aligned


@pytest.mark.parametrize("dtype", [None, "float16"])
def test_mapped_columns_are_cast_into_their_place(floats, held, dtype):
    path, values = floats
    path.read_bytes()
    model = safetensors.open(path, framework="numpy", memory="1M", dtype=dtype)
    found = model.slice("large", 1, 0, 65000)
    assert (found == values[:, :65000].astype(dtype or "f4")).all()
    if model.report().routes.get("mapped"):
        assert held["most"] <= max(values[:, :65000].nbytes, found.nbytes)


def test_the_plan_has_the_cost_of_both_ways(floats):
    path, values = floats
    model = safetensors.open(path, framework="numpy", mapped=False)
    [plan] = model.plan(["large"], slices={"large": (1, 0, 32768)})
    [columns] = plan.columns
    assert columns.is_by_runs and plan.requests == columns.requests == 64
    assert plan.read == columns.bytes == values.nbytes // 2 < columns.run_bytes <= columns.bytes + 64 * 8192
    assert columns.run_bytes < columns.run_cost < columns.whole_bytes
    [plan] = model.plan(["large"], slices={"large": (1, 0, 65000)})
    [columns] = plan.columns
    assert not columns.is_by_runs and plan.read == columns.whole_bytes - 4 * 536 < columns.run_cost
    assert model.plan(["large"], slices={"large": (0, 0, 4)})[0].columns == []


@pytest.mark.parametrize("begin", [0, 100, 4095])
@pytest.mark.parametrize("stride", [4096, 6000, 8192, 100])
def test_blocks_of_runs_are_counted(begin, stride):
    one = _pieces.Piece("a", "U8", (77, 90), 0, begin, 90, 77, stride)
    places = [begin + number * stride for number in range(77)]
    blocks = sum((place + 89) // 4096 - place // 4096 + 1 for place in places)
    assert one.in_blocks == 4096 * blocks


READS = {
    "load": "found = dict(model.load())",
    "stream": "found = dict(model.stream())",
    "cast": "found = dict(model.load())",
    "columns": "found = {'large': model.slice('large', 1, 0, 65000)}",
}
LOADING = """
import os, resource, signal, sys
import numpy as np
import peerlane
from peerlane import _progress, _reading, safetensors
# A shell that runs the tests behind others has it ignored.
signal.signal(signal.SIGINT, signal.default_int_handler)
kind, path, what, argument = sys.argv[1:5]
values = np.random.default_rng(5).random((64, 65536), "f4")
def told(progress):
    if what != "room" and progress.done > 6 << 20 and not progress.done == progress.total:
        if what == "cut":
            os.truncate(path, 8 << 20)
        else:
            os.kill(os.getpid(), int(argument))
_progress.PAUSE, _reading.STEP, _reading.TOGETHER = 0, 1 << 20, 1 << 20
dtype = "float16" if kind == "cast" else None
model = safetensors.open(path, framework="numpy", mapped=False, memory="4M", progress=told, dtype=dtype)
if what == "room":
    used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + int(argument), resource.RLIM_INFINITY))
found = None
try:
    try:
        READ
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
except (peerlane.PeerlaneError, MemoryError) as error:
    assert found is None
    print("refused:", str(error).replace(chr(10), " / "))
except KeyboardInterrupt:
    assert found is None
    print("interrupted")
else:
    large = found["large"]
    assert (large == values[:, : large.shape[1]].astype(large.dtype)).all()
    print("all")
"""


def loading(path, kind, what, argument=0):
    """What a process says that loads and meets something in the middle of it."""
    program = LOADING.replace("READ", READS[kind])
    command = [sys.executable, "-c", program, kind, str(path), what, str(argument)]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)


@pytest.mark.parametrize("kind", READS)
def test_full_memory_is_an_error_and_hands_out_nothing(floats, kind):
    said = []
    for room in (0, 1, 5, 9, 17, 30, 60, 500):
        ended = loading(floats[0], kind, "room", room << 20)
        said.append(ended.stdout)
        assert ended.returncode == 0, (room, ended)
        assert not ended.stdout.startswith("refused") or "hint: " in ended.stdout, ended
    assert said[0].startswith("refused:") and said[-1] == "all\n", said


@pytest.mark.parametrize("kind", ["load", "stream", "cast"])
def test_a_file_cut_amid_a_load_hands_out_nothing(floats, kind):
    ended = loading(floats[0], kind, "cut")
    assert ended.returncode == 0 and "became shorter" in ended.stdout, ended


@pytest.mark.parametrize("kind", ["load", "stream", "cast"])
def test_an_interrupted_load_hands_out_nothing(floats, kind):
    ended = loading(floats[0], kind, "signal", int(signal.SIGINT))
    assert (ended.returncode, ended.stdout) == (0, "interrupted\n"), ended


def test_a_killed_load_leaves_the_file_as_it_was(floats):
    before = floats[0].read_bytes()
    ended = loading(floats[0], "stream", "signal", int(signal.SIGKILL))
    assert ended.returncode == -signal.SIGKILL and ended.stdout == ""
    assert floats[0].read_bytes() == before
    assert (load(floats[0])["large"] == floats[1]).all()


@pytest.mark.parametrize("run", [4, 1024, 8192, 32768])
def test_small_runs_take_their_own_blocks_alone(floats, monkeypatch, run):
    monkeypatch.setattr(_pieces, "REQUEST", 0)
    monkeypatch.setattr(_pieces, "BLOCK", 1)
    path, values = floats
    model = safetensors.open(path, framework="numpy", mapped=False)
    found = model.slice("large", 1, 77, 77 + run // 4)
    assert (found == values[:, 77 : 77 + run // 4]).all()
    reader, report = peerlane.Reader(path), model.report()
    block = reader.block if reader.is_direct else 1
    assert 64 * run <= report.read <= 64 * (run + 2 * block)
    assert report.disk == (64 * run if reader.is_direct else 0)
    if run >= 8192 and block <= 512:
        assert report.read <= 1.13 * report.bytes


def test_a_file_cut_amid_small_runs_is_an_error(floats):
    model = safetensors.open(floats[0], framework="numpy", mapped=False)
    os.truncate(floats[0], 8 << 20)
    with pytest.raises(peerlane.PeerlaneError, match="became shorter"):
        model.slice("large", 1, 0, 64)


@pytest.mark.parametrize("begin", [0, 104])
def test_one_of_eight_ranks_reads_runs_from_4_kib_on(begin):
    found = [_pieces.Piece("a", "U8", (), 0, begin + 3 * run, run, 1024, 8 * run) for run in (3968, 4224)]
    assert [one.is_by_runs for one in found] == [False, True]
