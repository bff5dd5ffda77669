"""A session that somebody else made: the same results, and its settings stay its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from kip848_spark.checks.results import STATE
from kip848_spark.config.storage import StorageSettings
from kip848_spark.spark.jobs.audit import AuditRequest, agreement_rows
from kip848_spark.spark.pipeline import run_audit, run_ingest
from kip848_spark.spark.session_settings import prepared_session, size_tasks, task_settings
from kip848_spark.spark.storage.opening import open_lake
from kip848_spark.spark.storage.tables import LakeTables
from tests.spark.lakes import TABLES_OF_RECORDS, rows, source
from tests.spark.plain_session import CAPTURE, SINCE, ZONE

pytestmark = pytest.mark.slow

PLAIN: dict[str, str] = {}
HOSTILE = {
    "spark.sql.timestampType": "TIMESTAMP_NTZ",
    "spark.sql.execution.arrow.useLargeVarTypes": "true",
    "spark.sql.parquet.binaryAsString": "true",
    "spark.sql.ansi.enabled": "false",
    "spark.sql.caseSensitive": "true",
    "spark.sql.shuffle.partitions": "3",
    "spark.sql.adaptive.enabled": "true",
}
"""Settings that are allowed, and that change what Spark or its workers make of a frame."""
MOST_TASKS = 400
"""Tasks of a run of 495 records, its audit included. With Spark's defaults there were 2,724."""


def in_a_session_of_its_own(
    folder: Path, capture: Path, settings: dict[str, str]
) -> dict[str, Any]:
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "tests.spark.plain_session",
            str(folder),
            str(capture),
            json.dumps(settings),
        ],
        env={**os.environ, "TZ": "Asia/Tokyo", "PYSPARK_PYTHON": sys.executable},
        capture_output=True,
        text=True,
        timeout=400,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    reported: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return reported


