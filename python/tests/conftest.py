"""Parts shared by all tests: files with known content, and skips counted as ``./test`` counts them."""

from __future__ import annotations

import os
import pathlib

import pytest


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Appends a skip to the file of ``CONTRIBUTING.md``, section Skips."""
    log = os.environ.get("PEERLANE_SKIP_LOG")
    if log and report.skipped and isinstance(report.longrepr, tuple):
        reason = report.longrepr[2].removeprefix("Skipped: ")
        with open(log, "a", encoding="utf-8") as file:
            file.write(f"{report.nodeid.replace(' ', '_')}: {reason}\n")


def content(length: int) -> bytes:
    """Bytes that are different everywhere and always the same."""
    words = bytearray()
    state = 0x9E3779B97F4A7C15 ^ length
    while len(words) < min(length, 1 << 16):
        state = (state * 6364136223846793005 + 1442695040888963407) % 2**64
        words += state.to_bytes(8, "little")
    # A part of a prime length again and again: no offset looks like one a block further.
    part = bytes(words[:65521]) or b"\0"
    return (part * (length // len(part) + 1))[:length]


@pytest.fixture
def source(tmp_path: pathlib.Path) -> pathlib.Path:
    """A file of 3 MiB and a bit."""
    path = tmp_path / "source.bin"
    path.write_bytes(content((3 << 20) + 777))
    return path
