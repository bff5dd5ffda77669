"""The nightly job on captures of real brokers: what it rebuilds, and that it can be repeated."""

from __future__ import annotations

from datetime import datetime, timedelta, tzinfo
from pathlib import Path
from typing import Self

import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from kip848_spark.checks.live_comparison import ChangedSince, LakeState, compare
from kip848_spark.errors import LakeError, UsageError
from kip848_spark.lake.ledger import DONE, PLANNED, Ledger
from kip848_spark.spark import pipeline, plans
from kip848_spark.spark.jobs.replay import control_bytes
from kip848_spark.spark.pipeline import run_ingest, run_replay
from kip848_spark.spark.storage.opening import open_lake
from kip848_spark.spark.storage.spark_written import SparkWrittenTables
from kip848_spark.spark.storage.tables import LakeTables
from kip848_spark.spark.storage.worker_written import WorkerWrittenTables
from kip848_spark.spark.views import LakeViews
from kip848_spark.state.partition_fold import CARRY
from tests.captures import COMMITTED, LIVE, read_dump, read_live
from tests.conftest import DATA
from tests.spark.conftest import Copy
from tests.spark.lakes import (
    DATA_TABLES,
    TABLES_OF_RECORDS,
    as_dicts,
    assert_same_rows,
    halves,
    rows,
    source,
    write_part,
)

NEWEST = DATA / "kafka-4.3.1"


def test_state_is_what_the_broker_said(capture: Path, spark: SparkSession, tmp_path: Path) -> None:
    lake = open_lake(spark, str(tmp_path / "lake"))
    outcome = run_ingest(source(capture / COMMITTED), lake, then_replay=True)

    live = read_live(capture / LIVE)
    tables = ("groups", "members", "assignments", "offsets")
    state = LakeState(*(as_dicts(lake, table) for table in tables))
    comparison = compare(state, live, ChangedSince())
    assert outcome.changed
    assert [str(difference) for difference in comparison.differences] == []
    assert comparison.compared["groups"] == len(live.groups) > 10
    assert comparison.compared["offsets"] == sum(map(len, live.offsets.values())) > 20

    counts = outcome.run and outcome.run.counts
    assert counts is not None
    assert counts.quarantined == counts.unknown == 0
    records = pq.read_table(capture / COMMITTED, columns=["value"])
    assert counts.records_read == records.num_rows
    assert counts.tombstones == records["value"].null_count


def test_gaps_are_the_offsets_without_a_record(capture_lake: LakeTables) -> None:
    there = pq.read_table(NEWEST / COMMITTED, columns=["partition", "offset"]).to_pylist()
    present = {(row["partition"], row["offset"]) for row in there}
    ends: dict[int, int] = {}
    for row in there:
        ends[row["partition"]] = max(ends.get(row["partition"], 0), row["offset"] + 1)
    missing = {(p, o) for p, end in ends.items() for o in range(end)} - present
    reported = [
        (gap["partition"], offset)
        for gap in as_dicts(capture_lake, "gaps")
        for offset in range(gap["first_offset"], gap["last_offset"] + 1)
    ]
    assert sorted(reported) == sorted(missing)
    assert missing
    # Nothing was compacted here: Kafka's tool shows markers and aborted records in those places.
    tool = {
        (line["partition"], line["offset"])
        for line in read_dump(NEWEST / "dump.jsonl.gz")
        if line["transactional"]
    }
    assert missing <= tool
    assert {gap["cause"] for gap in as_dicts(capture_lake, "gaps")} <= {"transaction", "unknown"}


def test_a_second_run_changes_nothing(capture_lake: LakeTables, copied: Copy) -> None:
    lake = copied(capture_lake)
    before = lake.versions()
    assert not run_ingest(source(NEWEST / COMMITTED), lake, then_replay=True).changed
    assert lake.versions() == before


