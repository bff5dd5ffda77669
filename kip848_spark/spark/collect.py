"""Collects rows to the driver."""

from __future__ import annotations

from typing import Any

from pyspark.sql import DataFrame


def collect_rows(rows: DataFrame) -> list[dict[str, Any]]:
    """All ``rows`` as dicts, with times in UTC.

    `DataFrame.collect` returns naive times in the time zone of the driver's process, where one hour
    of the year is ambiguous.
    """
    found: list[dict[str, Any]] = rows.toArrow().to_pylist(maps_as_pydicts="strict")
    return found
