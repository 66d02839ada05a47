"""Rate of the copy engine alone, from pinned memory into a GPU, by the driver's interface: copy_engine.py GPU."""

from __future__ import annotations

import ctypes
import json
import mmap
import sys
import time

BYTES = 256 << 20
COPIES = 32
REPEATS = 3
NON_BLOCKING = 1


def main() -> None:
    driver = ctypes.CDLL("libcuda.so.1")

    def call(name: str, *arguments: object) -> None:
        code = getattr(driver, name)(*arguments)
        if code:
            sys.exit(f"{name} failed: {code}")

    device, context = ctypes.c_int(), ctypes.c_void_p()
    memory, stream = ctypes.c_uint64(), ctypes.c_void_p()
    pages = mmap.mmap(-1, BYTES)
    host = ctypes.c_void_p(ctypes.addressof(ctypes.c_char.from_buffer(pages)))
    size = ctypes.c_size_t(BYTES)
    call("cuInit", 0)
    call("cuDeviceGet", ctypes.byref(device), int(sys.argv[1]))
    call("cuDevicePrimaryCtxRetain", ctypes.byref(context), device)
    call("cuCtxSetCurrent", context)
    call("cuMemHostRegister_v2", host, size, 0)
    call("cuMemAlloc_v2", ctypes.byref(memory), size)
    call("cuStreamCreate", ctypes.byref(stream), NON_BLOCKING)
    rates = []
    for _ in range(REPEATS):
        begin = time.monotonic()
        for _ in range(COPIES):
            call("cuMemcpyHtoDAsync_v2", memory, host, size, stream)
        call("cuCtxSynchronize")
        rates.append(COPIES * BYTES / (time.monotonic() - begin) / 1e9)
    print(json.dumps({"gb_s": [round(rate, 3) for rate in rates]}))


main()
