"""Columns of facts: members and records of key types 2 and 5, reduced to one value a group."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kip848_spark.state import kinds
from kip848_spark.state.codes import factorize
from kip848_spark.state.control_state import integers, parent_rows
from kip848_spark.wire.array_types import BoolArray, Int64Array
from kip848_spark.wire.columns import list_offsets
from kip848_spark.wire.control import control_columns
from kip848_spark.wire.control_plans import CONTROL_FIELDS, control_plan
from kip848_spark.wire.embedded import CONSUMER

_CHUNK = 1 << 16
"""Records that are decoded at a time."""
QUICK = 60_000_000
"""Microseconds: the longest session that brokers allow by default. So long may a member of the new
protocol keep its instance id if it does not leave."""


def group_index(group_id: pa.ChunkedArray | pa.Array, names: pa.Array) -> Int64Array:
    """int64[n]: the row of each group id in ``names``; -1 if it is not there."""
    if isinstance(group_id, pa.ChunkedArray):
        group_id = group_id.combine_chunks()
    return integers(pc.index_in(group_id, names).cast(pa.int64()), -1)


def nullable(values: Int64Array) -> pa.Array:
    """int64[n] with null in place of negative numbers."""
    return pa.array(values, mask=values < 0)


def count_by(group: Int64Array, wanted: BoolArray, count: int) -> pa.Array:
    """int64[count]: how many of the rows of each group are ``wanted``."""
    return pa.array(np.bincount(group[wanted], minlength=count))


def extremes(group: Int64Array, values: Int64Array, count: int) -> tuple[pa.Array, pa.Array]:
    """int64[count], int64[count]: the least and the largest of the values (0 or more) of each
    group; null if it has none."""
    most = np.full(count, -1, np.int64)
    np.maximum.at(most, group, values)
    least = np.full(count, np.iinfo(np.int64).max)
    np.minimum.at(least, group, values)
    least[most < 0] = -1
    return nullable(least), nullable(most)


def distinct_lists(group: Int64Array, values: pa.Array, count: int) -> pa.ListArray:
    """list<string>[count]: the distinct values of each group, sorted, without nulls."""
    known = values.is_valid().to_numpy(zero_copy_only=False)
    pairs = pa.table({"g": group[known], "v": values.filter(pa.array(known)).cast(pa.string())})
    pairs = pairs.group_by(["g", "v"]).aggregate([])
    pairs = pairs.sort_by([("g", "ascending"), ("v", "ascending")])
    sizes = np.bincount(pairs["g"].to_numpy(), minlength=count)
    return pa.ListArray.from_arrays(list_offsets(sizes), pairs["v"].combine_chunks())


def most_distinct(
    group: Int64Array, keys: pa.ChunkedArray, values: pa.ChunkedArray | pa.Array, count: int
) -> pa.Array:
    """int64[count]: the most distinct values that one key of the group has; 0 without keys. Rows of
    other groups (-1) and those with a null key or value do not count."""
    table = pa.table({"g": group, "k": keys, "v": values})
    known = pc.and_(pc.is_valid(table["k"]), pc.is_valid(table["v"]))
    table = table.filter(pc.and_(known, pc.greater_equal(table["g"], 0)))
    pairs = table.group_by(["g", "k", "v"]).aggregate([]).group_by(["g", "k"])
    sizes = pairs.aggregate([("v", "count")])
    most = np.zeros(count, np.int64)
    np.maximum.at(most, sizes["g"].to_numpy(), sizes["v_count"].to_numpy())
    return pa.array(most)


def quick_replacements(group: Int64Array, history: pa.Table, count: int) -> pa.Array:
    """int64[count]: how often a member took an instance id less than `QUICK` after another one had
    taken it; of the group's instance ids, the one with the most counts. ``history`` has the columns
    ``instance_id``, ``member_id`` and ``valid_from`` of `member_history`, ``group`` (int64[n]) the
    row of each one's group, -1 for none."""
    keys = ["g", "instance_id", "member_id"]
    table = pa.table({"g": group, **{name: history[name] for name in (*keys[1:], "valid_from")}})
    known = pc.and_(pc.is_valid(table["instance_id"]), pc.is_valid(table["valid_from"]))
    table = table.filter(pc.and_(known, pc.greater_equal(table["g"], 0)))
    taken = table.group_by(keys).aggregate([("valid_from", "min")])
    taken = taken.sort_by([(name, "ascending") for name in (*keys[:2], "valid_from_min")])
    groups, instance = taken["g"].to_numpy(), factorize(taken["instance_id"])
    at = integers(taken["valid_from_min"].combine_chunks().cast(pa.int64()), 0)
    same = (np.diff(groups) == 0) & (np.diff(instance) == 0)
    quick = (same & (np.diff(at) < QUICK)).astype(np.int64)
    replaced = pa.table({"g": groups[1:], "k": instance[1:], "quick": quick})
    sums = replaced.group_by(["g", "k"]).aggregate([("quick", "sum")])
    most = np.zeros(count, np.int64)
    np.maximum.at(most, sums["g"].to_numpy(), sums["quick_sum"].to_numpy())
    return pa.array(most)


