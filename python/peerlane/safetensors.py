"""Tensors of safetensors files: all, some, or parts of them; into host memory or a GPU.

>>> import pathlib, struct
>>> header = b'{"weights":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}}'
>>> header += b" " * (-len(header) % 8)
>>> content = struct.pack("<Q", len(header)) + header + struct.pack("<2f", 1, 2)
>>> _ = pathlib.Path("two.safetensors").write_bytes(content)
>>> from peerlane import safetensors
>>> model = safetensors.open("two.safetensors", framework="numpy")
>>> model.info("weights").shape, model.slice("weights", 0, 1, 2).tolist()
((2,), [2.0])
>>> tensors = safetensors.load("two.safetensors")
>>> tensors["weights"].tolist()
[1.0, 2.0]
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, Literal

from ._model import ColumnPlan, FilePlan, FileRoute, Model, Report, Tensors
from ._progress import LoadProgress, Progress
from ._shards import Catalogue, TensorInfo
from ._types import Path, Size
from ._views import NumpyViews, TorchViews, Views

__all__ = [
    "ColumnPlan",
    "FilePlan",
    "FileRoute",
    "LoadProgress",
    "Model",
    "Report",
    "TensorInfo",
    "Tensors",
    "load",
    "open",
]


def open(
    paths_or_index: Path | Sequence[Path],
    device: str = "cpu",
    framework: Literal["numpy", "torch"] = "torch",
    *,
    memory: Size = "2G",
    pinned: Size | None = None,
    mapped: bool = True,
    dtype: Any = None,
    progress: Progress = None,
    group: Any = None,
) -> Model:
    """Reads the headers of files; tensors are read when they are asked for.

    In host memory a file that lies in the page cache is mapped: nothing is copied, stores to the tensors stay in
    this process, and **a file that is cut afterwards ends it** (``SIGBUS``), as with other loaders that map. Any
    other is read by direct I/O into memory of its own. Into a GPU several threads send bytes of the page cache and
    of the drive straight to their place.

    Parameters
    ----------
    paths_or_index
        A ``.safetensors`` file, several, the ``.safetensors.index.json`` next to several, or their folder.
    device
        ``"cpu"``, ``"cuda"`` or ``"cuda:0"`` and so on; a GPU needs ``framework="torch"``.
    framework
        Whose tensors to make. ``bfloat16`` and ``float8`` of NumPy need the package ``ml_dtypes``.
    memory
        The most memory that a stream holds in addition to what it has handed out.
    pinned
        The most pinned host memory of all loads of this process, for a GPU: ``PEERLANE_PINNED`` in the environment
        unless it is given, else 128 MiB.
    mapped
        Whether files in the page cache may be mapped; else their tensors are copies.
    dtype
        The type of tensors of 16 bits and more, cast where they are: that of the framework, or its name.
    progress
        Called with :class:`LoadProgress` by the threads that read, 20 times a second at most; ``"bar"`` draws a bar.
        An exception out of it ends the load.
    group
        Ranks of ``torch.distributed`` that read each part once and broadcast it: a process group, or ``True`` for all.
        All must ask for the same, in the same order, to the end.

    Raises
    ------
    BadInput
        A header or index is broken, names absent data, or has a type that the framework lacks.
    PeerlaneError
        A file cannot be read, or changed meanwhile.
    """
    views: Views = (
        TorchViews(device, dtype) if framework == "torch" else NumpyViews(framework, device, dtype)
    )
    options: dict[str, Any] = {
        "memory": memory, "pinned": pinned, "mapped": mapped, "progress": progress, "group": group,
    }  # fmt: skip
    reopen = partial(open, paths_or_index, device, framework, dtype=dtype, **options)
    return Model(Catalogue(paths_or_index), views, reopen=reopen, **options)


def load(
    path: Path | Sequence[Path],
    device: str = "cpu",
    framework: Literal["numpy", "torch"] = "numpy",
    *,
    pinned: Size | None = None,
    mapped: bool = True,
    dtype: Any = None,
    progress: Progress = None,
    group: Any = None,
) -> Tensors:
    """Loads all tensors of a file, or of all files that an index names, in one job.

    :func:`open` says what the parameters mean, and loads parts of a model or within a bound of memory.

    Raises
    ------
    BadInput
        A header or index is broken, names absent data, or has a type that the framework lacks.
    PeerlaneError
        A file cannot be read, or changed meanwhile.
    """
    return open(
        path,
        device,
        framework,
        pinned=pinned,
        mapped=mapped,
        dtype=dtype,
        progress=progress,
        group=group,
    ).load()
