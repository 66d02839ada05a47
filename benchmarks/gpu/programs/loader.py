"""One loader of weights into a GPU, in a process of its own: loader.py NAME DEVICE.

Answers each line `{"paths": [...], "compare": bool}` on standard input with a line of JSON: seconds, CPU seconds and
bytes of the load. With `compare` a second line says whether the content is that of the files. The first line is
`{"ready": true}`, once libraries and CUDA are loaded.
"""

from __future__ import annotations

import contextlib
import gc
import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import safetensors_files

# What libraries print must not come between the answers.
ANSWERS = os.fdopen(os.dup(1), "w")
os.dup2(2, 1)

Load = Callable[[list[str]], Any]


class TorchLoader:
    """A loader that gives tensors of PyTorch by name."""

    def __init__(self, name: str, device: str) -> None:
        import torch

        self.torch = torch
        self.device = device
        self._kept: list[Any] = []
        if device != "cpu":
            torch.zeros(1, device=device)
        self.load: Load = getattr(self, name)()

    def wait(self) -> None:
        if self.device != "cpu":
            self.torch.cuda.synchronize(self.device)

    def free(self) -> None:
        self._kept.clear()
        gc.collect()
        if self.device != "cpu":
            self.torch.cuda.empty_cache()

    def difference(self, paths: list[str], tensors: Any) -> str | None:
        found: str | None = safetensors_files.difference([Path(path) for path in paths], tensors, self.torch)
        return found

    def peerlane(self) -> Load:
        from peerlane.safetensors import load

        def get(paths: list[str]) -> Any:
            index = Path(paths[0]).with_name("model.safetensors.index.json")
            path = str(index) if len(paths) > 1 else paths[0]
            return load(path, framework="torch", device=self.device)

        return get

    def safetensors(self) -> Load:
        from safetensors.torch import load_file

        def get(paths: list[str]) -> Any:
            tensors: dict[str, Any] = {}
            for path in paths:
                tensors |= load_file(path, device=self.device)
            return tensors

        return get

    def fastsafetensors(self) -> Load:
        from fastsafetensors import SafeTensorsFileLoader, SingleGroup

        def get(paths: list[str]) -> Any:
            loader = SafeTensorsFileLoader(SingleGroup(), self.torch.device(self.device), nogds=True)
            loader.add_filenames({0: paths})
            files = loader.copy_files_to_device()
            # The tensors are views of buffers that these two own.
            self._kept += [loader, files]
            return {name: files.get_tensor(name) for name in files.key_to_rank_lidx}

        return get

    def runai_model_streamer(self) -> Load:
        from runai_model_streamer import SafetensorsStreamer

        def get(paths: list[str]) -> Any:
            with SafetensorsStreamer() as streamer:
                streamer.stream_files(paths)
                return {name: tensor.to(self.device) for name, tensor in streamer.get_tensors()}

        return get

    def instanttensor(self) -> Load:
        from instanttensor import safe_open

        def get(paths: list[str]) -> Any:
            with safe_open(list(paths), framework="pt", device=self.device) as file:
                return dict(file.tensors())

        return get


class KvikioLoader:
    """KvikIO: the bytes of files, without tensors."""

    def __init__(self, device: str) -> None:
        import cupy
        import kvikio

        self.cupy, self.kvikio = cupy, kvikio
        cupy.cuda.Device(int(device.rpartition(":")[2])).use()
        cupy.zeros(1)

    def load(self, paths: list[str]) -> Any:
        arrays = [self.cupy.empty(os.path.getsize(path), dtype=self.cupy.uint8) for path in paths]
        self.wait()
        with contextlib.ExitStack() as stack:
            files = [stack.enter_context(self.kvikio.CuFile(path, "r")) for path in paths]
            reads = [file.pread(array) for file, array in zip(files, arrays)]
            for read, array in zip(reads, arrays):
                if read.get() != array.size:
                    raise OSError("KvikIO read too little")
        return arrays

    def wait(self) -> None:
        self.cupy.cuda.runtime.deviceSynchronize()

    def free(self) -> None:
        self.cupy.get_default_memory_pool().free_all_blocks()

    def difference(self, paths: list[str], arrays: Any) -> str | None:
        for path, array in zip(paths, arrays):
            # By parts, since all of the file would be in memory twice.
            part = 256 << 20
            with open(path, "rb") as file:
                for at in range(0, array.size, part):
                    if array[at : at + part].get().tobytes() != file.read(part):
                        return f"{path} has other content behind byte {at}"
        return None


def pinned(tensors: Any) -> int | None:
    """Returns the bytes of pinned memory that a loader reports."""
    report = getattr(tensors, "report", None)
    for name in ("pinned_bytes", "pinned"):
        value = report.get(name) if isinstance(report, dict) else getattr(report, name, None)
        if isinstance(value, int):
            return value
    return None


def cpu_seconds() -> float:
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


def answer(**fields: Any) -> None:
    print(json.dumps(fields), file=ANSWERS, flush=True)


def load(loader: TorchLoader | KvikioLoader, paths: list[str], compare: bool) -> None:
    cpu, begin = cpu_seconds(), time.monotonic()
    tensors = loader.load(paths)
    loader.wait()
    seconds, cpu = time.monotonic() - begin, cpu_seconds() - cpu
    count = sum(os.path.getsize(path) for path in paths)
    route = str(getattr(tensors, "route", ""))
    answer(seconds=seconds, cpu=cpu, bytes=count, route=route, pinned=pinned(tensors))
    if compare:
        found = loader.difference(paths, tensors)
        answer(**({"error": found} if found else {"equal": True}))


def main() -> None:
    name, device = sys.argv[1:]
    loader = KvikioLoader(device) if name == "kvikio" else TorchLoader(name, device)
    answer(ready=True)
    for line in sys.stdin:
        question = json.loads(line)
        try:
            load(loader, question["paths"], question["compare"])
        except Exception as error:
            answer(error=f"{type(error).__name__}: {str(error).strip()}"[:500])
        loader.free()


main()
