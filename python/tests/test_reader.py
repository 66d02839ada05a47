"""Reading files into memory of several kinds."""

from __future__ import annotations

import array
import mmap
import resource
import sys
import threading

import numpy as np
import peerlane
import pytest
from conftest import content

SIZE = (3 << 20) + 777


class OnlyDlpack:
    """A stand-in for a ``torch.Tensor`` on the CPU: no buffer protocol."""

    def __init__(self, held: np.ndarray) -> None:
        self.held = held

    def __dlpack__(self):
        return self.held.__dlpack__()

    def __dlpack_device__(self):
        return self.held.__dlpack_device__()


def view(target) -> bytes:
    held = target.held if isinstance(target, OnlyDlpack) else target
    return held.tobytes() if isinstance(held, np.ndarray) else bytes(memoryview(held).cast("B"))


TARGETS = {
    "bytearray": lambda: bytearray(100_000),
    "memoryview": lambda: memoryview(bytearray(100_001))[1:],
    "array": lambda: array.array("d", bytes(80_000)),
    "mmap": lambda: mmap.mmap(-1, 1 << 20),
    "numpy bytes": lambda: np.zeros(2 << 20, np.uint8),
    "numpy floats": lambda: np.zeros((64, 1000), np.float32),
    "numpy with one odd byte": lambda: np.zeros(70_001, np.uint8)[1:],
    "numpy record": lambda: np.zeros(500, np.dtype([("a", "<u2"), ("b", "<f8")])),
    "numpy 0-d": lambda: np.zeros((), np.int64),
    "dlpack": lambda: OnlyDlpack(np.zeros((7, 9000), np.int16)),
    "dlpack empty": lambda: OnlyDlpack(np.zeros((0, 3), np.int16)),
    "empty": lambda: bytearray(),
}


@pytest.mark.parametrize("offset", [0, 1, 4096, 5000, SIZE - 10, SIZE, SIZE + 1])
@pytest.mark.parametrize("kind", TARGETS)
def test_any_memory_is_filled_from_any_offset(source, kind, offset):
    target = TARGETS[kind]()
    reader = peerlane.Reader(source)
    reading = reader.read_into(target, offset)
    found = view(target)
    expected = content(SIZE)[offset : offset + len(found)]
    assert reading.bytes == len(expected)
    assert reading.bytes == sum(reading[1:])
    assert found == expected + bytes(len(found) - len(expected))


def test_aligned_memory_gets_whole_blocks_without_a_copy(source):
    reader = peerlane.Reader(source)
    if not reader.is_direct:
        pytest.skip("the file system of the tests takes no direct I/O")
    target = mmap.mmap(-1, 1 << 20)
    assert reader.read_into(target, 1 << 20) == (1 << 20, 1 << 20, 0, 0, 0)
    reading = reader.read_into(target, reader.block)
    assert reading.direct == 1 << 20
    # One byte further nothing fits as it is: all but the end is moved within the memory.
    odd = memoryview(target)[1:]
    reading = reader.read_into(odd)
    assert reading.direct == 0 and 0 < reading.copied < 3 * reader.block
    assert reading.shifted == reading.bytes - reading.copied and odd == content(SIZE)[: len(odd)]
    # What fits goes in place between a beginning and an end that do not.
    reading = reader.read_into(odd, 1)
    assert reading.direct > 0 and 0 < reading.copied < 2 * reader.block


def test_only_the_memory_that_was_given_is_changed(source):
    around = np.full(50_000, 0xA5, np.uint8)
    peerlane.Reader(source).read_into(around[1000:-1000], 33)
    assert (around[:1000] == 0xA5).all() and (around[-1000:] == 0xA5).all()
    assert around[1000:-1000].tobytes() == content(SIZE)[33:][:48_000]


