"""Measurements and examinations of this machine."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, cast

from . import _peerlane
from ._machine import _given
from ._types import Path, Record, words


class BenchProgress(NamedTuple):
    """How far a benchmark is."""

    case: str
    """Name of the case that runs next."""
    done: int
    """Runs that are done."""
    total: int
    """Runs at most."""


def bench(
    workload: Path | Mapping[str, Any],
    *,
    scratch: Sequence[Path] = (),
    force: bool = False,
    timeout: int = 60,
    progress: Callable[[BenchProgress], object] | None = None,
) -> Record:
    """Measures a workload on this machine, as ``peerlane bench run`` does, and returns the record.

    It refuses the same targets as the program: one that ``scratch`` does not name, that is mounted, in use,
    exported, or not blank. ``force=True`` overrides the last only.

    Parameters
    ----------
    workload
        A TOML file as ``peerlane bench run`` takes it, or the same as a dict.
    scratch
        Drives and files that may be written.
    force
        Overwrite targets that are not blank.
    timeout
        Seconds to wait for a device before the benchmark ends.
    progress
        Called with a :class:`BenchProgress` before each run, on the thread that called. An exception out
        of it ends the benchmark as Ctrl-C does and is raised here.

    Returns
    -------
    dict
        ``peerlane.bench/...``: every run, a summary of each case, and the evidence of their routes.

    Raises
    ------
    Refused, NotPossible, BadInput
        Nothing was changed.
    DataDiffers
        The content at a target is not that of the source.
    PeerlaneError
        Something failed, or the figures cannot be true.

    Examples
    --------
    >>> import pathlib, peerlane
    >>> _ = pathlib.Path("read.bin").write_bytes(bytes(range(256)) * 65536)
    >>> stream = {"kind": "stream", "source": "read.bin", "target": "host", "blocks": "1M", "repeats": 2}
    >>> record = peerlane.bench(stream)
    >>> len(record["cases"]), record["cases"][0]["bytes"]
    (2, 16777216)
    """
    arguments: dict[str, Any] = {
        "scratch": [os.fspath(path) for path in scratch],
        "force": force,
        "timeout": timeout,
    }
    tell = None
    if progress is not None:
        callback = progress

        def tell(case: str, done: int, total: int) -> None:
            callback(BenchProgress(case, done, total))

    if isinstance(workload, Mapping):
        text = _peerlane.bench(arguments, json.dumps(_given(workload)), tell)
    else:
        text = _peerlane.bench({**arguments, "workload": os.fspath(workload)}, None, tell)
    return cast(Record, json.loads(text))


def doctor(*, machine: Path | None = None) -> Record:
    """Examines a machine, as ``peerlane doctor`` does: uses of its devices, obstacles, and a plan.

    Parameters
    ----------
    machine
        As in :func:`peerlane.topology`.

    Returns
    -------
    dict
        ``peerlane.doctor/...``; ``findings`` is empty of a machine without obstacles.

    Raises
    ------
    BadInput
        There is no such machine, or its description is none.

    Examples
    --------
    >>> import peerlane
    >>> found = peerlane.doctor(machine="acs")
    >>> len(found["findings"]) > 0, len(found["steps"]) > 0
    (True, True)
    """
    return cast(Record, json.loads(_peerlane.doctor({"machine": words(machine)})))
