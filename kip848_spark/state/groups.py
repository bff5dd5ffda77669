"""The table `groups`, derived from the control state."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kip848_spark.state import kinds
from kip848_spark.state.codes import factorize, factorize_pairs, last_rows
from kip848_spark.state.control_state import ControlState, integers, state_table
from kip848_spark.wire.array_types import BoolArray, Int64Array

INITIAL_EPOCH = 1
"""The group and target epoch of a group that has no record of them (Kafka 4.3)."""
LEFT_EPOCH = -1
"""The member epoch after a tombstone of the member's current assignment, and the target epoch after
a tombstone of the target assignment's epoch."""
DEFAULT_ASSIGNOR = "uniform"
"""The first entry in the default of Kafka's ``group.consumer.assignors``."""
STABLE = 0
"""The state code of a member that owns all of its target."""
STREAMS_STABLE = 1
"""The same of a streams member: these codes count from 1."""
_STATES = pa.array(["Stable", "Reconciling", "Assigning", "Empty"])

GROUP_FIELDS: dict[str, pa.DataType] = {
    "group_id": pa.string(),
    "type": pa.string(),
    "state": pa.string(),
    "protocol_type": pa.string(),
    "protocol": pa.string(),
    "assignor": pa.string(),
    "epoch": pa.int32(),
    "target_epoch": pa.int32(),
    "metadata_hash": pa.int64(),
    "members": pa.int32(),
    "partition": pa.int32(),
    "last_offset": pa.int64(),
    "updated_at": pa.timestamp("us", "UTC"),
}


@dataclass(frozen=True)
class GroupRecords:
    """The records that each of m rows of a group is made from, as rows of the control state; -1
    where there is none.

    ``newest`` is any record of the group (never -1), ``state`` the newest one that is not a
    commit. ``epochs`` and ``targets`` have an array for each kind of `kinds.GROUP_EPOCHS` and
    `kinds.TARGET_EPOCHS`."""

    newest: Int64Array
    state: Int64Array
    classic: Int64Array
    epochs: Sequence[Int64Array]
    targets: Sequence[Int64Array]


def groups(table: pa.Table) -> pa.Table:
    """One row for each group: the columns `GROUP_FIELDS`. ``table`` is the control state."""
    carried = ControlState(table)
    group = carried.group
    not_commit = pc.not_equal(carried.kind, kinds.COMMIT).to_numpy(zero_copy_only=False)
    records = GroupRecords(
        newest=last_rows(group, np.arange(table.num_rows)),
        state=last_rows(group, np.flatnonzero(not_commit & ~carried.tombstone)),
        classic=last_rows(group, carried.rows(kinds.CLASSIC)),
        epochs=[last_rows(group, carried.rows(kind)) for kind in kinds.GROUP_EPOCHS],
        targets=[last_rows(group, carried.rows(kind)) for kind in kinds.TARGET_EPOCHS],
    )
    epochs = group_epochs(carried, records)
    columns = group_columns(
        carried,
        records,
        epochs,
        members=_count_members(carried),
        moving=_find_moving(carried, epochs.target),
        assignor=_assignors(carried),
    )
    columns["last_offset"] = carried.column("offset", records.newest)
    columns["updated_at"] = carried.column("timestamp", records.newest)
    return state_table(columns, GROUP_FIELDS, carried.group_count)


def group_columns(
    carried: ControlState,
    records: GroupRecords,
    epochs: GroupEpochs,
    members: Int64Array,
    moving: BoolArray,
    assignor: pa.Array,
) -> dict[str, pa.Array]:
    """The columns of m rows of `groups`, but for those of the newest record.

    ``members`` (int64[m]) counts the members that have records of their own; ``moving`` (bool[m])
    tells whether any of them is not yet at the target epoch or has partitions to revoke or to wait
    for; ``assignor`` (string[m]) is the server assignor of a consumer group."""
    type_ = _group_types(carried, records.state)
    consumer, share = pc.equal(type_, "consumer"), pc.equal(type_, "share")
    classic_type = pc.equal(type_, "classic")
    is_classic = classic_type.to_numpy(zero_copy_only=False)
    simple = is_classic & (records.classic < 0)
    protocol_type = carried.field(kinds.CLASSIC, "protocol_type", records.classic)
    generation = carried.field(kinds.CLASSIC, "generation", records.classic)
    sizes = pc.list_value_length(carried.field(kinds.CLASSIC, "members", records.classic))
    members = np.where(is_classic, integers(sizes, 0), members)
    steady = is_classic | share.to_numpy(zero_copy_only=False)
    assigning = (epochs.epoch > epochs.target) & ~steady
    code = np.select([members == 0, assigning, moving & ~steady], [3, 2, 1], 0)
    return {
        "group_id": carried.column("group_id", records.newest),
        "type": type_,
        "state": _STATES.take(pa.array(code)),
        "protocol_type": pc.coalesce(
            protocol_type, pc.if_else(pa.array(simple), "", pc.if_else(consumer, "consumer", type_))
        ),
        "protocol": carried.field(kinds.CLASSIC, "protocol", records.classic),
        "assignor": pc.if_else(consumer, assignor, pa.scalar(None, pa.string())),
        "epoch": pc.if_else(classic_type, generation, pa.array(epochs.epoch, pa.int32())),
        "target_epoch": pc.if_else(
            classic_type, pa.scalar(None, pa.int32()), pa.array(epochs.target, pa.int32())
        ),
        "metadata_hash": _metadata_hash(carried, records.epochs),
        "members": pa.array(members, pa.int32()),
        "partition": carried.column("partition", records.newest),
    }


