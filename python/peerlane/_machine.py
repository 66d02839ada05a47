"""Machines: what they are, and what a workload would do on them."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from typing import Any, Literal, cast

from . import _peerlane
from ._types import Path, Record, words


def topology(*, machine: Path | None = None) -> Record:
    """A machine as PCIe sees it: functions, links, memories, and who reaches whom.

    Parameters
    ----------
    machine
        A folder with the ``sys/`` and ``proc/`` of a machine, an archive of one, a machine file, a name out
        of :func:`machines`, or ``-`` for the text of one on standard input. This machine where it is not
        given.

    Raises
    ------
    BadInput
        There is no such machine, or its description is none.

    Examples
    --------
    >>> import peerlane
    >>> pair = peerlane.topology(machine="pair")
    >>> [one["verdict"] for one in pair["reach"]]
    ['bus-address']
    """
    return _load(_peerlane.topology({"machine": words(machine)}))


def machines() -> list[str]:
    """Names of the machine descriptions that are built in, or lie in ``./machines``.

    Examples
    --------
    >>> import peerlane
    >>> "donard" in peerlane.machines()
    True
    """
    return _peerlane.machines()


def simulate(
    machine: Path,
    workload: Path | Mapping[str, Any],
    *,
    engine: Literal["auto", "closed", "flow", "tlp"] = "auto",
    parameters: Path | None = None,
) -> Record:
    """What a workload would do on a machine that need not be there.

    Parameters
    ----------
    machine
        As in :func:`topology`.
    workload
        A TOML file as ``peerlane bench run`` takes it, or the same as a dict.
    engine
        What computes rates: bounds of each flow alone, fluids that share links, or packets.
    parameters
        A file of parameters of drives and host, before those that are built in.

    Returns
    -------
    dict
        The record of a benchmark (``peerlane.bench/...``), marked as predicted.

    Examples
    --------
    >>> import peerlane
    >>> sweep = {"kind": "sweep", "source": ["a"], "target": ["b"], "blocks": ["1M"],
    ...          "length": "64M", "routes": ["p2p"], "repeats": 1}
    >>> len(peerlane.simulate("pair", sweep)["cases"])
    1
    """
    arguments = {
        "machine": words(machine),
        "engine": engine,
        "parameters": words(parameters),
    }
    if isinstance(workload, Mapping):
        return _load(_peerlane.simulate(arguments, json.dumps(_given(workload))))
    return _load(_peerlane.simulate({**arguments, "workload": os.fspath(workload)}, None))


def reproduce(sources: Sequence[str] = ()) -> Record:
    """The figures of published documents beside what the model says of the same machines.

    Parameters
    ----------
    sources
        Documents, such as ``["004"]``; all of them where none is named.

    Examples
    --------
    >>> import peerlane
    >>> rows = peerlane.reproduce(["004"])["rows"]
    >>> {row["source"] for row in rows}
    {'004'}
    """
    return _load(_peerlane.reproduce(list(sources)))


def _load(text: str) -> Record:
    return cast(Record, json.loads(text))


def _given(value: Any) -> Any:
    """The same without what is ``None``, which TOML does not have."""
    if isinstance(value, Mapping):
        return {key: _given(one) for key, one in value.items() if one is not None}
    if isinstance(value, (list, tuple)):
        return [_given(one) for one in value]
    return value
