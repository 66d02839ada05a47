"""Loads weights while another process changes their file: changes.py cut|grow|remove|fail FOLDER DEVICE.

Whatever happens to the file, a load gives an error or the content that the file had, and never ends the process.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import safetensors_files
import torch
from peerlane.safetensors import load

BYTES = 256 << 20
TENSORS = {f"t{number}": ("U8", [BYTES // 8], BYTES // 8) for number in range(8)}
DELAYS_MS = (0, 5, 20, 60, 150)
COMMANDS = {
    "cut": 'truncate -s 100M "$0"',
    "grow": 'head -c 10M /dev/zero >>"$0"',
    "remove": 'rm "$0"',
}
NOT_POSSIBLE = 77


def outcome(path: Path, original: Path, device: str) -> str:
    """Loads a file once; returns equal, or the error."""
    try:
        tensors: Any = load(path, framework="torch", device=device)
    except Exception as error:
        return f"{type(error).__name__}: {str(error).splitlines()[0]}"
    found = safetensors_files.difference([original], tensors, torch)
    if found:
        sys.exit(f"no error, and {found}")
    return "equal"


def forget(path: Path) -> None:
    """Takes a file out of the page cache."""
    with path.open("rb") as file:
        os.fsync(file.fileno())
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def meanwhile(kind: str, folder: Path, original: Path, device: str) -> list[str]:
    """Loads with changes that begin after several delays, out of the page cache and off the disk."""
    outcomes = []
    path = folder / "changing.safetensors"
    for delay in DELAYS_MS:
        for is_cached in (True, False):
            shutil.copyfile(original, path)
            if not is_cached:
                forget(path)
            command = ["sh", "-c", f"sleep {delay / 1000}; {COMMANDS[kind]}", str(path)]
            with subprocess.Popen(command):
                outcomes.append(outcome(path, original, device))
            path.unlink(missing_ok=True)
    return outcomes


def unreadable(folder: Path, original: Path, device: str) -> list[str]:
    """Loads a file with a part that gives read errors: the image below its file system was cut."""
    image, mounted = folder / "image", folder / "mounted"
    mounted.mkdir()
    with image.open("wb") as file:
        # Hardly larger than the weights, so that they reach from its beginning to its end.
        file.truncate(BYTES + (32 << 20))
    commands = [["mkfs.ext4", "-q", "-F", "-m0", "-O^has_journal", str(image)], ["mount", "-o", "loop", str(image), str(mounted)]]
    for command in commands:
        try:
            done = subprocess.run(command, capture_output=True, text=True, check=False)
        except FileNotFoundError:
            print(f"there is no {command[0]}")
            sys.exit(NOT_POSSIBLE)
        if done.returncode:
            print(f"{command[0]}: {done.stderr.strip()}")
            sys.exit(NOT_POSSIBLE)
    try:
        path = mounted / "weights.safetensors"
        shutil.copyfile(original, path)
        forget(path)
        os.truncate(image, BYTES // 2)
        return [outcome(path, original, device)]
    finally:
        subprocess.run(["umount", "-l", mounted], check=False)
        image.unlink()


def main() -> None:
    kind, folder, device = sys.argv[1], Path(sys.argv[2]), sys.argv[3]
    warnings.simplefilter("ignore")
    # So that a file system is unmounted when the step is cut.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("cut"))
    original = folder / "original.safetensors"
    safetensors_files.write(original, TENSORS, seed=2)
    unchanged = outcome(original, original, device)
    if unchanged != "equal":
        sys.exit(f"the unchanged file: {unchanged}")
    if kind == "fail":
        outcomes = unreadable(folder, original, device)
    else:
        outcomes = meanwhile(kind, folder, original, device)
    if kind == "fail" and "equal" in outcomes:
        sys.exit("the whole file could be read")
    counts = {one: outcomes.count(one) for one in sorted(set(outcomes))}
    print(json.dumps({"note": ", ".join(f"{count} {one}" for one, count in counts.items())}))


main()