def _group_types(carried: ControlState, newest: Int64Array) -> pa.Array:
    """string[m]: the type of group that each record belongs to; classic if there is none."""
    kind = carried.column("kind", newest)
    encoded = pc.dictionary_encode(kind, null_encoding="encode")
    types = [kinds.group_type(name or kinds.COMMIT) for name in encoded.dictionary.to_pylist()]
    return pa.array(types, pa.string()).take(encoded.indices)


@dataclass(frozen=True)
class GroupEpochs:
    """int64[m] each: the group epoch and the target epoch of groups that are not classic."""

    epoch: Int64Array
    target: Int64Array


def group_epochs(carried: ControlState, records: GroupRecords) -> GroupEpochs:
    """The epochs of m rows of a group."""
    epoch = np.full(len(records.newest), INITIAL_EPOCH, np.int64)
    for kind, rows in zip(kinds.GROUP_EPOCHS, records.epochs, strict=True):
        recorded = integers(carried.field(kind, "epoch", rows), INITIAL_EPOCH)
        epoch = np.where(rows >= 0, recorded, epoch)
    # Groups start at epoch 0 in Kafka 4.0 to 4.2, so their first recorded epoch is 1, and the
    # target epoch is 0 until it is recorded. In Kafka 4.3 they start at 1.
    has_epoch = np.any([rows >= 0 for rows in records.epochs], axis=0)
    first_target = np.where(has_epoch, INITIAL_EPOCH - 1, INITIAL_EPOCH)
    target = np.where(epoch == INITIAL_EPOCH, first_target, INITIAL_EPOCH)
    for kind, rows in zip(kinds.TARGET_EPOCHS, records.targets, strict=True):
        recorded = integers(carried.field(kind, "assignment_epoch", rows), LEFT_EPOCH)
        target = np.where(rows >= 0, recorded, target)
    return GroupEpochs(epoch, target)


def _count_members(carried: ControlState) -> Int64Array:
    """int64[groups]: the number of members that have records of their own."""
    is_member = carried.rows(*kinds.MEMBERS, *kinds.CURRENTS)
    first = np.unique(carried.member[is_member], return_index=True)[1]
    return np.bincount(carried.group[is_member[first]], minlength=carried.group_count)


def _find_moving(carried: ControlState, target: Int64Array) -> BoolArray:
    """bool[groups]: whether a member is not yet at the ``target`` epoch, or not stable."""
    moving = np.zeros(carried.group_count, bool)
    for kind in kinds.CURRENTS:
        rows = carried.rows(kind)
        group = carried.group[rows]
        epoch, stable = epoch_and_stable(carried, kind, rows)
        moving[group[(epoch != target[group]) | ~stable]] = True
    for metadata, current in kinds.RECONCILED:
        known, assigned = carried.rows(metadata), carried.member[carried.rows(current)]
        known = known[~np.isin(carried.member[known], assigned)]
        moving[carried.group[known]] = True  # at epoch 0, without an assignment
    return moving


def epoch_and_stable(
    carried: ControlState, kind: str, rows: Int64Array
) -> tuple[Int64Array, BoolArray]:
    """int64[m]: the member epochs of current assignments; bool[m]: whether the members are
    stable."""
    epoch = integers(carried.field(kind, "member_epoch", rows), 0)
    stable = STREAMS_STABLE if kind == kinds.STREAMS_CURRENT else STABLE
    return epoch, integers(carried.field(kind, "state", rows), stable) == stable


def _assignors(carried: ControlState) -> pa.Array:
    """string[groups]: the server assignor that most members ask for; ``uniform`` if none asks for
    one."""
    rows = carried.rows(kinds.MEMBER)
    wish = carried.field(kinds.MEMBER, "server_assignor", rows)
    has_wish = wish.is_valid().to_numpy(zero_copy_only=False)
    rows, wish = rows[has_wish], wish.filter(pa.array(has_wish))
    winner = np.full(carried.group_count, -1, np.int64)
    if len(rows):
        order = pc.sort_indices(wish).to_numpy()
        _, first, votes = np.unique(
            factorize_pairs(carried.group[rows[order]], factorize(wish.take(pa.array(order)))),
            return_index=True,
            return_counts=True,
        )
        by_votes = np.argsort(votes, kind="stable")
        winner[carried.group[rows[order[first[by_votes]]]]] = order[first[by_votes]]
    absent = winner < 0
    names = (
        wish.take(pa.array(winner, mask=absent))
        if len(wish)
        else pa.nulls(len(winner), pa.string())
    )
    return pc.fill_null(names, DEFAULT_ASSIGNOR)


def _metadata_hash(carried: ControlState, epochs: Sequence[Int64Array]) -> pa.Array:
    """int64[m]: the metadata hash of the group epoch's record (Kafka 4.1 and later)."""
    present = [
        carried.field(kind, "metadata_hash", rows)
        for kind, rows in zip(kinds.GROUP_EPOCHS, epochs, strict=True)
        if kind in carried.kinds
    ]
    return pc.coalesce(*present) if present else pa.nulls(len(epochs[0]), pa.int64())
