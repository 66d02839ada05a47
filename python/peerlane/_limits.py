"""Host memory that there is: limits of control groups, which end a process, and huge pages."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from pathlib import Path

from .errors import OutOfMemory

ROOT = Path("/sys/fs/cgroup")
PROC = Path("/proc")
SYS = Path("/sys")
MEMORY_HINT = "a stream with a smaller memory=, or slices, need less"
PAGE_BITS = 12
HUGE_BITS = 21
"""Pages of 4 KiB, and huge ones of 2 MiB."""
BALLOON = 5
"""Virtio device number of a memory balloon."""
REPORTING = 5
"""Feature bit ``VIRTIO_BALLOON_F_REPORTING``."""
SIZE_MIN = 16 << 20
"""Bytes below which no limit is looked up: the answer takes some 0.1 ms."""


def check(size: int) -> None:
    """Refuses memory that a control group of this process cannot have, whatever it drops of the page cache.

    Without this the kernel ends the process amid the load. Machines with swap are not judged.
    """
    if size < SIZE_MIN or _has_swap():
        return
    for group, limit, used in _groups():
        if size > limit - used:
            words = f"the control group {group} allows {limit}, of which {used} are in use"
            raise OutOfMemory([f"cannot have {size} bytes of host memory for tensors", words], hint=MEMORY_HINT)


def has_huge_pages(size: int) -> bool:
    """Whether as much memory is free in huge pages.

    Without, the kernel compacts memory and drops the page cache. A virtual machine that lends free huge pages to its
    host first gets them back: 3.1 to 3.3 s for 1 GiB, instead of 0.3 s in small pages, which are not lent (29 November
    2026, two cores, Linux 6.18).
    """
    if _lends_free_pages(SYS):
        return False
    try:
        zones = (PROC / "buddyinfo").read_text().splitlines()
        # Behind "Node 0, zone Normal" the free blocks of 1, 2, 4 and so on pages.
        free = sum(
            int(count) << order + PAGE_BITS
            for zone in zones
            for order, count in enumerate(zone.split()[4:])
            if order + PAGE_BITS >= HUGE_BITS
        )
    except (OSError, ValueError):
        return False
    return free >= size


@cache
def _lends_free_pages(sys: Path) -> bool:
    """Whether a balloon lends free pages to the host (virtio 1.2, 5.5.3 and 5.5.6.7)."""
    try:
        return any(map(_is_lender, (sys / "bus/virtio/devices").iterdir()))
    except OSError:
        return False


def _is_lender(device: Path) -> bool:
    try:
        kind, features = ((device / name).read_text().strip() for name in ("device", "features"))
        return int(kind, 16) == BALLOON and features[REPORTING : REPORTING + 1] == "1"
    except (OSError, ValueError):
        return False


def _has_swap() -> bool:
    try:
        return len((PROC / "swaps").read_text().splitlines()) > 1
    except OSError:
        return False


def _groups() -> Iterator[tuple[Path, int, int]]:
    """Groups of this process with a limit: the limit, and bytes in use that only swap could free."""
    try:
        lines = (PROC / "self/cgroup").read_text().splitlines()
    except OSError:
        return
    for line in lines:
        _, controllers, path = line.split(":", 2)
        if controllers == "":
            root, limit, key = ROOT, "memory.max", "anon"
        elif "memory" in controllers.split(","):
            root, limit, key = ROOT / "memory", "memory.limit_in_bytes", "total_rss"
        else:
            continue
        group = root / path.lstrip("/")
        # In a container the path may be that of the host, and the root is the container's own group.
        for one in (group, *group.parents):
            if one.is_relative_to(root):
                found = _numbers(one, limit, key)
                if found is not None:
                    yield one, *found


def _numbers(group: Path, limit: str, key: str) -> tuple[int, int] | None:
    """The limit of a group and what it uses, if it says both."""
    try:
        bound = int((group / limit).read_text())
        stat = (group / "memory.stat").read_text().splitlines()
        used = next(int(line.split()[1]) for line in stat if line.split()[0] == key)
    except (OSError, ValueError, IndexError, StopIteration):
        return None
    return bound, used
