"""Tensors equal the written ones and come by the stated route; hostile files are refused."""

from __future__ import annotations

import gc
import json
import os
import struct
import threading
import time
import weakref

import numpy as np
import pytest

import peerlane
from peerlane import _pieces, _progress, _views, safetensors
from peerlane._views import NumpyViews
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
    with pytest.raises(peerlane.BadInput, match="'b' is not in .*one, where"):
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


@pytest.mark.parametrize("content", [b"", b"1234567"])
def test_files_without_a_length_say_so(tmp_path, content):
    (tmp_path / "file").write_bytes(content)
    with pytest.raises(peerlane.BadInput, match=f"it has {len(content)} bytes, fewer than the 8") as found:
        load(tmp_path / "file")
    assert "fetch it again" in found.value.hint


@pytest.mark.parametrize("shape", ["[0,9223372036854775807,3]", f"[0{',1' * 64}]"])
def test_shapes_that_numpy_lacks_are_refused(tmp_path, shape):
    model = write_raw(tmp_path / "file", f"{{{entry(shape=shape, offsets='[0,0]')}}}".encode())
    with pytest.raises(peerlane.BadInput, match="no array of the shape of tensor 'a'"):
        load(model)


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


def test_a_file_cut_meanwhile_is_an_error(model):
    opened = safetensors.open(model, framework="numpy", mapped=False)
    os.truncate(model, 5000)
    with pytest.raises(peerlane.PeerlaneError, match="became shorter"):
        opened.load()
    with pytest.raises(peerlane.PeerlaneError, match="became shorter"):
        list(opened.stream())


@pytest.mark.parametrize("mapped", [True, False])
def test_files_that_vanish_meanwhile_are_an_error(model, mapped):
    opened = safetensors.open(model, framework="numpy", mapped=mapped)
    model.unlink()
    with pytest.raises(peerlane.PeerlaneError, match=model.name):
        opened.load()
    os.mkfifo(model)
    with pytest.raises(peerlane.PeerlaneError, match=r"model\.safetensors (is a pipe|became something else)"):
        opened.load()


def test_files_out_of_reach_are_bad_input(tmp_path, monkeypatch):
    index = tmp_path / "index.json"
    index.write_text(json.dumps({"weight_map": {"a": "a" * 300}}))
    with pytest.raises(peerlane.BadInput, match=r"cannot read .*index\.json\n.*too long"):
        load(index)
    (tmp_path / "model").mkdir()

    def refuse(path):
        raise PermissionError(13, "Permission denied", path)

    monkeypatch.setattr(os, "scandir", refuse)
    with pytest.raises(peerlane.BadInput, match="Permission denied"):
        load(tmp_path / "model")


def test_types_of_less_than_a_byte_are_bytes(tmp_path):
    tensors = {
        ("a", "F4", (3, 2)): b"123",
        ("b", "F6_E2M3", (2, 4)): b"123456",
        ("c", "F4", (1, 3, 2)): b"789",
        ("odd", "F4", (2, 1)): b"0",
    }
    model = safetensors.open(write(tmp_path / "file", tensors), framework="numpy")
    found = model.load()
    assert found["a"].tolist() == [[49], [50], [51]] and found["b"].shape == (2, 3)
    assert found["odd"].shape == (1,)
    assert model.info("a").dtype == "F4" and model.info("a").shape == (3, 2)
    assert model.slice("a", 0, 1, 3).tolist() == [[50], [51]]
    assert model.slice("c", 1, 1, 2).tolist() == [[[56]]]
    with pytest.raises(peerlane.BadInput, match="bytes"):
        model.slice("a", 1, 0, 1)


@pytest.fixture
def wide(tmp_path):
    """Four files, each with a tensor of 4 MiB and 300 of a few bytes; and the values of all."""
    random, values = np.random.default_rng(7), {}
    for number in range(4):
        large = random.integers(0, 255, (16, 65536), "i4")
        small = {f"{number}.{k}": random.integers(0, 9, (k % 5, 3), "i2") for k in range(300)}
        tensors = {(f"{number}.large", "I32", large.shape): large.tobytes()} | {
            (name, "I16", value.shape): value.tobytes() for name, value in small.items()
        }
        write(tmp_path / f"{number}.safetensors", tensors)
        values |= {f"{number}.large": large} | small
    return tmp_path, values


