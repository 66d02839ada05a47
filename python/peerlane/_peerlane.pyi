"""The Rust side of the package; use :mod:`peerlane`."""

from collections.abc import Callable, Sequence
from os import PathLike
from typing import Any, Literal, final

__all__ = [
    "Reader",
    "__version__",
    "bench",
    "copy",
    "doctor",
    "image_files",
    "load_to_gpu",
    "machines",
    "make_haystack",
    "pinned_peak",
    "plan",
    "reach",
    "reproduce",
    "route",
    "safetensors_header",
    "scan",
    "scan_files",
    "simulate",
    "topology",
]

__version__: str

@final
class Reader:
    def __new__(cls, path: str) -> Reader: ...
    @property
    def path(self) -> str: ...
    @property
    def size(self) -> int: ...
    @property
    def block(self) -> int: ...
    @property
    def is_direct(self) -> bool: ...
    def read_ranges(self, ranges: list[tuple[int, Any]], timeout: int) -> dict[str, int]: ...
    def read_into(
        self,
        target: Any,
        offset: int,
        timeout: int,
        pinned: str | None,
        warn: Callable[[str], object] | None,
    ) -> dict[str, int]: ...

def load_to_gpu(
    parts: Sequence[tuple[PathLike[str], int, Any]],
    timeout: int,
    pinned: str | None,
    progress: Callable[[str, int, int], object] | None,
    warn: Callable[[str], object] | None,
) -> list[dict[str, int]]: ...
def pinned_peak() -> int: ...

def topology(arguments: dict[str, Any]) -> str: ...
def reach(topology: str, memory: str, initiator: str) -> str: ...
def machines() -> list[str]: ...
def plan(arguments: dict[str, Any]) -> str: ...
def route(
    path_or_device: str, device: str, arguments: dict[str, Any]
) -> tuple[Literal["p2p", "host", "none", "unknown"], str]: ...
def simulate(arguments: dict[str, Any], workload_json: str | None) -> str: ...
def reproduce(sources: list[str]) -> str: ...
def copy(
    arguments: dict[str, Any],
    progress: Callable[[str, int, int], object] | None,
    warn: Callable[[str], object] | None,
) -> str: ...
def bench(
    arguments: dict[str, Any],
    workload_json: str | None,
    progress: Callable[[str, int, int], object] | None,
) -> str: ...
def doctor(arguments: dict[str, Any]) -> str: ...
def image_files(images: list[str]) -> list[tuple[str, str]]: ...
def scan_files(
    picture: str,
    files: list[tuple[str, str]],
    poses: list[tuple[float, float]],
    threshold: float,
    threads: int | None,
) -> str: ...
def safetensors_header(path: PathLike[str]) -> str: ...
def scan(
    picture: str,
    images: list[str],
    poses: list[tuple[float, float]],
    threshold: float,
    threads: int | None,
) -> str: ...
def make_haystack(
    folder: str, images: int, seed: int, side: int, per_mille: int, format: str
) -> int: ...
