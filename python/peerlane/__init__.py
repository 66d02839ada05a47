"""Moves data between PCIe devices without passing it through host memory, and proves that it did so.

Records are plain dicts, the same as the program ``peerlane`` prints with ``--json``: sizes in bytes,
times in nanoseconds. Sizes are given as numbers or as texts such as ``"64K"`` (binary). Work is done
without the GIL.
"""

from __future__ import annotations

from ._bench import BenchProgress, bench, doctor
from ._copy import Progress, copy, plan
from ._frames import to_pandas
from ._machine import RouteAnswer, machines, reach, reproduce, route, simulate, topology
from ._peerlane import __version__
from ._reader import Reader, Reading
from ._scan import make_haystack, scan
from ._types import Record, RouteWord
from .errors import (
    BadInput,
    CudaUnavailable,
    DataDiffers,
    Interrupted,
    NotPossible,
    OutOfMemory,
    PeerlaneError,
    Refused,
    RouteWarning,
)

__all__ = [
    "BadInput",
    "BenchProgress",
    "CudaUnavailable",
    "DataDiffers",
    "Interrupted",
    "NotPossible",
    "OutOfMemory",
    "PeerlaneError",
    "Progress",
    "Reader",
    "Reading",
    "Record",
    "Refused",
    "RouteAnswer",
    "RouteWarning",
    "RouteWord",
    "__version__",
    "bench",
    "copy",
    "doctor",
    "machines",
    "make_haystack",
    "plan",
    "reach",
    "reproduce",
    "route",
    "scan",
    "simulate",
    "to_pandas",
    "topology",
]
