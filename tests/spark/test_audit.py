"""The audit of a lake: captures of real brokers give no alarm, and what is damaged is found."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from kip848_spark.checks.group_task import COMPARED_AT_POINT_IN_TIME, OFFSETS_COMPARED
from kip848_spark.checks.results import (
    COMMITS,
    LOADING,
    ORDER,
    STATE,
    TRANSITIONS,
    UNREAD,
    VALUE_TIMES,
)
from kip848_spark.errors import LakeError
from kip848_spark.lake.ledger import Ledger
from kip848_spark.spark.jobs import audit_input
from kip848_spark.spark.jobs.audit import AuditRequest, agreement_rows, findings_rows
from kip848_spark.spark.pipeline import run_audit, run_ingest
from kip848_spark.spark.storage.opening import open_lake
from kip848_spark.spark.storage.tables import LakeTables
from tests.audit.capture_counts import counted
from tests.captures import COMMITTED
from tests.conftest import DATA
from tests.spark.conftest import Copy
from tests.spark.lakes import halves, source, write_part

PLACE = ("partition", "offset")
NEWEST = DATA / "kafka-4.3.1"


def lake_of(capture: Path, spark: SparkSession, folder: Path) -> LakeTables:
    lake = open_lake(spark, str(folder / "lake"))
    run_ingest(source(capture), lake, then_replay=True)
    return lake


def audited(
    lake: LakeTables, asked: AuditRequest | None = None
) -> tuple[dict[str, dict[str, int]], list[str]]:
    outcome = run_audit(lake, asked or AuditRequest())
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
    reported = counted(capture.name.removeprefix("kafka-"))
    transitions = agreement[TRANSITIONS]
    assert transitions["disagreed"] == 0
    assert transitions["verified"] + transitions["unverifiable"] == reported.assignments
    states = sum(lake.read(t).count() for t in ("groups", "members", "assignments", "offsets"))
    in_between = agreement[STATE]["reasons"].pop(COMPARED_AT_POINT_IN_TIME, 0)
    assert agreement[STATE]["verified"] == states + in_between > 100
    assert in_between > 0
    committed = lake.read("records").where("kind = 'offset_commit'").select("group_id").distinct()
    assert agreement[STATE]["reasons"] == {OFFSETS_COMPARED: committed.count()}


def test_a_first_run_over_many_records_replays_some_of_the_commits(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The ledger does not tell of them before it is done."""
    monkeypatch.setattr(audit_input, "COMMITS_REPLAYED", 100)
    monkeypatch.setattr(audit_input, "COMMITS_SAMPLED", 20)
    lake = open_lake(spark, str(tmp_path / "lake"))
    run = run_ingest(source(NEWEST / COMMITTED), lake, then_replay=True, then_audit=True).run
    assert run is not None
    reasons = next(row for row in agreement_rows(lake, run.run_id) if row["check"] == STATE)
    committed = lake.read("records").where("kind = 'offset_commit'").select("group_id").distinct()
    assert 0 < reasons["reasons"][OFFSETS_COMPARED] < committed.count()


def test_wrong_state_tables_are_found(
    capture_lake: LakeTables, copied: Copy, spark: SparkSession
) -> None:
    """Members at another epoch, one that is there twice, one that is not, an older offset."""
    lake = copied(capture_lake)
    members = lake.read("members").collect()
    of = {g: [m for m in members if m["group_id"] == g] for g in ("demo.range", "demo.three")}
    lost, twice = of["demo.three"][0], of["demo.three"][1]
    of_range = F.col("group_id") == "demo.range"
    epoch = F.when(of_range, F.col("member_epoch") + 1).otherwise(F.col("member_epoch"))
    worse = spark.createDataFrame(
        [m for m in members if m != lost] + [twice], lake.read("members").schema
    ).withColumn("member_epoch", epoch)
    offsets = lake.read("offsets").collect()
    older = next(row for row in offsets if row["group_id"] == "demo.manual")
    back = older.asDict() | {"committed_offset": older["committed_offset"] - 1}
    rest = [row.asDict() for row in offsets if row != older]
    lake.overwrite("members", worse)
    schema = lake.read("offsets").schema
    lake.overwrite("offsets", spark.createDataFrame([*rest, back], schema))

    groups = ["demo.range", "demo.three", "demo.manual", "demo.uniform"]
    outcome = run_audit(lake, AuditRequest(groups=groups))
    assert outcome.run is not None
    found = findings_rows(lake, outcome.run.run_id)
    assert len(found) == len(of["demo.range"]) + 3
    reported = {row["check"]: row["disagreed"] for row in agreement_rows(lake, outcome.run.run_id)}
    assert reported.pop(STATE) == len(found)
    assert not any(reported.values())
    by_group: dict[str, list[tuple[dict[str, Any], dict[str, Any]]]] = {}
    for row in found:
        sides = tuple(json.loads(row[side])["row"] for side in ("expected", "recorded"))
        by_group.setdefault(row["group_id"], []).append(sides)
    assert [b["member_epoch"] - a["member_epoch"] for a, b in by_group["demo.range"]] == [1, 1]
    assert sorted((a is None, b is None) for a, b in by_group["demo.three"]) == [
        (False, True),
        (True, False),
    ]
    [(expected, recorded)] = by_group["demo.manual"]
    assert expected["committed_offset"] == recorded["committed_offset"] + 1


