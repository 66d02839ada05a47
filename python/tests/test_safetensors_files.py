"""Files that are replaced, named twice, many, or opened by other processes."""

from __future__ import annotations

import gc
import json
import os
import pathlib
import pickle
import resource
import subprocess
import sys

import pytest

import peerlane
from peerlane import safetensors
from peerlane.safetensors import load
from test_safetensors import equal, opened, write
from test_safetensors import wide as wide


def replaced(path, tensors):
    """Another file of the same name, as checkpoints are published."""
    os.replace(write(path.with_name("other"), tensors), path)


@pytest.mark.parametrize("mapped", [True, False])
@pytest.mark.parametrize("how", ["load", "stream", "tensor"])
def test_a_file_that_took_the_place_of_another_is_an_error(tmp_path, mapped, how):
    path = write(tmp_path / "model.safetensors", {("a", "U8", (4096,)): b"1" * 4096})
    path.read_bytes()
    opened = safetensors.open(path, framework="numpy", mapped=mapped)
    replaced(path, {("b", "U8", (64,)): b"9" * 64, ("a", "U8", (4096,)): b"2" * 4096})
    path.read_bytes()
    with pytest.raises(peerlane.PeerlaneError, match="was replaced or changed") as caught:
        {"load": opened.load, "stream": lambda: list(opened.stream()), "tensor": lambda: opened.tensor("a")}[how]()
    assert "open the model again" in caught.value.hint
    assert load(path, mapped=mapped)["a"].tobytes() == b"2" * 4096


def test_a_file_that_is_written_to_amid_a_stream_is_an_error(tmp_path):
    tensors = {(f"{number}", "U8", (2 << 20,)): bytes([number]) * (2 << 20) for number in range(8)}
    path = write(tmp_path / "model.safetensors", tensors)
    opened = safetensors.open(path, framework="numpy", mapped=False, memory="4M")
    stream = opened.stream()
    next(stream)
    with path.open("r+b") as file:
        file.seek(-1, os.SEEK_END)
        file.write(b"x")
    with pytest.raises(peerlane.PeerlaneError, match="was replaced or changed"):
        list(stream)


def test_a_file_that_is_replaced_amid_a_stream_keeps_its_bytes(tmp_path):
    tensors = {(f"{number}", "U8", (2 << 20,)): bytes([number]) * (2 << 20) for number in range(8)}
    path = write(tmp_path / "model.safetensors", tensors)
    opened = safetensors.open(path, framework="numpy", mapped=False, memory="4M")
    stream = opened.stream()
    found = dict([next(stream)])
    replaced(path, {name: bytes(2 << 20) for name in tensors})
    found |= dict(stream)
    assert all((found[str(number)] == number).all() for number in range(8))


def test_the_index_says_which_of_two_files_has_a_tensor(tmp_path):
    for file, value, more in (("x-1.safetensors", b"1", "one"), ("x-2.safetensors", b"2", "two")):
        write(tmp_path / file, {("twice", "U8", (1,)): value, (more, "U8", (1,)): b"7"})
    for number in (1, 2):
        names = {"one": "./x-1.safetensors", "two": "x-2.safetensors", "twice": f"x-{number}.safetensors"}
        (tmp_path / "model.safetensors.index.json").write_text(json.dumps({"weight_map": names}))
        model = safetensors.open(tmp_path, framework="numpy")
        found = model.load()
        assert sorted(found) == ["one", "twice", "two"] and found["twice"].tobytes() == b"%d" % number
        assert model.info("twice").file.endswith(f"x-{number}.safetensors")
    with pytest.raises(peerlane.BadInput, match="is in .* and in ") as caught:
        safetensors.open([tmp_path / "x-1.safetensors", tmp_path / "x-2.safetensors"], framework="numpy")
    assert "index" in caught.value.hint


def test_the_index_says_which_of_many_files_in_many_folders_has_a_tensor(tmp_path):
    (tmp_path / "0").mkdir()
    for number, file in enumerate(("0/a.safetensors", "a.safetensors", "b.safetensors")):
        write(tmp_path / file, {("x", "U8", (1,)): b"%d" % number, (f"of {number}", "U8", (1,)): b"7"})
    for number, file in enumerate(("0/a.safetensors", "a.safetensors", "b.safetensors")):
        names = {"x": file, "of 0": "0/a.safetensors", "of 1": "a.safetensors", "of 2": "b.safetensors"}
        (tmp_path / "model.safetensors.index.json").write_text(json.dumps({"weight_map": names}))
        assert load(tmp_path)["x"].tobytes() == b"%d" % number
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps({"weight_map": names | {"of 1": "0/a.safetensors"}}))
    with pytest.raises(peerlane.BadInput, match="'of 1' is not in .*0/a.safetensors, where the index has it"):
        load(tmp_path)


def test_what_is_stored_in_mapped_tensors_stays_in_them(tmp_path):
    path = write(tmp_path / "model.safetensors", {("a", "U8", (4096,)): b"1" * 4096})
    path.read_bytes()
    model = safetensors.open(path, framework="numpy")
    kept = model.load()
    kept["a"][:] = 0
    for again in (model.load()["a"], model.tensor("a"), dict(model.stream())["a"], model.slice("a", 0, 0, 9)):
        assert again.tobytes() == b"1" * len(again)


