"""Searches a haystack with `peerlane scan` by processors and by the GPU, and compares the hits."""

from __future__ import annotations

import functools
import os
import shutil
from pathlib import Path

from . import outputs
from .results import Record
from .setting import Setting
from .steps import Ended, Part, StepError

ONE, EIGHT = "one pose", "eight poses"
POSES: dict[str, list[str]] = {ONE: [], EIGHT: ["--scales", "0.5,0.71,1,1.41", "--rotations", "0,90"]}
EIGHT_SHARE = 4
"""One image in so many is searched for eight poses, which take eight times as long."""
THREADS = (1, 4, 8, 16)
REPEATS = 2
MAKE_LIMIT = 60.0
READ_LIMIT = 30.0
SCAN_LIMIT = 30.0
FOUND = (0, 1)
"""Exit statuses of a scan that searched all images."""
BYTES_PER_IMAGE = 5 << 20
"""Room that an image of the haystack takes, with something to spare."""


def scan(part: Part, setting: Setting) -> None:
    """Runs the part: each file system, number of poses and searcher in turn."""
    if not setting.missing("cupy"):
        correlation(part, setting)
    else:
        part.skip("correlation by cuFFT", setting.missing("cupy") or "")
    hay = setting.work / "hay"
    if shutil.disk_usage(setting.work).free < setting.images * BYTES_PER_IMAGE:
        part.skip("haystack", f"{setting.work} has no room for {setting.images} images")
        return
    make = [setting.program, "haystack", "make", "--seed", str(setting.seed), "--images", str(setting.images)]
    if not part.step("haystack", [*make, "--format", "pgm", "-q", "-o", hay], MAKE_LIMIT, env=setting.env):
        return
    write_lists(hay, EIGHT_SHARE)
    for count in THREADS:
        if count > processors():
            part.skip(thread_words(count), f"there are {processors()} processors")
    wanted: dict[str, list[str]] = {}
    if not setting.memory:
        part.skip("tmpfs", "there is no tmpfs here")
    elif shutil.disk_usage(setting.memory).free < setting.images * BYTES_PER_IMAGE:
        part.skip("tmpfs", f"tmpfs has no room for {setting.images} images")
    elif part.step("tmpfs", ["cp", "-r", hay, setting.memory], MAKE_LIMIT):
        scan_folder(part, setting, setting.memory / hay.name, "tmpfs", wanted)
        shutil.rmtree(setting.memory / hay.name)
    if part.step("warm", ["sh", "-c", 'cat "$0"/images/* >/dev/null', hay], READ_LIMIT):
        scan_folder(part, setting, hay, "warm", wanted)
    shutil.rmtree(hay)


def thread_words(count: int) -> str:
    return f"{count} threads" if count > 1 else "1 thread"


def processors() -> int:
    """Returns the number of processors that this process may run on."""
    return len(os.sched_getaffinity(0))


def write_lists(hay: Path, share: int) -> None:
    """Writes the lists of images that each number of poses is searched in, relative to the haystack."""
    images = sorted(f"images/{path.name}" for path in (hay / "images").iterdir())
    for poses, names in ((ONE, images), (EIGHT, images[::share])):
        (hay / f"{poses}.txt").write_text("".join(f"{name}\n" for name in names))


def scan_folder(part: Part, setting: Setting, hay: Path, state: str, wanted: dict[str, list[str]]) -> None:
    """Searches a haystack that is in memory already."""
    searchers = {thread_words(count): ["--threads", str(count)] for count in THREADS if count <= processors()}
    searchers["GPU"] = ["--on", f"gpu:{setting.gpu}"]
    for poses, angles in POSES.items():
        for name, how in searchers.items():
            case: Record = {"poses": poses, "state": state}
            command = [setting.program, "scan", "picture.png", f"@{poses}.txt", "--json", *angles, *how]
            judge = functools.partial(figures, poses=poses, wanted=wanted)
            for repeat in range(REPEATS):
                part.step(name, command, SCAN_LIMIT, judge, FOUND, setting.env, hay, repeat=repeat + 1, **case)


def figures(ended: Ended, poses: str, wanted: dict[str, list[str]]) -> Record:
    """Returns the rate of a scan, whose hits must be those of the first scan of these poses."""
    cpu = {"cpu_s": round(ended.cpu, 3)}
    return outputs.scan_words(ended.errors) | cpu | same_hits(ended, poses, wanted)


def same_hits(ended: Ended, poses: str, wanted: dict[str, list[str]]) -> Record:
    """Compares hits with those of the first scan of these poses."""
    hits = outputs.scan_hits(ended.output)
    if hits != wanted.setdefault(poses, hits):
        raise StepError(f"other hits: {len(hits)}, not the {len(wanted[poses])} of the first scan")
    return {"hits_equal": True}


def correlation(part: Part, setting: Setting) -> None:
    """Measures the whole correlation by Fourier transforms, with images that lie in the GPU's memory."""
    part.step(
        "correlation by cuFFT",
        setting.script("correlation.py", setting.gpu),
        SCAN_LIMIT,
        lambda ended: outputs.json_lines(ended.output)[-1],
        env=setting.env,
    )
