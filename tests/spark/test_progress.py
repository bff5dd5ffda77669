"""How far a job is, as `kip848_spark.spark.progress` reports it."""

from __future__ import annotations

import shutil
import threading
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from kip848_spark.spark.map_in_arrow import map_in_arrow
from kip848_spark.spark.progress import StageRecords, WorkerCount, counted, show_worker_progress
from kip848_spark.wire.batches import Batches

ROWS = 10_000


def pass_on(batches: Batches) -> Batches:
    yield from batches


class Reports:
    """A `RecordProgress` that keeps what it is called with."""

    def __init__(self) -> None:
        self.seen: list[tuple[int, int | None, str]] = []

    def __call__(self, words: str) -> None: ...

    def records(self, done: int, planned: int | None, unit: str) -> None:
        self.seen.append((done, planned, unit))


def run(spark: SparkSession, count: WorkerCount | None) -> None:
    rows = spark.range(ROWS).repartition(3)
    function = counted(pass_on, count, slice_rows=100)
    assert map_in_arrow(rows, function, pa.schema({"id": pa.int64()})).count() == ROWS


def test_workers_on_this_machine(spark: SparkSession) -> None:
    reports = Reports()
    with show_worker_progress(spark, reports, "rows") as count:
        assert count is not None
        run(spark, count)
    assert reports.seen[-1] == (ROWS, ROWS, "rows")
    assert not [t for t in threading.enumerate() if t.name == "kip848-progress"]


def test_workers_elsewhere(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    """They do not see the driver's folder, so an accumulator has their count."""
    count = WorkerCount(spark)
    monkeypatch.setattr(count, "_of_ended_tasks", spark.sparkContext.accumulator(0))
    shutil.rmtree(count._folder)
    run(spark, count)
    Path(count._folder).mkdir()
    assert count.done() == ROWS
    count.close()
    assert not Path(count._folder).exists()


def test_records_read(spark: SparkSession, tmp_path: Path) -> None:
    spark.range(ROWS).write.parquet(str(tmp_path / "rows"))
    stages = StageRecords(spark)
    stages.refresh()
    assert (stages.read, stages.shuffled) == (0, None)
    ended = threading.Event()
    beside = threading.Thread(target=lambda: refresh_until(stages, ended))
    beside.start()
    spark.read.parquet(str(tmp_path / "rows")).foreach(lambda _: None)
    ended.set()
    beside.join()
    stages.refresh()
    assert stages.read == ROWS


def refresh_until(stages: StageRecords, ended: threading.Event) -> None:
    while not ended.wait(0.01):
        stages.refresh()


def test_a_plain_function_starts_no_thread(spark: SparkSession) -> None:
    with show_worker_progress(spark, print, "rows") as count:
        assert count is None
        assert not [t for t in threading.enumerate() if t.name == "kip848-progress"]
