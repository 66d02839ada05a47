"""Copies, and their plans."""

from __future__ import annotations

import json
import os
import warnings
from collections.abc import Callable, Sequence
from typing import Literal, NamedTuple, TypeAlias, cast

from . import _peerlane
from ._types import Path, Record, Size
from .errors import RouteWarning

Route: TypeAlias = Literal["auto", "p2p", "host"]
Verify: TypeAlias = Literal["sample", "full", "none"]


class Progress(NamedTuple):
    """How far a copy is."""

    phase: Literal["check", "move", "verify"]
    """Proving the route, moving payload, or comparing what is at the target."""
    done: int
    """Bytes of the phase that are done."""
    total: int
    """Bytes of the phase."""


def plan(
    source: Path,
    target: Path,
    *,
    route: Route = "auto",
    via: str | None = None,
    block: Size = "1M",
    depth: int = 16,
    offset: Size = 0,
    length: Size | None = None,
    target_offset: Size = 0,
    force: bool = False,
    machine: Path | None = None,
) -> Record:
    """Plans a copy and returns the plan; nothing is changed.

    A route that is not possible is no error but a reason: ``route`` is ``None`` then, and each of
    ``candidates`` and ``refusals`` says why.

    Parameters
    ----------
    source, target
        Files, block devices, passthrough nodes, PCI addresses; drives of a described machine.
    route
        ``"auto"`` falls back to host memory and says so, ``"p2p"`` refuses instead.
    via
        Memory between them, such as ``"cmb:nvme2"``.
    block, depth
        Bytes that travel as one block, and blocks in flight.
    offset, length, target_offset
        Where to begin and how much to copy.
    force
        Overwrite a target that holds something.
    machine
        As in :func:`peerlane.topology`.

    Raises
    ------
    BadInput
        An end or a memory is not there, or an argument makes no sense.

    Examples
    --------
    >>> import peerlane
    >>> record = peerlane.plan("a", "b", machine="pair")
    >>> found = record["jobs"][0]["targets"][0]
    >>> found["state"], found["plan"]["candidates"][0]["memory"]["name"]
    ('direct', 'cmb:c')
    >>> record = peerlane.plan("a", "b", machine="split", route="p2p")
    >>> record["jobs"][0]["targets"][0]["plan"]["route"] is None
    True
    """
    return cast(Record, json.loads(_peerlane.plan(_passed_on(locals()))))


def copy(
    source: Path,
    target: Path,
    *,
    route: Route = "auto",
    via: str | None = None,
    block: Size = "1M",
    depth: int = 16,
    offset: Size = 0,
    length: Size | None = None,
    target_offset: Size = 0,
    verify: Verify = "sample",
    force: bool = False,
    resume: bool = False,
    journal: Path | None = None,
    sparse: Literal["auto", "never"] = "auto",
    preserve: Sequence[Literal["mode", "timestamps", "ownership", "xattr"]] = (),
    evidence: Literal["dma"] | None = None,
    limit: Size | None = None,
    timeout: int = 60,
    progress: Callable[[Progress], object] | None = None,
) -> Record:
    """Copies on this machine, as ``peerlane copy`` does, and returns the record.

    It refuses the same targets as the program: one that is mounted, in use, exported, or not blank.
    ``force=True`` overrides the last only.

    Parameters
    ----------
    source, target, route, via, block, depth, offset, length, target_offset
        As in :func:`plan`.
    verify
        How much is compared at the target: a sample with the first and the last block, all, or nothing.
    force
        Overwrite a target that is not blank.
    resume, journal
        Go on with a copy that was interrupted, by its journal. Without one it begins, or leaves a target
        that equals the source as it is.
    sparse, preserve
        Holes and metadata of a source file; as the program has them.
    evidence
        ``"dma"`` watches where the kernel maps the DMA of the drives, which needs root; a route that it
        contradicts is an error.
    limit
        The most payload in a second, such as ``"200MB"`` (decimal) or ``"200M"`` (binary).
    timeout
        Seconds to wait for a device before the copy ends.
    progress
        Called with a :class:`Progress`, 20 times a second at most, on the thread that called. An
        exception out of it ends the copy as Ctrl-C does and is raised here.

    Returns
    -------
    dict
        ``peerlane.copy/1``: one job with one target. Its ``copied`` says what was moved, by which
        route, on what evidence, at what cost.

    Raises
    ------
    Refused, NotPossible, BadInput
        Nothing was changed.
    DataDiffers
        The content at the target is not that of the source.
    Interrupted
        Ctrl-C. Written and flushed data stays, and ``resume=True`` continues from it if ``journal``
        is set.
    PeerlaneError
        Something failed; ``journal`` as above.

    Warns
    -----
    RouteWarning
        The copy fell back to host memory, or cannot have a journal.

    Examples
    --------
    >>> import pathlib, peerlane
    >>> _ = pathlib.Path("source.bin").write_bytes(bytes(10_000))
    >>> record = peerlane.copy("source.bin", "target.bin", route="host", verify="full")
    >>> copied = record["jobs"][0]["targets"][0]["copied"]
    >>> copied["route"], copied["bytes"], copied["verification"]["mismatches"]
    ('host', 10000, 0)
    """
    arguments = _passed_on(locals(), but="progress")
    tell = None
    if progress is not None:
        callback = progress

        def tell(phase: str, done: int, total: int) -> None:
            callback(Progress(cast(Literal["check", "move", "verify"], phase), done, total))

    return cast(Record, json.loads(_peerlane.copy(arguments, tell, _warn)))


def _passed_on(given: dict[str, object], but: str | None = None) -> dict[str, object]:
    """Arguments of a function under their own names, as the Rust side takes them: a path is a text."""
    return {
        name: os.fspath(value) if isinstance(value, os.PathLike) else value
        for name, value in given.items()
        if name != but
    }


def _warn(text: str) -> None:
    # Over the frames of this function and of `copy`, to the line that called.
    warnings.warn(text, RouteWarning, stacklevel=3)
