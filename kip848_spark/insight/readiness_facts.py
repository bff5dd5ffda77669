"""Facts about groups that decide whether they can move to the consumer protocol: one row a group.

The state tables have most of them. The rest (timeouts, user data, metadata that can't be read) are
in the records of key types 2 and 5 only, which `classic_records` decodes from the control state.
Facts that need the past are null where the lake has no history."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kip848_spark.insight.readiness_columns import (
    Members,
    classic_details,
    count_by,
    distinct_lists,
    group_index,
    most_distinct,
    nullable,
    quick_replacements,
)
from kip848_spark.insight.readiness_guesses import Guess, guess_libraries
from kip848_spark.state import kinds
from kip848_spark.state.control_state import integers
from kip848_spark.wire.array_types import Int64Array

_STRINGS = pa.list_(pa.string())
EAGER = ("range", "roundrobin", "sticky")
"""Assignors of clients with which every rebalance takes all partitions away first."""
_DAY = 86_400_000_000
"""Microseconds."""

FACTS: dict[str, pa.DataType] = {
    "group_id": pa.string(),
    "partition": pa.int32(),
    "type": pa.string(),
    "state": pa.string(),
    "protocol_type": pa.string(),
    "protocol": pa.string(),
    "commits_only": pa.bool_(),
    "unread_records": pa.int64(),
    "members": pa.int64(),
    "classic_members": pa.int64(),
    "static_members": pa.int64(),
    "rack_members": pa.int64(),
    "topics": pa.int64(),
    "different_subscriptions": pa.bool_(),
    "server_assignors": _STRINGS,
    "libraries": _STRINGS,
    "library_count": pa.int64(),
    "likely_client": pa.string(),
    "likely_client_from": pa.string(),
    "unreadable_subscriptions": pa.int64(),
    "unreadable_assignments": pa.int64(),
    "subscription_user_data": pa.int64(),
    "assignment_user_data": pa.int64(),
    "session_timeout_min": pa.int64(),
    "session_timeout_max": pa.int64(),
    "rebalance_timeout_max": pa.int64(),
    "assigned_partitions": pa.int64(),
    "shared_partitions": pa.int64(),
    "committed_partitions": pa.int64(),
    "idle_days": pa.int64(),
    "coupled_groups": pa.int64(),
    "instance_hosts": pa.int64(),
    "instance_replacements": pa.int64(),
    "subscription_versions": pa.int64(),
    "commits_per_day": pa.int64(),
    "rebalances_per_day": pa.int64(),
    "rebalances": pa.int64(),
    "cheaper_rebalances": pa.int64(),
    "avoidable_stops": pa.int64(),
    "avoidable_unowned": pa.int64(),
    "evidence": pa.list_(pa.int64()),
}
"""The facts by name, and their Arrow types. Timeouts are in milliseconds.

* ``commits_only``: a classic group without a record of key type 2.
* ``unread_records``: records of the group that could not be decoded.
* ``topics``: subscribed topics. ``assigned_partitions``: partitions that its members own.
  ``shared_partitions``: those of them that several members own, in a classic group.
* ``server_assignors``: the assignors that members of the new protocol ask for.
* ``idle_days``: whole days since the newest commit; null without a commit.
* ``coupled_groups``: the most other groups that have a member on the same host as one of its own.
* ``instance_hosts``: the most hosts from which one instance id was used; null without history.
* ``instance_replacements``: how often one instance id went to another member within a minute, the
  most of all instance ids; null without history.
* ``subscription_versions``: the most subscriptions of one client id; null without history.
* ``rebalances``: in the last days; null where the lake has no such table. ``cheaper_rebalances``:
  those of them, in a classic group, in which members stopped that had to give up nothing (the
  assignor is eager, and not all partitions moved), or more partitions moved than had to.
* ``avoidable_stops``: of the members that stopped in these rebalances, those that would not have
  stopped in the new protocol. ``avoidable_unowned``: partitions that were without an owner for a
  time, and would not have been. Sums over the rebalances, and lower bounds: a member that has just
  joined did not stop, and each partition that has to move counts as a member that stops. The group
  is taken to have had as many partitions as it has now.
