"""The package is typed, and its stub is that of the Rust side."""

from __future__ import annotations

import pathlib
import subprocess
import sys

import pytest

pytest.importorskip("mypy")
CONFIG = pathlib.Path(__file__).parents[1] / "pyproject.toml"


def run(*arguments: str, folder: pathlib.Path) -> None:
    command = [sys.executable, "-m", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, cwd=folder, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_package_is_typed(tmp_path):
    run("mypy", "--config-file", str(CONFIG), "-p", "peerlane", folder=tmp_path)


def test_the_stub_is_that_of_the_rust_side(tmp_path):
    run("mypy.stubtest", "peerlane._peerlane", folder=tmp_path)
