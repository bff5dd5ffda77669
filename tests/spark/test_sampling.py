"""The samples that an audit takes of a large lake: equal data give equal samples."""

from __future__ import annotations

import shutil
from dataclasses import replace
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from kip848_spark.checks.group_task import COMPARED_AT_POINT_IN_TIME, OFFSETS_COMPARED
from kip848_spark.checks.results import STATE
from kip848_spark.kafka.topic import OffsetRange, TopicIdentity
from kip848_spark.lake.ledger import Run
from kip848_spark.simulation import plan_cluster, simulate
from kip848_spark.spark.jobs.audit import AuditRequest
from kip848_spark.spark.jobs.point_in_time import points_in_time
from kip848_spark.spark.jobs.sampling import SAMPLE_RECORDS, PartitionSample
from kip848_spark.spark.pipeline import run_audit, run_ingest
from kip848_spark.spark.storage.opening import open_lake
from kip848_spark.spark.storage.tables import LakeTables
from tests.spark.lakes import as_dicts, source

pytestmark = pytest.mark.slow

SMALL = SAMPLE_RECORDS // 10


def run_of(number: int, ends: list[int]) -> Run:
    ranges = tuple(OffsetRange(partition, 0, end) for partition, end in enumerate(ends))
    now = datetime.now(UTC)
    return Run(f"run-{number}", "test", TopicIdentity("t", None, None), "shipped", ranges, {}, now)


def test_all_of_a_small_lake() -> None:
    run = run_of(0, [SMALL, 0, SMALL])
    assert sorted(r.partition for r in PartitionSample.of(run).ranges) == [0, 2]
    assert all(r.start == 0 for r in PartitionSample.of(run).ranges)
    assert PartitionSample.of(replace(run, ranges=())).sql == "false"


@pytest.mark.parametrize("number", range(20))
def test_adjacent_partitions_up_to_the_sample_size(number: int) -> None:
    hot = 7
    ends = [SMALL] * 50
    ends[hot] = 20 * SAMPLE_RECORDS
    sample = PartitionSample.of(run_of(number, ends))
    chosen = [r.partition for r in sample.ranges]
    assert all((one + 1) % 50 == two for one, two in pairwise(chosen))
    assert SAMPLE_RECORDS <= sample.offsets <= 2 * SAMPLE_RECORDS
    for part in sample.ranges:
        assert part.end == ends[part.partition]
        assert part.start == (19 * SAMPLE_RECORDS if part.partition == hot else 0)


def test_equal_data_give_equal_samples() -> None:
    """Whatever the run is called, and however its partitions are listed."""
    ends = [SMALL] * 50
    one, other = run_of(1, ends), run_of(2, [*ends, 0])
    other = replace(other, ranges=other.ranges[::-1])
    assert PartitionSample.of(one) == PartitionSample.of(other)
    assert points_in_time(one) == points_in_time(other)


def test_new_records_give_another_sample() -> None:
    nights = [run_of(1, [SMALL + number, *[SMALL] * 49]) for number in range(40)]
    assert len({PartitionSample.of(run).ranges[0].partition for run in nights}) > 10
    few = [run_of(1, [SMALL + number]) for number in range(40)]
    assert len({points_in_time(run)[0] for run in few}) > 30


def audited(lake: LakeTables) -> tuple[list[str], list[str], dict[str, int]]:
    """The rows of `agreement` and `findings` that an audit adds, and its counts of samples."""
    run = run_audit(lake, AuditRequest()).run
    assert run is not None
    rows = {
        table: [row for row in as_dicts(lake, table) if row.pop("run_id") == run.run_id]
        for table in ("agreement", "findings")
    }
    (reasons,) = (row["reasons"] for row in rows["agreement"] if row["check"] == STATE)
    return sorted(map(repr, rows["agreement"])), sorted(map(repr, rows["findings"])), reasons


def test_audits_of_the_same_data_come_to_the_same_numbers(
    spark: SparkSession, tmp_path: Path
) -> None:
    """A lake larger than the samples, in which every committed offset is one too high:
    two audits of it, one of a copy, and one of another lake of the same records."""
    simulate(plan_cluster("churn", 300_000, 7), tmp_path / "capture", check=False)

    def made(name: str) -> LakeTables:
        lake = open_lake(spark, str(tmp_path / name))
        run_ingest(source(tmp_path / "capture"), lake, then_replay=True)
        rows = lake.read("offsets").withColumn("committed_offset", F.col("committed_offset") + 1)
        lake.overwrite("offsets", spark.createDataFrame(rows.collect(), rows.schema))
        return lake

    lake = made("lake")
    shutil.copytree(lake.path, tmp_path / "copy")
    agreement, findings, reasons = audited(lake)
    groups = lake.read("groups").count()
    assert 0 < reasons[OFFSETS_COMPARED] < groups, "a sample of the groups"
    assert reasons[COMPARED_AT_POINT_IN_TIME] > 0
    assert findings
    partitions = spark.conf.get("spark.sql.shuffle.partitions")
    spark.conf.set("spark.sql.shuffle.partitions", "7")
    try:
        assert audited(lake) == (agreement, findings, reasons)
    finally:
        spark.conf.set("spark.sql.shuffle.partitions", partitions or "200")
    assert audited(open_lake(spark, str(tmp_path / "copy"))) == (agreement, findings, reasons)
    assert audited(made("again")) == (agreement, findings, reasons)