def opened(wide, **options):
    return safetensors.open(wide[0], **({"framework": "numpy", "mapped": False} | options))


def equal(found, expected):
    return set(found) == set(expected) and all((found[name] == expected[name]).all() for name in expected)


def test_a_folder_is_described_before_anything_is_read(wide):
    model = opened(wide)
    assert model.keys()[:2] == ["0.large", "0.0"] and len(model.keys()) == 4 * 301
    info = model.info("1.large")
    assert info == ("I32", (16, 65536), 4 << 20, str(wide[0] / "1.safetensors"))
    assert sum(one.bytes for one in model.plan()) == sum(value.nbytes for value in wide[1].values())
    assert model.report().read == 0 and model.report().bytes == 0
    with pytest.raises(peerlane.BadInput, match="'no' is in none"):
        model.tensor("no")


@pytest.mark.parametrize("mapped", [True, False])
def test_streams_give_all_tensors_in_order(wide, mapped):
    model = opened(wide, mapped=mapped)
    found = list(model.stream())
    assert [name for name, _ in found] == model.keys() and equal(dict(found), wide[1])
    names = ["3.4", "0.large", "3.large", "3.5", "1.2"]
    assert [name for name, _ in model.stream(names)] == names
    assert equal(dict(model.stream(names)), {name: wide[1][name] for name in names})
    assert equal(model.load(names), {name: wide[1][name] for name in names})
    with pytest.raises(peerlane.BadInput, match="twice"):
        model.stream(["3.4", "3.4"])
    with pytest.raises(peerlane.BadInput, match="a list of names"):
        model.load("3.4")
    with pytest.raises(peerlane.BadInput, match="order"):
        model.stream("size")


@pytest.mark.parametrize("mapped", [True, False])
@pytest.mark.parametrize("cut", [(0, 3, 9), (1, 5, 6), (1, 16384, 32768), (-1, 0, 65536), (0, 4, 4)])
def test_slices_are_those_of_the_tensor(wide, mapped, cut):
    model = opened(wide, mapped=mapped)
    dim, begin, end = cut
    expected = wide[1]["2.large"].take(range(begin, end), axis=dim)
    found = model.slice("2.large", *cut)
    assert found.shape == expected.shape and (found == expected).all()
    assert model.report().bytes == expected.nbytes


@pytest.mark.parametrize("cut", [(2, 0, 1), (-3, 0, 1), (0, 5, 4), (0, -1, 4), (0, 0, 17)])
def test_slices_outside_of_a_tensor_are_refused(wide, cut):
    with pytest.raises(peerlane.BadInput, match=r"dimension|range"):
        opened(wide).slice("2.large", *cut)


def test_a_rank_reads_its_part_alone(wide):
    # Rank 2 of 8: rows of two tensors, columns of the other two.
    slices = {f"{number}.large": (0, 4, 6) for number in (0, 1)}
    slices |= {f"{number}.large": (1, 16384, 24576) for number in (2, 3)}
    model = opened(wide)
    found = model.load(list(slices), slices=slices)
    expected = {
        name: wide[1][name].take(range(begin, end), axis=dim) for name, (dim, begin, end) in slices.items()
    }
    assert equal(found, expected)
    report = model.report()
    assert report.bytes == 4 * (4 << 20) // 8
    assert report.bytes <= report.read <= 1.1 * report.bytes
    again = opened(wide)
    assert equal(dict(again.stream(list(slices), slices=slices)), expected)
    assert again.report().read <= 1.1 * report.bytes


