"""Work as a node does it: arguments in, an answer out that any process can unpickle.

An error of the work is part of the answer, so an exception always means that
the node did not answer.
"""

from __future__ import annotations

import json
import os
import pathlib
import re
import socket
import tempfile
from collections.abc import Callable, Mapping
from typing import Any

from . import _bench, _machine, _peerlane, _scan
from ._types import Record
from .errors import PeerlaneError

_ADDRESS = re.compile(r"[0-9a-f]{4,}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]")
_KINDS = {"nvme", "gpu", "nic", "fpga"}


def perform(work: Mapping[str, Any]) -> dict[str, Any]:
    """Does work on this node; the answer has ``value`` or ``error``, and says which node this is."""
    answer: dict[str, Any] = {"hostname": socket.gethostname(), "value": None, "error": None}
    answer["devices"] = _devices()
    try:
        answer["value"] = _TASKS[work["what"]](work)
        if work["what"] == "bench":
            answer["used"] = used_ends(answer["value"], answer["devices"])
    except Exception as error:
        answer["error"] = error_record(error)
    return answer


def error_record(error: Exception) -> dict[str, Any]:
    """An error as records have it; ``class`` is for the driver and is in no record."""
    if isinstance(error, PeerlaneError):
        return {
            "status": error.status,
            "causes": error.causes,
            "hint": error.hint,
            "class": type(error).__name__,
        }
    causes = [f"{type(error).__name__}: {error}"]
    return {"status": 2, "causes": causes, "hint": None, "class": "PeerlaneError"}


def used_ends(record: Record, devices: list[dict[str, str]]) -> list[dict[str, str | None]]:
    """Ends and memories of the transfers of a benchmark, each with the device behind it."""
    flows = [flow for case in record["asked"]["cases"] for flow in case["flows"]]
    ends = [flow[end] for flow in flows for end in ("source", "target")]
    ends += [flow["memory"] for case in record["cases"] for flow in case["flows"]]
    return [
        {"end": end, "address": _address(end, devices)}
        for end in dict.fromkeys(ends)
        if end != "null"
    ]


def _bench_task(work: Mapping[str, Any]) -> Record:
    workload = work["workload"]
    if callable(workload):
        workload = workload(_machine.topology())
    return _bench.bench(
        workload, scratch=work["scratch"], force=work["force"], timeout=work["timeout"]
    )


def _doctor_task(_: Mapping[str, Any]) -> Record:
    return _bench.doctor()


def _scan_task(work: Mapping[str, Any]) -> Record:
    """Searches the files of a part, or those that this node finds by ``images``."""
    with tempfile.TemporaryDirectory(prefix="peerlane-") as folder:
        picture = _written(folder, work["picture"])
        files = work.get("files")
        if files is None:
            files = _peerlane.image_files(work["images"])
        found: Record = json.loads(
            _peerlane.scan_files(picture, files, work["poses"], work["threshold"], work["threads"])
        )
    return in_order(found, files)


def in_order(found: Record, files: list[tuple[str, str]]) -> Record:
    """The same with hits and failures in the order of the files, however many threads searched."""
    places: dict[str, int] = {}
    for position, (_, name) in enumerate(files):
        places.setdefault(name, position)
    archives = [(f"{name}:", places[name]) for kind, name in files if kind == "archive"]

    def place(one: Mapping[str, Any]) -> int:
        image = one["image"]
        if image in places:
            return places[image]
        return next((at for name, at in archives if image.startswith(name)), len(files))

    for rows in ("hits", "failed"):
        found[rows] = sorted(found[rows], key=place)
    return found


def _simulate_task(work: Mapping[str, Any]) -> Record:
    with tempfile.TemporaryDirectory(prefix="peerlane-") as folder:
        given: dict[str, Any] = {
            name: _written(folder, value) if isinstance(value, tuple) else value
            for name, value in work["variant"].items()
        }
        return _machine.simulate(**given)


def _written(folder: str, file: tuple[str, bytes]) -> str:
    """The path of a file that was sent along, under its own name."""
    name, content = file
    path = pathlib.Path(folder) / name
    path.write_bytes(content)
    return os.fspath(path)


_TASKS: dict[str, Callable[[Mapping[str, Any]], Record]] = {
    "bench": _bench_task,
    "doctor": _doctor_task,
    "scan": _scan_task,
    "simulate": _simulate_task,
}


def _devices() -> list[dict[str, str]]:
    """Devices of this node that move payload; none where the machine cannot be read."""
    try:
        functions = _machine.topology()["function"]
    except PeerlaneError:
        return []
    return [
        {"name": one["name"], "kind": one["kind"], "address": one["address"]}
        for one in functions
        if one["kind"] in _KINDS
    ]


def _address(end: str, devices: list[dict[str, str]]) -> str | None:
    """The PCI address of the device behind an end; ``None`` where there is none."""
    named = _ADDRESS.search(end)
    if named is not None and not os.path.exists(end):
        return named.group()
    kind, _, name = end.partition(":")
    if kind == "gpu" and name.isdecimal():
        gpus = [one["address"] for one in devices if one["kind"] == "gpu"]
        return gpus[int(name)] if int(name) < len(gpus) else None
    by_name = {one["name"]: one["address"] for one in devices}
    if name in by_name:
        return by_name[name]
    return _address_of_file(end)


def _address_of_file(path: str) -> str | None:
    """The PCI address of the drive that a file or block device is on."""
    try:
        found = os.stat(path)
    except (OSError, ValueError):
        return None
    device = found.st_rdev if found.st_rdev else found.st_dev
    block = os.path.realpath(f"/sys/dev/block/{os.major(device)}:{os.minor(device)}")
    addresses = _ADDRESS.findall(block)
    return addresses[-1] if addresses else None
