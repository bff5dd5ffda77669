"""The two implementations of a lake's tables: what a run of the whole program does not show."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable
from pyspark.sql import Row, SparkSession

from kip848_spark.errors import LakeError
from kip848_spark.lake.arrow_files import RowWriter
from kip848_spark.lake.conditions import Condition
from kip848_spark.lake.location import Location
from kip848_spark.lake.rows_with import COMMITS
from kip848_spark.lake.tables import TABLES
from kip848_spark.spark.storage import staged_files, worker_written
from kip848_spark.spark.storage.opening import WRITER, open_lake
from kip848_spark.spark.storage.spark_written import SparkWrittenTables
from kip848_spark.spark.storage.table_job import WriteMode
from kip848_spark.spark.storage.tables import LakeTables
from kip848_spark.spark.storage.worker_written import WorkerWrittenTables
from kip848_spark.state.kinds import COMMIT, PARTITIONS, SHARE_STATE
from kip848_spark.wire.batches import Batches


@dataclass(frozen=True)
class TwoTables:
    """A job that writes each number to `gaps`, and the even ones to `topics`. It notes each of its
    runs in the file ``runs``."""

    runs: str

    @property
    def modes(self) -> Mapping[str, WriteMode]:
        return {"gaps": "append", "topics": "overwrite", "rewinds": "append"}

    def write_tables(
        self, batches: Batches, writers: Mapping[str, RowWriter]
    ) -> list[dict[str, Any]]:
        with Path(self.runs).open("a") as file:
            file.write(f"{os.getpid()}\n")
        total = 0
        for batch in batches:
            numbers = batch.column(0).cast(pa.int32())
            total += len(numbers)
            cause = pa.array(["unknown"] * len(numbers)).dictionary_encode()
            offsets = batch.column(0)
            writers["gaps"].write(
                {"partition": numbers, "first_offset": offsets, "last_offset": offsets,
                 "cause": cause}
            )  # fmt: skip
            even = [n for n in numbers.to_pylist() if n % 2 == 0]
            none = pa.nulls(len(even), pa.string())
            racks = pa.nulls(len(even), TABLES["topics"].fields["racks"])
            writers["topics"].write(
                {"topic": pa.array([str(n) for n in even]), "topic_id": none,
                 "partitions": pa.array(even, pa.int32()), "racks": racks}
            )  # fmt: skip
        return [{"total": total}]


def lake_files(lake: Path) -> list[Path]:
    return [*(lake / "gaps").glob("*.parquet"), *(lake / "topics").glob("*.parquet")]


@pytest.mark.slow
@pytest.mark.parametrize("altered", [False, True], ids=["plain", "altered"])
def test_a_job_runs_once_for_all_tables_that_spark_writes(
    altered: bool, spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each table was a run of the whole job once, 13 in a replay. A table that another program has
    altered does not get files that lack what the table demands."""
    monkeypatch.setattr(staged_files, "FILE_BYTES", 100_000)
    lake = open_lake(spark, str(tmp_path / "a [lake]"), by_spark=True)
    lake.create()
    if altered:
        for table in ("gaps", "topics", "rewinds"):
            place = lake.location(table)
            spark.sql(f"ALTER TABLE delta.`{place}` SET TBLPROPERTIES "
                      "(delta.enableChangeDataFeed = true)")  # fmt: skip
    before = lake.versions()
    runs = tmp_path / "runs"
    rows = spark.range(0, 120_001, numPartitions=1)
    written = lake.run_job(TwoTables(str(runs)), rows, "run-1", "cluster")
    assert dict(written.rows) == {"gaps": 120_001, "topics": 60_001, "rewinds": 0}
    assert written.reports == [{"total": 120_001}]
    gaps = lake.read("gaps").orderBy("first_offset").toPandas()
    topics = lake.read("topics").orderBy("partitions").toPandas()
    assert lake.read("rewinds").count() == 0
    assert gaps["last_offset"].tolist() == list(range(120_001))
    assert {*gaps["cause"], *gaps["run_id"], *gaps["cluster_id"]} == {
        "unknown", "run-1", "cluster",
    }  # fmt: skip
    assert topics["partitions"].tolist() == list(range(0, 120_001, 2))
    assert len(runs.read_text().splitlines()) == 1
    lake.run_job(TwoTables(str(runs)), spark.range(0, 3, numPartitions=1), "run-2", "cluster")
    assert lake.read("gaps").count() == 120_004
    assert sorted(row["topic"] for row in lake.rows("topics")) == ["0", "2"]
    assert lake.versions()["gaps"] == before["gaps"] + 2
    assert lake.files.names("_kip848_staged") == []
    left = tmp_path / "a [lake]" / "_kip848_staged" / "part-of-a-killed-run"
    left.parent.mkdir()
    left.write_bytes(b"rows")
    lake.restore(lake.versions())
    assert not left.parent.exists()
    by_workers = [path.name.count("-c000") == 0 for path in lake_files(tmp_path / "a [lake]")]
    assert all(by_workers) is not altered  # Spark numbers the files that it writes
    # What delta-rs lists is what Spark lists: sizes and names of the files are right.
    names = {file.name for file in Path(tmp_path / "a [lake]" / "topics").glob("*.parquet")}
    for add in pa.table(DeltaTable(str(tmp_path / "a [lake]" / "topics")).get_add_actions())[
        "path"
    ].to_pylist():
        assert add in names