def test_narrow_columns_are_read_with_what_lies_between(wide, monkeypatch):
    monkeypatch.setattr(_pieces, "STRETCH", 1 << 20)
    model = opened(wide)
    [plan] = model.plan(["0.large"], slices={"0.large": (1, 0, 60000)})
    assert plan.requests == 4 and plan.read == (4 << 20) - 4 * 4 * 5536
    assert (model.slice("0.large", 1, 0, 60000) == wide[1]["0.large"][:, :60000]).all()
    assert model.report().read > model.report().bytes
    [plan] = model.plan(["0.large"], slices={"0.large": (1, 0, 8192)})
    assert plan.requests == 16 and plan.read == 16 * 8192 * 4


@pytest.fixture
def held(monkeypatch):
    """Bytes of the memory that lives, and the most so far."""
    counts, allocate = {"now": 0, "most": 0}, NumpyViews.allocate

    def counted(self, length, phase):
        memory = allocate(self, length, phase)
        counts["now"] += length
        counts["most"] = max(counts.values())

        def gone():
            counts["now"] -= length

        weakref.finalize(memory.obj, gone)
        return memory

    monkeypatch.setattr(NumpyViews, "allocate", counted)
    return counts


def test_a_stream_holds_no_more_than_its_bound(wide, held):
    model = opened(wide, memory="9M")
    for _, tensor in model.stream():
        # Time to read as far ahead as it may.
        time.sleep(0.02 if tensor.nbytes > 1 << 20 else 0)
        del tensor
    handed_out = 4 << 20
    assert handed_out < held["most"] <= (9 << 20) + handed_out
    assert held["now"] == 0, "what is dropped is freed"
    assert 8 << 20 <= model.report().peak_memory <= 9 << 20


def test_small_neighbours_are_grouped_within_a_bound(wide, monkeypatch):
    monkeypatch.setattr(_pieces, "GROUP", 1000)
    model = opened(wide)
    small = [name for name in model.keys() if not name.endswith("large")]
    assert equal(dict(model.stream(small)), {name: wide[1][name] for name in small})
    groups = list(_pieces.parts(_pieces.pieces(model._catalogue, small, None), True, lambda _: False))
    assert all(0 < group.length <= 1000 for group in groups)
    assert 4 * 4 <= len(groups) < len(small) // 10


def test_a_tensor_larger_than_the_bound_is_read_alone(wide, held):
    assert equal(dict(opened(wide, memory="2M").stream()), wide[1])
    alone = opened(wide, memory="2M")
    held["most"] = 0
    for _, tensor in alone.stream():
        del tensor
    assert alone.report().peak_memory == 4 << 20
    assert held["most"] <= 8 << 20


def test_tensors_of_a_stream_are_the_callers_own(wide):
    stream = opened(wide, memory="6M").stream()
    kept = {name: tensor for name, tensor in stream}
    assert equal(kept, wide[1])
    bases = {id(tensor.base) if tensor.base is not None else id(tensor) for tensor in kept.values()}
    assert len(bases) == len(kept)


def test_a_stream_that_is_left_ends_its_thread(wide, held):
    before, files = threading.active_count(), len(os.listdir("/proc/self/fd"))
    model = opened(wide, memory="6M")
    stream = model.stream()
    next(stream)
    stream.close()
    assert threading.active_count() == before
    assert len(os.listdir("/proc/self/fd")) == files and held["now"] == 0
    assert equal(model.load(), wide[1])


def test_a_load_that_fails_gives_all_back(wide, held):
    def full(_):
        raise RuntimeError("enough")

    files = len(os.listdir("/proc/self/fd"))
    gc.disable()
    try:
        for read in (lambda model: model.load(), lambda model: list(model.stream())):
            model = opened(wide, progress=full)
            with pytest.raises(RuntimeError) as found:
                read(model)
            del found
            assert held["now"] == 0 and len(os.listdir("/proc/self/fd")) == files
    finally:
        gc.enable()