def test_two_runs_on_halves_are_one_run_on_the_whole(
    capture_lake: LakeTables, spark: SparkSession, tmp_path: Path
) -> None:
    first = write_part(NEWEST / COMMITTED, tmp_path / "half.parquet", halves(NEWEST / COMMITTED))
    lake = open_lake(spark, str(tmp_path / "lake"))
    run_ingest(source(first), lake, then_replay=True)
    run_ingest(source(NEWEST / COMMITTED), lake, then_replay=True)
    # Where a gap is found decides how much had been seen to tell its cause from.
    found_anew = ("run_id", "cluster_id", "cause", "gap_cause")
    assert_same_rows(lake, capture_lake, TABLES_OF_RECORDS, leave_out=found_anew)
    nights = {table: rows(lake, table) for table in DATA_TABLES}
    assert run_replay(lake, from_scratch=True).changed
    for table, before in nights.items():
        after = rows(lake, table)
        # Each run judges readiness anew, and is there with its own rows.
        assert set(after) == set(before) if table == "readiness" else after == before, table


@pytest.mark.slow
def test_spark_writes_what_the_workers_write(
    capture_lake: LakeTables, spark_written_lake: LakeTables
) -> None:
    lake = spark_written_lake
    assert isinstance(capture_lake, WorkerWrittenTables)
    assert isinstance(lake, SparkWrittenTables)
    for table in TABLES_OF_RECORDS:
        assert rows(lake, table) == rows(capture_lake, table), table
        assert lake.read(table).schema == capture_lake.read(table).schema, table
    ledgers = [as_dicts(one, "runs")[0] for one in (lake, capture_lake)]
    for column in ("records_read", "decoded", "tombstones", "missing", "to_offsets", "errors"):
        assert ledgers[0][column] == ledgers[1][column], column


def test_ingest_then_replay_is_run(
    capture_lake: LakeTables, spark: SparkSession, tmp_path: Path
) -> None:
    lake = open_lake(spark, str(tmp_path / "lake"))
    run_ingest(source(NEWEST / COMMITTED), lake)
    assert rows(lake, "groups") == []
    assert run_replay(lake).changed
    assert not run_replay(lake).changed
    assert_same_rows(lake, capture_lake)


@pytest.mark.slow
class _Behind(datetime):
    """The clock of a machine that is an hour behind."""

    @classmethod
    def now(cls, tz: tzinfo | None = None) -> Self:
        return super().now(tz) - timedelta(hours=1)


