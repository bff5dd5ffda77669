"""The table `groups`, derived from the control state."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kip848_spark.state import kinds
from kip848_spark.state.carried import ControlState, integers, state_table
from kip848_spark.state.fold import factorize, factorize_pairs, last_rows
from kip848_spark.wire.array_types import Int64Array

INITIAL_EPOCH = 1
"""The group and target epoch of a group that has no record of them (Kafka 4.3)."""
LEFT_EPOCH = -1
"""The member epoch after a tombstone of the member's current assignment, and the target epoch after
a tombstone of the target assignment's epoch."""
DEFAULT_ASSIGNOR = "uniform"
"""The first entry in the default of Kafka's ``group.consumer.assignors``."""
STABLE = 0
"""The state code of a member that owns all of its target."""

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


def groups(table: pa.Table) -> pa.Table:
    """One row for each group: the columns `GROUP_FIELDS`. ``table`` is the control state."""
    carried = ControlState(table)
    count = carried.group_count
    newest = last_rows(carried.group, np.arange(table.num_rows))
    classic = last_rows(carried.group, carried.rows(kinds.CLASSIC))
    epochs = _group_epochs(carried)
    type_ = _group_types(carried)
    simple = np.asarray(pc.equal(type_, "classic").to_numpy(zero_copy_only=False)) & (classic < 0)
    generation = carried.field(kinds.CLASSIC, "generation", classic)
    protocol_type = carried.field(kinds.CLASSIC, "protocol_type", classic)
    members, state = _members_and_state(carried, type_, epochs)
    consumer = pc.equal(type_, "consumer")
    is_classic = pc.equal(type_, "classic")
    epoch = pc.if_else(is_classic, generation, pa.array(epochs["epoch"], pa.int32()))
    target = pa.array(epochs["target"], pa.int32())
    columns = {
        "group_id": carried.column("group_id", newest),
        "type": type_,
        "state": state,
        "protocol_type": pc.coalesce(
            protocol_type, pc.if_else(pa.array(simple), "", pc.if_else(consumer, "consumer", type_))
        ),
        "protocol": carried.field(kinds.CLASSIC, "protocol", classic),
        "assignor": pc.if_else(consumer, _assignors(carried), pa.scalar(None, pa.string())),
        "epoch": epoch,
        "target_epoch": pc.if_else(is_classic, pa.scalar(None, pa.int32()), target),
        "metadata_hash": _metadata_hash(carried),
        "members": pa.array(members, pa.int32()),
        "partition": carried.column("partition", newest),
        "last_offset": carried.column("offset", newest),
        "updated_at": carried.column("timestamp", newest),
    }
    return state_table(columns, GROUP_FIELDS, count)


def _group_types(carried: ControlState) -> pa.Array:
    """string[groups]: the type of group that the newest record of each group belongs to."""
    states = np.flatnonzero(
        pc.not_equal(carried.kind, kinds.COMMIT).to_numpy(zero_copy_only=False) & ~carried.tombstone
    )
    newest = last_rows(carried.group, states)
    kind = carried.column("kind", newest)
    encoded = pc.dictionary_encode(kind, null_encoding="encode")
    types = [kinds.group_type(name or kinds.COMMIT) for name in encoded.dictionary.to_pylist()]
    return pa.array(types, pa.string()).take(encoded.indices)


def _group_epochs(carried: ControlState) -> dict[str, Int64Array]:
    """int64[groups] each: the group epoch and the target epoch of the groups that are not
    classic."""
    epoch = np.full(carried.group_count, INITIAL_EPOCH, np.int64)
    for kind in kinds.GROUP_EPOCHS:
        rows = carried.rows(kind)
        epoch[carried.group[rows]] = integers(carried.field(kind, "epoch", rows), INITIAL_EPOCH)
    # Groups start at epoch 0 in Kafka 4.0 to 4.2, so their first recorded epoch is 1; in Kafka 4.3
    # they start at 1.
    target = np.where(epoch == INITIAL_EPOCH, _first_target(carried), INITIAL_EPOCH)
    for kind in kinds.TARGET_EPOCHS:
        rows = carried.rows(kind, values=False)
        recorded = carried.field(kind, "assignment_epoch", rows)
        target[carried.group[rows]] = integers(recorded, LEFT_EPOCH)
    return {"epoch": epoch, "target": target}


def _first_target(carried: ControlState) -> Int64Array:
    """int64[groups]: the target epoch of a group at epoch 1 without a record of its target epoch.
    It is 0 if epoch 1 is on record (releases that start at 0), else 1."""
    recorded = last_rows(carried.group, carried.rows(*kinds.GROUP_EPOCHS)) >= 0
    return np.where(recorded, INITIAL_EPOCH - 1, INITIAL_EPOCH)


def _members_and_state(
    carried: ControlState, type_: pa.Array, epochs: dict[str, Int64Array]
) -> tuple[Int64Array, pa.Array]:
    """int64[groups]: the number of members; string[groups]: the state, as Kafka's tools name it."""
    classic = last_rows(carried.group, carried.rows(kinds.CLASSIC))
    sizes = pc.list_value_length(carried.field(kinds.CLASSIC, "members", classic))
    is_member = carried.rows(*kinds.MEMBERS, *kinds.CURRENTS)
    first = np.unique(carried.member[is_member], return_index=True)[1]
    members = np.bincount(carried.group[is_member[first]], minlength=carried.group_count)
    is_classic = pc.equal(type_, "classic").to_numpy(zero_copy_only=False)
    members = np.where(is_classic, integers(sizes, 0), members)

    moving = np.zeros(carried.group_count, bool)
    for kind in kinds.CURRENTS:
        rows = carried.rows(kind)
        group = carried.group[rows]
        late = integers(carried.field(kind, "member_epoch", rows), 0) != epochs["target"][group]
        late |= integers(carried.field(kind, "state", rows), STABLE) != STABLE
        moving[group[late]] = True
    known = carried.rows(kinds.MEMBER)
    known = known[~np.isin(carried.member[known], carried.member[carried.rows(kinds.CURRENT)])]
    moving[carried.group[known]] = True  # at epoch 0, without an assignment
    share = pc.equal(type_, "share").to_numpy(zero_copy_only=False)
    assigning = (epochs["epoch"] > epochs["target"]) & ~is_classic & ~share
    moving &= ~is_classic & ~share
    names = pa.array(["Stable", "Reconciling", "Assigning", "Empty"])
    code = np.select([members == 0, assigning, moving], [3, 2, 1], 0)
    return members, names.take(pa.array(code))


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
    return pc.fill_null(names, "uniform")


def _metadata_hash(carried: ControlState) -> pa.Array:
    """int64[groups]: the metadata hash of the group epoch's record (Kafka 4.1 and later)."""
    found = pa.nulls(carried.group_count, pa.int64())
    for kind in kinds.GROUP_EPOCHS:
        newest = last_rows(carried.group, carried.rows(kind))
        found = pc.coalesce(found, carried.field(kind, "metadata_hash", newest))
    return found
