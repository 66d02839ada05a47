"""Loads that meet a limit of memory say so by name, whatever limit it is, and let go of what nobody keeps."""

from __future__ import annotations

import os
import pathlib
import signal
import subprocess
import sys

import numpy as np
import pytest

import peerlane
from peerlane import _limits, _pieces, safetensors
from test_safetensors import held as held
from test_safetensors import write


@pytest.fixture
def files(tmp_path):
    """Two tensors of 20 MiB, of which one is to be cut by columns, and forty of 10 KiB."""
    random = np.random.default_rng(7)
    tensors = {(name, "F32", (512, 10_240)): random.bytes(20 << 20) for name in ("rows", "columns")}
    tensors |= {(f"small.{number}", "U8", (10_240,)): random.bytes(10_240) for number in range(40)}
    write(tmp_path / "model.safetensors", tensors)
    return tmp_path


# Each room in a process of its own that no load went before: nothing is cached, and a thread may be refused.
ROOMS = """
import os, resource, sys
import numpy
from peerlane import errors, safetensors

def said(folder, kind, room):
    used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + room, resource.RLIM_INFINITY))
    try:
        model = safetensors.open(folder, framework="numpy", mapped=False, memory="8M")
        if kind == "stream":
            found = dict(model.stream())
        else:
            found = dict(model.load(slices={"columns": (1, 0, 100)} if kind == "columns" else None))
        return "all" if len(found) == 42 else "some"
    except errors.OutOfMemory as error:
        return "OutOfMemory with a hint" if error.hint else "OutOfMemory"
    except BaseException as error:
        return type(error).__name__

for room in range(int(sys.argv[3]), int(sys.argv[4]), int(sys.argv[5])):
    sys.stdout.flush()
    child = os.fork()
    if not child:
        os.write(1, (said(sys.argv[1], sys.argv[2], room) + "\\n").encode())
        os._exit(0)
    _, status = os.waitpid(child, 0)
    if status:
        os.write(1, f"status {status} with room for {room}\\n".encode())
"""


@pytest.mark.parametrize("kind", ["load", "stream", "columns"])
def test_full_memory_has_a_name_at_any_room(files, kind):
    rooms = ["0", str(200 << 20), str((2 << 20) + 4096)]
    command = [sys.executable, "-c", ROOMS, str(files), kind, *rooms]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=300, check=True)
    said = ended.stdout.splitlines()
    assert set(said) <= {"all", "MemoryError", "OutOfMemory", "OutOfMemory with a hint"}, (said, ended.stderr)
    assert said[-1] == "all" and "OutOfMemory with a hint" in said


@pytest.fixture
def group(tmp_path, monkeypatch):
    """A control group of version 2 that says what a test has it say."""
    root = tmp_path / "cgroup"
    (root / "pod/one").mkdir(parents=True)
    (tmp_path / "proc/self").mkdir(parents=True)
    (tmp_path / "proc/self/cgroup").write_text("3:cpu:/elsewhere\n0::/pod/one\n")
    (tmp_path / "proc/swaps").write_text("Filename Type Size Used Priority\n")
    monkeypatch.setattr(_limits, "ROOT", root)
    monkeypatch.setattr(_limits, "PROC", tmp_path / "proc")

    def says(folder, limit, anon):
        (root / folder / "memory.max").write_text(f"{limit}\n")
        (root / folder / "memory.stat").write_text(f"file 99\nanon {anon}\nkernel 5\n")

    says("pod/one", "max", 1 << 20)
    return says


def test_a_load_larger_than_its_control_group_is_refused(files, group, held, tmp_path):
    def load():
        return safetensors.load(files / "model.safetensors", mapped=False)

    assert len(load()) == 42
    group("pod", 64 << 20, 8 << 20)
    assert len(load()) == 42
    group("pod", 64 << 20, 30 << 20)
    held["most"] = 0
    with pytest.raises(MemoryError, match=r"pod allows 67108864, of which 31457280 are in use") as caught:
        load()
    assert isinstance(caught.value, peerlane.OutOfMemory) and "memory=" in caught.value.hint
    assert held["most"] == 0, "nothing was allocated"
    model = safetensors.open(files, framework="numpy", mapped=False, memory="8M")
    assert sum(1 for _ in model.stream()) == 42, "a stream needs less"
    (tmp_path / "proc/swaps").write_text("Filename Type Size Used Priority\n/dev/zram0 partition 9 0 1\n")
    assert len(load()) == 42, "swap may take what is in use"


LIMITED = """
import os, pathlib, sys
import numpy
from peerlane import errors, safetensors
pathlib.Path(sys.argv[2]).write_text(str(os.getpid()))
try:
    safetensors.load(sys.argv[1], mapped=False)
except errors.OutOfMemory as error:
    print(error.causes[-1])
"""


