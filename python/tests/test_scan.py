"""Pictures in haystacks, against the answers."""

from __future__ import annotations

import json
import re
import struct

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


def tiff(pages):
    """A file of grey pages, each as its width, height and pixels."""
    out = b"II*\0"
    for width, height, pixels in pages:
        at = len(out) + 4
        tags = {256: width, 257: height, 258: 8, 259: 1, 262: 1, 277: 1, 278: height}
        tags |= {273: at, 279: len(pixels)}
        entries = b"".join(struct.pack("<HHII", tag, 4, 1, tags[tag]) for tag in sorted(tags))
        out += struct.pack("<I", at + len(pixels)) + pixels + struct.pack("<H", len(tags)) + entries
    return out + bytes(4)


def test_pages_of_hits_and_truncated_files_are_named(tmp_path):
    hay = tmp_path / "hay"
    peerlane.make_haystack(hay, images=1, side=640, per_mille=1000, seed=3)
    (image,) = (hay / "images").iterdir()
    kind, width, height, _, pixels = re.split(rb"\s", image.read_bytes(), maxsplit=4)
    assert kind == b"P5"
    size = (int(width), int(height))
    path = tmp_path / "two.tif"
    path.write_bytes(tiff([(*size, bytes(size[0] * size[1])), (*size, pixels)]))
    found = peerlane.scan(hay / "picture.png", path)
    assert ([hit["page"] for hit in found["hits"]], found["failed"]) == ([2], [])
    cut = tmp_path / "cut.tif"
    cut.write_bytes(path.read_bytes()[:-60])
    found = peerlane.scan(hay / "picture.png", cut)
    assert [(one["image"], one["page"]) for one in found["failed"]] == [(str(cut), 2)]


def test_failures_have_their_causes(tmp_path):
    hay = tmp_path / "hay"
    peerlane.make_haystack(hay, images=1, side=640, per_mille=1000, seed=3)
    (failed,) = peerlane.scan(hay / "picture.png", tmp_path / "nowhere.pgm")["failed"]
    assert "No such file" in failed["error"]


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
