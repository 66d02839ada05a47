"""Records as tables of pandas."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ._types import Record

if TYPE_CHECKING:
    import pandas


def to_pandas(record: Record | Sequence[Record]) -> pandas.DataFrame:
    """A record, or several of a kind, as a table; pandas is needed for it and nothing else.

    One row for each target of a plan or copy, case of a benchmark, figure of
    :func:`peerlane.reproduce` or hit of :func:`peerlane.scan`; for any other record one row. Columns are the paths of the fields with dots
    between them (``latency.read.p99_ns``); lists stay lists.

    Raises
    ------
    ModuleNotFoundError
        pandas is not installed.

    Examples
    --------
    >>> import peerlane
    >>> table = peerlane.to_pandas(peerlane.reproduce(["004"]))
    >>> "figure" in table.columns and len(table) > 5
    True
    """
    import pandas

    records = [record] if isinstance(record, Mapping) else record
    return pandas.DataFrame([_flat(row) for one in records for row in _rows(one)])


def _rows(record: Record) -> Sequence[Mapping[str, Any]]:
    """The rows that a record holds."""
    jobs = record.get("jobs")
    if isinstance(jobs, list):
        return [{"source": job["source"], **target} for job in jobs for target in job["targets"]]
    for name in ("cases", "rows", "hits", "changes"):
        rows = record.get(name)
        if isinstance(rows, list) and all(isinstance(row, Mapping) for row in rows):
            return rows
    return [record]


def _flat(row: Mapping[str, Any], before: str = "") -> dict[str, Any]:
    """The fields of a row by their paths."""
    fields: dict[str, Any] = {}
    for name, value in row.items():
        if isinstance(value, Mapping):
            fields.update(_flat(value, f"{before}{name}."))
        else:
            fields[f"{before}{name}"] = value
    return fields
