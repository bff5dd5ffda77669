"""The table `members`, derived from the control state."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kip848_spark.state import kinds
from kip848_spark.state.codes import last_rows
from kip848_spark.state.control_state import ControlState, integers, parent_rows, state_table
from kip848_spark.state.groups import LEFT_EPOCH
from kip848_spark.wire.array_types import Int64Array
from kip848_spark.wire.columns import list_offsets

JOINING_EPOCH = 0
"""The epoch of a consumer group's member that has metadata but no assignment yet."""
MEMBER_STATES = {0: "stable", 1: "unrevoked_partitions", 2: "unreleased_partitions"}
_UNKNOWN = 127

_STRINGS = pa.list_(pa.string())

MEMBER_FIELDS: dict[str, pa.DataType] = {
    "group_id": pa.string(),
    "member_id": pa.string(),
    "instance_id": pa.string(),
    "rack_id": pa.string(),
    "client_id": pa.string(),
    "client_host": pa.string(),
    "subscribed_topics": _STRINGS,
    "subscribed_regex": pa.string(),
    "assignor": pa.string(),
    "member_epoch": pa.int32(),
    "previous_member_epoch": pa.int32(),
    "member_state": pa.string(),
    "is_classic": pa.bool_(),
    "partition": pa.int32(),
}


def members(table: pa.Table) -> pa.Table:
    """One row for each member: the columns `MEMBER_FIELDS`. ``table`` is the control state."""
    carried = ControlState(table)
    metadata = last_rows(carried.member, carried.rows(*kinds.MEMBERS))
    current = last_rows(carried.member, carried.rows(*kinds.CURRENTS, values=False))
    known = (metadata >= 0) | (current >= 0)
    classic, _ = classic_members(carried, carried.rows(kinds.CLASSIC))
    return pa.concat_tables([modern_members(carried, metadata[known], current[known]), classic])


def modern_members(carried: ControlState, metadata: Int64Array, current: Int64Array) -> pa.Table:
    """Members of consumer, share and streams groups: a row for each pair of a record with the
    member's metadata (key types 5, 10, 19) and one with its current assignment (8, 14, 22). -1:
    there is no such record; one of the two is there."""
    newest = np.where(metadata >= 0, metadata, current)
    columns = {
        name: carried.column(name, newest) for name in ("group_id", "member_id", "partition")
    }
    records, record = np.unique(metadata, return_inverse=True)
    for name, values in _metadata_columns(carried, records).items():
        columns[name] = values.take(pa.array(record))
    gone = current >= 0
    gone[gone] = carried.tombstone[current[gone]]
    fresh = np.isin(metadata, carried.rows(kinds.MEMBER)) & (current < 0)
    for name, first in (("member_epoch", JOINING_EPOCH), ("previous_member_epoch", LEFT_EPOCH)):
        epoch = _coalesce_field(carried, kinds.CURRENTS, name, current, pa.int32())
        epoch = pc.if_else(pa.array(gone), LEFT_EPOCH, epoch)
        columns[name] = pc.if_else(pa.array(fresh), first, epoch)
    state = _coalesce_field(carried, kinds.CURRENTS[:2], "state", current, pa.int8())
    names = _state_names(state)
    if kinds.STREAMS_CURRENT in carried.kinds:
        tasks = carried.field(kinds.STREAMS_CURRENT, "state", current)
        names = pc.coalesce(names, _state_names(_from_zero(tasks)))
    columns["member_state"] = pc.if_else(pa.array(fresh), MEMBER_STATES[0], names)
    return state_table(columns, MEMBER_FIELDS, len(newest))


def _metadata_columns(carried: ControlState, rows: Int64Array) -> dict[str, pa.Array]:
    """The columns that the metadata of members gives."""
    columns = {
        "subscribed_topics": _sorted_lists(
            _coalesce_field(carried, kinds.MEMBERS[:2], "subscribed_topic_names", rows, _STRINGS)
        ),
        "subscribed_regex": _none_if_empty(
            carried.field(kinds.MEMBER, "subscribed_topic_regex", rows)
        ),
        "assignor": carried.field(kinds.MEMBER, "server_assignor", rows),
        "is_classic": pc.is_valid(carried.field(kinds.MEMBER, "classic_member_metadata", rows)),
    }
    for name in ("instance_id", "rack_id", "client_id", "client_host"):
        have = kinds.MEMBERS if name != "instance_id" else (kinds.MEMBERS[0], kinds.MEMBERS[2])
        columns[name] = _coalesce_field(carried, have, name, rows, pa.string())
    return columns


def _coalesce_field(
    carried: ControlState, of: Sequence[str], name: str, rows: Int64Array, type_: pa.DataType
) -> pa.Array:
    """The field ``name`` of the kind of record that each row is, out of the kinds ``of``."""
    present = [carried.field(kind, name, rows) for kind in of if kind in carried.kinds]
    return pc.coalesce(*present) if present else pa.nulls(len(rows), type_)


def _from_zero(state: pa.Array) -> pa.Array:
    """The states of streams members, which count from 1
    (docs/kafka-facts.md#streams-member-states), as those of other members, which count from 0."""
    return pc.if_else(pc.equal(state, 0), _UNKNOWN, pc.subtract(state, 1)).cast(pa.int8())


def _state_names(state: pa.Array) -> pa.Array:
    names = pa.array([*MEMBER_STATES.values(), "unknown", None])
    code = integers(state.cast(pa.int64()), -1)
    known = (code >= 0) & (code < len(MEMBER_STATES))
    return names.take(pa.array(np.where(known, code, np.where(code == -1, -1, 3)) % 5))


def classic_members(carried: ControlState, rows: Int64Array) -> tuple[pa.Table, Int64Array]:
    """Members of classic groups, from records of key type 2; and int64[members]: the record of
    each."""
    lists = carried.field(kinds.CLASSIC, "members", rows)
    owner = rows[parent_rows(lists)]
    each = pc.list_flatten(lists)
    subscription = pc.struct_field(each, "consumer_subscription")
    columns = {
        "group_id": carried.column("group_id", owner),
        "member_id": pc.struct_field(each, "member_id"),
        "instance_id": pc.struct_field(each, "group_instance_id"),
        "rack_id": pc.struct_field(subscription, "rack_id"),
        "client_id": pc.struct_field(each, "client_id"),
        "client_host": pc.struct_field(each, "client_host"),
        "subscribed_topics": _sorted_lists(pc.struct_field(subscription, "topics")),
        "is_classic": pa.array(np.ones(len(owner), bool)),
        "partition": carried.column("partition", owner),
    }
    return state_table(columns, MEMBER_FIELDS, len(owner)), owner


def _none_if_empty(text: pa.Array) -> pa.Array:
    return pc.if_else(pc.equal(text, ""), pa.scalar(None, pa.string()), text)


def _sorted_lists(lists: pa.Array) -> pa.Array:
    """list<string>[n]: each list sorted and without duplicates; null stays null."""
    values = pc.list_flatten(lists)
    parent = parent_rows(lists)
    pairs = pa.table({"parent": parent, "value": values.cast(pa.string())})
    pairs = pairs.group_by(["parent", "value"]).aggregate([])
    pairs = pairs.sort_by([("parent", "ascending"), ("value", "ascending")])
    sizes = np.bincount(pairs["parent"].to_numpy(), minlength=len(lists))
    mask = lists.is_null() if lists.null_count else None
    return pa.ListArray.from_arrays(list_offsets(sizes), pairs["value"].combine_chunks(), mask=mask)
