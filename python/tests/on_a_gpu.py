"""Reads into memory of a GPU that this process allocated by the driver, as CuPy and PyTorch do; for test_cuda.py.

Takes a list of calls as JSON and writes what came of each to a file: too much for a pipe, of which an unbuffered
Python loses what a short write leaves.
"""

from __future__ import annotations

import ctypes
import json
import pathlib
import sys
import threading
import warnings

import peerlane
from peerlane import safetensors

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
            "version": 3,
        }

    def __len__(self) -> int:
        return self.call["shape"][0]

    def __getitem__(self, part: slice) -> Array:
        begin, end, _ = part.indices(len(self))
        return Array(self.address + begin, self.call | {"shape": [end - begin]})


class GpuBytes:
    """Tensors as pairs of address and length in memory that this process allocated."""

    def __init__(self, address: int) -> None:
        self.address = address

    def allocate(self, length: int) -> Array:
        return Array(self.address, {"shape": [length]})

    def make(self, memory: Array, start: int, tensors: list[dict]) -> dict[str, tuple[int, int]]:
        return {one["name"]: (start + one["begin"], one["end"]) for one in tensors}


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


def load(address: int, path: pathlib.Path) -> dict:
    header = safetensors._header(path)
    safetensors.PART = 3000
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        tensors, route = safetensors._load(path, header, GpuBytes(address), threading.Event())
    return {"tensors": tensors, "route": route.route, "reading": list(route.reading)}


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
            one = load(address, pathlib.Path(call["load"]))
        else:
            one = read(address + call["skip"], call)
        one["is_same_context"] = driver.is_same_context()
        one["bytes"] = driver.content(address)
        driver.call("cuMemFree_v2", ctypes.c_uint64(address))
        found.append(one)
    pathlib.Path(sys.argv[2]).write_text(json.dumps(found))


main()
