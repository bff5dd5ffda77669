"""The audit of a lake: captures of real brokers give no alarm, and what is damaged is found."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from kip848_spark.audit.results import STATE, TRANSITIONS
from kip848_spark.errors import LakeError
from kip848_spark.spark.auditing import Asked, agreement_rows, findings_rows
from kip848_spark.spark.lake import Lake
from kip848_spark.spark.runner import run_audit, run_ingest
from tests.audit.whole_log import counted
from tests.captures import COMMITTED
from tests.conftest import DATA
from tests.spark.lakes import source

NEWEST = DATA / "kafka-4.3.1"


def lake_of(capture: Path, spark: SparkSession, folder: Path) -> Lake:
    lake = Lake(spark, str(folder / "lake"))
    run_ingest(source(capture), lake, then_replay=True)
    return lake


def audited(lake: Lake, asked: Asked | None = None) -> tuple[dict[str, dict[str, int]], list[str]]:
    outcome = run_audit(lake, asked or Asked())
    assert outcome.run is not None
    found = findings_rows(lake, outcome.run.run_id)
    return (
        {row["check"]: row for row in agreement_rows(lake, outcome.run.run_id)},
        [f"{row['check']} {row['group_id']} {row['expected']} {row['recorded']}" for row in found],
    )


def test_a_real_log_gives_no_alarm(capture: Path, spark: SparkSession, tmp_path: Path) -> None:
    lake = lake_of(capture / COMMITTED, spark, tmp_path)
    agreement, findings = audited(lake)
    assert findings == []
    told = counted(capture.name.removeprefix("kafka-"))
    transitions = agreement[TRANSITIONS]
    assert transitions["disagreed"] == 0
    assert transitions["verified"] + transitions["unverifiable"] == told.assignments
    states = sum(lake.read(t).count() for t in ("groups", "members", "assignments"))
    assert agreement[STATE]["verified"] == states > 100
    print(capture.name, agreement)


def test_a_wrong_state_table_is_found(spark: SparkSession, tmp_path: Path) -> None:
    lake = lake_of(NEWEST / COMMITTED, spark, tmp_path)
    members = lake.read("members")
    worse = members.withColumn(
        "member_epoch",
        F.when(F.col("group_id") == "demo.range", F.col("member_epoch") + 1).otherwise(
            F.col("member_epoch")
        ),
    )
    lake.overwrite("members", worse)
    of_range = members.where("group_id = 'demo.range'").count()
    agreement, findings = audited(lake, Asked(groups=["demo.range", "demo.three"]))
    assert agreement[STATE]["disagreed"] == len(findings) == of_range > 0
    row = lake.read("findings").first()
    assert row is not None
    assert (
        json.loads(row["recorded"])["row"]["member_epoch"]
        == 1 + (json.loads(row["expected"])["row"]["member_epoch"])
    )


def test_a_lake_without_state_is_not_audited(spark: SparkSession, tmp_path: Path) -> None:
    lake = Lake(spark, str(tmp_path / "lake"))
    run_ingest(source(NEWEST / COMMITTED), lake)
    with pytest.raises(LakeError, match="replayed"):
        run_audit(lake, Asked())
