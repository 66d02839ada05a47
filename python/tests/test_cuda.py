"""Reading files into memory of a GPU, against the mock of CUDA and cuFile that the tests in Rust have, too."""

from __future__ import annotations

import json
import os
import pathlib
import shutil
import subprocess
import sys

import peerlane
import pytest
from conftest import content

SIZE = (3 << 20) + 777
MOCK = pathlib.Path(__file__).parents[2] / "crates" / "memory" / "mock-cuda"


@pytest.fixture(scope="session")
def library(tmp_path_factory) -> pathlib.Path:
    """The mock, built as the tests in Rust build it."""
    if not shutil.which("cc"):
        pytest.skip("there is no cc to build the mock of CUDA with")
    path = tmp_path_factory.mktemp("mock") / "libmock.so"
    flags = ["-std=gnu11", "-O1", "-shared", "-fPIC", f'-DSHIM="{MOCK / "shim.h"}"']
    sources = [MOCK / "mock.c", MOCK / "compute.c"]
    subprocess.run(["cc", *flags, "-o", path, *sources], check=True)
    return path


# Shows the module nvidia_fs as loaded, which only the program sees.
MOUNT = 'mount -t tmpfs none /sys/module && mkdir /sys/module/nvidia_fs && exec "$@"'


class Machine:
    """A process whose CUDA is the mock: a Python of its own, since libraries are found when it starts."""

    def __init__(self, folder: pathlib.Path, library: pathlib.Path, conf: str) -> None:
        self.folder = folder
        # One file by two names is one library with one state.
        shutil.copy(library, folder / "libcuda.so.1")
        (folder / "libcufile.so.0").symlink_to("libcuda.so.1")
        (folder / "libcuda.so.1.conf").write_text(conf + "\n")
        self.begin: list[str] = []
        if "mode=" in conf:
            # A direct way is taken only where the machine shows that there is one.
            self.begin = ["unshare", "--mount", "sh", "-c", MOUNT, "sh"]
            tried = subprocess.run([*self.begin, "true"], capture_output=True, text=True, check=False)
            if tried.returncode:
                pytest.skip(f"no mount namespace: {tried.stderr.strip()}")

    def run(self, *calls: dict[str, object]) -> list[dict[str, object]]:
        program = pathlib.Path(__file__).with_name("on_a_gpu.py")
        found = self.folder / "found.json"
        done = subprocess.run(
            [*self.begin, sys.executable, program, json.dumps(calls), found],
            env=os.environ | {"LD_LIBRARY_PATH": str(self.folder)},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return json.loads(found.read_text())

    def log(self) -> list[str]:
        return (self.folder / "libcuda.so.1.log").read_text().splitlines()


def expected(before: int, offset: int, length: int, whole: int) -> str:
    """The content of an allocation, filled from its byte `before` on, as a number that tells it."""
    filled = content(SIZE)[offset : offset + length]
    return (b"\xee" * before + filled).ljust(whole, b"\xee").hex()


@pytest.mark.parametrize("conf", ["", "mode=p2pdma", "mode=nvfs"])
def test_memory_of_a_gpu_is_filled_by_the_way_that_the_result_says(source, library, tmp_path, conf):
    machine = Machine(tmp_path, library, conf)
    # Where in the allocation, where in the file, and how long; the last two reach to the end of the file and beyond.
    ranges = [(0, 0, 4096), (3, 5001, 70_001), (0, SIZE - 5000, 6000), (8, SIZE + 1, 10), (1, 7, 0)]
    calls = [
        {"path": str(source), "skip": skip, "offset": offset, "shape": [length]}
        for skip, offset, length in ranges
    ]
    is_direct = peerlane.Reader(source).is_direct
    for (skip, offset, length), found in zip(ranges, machine.run(*calls), strict=True):
        count = max(min(length, SIZE - offset), 0)
        reading = found["reading"]
        by_drive = count if conf and is_direct else 0
        assert (reading[0], reading[1], reading[2]) == (count, by_drive, 0)
        assert sum(reading[3:]) == count - by_drive
        assert found["bytes"] == expected(skip, offset, count, 80_000)
        assert found["is_same_context"]
        says = ["RouteWarning"] if conf and count and not by_drive else []
        assert found["warnings"] == says
    log = machine.log()
    assert not [line for line in log if line.startswith("VIOLATION")]
    # Memory of the GPU is taken by the direct way alone, and cleared; the caller's is not.
    own = 3 if conf and is_direct else 0
    assert (log.count("left zeroes"), log.count("left content")) == (own, 5)
    assert log.count("cuMemcpyDtoD") == own
    if not conf:
        assert "cuFileDriverOpen" not in log


def test_only_the_stream_of_the_caller_is_waited_for(source, library, tmp_path):
    machine = Machine(tmp_path, library, "")
    call = {"path": str(source), "skip": 0, "offset": 0, "shape": [4096]}
    machine.run(call | {"stream": 1}, call | {"stream": None})
    log = machine.log()
    waits = [line for line in log if line.startswith("cuStreamWaitEvent in ")]
    assert len(waits) == 1 and waits[0].endswith(" for 1")
    first = log.index("cuMemcpyHtoDAsync")
    assert log.index(waits[0]) < first
    assert "cuCtxSynchronize" not in log
    (found,) = machine.run(call | {"stream": 0})
    assert (found["error"], "stream" in found["words"]) == ("BadInput", True)
    machine.run(call | {"version": 2})
    assert "cuCtxSynchronize" in machine.log(), "who names no stream may use any"


def test_a_forked_process_has_no_cuda(source, library, tmp_path):
    (found,) = Machine(tmp_path, library, "").run({"fork": str(source)})
    assert found["reading"][0] == 100
    assert "forked" in found["child"]["words"] and "spawn" in found["child"]["hint"]


def shard(path: pathlib.Path, names: str, data: bytes) -> None:
    """A file of tensors of equal size."""
    size = len(data) // len(names)
    header = json.dumps({
        name: {"dtype": "U8", "shape": [size], "data_offsets": [at * size, (at + 1) * size]}
        for at, name in enumerate(names)
    }).encode()
    path.write_bytes(len(header).to_bytes(8, "little") + header + data)


@pytest.mark.parametrize("conf", ["", "mode=p2pdma"])
def test_safetensors_reach_gpu_memory(library, tmp_path, conf):
    data = content(30_000)
    paths = [tmp_path / "one.safetensors", tmp_path / "two.safetensors"]
    shard(paths[0], "ab", data[:20_000])
    shard(paths[1], "c", data[20_000:])
    (found,) = Machine(tmp_path, library, conf).run({"load": [str(path) for path in paths]})
    assert found["tensors"] == [{"a": [0, 10_000], "b": [10_000, 20_000]}, {"c": [0, 10_000]}]
    assert found["bytes"] == data.ljust(80_000, b"\xee").hex()
    is_p2p = bool(conf) and peerlane.Reader(paths[0]).is_direct
    assert found["routes"] == ["p2p" if is_p2p else "host"] * 2
    assert [reading[:2] for reading in found["readings"]] == [
        [20_000, 20_000 if is_p2p else 0],
        [10_000, 10_000 if is_p2p else 0],
    ]
    assert found["warnings"] == 0 or not is_p2p
    assert found["progress"][:2] == [30_000, 30_000]
    assert found["report"]["routes"] == {"p2p" if is_p2p else "host": 30_000}
    assert (found["report"]["peak_pinned"] > 0) != is_p2p


def test_a_stream_of_safetensors_reaches_gpu_memory(library, tmp_path):
    data = content(30_000)
    paths = [tmp_path / "one.safetensors", tmp_path / "two.safetensors"]
    shard(paths[0], "ab", data[:20_000])
    shard(paths[1], "c", data[20_000:])
    call = {"load": [str(path) for path in paths], "memory": "40K"}
    (found,) = Machine(tmp_path, library, "").run(call)
    assert found["bytes"] == data.ljust(80_000, b"\xee").hex()
    report = found["report"]
    assert report["routes"] == {"host": 30_000} and report["bytes"] == 30_000
    assert 20_000 <= report["peak_memory"] <= 40 << 10
    assert found["progress"][:2] == [30_000, 30_000]


def test_the_shard_that_fails_is_named(library, tmp_path):
    paths = [tmp_path / "one.safetensors", tmp_path / "two.safetensors"]
    for name, path in zip("ab", paths, strict=True):
        shard(path, name, content(20_000))
    machine = Machine(tmp_path, library, "fail_copy=1")
    (found,) = machine.run({"load": [str(path) for path in paths]})
    assert found["error"] == "PeerlaneError" and "cuMemcpyHtoDAsync failed" in found["words"]
    (tmp_path / "other").mkdir()
    machine = Machine(tmp_path / "other", library, "")
    (found,) = machine.run({"load": [str(path) for path in paths], "pinned": "many"})
    assert (found["error"], "pinned" in found["words"]) == ("BadInput", True)


def test_forms_of_an_interface_that_are_in_one_piece(source, library, tmp_path):
    machine = Machine(tmp_path, library, "")
    forms = [
        {"shape": [], "typestr": "<f8"},
        {"shape": [10, 20], "typestr": "<f4", "strides": [80, 4]},
        {"shape": [1, 20], "typestr": "<c16", "strides": [7, 16]},
        {"shape": [5], "typestr": "|V3"},
        {"shape": [5], "typestr": "<U3"},
    ]
    calls = [{"path": str(source), "skip": 0, "offset": 1, **form} for form in forms]
    lengths = [found["reading"][0] for found in machine.run(*calls)]
    assert lengths == [8, 800, 320, 15, 60]


def test_what_the_driver_does_not_know_is_refused(source, library, tmp_path):
    machine = Machine(tmp_path, library, "")
    calls = [
        {"path": str(source), "skip": skip, "offset": 0, "shape": [length]}
        for skip, length in [(0, 80_001), (79_999, 2), (80_000, 1), (-4096, 1)]
    ]
    for found in machine.run(*calls):
        assert found["error"] == "BadInput"
        assert "allocation" in found["words"] or "does not know it" in found["words"]
        assert found["bytes"] == "ee" * 80_000
    assert "cuMemcpyDtoD" not in machine.log()


def test_a_machine_without_a_gpu_says_what_to_do(source, library, tmp_path):
    machine = Machine(tmp_path, library, "devices=0")
    (found,) = machine.run({"path": str(source), "address": 4096, "offset": 0, "shape": [1]})
    assert (found["error"], found["status"]) == ("CudaUnavailable", 77)
    assert "no device" in found["words"] and "nvidia-smi" in found["hint"] and "numpy.empty" in found["hint"]


GOOD = {"shape": (4,), "typestr": "|u1", "data": (4096, False), "version": 3}


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"version": 1}, "version 1 is older"),
        ({"version": None}, "version is not a number"),
        ({"mask": object()}, "mask"),
        ({"shape": 4}, "shape is not a tuple"),
        ({"shape": (-1,)}, "shape has an entry that is not a size"),
        ({"shape": (2**63, 2)}, "larger than any memory"),
        ({"shape": (2**62, 2)}, "larger than any memory"),
        ({"shape": (2**64,)}, "shape has an entry that is not a size"),
        ({"shape": (1,) * 65}, "dimensions"),
        ({"typestr": "<f"}, "typestr"),
        ({"typestr": "<f0"}, "typestr"),
        ({"typestr": "<f+4"}, "typestr"),
        ({"typestr": "|O8"}, "typestr"),
        ({"typestr": "\N{SNOWMAN}f4"}, "typestr"),
        ({"typestr": "<U9223372036854775807"}, "typestr"),
        ({"typestr": "<f99999999999999999999"}, "typestr"),
        ({"typestr": 4}, "typestr is not text"),
        ({"strides": (2,)}, "gaps"),
        ({"strides": (1, 1)}, "gaps"),
        ({"strides": (-1,)}, "strides has an entry that is not a size"),
        ({"shape": (2, 2), "strides": (1, 2)}, "order"),
        ({"data": (4096, True)}, "read only"),
        ({"data": (4096, 0)}, "does not say"),
        ({"data": (4096,)}, "not a pair"),
        ({"data": (-1, False)}, "no address"),
        ({"data": b"bytes"}, "not a tuple"),
    ],
)
def test_an_interface_that_makes_no_sense_is_refused_with_the_reason(source, change, words):
    class Odd:
        __cuda_array_interface__ = GOOD | change

    with pytest.raises(peerlane.BadInput, match=words):
        peerlane.Reader(source).read_into(Odd())


@pytest.mark.parametrize("key", ["shape", "typestr", "data", "version"])
def test_an_interface_that_lacks_something_is_refused(source, key):
    class Lacks:
        __cuda_array_interface__ = {name: value for name, value in GOOD.items() if name != key}

    with pytest.raises(peerlane.BadInput, match=f"{key} is missing"):
        peerlane.Reader(source).read_into(Lacks())


def test_an_interface_that_is_no_dict_is_refused(source):
    class Text:
        __cuda_array_interface__ = "text"

    with pytest.raises(peerlane.BadInput, match="not a dict"):
        peerlane.Reader(source).read_into(Text())
