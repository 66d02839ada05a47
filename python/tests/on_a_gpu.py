"""Reads into memory of a GPU that this process allocated by the driver, as CuPy and PyTorch do; for test_cuda.py.

Takes a list of calls as JSON and writes the results to a file: they are too much for a pipe, since
an unbuffered Python loses the rest of a short write.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import pathlib
import sys
import warnings

import peerlane
from peerlane._model import Model
from peerlane._pieces import Piece
from peerlane._shards import Catalogue

WHOLE = 80_000


class Array:
    """Memory of a GPU as CuPy, Numba and PyTorch show theirs."""

    def __init__(self, address: int, call: dict) -> None:
        self.address, self.call = address, call
        self.__cuda_array_interface__ = {
            "shape": tuple(call["shape"]),
            "typestr": call.get("typestr", "|u1"),
            "data": (address, False),
            "strides": tuple(call["strides"]) if "strides" in call else None,
            "version": call.get("version", 3),
        } | ({"stream": call["stream"]} if "stream" in call else {})

    def __len__(self) -> int:
        return self.call["shape"][0]

    def __getitem__(self, part: slice) -> Array:
        begin, end, _ = part.indices(len(self))
        return Array(self.address + begin, self.call | {"shape": [end - begin]})


class GpuBytes:
    """Tensors as pairs of begin and end in memory that this process allocated."""

    is_gpu, place = True, "gpu:0"

    def __init__(self, address: int) -> None:
        self.address = address

    def check(self, piece: Piece) -> None: ...

    def allocate(self, length: int, _phase: int) -> Array:
        self.address, address = self.address + length, self.address
        return Array(address, {"shape": [length]})

    def tensor(self, _memory: Array, begin: int, piece: Piece, *, is_cast: bool) -> tuple[int, int]:
        assert not is_cast
        return begin, begin + piece.bytes

    def own(self, tensor: tuple[int, int]) -> tuple[int, int]:
        return tensor

    def casts(self, _piece: Piece) -> bool:
        return False

    def context(self) -> contextlib.AbstractContextManager[None]:
        return contextlib.nullcontext()


class Driver:
    def __init__(self) -> None:
        self.library = ctypes.CDLL("libcuda.so.1")
        self.context = ctypes.c_void_p()
        self.call("cuInit", 0)
        self.call("cuDevicePrimaryCtxRetain", ctypes.byref(self.context), 0)
        self.call("cuCtxSetCurrent", self.context)

    def call(self, name: str, *arguments: object) -> None:
        code = getattr(self.library, name)(*arguments)
        assert code == 0, (name, code)

    def allocate(self) -> int:
        address = ctypes.c_uint64()
        self.call("cuMemAlloc_v2", ctypes.byref(address), ctypes.c_size_t(WHOLE))
        return address.value

    def content(self, address: int) -> str:
        host = ctypes.create_string_buffer(WHOLE)
        self.call("cuMemcpyDtoH_v2", host, ctypes.c_uint64(address), ctypes.c_size_t(WHOLE))
        return host.raw.hex()

    def is_same_context(self) -> bool:
        context = ctypes.c_void_p()
        self.call("cuCtxGetCurrent", ctypes.byref(context))
        return context.value == self.context.value


def read(address: int, call: dict) -> dict:
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        try:
            reading = peerlane.Reader(call["path"]).read_into(Array(address, call), call["offset"])
        except peerlane.PeerlaneError as error:
            words = {"words": str(error), "status": error.status, "hint": error.hint}
            return {"error": type(error).__name__, **words}
    return {"reading": list(reading), "warnings": [one.category.__name__ for one in heard]}


def load(address: int, call: dict) -> dict:
    catalogue, heard = Catalogue(call["load"]), []
    options = {"memory": call.get("memory", "2G"), "pinned": call.get("pinned"), "mapped": True, "group": None}
    model = Model(catalogue, GpuBytes(address), progress=heard.append, **options)
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        try:
            tensors = dict(model.stream()) if "memory" in call else model.load()
        except peerlane.PeerlaneError as error:
            return {"error": type(error).__name__, "words": str(error)}
    files = getattr(tensors, "files", [])
    return {
        "tensors": [
            {name: span for name, span in tensors.items() if model.info(name).file == path}
            for path in call["load"]
        ],
        "routes": [file.route for file in files],
        "readings": [list(file.reading) for file in files],
        "warnings": len(warned),
        "progress": heard[-1],
        "report": model.report()._asdict(),
    }


def forked(address: int, path: str) -> dict:
    """The result of a read in a process forked off this one, whose CUDA is initialised."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        found = read(address, {"path": path, "offset": 0, "shape": [100]})
        os.write(writer, json.dumps(found).encode())
        os._exit(0)
    os.close(writer)
    with open(reader, "rb") as pipe:
        found = json.loads(pipe.read())
    os.waitpid(child, 0)
    return found


def main() -> None:
    found = []
    driver = None
    for call in json.loads(sys.argv[1]):
        if "address" in call:
            found.append(read(call["address"], call))
            continue
        driver = driver or Driver()
        address = driver.allocate()
        if "load" in call:
            one = load(address, call)
        elif "fork" in call:
            one = read(address, {"path": call["fork"], "offset": 0, "shape": [100]})
            one["child"] = forked(address, call["fork"])
        else:
            one = read(address + call["skip"], call)
        one["is_same_context"] = driver.is_same_context()
        one["bytes"] = driver.content(address)
        driver.call("cuMemFree_v2", ctypes.c_uint64(address))
        found.append(one)
    pathlib.Path(sys.argv[2]).write_text(json.dumps(found))


main()
