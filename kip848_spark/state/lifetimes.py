"""Until when each record belongs to the control state.

The rules are those of `state/fold.py`. There they say which records are left at the end; here, at
which row each record is replaced or deleted, so that the state after any row can be looked up."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kip848_spark.state import kinds
from kip848_spark.state.codes import combine, factorize, next_rows, next_same
from kip848_spark.wire.array_types import BoolArray, Int64Array


class Lifetimes:
    """The lifetimes of the rows of a `ControlChunk`. Those of each group are in offset order.

    ``group`` and ``member`` (int64[n]) number the groups, and the pairs of group and member.
    ``end`` (int64[n]) is the row at which a record is no longer part of the state: n if it still
    is, the row itself if it never was (tombstones, markers). ``replaces`` (int64[n]) is the record
    with the same key that was part of the state until then; -1 if there was none."""

    def __init__(self, table: pa.Table) -> None:
        self.count = count = table.num_rows
        encoded = pc.dictionary_encode(table["kind"].combine_chunks())
        self._kinds: list[str] = encoded.dictionary.to_pylist()
        self._kind: Int64Array = encoded.indices.to_numpy(zero_copy_only=False)
        self.tombstone: BoolArray = table["tombstone"].to_numpy()
        self.group = factorize(table["group_id"])
        member_id = factorize(table["member_id"])
        self.member = factorize(pa.array(combine(self.group, member_id)))
        regex = factorize(table["regular_expression"])
        following = next_same(combine(self.member, self._kind.astype(np.int64), regex))
        self.end = following.copy()
        self._end_groups()
        self._end_assignments()
        nothing = self.tombstone | self.is_kind(*kinds.MARKERS)
        self.end[nothing] = np.flatnonzero(nothing)
        self.replaces = np.full(count, -1, np.int64)
        replaced = np.flatnonzero((self.end == following) & (following < count))
        self.replaces[following[replaced]] = replaced

    def is_kind(self, *wanted: str) -> BoolArray:
        """bool[n]: the rows of these kinds."""
        found = np.array([name in wanted for name in self._kinds], bool)
        return found[self._kind] if len(found) else np.zeros(self.count, bool)

    def rows(self, *wanted: str) -> Int64Array:
        """int64[m]: the rows of these kinds that have a value."""
        return np.flatnonzero(self.is_kind(*wanted) & ~self.tombstone)

    def _end_groups(self) -> None:
        ends = self.is_kind(kinds.CLASSIC)
        ends |= self.is_kind(*kinds.GROUP_EPOCHS) & self.tombstone
        np.minimum(self.end, next_rows(self.group, np.flatnonzero(ends), self.count), out=self.end)

    def _end_assignments(self) -> None:
        current = self.is_kind(*kinds.CURRENTS)
        left = np.flatnonzero(self.is_kind(*kinds.MEMBERS) & self.tombstone)
        next_left = next_rows(self.member, left, self.count)
        self.end[current] = np.minimum(self.end[current], next_left[current])


@dataclass(frozen=True)
class Occupancy:
    """Which of the given rows belongs to the state, by code and row.

    ``code`` (int64[n], of all rows), ``rows`` (int64[m], ascending) and ``end`` (int64[n]).
    ``count`` is n."""

    code: Int64Array
    rows: Int64Array
    end: Int64Array

    def newest(self, code: Int64Array, row: Int64Array) -> Int64Array:
        """int64[q]: for each ``code``, the last of the rows that belongs to the state after
        ``row``; -1 if there is none."""
        found = np.full(len(code), -1, np.int64)
        if not len(self.rows):
            return found
        count = len(self.end)
        order = self.rows[np.argsort(self.code[self.rows], kind="stable")]
        codes, ends = self.code[order], self.end[order]
        at = np.searchsorted(codes * count + order, code * count + row, side="right") - 1
        # The latest end up to each row, among the rows of its code.
        reach = np.maximum.accumulate(codes * (count + 1) + ends) - codes * (count + 1)
        open_ = np.flatnonzero(at >= 0)
        while len(open_):
            here = at[open_]
            possible = (codes[here] == code[open_]) & (reach[here] > row[open_])
            open_, here = open_[possible], here[possible]
            live = ends[here] > row[open_]
            found[open_[live]] = order[here[live]]
            open_ = open_[~live]
            at[open_] -= 1
            open_ = open_[at[open_] >= 0]
        return found


def count_intervals(
    code: Int64Array,
    start: Int64Array,
    end: Int64Array,
    at_code: Int64Array,
    at_row: Int64Array,
    count: int,
) -> Int64Array:
    """int64[q]: how many of the intervals [``start``, ``end``) with the code ``at_code`` hold the
    row ``at_row``. Rows are in [-1, ``count``]."""
    width = count + 2
    begun = np.sort(code * width + start + 1)
    ended = np.sort(code * width + end + 1)
    wanted = at_code * width + at_row + 1
    first = at_code * width
    births = np.searchsorted(begun, wanted, side="right") - np.searchsorted(begun, first)
    deaths = np.searchsorted(ended, wanted, side="right") - np.searchsorted(ended, first)
    return np.asarray(births - deaths, np.int64)
