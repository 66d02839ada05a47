"""Tensors equal the written ones and come by the stated route; hostile files are refused."""

from __future__ import annotations

import json
import os
import struct

import numpy as np
import pytest

import peerlane
from peerlane import safetensors
from peerlane.safetensors import load


def write(path, tensors, metadata=None, pad=8):
    """Writes a file of safetensors; tensors are bytes by (name, type, shape)."""
    header, at = {}, 0
    for (name, dtype, shape), content in tensors.items():
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [at, at + len(content)]}
        at += len(content)
    if metadata:
        header["__metadata__"] = metadata
    return write_raw(path, json.dumps(header).encode(), b"".join(tensors.values()), pad)


def write_raw(path, header, data=b"", pad=8, length=None):
    header += b" " * (-len(header) % pad)
    path.write_bytes(struct.pack("<Q", length if length is not None else len(header)) + header + data)
    return path


def leave_cache(path):
    with path.open("rb") as file:
        os.fsync(file.fileno())
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


@pytest.fixture
def model(tmp_path):
    self = np.arange(300_000, dtype="f4").reshape(300, 1000)
    tensors = {
        ("a", "F32", (300, 1000)): self.tobytes(),
        ("b", "I64", (3,)): np.array([1, -2, 3]).tobytes(),
        ("none", "F16", (0, 7)): b"",
        ("one", "U8", ()): b"\x07",
    }
    return write(tmp_path / "model.safetensors", tensors, {"format": "pt"})


def judge(tensors):
    assert (tensors["a"] == np.arange(300_000, dtype="f4").reshape(300, 1000)).all()
    assert tensors["b"].tolist() == [1, -2, 3] and tensors["one"] == 7
    assert tensors["none"].shape == (0, 7) and tensors["none"].dtype == np.float16
    assert tensors.metadata == {"format": "pt"}


def test_a_cached_file_is_mapped(model):
    model.read_bytes()
    tensors = load(model)
    judge(tensors)
    assert tensors.route == "mapped"
    before = model.read_bytes()
    tensors["a"][0, 0] = 5
    assert model.read_bytes() == before


def test_any_other_is_read_into_place(model):
    # A page that something else holds at this moment stays in the cache.
    for _ in range(20):
        leave_cache(model)
        tensors = load(model)
        [file] = tensors.files
        if file.route != "mapped":
            break
    else:
        pytest.skip("the file system of the tests keeps its files in memory")
    judge(tensors)
    if not peerlane.Reader(model).is_direct:
        pytest.skip("the file system of the tests takes no direct I/O")
    assert tensors.route == "direct" and file.reading.shifted == 0
    assert 0 < file.reading.copied < 4096 < file.reading.direct
    assert file.reading.bytes >= 1_200_000


def test_odd_headers_make_aligned_tensors(tmp_path):
    content = np.arange(100, dtype="f8")
    path = write(tmp_path / "odd", {("x", "F64", (100,)): content.tobytes()}, pad=1)
    if (len(path.read_bytes()) - content.nbytes) % 8 == 0:
        path = write(tmp_path / "odd", {("xy", "F64", (100,)): content.tobytes()}, pad=1)
    tensors = load(path)
    [found] = tensors.values()
    assert (found == content).all() and found.flags.aligned


def test_small_floats_are_those_of_ml_dtypes(tmp_path):
    ml_dtypes = pytest.importorskip("ml_dtypes")
    tensors = {
        ("b", "BF16", (2,)): np.array([1.5, -2], ml_dtypes.bfloat16).tobytes(),
        ("f", "F8_E4M3", (2,)): np.array([0.5, -4], ml_dtypes.float8_e4m3fn).tobytes(),
    }
    found = load(write(tmp_path / "small", tensors))
    assert found["b"].tolist() == [1.5, -2] and found["f"].tolist() == [0.5, -4]
    assert found["b"].dtype == ml_dtypes.bfloat16


def shards(folder, names):
    for number, file in enumerate(sorted(set(names.values()))):
        inside = [name for name, at in names.items() if at == file]
        write(folder / file, {(name, "U8", (1,)): bytes([number]) for name in inside})
    index = folder / "model.safetensors.index.json"
    index.write_text(json.dumps({"weight_map": names}))
    return index


def test_an_index_loads_all_its_files(tmp_path):
    names = {f"t{number}": f"part-{number % 5}" for number in range(20)}
    tensors = load(shards(tmp_path, names))
    assert {name: int(value[0]) for name, value in tensors.items()} == {
        name: int(file[-1]) for name, file in names.items()
    }
    assert len(tensors.files) == 5


