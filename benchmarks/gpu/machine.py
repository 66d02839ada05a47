"""Facts of the machine that a run measures, and the programs and packages that it has."""

from __future__ import annotations

import datetime
import json
import os
import platform
import re
import shutil
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from .results import Record
from .steps import run

LIMIT = 20.0
"""Seconds for a program that only prints facts."""
GPU_FIELDS = {
    "index": "index",
    "name": "name",
    "address": "pci.bus_id",
    "driver": "driver_version",
    "memory": "memory.total",
    "link_generation": "pcie.link.gen.current",
    "link_generation_max": "pcie.link.gen.max",
    "link_width": "pcie.link.width.current",
    "link_width_max": "pcie.link.width.max",
}
"""Our names of the fields that nvidia-smi is asked for."""
PACKAGES = {
    "peerlane": "peerlane",
    "torch": "torch",
    "cupy": "cupy",
    "safetensors": "safetensors",
    "fastsafetensors": "fastsafetensors",
    "runai_model_streamer": "runai-model-streamer",
    "instanttensor": "instanttensor",
    "kvikio": "kvikio",
}
"""Modules of the loaders and their dependencies, with the first part of their packages' names."""


def read_gpus(text: str) -> list[Record]:
    """Reads the GPUs out of `nvidia-smi --query-gpu --format=csv,noheader`, by PCI address."""
    gpus = []
    for line in text.splitlines():
        values = [value.strip() for value in line.split(",")]
        if len(values) == len(GPU_FIELDS):
            gpu: Record = dict(zip(GPU_FIELDS, values))
            # nvidia-smi writes the domain with eight digits, the kernel with four.
            gpu["address"] = re.sub("^0000", "", gpu["address"].lower())
            gpus.append(gpu)
    return sorted(gpus, key=lambda gpu: str(gpu["address"]))


def gpus() -> list[Record]:
    """Returns NVIDIA's GPUs by PCI address, as `gpu:N` counts them."""
    with suppress(OSError):
        query = f"--query-gpu={','.join(GPU_FIELDS.values())}"
        done = run(["nvidia-smi", query, "--format=csv,noheader"], LIMIT)
        return read_gpus(done.output) if done.status == 0 else []
    return []


def read_cuda(text: str) -> str | None:
    """Reads the CUDA version of the driver out of the output of `nvidia-smi`."""
    found = re.search(r"CUDA(?: UMD)? Version\s*: *([0-9.]+)", text)
    return found[1] if found else None


def link(gpu: Mapping[str, str]) -> str:
    """Returns the link of a GPU in words; an idle one may be slower than its maximum."""
    now = f"gen {gpu['link_generation']} x{gpu['link_width']}"
    return f"PCIe {now} (maximum gen {gpu['link_generation_max']} x{gpu['link_width_max']})"


def read_file_system(mounts: str, path: Path) -> str:
    """Reads the type and source of the file system of a path out of /proc/self/mountinfo."""
    best, found = -1, "unknown"
    for line in mounts.splitlines():
        words = line.split(" ")
        # Optional fields end with a lone dash: type, source and options follow.
        dash = words.index("-") if "-" in words else len(words)
        if len(words) < dash + 3:
            continue
        where = Path(re.sub(r"\\(\d{3})", lambda code: chr(int(code[1], 8)), words[4]))
        # Of several mounts on one folder the last is seen.
        if path.is_relative_to(where) and len(where.parts) >= best:
            best, found = len(where.parts), f"{words[dash + 1]} ({words[dash + 2]})"
    return found


def file_system(path: Path) -> str:
    """Returns the type and source of the file system of a path."""
    return read_file_system(Path("/proc/self/mountinfo").read_text(), path.resolve())


def affinity() -> str:
    """Returns the processors that this process may run on, e.g. `0-7,16-23`."""
    ranges: list[list[int]] = []
    for number in sorted(os.sched_getaffinity(0)):
        if ranges and ranges[-1][1] == number - 1:
            ranges[-1][1] = number
        else:
            ranges.append([number, number])
    return ",".join(f"{low}-{high}" if low < high else f"{low}" for low, high in ranges)


def available_memory() -> int:
    """Returns the bytes of memory that are free or can be freed."""
    found = re.search(r"MemAvailable: *(\d+) kB", Path("/proc/meminfo").read_text())
    return int(found[1]) << 10 if found else 0


def packages(python: Path, env: Mapping[str, str]) -> dict[str, str]:
    """Returns the modules of PACKAGES that an interpreter finds, with their versions."""
    program = (
        "import importlib.metadata, importlib.util, json, sys\n"
        "wanted = json.loads(sys.argv[1])\n"
        "versions = {one.name.lower(): one.version for one in importlib.metadata.distributions() if one.name}\n"
        "version = lambda start: next((versions[name] for name in sorted(versions) if name.startswith(start)), '')\n"
        "print(json.dumps({name: version(start) for name, start in wanted.items() if importlib.util.find_spec(name)}))"
    )
    with suppress(OSError, ValueError):
        done = run([python, "-c", program, json.dumps(PACKAGES)], LIMIT, env)
        found: dict[str, str] = json.loads(done.output)
        return found
    return {}


def first_line(command: Sequence[object]) -> str | None:
    """Returns the first line that a program prints, if it can be run."""
    with suppress(OSError):
        done = run(command, LIMIT)
        lines = (done.output or done.errors).splitlines()
        return lines[0].strip() if done.status == 0 and lines else None
    return None


def facts(gpu: Record, program: Path, folders: Mapping[str, Path]) -> Record:
    """Returns the facts of the machine that figures depend on."""
    smi = run(["nvidia-smi"], LIMIT)
    model = re.search(r"model name\s*: (.*)", Path("/proc/cpuinfo").read_text())
    node = Path(f"/sys/bus/pci/devices/{gpu['address']}/numa_node")
    return {
        "date": datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "program": first_line([program, "--version"]),
        "gpu": gpu["name"],
        "address": gpu["address"],
        "gpu_memory": gpu["memory"],
        "driver": gpu["driver"],
        "cuda": read_cuda(smi.output),
        "link": link(gpu),
        "gpu_numa_node": node.read_text().strip() if node.exists() else "unknown",
        "processor": model[1] if model else platform.machine(),
        "cores": os.cpu_count(),
        "affinity": affinity(),
        "load": [round(value, 2) for value in os.getloadavg()],
        "memory_available": f"{available_memory() / (1 << 30):.0f} GiB",
        "kernel": platform.release(),
        "file_systems": {name: file_system(path) for name, path in folders.items()},
        "fio": first_line(["fio", "--version"]) if shutil.which("fio") else None,
    }
