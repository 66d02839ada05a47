"""The results of a run as Markdown."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from . import load, scan
from .results import Record

TITLES = {"check": "Functions", "load": "Loading weights", "scan": "Searching images"}
STATES = ("cold", "warm", "tmpfs")


def markdown(machine: Record, results: Sequence[Record]) -> str:
    """Returns the page of a run, which may have ended early."""
    lines = ["# Peerlane on a GPU", "", *machine_lines(machine)]
    writers = {"check": check_lines, "load": load_lines, "scan": scan_lines}
    for part, write in writers.items():
        records = [record for record in results if record["part"] == part]
        if records:
            lines += ["", f"## {TITLES[part]}", "", *write(records)]
    lines += [""] + [f"**{record['name']}**" for record in results if record["part"] == "run"]
    return "\n".join(lines).rstrip("\n") + "\n"


def machine_lines(machine: Record) -> list[str]:
    """Returns the facts of the machine as a list."""

    def text(value: Any) -> str:
        if isinstance(value, dict):
            return ", ".join(f"{key} {text(one)}" for key, one in value.items()) or "none"
        if isinstance(value, list):
            return ", ".join(map(text, value))
        return "unknown" if value is None else str(value)

    return [f"- {name.replace('_', ' ')}: {text(value)}" for name, value in machine.items()]


def rows(head: Sequence[str], body: Iterable[Sequence[str]]) -> list[str]:
    """Returns a table; a bar in a cell would end it."""
    lines = [head, ["---"] * len(head), *body]
    return ["| " + " | ".join(cell.replace("|", "\\|").replace("\n", " ") for cell in line) + " |" for line in lines]


def range_text(values: Sequence[float], digits: int) -> str:
    """Returns the lowest and the highest of values, or the one that there is."""
    low, high = f"{min(values):.{digits}f}", f"{max(values):.{digits}f}"
    return low if low == high else f"{low}-{high}"


def not_passed(records: Iterable[Record]) -> list[str]:
    """Returns the steps that did not pass, each reason once."""
    found: dict[tuple[str, str, str], list[str]] = {}
    for record in records:
        if record["outcome"] != "passed":
            case = ", ".join(str(record[key]) for key in ("data", "poses", "state") if key in record)
            key = (record["name"], record["outcome"], record.get("why", ""))
            cases = found.setdefault(key, [])
            if case and case not in cases:
                cases.append(case)
    return [
        f"- {name}{' (' + '; '.join(cases) + ')' if cases else ''}: {outcome}{': ' + why if why else ''}"
        for (name, outcome, why), cases in found.items()
    ]


def check_lines(records: Sequence[Record]) -> list[str]:
    """Returns a row a step, and the counts."""
    counts = [sum(record["outcome"] == one for record in records) for one in ("passed", "failed", "cut", "skipped")]
    body = []
    for record in records:
        rate = f"{range_text(record['gb_s'], 2)} GB/s" if "gb_s" in record else ""
        note = record.get("why") or record.get("note") or rate
        body.append((record["name"], record["outcome"], f"{record.get('seconds', 0):.1f}", note))
    passed, failed, cut, skipped = counts
    words = f"{passed} passed, {failed} failed, {cut} cut, {skipped} skipped."
    return [words, "", *rows(("step", "result", "s", "note"), body)]


def rates(records: Iterable[Record], key: str, **case: object) -> list[float]:
    """Returns the values of one key in the results that passed and have this case."""
    found: list[float] = []
    for record in records:
        is_one = all(record.get(name) == value for name, value in case.items())
        if is_one and record["outcome"] == "passed" and key in record:
            value = record[key]
            found += value if isinstance(value, list) else [value]
    return found


def cell(records: Sequence[Record], key: str, digits: int, **case: object) -> str:
    """Returns the values of a case; without one its outcome, or a dash if it never ran."""
    values = rates(records, key, **case)
    if values:
        return range_text(values, digits)
    outcomes = {
        str(record["outcome"])
        for record in records
        if all(record.get(name) == value for name, value in case.items())
    }
    # Of several outcomes the one that is news.
    return next((one for one in ("failed", "cut") if one in outcomes), "-")


def ratio(values: Sequence[float], bound: Sequence[float]) -> str:
    """Returns the best value over the best of the bound."""
    return f"{max(values) / max(bound):.2f}" if values and bound else "-"


def load_lines(records: Sequence[Record]) -> list[str]:
    """Returns a table for each set of files, with ratios to disk and copy engine."""
    disk = rates(records, "gb_s", name="fio") or rates(records, "gb_s", name="dd")
    engine = rates(records, "gb_s", name="copy engine")
    disk_name = "dd" if not rates(records, "gb_s", name="fio") and disk else "fio"
    lines = []
    for data in load.DATA:
        of_data = [record for record in records if record.get("data") == data]
        head = [f"{data}, GB/s", "cold", f"of {disk_name}"]
        head += ["warm", "of the engine", "tmpfs", "of the engine", "CPU s, warm", "pinned MiB", "content"]
        body = []
        for name in load.LOADERS:
            if not any(record["name"] == name for record in of_data):
                continue
            line = [name]
            for state in STATES:
                values = rates(of_data, "gb_s", name=name, state=state)
                bound = disk if state == "cold" else engine
                line += [cell(of_data, "gb_s", 2, name=name, state=state), ratio(values, bound)]
            line.append(cell(of_data, "cpu_s", 2, name=name, state="warm"))
            pinned = rates(of_data, "pinned", name=name)
            line.append(f"{max(pinned) / (1 << 20):.0f}" if pinned else "-")
            # One load of a loader is compared, whichever files it reads.
            contents = [record["content"] for record in records if record["name"] == name and "content" in record]
            line.append(contents[0] if contents else "-")
            body.append(line)
        if body:
            lines += [*rows(head, body), ""]
    if disk:
        lines.append(f"- {disk_name}, direct reads of the one file: {range_text(disk, 2)} GB/s")
    if engine:
        lines.append(f"- copy engine alone, pinned memory: {range_text(engine, 2)} GB/s")
    return lines + not_passed(records)


def scan_lines(records: Sequence[Record]) -> list[str]:
    """Returns Mpixel/s of each searcher, and the anchor."""
    cases = [(state, poses) for state in ("warm", "tmpfs") for poses in scan.POSES]
    head = ["Mpixel/s", *(f"{state}, {poses}" for state, poses in cases), "CPU s, warm", "hits"]
    body = []
    searches = [record for record in records if "poses" in record]
    for name in dict.fromkeys(record["name"] for record in searches):
        own = [record for record in searches if record["name"] == name]
        line = [name, *(cell(own, "mpixel_s", 0, state=state, poses=poses) for state, poses in cases)]
        line.append(cell(own, "cpu_s", 2, state="warm", poses=scan.ONE))
        outcomes = {record["outcome"] for record in own}
        line.append("failed" if "failed" in outcomes else "equal" if "passed" in outcomes else "-")
        body.append(line)
    lines = [*rows(head, body), ""] if body else []
    for poses in scan.POSES:
        for key, words in (("path", "images to the GPU"), ("kernels", "kernels")):
            own = [record[key] for record in searches if record["poses"] == poses and key in record]
            lines += [f"- {words}, {poses}: {own[-1]}"] if own else []
    anchor = rates(records, "mpixel_s", name="correlation by cuFFT")
    if anchor:
        lines.append(f"- whole correlation by cuFFT, images in the GPU's memory: {anchor[0]:.0f} Mpixel/s")
    return lines + not_passed(records)
