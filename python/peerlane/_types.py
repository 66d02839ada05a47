"""Types that several modules use."""

from __future__ import annotations

import os
from typing import Any, Literal, TypeAlias

from .errors import BadInput

Record: TypeAlias = dict[str, Any]
"""A record as ``docs/reference/record.md`` describes it."""

Path: TypeAlias = str | os.PathLike[str]
"""A path, or an endpoint as the program takes it."""

Size: TypeAlias = int | str
"""Bytes, or a text such as ``"64K"`` (binary)."""


RouteWord: TypeAlias = Literal["p2p", "host", "none", "unknown"]
"""A route in one word, as :func:`peerlane.route` says it."""


def words(path: Path | None) -> str | None:
    """A path as text; ``None`` stays ``None``."""
    if path is None:
        return None
    text = os.fsdecode(path)
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise BadInput([f"the path {text!r} is not UTF-8"]) from error
    return text
