"""Reads the tables of a report as a program would that only knows docs/report.md."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

Row = dict[str, Any]


def rows_of(table: Mapping[str, Any]) -> list[Row]:
    """The rows of a table, with what the dictionaries stand for."""
    return [
        {name: _value(table, name, column[number]) for name, column in table["columns"].items()}
        for number in range(table["length"])
    ]


def _value(table: Mapping[str, Any], name: str, value: Any) -> Any:
    entries = table["dictionaries"].get(name)
    if entries is None or value is None:
        return value
    return [entries[one] for one in value] if isinstance(value, list) else entries[value]


def group_names(report: Mapping[str, Any]) -> list[str]:
    """The ids of the groups, by row number."""
    names: list[str] = report["groups"]["columns"]["group_id"]
    return names


def tables_of(value: Any, path: str = "") -> Iterator[tuple[str, Mapping[str, Any]]]:
    """All tables of a report, each with its path, such as ``rebalances.list``."""
    if isinstance(value, dict) and value.keys() == {"length", "columns", "dictionaries"}:
        yield path, value
    elif isinstance(value, dict):
        for name, part in value.items():
            yield from tables_of(part, f"{path}.{name}" if path else name)
    elif isinstance(value, list):
        for part in value:
            yield from tables_of(part, path)
