"""Figures out of the output of programs."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any

from .steps import StepError

GB = 10**9


def bench_cases(text: str) -> list[dict[str, Any]]:
    """Reads the cases of a `peerlane.bench/1` record: name, GB/s, and whether all bytes arrived."""
    record = json.loads(text)
    if record["schema"] != "peerlane.bench/1":
        raise ValueError(f"the record has the schema {record['schema']}")
    cases = []
    for case in record["cases"]:
        verification = case["verification"]
        if verification is None:
            raise StepError(f"{case['asked']['name']}: the content was not compared")
        if verification["mismatches"]:
            count = verification["mismatches"]
            raise StepError(f"{case['asked']['name']}: {count} blocks differ")
        rate = case["bytes"] / case["elapsed_ns"]
        cases.append({"name": case["asked"]["name"], "gb_s": round(rate, 3)})
    if not cases:
        raise ValueError("the record has no case")
    return cases


def scan_words(text: str) -> dict[str, Any]:
    """Reads the last lines of `peerlane scan`: hits, images, Mpixel/s and the limit."""
    pattern = (
        r"^(\d+) hits? in (\d+) images?.*; ([0-9.]+) Mpixel in ([0-9.]+) s, "
        r"([0-9.]+) Mpixel/s(?:, limited by (.*))?$"
    )
    found = re.search(pattern, text, re.MULTILINE)
    if not found:
        raise ValueError("there is no line with Mpixel/s")
    more = {"kernels": r"^kernels: (.*)$", "path": r"^gpu:\d+ \(.*?\): (.*)$"}
    notes = {name: re.search(one, text, re.MULTILINE) for name, one in more.items()}
    return {
        "hits": int(found[1]),
        "images": int(found[2]),
        "mpixel": float(found[3]),
        "mpixel_s": float(found[5]),
        "limit": found[6],
    } | {name: note[1] for name, note in notes.items() if note}


def scan_hits(text: str) -> list[str]:
    """Returns the hits of `peerlane scan --json` in an order of their own."""
    lines = sorted(line for line in text.splitlines() if line)
    for line in lines:
        if not json.loads(line)["schema"].startswith("peerlane.hit/"):
            raise ValueError(f"not a hit: {line}")
    return lines


def fio_gb_s(text: str) -> float:
    """Reads the rate out of the JSON of a fio job that reads."""
    # Notes of fio may come before the object.
    job = json.loads(text[text.index("{") :])["jobs"][0]
    if job["error"]:
        raise StepError(f"fio: error {job['error']}")
    return float(job["read"]["bw_bytes"]) / GB


def dd_gb_s(text: str) -> float:
    """Reads the rate out of the last line of dd in the C locale."""
    found = re.search(r"^(\d+) bytes .*copied, ([0-9.e+-]+) s", text, re.MULTILINE)
    if not found:
        raise ValueError("there is no line with the bytes copied")
    return int(found[1]) / float(found[2]) / GB


def json_lines(text: str) -> list[dict[str, Any]]:
    """Reads one JSON object a line; other lines are those of libraries."""
    return [json.loads(line) for line in text.splitlines() if line.startswith("{")]


def code_block(page: str, holds: str) -> str:
    """Returns the fenced block of a Markdown page that holds a text."""
    blocks: Sequence[str] = re.findall(r"^```\w*\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    for block in blocks:
        if holds in block:
            return block
    raise ValueError(f"no block holds {holds!r}")