@pytest.mark.slow
def test_two_nights_judge_each_record_once(
    audited_lake: LakeTables, spark: SparkSession, tmp_path: Path
) -> None:
    """Every operation is counted by the night it ended in, so two nights come to what one does."""
    capture = NEWEST / COMMITTED
    whole = Ledger(audited_lake).last()
    twice = open_lake(spark, str(tmp_path / "twice"))
    part = write_part(capture, tmp_path / "part.parquet", halves(capture))
    first = run_ingest(source(part), twice, then_replay=True, then_audit=True).run
    second = run_ingest(source(capture), twice, then_replay=True, then_audit=True).run
    assert whole is not None
    assert first is not None
    assert second is not None
    assert not run_ingest(source(capture), twice, then_replay=True, then_audit=True).changed

    def counts(lake: LakeTables, *runs: str) -> dict[str, int]:
        found: dict[str, int] = {}
        for run in runs:
            assert findings_rows(lake, run) == []
            for row in agreement_rows(lake, run):
                if row["check"] not in (STATE, VALUE_TIMES, COMMITS):  # they include commits
                    reported = row["verified"] + row["unverifiable"]
                    found[row["check"]] = found.get(row["check"], 0) + reported
        return found

    assert counts(twice, second.run_id).keys() == counts(audited_lake, whole.run_id).keys()
    for check, number in counts(audited_lake, whole.run_id).items():
        nights = counts(twice, first.run_id, second.run_id)[check]
        # An operation that was cut counts twice; and where a hole may be the cleaner's, what is
        # unverifiable is counted by the record, not by the operation.
        assert number <= nights <= number + (30 if check in (LOADING, ORDER) else 8), check


def _second_night(
    lake: LakeTables, folder: Path, key_type: int, value: bytes | None = None
) -> dict[str, dict[str, Any]]:
    """The agreement of a night with one new record, after the nights that ``lake`` has: the first
    record of that key type once more, with another value if one is given. What has been read before
    ends with its group's partition."""
    table = pq.read_table(NEWEST / COMMITTED)
    of_type = pa.array(
        [int.from_bytes(key[:2], "big") == key_type for key in table["key"].to_pylist()]
    )
    more = table.filter(of_type).slice(0, 1)
    partition = more["partition"][0].as_py()
    last = max(
        o for p, o in zip(*(table[n].to_pylist() for n in PLACE), strict=True) if p == partition
    )
    reported = {"offset": last + 1} | ({} if value is None else {"value": value})
    for name, changed in reported.items():
        column = pa.array([changed], table.schema.field(name).type)
        more = more.set_column(more.column_names.index(name), name, column)
    part = folder / "more.parquet"
    pq.write_table(pa.concat_tables([table, more]), part)
    outcome = run_ingest(source(part), lake, then_replay=True, then_audit=True)
    assert outcome.changed
    assert outcome.run is not None
    assert findings_rows(lake, outcome.run.run_id) == []
    return {row["check"]: row for row in agreement_rows(lake, outcome.run.run_id)}


def test_a_night_without_control_records_judges_none(
    audited_lake: LakeTables, copied: Copy, tmp_path: Path
) -> None:
    assert _second_night(copied(audited_lake), tmp_path, 1).keys() <= {STATE}


def test_a_night_whose_only_record_of_a_group_cannot_be_read(
    audited_lake: LakeTables, copied: Copy, tmp_path: Path
) -> None:
    agreement = _second_night(copied(audited_lake), tmp_path, 8, b"\0\0\1")
    assert agreement[LOADING]["reasons"] == {UNREAD: 1}
    assert agreement[LOADING]["verified"] == 0


def test_a_lake_without_state_is_not_audited(spark: SparkSession, tmp_path: Path) -> None:
    lake = open_lake(spark, str(tmp_path / "lake"))
    run_ingest(source(NEWEST / COMMITTED), lake)
    with pytest.raises(LakeError, match="replayed"):
        run_audit(lake, AuditRequest())
