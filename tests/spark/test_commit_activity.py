"""What replay makes of summaries of commits: `offsets`, `offset_activity` and `rewinds`, in one run
and in several, against what the records say one by one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from kip848_spark.lake.ledger import DONE, Ledger, Run
from kip848_spark.simulation.encoding import encode_records
from kip848_spark.spark.jobs.commit_activity import with_owners
from kip848_spark.spark.pipeline import run_ingest, run_replay
from kip848_spark.spark.storage.opening import open_lake
from kip848_spark.spark.storage.tables import LakeTables
from tests.insight import commit_oracle
from tests.insight.commit_oracle import Record, at_day, key_of
from tests.spark.commit_captures import random_commits, write_capture
from tests.spark.lakes import OF_THE_RUN, as_dicts, assert_same_rows, source

pytestmark = pytest.mark.slow

COUNT = 240
NIGHTS = 3
REWOUND = {
    ("orders", 19): "first",
    ("orders", 20): "second",
    ("by-id", 29): "giving-up",
    ("by-id", 30): None,
    ("unowned", 5): None,
}
"""The owner of the partition by topic and offset of a commit that went back."""
TABLES = ("records", "offsets", "offset_activity", "rewinds", "groups")


@pytest.fixture(scope="module")
def records() -> list[Record]:
    return random_commits(848, COUNT)


@pytest.fixture(scope="module")
def captures(records: list[Record], tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Captures that end after the first night, after the second one, and at the end."""
    folder = tmp_path_factory.mktemp("nights")
    last = max(record["offset"] for record in records)
    ends = [last * night // NIGHTS for night in range(1, NIGHTS)] + [last]
    return [
        write_capture([r for r in records if r["offset"] <= end], folder / f"{number}.parquet")
        for number, end in enumerate(ends)
    ]


@pytest.fixture(scope="module")
def one_run(
    spark: SparkSession, captures: list[Path], tmp_path_factory: pytest.TempPathFactory
) -> LakeTables:
    lake = open_lake(spark, str(tmp_path_factory.mktemp("one") / "lake"))
    run_ingest(source(captures[-1]), lake, then_replay=True)
    return lake


def test_one_run_says_what_the_records_say(one_run: LakeTables, records: list[Record]) -> None:
    activity = {
        (key_of(row), row["day"]): (
            row["commits"], row["tombstones"], row["bytes"], row["first_offset"],
            row["last_offset"], row["rewinds"], row["largest_rewind"],
        )
        for row in as_dicts(one_run, "offset_activity")
    }  # fmt: skip
    assert activity == commit_oracle.activity(records)
    assert len({day for _, day in activity}) > NIGHTS
    reported = sorted(
        (key_of(row), row["offset"], row["at"], row["from_committed"], row["to_committed"])
        for row in as_dicts(one_run, "rewinds")
    )
    assert [(*row[:2], *row[3:]) for row in reported] == [
        (*row[:2], *row[3:]) for row in commit_oracle.rewinds(records)
    ]
    assert [row[2].timestamp() for row in reported] == [
        row[2].timestamp() for row in commit_oracle.rewinds(records)
    ]
    newest = commit_oracle.newest(records)
    assert {
        key_of(row): (row["offset"], row["committed_offset"], row["metadata"], row["topic_id"])
        for row in as_dicts(one_run, "offsets")
    } == {
        key: (r["offset"], r["committed_offset"], r["metadata"], r["topic_id"])
        for key, r in newest.items()
        if not r["tombstone"]
    }
    assert {row["size"] for row in as_dicts(one_run, "records")} == {r["size"] for r in records}


def test_the_first_and_the_newest_commit_of_a_group_are_carried_until_the_newest_counts(
    one_run: LakeTables, records: list[Record]
) -> None:
    groups = {
        (row["partition"], row["group_id"]): row["last_offset"]
        for row in as_dicts(one_run, "groups")
    }
    found = commit_oracle.commits_of_groups(records)
    assert groups == {group: places[2] for group, places in found.items()}


def test_three_nights_are_one_run(
    one_run: LakeTables, captures: list[Path], tmp_path: Path
) -> None:
    lake = open_lake(one_run.spark, str(tmp_path / "lake"))
    for number, capture in enumerate(captures):
        run_ingest(source(capture), lake, then_replay=number != 1)  # the second night only ingests
    anew = (*OF_THE_RUN, "cause", "gap_cause", "missing_before")
    assert_same_rows(lake, one_run, TABLES, leave_out=anew)
    by_run = {row["run_id"] for row in as_dicts(lake, "rewinds")}
    assert by_run == {run["run_id"] for run in lake.rows("runs")}


def test_the_history_has_each_life_of_a_group_of_commits_however_often_it_is_read(
    spark: SparkSession, tmp_path: Path
) -> None:
    """The commits of a deleted group have tombstones, and its name another one. A new key begins
    the second life, and a key that was there before the third and the last one."""
    log = "a A g b a B A g a a A g a A a b A B g b a A a"
    records = simple_group(log.split())
    one = open_lake(spark, str(tmp_path / "one"))
    run_ingest(source(write_capture(records, tmp_path / "all.parquet")), one, then_replay=True)
    lives = [(row["from_offset"], row["to_offset"]) for row in as_dicts(one, "group_history")]
    assert sorted(lives) == [(0, 2), (3, 7), (8, 11), (12, 18), (19, None)]
    nights = open_lake(spark, str(tmp_path / "nights"))
    for end in (6, 18, len(records)):
        path = write_capture(records[:end], tmp_path / f"{end}.parquet")
        run_ingest(source(path), nights, then_replay=True)
    assert_same_rows(nights, one, ("offsets", "groups", "group_history"))


def test_runs_of_a_version_without_summaries(
    one_run: LakeTables, captures: list[Path], tmp_path: Path
) -> None:
    """They are made from the records, whose sizes are computed."""
    lake = open_lake(one_run.spark, str(tmp_path / "lake"))
    run_ingest(source(captures[0]), lake, then_replay=True)
    run_ingest(source(captures[1]), lake)
    forget_summaries(lake)
    run_ingest(source(captures[2]), lake, then_replay=True)
    anew = (*OF_THE_RUN, "cause", "gap_cause", "missing_before")
    assert_same_rows(lake, one_run, [t for t in TABLES if t != "records"], leave_out=anew)
    assert not run_replay(lake).changed


def test_the_owner_is_the_member_that_had_the_partition_at_that_offset(
    spark: SparkSession,
) -> None:
    owned = [
        ("first", "assigned", "orders", None, 0, 20),
        ("second", "assigned", "orders", None, 20, None),
        ("second", "target", "orders", None, 0, None),  # to be owned is not to own
        ("giving-up", "pending_revocation", None, "A", 0, 30),
        ("other-group", "assigned", "orders", None, 0, None),
    ]
    history = [
        (3, "h" if member == "other-group" else "g", member, role, topic, topic_id, 7, start, end)
        for member, role, topic, topic_id, start, end in owned
    ]
    found = with_owners(
        spark.createDataFrame(
            [(3, offset, "g", topic, 7) for topic, offset in REWOUND],
            "partition int, offset long, group_id string, topic string, topic_partition int",
        ),
        spark.createDataFrame(
            history,
            "partition int, group_id string, member_id string, role string, topic string, "
            "topic_id string, topic_partition int, from_offset long, to_offset long",
        ),
        spark.createDataFrame([("A", "by-id")], "topic_id string, name string"),
    )
    owners = {(row["topic"], row["offset"]): row["owner"] for row in found.collect()}
    assert owners == REWOUND


def simple_group(log: Sequence[str]) -> list[Record]:
    """A record a second: a commit of a partition of the topic ``a`` or ``b``, its tombstone
    (``A``, ``B``), or the tombstone of the group (``g``)."""
    raw: list[dict[str, Any]] = []
    for offset, letter in enumerate(log):
        commit = {"offset": offset, "metadata": "", "commitTimestamp": 1_000 * offset}
        key = {"group": "simple", "topic": letter.lower(), "partition": 0}
        if letter == "g":
            raw.append({"key": {"type": 2, "data": {"group": "simple"}}, "value": None})
        elif letter.isupper():
            raw.append({"key": {"type": 1, "data": key}, "value": None})
        else:
            value = {"version": 2, "data": commit}
            raw.append({"key": {"type": 1, "data": key}, "value": value})
    keys, values = (column.to_pylist() for column in encode_records(raw))
    return [
        {"partition": 0, "offset": at, "timestamp": at_day(0, at), "key": key, "value": value}
        for at, (key, value) in enumerate(zip(keys, values, strict=True))
    ]


def forget_summaries(lake: LakeTables) -> None:
    """The lake as a version without summaries would have left it."""
    for table in ("commit_summaries", "offset_activity", "rewinds"):
        lake.overwrite(table, lake.read(table).limit(0))
    unsized = lake.read("records").withColumn("size", F.lit(None).cast("int"))
    lake.overwrite("records", unsized)
    ledger = Ledger(lake)
    for row in lake.rows("runs"):
        run = Run.from_row(row)
        assert run.outcome == DONE
        known = lake.versions() | dict.fromkeys(("commit_summaries",))
        versions = {name: number for name, number in known.items() if number is not None}
        ledger.write(replace(run, table_versions=versions))
