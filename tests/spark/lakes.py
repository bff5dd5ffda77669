"""What tests of runs share: sources out of captures, and the rows of a lake's tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from deltalake import DeltaTable

from kip848_spark.kafka.admin import OFFSETS_TOPIC
from kip848_spark.lake.tables import TABLES
from kip848_spark.spark.sources import CaptureSource
from kip848_spark.spark.storage.tables import LakeTables

OF_THE_RUN = ("run_id", "cluster_id")
DATA_TABLES = tuple(name for name in TABLES if name != "runs")


def source(path: Path) -> CaptureSource:
    return CaptureSource(str(path), "parquet", OFFSETS_TOPIC)


def rows(lake: LakeTables, table: str, leave_out: Sequence[str] = OF_THE_RUN) -> list[str]:
    """The rows of a table as text, sorted: equal lists are equal tables."""
    frame = lake.read(table).drop(*leave_out)
    return sorted(repr(row) for row in frame.collect())


def rows_of_files(table: str, storage_options: Mapping[str, str] | None = None) -> list[str]:
    """As `rows` of the Delta table at ``table``, read by delta-rs and not by Spark."""
    found = DeltaTable(table, storage_options=dict(storage_options or {})).to_pyarrow_table()
    names = [name for name in found.column_names if name not in OF_THE_RUN]
    return sorted(map(repr, found.select(names).to_pylist()))


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