class Members(NamedTuple):
    """Rows of the table `members`, and the row of each one's group (int64[n])."""

    rows: pa.Table
    group: Int64Array

    @classmethod
    def of(cls, members: pa.Table, names: pa.Array) -> Members:
        """The members of the groups ``names``."""
        group = group_index(members["group_id"], names)
        known = group >= 0
        if not known.all():
            members, group = members.filter(pa.array(known)), group[known]
        return cls(members, group)

    @property
    def is_classic(self) -> BoolArray:
        """bool[n]: the members that use the classic protocol."""
        flags = pc.fill_null(self.rows["is_classic"].combine_chunks(), False)
        return np.asarray(flags.to_numpy(zero_copy_only=False))

    def named(self, column: str) -> BoolArray:
        """bool[n]: the members that have a text in ``column``. librdkafka sends an empty rack where
        none is set."""
        named = pc.fill_null(pc.not_equal(self.rows[column].combine_chunks(), ""), False)
        return np.asarray(named.to_numpy(zero_copy_only=False))


@dataclass
class ClassicDetails:
    """What only the records say of classic members, one row a member.

    ``group`` (int64[n]) is the row of its group. Timeouts are in milliseconds, -1 if the record has
    none. ``sizes`` are the bytes of user data in a subscription and in an assignment. ``offsets``
    (int64[m]) are those of the records, ``owners`` (int64[m]) the rows of their groups, and
    ``with_record`` those of the groups that have a record of key type 2.
    """

    group: Int64Array
    session_timeout: Int64Array
    rebalance_timeout: Int64Array
    bad_subscription: BoolArray
    bad_assignment: BoolArray
    subscription_data: BoolArray
    assignment_data: BoolArray
    offsets: Int64Array
    owners: Int64Array
    with_record: Int64Array

    def columns(self, count: int) -> dict[str, pa.Array]:
        """The facts, int64[count] each."""
        timed = self.session_timeout >= 0
        least, most = extremes(self.group[timed], self.session_timeout[timed], count)
        timed = self.rebalance_timeout >= 0
        _, rebalance = extremes(self.group[timed], self.rebalance_timeout[timed], count)
        return {
            "session_timeout_min": least,
            "session_timeout_max": most,
            "rebalance_timeout_max": rebalance,
            "unreadable_subscriptions": count_by(self.group, self.bad_subscription, count),
            "unreadable_assignments": count_by(self.group, self.bad_assignment, count),
            "subscription_user_data": count_by(self.group, self.subscription_data, count),
            "assignment_user_data": count_by(self.group, self.assignment_data, count),
        }

    def without_record(self, count: int) -> BoolArray:
        """bool[count]: the groups that have no record of key type 2."""
        missing = np.ones(count, bool)
        missing[self.with_record] = False
        return missing

    def evidence(self, count: int) -> pa.ListArray:
        """list<int64>[count]: the offsets of the records of each group, ascending."""
        order = np.lexsort((self.offsets, self.owners))
        sizes = np.bincount(self.owners, minlength=count)
        return pa.ListArray.from_arrays(list_offsets(sizes), pa.array(self.offsets[order]))


