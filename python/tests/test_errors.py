"""The classes of errors, and their match with the program's exit status."""

from __future__ import annotations

import os
import pathlib
import subprocess

import peerlane
import pytest
from peerlane import errors


def test_every_class_has_the_status_of_the_program():
    statuses = {name: getattr(errors, name).status for name in errors.__all__[:-1]}
    assert statuses == {
        "BadInput": 2,
        "CudaUnavailable": 77,
        "DataDiffers": 1,
        "Interrupted": 130,
        "NotPossible": 77,
        "OutOfMemory": 2,
        "PeerlaneError": 2,
        "Refused": 2,
    }


def test_words_are_those_of_the_program():
    error = peerlane.Refused(["cannot copy", "it is mounted"], hint="umount it")
    assert str(error) == "cannot copy\ncaused by: it is mounted\nhint: umount it"
    assert (error.journal, error.done, error.total) == (None, None, None)


def program() -> pathlib.Path:
    folder = pathlib.Path(os.environ.get("PEERLANE_TARGET", pathlib.Path(__file__).parents[2] / "target"))
    return folder / "debug" / "peerlane"


@pytest.mark.parametrize("case", ["there", "missing", "p2p", "resume", "option"])
def test_a_copy_that_fails_has_the_status_and_words_of_the_program(source, tmp_path, case):
    if not program().exists():
        pytest.skip("the program is not built: cargo build -p peerlane-cli")
    target = tmp_path / "target.bin"
    if case in ("there", "resume"):
        target.write_bytes(b"mine")
    asked = {
        "there": ([], {}),
        "missing": ([], {}),
        "p2p": (["--route", "p2p"], {"route": "p2p"}),
        "resume": (["--resume"], {"resume": True}),
        "option": (["--route", "host", "--via", "cmb:x"], {"route": "host", "via": "cmb:x"}),
    }
    if case == "missing":
        source.unlink()
    words, arguments = asked[case]
    run = subprocess.run(
        [program(), "copy", source, target, *words],
        capture_output=True, text=True, stdin=subprocess.DEVNULL, check=False,
    )
    with pytest.raises(peerlane.PeerlaneError) as raised:
        peerlane.copy(source, target, **arguments)
    assert raised.value.status == run.returncode
    for cause in raised.value.causes:
        assert cause in run.stderr
