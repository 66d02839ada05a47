"""Errors, by the exit status that the program ``peerlane`` has for each.

========================  ======  ==============================================================
Class                     Status  Meaning
========================  ======  ==============================================================
:class:`PeerlaneError`    2       Something failed; the base of the classes below
:class:`BadInput`         2       The request makes no sense here; also a ``ValueError``
:class:`Refused`          2       Something blocks it; nothing was changed
:class:`NotPossible`      77      Not possible on this machine; nothing was changed
:class:`CudaUnavailable`  77      The memory is that of a GPU, and there is no driver or no GPU
:class:`OutOfMemory`      2       No host memory is left; also a ``MemoryError``
:class:`DataDiffers`      1       The content at the target is not that of the source
:class:`Interrupted`      130     Ctrl-C; a ``KeyboardInterrupt``, and no :class:`PeerlaneError`
========================  ======  ==============================================================
"""

from __future__ import annotations

from typing import ClassVar

__all__ = [
    "BadInput",
    "CudaUnavailable",
    "DataDiffers",
    "Interrupted",
    "NotPossible",
    "OutOfMemory",
    "PeerlaneError",
    "Refused",
    "RouteWarning",
]


class _Details(BaseException):
    """Facts of every error here, in addition to its text."""

    status: ClassVar[int] = 2

    causes: list[str]
    """What was tried on which object, then why, the outermost first."""
    hint: str | None
    """What to do about it; options are named as the program names them, ``--force`` is ``force=True``."""
    journal: str | None
    """The journal by which the copy can go on with ``resume=True``."""
    done: int | None
    """Bytes that are at the target."""
    total: int | None
    """Bytes that were to be there."""

    def __init__(
        self,
        causes: list[str],
        *,
        hint: str | None = None,
        journal: str | None = None,
        done: int | None = None,
        total: int | None = None,
    ) -> None:
        super().__init__(causes)
        self.causes = list(causes)
        self.hint = hint
        self.journal = journal
        self.done = done
        self.total = total

    def __str__(self) -> str:
        lines = [self.causes[0]] if self.causes else []
        lines += [f"caused by: {cause}" for cause in self.causes[1:]]
        if self.hint:
            lines.append(f"hint: {self.hint}")
        return "\n".join(lines)


class PeerlaneError(_Details, Exception):
    """Something failed."""


class BadInput(PeerlaneError, ValueError):
    """The request makes no sense here; nothing was changed."""


class Refused(PeerlaneError):
    """Something blocks it: a target that is in use or holds something, another journal."""


class NotPossible(PeerlaneError):
    """Not possible on this machine; nothing was changed."""

    status = 77


class CudaUnavailable(NotPossible):
    """The memory is that of a GPU, and there is no driver or no GPU."""


class OutOfMemory(PeerlaneError, MemoryError):
    """No host memory is left within the limits of this process; nothing was handed out."""


class DataDiffers(PeerlaneError):
    """The content at the target is not that of the source."""

    status = 1


class Interrupted(_Details, KeyboardInterrupt):
    """Ctrl-C, with nothing in flight any more and everything that is done written down.

    No :class:`PeerlaneError`: ``except Exception`` in a loop does not take it for a failure.
    """

    status = 130


class RouteWarning(UserWarning):
    """Something a person should hear at once: a copy fell back to host memory, or has no journal."""