def test_a_real_control_group_is_read(files):
    is_second = pathlib.Path("/sys/fs/cgroup/cgroup.controllers").exists()
    root, limit = ("", "memory.max") if is_second else ("memory", "memory.limit_in_bytes")
    group = pathlib.Path("/sys/fs/cgroup", root, f"peerlane-{os.getpid()}")
    if _limits._has_swap():
        pytest.skip("this machine has swap")
    try:
        group.mkdir()
        (group / limit).write_text(str(24 << 20))
    except OSError as error:
        pytest.skip(f"no control group of memory can be made here: {error}")
    try:
        command = [sys.executable, "-c", LIMITED, str(files / "model.safetensors"), str(group / "cgroup.procs")]
        ended = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
        assert ended.returncode == 0 and f"{group} allows {24 << 20}" in ended.stdout, ended
    finally:
        group.rmdir()


CUT = """
import os, sys
from peerlane import safetensors
tensors = safetensors.load(sys.argv[1], mapped=sys.argv[2] == "mapped")
print(tensors.route, flush=True)
os.truncate(sys.argv[1], 5000)
print(int(tensors["rows"].view("u1").max()))
"""


@pytest.mark.parametrize("how", ["mapped", "copied"])
def test_a_file_that_is_cut_later_ends_a_process_that_maps_it(files, how):
    path = files / "model.safetensors"
    path.read_bytes()
    ended = subprocess.run([sys.executable, "-c", CUT, str(path), how], capture_output=True, text=True, check=False)
    route, *rest = ended.stdout.split()
    if route == "mapped":
        assert ended.returncode == -signal.SIGBUS and not rest
    else:
        assert ended.returncode == 0 and rest == ["255"]
    assert how == "mapped" or route != "mapped"


def test_a_tensor_that_is_kept_keeps_no_file(files, held):
    tensors = safetensors.load(files / "model.safetensors", mapped=False)
    assert held["now"] >= 40 << 20
    kept = tensors.pop("small.7")
    del tensors
    assert held["now"] <= _pieces.GROUP and kept.nbytes == 10_240


def test_a_load_holds_little_of_what_lies_between_small_slices(tmp_path, held):
    rows = np.random.default_rng(9).integers(0, 99, (8, 6_000), "u1")
    tensors = {(f"{number}", "U8", rows.shape): rows.tobytes() for number in range(3_000)}
    write(tmp_path / "narrow.safetensors", tensors)
    model = safetensors.open(tmp_path, framework="numpy", mapped=False)
    found = model.load(slices={name: (0, 3, 4) for name in model.keys()})
    assert all((tensor == rows[3:4]).all() for tensor in found.values()) and len(found) == 3_000
    size = 3_000 * rows.nbytes
    assert held["most"] <= _pieces.SCRATCH < size // 2 and held["now"] == 0
    [plan] = model.plan(slices={name: (0, 3, 4) for name in model.keys()})
    assert plan.requests == -(-size // _pieces.STRETCH) and size * 0.9 < plan.read < size


@pytest.mark.parametrize("memory", ["1G", "4M"])
def test_columns_of_many_tensors_share_little_scratch_memory(tmp_path, held, memory):
    columns = np.random.default_rng(8).integers(0, 99, (1024, 16_384), "u1")
    tensors = {(f"{number}", "U8", columns.shape): columns.tobytes() for number in range(12)}
    write(tmp_path / "wide.safetensors", tensors)
    model = safetensors.open(tmp_path, framework="numpy", mapped=False, memory=memory)
    slices = {f"{number}": (1, 100, 2_148) for number in range(12)}
    found = model.load(slices=slices) if memory == "1G" else dict(model.stream(slices=slices))
    assert all((tensor == columns[:, 100:2_148]).all() for tensor in found.values())
    bound = _pieces.SCRATCH if memory == "1G" else 4 << 20
    assert held["most"] <= 12 * 2_048 * 1_024 + bound
    assert model.report().peak_memory <= 12 * 2_048 * 1_024 + bound


def test_huge_pages_are_asked_for_where_they_are_free(tmp_path, monkeypatch):
    monkeypatch.setattr(_limits, "PROC", tmp_path)
    monkeypatch.setattr(_limits, "SYS", tmp_path / "sys")
    assert not _limits.has_huge_pages(1)
    zones = "Node 0, zone    DMA 9 9 9 9 9 9 9 9 9 1 3\nNode 1, zone Normal 900 9 9 9 9 9 9 9 9 0 2\n"
    (tmp_path / "buddyinfo").write_text(zones)
    assert _limits.has_huge_pages((2 << 20) + 5 * (4 << 20)) and not _limits.has_huge_pages((22 << 20) + 1)
    for kind, reporting in ((2, "1"), (5, "0"), (5, "1")):
        monkeypatch.setattr(_limits, "SYS", tmp_path / f"sys{kind}{reporting}")
        device = _limits.SYS / "bus/virtio/devices/virtio0"
        device.mkdir(parents=True)
        (device / "device").write_text(f"0x{kind:04x}\n")
        (device / "features").write_text("01100" + reporting + "0" * 58 + "\n")
        is_lent = kind == 5 and reporting == "1"
        assert _limits.has_huge_pages(2 << 20) != is_lent, (kind, reporting)


def test_errors_of_memory_are_both_kinds():
    error = peerlane.OutOfMemory(["cannot have it"], hint="less")
    assert isinstance(error, peerlane.PeerlaneError) and isinstance(error, MemoryError) and error.status == 2
