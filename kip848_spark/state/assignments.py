"""The table `assignments`, derived from the control state."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kip848_spark.state import kinds
from kip848_spark.state.codes import combine, factorize, starts_of_runs
from kip848_spark.state.control_state import (
    ControlState,
    integers,
    parent_rows,
    repeat_text,
    state_table,
)
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


@dataclass(frozen=True)
class AssignmentList:
    """A list of partitions in the records of one kind, and the role of its partitions."""

    kind: str
    field: str
    role: str


ASSIGNMENT_LISTS = (
    AssignmentList(kinds.CURRENT, "assigned_partitions", "assigned"),
    AssignmentList(kinds.CURRENT, "partitions_pending_revocation", "pending_revocation"),
    AssignmentList(kinds.TARGET, "topic_partitions", "target"),
    AssignmentList(kinds.SHARE_CURRENT, "assigned_partitions", "assigned"),
    AssignmentList(kinds.SHARE_TARGET, "topic_partitions", "target"),
    AssignmentList(kinds.CLASSIC, "members", "assigned"),
)
"""The lists that the table is made from."""


@dataclass(frozen=True)
class AssignedPartitions:
    """The partitions in the lists of some records, in the order of the records and lists. A
    partition that a list repeats occurs once, as in the sets that the coordinator reads it into.

    ``record`` (int64[n]) is the row of each partition's record, ``number`` (int32[n]) the partition
    and ``epoch`` (int32[n]) its assignment epoch, if the list has epochs. ``topic`` (int64[n])
    points into ``topics``, which are ids if ``by_id``, else names. ``member`` (int64[n]) points
    into ``member_ids``, if the members are in the list and not in the record's key."""

    record: Int64Array
    number: pa.Array
    topic: Int64Array
    topics: pa.Array
    by_id: bool
    epoch: pa.Array | None = None
    member: Int64Array | None = None
    member_ids: pa.Array | None = None

    @property
    def owner(self) -> Int64Array:
        """int64[n]: one code for each record and member."""
        if self.member is None or self.member_ids is None:
            return self.record
        return combine(self.record, factorize(self.member_ids)[self.member])

    def at(self, rows: Int64Array) -> AssignedPartitions:
        """The partitions ``rows`` (int64[m])."""
        return replace(
            self,
            record=self.record[rows],
            number=self.number.take(pa.array(rows)),
            topic=self.topic[rows],
            epoch=None if self.epoch is None else self.epoch.take(pa.array(rows)),
            member=None if self.member is None else self.member[rows],
        )

    def columns(self, carried: ControlState, role: str, at: Int64Array) -> dict[str, pa.Array]:
        """The columns of the partitions ``at`` (int64[m])."""
        record, rows = self.record[at], pa.array(at)
        if self.member is not None and self.member_ids is not None:
            member_id = self.member_ids.take(pa.array(self.member[at]))
        else:
            member_id = carried.column("member_id", record)
        columns = {
            "group_id": carried.column("group_id", record),
            "member_id": member_id,
            "topic_id" if self.by_id else "topic": self.topics.take(pa.array(self.topic[at])),
            "topic_partition": self.number.take(rows),
            "role": repeat_text(role, len(at)),
            "partition": carried.column("partition", record),
        }
        if self.epoch is not None:
            columns["assignment_epoch"] = self.epoch.take(rows)
        return columns


def assignments(table: pa.Table) -> pa.Table:
    """One row for each partition of a member and role: the columns `ASSIGNMENT_FIELDS`.

    ``table`` is the control state. ``topic`` is null where the record names the topic by its id."""
    carried = ControlState(table)
    parts = []
    for each in ASSIGNMENT_LISTS:
        partitions = explode(carried, each, carried.rows(each.kind))
        count = len(partitions.record)
        columns = partitions.columns(carried, each.role, np.arange(count))
        parts.append(state_table(columns, ASSIGNMENT_FIELDS, count))
    return pa.concat_tables(parts)


def explode(carried: ControlState, each: AssignmentList, rows: Int64Array) -> AssignedPartitions:
    """The partitions in the list ``each`` of the records ``rows`` (of the list's kind)."""
    lists = carried.field(each.kind, each.field, rows)
    found = _explode_classic(lists, rows) if each.kind == kinds.CLASSIC else _explode(lists, rows)
    return _without_repeats(found)


def _explode(lists: pa.Array, rows: Int64Array) -> AssignedPartitions:
    topics = pc.list_flatten(lists)
    partitions = pc.struct_field(topics, "partitions")
    topic = parent_rows(partitions)
    has_epochs = "assignment_epochs" in topics.type.names
    return AssignedPartitions(
        record=rows[parent_rows(lists)][topic],
        number=pc.list_flatten(partitions),
        topic=topic,
        topics=pc.struct_field(topics, "topic_id"),
        by_id=True,
        epoch=_epochs(topics, partitions) if has_epochs else None,
    )


def _explode_classic(lists: pa.Array, rows: Int64Array) -> AssignedPartitions:
    members = pc.list_flatten(lists)
    topics_of = pc.struct_field(
        pc.struct_field(members, "consumer_assignment"), "assigned_partitions"
    )
    topics = pc.list_flatten(topics_of)
    partitions = pc.struct_field(topics, "partitions")
    topic = parent_rows(partitions)
    member = parent_rows(topics_of)[topic]
    return AssignedPartitions(
        record=rows[parent_rows(lists)][member],
        number=pc.list_flatten(partitions),
        topic=topic,
        topics=pc.struct_field(topics, "topic"),
        by_id=False,
        member=member,
        member_ids=pc.struct_field(members, "member_id"),
    )


def _without_repeats(found: AssignedPartitions) -> AssignedPartitions:
    """Each partition of a list once: the last one, which has the epoch that counts."""
    number, owner = integers(found.number, 0), found.owner
    topic = factorize(found.topics)[found.topic] if len(owner) else owner
    is_first = starts_of_runs(found.topic)
    lists = combine(owner[is_first], topic[is_first])
    ascends = is_first[1:] | (number[1:] > number[:-1])
    if ascends.all() and len(np.unique(lists)) == len(lists):
        return found  # as brokers write the lists: a list a topic, in ascending order
    place = combine(owner, topic, number - number.min())
    _, from_the_end = np.unique(place[::-1], return_index=True)
    return found.at(np.sort(len(place) - 1 - from_the_end))


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
