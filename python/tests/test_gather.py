"""Tasks on several nodes, with plain processes as nodes: nothing is lost, and nothing counts twice."""

from __future__ import annotations

import os
import pathlib
import sys
import threading

import peerlane
import pytest
from peerlane import _nodes
from peerlane._gather import Gather, NodesProgress, Rules, WorkLost
from peerlane._tasks import perform, used_ends

sys.path.insert(0, os.path.dirname(__file__))
from processes import Processes  # noqa: E402

NAMES = ["a", "b", "c"]


def options(progress=lambda _: None, **changes):
    return {"nodes": None, "retries": 2, "patience": 60.0, "progress": progress, **changes}


def act(work):
    """A part of work: its number, or with ``gate`` one that does not end once it has said that it runs."""
    gate = work.get("gate")
    if gate and work["part"] == 1 and os.path.exists(gate):
        os.unlink(gate)
        with open(f"{gate}.running", "w", encoding="utf-8") as pipe:
            pipe.write(str(os.getpid()))
        threading.Event().wait()
    return {"value": work["part"], "error": None}


@pytest.fixture
def cluster():
    """Three nodes that do :func:`act`."""
    executor = Processes(NAMES, act)
    yield executor
    executor.close()


@pytest.fixture
def gate(tmp_path):
    """A file that makes part 1 hang once; it says by a pipe that it runs."""
    path = tmp_path / "gate"
    path.touch()
    os.mkfifo(f"{path}.running")
    return path


def kill_when_running(executor: Processes, gate: pathlib.Path, again: bool) -> threading.Thread:
    """Kills the node that has part 1, when it runs."""

    def kill() -> None:
        process = int(pathlib.Path(f"{gate}.running").read_text(encoding="utf-8"))
        name = next(node.name for node in executor.nodes() if node.id == str(process))
        executor.kill(name)
        if again:
            executor.start(name)

    thread = threading.Thread(target=kill)
    thread.start()
    return thread


def works(count, gate=None):
    return [{"part": part, "gate": gate and str(gate)} for part in range(count)]


def test_lost_part_is_done_once(cluster, gate):
    told: list[NodesProgress] = []
    gather = Gather(cluster, None, Rules(2, 60.0), told.append)
    killer = kill_when_running(cluster, gate, again=False)
    answers = gather.divide(works(40, gate))
    killer.join()
    assert [answer["value"] for answer in answers] == list(range(40))
    assert sum(state.parts for state in gather.states) == 40
    assert gather.repeated == 1
    lost = [state for state in gather.states if state.missing]
    assert len(lost) == 1 and "ended with -9" in lost[0].missing
    assert [one.done for one in told if one.event == "done"] == list(range(1, 41))


def test_returning_node_is_asked_again(cluster, gate):
    gather = Gather(cluster, None, Rules(2, 60.0), lambda _: None)
    killer = kill_when_running(cluster, gate, again=True)
    gather.on_each({"part": 1, "gate": str(gate)})
    killer.join()
    assert [state.missing for state in gather.states] == [None] * 3
    assert [state.answer["value"] for state in gather.states] == [1] * 3
    assert sorted(state.attempts for state in gather.states) == [1, 1, 2]


def test_absent_nodes_are_named(cluster):
    cluster.kill("b")
    gather = Gather(cluster, ["a", "b", "d"], Rules(2, 0.0), lambda _: None)
    gather.on_each({"part": 0})
    assert gather.states[0].missing is None
    for state in gather.states[1:]:
        assert state.missing == "it is not in the cluster (not back within 0 s)"


def test_node_that_always_dies_is_given_up(gate):
    executor = Processes(["a"], die)
    told = []

    def again(progress: NodesProgress) -> None:
        told.append(progress.event)
        if progress.event == "lost":
            executor.kill("a")
            executor.start("a")

    gather = Gather(executor, None, Rules(2, 60.0), again)
    gather.on_each({})
    executor.close()
    assert told == ["started", "lost", "started", "lost", "started", "missing"]
    assert gather.states[0].missing == "its process ended with 3 (lost 3 times)"


def die(_):
    """Ends its process."""
    os._exit(3)


def test_work_that_nobody_can_do_is_an_error():
    executor = Processes(["a", "b"], die)
    gather = Gather(executor, None, Rules(1, 0.0), lambda _: None)
    with pytest.raises(WorkLost, match="a: its process ended with 3"):
        gather.divide(works(2))


@pytest.fixture
def hay(tmp_path):
    """A haystack with a broken image and a file that is none."""
    peerlane.make_haystack(tmp_path / "hay", images=24, side=640, per_mille=500, seed=5)
    (tmp_path / "hay" / "images" / "000broken.png").write_bytes(b"\x89PNG\r\n\x1a\nbroken")
    (tmp_path / "hay" / "images" / "notes.txt").write_text("no image")
    return tmp_path / "hay"