@pytest.mark.parametrize("file", ["../part", "/etc/passwd", "", "a/../../part"])
def test_an_index_does_not_leave_its_folder(tmp_path, file):
    index = tmp_path / "index.json"
    index.write_text(json.dumps({"weight_map": {"t": file}}))
    with pytest.raises(peerlane.BadInput, match="not in its folder"):
        load(index)


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"weight_map": 3}', '{"weight_map": {"a": 1}}', "[" * 99999])
def test_what_is_no_index_is_refused(tmp_path, text):
    index = tmp_path / "index.json"
    index.write_text(text)
    with pytest.raises(peerlane.BadInput, match="not an index"):
        load(index)


def test_a_tensor_that_is_missing_is_named(tmp_path):
    index = shards(tmp_path, {"a": "one", "b": "two"})
    index.write_text(json.dumps({"weight_map": {"a": "one", "b": "one"}}))
    with pytest.raises(peerlane.BadInput, match="'b' is not in one"):
        load(index)


def entry(dtype="U8", shape="[2]", offsets="[0,2]", name="a"):
    return f'"{name}":{{"dtype":"{dtype}","shape":{shape},"data_offsets":{offsets}}}'


HOSTILE = {
    "no JSON": (b"nothing", b""),
    "a list": (b"[]", b""),
    "too little data": (f"{{{entry()}}}".encode(), b"1"),
    "too much data": (f"{{{entry()}}}".encode(), b"123"),
    "a shape that does not fit": (f"{{{entry(shape='[3]')}}}".encode(), b"12"),
    "a shape that overflows": (f"{{{entry(shape='[4294967296,4294967296]')}}}".encode(), b"12"),
    "a negative shape": (f"{{{entry(shape='[-2]')}}}".encode(), b"12"),
    "offsets that go back": (f"{{{entry(offsets='[2,0]')}}}".encode(), b"12"),
    "a hole": (f"{{{entry()},{entry(name='b', offsets='[3,5]')}}}".encode(), b"12345"),
    "an overlap": (f"{{{entry()},{entry(name='b', offsets='[1,3]')}}}".encode(), b"123"),
    "a type that is none": (f"{{{entry(dtype='U9')}}}".encode(), b"12"),
    "no UTF-8": (b'{"\xff":1}', b""),
}


@pytest.mark.parametrize("kind", HOSTILE)
def test_hostile_headers_are_refused(tmp_path, kind):
    header, data = HOSTILE[kind]
    with pytest.raises(peerlane.BadInput, match="header"):
        load(write_raw(tmp_path / "file", header, data))


@pytest.mark.parametrize("length", [3, 1 << 20, 100_000_001, (1 << 64) - 1])
def test_wrong_lengths_of_headers_are_refused(tmp_path, length):
    with pytest.raises(peerlane.BadInput, match="header"):
        load(write_raw(tmp_path / "file", b"{}", length=length))


@pytest.mark.parametrize("name", ["model.safetensors", "model.safetensors.index.json"])
def test_pipes_are_refused_at_once(tmp_path, name):
    os.mkfifo(tmp_path / name)
    with pytest.raises(peerlane.BadInput, match="not a regular file"):
        load(tmp_path / name)


def test_what_is_missing_is_bad_input(tmp_path):
    for path in [tmp_path / "none", tmp_path, tmp_path / "none.json"]:
        with pytest.raises(peerlane.BadInput):
            load(path)
    with pytest.raises(peerlane.BadInput, match="torch"):
        load(tmp_path / "none", device="cuda:0")
    with pytest.raises(peerlane.BadInput, match="framework"):
        load(tmp_path / "none", framework="jax")


def test_types_without_a_name_are_refused(tmp_path):
    path = write(tmp_path / "file", {("a", "F4", (2,)): b"1"})
    with pytest.raises(peerlane.BadInput, match="F4 of tensor 'a'"):
        load(path)


def test_a_file_cut_meanwhile_is_an_error(model, monkeypatch):
    monkeypatch.setattr(safetensors, "_is_cached", lambda *_: False)
    header = json.loads(peerlane._peerlane.safetensors_header(model))
    monkeypatch.setattr(safetensors, "_header", lambda _: header)
    os.truncate(model, 5000)
    with pytest.raises(peerlane.PeerlaneError, match="became shorter"):
        load(model)
