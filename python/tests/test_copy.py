"""Copies between files, by the running kernel."""

from __future__ import annotations

import pathlib
import signal
import threading

import peerlane
import pytest
from conftest import content


@pytest.fixture
def target(tmp_path: pathlib.Path) -> pathlib.Path:
    return tmp_path / "target.bin"


def copied(record: dict) -> dict:
    """The copy to the only target of a record."""
    return record["jobs"][0]["targets"][0]["copied"]


def test_a_copy_leaves_the_content_and_a_record(source, target):
    record = peerlane.copy(source, target, route="host", verify="full")
    assert target.read_bytes() == source.read_bytes()
    assert record["schema"] == "peerlane.copy/1"
    assert record["jobs"][0]["read"] == source.stat().st_size
    record = copied(record)
    assert (record["route"], record["bytes"]) == ("host", source.stat().st_size)
    assert record["verification"]["mismatches"] == 0


def test_a_part_is_copied(source, target):
    peerlane.copy(source, target, route="host", offset="1M", length=8192, block="4K", depth=2)
    assert target.read_bytes() == source.read_bytes()[1 << 20 : (1 << 20) + 8192]


def test_a_target_that_is_there_is_refused_and_left_as_it_is(source, target):
    target.write_bytes(b"mine")
    with pytest.raises(peerlane.Refused) as raised:
        peerlane.copy(source, target, route="host")
    assert raised.value.status == 2
    assert "--force" in (raised.value.hint or "")
    assert target.read_bytes() == b"mine"
    peerlane.copy(source, target, route="host", force=True)
    assert target.read_bytes() == source.read_bytes()


def test_a_required_route_that_is_not_there_is_not_possible_and_changes_nothing(source, target):
    with pytest.raises(peerlane.NotPossible) as raised:
        peerlane.copy(source, target, route="p2p")
    assert raised.value.status == 77 and raised.value.causes
    assert not target.exists()


def test_a_fall_back_to_host_memory_is_said_at_once(source, target):
    with pytest.warns(peerlane.RouteWarning, match="through host memory") as said:
        assert copied(peerlane.copy(source, target))["route"] == "host"
    assert said[0].filename == __file__


@pytest.mark.filterwarnings("error")
def test_a_fall_back_can_be_made_an_exception(source, target):
    with pytest.raises(peerlane.RouteWarning):
        peerlane.copy(source, target)
    assert not target.exists()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"route": "direct"}, "route: one of auto, p2p, host is needed"),
        ({"verify": "some"}, "verify: one of sample, full, none"),
        ({"block": 0}, "block: "),
        ({"block": "1025M"}, "block: "),
        ({"block": "much"}, "block: "),
        ({"block": -1}, "block: a number or a text"),
        ({"depth": 0}, "depth: 1 to 1024"),
        ({"length": 0}, "length: "),
        ({"limit": 0}, "limit: "),
        ({"timeout": 0}, "timeout: 1 to 86400"),
        ({"preserve": ["colour"]}, "preserve: one of mode"),
        ({"via": 7}, "via: a text is needed"),
        ({"route": "host", "via": "cmb:x"}, "exclude each other"),
    ],
)
def test_arguments_that_make_no_sense_are_named(source, target, arguments, words):
    with pytest.raises(peerlane.BadInput) as raised:
        peerlane.copy(source, target, **arguments)
    assert words in str(raised.value)
    assert isinstance(raised.value, ValueError)
    assert not target.exists()


def test_ends_that_are_none_are_named(source, target, tmp_path):
    for here, there in [(tmp_path / "nothing", target), (source, tmp_path), ("", target)]:
        with pytest.raises(peerlane.BadInput):
            peerlane.copy(here, there)


def test_progress_grows_to_the_end_of_each_phase(source, target):
    seen: list[peerlane.Progress] = []
    peerlane.copy(source, target, route="host", block="64K", verify="full", progress=seen.append)
    for phase in ("move", "verify"):
        done = [(one.done, one.total) for one in seen if one.phase == phase]
        assert done == sorted(done), phase
        assert done[-1] == (source.stat().st_size,) * 2, phase


def test_an_exception_out_of_progress_ends_the_copy_which_can_go_on(source, target):
    def stop(progress: peerlane.Progress) -> None:
        if progress.phase == "move" and progress.done > 0:
            raise LookupError("enough")

    with pytest.raises(LookupError, match="enough") as raised:
        peerlane.copy(source, target, route="host", block="64K", depth=1, progress=stop)
    assert any("interrupted after" in note for note in raised.value.__notes__)
    assert not target.exists()
    peerlane.copy(source, target, route="host", resume=True)
    assert target.read_bytes() == source.read_bytes()


@pytest.fixture
def interruptible():
    """Ctrl-C as at a terminal: a shell starts background jobs with it ignored."""
    earlier = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, earlier)


@pytest.mark.usefixtures("interruptible")
def test_ctrl_c_ends_the_copy_which_can_go_on(source, target):
    moving = threading.Event()

    def interrupt() -> None:
        moving.wait()
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)

    def note(progress: peerlane.Progress) -> None:
        if progress.phase == "move" and progress.done > 0:
            moving.set()

    thread = threading.Thread(target=interrupt)
    thread.start()
    with pytest.raises(peerlane.Interrupted) as raised:
        # Slow, so that it is under way when the signal comes.
        peerlane.copy(
            source, target, route="host", block="4K", depth=1, limit="256K", progress=note
        )
    thread.join()
    error = raised.value
    assert isinstance(error, KeyboardInterrupt) and not isinstance(error, Exception)
    assert error.status == 130 and error.total == source.stat().st_size
    assert error.done is not None and 0 < error.done < error.total
    assert error.journal is not None and pathlib.Path(error.journal).exists()
    assert "resume=True" in (error.hint or "")
    assert not target.exists()
    peerlane.copy(source, target, route="host", resume=True)
    assert target.read_bytes() == source.read_bytes()


def test_resume_without_journal_begins_then_finds_it_complete(source, target):
    for moved, outcome in [(source.stat().st_size, "begun"), (0, "equal")]:
        record = copied(peerlane.copy(source, target, route="host", resume=True))
        assert record["content"]["data"] == moved
        assert [one["outcome"] for one in record["warnings"] if one["kind"] == "nothing-to-resume"] == [outcome]
    assert target.read_bytes() == source.read_bytes()


def test_other_threads_run_while_a_copy_does(source, target):
    copying = threading.Thread(
        target=peerlane.copy, args=(source, target), kwargs={"route": "host", "limit": "2M"}
    )
    copying.start()
    turns = 0
    while copying.is_alive():
        turns += 1
    # With the GIL held there would be one or two.
    assert turns > 1000
    assert target.read_bytes() == source.read_bytes()


def test_the_content_of_tests_repeats_at_no_block():
    blocks = content(1 << 20)
    assert len({blocks[at : at + 4096] for at in range(0, len(blocks), 4096)}) == 256


def test_evidence_of_dma_is_judged_or_not_known(source, target):
    with_it, without = (
        copied(peerlane.copy(source, target, route="host", force=True, evidence=evidence)) for evidence in ("dma", None)
    )
    of_dma = [one for one in with_it["evidence"] if "tracing" in one["looked_at"]]
    assert of_dma and all(one["says"] in {"shown", "consistent", "not-known"} for one in of_dma)
    assert len(with_it["evidence"]) == len(without["evidence"]) + len(of_dma)
    with pytest.raises(peerlane.BadInput, match="evidence"):
        peerlane.copy(source, target, evidence="msr")
