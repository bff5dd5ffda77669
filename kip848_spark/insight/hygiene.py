"""What makes `__consumer_offsets` grow, and which of its committed offsets nobody needs.

Every function takes rows of the lake's tables as Arrow tables and returns rows in the order in
which they are shown. Times are in UTC; ``now`` is the time of the lake's newest record, not that of
the clock, so that a capture gives the same report on every day."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kip848_spark.insight.phrases import shift
from kip848_spark.insight.table_rows import TableRows
from kip848_spark.wire.tables import TIMESTAMP, Row

RETENTION = timedelta(days=7)
"""Kafka's default for ``offsets.retention.minutes`` since release 2.0 (KIP-186)."""
INTERVAL = timedelta(seconds=5)
"""Kafka's default for a consumer's ``auto.commit.interval.ms``."""
COMMIT_KEY_BYTES = 2 + 2 + 2 + 4
"""Bytes of a commit's key beside the names: its type, two lengths, the partition."""
COMMIT_VALUE_BYTES = 2 + 8 + 4 + 2 + 8
"""Bytes of a commit's value (version 3) beside the metadata text: version, offset, leader epoch,
length, time."""
TOPIC_ID_BYTES = 2 + 16
"""Bytes of a topic id in a commit's value (version 4)."""

_PLACE = ["group_id", "topic"]
_COUNTS = ["commits", "tombstones", "bytes"]
SUMMARY_COLUMNS = [
    *_PLACE, "topic_partition", "day", *_COUNTS,
    "first_commit_timestamp", "last_commit_timestamp",
]  # fmt: skip
"""The columns of `commit_summaries` that `growth` reads."""
ACTIVITY_COLUMNS = ["day", *_PLACE, *_COUNTS, "rewinds"]
"""The columns of `offset_activity` that `growth_by_day` reads."""
_DAY_US = 86_400_000_000