def test_a_report_may_be_asked_for_during_a_stream(wide):
    model = opened(wide)

    class Growing:
        """The reading of a file, during whose sum a thread counts the next."""

        bytes = 7

        @property
        def page_cache(self):
            model._tally.readings.setdefault(1, peerlane.Reading(1, 1, 0, 0, 0))
            return 0

    model._tally.readings[0] = Growing()
    assert model.report().disk == 7


def test_what_fails_amid_a_stream_is_raised(wide):
    model = opened(wide, memory="6M")
    os.truncate(wide[0] / "2.safetensors", 5000)
    found = {}
    with pytest.raises(peerlane.PeerlaneError, match="2.safetensors became shorter"):
        for name, tensor in model.stream():
            found[name] = tensor
    assert all((tensor == wide[1][name]).all() for name, tensor in found.items())
    assert not any(name.startswith("3.") for name in found)


def test_memory_that_is_full_is_an_error_that_says_what_needs_less(wide, monkeypatch):
    def full(*_):
        raise OSError(12, "Cannot allocate memory")

    monkeypatch.setattr(_views.mmap, "mmap", full)
    for read in (lambda model: model.load(), lambda model: list(model.stream())):
        with pytest.raises(peerlane.PeerlaneError, match="host memory for tensors") as found:
            read(opened(wide))
        assert "memory=" in found.value.hint


def test_types_are_cast_and_told(tmp_path):
    tensors = {("a", "F32", (2,)): np.array([1.5, 2], "f4").tobytes(), ("b", "I32", (1,)): b"1234"}
    model = safetensors.open(write(tmp_path / "file", tensors), framework="numpy", dtype="float16")
    found = model.load()
    assert found["a"].dtype == np.float16 and found["a"].tolist() == [1.5, 2]
    assert found["b"].dtype == np.int32
    assert model.report().cast == {"F32 to float16": 8} and "cast from F32 to float16" in str(model.report())
    with pytest.raises(peerlane.BadInput, match="no type 'float17'"):
        safetensors.open(tmp_path / "file", framework="numpy", dtype="float17")


@pytest.mark.parametrize("mapped", [True, False])
def test_progress_counts_all_bytes(wide, mapped):
    heard = []
    model = opened(wide, mapped=mapped, progress=heard.append)
    total = sum(value.nbytes for value in wide[1].values())
    model.load()
    assert heard[-1].done == heard[-1].total == total
    assert heard[-1].rate > 0 and heard[-1].route in {"mapped", "direct", "page cache"}
    assert [one.done for one in heard] == sorted(one.done for one in heard)
    heard.clear()
    list(model.stream())
    assert heard[-1].done == total


def test_progress_comes_at_intervals(wide, monkeypatch):
    monkeypatch.setattr(_progress, "PAUSE", 60)
    heard = []
    opened(wide, progress=heard.append).load()
    assert len(heard) <= 2 and heard[-1].done == heard[-1].total


def test_progress_that_raises_ends_the_load(wide):
    def full(_):
        raise RuntimeError("enough")

    for read in (lambda model: model.load(), lambda model: list(model.stream())):
        with pytest.raises(RuntimeError, match="enough"):
            read(opened(wide, progress=full))


def test_a_bar_is_drawn_at_the_end(wide, capsys):
    opened(wide, progress="bar").load()
    line = capsys.readouterr().err
    assert line.startswith("[####") and "0.02 of 0.02 GB" in line and line.count("\n") == 1
    with pytest.raises(peerlane.BadInput, match="progress"):
        opened(wide, progress="line")


def test_one_line_of_the_log_says_how_all_came(wide, caplog):
    caplog.set_level("INFO", "peerlane")
    model = opened(wide)
    list(model.stream())
    [line] = caplog.messages
    route = "direct" if peerlane.Reader(wide[0] / "0.safetensors").is_direct else "page cache"
    assert f"0.017 GB {route}" in line and "GB/s" in line
    report = model.report()
    assert report.routes == {route: report.bytes} and report.seconds > 0
    assert report.page_cache + report.disk == report.bytes


