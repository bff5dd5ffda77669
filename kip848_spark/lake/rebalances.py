"""Reads the rebalances of a lake, and the evidence about those that are to be explained."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set
from datetime import datetime, timedelta
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kip848_spark.errors import no_such_group
from kip848_spark.insight import rebalance_fields as fields
from kip848_spark.insight.departures import EXPIRED, Departure, away_since, joined_at
from kip848_spark.insight.member_names import MemberNames
from kip848_spark.insight.ownership import END, TopicPartition, owned_before
from kip848_spark.insight.patterns import find_patterns
from kip848_spark.insight.phrases import shift
from kip848_spark.insight.ranking import flapping_clients
from kip848_spark.insight.story import CLASSIC, SHARE, STREAMS
from kip848_spark.lake.history import of_groups
from kip848_spark.lake.snapshot import LakeSnapshot, one_of, plain
from kip848_spark.lake.tables import TABLES
from kip848_spark.state.history_fields import GROUP_HISTORY, MEMBER_HISTORY
from kip848_spark.state.kinds import COMMIT
from kip848_spark.wire.tables import Row

LOOK_BACK = timedelta(hours=1)
"""How long before a rebalance commits of its members, and before and after it other rebalances of
the same pattern, are looked for."""
_USUAL = timedelta(minutes=10)
"""The time before a rebalance whose commits show the usual interval."""
MOST_WITH_PATTERNS = 10_000
"""The largest number of rebalances in which patterns are looked for."""
_MOST_MEMBERS = 20
"""The largest number of members of one rebalance whose commits are looked for."""


def read_rebalances(
    snapshot: LakeSnapshot,
    groups: Sequence[str] | None = None,
    since: datetime | None = None,
    until: datetime | None = None,
) -> pa.Table:
    """The rebalances of ``groups`` (all if None) that began at or after ``since`` and before
    ``until`` (UTC), in the order of their start. Raises LakeError if the lake has no such table."""
    wanted = of_groups(snapshot, groups)
    if since is not None:
        wanted &= pc.field("started_at") >= since
    if until is not None:
        wanted &= pc.field("started_at") < until
    found = snapshot.select(fields.REBALANCES, wanted)
    order = [("started_at", "ascending"), ("partition", "ascending"), ("from_offset", "ascending")]
    return found.sort_by(order)


def with_cause(rebalances: pa.Table, cause: str) -> pa.Table:
    """The rows of ``rebalances`` that have ``cause`` among their causes."""
    lists = rebalances["causes"].combine_chunks()
    matching = pc.list_parent_indices(lists).filter(pc.equal(pc.list_flatten(lists), cause))
    return rebalances.take(pc.unique(matching))


def require_group(snapshot: LakeSnapshot, name: str) -> Row:
    """The row of the group in `groups`, or, if it was deleted, its last one in `group_history`. If
    the group is in two partitions of the topic, the one with the latest record.

    Raises NotFoundError, with similar names, if the lake never had such a group.
    """
    of_group = pc.field("group_id") == name
    if rows := plain(snapshot.select("groups", of_group)):
        return max(rows, key=lambda row: row["updated_at"])
    history = []
    if snapshot.has(GROUP_HISTORY):
        history = plain(snapshot.select(GROUP_HISTORY, of_group))
    if not history:
        known = snapshot.group_ids("groups")
        if snapshot.has(GROUP_HISTORY):
            known |= snapshot.group_ids(GROUP_HISTORY)
        raise no_such_group(name, known)
    return max(history, key=lambda row: (row["valid_from"], row["from_offset"])) | {
        "state": "Dead",
        "members": 0,
    }


def name_topics(snapshot: LakeSnapshot, rows: Sequence[Row]) -> None:
    """Sets ``topic`` in rows of `assignments` or its history that only have the topic's id, as far
    as the lake knows the name."""
    unnamed = {row["topic_id"] for row in rows if row["topic"] is None and row["topic_id"]}
    if not unnamed:
        return
    wanted = one_of("topic_id", unnamed) & pc.field("topic").is_valid()
    names: dict[str, str] = {}
    for table in ("topics", "offsets"):
        found = snapshot.select(table, wanted, ["topic_id", "topic"])
        names |= {row["topic_id"]: row["topic"] for row in plain(found)}
    for row in rows:
        row["topic"] = row["topic"] or names.get(row["topic_id"])


def departures(
    snapshot: LakeSnapshot,
    rebalances: Iterable[Row],
    members: Sequence[Row],
    assignments: Sequence[Row],
) -> dict[tuple[int, str], Departure]:
    """The evidence about the members that left in ``rebalances``, rows of one group, by the offset
    of the rebalance and the member id.

    The commits are read from `records`. ``members`` and ``assignments`` are rows of the history
    tables.
    """
    rows = [row for row in rebalances if fields.LEFT in (row["causes"] or ()) and row["left"]]
    if not rows:
        return {}
    group, partition = rows[0]["group_id"], rows[0]["partition"]
    commits = _commits(
        snapshot,
        group,
        partition,
        shift(min(row["started_at"] for row in rows), -LOOK_BACK),
        max(row["from_offset"] for row in rows),
    )
    timeouts = _session_timeouts(snapshot, rows, members)
    static = {one["member_id"] for one in members if one["instance_id"] is not None}
    found = {}
    for row in rows:
        for member in row["left"][:_MOST_MEMBERS]:
            owned = owned_before(assignments, member, row["started_at"])
            last, usual = _last_commit(commits, owned, row["from_offset"], row["started_at"])
            joined = joined_at(row, member, members)
            if last is not None and joined is not None and last < joined:
                last = None  # of an owner before
            away = away_since(row, member, members)
            found[row["from_offset"], member] = Departure(
                member,
                row["started_at"],
                len(owned),
                last,
                usual,
                timeouts.get(member),
                row["type"] == CLASSIC,
                away,
                EXPIRED if away is not None else row["likely"],
                joined,
                row["type"] not in (SHARE, STREAMS),
                member in static,
            )
    return found


def _commits(
    snapshot: LakeSnapshot, group: str, partition: int, since: datetime, before: int
) -> pa.Table:
    """The commits of a group since a time and before an offset."""
    wanted = (
        (pc.field("partition") == partition)
        & (pc.field("offset") < before)
        & (pc.field("timestamp") >= since)
        & (pc.field("kind") == COMMIT)
        & (pc.field("group_id") == group)
        & ~pc.field("tombstone")
    )
    return snapshot.select(
        "records", wanted, ["offset", "timestamp", "topic", "topic_partition"]
    ).sort_by("offset")


def _last_commit(
    commits: pa.Table, owned: Sequence[TopicPartition], before: int, at: datetime
) -> tuple[datetime | None, float | None]:
    """The time of the last commit of the partitions ``owned`` before an offset, and the median time
    in ms between two commits of one of them in the minutes before ``at``."""
    if not owned or not len(commits):
        return None, None
    place = pc.binary_join_element_wise(
        commits["topic"], commits["topic_partition"].cast(pa.string()), "\0"
    )
    wanted = pc.is_in(place, pa.array([f"{topic}\0{number}" for topic, number in owned]))
    mine = pc.and_(wanted, pc.less(commits["offset"], before))
    found, places = commits.filter(mine), place.filter(mine)
    if not len(found):
        return None, None
    last: datetime = pc.max(found["timestamp"]).as_py()
    recent = pc.greater_equal(found["timestamp"], pa.scalar(at - _USUAL, found["timestamp"].type))
    times = found["timestamp"].filter(recent).cast(pa.int64()).to_numpy()
    code = places.filter(recent).combine_chunks().dictionary_encode().indices.to_numpy()
    order = np.lexsort((times, code))
    same = np.diff(code[order]) == 0
    gaps = np.diff(times[order])[same] / 1000
    return last, float(np.median(gaps)) if len(gaps) > 1 else None


def _session_timeouts(
    snapshot: LakeSnapshot, rows: Sequence[Row], members: Sequence[Mapping[str, Any]]
) -> dict[str, int]:
    """The session timeouts in ms of the members that left, as far as records give them: those of
    members that use the classic protocol."""
    left = {member for row in rows for member in row["left"]}
    classic = {row["member_id"] for row in members if row["is_classic"]} & left
    if not classic:
        return {}
    group = pc.field("group_id") == rows[0]["group_id"]
    found: dict[str, int] = {}
    kind = "consumer_group_member_metadata"
    wanted = group & (pc.field("kind") == kind) & one_of("member_id", classic)
    for row in plain(snapshot.select("group_records", wanted, ["member_id", kind])):
        metadata = (row[kind] or {}).get("classic_member_metadata")
        if metadata:
            found[row["member_id"]] = metadata["session_timeout_ms"]
    kind = "group_metadata"
    group &= (pc.field("partition") == rows[0]["partition"]) & (pc.field("kind") == kind)
    offsets = np.sort(snapshot.select("group_records", group, ["offset"])["offset"].to_numpy())
    # A member that left is in the last record before. Each has all members of the group.
    at = np.searchsorted(offsets, [row["from_offset"] for row in rows])
    wanted = group & pc.field("offset").isin(offsets[at[at > 0] - 1])
    for row in plain(snapshot.select("group_records", wanted, [kind])):
        for member in (row[kind] or {}).get("members") or ():
            if member["member_id"] in classic:
                found[member["member_id"]] = member["session_timeout"]
    return found


def member_names(
    snapshot: LakeSnapshot, rebalances: pa.Table, columns: Sequence[str]
) -> dict[str, MemberNames]:
    """Names, by group, for the members in ``columns`` of rows of `rebalances`; none if the lake has
    no history."""
    by_group: dict[str, list[Row]] = {}
    for row in plain(read_members(snapshot, rebalances, columns)):
        by_group.setdefault(row["group_id"], []).append(row)
    return {group: MemberNames(rows) for group, rows in by_group.items()}


def read_members(snapshot: LakeSnapshot, rebalances: pa.Table, columns: Sequence[str]) -> pa.Table:
    """The members in ``columns`` of rows of `rebalances`: what identifies them, and from when to
    when they existed (``valid_from``, ``valid_to``). No rows if the lake has no history."""
    identity = ["group_id", "member_id", "instance_id", "client_id", "client_host"]
    fields = [*identity, "valid_from", "valid_to"]
    if not snapshot.has(MEMBER_HISTORY) or not len(rebalances):
        types = TABLES[MEMBER_HISTORY].fields
        return pa.schema([(name, types[name]) for name in fields]).empty_table()
    members: set[str] = set()
    for column in columns:
        values = rebalances[column].combine_chunks()
        flat = pc.list_flatten(values) if pa.types.is_list(values.type) else values
        members.update(filter(None, pc.unique(flat).to_pylist()))
    wanted = one_of("group_id", pc.unique(rebalances["group_id"]).to_pylist())
    wanted &= one_of("member_id", members)
    wanted &= pc.field("partition").isin(pc.unique(rebalances["partition"]))
    found = snapshot.select(MEMBER_HISTORY, wanted, fields)
    ends = found["valid_to"].fill_null(pa.scalar(END, found.schema.field("valid_to").type))
    found = found.set_column(found.column_names.index("valid_to"), "valid_to", ends)
    spans = found.group_by(identity).aggregate([("valid_from", "min"), ("valid_to", "max")])
    return spans.rename_columns(fields)


def flapping_of(snapshot: LakeSnapshot, rebalances: pa.Table, top: int) -> list[Row]:
    """The ``top`` clients that joined and left most often in rows of `rebalances`."""

    def names_of(groups: Sequence[str]) -> dict[str, MemberNames]:
        theirs = rebalances.filter(pc.is_in(rebalances["group_id"], pa.array(groups, pa.string())))
        return member_names(snapshot, theirs, ("joined", "left"))

    return flapping_clients(rebalances, names_of, top)


def patterns_of(
    snapshot: LakeSnapshot, rebalances: pa.Table, groups: Sequence[str] | None = None
) -> list[Row]:
    """The patterns that rows of `rebalances` belong to, as plain values; the rows are of ``groups``
    (any if None)."""
    if not len(rebalances):
        return []
    times = pc.min_max(rebalances["started_at"]).as_py()
    episodes = set(pc.unique(rebalances["episode_id"]).to_pylist())
    return patterns_around(snapshot, episodes, times["min"], times["max"], groups)


def patterns_around(
    snapshot: LakeSnapshot,
    episodes: Set[str],
    start: datetime,
    end: datetime,
    groups: Sequence[str] | None = None,
) -> list[Row]:
    """The patterns that ``episodes`` from ``start`` to ``end`` belong to. Rebalances of the hour
    before and after may belong to a pattern as well, so a rebalance has the same patterns in every
    time range. Only the last rebalances are looked at if there are many."""
    around = read_rebalances(snapshot, groups, shift(start, -LOOK_BACK), shift(end, LOOK_BACK))
    recent = around.slice(max(0, len(around) - MOST_WITH_PATTERNS))
    # Clients matter where one of them may have come back.
    went = recent.filter(pc.greater(pc.list_value_length(recent["left"]), 0))["group_id"]
    returned = recent.filter(pc.is_in(recent["group_id"], pc.unique(went)))
    members = read_members(snapshot, returned, ("joined", "left"))
    found = plain(find_patterns(recent, members, rebalance_timeouts(snapshot, recent)))
    return [row for row in found if not episodes.isdisjoint(row["episode_ids"])]


def rebalance_timeouts(snapshot: LakeSnapshot, rebalances: pa.Table) -> dict[str, int]:
    """The rebalance timeouts in ms of the members that joined and left more than once in rows of
    `rebalances`, by member id: those of the consumer protocol."""
    joined, left = (_several_times(rebalances[name]) for name in ("joined", "left"))
    members = set(joined.to_pylist()).intersection(left.to_pylist())
    if not members:
        return {}
    kind = "consumer_group_member_metadata"
    wanted = (pc.field("kind") == kind) & one_of("member_id", members)
    wanted &= pc.field("partition").isin(pc.unique(rebalances["partition"]))
    records = snapshot.select("group_records", wanted, ["member_id", "offset", kind])
    records = records.filter(records[kind].is_valid()).sort_by("offset")
    timeouts = pc.struct_field(records[kind], "rebalance_timeout_ms")
    return dict(zip(records["member_id"].to_pylist(), timeouts.to_pylist(), strict=True))


def _several_times(lists: pa.ChunkedArray) -> pa.Array:
    """The values that are more than once in ``lists``."""
    counts = pc.value_counts(pc.list_flatten(lists))
    return counts.field("values").filter(pc.greater(counts.field("counts"), 1))
