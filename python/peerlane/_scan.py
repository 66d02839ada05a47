"""Finding a picture in many images."""

from __future__ import annotations

import itertools
import json
import os
from collections.abc import Sequence
from typing import Literal, cast

from . import _peerlane
from ._types import Path, Record
from .errors import BadInput


def scan(
    picture: Path,
    images: Path | Sequence[Path],
    *,
    scales: Sequence[float] = (1.0,),
    rotations: Sequence[float] = (0.0,),
    threshold: float = 0.9,
    threads: int | None = None,
) -> Record:
    """Finds a picture in images and returns its places, as ``peerlane scan`` does.

    Parameters
    ----------
    picture
        The picture to look for; transparent parts of it match anything.
    images
        Files, folders, patterns, tar archives, or ``@FILE`` with one path a line.
    scales, rotations
        Sizes over the picture's own (0.05 to 20) and degrees counter-clockwise (-360 to 360).
    threshold
        Least correlation of a hit (0.3 to 1; 1 is the picture itself).
    threads
        Threads that decode and search; all processors where not given.

    Returns
    -------
    dict
        ``hits`` (``peerlane.hit/1`` each), ``failed`` (images, or a ``page`` of one, that could
        not be searched, with the reason), ``images``, ``pixels``, ``threads``, ``elapsed_ns``, ``busy``, ``limited_by``.

    Examples
    --------
    >>> import peerlane
    >>> peerlane.make_haystack("hay", images=4, side=640, per_mille=500)
    2
    >>> found = peerlane.scan("hay/picture.png", "hay/images")
    >>> found["images"], len(found["hits"])
    (4, 2)
    """
    poses, threshold, threads = check_numbers(scales, rotations, threshold, threads)
    places = [images] if isinstance(images, (str, os.PathLike)) else images
    paths = [os.fspath(place) for place in places]
    return cast(Record, json.loads(
        _peerlane.scan(os.fspath(picture), paths, poses, threshold, threads)
    ))


def check_numbers(
    scales: Sequence[float], rotations: Sequence[float], threshold: float, threads: int | None
) -> tuple[list[tuple[float, float]], float, int | None]:
    """Poses, threshold and threads of a search, checked against their bounds."""
    _within("scales", scales, 0.05, 20.0)
    _within("rotations", rotations, -360.0, 360.0)
    _within("threshold", [threshold], 0.3, 1.0)
    if threads is not None and not 1 <= threads <= 1024:
        raise BadInput([f"threads: 1 to 1024 is needed, not {threads}"])
    return list(itertools.product(scales, rotations)), threshold, threads


def make_haystack(
    folder: Path,
    *,
    images: int = 100,
    seed: int = 1,
    side: int = 2048,
    per_mille: int = 100,
    format: Literal["pgm", "bmp", "tiff", "jpeg", "png", "webp"] = "pgm",
) -> int:
    """Makes images by seed with a picture hidden in some, and returns in how many it is.

    Writes ``picture.png``, ``images/`` and ``answers.jsonl`` into a folder that is not there or empty.

    Parameters
    ----------
    images, per_mille
        How many, and of a thousand of them how many have the picture.
    seed
        Decides all of it.
    side
        Mean pixels a side (640 to 16384).
    format
        Form of the images.

    Raises
    ------
    Refused
        There is something in the folder.
    """
    for name, value, low, high in (
        ("images", images, 1, 10_000_000),
        ("seed", seed, 0, 2**64 - 1),
        ("side", side, 640, 16_384),
        ("per_mille", per_mille, 0, 1000),
    ):
        _within(name, [value], low, high)
    return _peerlane.make_haystack(os.fspath(folder), images, seed, side, per_mille, format)


def _within(name: str, values: Sequence[float], low: float, high: float) -> None:
    for value in values:
        if not low <= value <= high:
            raise BadInput([f"{name}: a number from {low} to {high} is needed, not {value}"])
    if not values:
        raise BadInput([f"{name}: a number is needed"])
