"""Pictures in haystacks, against the answers."""

from __future__ import annotations

import json

import peerlane
import pytest


def test_hits_are_the_answers(tmp_path):
    hay = tmp_path / "hay"
    assert peerlane.make_haystack(hay, images=6, side=640, per_mille=500, seed=3) == 3
    answers = [json.loads(line) for line in (hay / "answers.jsonl").read_text().splitlines()]
    (hay / "images" / "broken.png").write_bytes(b"no image")
    found = peerlane.scan(hay / "picture.png", hay / "images", threads=2)
    assert (found["images"], found["threads"]) == (6, 2)
    assert [one["image"] for one in found["failed"]] == [str(hay / "images" / "broken.png")]
    places = {(hit["image"].split("/")[-1], hit["x"], hit["y"]) for hit in found["hits"]}
    assert places == {(one["image"], one["x"], one["y"]) for one in answers if one["planted"]}
    assert all(hit["schema"] == "peerlane.hit/1" for hit in found["hits"])
    with pytest.raises(peerlane.Refused, match="not empty"):
        peerlane.make_haystack(hay)


@pytest.mark.parametrize(
    "arguments",
    [{"scales": [0]}, {"scales": []}, {"rotations": [400]}, {"threshold": 2}, {"threads": 0}],
)
def test_numbers_out_of_bounds_are_refused(tmp_path, arguments):
    with pytest.raises(peerlane.BadInput):
        peerlane.scan(tmp_path / "x.png", tmp_path, **arguments)


def test_a_picture_that_is_none_is_refused(tmp_path):
    (tmp_path / "x.png").write_bytes(b"no picture")
    with pytest.raises(peerlane.BadInput, match="cannot read picture"):
        peerlane.scan(tmp_path / "x.png", tmp_path)