def test_facts_of_a_reader(source):
    reader = peerlane.Reader(source)
    assert (reader.size, reader.path) == (SIZE, str(source))
    assert reader.block >= 1 and repr(reader) == f"Reader('{source}')"
    with source.open("ab") as file:
        file.write(b"more")
    assert reader.size == SIZE + 4


@pytest.mark.parametrize(
    ("target", "words"),
    [
        (b"constant", "read only"),
        (np.empty(2, object), "Python objects"),
        (np.empty(2, [("a", "O"), ("b", "f8")]), "Python objects"),
        (np.empty(2, "datetime64[s]"), "cannot read into"),
        (np.zeros(10)[::2], "gaps"),
        (np.zeros((3, 4), order="F"), "order"),
        (OnlyDlpack(np.zeros(10)[::2]), "gaps"),
        (object(), "a object has neither"),
        (7, "a int has neither"),
    ],
)
def test_memory_that_cannot_be_filled_is_refused_with_the_reason(source, target, words):
    with pytest.raises(peerlane.BadInput, match=words):
        peerlane.Reader(source).read_into(target)


class FakeCudaTensor:
    def __dlpack_device__(self):
        return (2, 3)

    def __dlpack__(self):
        raise AssertionError("not asked for before it is known where the memory is")


def test_memory_of_a_gpu_by_dlpack_alone_is_told_from_other_memory(source):
    with pytest.raises(peerlane.BadInput, match="CUDA device 3.*no __cuda_array_interface__") as raised:
        peerlane.Reader(source).read_into(FakeCudaTensor())
    assert raised.value.hint


def test_memory_of_an_unknown_device_is_refused(source):
    class Strange(FakeCudaTensor):
        def __dlpack_device__(self):
            return (99, 0)

    with pytest.raises(peerlane.BadInput, match="type 99"):
        peerlane.Reader(source).read_into(Strange())


def test_memory_is_let_go_of_afterwards(source):
    held = np.zeros(10_000, np.uint8)
    before = sys.getrefcount(held)
    for target in (held, OnlyDlpack(held)):
        peerlane.Reader(source).read_into(target)
        del target
    assert sys.getrefcount(held) == before
    grown = bytearray(10)
    peerlane.Reader(source).read_into(grown)
    grown.extend(b"resized only when nobody has the buffer")


def test_a_capsule_is_used_once(source):
    capsule = np.zeros(10, np.uint8).__dlpack__()

    class Again:
        def __dlpack__(self):
            return capsule

    reader = peerlane.Reader(source)
    assert reader.read_into(Again()).bytes == 10
    with pytest.raises(peerlane.BadInput, match="used already"):
        reader.read_into(Again())


def test_one_reader_serves_several_threads(source):
    reader = peerlane.Reader(source)
    targets = [bytearray(1 << 20) for _ in range(3)]
    threads = [
        threading.Thread(target=reader.read_into, args=(target, at << 20))
        for at, target in enumerate(targets)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert b"".join(targets) == content(SIZE)[: 3 << 20]


@pytest.mark.parametrize("path", ["", "/", "/nowhere/at/all", "/proc/version", "/dev/null", "host"])
def test_what_cannot_be_read_is_refused(path):
    with pytest.raises(peerlane.BadInput):
        peerlane.Reader(path)


@pytest.mark.parametrize("arguments", [{"offset": -1}, {"timeout": 0}])
def test_numbers_out_of_bounds_are_refused(source, arguments):
    with pytest.raises(peerlane.BadInput):
        peerlane.Reader(source).read_into(bytearray(1), **arguments)


def test_files_are_opened_without_a_child_process(tmp_path):
    path = tmp_path / "file"
    path.write_bytes(bytes(8192))
    # What is asked of the machine is asked once.
    peerlane.Reader(path)
    before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_minflt
    assert peerlane.Reader(path).read_into(bytearray(8192)).bytes == 8192
    assert resource.getrusage(resource.RUSAGE_CHILDREN).ru_minflt == before, "a fork copies all tables of pages"
