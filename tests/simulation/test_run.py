"""A simulated capture ingested by Spark: the lake contains the expected results."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from kip848_spark.simulation import plan_cluster, simulate
from kip848_spark.spark.pipeline import run_ingest
from kip848_spark.spark.storage.opening import open_lake
from tests.simulation.read_capture import truth
from tests.simulation.test_log import _rows
from tests.spark.lakes import as_dicts, source


def test_lake_contains_the_expected_results(spark: SparkSession, tmp_path: Path) -> None:
    capture = tmp_path / "capture"
    result = simulate(plan_cluster("chaos", 20_000, 11, partitions=4, groups=6), capture)
    lake = open_lake(spark, str(tmp_path / "lake"))
    outcome = run_ingest(source(capture), lake, then_replay=True)
    counts = outcome.run and outcome.run.counts
    assert counts is not None
    assert counts.records_read == result.records
    assert counts.decoded + counts.tombstones == result.records
    assert counts.quarantined == counts.unknown == 0
    assert lake.read("records").count() == result.records
    for table in ("groups", "members", "assignments", "offsets"):
        found = [_in_ms(row) for row in as_dicts(lake, table)]
        assert _rows(table, found) == _rows(table, truth(capture, table)), table


def _in_ms(row: dict[str, Any]) -> dict[str, Any]:
    return {
        name: round(value.timestamp() * 1_000) if isinstance(value, datetime) else value
        for name, value in row.items()
    }
