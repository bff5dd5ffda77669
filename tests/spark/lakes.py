"""What tests of runs share: sources out of captures, and the rows of a lake's tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from chispa import assert_df_equality
from deltalake import DeltaTable
from pyspark.sql import functions as F

from kip848_spark.kafka.admin import OFFSETS_TOPIC
from kip848_spark.lake.tables import TABLES
from kip848_spark.spark.sources import CaptureSource
from kip848_spark.spark.storage.tables import LakeTables
from kip848_spark.state.folded_rows import CONTROL_STATE
from kip848_spark.state.partition_fold import CARRY

OF_THE_RUN = ("run_id", "cluster_id")
DATA_TABLES = tuple(name for name in TABLES if name != "runs")
_OF_RUNS = ("commit_summaries", "readiness")
TABLES_OF_RECORDS = tuple(name for name in DATA_TABLES if name not in _OF_RUNS)
"""The tables that follow from the records alone, however many runs have read them."""


def source(path: Path) -> CaptureSource:
    return CaptureSource(str(path), "parquet", OFFSETS_TOPIC)


def rows(lake: LakeTables, table: str, leave_out: Sequence[str] = OF_THE_RUN) -> list[str]:
    """The rows of a table as text, sorted: equal lists are equal tables."""
    frame = lake.read(table).drop(*leave_out)
    if table == CONTROL_STATE:  # how the carry of folds is packed depends on the runs
        frame = frame.where(F.col("kind") != CARRY)
    return sorted(repr(row) for row in frame.collect())


def rows_of_files(
    table: str,
    storage_options: Mapping[str, str] | None = None,
    leave_out: Sequence[str] = OF_THE_RUN,
) -> list[str]:
    """As `rows` of the Delta table at ``table``, read by delta-rs and not by Spark."""
    found = DeltaTable(table, storage_options=dict(storage_options or {})).to_pyarrow_table()
    return rows_of_table(found, leave_out)


def rows_of_table(found: pa.Table, leave_out: Sequence[str] = OF_THE_RUN) -> list[str]:
    """The rows of a table that was read, as those of `rows`."""
    if "raw_key" in found.column_names and "kind" in found.column_names:
        found = found.filter(pc.fill_null(pc.not_equal(found["kind"], CARRY), True))
    names = [name for name in found.column_names if name not in leave_out]
    return sorted(map(repr, found.select(names).to_pylist()))


def assert_same_rows(
    lake: LakeTables,
    expected: LakeTables,
    tables: Sequence[str] = DATA_TABLES,
    leave_out: Sequence[str] = OF_THE_RUN,
) -> None:
    """The tables of two local lakes have the same rows. delta-rs reads them, in milliseconds;
    the rows that differ are shown through Spark."""
    for table in tables:
        left, right = (
            rows_of_files(f"{one.place.folder}/{table}", leave_out=leave_out)
            for one in (lake, expected)
        )
        if left != right:
            _show_difference(lake, expected, table, leave_out)
            raise AssertionError(f"The rows of {table} differ: {left} != {right}")


def _show_difference(
    lake: LakeTables, expected: LakeTables, table: str, leave_out: Sequence[str]
) -> None:
    """Raises DataFramesNotEqualError, which lists the rows that only one of the lakes has."""
    frames = []
    for one in (lake, expected):
        # One column of text: rows with maps can be neither sorted nor subtracted.
        columns = one.read(table).drop(*leave_out)
        frames.append(columns.select(F.to_json(F.struct("*")).alias(table)))
    found, wanted = frames
    assert_df_equality(
        found.exceptAll(wanted),
        wanted.exceptAll(found),
        ignore_nullable=True,
        ignore_row_order=True,
    )


def as_dicts(lake: LakeTables, table: str) -> list[dict[str, Any]]:
    return [row.asDict(recursive=True) for row in lake.read(table).collect()]


def write_part(capture: Path, to: Path, below: dict[int, int]) -> Path:
    """The records of a capture below an offset a partition, as a capture of its own."""
    table = pq.read_table(capture)
    ends = pa.array([below.get(p, 0) for p in table["partition"].to_pylist()])
    pq.write_table(table.filter(pc.less(table["offset"], ends)), to)
    return to


def halves(capture: Path) -> dict[int, int]:
    """An offset a partition that cuts its records into two halves."""
    table = pq.read_table(capture, columns=["partition", "offset"])
    cuts: dict[int, int] = {}
    for partition in set(table["partition"].to_pylist()):
        own = table.filter(pc.equal(table["partition"], partition))["offset"].to_pylist()
        cuts[partition] = own[len(own) // 2]
    return cuts