* ``evidence``: offsets, in ``partition`` of __consumer_offsets, of the records behind the facts.
"""


@dataclass(frozen=True)
class Sources:
    """The tables that facts are made of.

    ``groups`` and ``members`` are the tables of these names. ``control_state`` are its rows of key
    types 2 and 5 (`CONTROL_KINDS`). ``assigned`` has a row for each group with assigned partitions:
    ``group_id``, ``partitions``, ``shared`` (`count_assigned`). ``commits`` has one for each group
    with commits: ``group_id``, ``partitions``, ``newest`` (timestamp of its newest commit). ``now``
    is the time that idle times are relative to (UTC).

    Optional, because not every lake has them: ``unread`` (``group_id`` and ``offset`` of each
    record that could not be decoded), ``member_history``, ``offset_activity`` and ``rebalances``,
    the tables of these names, the last two with the rows of the last ``days`` days.
    """

    groups: pa.Table
    members: pa.Table
    control_state: pa.Table
    assigned: pa.Table
    commits: pa.Table
    now: datetime
    unread: pa.Table | None = None
    member_history: pa.Table | None = None
    offset_activity: pa.Table | None = None
    rebalances: pa.Table | None = None
    days: int = 30
    guesses: Sequence[Guess] = field(default_factory=tuple)


def count_assigned(assignments: pa.Table) -> pa.Table:
    """group_id, partitions, shared: how many partitions the members of each group own, and how many
    of these several members own. ``assignments`` are the rows of that table with role ``assigned``;
    its columns ``group_id``, ``topic``, ``topic_id``, ``topic_partition`` are used."""
    place = ["group_id", "topic", "topic_id", "topic_partition"]
    owners = assignments.select(place).group_by(place).aggregate([([], "count_all")])
    shared = pc.greater(owners["count_all"], 1).cast(pa.int64())
    table = pa.table({"group_id": owners["group_id"], "shared": shared})
    found = table.group_by("group_id").aggregate([([], "count_all"), ("shared", "sum")])
    return found.rename_columns(["group_id", "partitions", "shared"])


CONTROL_KINDS = (kinds.CLASSIC, kinds.MEMBER)
"""The kinds of the rows of `control_state` that facts need."""


def group_facts(sources: Sources) -> pa.Table:
    """The columns `FACTS`: one row for each row of ``sources.groups``, in the same order."""
    groups = sources.groups
    count = groups.num_rows
    names = groups["group_id"].combine_chunks()
    type_ = groups["type"].combine_chunks()
    members = Members.of(sources.members, names)
    details = classic_details(sources.control_state, names)
    classic = pc.equal(type_, "classic")
    columns: dict[str, pa.Array] = {
        name: groups[name].combine_chunks()
        for name in ("group_id", "partition", "type", "state", "protocol_type", "protocol")
    }
    columns |= _member_facts(members, count, sources.guesses)
    columns |= details.columns(count)
    columns["members"] = pc.fill_null(groups["members"].combine_chunks(), 0).cast(pa.int64())
    columns["commits_only"] = pc.and_(classic, pa.array(details.without_record(count)))
    columns["unread_records"] = _unread(sources, names, count)
    columns["assigned_partitions"] = _sums(sources.assigned, names, count, "partitions")
    columns["shared_partitions"] = pc.if_else(
        classic, _sums(sources.assigned, names, count, "shared"), 0
    )
    columns["committed_partitions"] = _sums(sources.commits, names, count, "partitions")
    columns["idle_days"] = _idle_days(sources, names, count)
    columns["evidence"] = _evidence(details.evidence(count), groups)
    columns |= _past_facts(sources, names, count)
    columns |= _rebalance_facts(sources, columns, count)
    arrays = [columns[name].cast(of) for name, of in FACTS.items()]
    return pa.table(arrays, schema=pa.schema(list(FACTS.items())))


def _member_facts(members: Members, count: int, guesses: Sequence[Guess]) -> dict[str, pa.Array]:
    rows, group = members.rows, members.group
    library, column = guess_libraries(rows, guesses)
    libraries = distinct_lists(group, library, count)
    ids = pc.if_else(pc.equal(column, "client_id"), rows["client_id"], rows["member_id"])
    words = pc.binary_join_element_wise(
        pc.replace_substring(column, "_", " "), ids.combine_chunks(), " "
    )
    hint = _first_words(group, words, count)
    topics = rows["subscribed_topics"].combine_chunks()
    parents = pc.list_parent_indices(topics).to_numpy()
    pairs = distinct_lists(group[parents], pc.list_flatten(topics), count)
    joined = pc.binary_join(topics, "\n")
    subscriptions = distinct_lists(group, joined, count)
    return {
        "classic_members": count_by(group, members.is_classic, count),
        "static_members": count_by(group, members.named("instance_id"), count),
        "rack_members": count_by(group, members.named("rack_id"), count),
        "topics": pc.list_value_length(pairs).cast(pa.int64()),
        "different_subscriptions": pc.greater(pc.list_value_length(subscriptions), 1),
        "server_assignors": distinct_lists(group, rows["assignor"].combine_chunks(), count),
        "libraries": libraries,
        "library_count": pc.list_value_length(libraries).cast(pa.int64()),
        "likely_client": pc.if_else(
            pc.equal(pc.list_value_length(libraries), 0), None, pc.binary_join(libraries, ", ")
        ),
        "likely_client_from": hint,
        "coupled_groups": _coupled(members, count),
    }


def _first_words(group: Int64Array, words: pa.Array, count: int) -> pa.Array:
    """string[groups]: the smallest of the words of each group; null if it has none."""
    known = words.is_valid().to_numpy(zero_copy_only=False)
    table = pa.table({"g": group[known], "w": words.filter(pa.array(known))})
    least = table.group_by("g").aggregate([("w", "min")])
    at = np.full(count, -1, np.int64)
    at[least["g"].to_numpy()] = np.arange(least.num_rows)
    return least["w_min"].combine_chunks().take(pa.array(at, mask=at < 0))


def _coupled(members: Members, count: int) -> pa.Array:
    """int64[groups]: see ``coupled_groups`` in `FACTS`."""
    host = members.rows["client_host"].combine_chunks()
    known = pc.fill_null(pc.not_equal(host, ""), False).to_numpy(zero_copy_only=False)
    pairs = pa.table({"g": members.group[known], "h": host.filter(pa.array(known))})
    pairs = pairs.group_by(["g", "h"]).aggregate([])
    codes = pc.dictionary_encode(pairs["h"].combine_chunks()).indices.to_numpy(zero_copy_only=False)
    others = np.bincount(codes)[codes] - 1 if len(codes) else np.empty(0, np.int64)
    most = np.zeros(count, np.int64)
    np.maximum.at(most, pairs["g"].to_numpy(), others)
    return pa.array(most)


def _counts(rows: pa.Table | None, names: pa.Array, count: int) -> pa.Array:
    if rows is None or not rows.num_rows:
        return pa.array(np.zeros(count, np.int64))
    group = group_index(rows["group_id"], names)
    return pa.array(np.bincount(group[group >= 0], minlength=count))


def _unread(sources: Sources, names: pa.Array, count: int) -> pa.Array:
    """int64[groups]: the records that could not be decoded, after the newest one that was."""
    rows = sources.unread
    if rows is None or not rows.num_rows:
        return pa.array(np.zeros(count, np.int64))
    last = integers(sources.groups["last_offset"].combine_chunks(), -1)
    group = group_index(rows["group_id"], names)
    later = (group >= 0) & (integers(rows["offset"].combine_chunks(), -1) > last[group])
    return pa.array(np.bincount(group[later], minlength=count))


def _sums(rows: pa.Table, names: pa.Array, count: int, column: str) -> pa.Array:
    group = group_index(rows["group_id"], names)
    known = group >= 0
    values = integers(rows[column].combine_chunks().cast(pa.int64()), 0)[known]
    return pa.array(np.bincount(group[known], values, count).astype(np.int64))


def _idle_days(sources: Sources, names: pa.Array, count: int) -> pa.Array:
    group = group_index(sources.commits["group_id"], names)
    newest = sources.commits["newest"].combine_chunks().cast(pa.int64())
    known = (group >= 0) & newest.is_valid().to_numpy(zero_copy_only=False)
    now = int(sources.now.timestamp() * 1_000_000)
    days = np.full(count, -1, np.int64)
    days[group[known]] = np.maximum(0, now - integers(newest, 0)[known]) // _DAY
    return nullable(days)


def _evidence(lists: pa.ListArray, groups: pa.Table) -> pa.ListArray:
    """The offsets of the decoded records; without any, the offset of the group's newest record."""
    offset = groups["last_offset"].combine_chunks()
    single = pa.ListArray.from_arrays(np.arange(len(offset) + 1, dtype=np.int32), offset)
    return pc.if_else(pc.greater(pc.list_value_length(lists), 0), lists, single)


