"""Measures peerlane on a machine with an NVIDIA GPU, in three parts of four minutes at most.

    cargo build --release -p peerlane-cli
    sudo benchmarks/gpu.sh --only check --python VENV

check: every function with a GPU, compared; load: weights into the GPU, by peerlane and other loaders; scan: the search
for a picture. Without --only all three run. Results go to gpu-DATE.jsonl as they come, the table to gpu-DATE.md at the
end, also after an interruption. The folders that the run makes in --folder and --tmpfs are removed.

Exit status: 0 done, 1 a step failed or was cut, 2 bad usage, 77 not possible on this machine, 130 interrupted.
"""

from __future__ import annotations

import argparse
import datetime
import os
import shutil
import signal
import sys
import tempfile
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

import common

from . import machine, results, table
from .check import check
from .load import load
from .results import Results
from .scan import scan
from .setting import ROOT, Setting
from .steps import NOT_POSSIBLE, Part

PARTS: dict[str, Callable[[Part, Setting], None]] = {"check": check, "load": load, "scan": scan}
PART_LIMIT = 240.0
INTERRUPTED = 130
BAD_USAGE = 2
KVIKIO_THREADS = "16"
"""KvikIO reads with one thread unless it is told otherwise; others choose about as many themselves."""


def options() -> argparse.Namespace:
    """Returns the options of the command line."""
    parser = argparse.ArgumentParser(
        prog="benchmarks/gpu.sh", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    program = os.environ.get("PEERLANE", ROOT / "target" / "release" / "peerlane")
    parser.add_argument("--only", choices=PARTS, help="run one part")
    parser.add_argument("--list", action="store_true", help="list devices, programs and packages, and end")
    parser.add_argument("--table", type=Path, metavar="FILE", help="print the table of a results file, and end")
    parser.add_argument("--peerlane", type=Path, default=Path(program), help="the program [default: %(default)s]")
    python = Path(sys.executable)
    parser.add_argument("--python", type=Path, default=python, help="interpreter or venv with the loaders")
    parser.add_argument("--wheel", type=Path, nargs="+", default=[], help="unpack wheels for that interpreter")
    parser.add_argument("--gpu", type=int, default=0, help="number of the GPU by PCI address")
    parser.add_argument("--folder", type=Path, default=Path(), help="folder on the disk that is measured")
    parser.add_argument("--tmpfs", type=Path, default=Path("/dev/shm"), help="folder in tmpfs")
    parser.add_argument("--size", type=common.size_of, default=4 << 30, help="bytes of the weights, e.g. 4G")
    parser.add_argument("--images", type=int, default=400, help="images of the haystack")
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--limit", type=float, default=PART_LIMIT, help="seconds of a part at most")
    parser.add_argument("--results", type=Path, help="new file for the results; the table goes next to it")
    return parser.parse_args()


def interpreter(path: Path) -> Path:
    """Returns the interpreter of a venv, or the interpreter itself."""
    return path / "bin" / "python" if path.is_dir() else path


def environment(wheels: Path | None) -> dict[str, str]:
    """Returns the environment of all steps: GPUs in the order of peerlane, and unpacked wheels."""
    env = {"KVIKIO_NTHREADS": KVIKIO_THREADS} | os.environ
    env |= {"CUDA_DEVICE_ORDER": "PCI_BUS_ID", "PYTHONDONTWRITEBYTECODE": "1"}
    # gpu.sh set it for this process; one of the benchmarks has the name of a module of Python.
    env.pop("PYTHONPATH", None)
    return env | ({"PYTHONPATH": str(wheels)} if wheels else {})


def list_machine(asked: argparse.Namespace) -> None:
    """Prints the devices, programs and packages that the parts use."""
    gpus = machine.gpus()
    for number, gpu in enumerate(gpus):
        print(f"gpu:{number}: {gpu['name']}, {gpu['address']}, driver {gpu['driver']}, {machine.link(gpu)}")
    if not gpus:
        print("GPU: none that nvidia-smi shows")
    version = machine.first_line([asked.peerlane, "--version"])
    print(f"peerlane: {version or f'no, {asked.peerlane} cannot be run: cargo build --release -p peerlane-cli'}")
    fio = machine.first_line(["fio", "--version"])
    print(f"fio: {fio or 'no, dd gives the bound'}")
    python = interpreter(asked.python)
    found = machine.packages(python, environment(None))
    for name in machine.PACKAGES:
        print(f"{name}: {found[name] or 'yes' if name in found else f'no, {python} does not have it'}")
    root = "yes" if os.access("/proc/sys/vm/drop_caches", os.W_OK) else "no, only root can empty the page cache"
    print(f"cold reads: {root}")


def not_possible(why: str) -> NoReturn:
    """Ends the program where the machine lacks something."""
    print(f"not possible here: {why}; nothing was changed", file=sys.stderr)
    sys.exit(NOT_POSSIBLE)


def interrupt(*_: object) -> NoReturn:
    raise KeyboardInterrupt


def run_part(part: Part, function: Callable[[Part, Setting], None], setting: Setting) -> None:
    """Runs a part; one that ends early stops no other."""
    try:
        function(part, setting)
    except Exception as error:
        part.add("the rest of this part", "failed", why=repr(error))


def measure(asked: argparse.Namespace, gpu: results.Record, work: Path, memory: Path | None) -> int:
    """Runs the parts and writes the table, however they end."""
    wheels = None
    for wheel in asked.wheel:
        wheels = work / "wheels"
        zipfile.ZipFile(wheel).extractall(wheels)
    env = environment(wheels)
    python = interpreter(asked.python)
    packages = machine.packages(python, env)
    setting = Setting(
        program=asked.peerlane.resolve(),
        python=python.absolute(),
        env=env,
        packages=packages,
        gpu=asked.gpu,
        device=f"cuda:{asked.gpu}",
        address=gpu["address"],
        work=work,
        memory=memory,
        size=asked.size,
        images=asked.images,
        seed=asked.seed,
    )
    folders = {"disk": work} | ({"tmpfs": memory} if memory else {})
    path = asked.results or Path(f"gpu-{datetime.datetime.now(datetime.UTC):%Y-%m-%dT%H%M%SZ}.jsonl")
    run = Results(path, machine.facts(gpu, setting.program, folders) | {"packages": packages})
    status = 0
    try:
        for name, part in PARTS.items():
            if asked.only in (None, name):
                run_part(Part(name, run, asked.limit), part, setting)
    except KeyboardInterrupt:
        run.add("run", "The run was interrupted.", "cut")
        status = INTERRUPTED
    finally:
        run.close()
        found, records = results.read(path)
        page = table.markdown(found, records)
        path.with_suffix(".md").write_text(page)
        print(page)
    bad = any(record["outcome"] in ("failed", "cut") for record in records)
    return status or int(bad)


def main() -> int:
    asked = options()
    try:
        return run_as_asked(asked)
    except (OSError, ValueError) as error:
        print(f"error: {error}", file=sys.stderr)
        return BAD_USAGE


def run_as_asked(asked: argparse.Namespace) -> int:
    """Runs the parts that the options name; returns the exit status."""
    if asked.table:
        print(table.markdown(*results.read(asked.table)), end="")
        return 0
    if asked.list:
        list_machine(asked)
        return 0
    gpus = machine.gpus()
    if asked.gpu >= len(gpus):
        not_possible(f"nvidia-smi shows no gpu:{asked.gpu}")
    if not machine.first_line([asked.peerlane, "--version"]):
        not_possible(f"{asked.peerlane} cannot be run")
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, interrupt)
    work = Path(tempfile.mkdtemp(prefix="peerlane-gpu.", dir=asked.folder)).resolve()
    memory = None
    try:
        if machine.file_system(asked.tmpfs).startswith("tmpfs"):
            memory = Path(tempfile.mkdtemp(prefix="peerlane-gpu.", dir=asked.tmpfs))
        return measure(asked, gpus[asked.gpu], work, memory)
    finally:
        for folder in filter(None, (work, memory)):
            shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())
