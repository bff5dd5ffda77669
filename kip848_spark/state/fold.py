"""The fold: control state + new records -> control state.

The control state of a partition is itself a log: the records, at their own offsets, that a broker
would still need to load its groups. So folding a topic in one step or in several gives the same
rows, and the state tables are a function of the control state alone.

The rules are those of the coordinator's replay (docs/kafka-facts.md#replay):
the last value of a key counts; a classic group's record replaces any group of that name, and its
tombstone deletes the group, whatever its type; the tombstone of the group epoch deletes the group;
the tombstone of a member's metadata removes the member and its current assignment; a tombstone of
something that does not exist has no effect."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kip848_spark.state import kinds
from kip848_spark.state.codes import factorize, factorize_pairs, last_rows
from kip848_spark.state.lifetimes import Lifetimes, count_intervals
from kip848_spark.wire.array_types import BoolArray, Int64Array

MIN_BUFFER, MAX_BYTES = 1 << 16, 1 << 26
"""New rows are folded in batches of at least so many rows, unless they have more bytes: one record
of a large classic group may have a megabyte."""
MAX_OFFSET = 1 << 48
"""The offsets of partitions that are folded together are less than this."""


class OutOfOrderError(Exception):
    """The rows of a partition did not come in the order of their offsets."""


@dataclass(frozen=True)
class ControlChunk:
    """Rows that were folded together: those of one partition, or of several ``partitions``
    (ascending), which then have no markers and no group in common.

    ``table`` holds the control state before the chunk (its first ``first`` rows), then the new
    rows, both in the order of partitions and offsets. Rows of the kinds `kinds.MARKERS` are among
    the new rows."""

    table: pa.Table
    first: int
    partitions: Sequence[int] = ()

    @property
    def rows(self) -> pa.Table:
        """The new rows."""
        return self.table.slice(self.first)

    @cached_property
    def part(self) -> Int64Array:
        """int64[n]: which of the ``partitions`` a row is of; 0 if there is only one."""
        return part_numbers(self.table["partition"], self.partitions)

    @cached_property
    def order_key(self) -> Int64Array:
        """int64[n]: see `order_keys`."""
        return order_keys(self.part, self.table["offset"].to_numpy())

    @cached_property
    def lifetimes(self) -> Lifetimes:
        """Until when each row belongs to the control state."""
        return Lifetimes(self.table)

    @cached_property
    def idle_commits(self) -> Int64Array:
        """int64[m]: the rows of new commits that create no group. Which commits are among the rows
        depends on how many runs have read them."""
        lifetimes = self.lifetimes
        commits = lifetimes.rows(kinds.COMMIT)
        commits = commits[commits >= self.first]
        if not len(commits):
            return commits
        rows = np.flatnonzero(lifetimes.end > np.arange(lifetimes.count))
        group = lifetimes.group
        present = count_intervals(
            group[rows], rows, lifetimes.end[rows], group[commits], commits - 1, lifetimes.count
        )
        return commits[present > 0]


def part_numbers(partition: pa.ChunkedArray, partitions: Sequence[int]) -> Int64Array:
    """int64[n]: the place of each partition among the ``partitions``, which ascend; 0 if there are
    fewer than two."""
    if len(partitions) < 2:
        return np.zeros(len(partition), np.int64)
    return np.asarray(np.searchsorted(partitions, partition.to_numpy()), np.int64)


def order_keys(part: Int64Array, offset: Int64Array) -> Int64Array:
    """int64[n]: numbers in the order of partitions (``part``, from 0 on) and offsets. In the first
    partition they are the offsets. If there are more, all offsets are less than `MAX_OFFSET`."""
    return np.asarray(part * MAX_OFFSET + offset, np.int64)


class Fold:
    """Folds the control records of one partition, which come in offset order, batch after batch.

    It holds the control state and as many new rows (at least `MIN_BUFFER` or `MAX_BYTES`) in
    memory. ``carried`` is the control state of an earlier fold, up to the offset ``last``."""

    def __init__(self, carried: pa.Table | None = None, last: int = -1) -> None:
        self._carried = carried
        self._pending: list[pa.Table] = []
        self._rows = self._bytes = 0
        self._last = last

    def add(self, batch: pa.RecordBatch | pa.Table) -> ControlChunk | None:
        """Adds rows of `group_records`; further columns are kept. Returns the rows that were folded
        now, which may be more or fewer than these.

        Raises OutOfOrderError if the offsets do not ascend."""
        table = pa.table(batch) if isinstance(batch, pa.RecordBatch) else batch
        if not table.num_rows:
            return None
        offsets = table["offset"].to_numpy()
        # A marker has the offset of a record, which may be there too.
        steps = np.diff(offsets, prepend=self._last)
        if (steps < 0).any() or (steps[_marks_no_record(table["kind"])] == 0).any():
            raise OutOfOrderError(f"offset {int(offsets[0])} came after offset {self._last}")
        self._last = int(offsets[-1])
        self._pending.append(table)
        self._rows += table.num_rows
        self._bytes += table.nbytes
        rows, size = (0, 0) if (old := self._carried) is None else (old.num_rows, old.nbytes)
        is_full = self._rows >= max(MIN_BUFFER, rows) or self._bytes >= max(MAX_BYTES, size)
        return self.settle() if is_full else None

    def carried(self) -> pa.Table | None:
        """The control state, in offset order; None if no rows were ever added."""
        self.settle()
        return self._carried

    def batches(self) -> Iterator[pa.RecordBatch]:
        """The control state in record batches."""
        table = self.carried()
        if table is not None:
            yield from table.to_batches()

    def settle(self) -> ControlChunk | None:
        """Folds the rows that wait in the buffer, and returns them; None if there are none."""
        if not self._pending:
            return None
        tables = [self._carried, *self._pending] if self._carried is not None else self._pending
        first = self._carried.num_rows if self._carried is not None else 0
        table = pa.concat_tables(tables).combine_chunks()
        self._carried = table.filter(pa.array(find_live_records(table))).combine_chunks()
        self._pending = []
        self._rows = self._bytes = 0
        return ControlChunk(table, first)


def _marks_no_record(kind: pa.ChunkedArray) -> BoolArray:
    """bool[n]: the rows that are not of `kinds.MARKERS`, nor behind such a row."""
    marker = _is_any_of(kind.combine_chunks(), kinds.MARKERS)
    marker[1:] |= marker[:-1].copy()
    return ~marker


def find_live_records(table: pa.Table) -> BoolArray:
    """bool[n]: the rows that belong to the control state after the last one. The rows of each group
    are of one partition, in offset order."""
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
    return np.asarray(alive & ~tombstone & ~_is_any_of(kind, kinds.MARKERS))


def _is_any_of(kind: pa.Array, wanted: tuple[str, ...]) -> BoolArray:
    found = pc.is_in(kind, value_set=pa.array(wanted))
    return np.array(found.to_numpy(zero_copy_only=False))
