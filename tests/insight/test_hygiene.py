"""The sections of `kip848 hygiene`, from hand-made rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime, timedelta
from typing import Any

import pyarrow as pa

from kip848_spark.insight import hygiene
from kip848_spark.lake.tables import TABLES

NOW = datetime(2026, 3, 8, 12, tzinfo=UTC)
DAY = timedelta(days=1)


def table(name: str, rows: Sequence[Mapping[str, Any]]) -> pa.Table:
    """Rows of a table of the lake; columns that are not given are null."""
    schema = pa.schema(list(TABLES[name].fields.items()))
    return pa.Table.from_pylist([dict(row) for row in rows], schema)


def group(name: str, members: int = 0, ago: timedelta = DAY, **columns: Any) -> dict[str, Any]:
    return {
        "group_id": name, "type": "consumer", "protocol_type": "consumer", "members": members,
        "updated_at": NOW - ago,
    } | columns  # fmt: skip


def offset(name: str, topic: str, ago: timedelta = DAY, **columns: Any) -> dict[str, Any]:
    return {
        "group_id": name, "topic": topic, "topic_partition": 0, "committed_offset": 5,
        "metadata": "", "commit_timestamp": NOW - ago, "offset": 1,
    } | columns  # fmt: skip


def summary(name: str, topic: str, commits: int, seconds: int, **columns: Any) -> dict[str, Any]:
    """``commits`` commits of a partition in as many ``seconds``, of 100 bytes each."""
    return {
        "group_id": name, "topic": topic, "topic_partition": 0, "commits": commits,
        "tombstones": 0, "bytes": 100 * commits, "first_commit_timestamp": NOW,
        "last_commit_timestamp": NOW + timedelta(seconds=seconds),
    } | columns  # fmt: skip


def test_growth_names_the_largest_first_and_what_a_longer_interval_would_save() -> None:
    rows = [
        summary("fast", "orders", 1001, 1000),  # each second: 201 at 0, 5, ..., 1000 s are needed
        summary("fast", "orders", 1001, 1000, topic_partition=1),
        summary("slow", "orders", 11, 600),  # each minute: nothing is saved
        summary("once", "orders", 1, 0),
        summary("gone", "orders", 0, 0, tombstones=2, bytes=80, first_commit_timestamp=None),
    ]
    found = {row["group_id"]: row for row in hygiene.growth(table("commit_summaries", rows))}
    assert list(found) == ["fast", "slow", "once", "gone"]
    fast = found["fast"]
    assert (fast["commits"], fast["bytes"], fast["partitions"]) == (2002, 200_200, 2)
    assert (fast["saved"], fast["saved_bytes"], fast["interval_s"]) == (1600, 160_000, 1.0)
    assert (found["slow"]["saved"], found["slow"]["interval_s"]) == (0, 60.0)
    assert found["once"]["interval_s"] is found["gone"]["interval_s"] is None
    assert found["gone"]["tombstones"] == 2
    assert sum(row["share"] for row in found.values()) == 1.0


def test_growth_is_the_same_if_several_runs_read_a_day() -> None:
    """A commit every two seconds: a run read all of them, or a run each, or two runs."""
    start = NOW.replace(hour=0)

    def read(first: int, commits: int) -> dict[str, Any]:
        times = (start + timedelta(seconds=2 * n) for n in (first, first + commits - 1))
        names = "first_commit_timestamp", "last_commit_timestamp"
        named = dict(zip(names, times, strict=True))
        return summary("g", "t", commits, 0, day=start.date(), **named)

    expected = [10 - (18 // 5 + 1), 2.0]
    for runs in ([(0, 10)], [(n, 1) for n in range(10)], [(4, 6), (0, 4)]):
        rows = table("commit_summaries", [read(*run) for run in runs])
        (found,) = hygiene.growth(rows.select(hygiene.SUMMARY_COLUMNS))
        assert [found["saved"], found["interval_s"]] == expected


def test_growth_of_nothing() -> None:
    assert not hygiene.growth(table("commit_summaries", []))
    assert not hygiene.growth_by_day(table("offset_activity", []))


def test_growth_by_day_adds_partitions() -> None:
    row = {"group_id": "a", "topic": "t", "commits": 2, "tombstones": 1, "bytes": 50, "rewinds": 1}
    days = [date(2026, 3, 8), date(2026, 3, 7), date(2026, 3, 8)]
    activity = table("offset_activity", [row | {"day": day} for day in days])
    found = hygiene.growth_by_day(activity)
    assert [(r["day"].day, r["commits"], r["bytes"]) for r in found] == [(7, 2, 50), (8, 4, 100)]
    assert [r["group_id"] for r in hygiene.growth_by_day(activity, ["group_id"])] == ["a", "a"]


def test_dead_groups() -> None:
    groups = [
        group("alive", members=1, ago=30 * DAY),
        group("recent", ago=6 * DAY),
        group("commits", ago=30 * DAY),
        group("dead", ago=10 * DAY),
        group("older", ago=20 * DAY),
    ]
    offsets = [
        offset("commits", "t", DAY),
        offset("dead", "t", 9 * DAY),
        offset("dead", "u", 12 * DAY),
    ]
    found = hygiene.dead_groups(table("groups", groups), table("offsets", offsets), NOW, 7 * DAY)
    assert [row["group_id"] for row in found] == ["older", "dead"]
    assert found[0]["last_commit"] is None
    assert found[1]["last_activity"] == NOW - 9 * DAY
    assert (found[1]["offsets"], found[1]["topics"]) == (2, 2)


def test_offsets_of_topics_that_are_gone() -> None:
    topics = [{"topic": "old", "topic_id": "B"}, {"topic": "there", "topic_id": "A"}]
    offsets = [
        offset("g", "there", topic_id="A"),
        offset("g", "there", topic_id=None, topic_partition=1),
        offset("g", "deleted", topic_id=None),
        offset("g", "old", topic_id="A"),
        offset("g", "__internal"),
    ]
    found = hygiene.offsets_of_deleted_topics(table("offsets", offsets), table("topics", topics))
    assert [(row["topic"], row["recreated"]) for row in found] == [
        ("deleted", False),
        ("old", True),
    ]


def test_offsets_of_topics_that_the_group_no_longer_reads() -> None:
    groups = [group("g", members=2), group("empty"), group("connect", members=1)]
    members = [
        {"group_id": "g", "subscribed_topics": ["orders"]},
        {"group_id": "g", "subscribed_topics": None},
        {"group_id": "empty", "subscribed_topics": []},
        {"group_id": "connect", "subscribed_topics": None},
    ]
    assignments = [{"group_id": "g", "topic": "by-regex"}]
    topics = ("orders", "by-regex", "former")
    offsets = [offset(name, topic) for name in ("g", "empty", "connect") for topic in topics]
    read = [table("members", members), table("assignments", assignments)]
    found = hygiene.offsets_no_longer_read(
        table("groups", groups), *read, table("offsets", offsets)
    )
    assert [(row["group_id"], row["topic"], row["offsets"]) for row in found] == [
        ("g", "former", 1)
    ]
    unnamed = table("assignments", [*assignments, {"group_id": "g", "topic": None}])
    assert not hygiene.offsets_no_longer_read(
        table("groups", groups), read[0], unnamed, table("offsets", offsets)
    )


def test_offsets_that_expire_soon() -> None:
    groups = [
        group("soon", ago=6 * DAY),
        group("emptied-late", ago=DAY),
        group("busy", members=1, ago=9 * DAY),
        group("simple", ago=DAY, type="classic", protocol_type=""),
        group("own-time", ago=DAY),
    ]
    offsets = [
        offset("soon", "t", 30 * DAY),
        offset("soon", "u", 6 * DAY),
        offset("emptied-late", "t", 30 * DAY),
        offset("busy", "t", 30 * DAY),
        offset("simple", "t", 6 * DAY + DAY / 2),
        offset("simple", "u", DAY),
        offset("own-time", "t", DAY, expire_timestamp=NOW + timedelta(hours=1)),
        offset("unknown-group", "t", 30 * DAY),
    ]
    found = hygiene.expiring_offsets(
        table("groups", groups), table("offsets", offsets), NOW, 2 * DAY
    )
    assert [(row["group_id"], row["expires_at"] - NOW, row["offsets"]) for row in found] == [
        ("own-time", timedelta(hours=1), 1),
        ("simple", DAY / 2, 1),
        ("soon", DAY, 2),
    ]


def test_size_after_compaction() -> None:
    offsets = [
        offset("gr", "top", metadata="ü"),
        offset("gr", "top", topic_id="A" * 22, topic_partition=1),
    ]
    carried = [
        {"kind": "consumer_group_metadata", "offset": 7, "raw_key": b"1234", "raw_value": b"12"},
        {"kind": "history", "offset": -1, "raw_key": b"12345", "raw_value": b"1" * 500},
        {"kind": "offset_commit", "offset": 9, "raw_key": None, "raw_value": None},
    ]
    found = hygiene.compacted_size(table("offsets", offsets), table("control_state", carried))
    # Key: type 2, lengths 2 + 2, partition 4, names 2 + 3. Value of version 3: 24 bytes of fields.
    assert found["commit_bytes"] == 2 * (10 + 5 + 24) + len("ü".encode()) + 18
    assert (found["commits"], found["control_records"], found["control_bytes"]) == (2, 1, 6)


def test_open_transactions() -> None:
    def run(number: int, end: int, opened: Mapping[int, int] | None) -> dict[str, Any]:
        return {
            "run_id": f"r{number}",
            "started_at": NOW + number * DAY,
            "to_offsets": {3: end, 4: 10 * number},
            "open_offsets": opened,
        }

    runs = [
        run(1, 50, {3: 4}),
        run(2, 90, {3: 10}),
        run(3, 90, None),  # a replay of the lake asks no cluster
        run(4, 90, {3: 500, 4: 1}),
    ]
    assert hygiene.open_transactions(runs) == [
        {"partition": 3, "offset": 90, "open_offsets": 500, "since": NOW + 2 * DAY, "runs": 2},
        {"partition": 4, "offset": 40, "open_offsets": 1, "since": NOW + 4 * DAY, "runs": 1},
    ]
    assert hygiene.open_transactions([run(1, 5, {3: 4}), run(2, 9, {})]) == []
    assert hygiene.open_transactions([run(1, 5, None)]) == []


def test_rewinds_are_shown_with_their_distance() -> None:
    row = {"group_id": "g", "topic": "t", "topic_partition": 1, "partition": 3}
    rows = [
        row | {"at": NOW - ago, "offset": 5, "from_committed": 9, "to_committed": to}
        for ago, to in ((DAY, 4), (timedelta(0), 1))
    ]
    assert [r["distance"] for r in hygiene.rewind_rows(table("rewinds", rows))] == [8, 5]
