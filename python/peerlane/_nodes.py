"""Tasks of Peerlane on several nodes, as one record; leaves out the transport of work to them."""

from __future__ import annotations

import os
import pathlib
import sys
import time
import tomllib
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias, TypedDict

from . import _peerlane, errors
from ._gather import Answer, Executor, Gather, NodesProgress, NodeState, Rules, Work, WorkLost
from ._scan import check_numbers
from ._types import Path, Record

SCHEMA = "peerlane.nodes/1"
Tell: TypeAlias = Callable[[NodesProgress], object]
Workload: TypeAlias = Path | Mapping[str, Any] | Callable[[Record], Mapping[str, Any]]

PARTS_A_NODE = 8
"""Parts for each node: a lost one costs an eighth of its share."""
IMAGES_MAX = 256
"""Images of a part at most."""


class Options(TypedDict):
    """Options that all tasks have."""

    nodes: Sequence[str] | None
    retries: int
    patience: float
    progress: Tell | None


def bench(
    executor: Executor,
    workload: Workload,
    scratch: Sequence[Path],
    force: bool,
    timeout: int,
    options: Options,
) -> Record:
    """A workload on each node."""
    sent = workload if callable(workload) else _workload(workload)
    work = {
        "what": "bench",
        "workload": sent,
        "scratch": [os.fspath(path) for path in scratch],
        "force": force,
        "timeout": timeout,
    }
    return _on_each(executor, work, options)


def doctor(executor: Executor, options: Options) -> Record:
    """An examination of each node."""
    return _on_each(executor, {"what": "doctor"}, options)


def scan(
    executor: Executor,
    picture: Path,
    images: Path | Sequence[Path],
    search: Mapping[str, Any],
    local: bool,
    options: Options,
) -> Record:
    """A search for a picture, divided among the nodes, or with ``local`` on each for itself."""
    poses, threshold, threads = check_numbers(**search)
    places = [images] if isinstance(images, (str, os.PathLike)) else images
    paths = [os.fspath(place) for place in places]
    work = {
        "what": "scan",
        "picture": _file(picture, "read picture"),
        "poses": poses,
        "threshold": threshold,
        "threads": threads,
    }
    if local:
        return _on_each(executor, {**work, "images": paths}, options)
    gather = _gather(executor, options)
    start = time.monotonic_ns()
    files = _peerlane.image_files([_absolute(path) for path in paths])
    works = [{**work, "files": part} for part in _parts(files, len(gather.states))]
    answers = _divided(gather, works)
    elapsed = time.monotonic_ns() - start
    values = [_value(answer) for answer in answers]
    return {**_record("scan", gather, elapsed, len(works)), "scan": merged(values, elapsed, gather)}


def simulate(executor: Executor, variants: Sequence[Mapping[str, Any]], options: Options) -> Record:
    """Predictions, divided among the nodes; an error of one is its answer."""
    if isinstance(variants, (str, Mapping)) or not all(isinstance(one, Mapping) for one in variants):
        raise errors.BadInput(["variants: a list of dicts is needed, the arguments of simulate"])
    works = [{"what": "simulate", "variant": _variant(one)} for one in variants]
    gather = _gather(executor, options)
    start = time.monotonic_ns()
    answers = _divided(gather, works)
    record = _record("simulate", gather, time.monotonic_ns() - start, len(works))
    record["variants"] = [
        {"record": one["value"], "error": _without_class(one["error"])} for one in answers
    ]
    return record


def merged(values: Sequence[Record], elapsed: int, gather: Gather) -> Record:
    """One scan of those of all parts, in their order."""
    threads = {}
    for state in gather.states:
        if state.answer is not None and state.parts:
            threads[state.name] = state.answer["value"]["threads"]
    busy = ("load_ns", "decode_ns", "search_ns")
    return {
        "hits": [hit for value in values for hit in value["hits"]],
        "failed": [one for value in values for one in value["failed"]],
        "images": sum(value["images"] for value in values),
        "pixels": sum(value["pixels"] for value in values),
        "threads": sum(threads.values()),
        "elapsed_ns": elapsed,
        "busy": {name: sum(value["busy"][name] for value in values) for name in busy},
        "limited_by": None,
    }


def _on_each(executor: Executor, work: Work, options: Options) -> Record:
    gather = _gather(executor, options)
    start = time.monotonic_ns()
    gather.on_each(work)
    return _record(work["what"], gather, time.monotonic_ns() - start, None)