@pytest.mark.parametrize("size", ["0", "-1", "1.5G", "many", 0])
def test_what_is_no_size_is_refused(wide, size):
    with pytest.raises(peerlane.BadInput, match="memory"):
        opened(wide, memory=size)


def test_pointers_of_git_lfs_are_named(tmp_path):
    text = b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 12\n"
    for name in ("model.safetensors", "model.safetensors.index.json"):
        (tmp_path / name).write_bytes(text)
        with pytest.raises(peerlane.BadInput, match="pointer of Git LFS") as found:
            load(tmp_path / name)
        assert "git lfs pull" in found.value.hint


def test_a_key_that_is_there_twice_is_named(tmp_path):
    path = write_raw(tmp_path / "file", f"{{{entry()},{entry()}}}".encode(), b"12")
    with pytest.raises(peerlane.BadInput, match='the key "a" twice'):
        load(path)
    metadata = '"__metadata__":{"b":"1","b":"2"}'
    path = write_raw(tmp_path / "within", f"{{{metadata},{entry()}}}".encode(), b"1")
    with pytest.raises(peerlane.BadInput, match='the key "b" twice'):
        load(path)
    index = tmp_path / "index.json"
    index.write_text('{"weight_map": {"a": "file", "a": "other"}}')
    with pytest.raises(peerlane.BadInput, match="'a' is there twice"):
        load(index)
    others = [write(tmp_path / name, {("a", "U8", (1,)): b"1"}) for name in ("one", "two")]
    with pytest.raises(peerlane.BadInput, match="'a' is in .*one and in .*two"):
        load(others)


def test_missing_shards_are_named_all_at_once(tmp_path):
    index = shards(tmp_path, {f"t{number}": f"part-{number}" for number in range(6)})
    for number in (1, 2, 3, 5):
        (tmp_path / f"part-{number}").unlink()
    with pytest.raises(peerlane.BadInput, match=r"4 of 6 files .* part-1, part-2, part-3, \.\.\.") as found:
        load(index)
    assert "fetch" in found.value.hint


def test_an_index_without_a_weight_map_says_so(tmp_path):
    index = tmp_path / "index.json"
    index.write_text('{"metadata": {}}')
    with pytest.raises(peerlane.BadInput, match="no weight_map"):
        load(index)


def test_a_file_that_was_cut_is_to_be_fetched_again(model):
    os.truncate(model, model.stat().st_size - 1)
    with pytest.raises(peerlane.BadInput, match="its tensors end at byte") as found:
        load(model)
    assert "fetch it again" in found.value.hint


def test_a_folder_gives_its_index_or_its_files(tmp_path):
    shards(tmp_path, {"a": "one.safetensors", "b": "two.safetensors"})
    write(tmp_path / "other.safetensors", {("c", "U8", (1,)): b"1"})
    assert set(load(tmp_path)) == {"a", "b"}
    (tmp_path / "model.safetensors.index.json").unlink()
    assert set(load(tmp_path)) == {"a", "b", "c"}
    for name in ("x", "y"):
        (tmp_path / f"{name}.safetensors.index.json").write_text("{}")
    with pytest.raises(peerlane.BadInput, match="2 indexes"):
        load(tmp_path)


def test_a_group_needs_tensors_of_pytorch(wide):
    with pytest.raises(peerlane.BadInput, match="framework='torch'"):
        opened(wide, group=True)


@pytest.mark.parametrize("cut", [(0, 1), (0, 0, 1, 2), 3, ("0", 0, 1), (0, 0.0, 1), (0, None, 1)])
def test_a_slice_that_is_none_is_named(cut):
    entry = ("weights", "F32", (4, 4), 0, 0, 64)
    with pytest.raises(peerlane.BadInput, match="tensor 'weights': .* is no slice") as caught:
        _pieces.piece(entry, cut)
    assert "dimension, begin and end" in caught.value.hint


@pytest.mark.parametrize("dtype", [object, "O", "S4", "U2", "V8", "datetime64[s]", "(2,)f4", "f4,f4", "finfo"])
def test_numpy_casts_to_numbers_only(dtype):
    with pytest.raises(peerlane.BadInput, match="is not a type of numbers") as caught:
        NumpyViews("numpy", "cpu", dtype)
    assert "float32" in caught.value.hint