def test_a_run_on_a_machine_with_a_slow_clock_is_the_last_one(
    capture_lake: LakeTables, spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise the third run would read the records of the second one again."""
    first = write_part(NEWEST / COMMITTED, tmp_path / "half.parquet", halves(NEWEST / COMMITTED))
    lake = open_lake(spark, str(tmp_path / "lake"))
    run_ingest(source(first), lake, then_replay=True)
    with monkeypatch.context() as slow:
        slow.setattr(plans, "datetime", _Behind)
        second = run_ingest(source(NEWEST / COMMITTED), lake, then_replay=True)
    assert Ledger(lake).last() == second.run
    assert not run_ingest(source(NEWEST / COMMITTED), lake, then_replay=True).changed
    found_anew = ("run_id", "cluster_id", "cause", "gap_cause")
    assert_same_rows(lake, capture_lake, TABLES_OF_RECORDS, leave_out=found_anew)


def test_a_killed_run_is_undone_and_repeated(
    capture_lake: LakeTables, spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = write_part(NEWEST / COMMITTED, tmp_path / "half.parquet", halves(NEWEST / COMMITTED))
    lake = open_lake(spark, str(tmp_path / "lake"))
    run_ingest(source(first), lake, then_replay=True)
    seen = {table: rows(LakeViews(lake).lake, table) for table in DATA_TABLES}

    def killed(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as broken:
        # After records, control records, offsets and control state were written.
        broken.setattr("kip848_spark.spark.jobs.replay.topic_names", killed)
        with pytest.raises(KeyboardInterrupt):
            run_ingest(source(NEWEST / COMMITTED), lake, then_replay=True)
    assert rows(lake, "records") != seen["records"]
    views = LakeViews(lake)
    for table in DATA_TABLES:
        reported = sorted(
            repr(row)
            for row in views.table(table).drop("run_id", "cluster_id").collect()
            if table != "control_state" or row["kind"] != CARRY
        )
        assert reported == seen[table], f"a reader saw half of a run in {table}"

    outcome = run_ingest(source(NEWEST / COMMITTED), lake, then_replay=True)
    assert outcome.recovered
    assert Ledger(lake).unfinished() is None
    found_anew = ("run_id", "cluster_id", "cause", "gap_cause")
    assert_same_rows(lake, capture_lake, TABLES_OF_RECORDS, leave_out=found_anew)
    outcomes = [run["outcome"] for run in as_dicts(lake, "runs")]
    assert outcomes.count(DONE) == 2
    assert PLANNED not in outcomes


def test_another_dialect_is_not_that_of_a_killed_run(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run that was stopped because its dialect is wrong."""
    lake = open_lake(spark, str(tmp_path / "lake"))

    def killed(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as broken:
        broken.setattr(pipeline, "_ask_cluster", killed)
        with pytest.raises(KeyboardInterrupt):
            run_ingest(source(NEWEST / COMMITTED), lake, dialect="kip-draft")
    outcome = run_ingest(source(NEWEST / COMMITTED), lake)
    assert outcome.recovered
    assert outcome.run is not None
    assert outcome.run.dialect == "shipped"


def test_two_writers_do_not_meet(spark: SparkSession, tmp_path: Path) -> None:
    lake = open_lake(spark, str(tmp_path / "lake"))
    with lake.hold_lease(), pytest.raises(LakeError, match="Another run"):
        run_ingest(source(NEWEST / COMMITTED), open_lake(spark, lake.path))


def test_a_lake_is_of_one_topic(
    spark: SparkSession, tmp_path: Path, capture_lake: LakeTables
) -> None:
    short = write_part(NEWEST / COMMITTED, tmp_path / "short.parquet", halves(NEWEST / COMMITTED))
    with pytest.raises(UsageError, match="ends at offset"):
        run_ingest(source(short), capture_lake)
    assert pipeline.Ledger(capture_lake).unfinished() is None


def test_state_tables_are_sorted_lists_without_duplicates(capture_lake: LakeTables) -> None:
    for member in as_dicts(capture_lake, "members"):
        topics = member["subscribed_topics"] or []
        assert topics == sorted(set(topics))
    places = rows(capture_lake, "assignments")
    assert len(places) == len(set(places))


def test_auto_tells_the_dialect_and_remembers_it(spark: SparkSession, tmp_path: Path) -> None:
    output: list[str] = []
    lake = open_lake(spark, str(tmp_path / "lake"))
    first = write_part(NEWEST / COMMITTED, tmp_path / "half.parquet", halves(NEWEST / COMMITTED))
    outcome = run_ingest(source(first), lake, output.append, dialect="auto")
    assert outcome.run is not None
    assert outcome.run.dialect == "shipped"
    assert any("decoded records of key types 3 to 8" in words for words in output)
    output.clear()
    run_ingest(source(NEWEST / COMMITTED), lake, output.append, dialect="auto")
    assert any("read by it before" in words for words in output)


def test_each_record_is_replayed_by_the_dialect_it_was_read_by(
    spark: SparkSession, tmp_path: Path
) -> None:
    lake = open_lake(spark, str(tmp_path / "lake"))
    half = write_part(NEWEST / COMMITTED, tmp_path / "half.parquet", halves(NEWEST / COMMITTED))
    first = run_ingest(source(half), lake, dialect="kip-draft").run
    second = run_ingest(source(NEWEST / COMMITTED), lake, dialect="shipped").run
    assert first is not None
    assert second is not None
    ends = {r.partition: r.end for r in first.ranges}
    rows = control_bytes(second, lake.rows("runs"), lake.read("records")).collect()
    reported = {(row["dialect"], row["offset"] < ends[row["partition"]]) for row in rows}
    assert reported == {("kip_draft", True), ("shipped", False)}