def _gather(executor: Executor, options: Options) -> Gather:
    retries, patience = options["retries"], options["patience"]
    if isinstance(options["nodes"], str):
        raise errors.BadInput([f"nodes: a list of names is needed, not the text {options['nodes']!r}"])
    # Not the other way round: nothing is true of nan.
    if not (retries >= 0 and patience >= 0):
        raise errors.BadInput([f"retries and patience: not negative, not {retries} and {patience}"])
    gather = Gather(
        executor, options["nodes"], Rules(retries, patience), options["progress"] or line()
    )
    if not gather.states:
        raise errors.NotPossible(
            ["cannot use the cluster: it has no node"], hint="`ray status` shows its nodes"
        )
    return gather


def _divided(gather: Gather, works: Sequence[Work]) -> list[Answer]:
    try:
        return gather.divide(works)
    except WorkLost as lost:
        raise errors.PeerlaneError(
            ["cannot do all of the work: no node is left for a part of it", *lost.reasons],
            hint="give nodes more time with patience=, or more attempts with retries=",
        ) from lost


def _record(what: str, gather: Gather, elapsed: int, parts: int | None) -> Record:
    states = sorted(gather.states, key=lambda state: state.name)
    return {
        "schema": SCHEMA,
        "what": what,
        "nodes": [_node(what, state, parts is not None) for state in states],
        "parts": None if parts is None else {"total": parts, "repeated": gather.repeated},
        "elapsed_ns": elapsed,
        "scan": None,
    }


def _node(what: str, state: NodeState, is_divided: bool) -> Record:
    answer = state.answer or {}
    node = {
        "name": state.name,
        "hostname": answer.get("hostname"),
        "address": state.address,
        "devices": answer.get("devices", []),
        "used": answer.get("used", []),
        "attempts": state.attempts,
        "parts": state.parts,
        "bench": None,
        "doctor": None,
        "scan": None,
        "error": None,
        "missing": state.missing,
    }
    if not is_divided:
        node[what] = answer.get("value")
        node["error"] = _without_class(answer.get("error"))
    return node


def _value(answer: Answer) -> Record:
    """The result of a part; an error of the work is raised as one process would raise it."""
    error = answer["error"]
    if error is None:
        value: Record = answer["value"]
        return value
    raise getattr(errors, error["class"])(error["causes"], hint=error["hint"])


def _without_class(error: Record | None) -> Record | None:
    return None if error is None else {name: error[name] for name in ("status", "causes", "hint")}


def _parts(files: list[tuple[str, str]], nodes: int) -> list[list[tuple[str, str]]]:
    """The files in parts of neighbours, small enough that all nodes end at about the same time."""
    size = max(1, min(IMAGES_MAX, len(files) // (nodes * PARTS_A_NODE)))
    return [files[start : start + size] for start in range(0, len(files), size)]


def _absolute(path: str) -> str:
    """A path that means the same in the working folder of any process."""
    return f"@{os.path.abspath(path[1:])}" if path.startswith("@") else os.path.abspath(path)


def _file(path: Path, what: str) -> tuple[str, bytes]:
    """A file to send along."""
    file = pathlib.Path(path)
    try:
        return file.name, file.read_bytes()
    except OSError as error:
        raise errors.BadInput([f"cannot {what} {file}", str(error)]) from error


def _workload(workload: Path | Mapping[str, Any]) -> Mapping[str, Any]:
    """A workload as a dict, which needs no file on the node."""
    if isinstance(workload, Mapping):
        return workload
    _, content = _file(workload, "read the workload")
    try:
        return tomllib.loads(content.decode())
    except (UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise errors.BadInput([f"cannot read the workload {workload}", str(error)]) from error


def _variant(given: Mapping[str, Any]) -> Mapping[str, Any]:
    """Arguments of :func:`peerlane.simulate`; files of this machine are sent along."""
    known = {"machine", "workload", "engine", "parameters"}
    if not {"machine", "workload"} <= given.keys() <= known:
        raise errors.BadInput(
            [f"a variant has machine and workload, and may have engine and parameters; not {sorted(given)}"]
        )
    sent = {**given, "workload": _workload(given["workload"])}
    for name in ("machine", "parameters"):
        value = sent.get(name)
        if value is not None:
            sent[name] = _file(value, f"read the {name}") if os.path.isfile(value) else os.fspath(value)
    return sent


def line() -> Tell:
    """A line on standard error that is replaced as work goes on; nothing where that is not a terminal."""
    if not sys.stderr.isatty():
        return lambda _: None
    lost: set[str] = set()

    def tell(progress: NodesProgress) -> None:
        if progress.event in ("lost", "missing"):
            lost.add(progress.node)
        names = f", lost: {', '.join(sorted(lost))}" if lost else ""
        end = "\n" if progress.done == progress.total else ""
        sys.stderr.write(f"\r\x1b[K{progress.done} of {progress.total} done{names}{end}")
        sys.stderr.flush()

    return tell
