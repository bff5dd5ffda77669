"""Maintenance between two nights: fewer files, the same rows, and a next night as if nothing had
happened."""

from __future__ import annotations

import os
import time
from datetime import UTC, datetime
from pathlib import Path

import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from kip848_spark.errors import LakeError, UsageError
from kip848_spark.lake.snapshot import LakeSnapshot
from kip848_spark.lake.tables import TABLES
from kip848_spark.spark.maintenance import run_maintenance
from kip848_spark.spark.pipeline import run_ingest
from kip848_spark.spark.schemas import spark_schema
from kip848_spark.spark.storage.opening import open_lake
from kip848_spark.spark.storage.tables import LakeTables
from tests.captures import COMMITTED
from tests.conftest import DATA
from tests.spark.lakes import (
    DATA_TABLES,
    assert_same_rows,
    halves,
    rows_of_files,
    source,
    write_part,
)

CAPTURE = DATA / "kafka-4.3.1" / COMMITTED
DAYS_3 = 3 * 86_400
STATE = ("groups", "members", "assignments", "offsets", "offset_activity", "topics")
"""What does not depend on where the nights cut the log (the causes of gaps do)."""


def files(lake: LakeTables, table: str) -> set[str]:
    return {path.name for path in Path(lake.path, table).glob("*.parquet")}


@pytest.mark.long
@pytest.mark.timeout(1200)
def test_maintenance_between_two_nights(
    spark: SparkSession, audited_lake: LakeTables, tmp_path: Path
) -> None:
    """A third of the records, the first half, then upkeep, then everything."""
    cuts = halves(CAPTURE)
    lake = open_lake(spark, str(tmp_path / "lake"))
    first = write_part(CAPTURE, tmp_path / "first.parquet", {p: o // 2 for p, o in cuts.items()})
    second = write_part(CAPTURE, tmp_path / "second.parquet", cuts)
    for part in (first, second):
        run_ingest(source(part), lake, then_replay=True, then_audit=True)
    before = {name: rows_of_files(f"{lake.path}/{name}") for name in DATA_TABLES}
    reader = LakeSnapshot(lake.place)  # at work while the upkeep runs
    count = len(DeltaTable(f"{lake.path}/records").file_uris())
    assert count > 1
    old, young = (Path(lake.path, "records", f"part-{name}.parquet") for name in ("old", "young"))
    for orphan in (old, young):  # what a killed task leaves
        orphan.write_bytes(b"nothing")
    os.utime(old, (time.time() - DAYS_3,) * 2)

    done = run_maintenance(lake, 24)

    assert done.merged["records"] == count
    assert len(DeltaTable(f"{lake.path}/records").file_uris()) == 2  # commits, and the others
    assert done.merged["member_history"] > 1
    assert {name: rows_of_files(f"{lake.path}/{name}") for name in DATA_TABLES} == before
    assert not old.exists()
    assert young.exists()
    after = LakeSnapshot(lake.place)
    for name in DATA_TABLES:  # readers of the run before, and of the upkeep
        assert sorted(map(repr, reader.rows(name))) == sorted(map(repr, after.rows(name))), name

    assert not run_ingest(source(second), lake, then_replay=True, then_audit=True).changed
    run_ingest(source(CAPTURE), lake, then_replay=True, then_audit=True)
    assert_same_rows(lake, audited_lake, STATE)

    # Old versions lose their files, the kept one does not.
    newest = lake.versions()["groups"]
    kept = after.run.table_versions["groups"]
    with lake.hold_lease():
        assert lake.vacuum("groups", 0, [kept])
    assert rows_of_files(f"{lake.path}/groups")
    assert newest > kept
    assert after.rows("groups")
    with pytest.raises(LakeError):
        LakeSnapshot(lake.place, _first_end(after)).rows("groups")


def _first_end(snapshot: LakeSnapshot) -> datetime:
    """When the first run finished."""
    end: datetime = min(row["finished_at"] for row in snapshot.rows("runs"))
    return end.astimezone(UTC)


def test_files_stay_for_a_day(audited_lake: LakeTables) -> None:
    with pytest.raises(UsageError, match="at least 24 hours"):
        run_maintenance(audited_lake, 23)


@pytest.mark.slow
def test_a_table_that_spark_writes(spark: SparkSession, tmp_path: Path) -> None:
    """Spark merges the files of its tables, and keeps those of the last week."""
    lake = open_lake(spark, str(tmp_path / "lake"), by_spark=True)
    lake._create(TABLES["gaps"])
    for partition in range(3):
        row = {"partition": partition, "first_offset": 1, "last_offset": 2, "cause": "unknown"}
        lake.append_rows("gaps", [row], "run", None)
    before = rows_of_files(f"{lake.path}/gaps")
    assert lake.compact("gaps") == 3
    assert len(DeltaTable(f"{lake.path}/gaps").file_uris()) == 1
    assert lake.vacuum("gaps", 24, []) is None
    assert rows_of_files(f"{lake.path}/gaps") == before
    assert len(files(lake, "gaps")) == 4


@pytest.mark.slow
def test_spark_merges_no_files_of_tables_with_open_rows(
    spark: SparkSession, tmp_path: Path
) -> None:
    lake = open_lake(spark, str(tmp_path / "lake"), by_spark=True)
    lake._create(TABLES["rebalances"])
    schema = spark_schema(TABLES["rebalances"])
    for _ in range(2):
        lake.append("rebalances", spark.createDataFrame([(None,) * len(schema)], schema))
    before = set(DeltaTable(f"{lake.path}/rebalances").file_uris())
    assert len(before) == 2
    assert lake.compact("rebalances") == 0
    assert set(DeltaTable(f"{lake.path}/rebalances").file_uris()) == before
