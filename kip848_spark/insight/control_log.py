"""Control records as arrays, group after group.

A *life* is the time of a group between its creation and its end. Nothing of a group's state
survives the end of a life. Each record of a classic group is a life of its own, because it replaces
the whole group."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kip848_spark.insight.array_functions import is_run_start
from kip848_spark.insight.operation_shapes import Operations, split_operations
from kip848_spark.state import kinds
from kip848_spark.state.codes import factorize, factorize_pairs
from kip848_spark.state.control_state import integers
from kip848_spark.wire.array_types import BoolArray, Int64Array
from kip848_spark.wire.control_plans import CONTROL_FIELDS
from kip848_spark.wire.record_stream import POSITION_FIELDS
from kip848_spark.wire.tables import TIMESTAMP

CLASSIC, EPOCH, METADATA, MEMBER, TARGET_EPOCH, TARGET, CURRENT, REGEX, SHARE_STATE, TOPOLOGY = (
    range(10)
)
"""Roles of records."""
_LETTERS = b"abcdefghst"
_ROLES: dict[str, int] = {
    kinds.CLASSIC: CLASSIC,
    kinds.PARTITIONS: METADATA,
    kinds.REGEX: REGEX,
    "share_group_state_partition_metadata": SHARE_STATE,
    "streams_group_topology": TOPOLOGY,
    **dict.fromkeys(kinds.GROUP_EPOCHS, EPOCH),
    **dict.fromkeys(kinds.MEMBERS, MEMBER),
    **dict.fromkeys(kinds.TARGET_EPOCHS, TARGET_EPOCH),
    **dict.fromkeys(kinds.TARGETS, TARGET),
    **dict.fromkeys(kinds.CURRENTS, CURRENT),
}
TYPES = ("consumer", "share", "streams", "classic")
CONSUMER, SHARE, STREAMS, CLASSIC_TYPE = range(4)

RECORD, STATE = range(2)
"""Values of the column ``use``: a record whose rebalances are not closed yet, and a record that was
in effect before."""


LOG_FIELDS: dict[str, pa.DataType] = {
    **POSITION_FIELDS,
    **CONTROL_FIELDS,
    "use": pa.int8(),
    "time": TIMESTAMP,
}
"""The columns of the tables of a `ControlLog`, and their Arrow types."""
_NO_TIME = np.iinfo(np.int64).min


class ControlLog:
    """Control records: rows of ``earlier``, then those of ``new``, both in the order of partitions
    and offsets. No group is in two partitions. Rows of kinds without a role are left out, and the
    rows ``without`` (bool[rows]).

    The tables have the columns ``use`` (int8) and ``time`` (timestamp[us, UTC]) as well. ``era``
    (int64[rows]) is the number of each row's era (see `Surroundings`). Arrays have one element for
    each record, sorted by group and offset."""

    def __init__(
        self,
        earlier: pa.Table,
        new: pa.Table,
        era: Int64Array,
        without: BoolArray | None = None,
    ) -> None:
        self._parts = [part.combine_chunks() for part in (earlier, new) if part.num_rows]
        self._columns: dict[str, pa.Array] = {}
        self._fields: dict[tuple[str, str], pa.Array] = {}
        kind = self._column("kind").dictionary_encode()
        names = kind.dictionary.to_pylist()
        codes = kind.indices.to_numpy(zero_copy_only=False)
        roles = np.array([_ROLES.get(name, -1) for name in names], np.int64)[codes]
        types = np.array([TYPES.index(kinds.group_type(name)) for name in names], np.int64)[codes]
        group = factorize(self._column("group_id"))
        rows = np.arange(len(group)) if without is None else np.flatnonzero(~without)
        rows = rows[np.argsort(group[rows], kind="stable")]
        self.rows: Int64Array = rows[roles[rows] >= 0]
        """The row of each record in the two tables."""
        self.count = len(self.rows)
        self.group: Int64Array = group[self.rows]
        self.offset: Int64Array = self._integers("offset")
        self.stamp: Int64Array = self._integers("timestamp")
        """The CreateTime in us."""
        self.time: Int64Array = self._integers("time")
        """The time in us, which never goes backwards in a partition."""
        self.tombstone: BoolArray = self._numpy("tombstone")
        self.is_state: BoolArray = self._numpy("use") == STATE
        self.era: Int64Array = era[self.rows]
        self.role: Int64Array = roles[self.rows]
        self.type: Int64Array = types[self.rows]

        is_classic = self.role == CLASSIC
        ends = is_classic | ((self.role == EPOCH) & self.tombstone)
        begins = is_run_start(self.group) | is_classic
        begins[1:] |= ends[:-1]
        self.life: Int64Array = np.cumsum(begins) - 1
        self.life_first: Int64Array = np.flatnonzero(begins)
        self.life_last: Int64Array = np.append(self.life_first[1:], self.count) - 1

        of_member = np.isin(self.role, (MEMBER, TARGET, CURRENT))
        member = factorize(self._column("member_id"))[self.rows]
        self.member: Int64Array = np.full(self.count, -1, np.int64)
        """The member of a record that is about one: distinct for each life."""
        self.member[of_member] = factorize_pairs(self.life[of_member], member[of_member])

    def _column(self, name: str) -> pa.Array:
        if name not in self._columns:
            chunks = [chunk for part in self._parts for chunk in part[name].chunks]
            empty = pa.nulls(0, LOG_FIELDS[name])
            self._columns[name] = pa.concat_arrays(chunks) if chunks else empty
        return self._columns[name]

    def _numpy(self, name: str) -> Any:
        return self._column(name).to_numpy(zero_copy_only=False)[self.rows]

    def _integers(self, name: str) -> Int64Array:
        values = self._column(name).cast(pa.int64()).fill_null(_NO_TIME)
        numbers: Int64Array = values.to_numpy()[self.rows]
        return numbers

    def positions(self, role: int) -> Int64Array:
        """The positions of the records with this role."""
        return np.flatnonzero(self.role == role)

    def take(self, column: str, positions: Int64Array) -> pa.Array:
        """The values of a column of the tables at ``positions``."""
        return self._column(column).take(pa.array(self.rows[positions]))

    def field(self, kind: str, name: str, positions: Int64Array) -> pa.Array:
        """The field ``name`` of the struct column ``kind`` at ``positions``; null where the record
        is of another kind."""
        if (kind, name) not in self._fields:
            chunks = [
                pc.struct_field(chunk, name) for part in self._parts for chunk in part[kind].chunks
            ]
            empty = pa.nulls(0, CONTROL_FIELDS[kind].field(name).type)
            self._fields[kind, name] = pa.concat_arrays(chunks) if chunks else empty
        return self._fields[kind, name].take(pa.array(self.rows[positions]))

    def integer(self, of: tuple[str, ...], name: str, missing: int = -1) -> Int64Array:
        """int64[n]: an integer field of records of the kinds ``of``; ``missing`` elsewhere."""
        found = np.full(self.count, missing, np.int64)
        for kind in of:
            if CONTROL_FIELDS[kind].get_field_index(name) < 0:
                continue
            at = np.flatnonzero(
                (self.role == _ROLES[kind])
                & (self.type == TYPES.index(kinds.group_type(kind)))
                & ~self.tombstone
            )
            if len(at):
                found[at] = integers(self.field(kind, name, at), missing)
        return found

    @cached_property
    def life_type(self) -> Int64Array:
        """int64[lives]: the type of the group."""
        types: Int64Array = self.type[self.life_first]
        return types

    @cached_property
    def is_classic_member(self) -> BoolArray:
        """bool[n]: records of members of a consumer group that use the classic protocol."""
        found = np.zeros(self.count, bool)
        at = np.flatnonzero((self.role == MEMBER) & (self.type == CONSUMER) & ~self.tombstone)
        if len(at):
            values = self.field(kinds.MEMBER, "classic_member_metadata", at)
            found[at] = values.is_valid().to_numpy(zero_copy_only=False)
        return found

    @cached_property
    def operations(self) -> Operations:
        """The operations that the records belong to."""
        letter = np.frombuffer(_LETTERS, np.uint8)[self.role]
        letter = np.where(self.is_classic_member, ord("k"), letter)
        letter = np.where(self.tombstone, letter - 32, letter).astype(np.uint8)
        starts = is_run_start(self.group) | self.is_state
        starts[1:] |= self.offset[1:] != self.offset[:-1] + 1
        starts[1:] |= self.stamp[1:] != self.stamp[:-1]
        starts[1:] |= self.is_state[:-1]
        return split_operations(letter.tobytes(), starts)

    def next_of_member(self, positions: Int64Array) -> tuple[Int64Array, Int64Array]:
        """The records at ``positions`` sorted by member, and for each the position of the member's
        next one among them (the end of its life without one)."""
        order = positions[np.argsort(self.member[positions], kind="stable")]
        after = self.life_last[self.life[order]] + 1
        same = self.member[order[1:]] == self.member[order[:-1]]
        after[:-1] = np.where(same, order[1:], after[:-1])
        return order, after


def last_of_member(
    log: ControlLog, at: Int64Array, points: Int64Array, before: Int64Array | None = None
) -> Int64Array:
    """int64[points]: the index of the last of ``at`` (ascending positions) that is of the same
    member as the point, and before it (or before the positions ``before``); -1 without one."""
    width = log.count + 1
    order = np.argsort(log.member[at], kind="stable")
    key = log.member[at[order]] * width + at[order]
    limit = points if before is None else before
    found = np.searchsorted(key, log.member[points] * width + limit) - 1
    index = order[np.maximum(found, 0)]
    valid = (found >= 0) & (log.member[at[index]] == log.member[points])
    return np.where(valid, index, -1)
