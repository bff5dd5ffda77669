"""The summary of commits against one that is made record by record."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date, datetime
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from kip848_spark.insight.commit_summary import (
    COMMIT_FIELDS,
    COMMIT_SUMMARY_FIELDS,
    NEWEST,
    CommitSummary,
)
from tests.insight import commit_oracle
from tests.insight.commit_oracle import Record, at_day, key_of

TOPIC_IDS = (None, "AAAAAAAAAAAAAAAAAAAAAQ", "AAAAAAAAAAAAAAAAAAAAAg")


@st.composite
def logs(draw: st.DrawFn) -> list[Record]:
    """Records of up to two partitions, sorted by partition and offset: few keys, so that they
    repeat; gaps between offsets; times that jump between days."""
    found = []
    for partition in draw(st.sampled_from([(0,), (3,), (0, 1)])):
        offset = 0
        for _ in range(draw(st.integers(0, 30))):
            offset += draw(st.sampled_from([1, 1, 1, 5]))
            tombstone = draw(st.sampled_from([False, False, False, True]))
            record: Record = {
                "partition": partition,
                "offset": offset,
                "timestamp": at_day(draw(st.integers(0, 2)), draw(st.integers(0, 86_399))),
                "tombstone": tombstone,
                "group_id": draw(st.sampled_from(["a", "b", ""])),
                "topic": draw(st.sampled_from(["t", "ü"])),
                "topic_partition": draw(st.integers(0, 1)),
                "size": draw(st.integers(0, 200)),
            }
            values: dict[str, Any] = dict.fromkeys(NEWEST)
            if not tombstone:
                values["committed_offset"] = draw(st.integers(0, 6))
                values["leader_epoch"] = draw(st.integers(-1, 2))
                values["metadata"] = draw(st.sampled_from(["", "x"]))
                values["commit_timestamp"] = record["timestamp"]
                values["topic_id"] = draw(st.sampled_from(TOPIC_IDS))
            found.append(record | values)
    return found


def summarize(
    records: Sequence[Record],
    sizes: Sequence[int] = (),
    tasks: Sequence[int] = (),
    numbered: bool = False,
    max_rows: int = 1000,
) -> list[Record]:
    """The rows of the summaries of ``records``. They come in batches of ``sizes`` (repeated), and a
    new task begins before each of the records ``tasks``."""
    found: list[Record] = []

    def emit(columns: dict[str, pa.Array]) -> None:
        schema = pa.schema(list(COMMIT_SUMMARY_FIELDS.items()))
        found.extend(pa.Table.from_pydict(columns, schema=schema).to_pylist())

    bounds = [0, *sorted(tasks), len(records)]
    for first, end in pairwise(bounds):
        summary = CommitSummary(emit, max_rows)
        at, turn = first, 0
        while at < end:
            size = sizes[turn % len(sizes)] if sizes else end
            part = list(records[at : min(end, at + size)])
            add(summary, part, numbered)
            at, turn = at + size, turn + 1
        summary.finish()
    return found


def add(summary: CommitSummary, part: list[Record], numbered: bool) -> None:
    """Adds a batch. ``numbered``: as the ingest does it, with other records in between, and keys
    that the decoder has numbered, which knows nothing of partitions."""
    if not numbered:
        summary.add(columns_of(part))
        return
    other: Record = dict.fromkeys(COMMIT_FIELDS)
    other |= {"partition": 0, "offset": 0, "tombstone": False, "timestamp": at_day(0)}
    mixed = [row for record in part for row in (other, record)]
    keys = {key: number for number, key in enumerate(dict.fromkeys(key_of(r)[1:] for r in part))}
    numbers = np.array([keys[key_of(record)[1:]] for record in part], np.int32)
    summary.add(columns_of(mixed), np.arange(1, len(mixed), 2), numbers)


def columns_of(records: list[Record]) -> dict[str, pa.Array]:
    return {
        name: pa.array([record[name] for record in records], type_)
        for name, type_ in COMMIT_FIELDS.items()
    }


def combine(rows: Sequence[Record]) -> tuple[dict[Any, Any], list[Any], dict[Any, Record]]:
    """Activity by key and day, rewinds, and the last row of each key: what the rows of any number
    of tasks say together."""
    days: dict[Any, Any] = {}
    rewinds = []
    last: dict[Any, Record] = {}
    for row in sorted(rows, key=lambda row: (row["partition"], row["first_offset"])):
        key = key_of(row)
        back = [
            (r["offset"], r["at"], r["from_committed"], r["to_committed"])
            for r in row["rewinds"] or ()
        ]
        before = last.get(key)
        if before is not None:
            assert before["offset"] < row["first_offset"], "the rows of a key do not overlap"
            left, right = before["committed_offset"], row["first_committed"]
            if left is not None and right is not None and right < left:
                back.append((row["first_offset"], row["first_timestamp"], left, right))
        last[key] = row
        rewinds += [(key, *place) for place in back]
        largest = max((place[2] - place[3] for place in back), default=0)
        here = (
            row["commits"], row["tombstones"], row["bytes"], row["first_offset"], row["offset"],
            len(back), largest,
        )  # fmt: skip
        there = days.get((key, row["day"]))
        if there is not None:
            sums = [left + right for left, right in zip(there, here, strict=True)]
            here = (
                *sums[:3], min(there[3], here[3]), max(there[4], here[4]), sums[5],
                max(there[6], here[6]),
            )  # fmt: skip
        days[key, row["day"]] = here
    return days, sorted(rewinds), last


def assert_is_right(rows: Sequence[Record], records: Sequence[Record]) -> None:
    days, rewinds, last = combine(rows)
    assert days == commit_oracle.activity(records)
    assert rewinds == commit_oracle.rewinds(records)
    newest = commit_oracle.newest(records)
    columns = ("offset", "timestamp", "tombstone", *(set(NEWEST) - {"topic_id"}))
    assert {key: [row[name] for name in columns] for key, row in last.items()} == {
        key: [record[name] for name in columns] for key, record in newest.items()
    }
    topic_ids = {(one["partition"], one["offset"]): one["topic_id"] for one in records}
    assert sum(row["tombstones"] for row in rows) == sum(row["tombstone"] for row in rows), (
        "a tombstone is the last record of its row"
    )
    for row in rows:
        place = row["partition"], row["last_commit_offset"]
        assert row["topic_id"] == topic_ids.get(place), "that of the last commit"
    names = {(key_of(one), one["topic_id"]) for one in records if not one["tombstone"]}
    assert {(key_of(r), r["topic_id"]) for r in rows if r["commits"]} == names, "no id is lost"
    groups: dict[Any, Any] = {}
    for row in rows:
        if row["first_commit_offset"] is not None:
            found = groups.setdefault((row["partition"], row["group_id"]), ([], []))
            found[0].append((row["first_commit_offset"], row["first_commit_timestamp"]))
            found[1].append((row["last_commit_offset"], row["last_commit_timestamp"]))
    assert {
        group: (*min(first), *max(last)) for group, (first, last) in groups.items()
    } == commit_oracle.commits_of_groups(records)


@given(logs(), st.lists(st.integers(1, 9), max_size=4), st.booleans())
def test_batches_of_one_task(records: list[Record], sizes: list[int], numbered: bool) -> None:
    rows = summarize(records, sizes, numbered=numbered)
    assert_is_right(rows, records)


@given(logs(), st.data(), st.booleans())
def test_tasks_that_begin_anywhere_and_emit_early(
    records: list[Record], data: st.DataObject, numbered: bool
) -> None:
    tasks = data.draw(st.lists(st.integers(0, len(records)), max_size=3))
    sizes = data.draw(st.lists(st.integers(1, 9), max_size=4))
    max_rows = data.draw(st.integers(0, 5))
    assert_is_right(summarize(records, sizes, tasks, numbered, max_rows), records)


@given(logs(), st.lists(st.integers(1, 9), max_size=4))
def test_a_day_of_a_key_is_one_row_to_a_tombstone(records: list[Record], sizes: list[int]) -> None:
    """Where time does not go backwards, the batches leave no trace."""
    ordered = sorted(record["timestamp"] for record in records)
    for record, time in zip(records, ordered, strict=True):
        record["timestamp"] = time
        record["topic_id"] = None if record["tombstone"] else TOPIC_IDS[1]
    rows = summarize(records, sizes)
    assert len(rows) == len({*commit_oracle.activity(records), *returns(records)})
    whole = summarize(records)
    assert sorted(map(repr, rows)) == sorted(map(repr, whole))


def returns(records: Sequence[Record]) -> set[Any]:
    """The records whose key has a tombstone before it on that day, by their place."""
    found = set()
    before: dict[Any, Record] = {}
    for record in records:
        last = before.get(key_of(record))
        same_day = last and commit_oracle.day_of(last["timestamp"]) == commit_oracle.day_of(
            record["timestamp"]
        )
        if last and last["tombstone"] and same_day:
            found.add((record["partition"], record["offset"]))
        before[key_of(record)] = record
    return found


def test_more_keys_than_fit_are_emitted() -> None:
    """A key that comes back after that has a second row; nothing is lost."""
    records = [record_of(offset, group=f"g{offset % 500}") for offset in range(2000)]
    rows = summarize(records, sizes=[50], max_rows=100)
    assert 500 < len(rows) <= 2000
    assert_is_right(rows, records)


def test_a_tombstone_forgets_the_commit_before_it() -> None:
    records = [
        record_of(0, committed=9),
        record_of(1, committed=4),
        record_of(2, committed=None),
        record_of(3, committed=1),
        record_of(4, committed=0),
    ]
    rows = summarize(records)
    assert [
        [(r["offset"], r["from_committed"], r["to_committed"]) for r in row["rewinds"]]
        for row in rows
    ] == [[(1, 9, 4)], [(4, 1, 0)]]
    assert [(row["commits"], row["tombstones"]) for row in rows] == [(2, 1), (2, 0)]
    assert [row["first_commit_offset"] for row in rows] == [0, 3]


def test_a_group_of_which_only_a_tombstone_is_there() -> None:
    (row,) = summarize([record_of(7, committed=None)])
    assert row["first_commit_offset"] is row["last_commit_offset"] is None
    assert row["first_committed"] is row["rewinds"] is None
    assert row["tombstone"]


def test_times_that_have_no_date() -> None:
    times = pa.array([-(2**62), 2**62, 2**62 + 1], pa.int64()).view(COMMIT_FIELDS["timestamp"])
    columns = columns_of([record_of(offset) for offset in range(3)]) | {"timestamp": times}
    found: list[dict[str, pa.Array]] = []
    summary = CommitSummary(found.append)
    summary.add(columns)
    summary.finish()
    assert found[0]["day"].to_pylist() == [date.min, date.max]
    assert found[0]["commits"].to_pylist() == [1, 2]


def record_of(
    offset: int, group: str = "g", committed: int | None = 0, time: datetime | None = None
) -> Record:
    values: dict[str, Any] = dict.fromkeys(NEWEST) | {"committed_offset": committed}
    return values | {
        "partition": 0,
        "offset": offset,
        "timestamp": time or at_day(0, offset),
        "tombstone": committed is None,
        "group_id": group,
        "topic": "t",
        "topic_partition": 0,
        "size": 10,
    }
