"""The table `assignments`, derived from the control state."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kip848_spark.state import kinds
from kip848_spark.state.carried import (
    ControlState,
    integers,
    parent_rows,
    repeat_text,
    state_table,
)
from kip848_spark.state.fold import last_rows
from kip848_spark.wire.array_types import Int64Array

ASSIGNMENT_FIELDS: dict[str, pa.DataType] = {
    "group_id": pa.string(),
    "member_id": pa.string(),
    "topic_id": pa.string(),
    "topic": pa.string(),
    "topic_partition": pa.int32(),
    "role": pa.string(),
    "assignment_epoch": pa.int32(),
    "partition": pa.int32(),
}


def assignments(table: pa.Table) -> pa.Table:
    """One row for each partition of a member and role: the columns `ASSIGNMENT_FIELDS`.

    ``table`` is the control state. ``topic`` is null where the record names the topic by its id."""
    carried = ControlState(table)
    current = carried.rows(kinds.CURRENT)
    parts = [
        _explode(carried, kinds.CURRENT, "assigned_partitions", current, "assigned"),
        _explode(
            carried, kinds.CURRENT, "partitions_pending_revocation", current, "pending_revocation"
        ),
        _explode(carried, kinds.TARGET, "topic_partitions", carried.rows(kinds.TARGET), "target"),
        _explode(
            carried,
            kinds.SHARE_CURRENT,
            "assigned_partitions",
            carried.rows(kinds.SHARE_CURRENT),
            "assigned",
        ),
        _explode(
            carried,
            kinds.SHARE_TARGET,
            "topic_partitions",
            carried.rows(kinds.SHARE_TARGET),
            "target",
        ),
        _classic_assignments(carried),
    ]
    return pa.concat_tables(parts)


def _explode(carried: ControlState, kind: str, field: str, rows: Int64Array, role: str) -> pa.Table:
    lists = carried.field(kind, field, rows)
    owner = rows[parent_rows(lists)]
    topics = pc.list_flatten(lists)
    partitions = pc.struct_field(topics, "partitions")
    topic = parent_rows(partitions)
    number = pc.list_flatten(partitions)
    owner = owner[topic]
    columns = {
        "group_id": carried.column("group_id", owner),
        "member_id": carried.column("member_id", owner),
        "topic_id": pc.struct_field(topics, "topic_id").take(pa.array(topic)),
        "topic_partition": number,
        "role": repeat_text(role, len(owner)),
        "partition": carried.column("partition", owner),
    }
    if "assignment_epochs" in topics.type.names:
        columns["assignment_epoch"] = _epochs(topics, partitions)
    return state_table(columns, ASSIGNMENT_FIELDS, len(owner))


def _epochs(topics: pa.Array, partitions: pa.Array) -> pa.Array:
    """int32[partitions]: the assignment epoch of each partition; null where the counts differ."""
    epochs = pc.struct_field(topics, "assignment_epochs")
    sizes = integers(pc.list_value_length(partitions), 0)
    fits = integers(pc.list_value_length(epochs), -1) == sizes
    flat = pc.list_flatten(epochs)
    parent = parent_rows(epochs)
    epochs_of_rows = flat.filter(pa.array(fits[parent]))
    source = np.full(int(sizes.sum()), -1, np.int64)
    source[np.repeat(fits, sizes)] = np.arange(len(epochs_of_rows))
    return epochs_of_rows.take(pa.array(source, mask=source < 0))


def _classic_assignments(carried: ControlState) -> pa.Table:
    rows = last_rows(carried.group, carried.rows(kinds.CLASSIC))
    rows = rows[rows >= 0]
    lists = carried.field(kinds.CLASSIC, "members", rows)
    owner = rows[parent_rows(lists)]
    members = pc.list_flatten(lists)
    topics_of = pc.struct_field(
        pc.struct_field(members, "consumer_assignment"), "assigned_partitions"
    )
    member = parent_rows(topics_of)
    topics = pc.list_flatten(topics_of)
    partitions = pc.struct_field(topics, "partitions")
    topic = parent_rows(partitions)
    member = member[topic]
    owner = owner[member]
    columns = {
        "group_id": carried.column("group_id", owner),
        "member_id": pc.struct_field(members, "member_id").take(pa.array(member)),
        "topic": pc.struct_field(topics, "topic").take(pa.array(topic)),
        "topic_partition": pc.list_flatten(partitions),
        "role": repeat_text("assigned", len(owner)),
        "partition": carried.column("partition", owner),
    }
    return state_table(columns, ASSIGNMENT_FIELDS, len(owner))
