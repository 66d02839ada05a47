"""Results of a run: one JSON object a line, written as they come."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

SCHEMA = "peerlane-gpu-benchmark/1"

Record = dict[str, Any]


class Results:
    """The results file of a run that has begun."""

    def __init__(self, path: Path, machine: Record) -> None:
        self._file = path.open("x", encoding="utf-8")
        self._write({"schema": SCHEMA, "machine": machine})

    def add(self, part: str, name: str, outcome: str, **fields: Any) -> Record:
        """Writes a result; the outcome is passed, failed, cut or skipped."""
        record: Record = {"part": part, "name": name, "outcome": outcome, **fields}
        self._write(record)
        why = f": {fields['why']}" if "why" in fields else ""
        print(f"{part}: {name}: {outcome}{why}", file=sys.stderr)
        return record

    def close(self) -> None:
        self._file.close()

    def _write(self, record: Record) -> None:
        self._file.write(json.dumps(record) + "\n")
        self._file.flush()


def read(path: Path) -> tuple[Record, list[Record]]:
    """Returns the machine and the results; a last line that a crash cut off is left out."""
    lines = path.read_text(encoding="utf-8").split("\n")
    records = [json.loads(line) for line in lines[:-1]]
    if not records or records[0].get("schema") != SCHEMA:
        raise ValueError(f"{path} is not a results file of benchmarks/gpu.sh")
    return records[0]["machine"], records[1:]
