"""A topic read in three runs gives the tables of one run, row for row."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from kip848_spark.simulation import plan_cluster, simulate
from kip848_spark.spark.pipeline import run_ingest
from kip848_spark.spark.storage.opening import open_lake
from tests.spark.lakes import (
    TABLES_OF_RECORDS,
    assert_same_rows,
    rows_of_files,
    source,
)

pytestmark = pytest.mark.slow

OF_A_GAP = ("cause", "gap_cause")
"""A run does not know which keys the runs before it have seen, so it may not know the cause."""
ABORTED = 15
"""The number of offsets of a transaction that was open between two runs."""
INTERVALS = ("group_history", "member_history", "assignment_history", "rebalances")


@pytest.mark.parametrize(
    "by_spark",
    [
        pytest.param(False, id="workers"),
        pytest.param(True, id="spark", marks=pytest.mark.long),  # four runs through Spark
    ],
)
def test_three_nights_are_one(by_spark: bool, spark: SparkSession, tmp_path: Path) -> None:
    simulate(plan_cluster("chaos", 6_000, 5, partitions=3), tmp_path / "capture")
    files = sorted((tmp_path / "capture").glob("partition-*.parquet"))
    whole = pa.concat_tables(map(pq.read_table, files))
    ends = [pc.quantile(whole["offset"], night / 3)[0].as_py() for night in (1, 2, 3)]
    # A transaction that was open when the first run ended was aborted.
    later = pc.greater(whole["offset"], ends[0])
    aborted = pc.if_else(later, pc.add(whole["offset"], ABORTED), whole["offset"])
    whole = whole.set_column(whole.schema.get_field_index("offset"), "offset", aborted)
    ends = [ends[0], *(end + ABORTED for end in ends[1:])]
    lake = open_lake(spark, str(tmp_path / "nights"), by_spark=by_spark)
    for night, until in enumerate(ends, 1):
        part = tmp_path / f"night-{night}.parquet"
        pq.write_table(whole.filter(pc.less_equal(whole["offset"], until)), part)
        run_ingest(source(part), lake, then_replay=True)
    once = open_lake(spark, str(tmp_path / "once"))
    run_ingest(source(part), once, then_replay=True)
    leave_out = ("run_id", "cluster_id", *OF_A_GAP)
    assert_same_rows(lake, once, tables=TABLES_OF_RECORDS, leave_out=leave_out)
    for table in INTERVALS:
        assert rows_of_files(f"{lake.place.folder}/{table}"), table