def test_divided_scan_equals_one_process(hay):
    executor = Processes(NAMES)
    started = []

    def kill_one(progress: NodesProgress) -> None:
        started.append(progress.node)
        if progress.event == "started" and started.count("b") == 1 and progress.node == "b":
            executor.kill("b")

    search = {"scales": (1.0,), "rotations": (0.0,), "threshold": 0.9, "threads": 1}
    record = _nodes.scan(
        executor, hay / "picture.png", hay / "images", search, False, options(kill_one)
    )
    executor.close()
    one = peerlane.scan(hay / "picture.png", hay / "images", threads=1)
    for name in ("hits", "failed", "images", "pixels"):
        assert record["scan"][name] == one[name], name
    assert len(one["hits"]) == 12 and len(one["failed"]) == 2
    assert [node["name"] for node in record["nodes"] if node["missing"]] == ["b"]
    assert sum(node["parts"] for node in record["nodes"]) == record["parts"]["total"]
    assert record["parts"]["repeated"] >= 1


def test_nodes_scan_their_own_images(hay):
    executor = Processes(["a", "b"])
    search = {"scales": (1.0,), "rotations": (0.0,), "threshold": 0.9, "threads": 2}
    record = _nodes.scan(executor, hay / "picture.png", hay / "images", search, True, options())
    executor.close()
    assert record["scan"] is None and record["parts"] is None
    assert [len(node["scan"]["hits"]) for node in record["nodes"]] == [12, 12]


def test_predictions_keep_their_order_and_errors():
    sweep = {"kind": "sweep", "source": ["a"], "target": ["b"], "length": "8M", "repeats": 1}
    variants = [
        {"machine": "pair", "workload": {**sweep, "blocks": [block], "routes": ["p2p"]}}
        for block in ("64K", "1M", "4M")
    ]
    variants.insert(1, {"machine": "no-such-machine", "workload": sweep})
    executor = Processes(["a", "b"])
    record = _nodes.simulate(executor, variants, options())
    executor.close()
    for variant, found in zip(variants, record["variants"], strict=True):
        if variant["machine"] == "pair":
            assert found["record"] == peerlane.simulate(**variant)
        else:
            assert found["record"] is None and found["error"]["status"] == 2
    with pytest.raises(peerlane.BadInput, match="a variant has machine"):
        _nodes.simulate(executor, [{"machine": "pair"}], options())


def test_refusal_of_a_node_is_its_answer(source, tmp_path):
    workload = {
        "kind": "sweep",
        "source": [str(source)],
        "target": [str(tmp_path / "target")],
        "routes": ["host-pipelined"],
        "blocks": ["1M"],
        "length": "1M",
        "repeats": 1,
    }
    executor = Processes(["a", "b"])
    refused = _nodes.bench(executor, workload, [], False, 60, options())
    assert ["--scratch" in node["error"]["causes"][-1] for node in refused["nodes"]] == [True] * 2
    assert not (tmp_path / "target").exists()
    absent = _nodes.bench(
        executor, {**workload, "source": ["no-such-file"]}, [], False, 60, options()
    )
    assert all(node["error"]["causes"] for node in absent["nodes"])
    executor.close()


def test_node_measures_by_its_own_words(source):
    answer = perform({"what": "bench", "workload": Stream(str(source)), "scratch": [],
                      "force": False, "timeout": 60})
    assert answer["error"] is None
    record = answer["value"]
    assert record["schema"] == "peerlane.bench/1" and len(record["cases"]) == 2
    assert [used["end"] for used in answer["used"]][:2] == [str(source), "host"]


class Stream:
    """A workload of the topology of a node."""

    def __init__(self, source: str) -> None:
        self.source = source

    def __call__(self, topology):
        assert topology["function"] is not None
        return {"kind": "stream", "source": self.source, "target": "host", "blocks": "1M",
                "length": "2M", "repeats": 2}


def test_ends_have_the_devices_behind_them():
    devices = [
        {"name": "nvme2", "kind": "nvme", "address": "0000:03:00.0"},
        {"name": "gpu", "kind": "gpu", "address": "0000:41:00.0"},
    ]
    flow = {"source": "fpga:0000:05:00.1", "target": "gpu:0"}
    record = {
        "asked": {"cases": [{"flows": [flow]}]},
        "cases": [{"flows": [{"memory": "cmb:nvme2"}, {"memory": "host"}]}],
    }
    assert used_ends(record, devices) == [
        {"end": "fpga:0000:05:00.1", "address": "0000:05:00.1"},
        {"end": "gpu:0", "address": "0000:41:00.0"},
        {"end": "cmb:nvme2", "address": "0000:03:00.0"},
        {"end": "host", "address": None},
    ]


@pytest.mark.parametrize(
    "changes", [{"nodes": "one"}, {"patience": float("nan")}, {"retries": -1}]
)
def test_bad_options_are_refused(cluster, changes):
    with pytest.raises(peerlane.BadInput):
        _nodes.doctor(cluster, options(**changes))


@pytest.mark.parametrize("variants", ["pair", [None], {"machine": "pair"}])
def test_variants_are_a_list_of_dicts(cluster, variants):
    with pytest.raises(peerlane.BadInput, match="list of dicts"):
        _nodes.simulate(cluster, variants, options())


def test_cluster_needs_ray(monkeypatch):
    import peerlane.ray

    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(peerlane.NotPossible, match=r"pip install 'peerlane\[ray\]'"):
        peerlane.ray.doctor()
