"""Tombstones that the log cleaner removed between two runs are inferred."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from kip848_spark.simulation import plan_cluster, simulate
from kip848_spark.spark import pipeline
from kip848_spark.spark.jobs.lost_tombstones import Survey
from kip848_spark.spark.pipeline import run_ingest, run_replay
from kip848_spark.spark.storage.opening import open_lake
from tests.spark.lakes import TABLES_OF_RECORDS, assert_same_rows, rows, source

pytestmark = pytest.mark.slow

STATE = ("groups", "members", "assignments", "offsets")


def clean(log: pa.Table, upto: int) -> pa.Table:
    """What the log cleaner leaves of the records up to an offset once it may remove tombstones: the
    newest record of each key unless it is a tombstone; and all later records."""
    records = log.to_pylist()
    newest = {(r["partition"], r["key"]): r["offset"] for r in records if r["offset"] <= upto}
    left = [
        r
        for r in records
        if r["offset"] > upto
        or (newest[r["partition"], r["key"]] == r["offset"] and r["value"] is not None)
    ]
    return pa.Table.from_pylist(left, log.schema)


def lost_deletions(log: pa.Table, read: int, cleaned: int) -> int:
    """The number of keys that had a value at the offset ``read``, and whose newest record in the
    whole log is a tombstone up to the offset ``cleaned``."""
    before: dict[tuple[int, bytes], bool] = {}
    newest: dict[tuple[int, bytes], tuple[int, bool]] = {}
    for row in log.to_pylist():
        key = row["partition"], row["key"]
        newest[key] = row["offset"], row["value"] is None
        if row["offset"] <= read:
            before[key] = row["value"] is not None
    return sum(
        deleted and offset <= cleaned and before.get(key, False)
        for key, (offset, deleted) in newest.items()
    )


def survey_of(
    spark: SparkSession, capture: Path, read: int
) -> Callable[..., AbstractContextManager[Survey]]:
    """`survey_if_late` of a cluster whose topic is ``capture``; the lake has read the offsets up to
    ``read``."""

    @contextmanager
    def survey(*_: object) -> Iterator[Survey]:
        places = spark.read.parquet(str(capture)).select("partition", "offset")
        first = {row["partition"]: 0 for row in places.select("partition").distinct().collect()}
        yield Survey(datetime.now(UTC), places.where(F.col("offset") <= read), first)

    return survey


@pytest.mark.parametrize(
    ("profile", "seed"), [("chaos", 1), ("chaos", 6), ("migration", 6), ("types", 1), ("churn", 1)]
)
def test_the_state_is_that_of_the_whole_log(
    profile: str, seed: int, spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    simulate(plan_cluster(profile, 6_000, seed, partitions=3), tmp_path / "capture")
    files = sorted((tmp_path / "capture").glob("partition-*.parquet"))
    log = pa.concat_tables(map(pq.read_table, files))
    read, cleaned = (int(np.quantile(log["offset"].to_numpy(), part)) for part in (0.4, 0.8))
    parts = {
        "first": log.filter(pc.less_equal(log["offset"], read)),
        "cleaned": clean(log, cleaned),
        "whole": log,
    }
    for name, table in parts.items():
        pq.write_table(table, tmp_path / f"{name}.parquet")
    first, second, whole = (tmp_path / f"{name}.parquet" for name in parts)

    truth = open_lake(spark, str(tmp_path / "truth"))
    run_ingest(source(whole), truth, then_replay=True)
    lake = open_lake(spark, str(tmp_path / "lake"))
    run_ingest(source(first), lake, then_replay=True)
    monkeypatch.setattr(pipeline, "survey_if_late", survey_of(spark, second, read))
    done = run_ingest(source(second), lake, then_replay=True, then_audit=True)
    assert done.missed_since is None
    assert done.run is not None
    assert done.run.counts is not None
    inferred = lake.read("records").where("inferred").toArrow()
    assert len(inferred) == done.run.counts.inferred == lost_deletions(log, read, cleaned) > 0

    assert_same_rows(lake, truth, tables=STATE)
    assert rows(lake, "findings") == []
    read_again = {(row["partition"], row["offset"]) for row in parts["cleaned"].to_pylist()}
    for row in inferred.to_pylist():
        place = row["partition"], row["offset"]
        assert place not in read_again
        assert read < row["offset"] <= cleaned
        assert row["tombstone"]

    before = {table: rows(lake, table) for table in TABLES_OF_RECORDS}
    run_replay(lake, from_scratch=True)
    for table, expected in before.items():
        assert rows(lake, table) == expected, table
