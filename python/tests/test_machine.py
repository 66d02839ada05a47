"""Described machines, and the model's predictions for them."""

from __future__ import annotations

import copy
import json
import pathlib
import pickle

import peerlane
import pytest

EIGHT_GPUS = pathlib.Path(__file__).parents[2] / "fixtures/sysfs/eight-gpus/tree.tar.zst"

SWEEP = {
    "kind": "sweep",
    "source": ["a"],
    "target": ["b"],
    "blocks": ["64K", "1M"],
    "length": "64M",
    "routes": ["p2p", "host-pipelined"],
    "repeats": 1,
    "name": None,
}
TOML = """
kind = "sweep"
source = ["a"]
target = ["b"]
blocks = ["64K", "1M"]
length = "64M"
routes = ["p2p", "host-pipelined"]
repeats = 1
"""


def test_this_machine_and_a_described_one_have_the_same_form():
    here, pair = peerlane.topology(), peerlane.topology(machine="pair")
    assert here["schema"] == pair["schema"] == "peerlane.topo/1"
    assert {"a", "b", "c"} <= {one["name"] for one in pair["function"]}


def test_a_pair_is_read_from_a_topology():
    split = json.loads(json.dumps(peerlane.topology(machine="split")))
    other, own = peerlane.reach(split, "c", "a"), peerlane.reach(split, "c", "c")
    assert (other["verdict"], other["distance"]) == ("refused", None)
    assert (own["verdict"], own["distance"]) == ("bus-address", 0)
    ports = peerlane.reach(peerlane.topology(machine="acs"), "c", "a")["redirecting"]
    assert ports and all(port in {"down-a", "down-c"} for port in ports)
    with pytest.raises(peerlane.BadInput, match="no memory a, or no initiator c") as raised:
        peerlane.reach(split, "a", "c")
    assert "groups" in (raised.value.hint or "")
    with pytest.raises(peerlane.BadInput, match="cannot read the topology"):
        peerlane.reach({}, "c", "a")


def test_a_machine_comes_from_a_file_too(tmp_path):
    path = tmp_path / "mine.toml"
    path.write_text('name = "mine"\niommu = "off"\n')
    assert peerlane.topology(machine=path)["name"] == "mine"
    path.write_text("name = 7\n")
    with pytest.raises(peerlane.BadInput, match="cannot read machine file"):
        peerlane.topology(machine=path)
    path.with_suffix(".txt").write_text("Dear list, my machine is slow.\n")
    with pytest.raises(peerlane.BadInput, match="cannot recognise machine") as raised:
        peerlane.topology(machine=path.with_suffix(".txt"))
    assert "lspci" in (raised.value.hint or "")


def test_a_machine_that_is_not_there_is_named_with_a_hint():
    with pytest.raises(peerlane.BadInput, match="cannot find machine nobody") as raised:
        peerlane.topology(machine="nobody")
    assert "lab machines" in (raised.value.hint or "")


def test_a_refused_route_is_a_reason_and_no_error():
    record = peerlane.plan("a", "b", route="p2p", machine="split")
    plan = record["jobs"][0]["targets"][0]["plan"]
    assert plan["route"] is None and plan["reason"]
    assert plan["candidates"][0]["refusals"]


def test_a_plan_knows_the_drives_of_its_machine():
    with pytest.raises(peerlane.BadInput) as raised:
        peerlane.plan("a", "z", machine="pair")
    assert raised.value.causes[0].startswith("cannot use the target")


def test_a_workload_is_a_dict_or_a_file(tmp_path):
    path = tmp_path / "sweep.toml"
    path.write_text(TOML)
    of_dict = peerlane.simulate("pair", SWEEP, engine="closed")
    of_file = peerlane.simulate("pair", path, engine="closed")
    assert of_dict["cases"] == of_file["cases"] and len(of_dict["cases"]) == 4


@pytest.mark.parametrize(
    "workload", [{}, {"kind": "nothing"}, {**SWEEP, "blocks": ["0"]}, "/nowhere/at/all.toml"]
)
def test_a_workload_that_is_none_is_refused(workload):
    with pytest.raises(peerlane.BadInput, match="workload"):
        peerlane.simulate("pair", workload)


def test_an_engine_that_is_none_is_refused():
    with pytest.raises(peerlane.BadInput, match="engine: one of auto"):
        peerlane.simulate("pair", SWEEP, engine="magic")


def test_tables_have_a_row_for_each_case_figure_or_record():
    pandas = pytest.importorskip("pandas")
    record = peerlane.simulate("pair", SWEEP, engine="closed")
    table = peerlane.to_pandas(record)
    assert isinstance(table, pandas.DataFrame) and len(table) == 4
    assert len(peerlane.to_pandas([record, record])) == 8
    planned = peerlane.to_pandas(peerlane.plan("a", "b", machine="pair"))
    assert len(planned) == 1 and planned["plan.route"][0] == "p2p" and planned["source"][0] == "a"
    nested = peerlane.to_pandas({"a": {"b": {"c": 1}}, "d": [2, 3]})
    assert list(nested.columns) == ["a.b.c", "d"] and nested["d"][0] == [2, 3]


def test_figures_of_a_document_stand_beside_the_model():
    report = peerlane.reproduce(["004"])
    assert {row["source"] for row in report["rows"]} == {"004"}
    with pytest.raises(peerlane.BadInput):
        peerlane.reproduce(["no such document"])


def test_route_is_a_str_with_a_reason():
    answer = peerlane.route("a", "b", machine="pair")
    assert isinstance(answer, str) and answer == "p2p" and f"{answer}" == "p2p"
    assert answer.reason == "a and b reach cmb:c inside the switch"
    for other in (copy.copy(answer), pickle.loads(pickle.dumps(answer))):
        assert (other, other.reason) == (answer, answer.reason)


def test_route_of_a_plan_is_its_own():
    split = peerlane.route("a", "b", machine="split")
    plan = peerlane.plan("a", "b", machine="split")["jobs"][0]["targets"][0]["plan"]
    assert (split, split.reason) == (plan["route"], plan["reason"]) and split == "host"


@pytest.mark.parametrize(
    ("one", "other", "word", "says"),
    [
        ("mlx5_0", "gpu:0", "unknown", "the IOMMU translates"),
        ("gpu:0", "mlx5_0", "unknown", "the IOMMU translates"),
        ("gpu:0", "gpu:7", "unknown", "NVLink unknown (not in this input)"),
        ("nvme0", "gpu:0", "host", "nvidia_fs is not loaded"),
        ("nvme0", "mlx5_0", "host", "neither nvme0 nor mlx5_0 has memory"),
    ],
)
def test_route_of_a_captured_machine_says_what_decides(one, other, word, says):
    answer = peerlane.route(one, other, machine=EIGHT_GPUS)
    assert answer == word and says in answer.reason, answer.reason


def test_route_of_a_file_here_has_a_reason(source, tmp_path):
    other = tmp_path / "other.bin"
    other.write_bytes(bytes(8192))
    answer = peerlane.route(source, other)
    assert answer in {"p2p", "host", "unknown"} and answer.reason


@pytest.mark.parametrize(
    ("path", "device"), [("a", "gpu:9"), ("a", "eth9"), ("z", "b"), ("", "b"), ("a", "cmb:z")]
)
def test_route_refuses_words_that_name_nothing(path, device):
    with pytest.raises(peerlane.BadInput, match="has no"):
        peerlane.route(path, device, machine="pair")
    with pytest.raises(peerlane.BadInput, match="has no device or file"):
        peerlane.route("/no/such/file", "/no/such/device")
