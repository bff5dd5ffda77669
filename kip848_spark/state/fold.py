"""The fold: control state + new records -> control state.

The control state of a partition is itself a log: the records, at their own offsets, that a broker
would still need to load its groups. So folding a topic in one step or in several gives the same
rows, and the state tables are a function of the control state alone.

The rules are those of the coordinator's replay (docs/kafka-facts.md#record-layouts, Kafka 4.3):
the last value of a key counts; a classic group's record replaces any group of that name, and its
tombstone deletes the group, whatever its type; the tombstone of the group epoch deletes the group;
the tombstone of a member's metadata removes the member and its current assignment; a tombstone of
something that does not exist has no effect."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kip848_spark.state import kinds
from kip848_spark.wire.array_types import BoolArray, Int64Array

MIN_BUFFER = 1 << 16
"""New rows are folded in batches of at least this size."""


class OutOfOrderError(Exception):
    """The rows of a partition did not come in the order of their offsets."""


class Fold:
    """Folds the control records of one partition, which come in offset order, batch after batch.

    It holds the control state and as many new rows (at least `MIN_BUFFER`) in memory."""

    def __init__(self) -> None:
        self._carried: pa.Table | None = None
        self._pending: list[pa.Table] = []
        self._rows = 0
        self._last = -1

    def add(self, batch: pa.RecordBatch | pa.Table) -> None:
        """Adds rows of `group_records`; further columns are kept.

        Raises OutOfOrderError if the offsets do not ascend."""
        table = pa.table(batch) if isinstance(batch, pa.RecordBatch) else batch
        if not table.num_rows:
            return
        offsets = table["offset"].to_numpy()
        if offsets[0] <= self._last or (np.diff(offsets) <= 0).any():
            raise OutOfOrderError(f"offset {int(offsets[0])} came after offset {self._last}")
        self._last = int(offsets[-1])
        self._pending.append(table)
        self._rows += table.num_rows
        carried = self._carried.num_rows if self._carried is not None else 0
        if self._rows >= max(MIN_BUFFER, carried):
            self._settle()

    def carried(self) -> pa.Table | None:
        """The control state, in offset order; None if no rows were ever added."""
        self._settle()
        return self._carried

    def batches(self) -> Iterator[pa.RecordBatch]:
        """The control state in record batches."""
        table = self.carried()
        if table is not None:
            yield from table.to_batches()

    def _settle(self) -> None:
        if not self._pending:
            return
        tables = [self._carried, *self._pending] if self._carried is not None else self._pending
        table = pa.concat_tables(tables).combine_chunks()
        self._carried = table.filter(pa.array(find_live_records(table))).combine_chunks()
        self._pending = []
        self._rows = 0


def find_live_records(table: pa.Table) -> BoolArray:
    """bool[n]: the rows of a partition, in offset order, that belong to the control state at its
    end."""
    count = table.num_rows
    row = np.arange(count)
    kind = table["kind"].combine_chunks()
    tombstone = table["tombstone"].to_numpy()
    group = factorize(table["group_id"])
    is_classic = _is_any_of(kind, (kinds.CLASSIC,))

    # The last record that deleted or replaced the group of this name.
    ends = is_classic | (_is_any_of(kind, kinds.GROUP_EPOCHS) & tombstone)
    ended = last_rows(group, np.flatnonzero(ends))
    alive = (row > ended[group]) | ((row == ended[group]) & is_classic & ~tombstone)

    # The last record of each key.
    member = factorize(table["member_id"])
    regex = factorize(table["regular_expression"])
    kind_code = factorize(table["kind"])
    key = factorize_pairs(factorize_pairs(group, kind_code), factorize_pairs(member, regex))
    alive &= last_rows(key, row)[key] == row

    # The tombstone of a member also removes the member's current assignment.
    of_member = factorize_pairs(group, member)
    is_member = _is_any_of(kind, kinds.MEMBERS)
    is_current = _is_any_of(kind, kinds.CURRENTS)
    left = last_rows(of_member, np.flatnonzero(is_member & tombstone))
    alive &= ~is_current | (row > left[of_member])

    # Without the record that it deleted, a tombstone is redundant.
    return np.asarray(alive & ~tombstone)


def factorize(column: pa.ChunkedArray | pa.Array) -> Int64Array:
    """int64[n]: the number of each distinct value, null included, from 0 on."""
    if isinstance(column, pa.ChunkedArray):
        column = column.combine_chunks()
    encoded = pc.dictionary_encode(column, null_encoding="encode")
    return np.asarray(encoded.indices.to_numpy(zero_copy_only=False), np.int64)


def factorize_pairs(left: Int64Array, right: Int64Array) -> Int64Array:
    """int64[n]: the number of each distinct pair, from 0 on."""
    if not len(left):
        return left
    pairs = left * (int(right.max()) + 1) + right
    return factorize(pa.array(pairs))


def last_rows(code: Int64Array, rows: Int64Array) -> Int64Array:
    """int64[codes]: for each code, the last of ``rows`` (ascending) with that code; -1 if there is
    none."""
    last = np.full(int(code.max()) + 1 if len(code) else 0, -1, np.int64)
    last[code[rows]] = rows  # for equal indices, NumPy keeps the last assignment
    return last


def _is_any_of(kind: pa.Array, wanted: tuple[str, ...]) -> BoolArray:
    found = pc.is_in(kind, value_set=pa.array(wanted))
    return np.asarray(found.to_numpy(zero_copy_only=False))