def classic_details(control_state: pa.Table, names: pa.Array) -> ClassicDetails:
    """The details of the classic members of the groups ``names``. ``control_state`` has the rows of
    key types 2 and 5 of the table of that name; the bytes are decoded here."""
    parts = [_no_details()]
    for batch in control_state.combine_chunks().to_batches(max_chunksize=_CHUNK):
        rows = pa.Table.from_batches([batch])
        rows = rows.filter(pc.is_valid(rows["dialect"]))
        for dialect in pc.unique(rows["dialect"]).to_pylist():
            same = rows.filter(pc.equal(rows["dialect"], dialect)).combine_chunks()
            parts += _decode(same, dialect, names)
    merged = {
        name: np.concatenate([getattr(part, name) for part in parts])
        for name in ClassicDetails.__dataclass_fields__
    }
    return ClassicDetails(**merged)


def _no_details() -> ClassicDetails:
    none, never = np.empty(0, np.int64), np.empty(0, bool)
    return ClassicDetails(none, none, none, never, never, never, never, none, none, none)


def _decode(rows: pa.Table, dialect: str, names: pa.Array) -> list[ClassicDetails]:
    wanted = {kind: CONTROL_FIELDS[kind] for kind in (kinds.CLASSIC, kinds.MEMBER)}
    keys, values = (rows[name].combine_chunks() for name in ("raw_key", "raw_value"))
    if isinstance(keys, pa.ChunkedArray):
        keys, values = pa.concat_arrays(keys.chunks), pa.concat_arrays(values.chunks)
    found = control_columns(control_plan(dialect), wanted, keys, values)
    group = group_index(found["group_id"], names)
    offsets = integers(rows["offset"].combine_chunks(), -1)
    return [
        _classic_groups(found[kinds.CLASSIC], group, offsets),
        _classic_members(found[kinds.MEMBER], group, offsets),
    ]


def _classic_groups(records: pa.Array, group: Int64Array, offsets: Int64Array) -> ClassicDetails:
    """From records of key type 2."""
    there = records.is_valid().to_numpy(zero_copy_only=False) & (group >= 0)
    records, group, offsets = records.filter(pa.array(there)), group[there], offsets[there]
    lists = pc.struct_field(records, "members")
    owner = parent_rows(lists)
    members = pc.list_flatten(lists)
    consumer = pc.equal(pc.struct_field(records, "protocol_type"), CONSUMER).fill_null(False)
    of_consumer = consumer.to_numpy(zero_copy_only=False)[owner]
    subscription = pc.struct_field(members, "consumer_subscription")
    assignment = pc.struct_field(members, "consumer_assignment")
    given = _bytes(pc.struct_field(members, "assignment"))
    return ClassicDetails(
        group[owner],
        integers(pc.struct_field(members, "session_timeout").cast(pa.int64()), -1),
        integers(pc.struct_field(members, "rebalance_timeout").cast(pa.int64()), -1),
        of_consumer & _missing(subscription),
        of_consumer & _missing(assignment) & given,
        of_consumer & _bytes(pc.struct_field(subscription, "user_data")),
        of_consumer & _bytes(pc.struct_field(assignment, "user_data")),
        offsets,
        group,
        group,
    )


def _classic_members(records: pa.Array, group: Int64Array, offsets: Int64Array) -> ClassicDetails:
    """From records of key type 5: members of consumer groups that use the classic protocol."""
    classic = pc.struct_field(records, "classic_member_metadata")
    there = classic.is_valid().to_numpy(zero_copy_only=False) & (group >= 0)
    records, classic = records.filter(pa.array(there)), classic.filter(pa.array(there))
    group, offsets = group[there], offsets[there]
    never = np.zeros(len(group), bool)
    return ClassicDetails(
        group,
        integers(pc.struct_field(classic, "session_timeout_ms").cast(pa.int64()), -1),
        integers(pc.struct_field(records, "rebalance_timeout_ms").cast(pa.int64()), -1),
        never,
        never,
        never,
        never,
        offsets,
        group,
        np.empty(0, np.int64),
    )


def _bytes(blobs: pa.Array) -> BoolArray:
    """bool[n]: whether there is at least one byte."""
    some = pc.greater(pc.binary_length(blobs), 0).fill_null(False)
    return np.asarray(some.to_numpy(zero_copy_only=False))


def _missing(array: pa.Array) -> BoolArray:
    return np.asarray(array.is_null().to_numpy(zero_copy_only=False))
