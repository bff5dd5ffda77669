"""Rows that come to the driver."""

from __future__ import annotations

from typing import Any

from pyspark.sql import DataFrame


def collect_rows(rows: DataFrame) -> list[dict[str, Any]]:
    """All ``rows``, times in UTC.

    `DataFrame.collect` gives times without a zone, in that of the driver's process, where an hour
    of the year is there twice.
    """
    found: list[dict[str, Any]] = rows.toArrow().to_pylist(maps_as_pydicts="strict")
    return found