@pytest.fixture(scope="module")
def damaged(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The capture with one group's last epoch too high, so that an audit finds something."""
    table = pq.read_table(CAPTURE)
    keys, values = (table[name].to_pylist() for name in ("key", "value"))
    row = max(n for n, key in enumerate(keys) if key[:2] == b"\0\3" and values[n] is not None)
    epoch = int.from_bytes(values[row][2:6], "big")
    values[row] = values[row][:2] + (epoch + 7).to_bytes(4, "big") + values[row][6:]
    file = tmp_path_factory.mktemp("damaged") / "capture.parquet"
    at = table.column_names.index("value")
    pq.write_table(table.set_column(at, "value", pa.array(values, pa.binary())), file)
    return file


@pytest.fixture(scope="module")
def ours(
    spark: SparkSession, damaged: Path, tmp_path_factory: pytest.TempPathFactory
) -> LakeTables:
    lake = open_lake(spark, str(tmp_path_factory.mktemp("ours") / "lake"))
    run_ingest(source(damaged), lake, then_replay=True, then_audit=True)
    return lake


@pytest.mark.parametrize("settings", [PLAIN, HOSTILE], ids=["plain", "hostile"])
def test_a_session_of_others_gives_the_same_and_is_left_as_it_was(
    settings: dict[str, str], ours: LakeTables, damaged: Path, spark: SparkSession, tmp_path: Path
) -> None:
    reported = in_a_session_of_its_own(tmp_path, damaged, settings)

    assert reported["before"]["spark.sql.session.timeZone"] == ZONE
    assert reported["after"] == reported["before"]
    assert reported["zone"] == "UTC"
    for name in ("local", "uri"):
        lake = open_lake(spark, str(tmp_path / name))
        for table in TABLES_OF_RECORDS:
            if table not in ("agreement", "findings"):
                assert rows(lake, table) == rows(ours, table), (name, table)
        judged = reported["agreement"][name]
        assert by_records(judged) == by_records(ours.rows("agreement"))
        assert found(lake) == found(ours) != []
        assert reported["tasks"][name] < MOST_TASKS, reported["tasks"]
    now, before = reported["as of"]
    assert datetime.fromisoformat(now) in [run["finished_at"] for run in lake.rows("runs")]
    assert "had finished by" in before
    since = run_audit(ours, AuditRequest(since=SINCE)).run
    assert since is not None
    expected = by_records(agreement_rows(ours, since.run_id))
    assert by_records(reported["agreement"]["since"]) == expected

    kinds = {
        column.physical_type
        for file in tmp_path.rglob("part-*.parquet")
        for column in pq.ParquetFile(file).schema
    }
    assert "INT64" in kinds
    assert "INT96" not in kinds
    copy, whole = (in_order(pq.read_table(path)) for path in (tmp_path / "copy", damaged))
    for column in ("partition", "offset", "timestamp", "key", "value"):
        assert copy[column].to_pylist() == whole[column].to_pylist()


def found(lake: LakeTables) -> list[dict[str, Any]]:
    """The findings of the run that read the capture."""
    run_id = next(run["run_id"] for run in lake.rows("runs") if run["source"] != "lake")
    rows = [row for row in lake.rows("findings") if row["run_id"] == run_id]
    rows = [row for row in rows if row["check"] != STATE]
    for row in rows:
        del row["run_id"]
    return sorted(rows, key=repr)


def by_records(agreement: list[dict[str, Any]]) -> dict[str, int]:
    """What was verified of the records. What is compared of the state is a sample of the run's."""
    return {row["check"]: row["verified"] for row in agreement if row["check"] != STATE}


def in_order(table: pa.Table) -> pa.Table:
    return table.sort_by([("partition", "ascending"), ("offset", "ascending")])


def test_settings_are_put_back_after_a_failure_and_from_within(spark: SparkSession) -> None:
    name, fitted = "spark.sql.session.timeZone", "spark.sql.shuffle.partitions"
    own = {name: spark.conf.get(name), fitted: spark.conf.get(fitted)}
    try:
        spark.conf.set(name, ZONE)
        spark.conf.unset(fitted)
        with suppress(ZeroDivisionError), prepared_session(spark, 1):
            with prepared_session(spark):
                size_tasks(spark, 10_000_000)
                assert spark.conf.get(name) == "UTC"
                assert spark.conf.get(fitted) == "40"
            assert spark.conf.get(name) == "UTC"
            assert spark.conf.get(fitted) == "1"
            raise ZeroDivisionError
        assert spark.conf.get(name) == ZONE
        assert spark.conf.get(fitted, None) is None
        spark.conf.set(fitted, "7")
        with prepared_session(spark, 10_000_000):
            assert spark.conf.get(fitted) == "7"
    finally:
        for one, value in own.items():
            spark.conf.set(one, value or "")


@pytest.mark.parametrize(
    ("records", "cores", "partitions"),
    [(0, 2, 1), (495, 64, 1), (1_000_000, 64, 4), (10**9, 8, 200), (10**9, 100, 300)],
)
def test_tasks_follow_the_records(records: int, cores: int, partitions: int) -> None:
    assert task_settings(records, cores)["spark.sql.shuffle.partitions"] == str(partitions)


def test_a_store_is_set_for_the_job(spark: SparkSession) -> None:
    stored = StorageSettings({"aws_endpoint_url": "http://127.0.0.1:1", "aws_region": "x"})
    assert in_hadoop(spark, "fs.s3a.endpoint.region") in (None, "")
    with prepared_session(spark, extra=stored.hadoop({})):
        assert in_hadoop(spark, "fs.s3a.endpoint.region") == "x"
        assert in_hadoop(spark, "fs.s3a.endpoint") == "http://127.0.0.1:1"
    assert in_hadoop(spark, "fs.s3a.endpoint.region") in (None, "")


def in_hadoop(spark: SparkSession, name: str) -> str | None:
    """What the file systems that Spark opens would be told."""
    value: str | None = spark._jsparkSession.sessionState().newHadoopConf().get(name)
    return value