@pytest.mark.parametrize("mapped", [True, False])
def test_every_call_notices_another_file(tmp_path, mapped):
    path = write(tmp_path / "model.safetensors", {("a", "U8", (4096,)): b"1" * 4096})
    path.read_bytes()
    model = safetensors.open(path, framework="numpy", mapped=mapped)
    kept = [model.load(), model.tensor("a")]
    replaced(path, {("a", "U8", (4096,)): b"2" * 4096})
    for call in (model.load, lambda: model.tensor("a"), lambda: model.slice("a", 0, 0, 9)):
        with pytest.raises(peerlane.PeerlaneError, match="was replaced or changed"):
            call()
    assert kept[1].tobytes() == b"1" * 4096


def test_files_are_closed_when_a_call_ends(wide):
    gc.collect()
    before = len(os.listdir("/proc/self/fd"))
    model = opened(wide)
    calls = (model.plan, model.load, lambda: model.tensor("1.large"), lambda: list(model.stream(["2.large"])))
    for call in calls:
        call()
        assert len(os.listdir("/proc/self/fd")) == before


def test_a_model_is_read_from_any_folder(tmp_path, monkeypatch):
    (tmp_path / "other").mkdir()
    monkeypatch.chdir(tmp_path)
    # Elsewhere it is the name of an endpoint.
    write(pathlib.Path("null"), {("a", "U8", (1,)): b"1"})
    model = safetensors.open("null", framework="numpy", mapped=False)
    monkeypatch.chdir(tmp_path / "other")
    assert model.load()["a"].tobytes() == b"1"


def test_a_file_of_any_time_is_read(tmp_path):
    path = write(tmp_path / "model.safetensors", {("a", "U8", (1,)): b"1"})
    for second in (-5, 2**33 + 7):
        os.utime(path, ns=(0, second * 10**9 + 123))
        assert load(path, mapped=False)["a"].tobytes() == b"1"


def test_an_index_of_any_name_is_one(tmp_path):
    write(tmp_path / "x.safetensors", {("a", "U8", (1,)): b"1"})
    (tmp_path / "0a1b2c").write_text(json.dumps({"weight_map": {"a": "x.safetensors"}}))
    assert load(tmp_path / "0a1b2c")["a"].tobytes() == b"1"


def test_tensors_that_are_kept_leave_room_for_files(wide):
    for path in wide[0].iterdir():
        path.read_bytes()
    model = opened(wide, mapped=True)
    before = len(os.listdir("/proc/self/fd"))
    kept = [model.tensor(name) for name in model.keys()]
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    assert len(os.listdir("/proc/self/fd")) <= before + max(4, limit) // 4 + 1
    assert equal(dict(zip(model.keys(), kept, strict=True)), wide[1])


FEW = """
import resource, sys
from peerlane import safetensors
resource.setrlimit(resource.RLIMIT_NOFILE, (40, 40))
for mapped in (True, False):
    for _ in range(2):
        model = safetensors.open(sys.argv[1], framework="numpy", mapped=mapped)
        print(len(model.load()), len(dict(model.stream())), {one.route for one in model.plan()} <= {"mapped", "direct", "page cache"})
"""


def test_more_files_than_a_process_may_have_open_are_read(tmp_path):
    for number in range(100):
        path = write(tmp_path / f"{number}.safetensors", {(f"{number}", "U8", (500_000,)): bytes(500_000)})
        path.read_bytes()
    ended = subprocess.run([sys.executable, "-c", FEW, str(tmp_path)], capture_output=True, text=True, check=False)
    assert ended.stdout.splitlines() == ["100 100 True"] * 4, ended.stderr


FORKED = """
import os, sys
from peerlane import errors, safetensors
model = safetensors.open(sys.argv[1], framework="numpy", mapped=False, memory="1M")
stream = model.stream()
next(stream)
# As a thread that reads may have at the fork.
model._source._lock.acquire()
child = os.fork()
if not child:
    try:
        list(stream)
    except errors.PeerlaneError as error:
        again = len(dict(model.stream()))
        print("said", "forks" in str(error), again, flush=True)
    os._exit(0)
model._source._lock.release()
os.waitpid(child, 0)
print(1 + len(list(stream)))
"""


def test_a_stream_ends_in_a_child_and_goes_on_in_its_parent(wide):
    ended = subprocess.run(
        [sys.executable, "-c", FORKED, str(wide[0])], capture_output=True, text=True, check=False, timeout=60
    )
    assert ended.stdout.split() == ["said", "True", "1204", "1204"], ended.stderr


def test_a_model_is_opened_again_in_another_process(wide):
    model = pickle.loads(pickle.dumps(opened(wide, memory="9M")))
    assert equal(model.load(), wide[1])


def test_paths_that_are_no_text_are_told(tmp_path):
    path = write(tmp_path / os.fsdecode(b"\xff.safetensors"), {("a", "U8", (1,)): b"1"})
    with pytest.raises(peerlane.BadInput, match="is not UTF-8"):
        load(path, mapped=False)
    plain = write(tmp_path / "plain.safetensors", {("a", "U8", (1,)): b"1"})
    assert load(os.fsencode(plain))["a"].tobytes() == b"1"