def test_nothing_is_committed_that_the_driver_does_not_see(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Executors of a cluster may have another folder of the same name."""
    (tmp_path / "gaps").mkdir()
    (tmp_path / "gaps" / "there.parquet").write_bytes(b"1234")
    tables = WorkerWrittenTables(spark, Location.local(str(tmp_path), tmp_path))

    def sent(name: str, size: int) -> list[Row]:
        file = Row(table="gaps", name=name, size=size, modified_ms=0, rows=1, stats="{}")
        return [Row(file=file, report=None)]

    monkeypatch.setattr(worker_written, "runs_here", lambda spark: False)
    assert len(tables._written(sent("there.parquet", 4))) == 1
    for name, size in (("elsewhere.parquet", 4), ("there.parquet", 5)):
        with pytest.raises(LakeError, match="do not write to the same folder"):
            tables._written(sent(name, size))


def test_a_setting_makes_spark_the_writer(spark: SparkSession, tmp_path: Path) -> None:
    assert isinstance(open_lake(spark, str(tmp_path / "lake")), WorkerWrittenTables)
    spark.conf.set(WRITER, "spark")
    try:
        assert isinstance(open_lake(spark, str(tmp_path / "lake")), SparkWrittenTables)
    finally:
        spark.conf.unset(WRITER)


@pytest.mark.parametrize("by_spark", [False, True], ids=["delta-rs", "spark"])
def test_distinct_values_are_the_same_whoever_reads(
    by_spark: bool, spark: SparkSession, tmp_path: Path
) -> None:
    """A name of a topic that one of them lost, or took from a row that the condition excludes,
    would be missing or wrong in the state tables of that kind of lake only."""
    written = open_lake(spark, str(tmp_path / "lake"))
    written.create()
    schema = TABLES["group_records"].schema
    own = pa.schema([field for field in schema if field.name not in ("run_id", "cluster_id")])
    rows = [
        {"kind": kind, PARTITIONS: names and {"topics": [_described(*one) for one in names]}}
        for kind, names in (
            (PARTITIONS, [("A", "orders"), ("B", "payments")]),
            (PARTITIONS, [("A", "orders")]),
            (PARTITIONS, None),
            ("other", [("C", "not-asked-for")]),
        )
    ]
    share = {"initializing_topics": [_described("D", "clicks")], "initialized_topics": None}
    rows.append({"kind": SHARE_STATE, SHARE_STATE: share})
    written.append_columns("group_records", pa.Table.from_pylist(rows, own), "1", None)
    asked = [Condition("kind", "among", (PARTITIONS, SHARE_STATE))]
    lake = open_lake(spark, str(tmp_path / "lake"), by_spark=by_spark)
    lists = [(PARTITIONS, "topics")]
    lists += [(SHARE_STATE, f"{word}_topics") for word in ("initializing", "initialized")]
    names = lake.distinct("group_records", ("topic_id", "topic_name"), asked, inside=lists)
    assert names == {("A", "orders"), ("B", "payments"), ("D", "clicks")}
    assert lake.distinct("group_records", ("kind", "group_id")) == {
        (PARTITIONS, None),
        ("other", None),
        (SHARE_STATE, None),
    }


def _described(topic_id: str, name: str) -> dict[str, Any]:
    return {"topic_id": topic_id, "topic_name": name}


@pytest.mark.slow
def test_records_without_commits_are_read_without_their_files(
    capture_lake: LakeTables, spark_written_lake: LakeTables
) -> None:
    """Of both writers: the other records are complete, and no file of commits is opened."""
    expected: list[Row] | None = None
    for lake in (capture_lake, spark_written_lake):
        others = lake.read_later("records", None, COMMITS)
        place = ("partition", "offset", "kind")
        found = sorted(others.select(*place).collect())
        all_rows = lake.read("records").select(*place).collect()
        assert found == sorted(row for row in all_rows if row["kind"] != COMMIT)
        assert 0 < len(found) < len(all_rows)
        expected = expected or found
        assert found == expected
        assert lake.rows_to_read("records", None, COMMITS) >= len(found)
    assert capture_lake.rows_to_read("records", None, COMMITS) == len(expected or ())
    opened = capture_lake.read_later("records", None, COMMITS).inputFiles()
    assert 0 < len(opened) < len(capture_lake.read("records").inputFiles())

    run = "20991128T020000.000000Z-abcd"
    assert capture_lake.read_later("records", run, COMMITS).count() == 0
