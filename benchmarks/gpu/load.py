"""Loads weights into the GPU by each loader that is installed: cold, warm and out of tmpfs."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import common

from . import machine, outputs
from .results import Record
from .setting import PROGRAMS, Setting
from .steps import Ended, Helper, Part, StepCut, StepError

LOADERS = {
    "peerlane": ("peerlane", "torch"),
    "safetensors": ("safetensors", "torch"),
    "fastsafetensors": ("fastsafetensors", "torch"),
    "runai_model_streamer": ("runai_model_streamer", "torch"),
    "instanttensor": ("instanttensor", "torch"),
    "kvikio": ("kvikio", "cupy"),
}
"""Loaders with the modules that they need."""
SHARDS = "16 shards"
DATA = ("one file", SHARDS)
REPEATS = {"tmpfs": 2, "warm": 2, "cold": 1}
"""Loads of each state, in this order; the first of all includes the set-up of a library."""
START_LIMIT = 40.0
LOAD_LIMIT = 20.0
COMPARE_LIMIT = 40.0
MAKE_LIMIT = 60.0
READ_LIMIT = 40.0
ROOM_FACTOR = 2.2
"""Room that the weights take, over their size: they are there twice."""


@dataclass
class Loader:
    """A loader in a process of its own, which lives as long as it keeps its limits."""

    name: str
    helper: Helper
    is_compared: bool = False
    lost: str = field(default="", init=False)
    """Why it takes part no more."""

    def load(self, part: Part, case: Record, paths: Sequence[Path]) -> None:
        """Loads once and writes the result; the first load that works is compared with the files."""
        if part.is_over(self.name, **case):
            return
        if self.lost:
            part.skip(self.name, self.lost, **case)
            return
        try:
            self.helper.tell({"paths": [str(path) for path in paths], "compare": not self.is_compared})
            figures = self.helper.hear(part.left(LOAD_LIMIT))
        except StepCut as cut:
            self._lose("it was cut before")
            part.add(self.name, "cut", why=str(cut), **case)
            return
        except StepError as error:
            part.add(self.name, "failed", why=str(error), **case)
            return
        gb_s = round(figures["bytes"] / figures["seconds"] / 1e9, 3)
        case |= {"seconds": round(figures["seconds"], 3), "gb_s": gb_s, "cpu_s": round(figures["cpu"], 3)}
        case |= {name: figures[name] for name in ("route", "pinned") if figures.get(name)}
        if not self.is_compared:
            self.is_compared = True
            try:
                self.helper.hear(part.left(COMPARE_LIMIT))
                case["content"] = "equal"
            except StepCut as cut:
                self._lose("its comparison was cut")
                case["content"] = f"not compared: {cut}"
            except StepError as error:
                self._lose("its content differs")
                part.add(self.name, "failed", why=f"content: {error}", **case | {"content": "differs"})
                return
        part.add(self.name, "passed", **case)

    def _lose(self, why: str) -> None:
        self.lost = why
        self.helper.close()


def load(part: Part, setting: Setting) -> None:
    """Runs the part: the bounds, then each loader by each case."""
    command = [sys.executable, PROGRAMS / "copy_engine.py", str(setting.gpu)]
    part.step("copy engine", command, 30, lambda ended: outputs.json_lines(ended.output)[-1], env=setting.env)
    loaders: list[Loader] = []
    try:
        start(part, setting, loaders)
        for state, folder in states(part, setting) if loaders else ():
            for data in DATA:
                for loader in loaders:
                    load_repeatedly(part, loader, data, state, folder)
    finally:
        for loader in loaders:
            loader.helper.close()


def start(part: Part, setting: Setting, loaders: list[Loader]) -> None:
    """Starts the loaders that are installed, all at once: their imports take seconds."""
    for name, modules in LOADERS.items():
        missing = setting.missing(*modules)
        if missing:
            part.skip(name, missing)
        elif not part.is_over(name):
            helper = Helper(setting.script("loader.py", name, setting.device), setting.env)
            loaders.append(Loader(name, helper))
    for loader in list(loaders):
        try:
            loader.helper.hear(part.left(START_LIMIT))
        except (StepCut, StepError) as error:
            outcome = "cut" if isinstance(error, StepCut) else "failed"
            part.add(loader.name, outcome, why=f"its start: {error}")
            loader.helper.close()
            loaders.remove(loader)


def states(part: Part, setting: Setting) -> Iterator[tuple[str, Path]]:
    """Makes the weights and returns each state that can be measured, with the folder to read."""
    folder, size = setting.work / "weights", setting.size
    if shutil.disk_usage(setting.work).free < ROOM_FACTOR * size:
        part.skip("weights", f"{setting.work} has no room for twice {size} bytes")
        return
    folder.mkdir()
    make = [sys.executable, PROGRAMS / "make_weights.py", folder, str(size), str(setting.seed)]
    if not part.step("weights", make, MAKE_LIMIT):
        return
    disk_bound(part, folder / "model.safetensors")
    memory = machine.available_memory()
    if not setting.memory:
        part.skip("tmpfs", "there is no tmpfs here")
    elif min(shutil.disk_usage(setting.memory).free, memory / 2) < ROOM_FACTOR * size:
        part.skip("tmpfs", f"tmpfs or memory has no room for twice {size} bytes")
    elif part.step("tmpfs", ["cp", "-r", folder, setting.memory], MAKE_LIMIT):
        yield "tmpfs", setting.memory / folder.name
        shutil.rmtree(setting.memory / folder.name)
    if memory < ROOM_FACTOR * size:
        part.skip("warm", f"{memory} bytes of memory cannot keep the files in the page cache")
    elif part.step("warm", ["sh", "-c", 'cat "$0"/*.safetensors "$0"/shards/* >/dev/null', folder], READ_LIMIT):
        yield "warm", folder
    # Last, since each cold load empties the page cache.
    if os.access("/proc/sys/vm/drop_caches", os.W_OK):
        yield "cold", folder
    else:
        part.skip("cold", "only root can empty the page cache")
    shutil.rmtree(folder)


def disk_bound(part: Part, path: Path) -> None:
    """Measures direct reads of the file by fio, or by dd where there is no fio."""
    if shutil.which("fio"):
        command = ["fio", "--name=read", f"--filename={path}", "--rw=read", "--bs=1M", "--direct=1", "--readonly"]
        command += ["--iodepth=16", "--output-format=json"]
        for engine in ("io_uring", "libaio"):
            found = part.step("fio", [*command, f"--ioengine={engine}"], READ_LIMIT, fio, engine=engine)
            if found:
                return
    command = ["dd", f"if={path}", "of=/dev/null", "bs=16M", "iflag=direct"]
    part.step("dd", ["env", "LC_ALL=C", *command], READ_LIMIT, dd)


def fio(ended: Ended) -> Record:
    return {"gb_s": [round(outputs.fio_gb_s(ended.output), 3)]}


def dd(ended: Ended) -> Record:
    return {"gb_s": [round(outputs.dd_gb_s(ended.errors), 3)]}


def load_repeatedly(part: Part, loader: Loader, data: str, state: str, folder: Path) -> None:
    """Loads one set of files by one loader as often as the state is repeated."""
    shards = sorted((folder / "shards").glob("*.safetensors"))
    paths = shards if data == SHARDS else [folder / "model.safetensors"]
    for repeat in range(REPEATS[state]):
        if state == "cold":
            common.drop_caches()
        loader.load(part, {"data": data, "state": state, "repeat": repeat + 1}, paths)