def growth(summaries: pa.Table) -> TableRows:
    """Who commits how much: a row for each group and topic, the most bytes first.

    ``summaries`` has rows of `commit_summaries` with `SUMMARY_COLUMNS`. ``saved`` and
    ``saved_bytes`` are the commits and bytes that a commit interval of `INTERVAL` would have
    saved, from the time between the first and the last commit of each partition and day, whichever
    runs read them; ``interval_s`` is the mean time between commits of a partition on one day, null
    if no partition has two."""
    summaries = _of_days(summaries)
    first, last = summaries["first_commit_timestamp"], summaries["last_commit_timestamp"]
    span = pc.fill_null(pc.subtract(last.cast(pa.int64()), first.cast(pa.int64())), 0)
    commits = summaries["commits"].to_numpy()
    span_us = span.to_numpy()
    needed = np.minimum(commits, span_us // round(INTERVAL / timedelta(microseconds=1)) + 1)
    saved = commits - needed
    records = commits + summaries["tombstones"].to_numpy()
    saved_bytes = saved * summaries["bytes"].to_numpy() // np.maximum(records, 1)
    measured = summaries.select([*_PLACE, "topic_partition", *_COUNTS])
    for name, values in (
        ("saved", saved),
        ("saved_bytes", saved_bytes),
        ("span_us", np.where(commits > 1, span_us, 0)),
        ("steps", np.maximum(commits - 1, 0)),
    ):
        measured = measured.append_column(name, pa.array(values))
    sums = [*_COUNTS, "saved", "saved_bytes", "span_us", "steps"]
    found = measured.group_by(_PLACE).aggregate(
        [*((name, "sum") for name in sums), ("topic_partition", "count_distinct")]
    )
    names = {f"{name}_sum": name for name in sums} | {
        "topic_partition_count_distinct": "partitions"
    }
    named = _renamed(found, names)
    steps, total = named["steps"], pc.sum(named["bytes"]).as_py() or 0
    measurable = pc.if_else(pc.greater(steps, 0), steps, None)
    interval_s = pc.divide(pc.divide(named["span_us"].cast(pa.float64()), measurable), 1e6)
    share = pc.divide(named["bytes"].cast(pa.float64()), float(total or 1))
    shown = named.drop_columns(["steps", "span_us"])
    shown = shown.append_column("interval_s", interval_s).append_column("share", share)
    order = [("bytes", "descending"), ("group_id", "ascending"), ("topic", "ascending")]
    return TableRows(shown.sort_by(order))


def _of_days(summaries: pa.Table) -> pa.Table:
    """``summaries`` with one row for each partition and day."""
    times = ("first_commit_timestamp", "min"), ("last_commit_timestamp", "max")
    measures = [*((name, "sum") for name in _COUNTS), *times]
    found = summaries.group_by([*_PLACE, "topic_partition", "day"]).aggregate(measures)
    return _renamed(found, {f"{name}_{measure}": name for name, measure in measures})


def growth_by_day(activity: pa.Table, by: Sequence[str] = ()) -> TableRows:
    """Commits, tombstones, bytes and rewinds of each day, and of each value of the columns ``by``.
    ``activity`` has rows of `offset_activity` with `ACTIVITY_COLUMNS`."""
    key = ["day", *by]
    sums = [*_COUNTS, "rewinds"]
    found = activity.group_by(key).aggregate([(name, "sum") for name in sums])
    named = _renamed(found, {f"{name}_sum": name for name in sums})
    return TableRows(named.select([*key, *sums]).sort_by([(n, "ascending") for n in key]))


def dead_groups(
    groups: pa.Table, offsets: pa.Table, now: datetime, silence: timedelta
) -> TableRows:
    """Groups without a member whose last record and last commit are older than ``silence``: the
    longest silent first."""
    last = _last_commits(offsets)
    joined = groups.join(last, "group_id", join_type="left outer")
    active = _later(joined["updated_at"], joined["last_commit"])
    dead = pc.and_(pc.equal(joined["members"], 0), pc.less(active, _time(shift(now, -silence))))
    found = joined.append_column("last_activity", active).filter(dead)
    columns = ["group_id", "type", "last_activity", "last_commit", "offsets", "topics"]
    order = [("last_activity", "ascending"), ("group_id", "ascending")]
    return TableRows(found.select(columns).sort_by(order))


def offsets_of_deleted_topics(offsets: pa.Table, topics: pa.Table) -> TableRows:
    """Committed offsets of topics that the cluster no longer has, or that were created again since
    (``recreated``), by group and topic. ``topics`` are the rows of the last run that asked the
    cluster. Internal topics are left out: the lake does not list them."""
    names = topics["topic"].combine_chunks()
    place = pc.index_in(offsets["topic"], value_set=names)
    current = topics["topic_id"].combine_chunks().take(pc.fill_null(place, None).combine_chunks())
    absent = pc.is_null(place)
    other = pc.fill_null(pc.not_equal(offsets["topic_id"], current), False)
    internal = pc.starts_with(offsets["topic"], "__")
    wanted = pc.and_not(pc.or_(absent, other), internal)
    found = offsets.append_column("recreated", other).filter(wanted)
    return _by_group_and_topic(found, ["recreated"])


def offsets_no_longer_read(
    groups: pa.Table, members: pa.Table, assignments: pa.Table, offsets: pa.Table
) -> TableRows:
    """Committed offsets of topics that no member of the group subscribes to or has partitions of,
    by group and topic. Groups without members and groups whose subscription is not known are left
    out."""
    has_members = groups.filter(pc.greater(groups["members"], 0))["group_id"].combine_chunks()
    subscribed = members.select(["group_id", "subscribed_topics"])
    lists = subscribed["subscribed_topics"].combine_chunks()
    pairs = pa.table(
        {
            "group_id": subscribed["group_id"].combine_chunks().take(pc.list_parent_indices(lists)),
            "topic": pc.list_flatten(lists),
        }
    )
    named = assignments.filter(assignments["topic"].is_valid()).select(_PLACE)
    read = pa.concat_tables([pairs, named]).group_by(_PLACE).aggregate([])
    judged = pc.and_(
        pc.is_in(offsets["group_id"], has_members),
        pc.is_in(offsets["group_id"], read["group_id"].combine_chunks()),
    )
    # An assignment whose topic has no known name may be of any topic.
    unnamed = assignments.filter(assignments["topic"].is_null())["group_id"].combine_chunks()
    judged = pc.and_not(judged, pc.is_in(offsets["group_id"], unnamed))
    return _by_group_and_topic(offsets.filter(judged).join(read, _PLACE, join_type="left anti"), [])


def expiring_offsets(
    groups: pa.Table, offsets: pa.Table, now: datetime, within: timedelta
) -> TableRows:
    """Groups without members whose committed offsets expire before ``now`` + ``within``: the first
    to expire first. ``expires_at`` is the earliest time of an offset of the group.

    A broker deletes an offset when the group has been empty, and the commit is older, for
    `RETENTION` (KIP-211); a commit of an old client may have a time of its own. When a group became
    empty is taken from its last record."""
    columns = ["group_id", "type", "members", "updated_at", "protocol_type"]
    joined = offsets.join(groups.select(columns), "group_id", join_type="inner")
    joined = joined.filter(pc.equal(joined["members"], 0))
    # A group that never had members has no record but its commits: each expires on its own.
    simple = pc.equal(pc.fill_null(joined["protocol_type"], "?"), "")
    empty_since = pc.if_else(simple, joined["commit_timestamp"], joined["updated_at"])
    start = _later(joined["commit_timestamp"], empty_since)
    length = pa.scalar(RETENTION, pa.duration("us"))
    expires = pc.coalesce(joined["expire_timestamp"], pc.add(start, length)).cast(TIMESTAMP)
    found = joined.append_column("expires_at", expires)
    found = found.filter(pc.less(found["expires_at"], _time(shift(now, within))))
    grouped = found.group_by(["group_id", "type"]).aggregate(
        [("expires_at", "min"), ("topic", "count_distinct"), ("topic", "count")]
    )
    renamed = _renamed(
        grouped,
        {
            "expires_at_min": "expires_at",
            "topic_count_distinct": "topics",
            "topic_count": "offsets",
        },
    )
    order = [("expires_at", "ascending"), ("group_id", "ascending")]
    columns = ["group_id", "type", "expires_at", "offsets", "topics"]
    return TableRows(renamed.select(columns).sort_by(order))


def compacted_size(offsets: pa.Table, control_state: pa.Table) -> Row:
    """How many records the log cleaner would leave, and the bytes of their keys and values: one
    commit for each key of ``offsets`` (estimated as `COMMIT_KEY_BYTES` and its sisters say), and
    the records of ``control_state`` (columns kind, raw_key, raw_value). Tombstones are not
    counted: the cleaner deletes them too."""
    texts = [
        pc.fill_null(pc.binary_length(offsets[name]), 0)
        for name in ("group_id", "topic", "metadata")
    ]
    ids = pc.sum(offsets["topic_id"].is_valid().cast(pa.int64())).as_py() or 0
    fixed = COMMIT_KEY_BYTES + COMMIT_VALUE_BYTES
    names = sum(pc.sum(text).as_py() or 0 for text in texts)
    live = control_state.filter(control_state["raw_key"].is_valid())
    live = live.filter(pc.greater_equal(live["offset"], 0))
    lengths = [pc.fill_null(pc.binary_length(live[name]), 0) for name in ("raw_key", "raw_value")]
    control = sum(pc.sum(length).as_py() or 0 for length in lengths)
    return {
        "commits": offsets.num_rows,
        "commit_bytes": offsets.num_rows * fixed + names + ids * TOPIC_ID_BYTES,
        "control_records": live.num_rows,
        "control_bytes": control,
    }


def open_transactions(runs: Sequence[Mapping[str, Any]]) -> list[Row]:
    """The partitions of `__consumer_offsets` whose last stable offset was behind the end of the log
    at the last run that asked the cluster: a row for each, the most offsets first.

    ``since`` is the start of the first of the consecutive runs that ended at the same offset with
    an open transaction. ``runs`` are finished runs, in order."""
    asked = [run for run in runs if run.get("open_offsets") is not None]
    found = []
    for partition, count in (asked[-1]["open_offsets"] if asked else {}).items():
        at = asked[-1]["to_offsets"].get(partition)
        since = asked[-1]
        for run in reversed(asked):
            if not run["open_offsets"].get(partition) or run["to_offsets"].get(partition) != at:
                break
            since = run
        found.append(
            {
                "partition": partition,
                "offset": at,
                "open_offsets": count,
                "since": since["started_at"],
                "runs": sum(1 for run in asked if run["run_id"] >= since["run_id"]),
            }
        )
    return sorted(found, key=lambda row: -row["open_offsets"])


def rewind_rows(rewinds: pa.Table) -> TableRows:
    """Rows of `rewinds` with their ``distance`` (at most the largest int64), the newest first."""
    distance = pc.subtract(rewinds["from_committed"], rewinds["to_committed"])
    too_far = pc.less(distance, 0)  # the difference of a rewind is positive, or it did not fit
    distance = pc.if_else(too_far, pa.scalar(np.iinfo(np.int64).max), distance)
    found = rewinds.append_column("distance", distance)
    order = [("at", "descending"), ("partition", "ascending"), ("offset", "descending")]
    columns = [
        "at", "group_id", "topic", "topic_partition", "from_committed", "to_committed", "distance",
        "owner", "partition", "offset",
    ]  # fmt: skip
    return TableRows(found.sort_by(order).select(columns))


def _last_commits(offsets: pa.Table) -> pa.Table:
    found = offsets.group_by("group_id").aggregate(
        [("commit_timestamp", "max"), ("topic", "count"), ("topic", "count_distinct")]
    )
    return _renamed(
        found,
        {
            "commit_timestamp_max": "last_commit",
            "topic_count": "offsets",
            "topic_count_distinct": "topics",
        },
    )


def _by_group_and_topic(offsets: pa.Table, further: Sequence[str]) -> TableRows:
    key = [*_PLACE, *further]
    found = offsets.group_by(key).aggregate([("commit_timestamp", "max"), ("offset", "count")])
    named = _renamed(found, {"commit_timestamp_max": "last_commit", "offset_count": "offsets"})
    columns = [*key, "offsets", "last_commit"]
    return TableRows(named.select(columns).sort_by([(name, "ascending") for name in key]))


def _renamed(table: pa.Table, names: Mapping[str, str]) -> pa.Table:
    return table.rename_columns([names.get(name, name) for name in table.column_names])


def _later(left: pa.ChunkedArray, right: pa.ChunkedArray) -> pa.ChunkedArray:
    """The later time of each row; null only where both are null."""
    is_left = pc.fill_null(pc.greater(left, right), pc.is_valid(left))
    return pc.if_else(is_left, left, right)


def _time(time: datetime) -> pa.Scalar:
    return pa.scalar(time, TIMESTAMP)