@pytest.mark.parametrize("dtype", [3, "float17", "(2,", "f4,,f4", ""])
def test_types_that_numpy_lacks_are_refused(dtype):
    with pytest.raises(peerlane.BadInput, match="dtype: "):
        NumpyViews("numpy", "cpu", dtype)


SMALL_GAP = _pieces.SMALL_GAP


@pytest.mark.parametrize(
    ("sizes", "gap", "is_apart", "kinds"),
    [
        ((64, 64), _pieces.GAP, False, ["range"]),
        ((64, 64), _pieces.GAP + 1, False, ["group"]),
        ((64, 64), SMALL_GAP, False, ["group"]),
        ((64, 64), SMALL_GAP + 1, False, ["range", "range"]),
        ((64, 64), 0, True, ["group"]),
        ((64, 64), SMALL_GAP, True, ["group"]),
        ((64, 64), SMALL_GAP + 1, True, ["group", "group"]),
        ((64, _pieces.SMALL), _pieces.GAP, False, ["range"]),
        ((64, _pieces.SMALL), _pieces.GAP + 1, False, ["range", "range"]),
        ((_pieces.SMALL, 64), 0, True, ["range", "group"]),
        ((64, 64), -1, False, ["range", "range"]),
    ],
)
def test_small_ranges_with_a_gap_are_read_together(sizes, gap, is_apart, kinds):
    first, second = sizes
    places = (("a", 0, first), ("b", first + gap, second))
    pieces = [_pieces.Piece(name, "U8", (size,), 0, at, size, 1, size) for name, at, size in places]
    found = list(_pieces.parts(pieces, is_apart, lambda shard: False))
    assert [part.kind.value for part in found] == kinds


def test_large_neighbours_of_a_gap_stay_apart():
    places = (("a", 0, 64), ("b", 64 + _pieces.GAP + 1, 64), ("c", 128 + _pieces.GAP + 1, _pieces.SMALL))
    pieces = [_pieces.Piece(name, "U8", (size,), 0, at, size, 1, size) for name, at, size in places]
    found = list(_pieces.parts(pieces, False, lambda shard: False))
    assert [(part.kind.value, len(part.pieces)) for part in found] == [("group", 2), ("range", 1)]


@pytest.mark.parametrize("how", ["load", "stream", "mapped"])
@pytest.mark.parametrize("pad", [8, 1])
@pytest.mark.parametrize("dtype", [None, "float64"])
def test_small_columns_come_out_of_one_range(tmp_path, how, pad, dtype):
    random = np.random.default_rng(3)
    kinds = {"f2": "F16", "f4": "F32"}
    names = [f"{number}.{kind}" for number in range(30) for kind in kinds]
    values = {name: random.random((5, 6, 40)).astype(name[-2:]) for name in names}
    tensors = {(name, kinds[name[-2:]], value.shape): value.tobytes() for name, value in values.items()}
    path = write(tmp_path / "model.safetensors", tensors, {"odd": "x"}, pad)
    path.read_bytes()
    model = safetensors.open(path, framework="numpy", mapped=how == "mapped", dtype=dtype)
    slices = {name: (1, 2, 4) if name[-1] == "2" else (2, 3, 9) for name in values}
    found = dict(model.stream(slices=slices)) if how == "stream" else model.load(slices=slices)
    for name, value in values.items():
        expected = value[:, 2:4] if name[-1] == "2" else value[:, :, 3:9]
        assert found[name].dtype == (dtype or value.dtype) and found[name].flags.c_contiguous
        assert found[name].shape == expected.shape and (found[name] == expected).all(), name
    [plan] = safetensors.open(path, framework="numpy", mapped=False).plan(slices=slices)
    assert plan.requests == 1 and len(plan.columns) == 60 and not any(one.is_by_runs for one in plan.columns)