def _past_facts(sources: Sources, names: pa.Array, count: int) -> dict[str, pa.Array]:
    """The facts that need the past; null if the lake has no such table."""
    unknown = pa.nulls(count, pa.int64())
    found = dict.fromkeys(_OF_HISTORY, unknown)
    history = sources.member_history
    if history is not None:
        group = group_index(history["group_id"], names)
        found["instance_hosts"] = most_distinct(
            group, history["instance_id"], history["client_host"], count
        )
        found["instance_replacements"] = quick_replacements(group, history, count)
        topics = pc.binary_join(history["subscribed_topics"].combine_chunks(), "\n")
        classic = pc.fill_null(history["is_classic"].combine_chunks(), False)
        topics = pc.if_else(classic, topics, None)
        found["subscription_versions"] = most_distinct(group, history["client_id"], topics, count)
    if sources.offset_activity is not None:
        found["commits_per_day"] = _rate(
            _sums(sources.offset_activity, names, count, "commits"), sources
        )
    return found


_OF_HISTORY = (
    "instance_hosts", "instance_replacements", "subscription_versions", "commits_per_day",
)  # fmt: skip


def _rebalance_facts(
    sources: Sources, columns: dict[str, pa.Array], count: int
) -> dict[str, pa.Array]:
    """The facts from the table `rebalances`; null if the lake does not have it."""
    rows = sources.rebalances
    if rows is None:
        unknown = pa.nulls(count, pa.int64())
        return dict.fromkeys(_OF_REBALANCES, unknown)
    group = group_index(rows["group_id"], columns["group_id"])
    known = group >= 0
    group = group[known]
    moved, fewest, members = (
        integers(rows[name].combine_chunks().cast(pa.int64()), -1)[known]
        for name in ("partitions_moved", "minimal_moves", "members")
    )
    joined = pc.fill_null(pc.list_value_length(rows["joined"].combine_chunks()), 0)
    joined = joined.to_numpy(zero_copy_only=False)[known]
    eager = pc.is_in(columns["protocol"], value_set=pa.array(EAGER)).to_numpy(False)[group]
    owned = columns["assigned_partitions"].to_numpy()[group]
    classic = pc.fill_null(pc.equal(rows["type"], "classic").combine_chunks(), False)
    classic = classic.to_numpy(zero_copy_only=False)[known] & (moved >= 0)
    stopped = eager & (members > 1) & (moved < owned)
    cheaper = classic & (stopped | (moved > fewest))
    fewest = np.maximum(fewest, 0)
    avoided = {
        "avoidable_stops": np.where(stopped, np.minimum(members - joined, owned) - fewest, 0),
        "avoidable_unowned": np.where(eager, np.maximum(owned, moved), moved) - fewest,
    }
    total = pa.array(np.bincount(group, minlength=count))
    return {
        "rebalances": total,
        "cheaper_rebalances": count_by(group, cheaper, count),
        **{
            name: pa.array(np.bincount(group, np.where(cheaper, some.clip(0), 0), count))
            for name, some in avoided.items()
        },
        "rebalances_per_day": _rate(total, sources),
    }


_OF_REBALANCES = (
    "rebalances", "cheaper_rebalances", "avoidable_stops", "avoidable_unowned",
    "rebalances_per_day",
)  # fmt: skip


def _rate(total: pa.Array, sources: Sources) -> pa.Array:
    return pa.array(total.to_numpy() // max(sources.days, 1))
