"""A cluster of three raylets on this machine; one is killed while it works.

Run by ``tools/test-python --ray``, not with the other tests: it needs Ray and starts daemons. Every node
has a name, as ``ray start --node-name`` gives it.
"""

from __future__ import annotations

import json
import pathlib
import re

import peerlane
import peerlane.ray
import pytest

ray = pytest.importorskip("ray", reason="the package ray is not installed")
from ray.cluster_utils import Cluster  # noqa: E402

ROOT = pathlib.Path(__file__).parents[2]
NAMES = ["one", "two", "three"]


class Raylets:
    """Raylets by name."""

    def __init__(self) -> None:
        self.cluster = Cluster()
        self._raylets: dict[str, object] = {}
        for name in NAMES:
            self.start(name)
        self.cluster.wait_for_nodes()
        ray.init(address=self.cluster.address, log_to_driver=False)

    def start(self, name: str) -> None:
        """Starts a raylet; the first is the head."""
        self._raylets[name] = self.cluster.add_node(
            num_cpus=1, node_name=name, object_store_memory=100 << 20, include_dashboard=False
        )

    def kill(self, name: str) -> None:
        """Ends a raylet and its workers by SIGKILL."""
        self.cluster.remove_node(self._raylets.pop(name), allow_graceful=False)

    def close(self) -> None:
        ray.shutdown()
        self.cluster.shutdown()


@pytest.fixture
def raylets():
    """Three raylets, with this process connected to them."""
    cluster = Raylets()
    yield cluster
    cluster.close()


@pytest.fixture
def killing(raylets):
    """Makes a callback that kills a raylet right after it was given work."""

    def make(name: str, starts: int, again: bool = False):
        told = []

        def tell(progress: peerlane.ray.NodesProgress) -> None:
            told.append(progress)
            mine = [one for one in told if (one.node, one.event) == (name, "started")]
            if len(mine) == starts and progress is mine[-1]:
                raylets.kill(name)
                if again:
                    raylets.start(name)

        return tell, told

    return make


def test_scan_survives_a_killed_raylet(tmp_path, killing):
    hay = tmp_path / "hay"
    peerlane.make_haystack(hay, images=72, side=1024, per_mille=300, seed=11)
    tell, told = killing("three", starts=2)
    record = peerlane.ray.scan(
        hay / "picture.png", hay / "images", threads=1, progress=tell, patience=5
    )
    one = peerlane.scan(hay / "picture.png", hay / "images", threads=1)
    for name in ("hits", "failed", "images", "pixels"):
        assert record["scan"][name] == one[name], name
    assert one["images"] == 72
    nodes = {node["name"]: node for node in record["nodes"]}
    assert sorted(nodes) == sorted(NAMES)
    assert nodes["three"]["missing"] and not nodes["one"]["missing"] and not nodes["two"]["missing"]
    parts = record["parts"]
    assert parts["repeated"] >= 1
    assert sum(node["parts"] for node in nodes.values()) == parts["total"]
    assert [one.done for one in told if one.event == "done"] == list(range(1, parts["total"] + 1))


def stream(source: pathlib.Path):
    """Runs of a second each: time to kill a node while it measures."""
    source.write_bytes(bytes(range(256)) * (64 << 10))
    return {
        "kind": "stream",
        "source": str(source),
        "target": "host",
        "blocks": "1M",
        "length": "16M",
        "time-ns": 1_000_000_000,
        "repeats": 3,
    }


def test_bench_names_a_killed_raylet(tmp_path, killing):
    tell, _ = killing("three", starts=1)
    record = peerlane.ray.bench(stream(tmp_path / "set.bin"), progress=tell, patience=5)
    nodes = {node["name"]: node for node in record["nodes"]}
    assert sorted(nodes) == sorted(NAMES)
    assert "not back within 5 s" in nodes["three"]["missing"] and nodes["three"]["bench"] is None
    for name in ("one", "two"):
        assert len(nodes[name]["bench"]["cases"]) == 3 and nodes[name]["missing"] is None
        assert nodes[name]["used"][0]["end"] == str(tmp_path / "set.bin")


def test_raylet_that_returns_is_asked_again(tmp_path, killing):
    tell, _ = killing("three", starts=1, again=True)
    record = peerlane.ray.bench(stream(tmp_path / "set.bin"), progress=tell)
    nodes = {node["name"]: node for node in record["nodes"]}
    assert sorted(nodes) == sorted(NAMES)
    assert all(len(node["bench"]["cases"]) == 3 for node in nodes.values())
    assert nodes["three"]["attempts"] >= 2
    assert (nodes["one"]["attempts"], nodes["two"]["attempts"]) == (1, 1)


def test_examples_of_the_page(tmp_path, monkeypatch, raylets):
    monkeypatch.chdir(tmp_path)
    text = (ROOT / "docs" / "scale.md").read_text(encoding="utf-8")
    blocks = re.findall(r"^```python\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)
    assert len(blocks) > 3
    names: dict[str, object] = {"__name__": "__main__"}
    for block in blocks:
        exec(compile(block, "docs/scale.md", "exec"), names)
    record = json.loads((tmp_path / "nodes.json").read_text(encoding="utf-8"))
    assert [node["missing"] for node in record["nodes"]] == [None] * 3
