"""Intervals of history: rows of the state tables, and the records between which they were true.

Within a chunk, an interval is a pair of rows: [start, end). The state before the first new record
is the state after the row ``first`` - 1; an interval that was open then starts there, and where it
really began is looked up in the carry."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from kip848_spark.state.history_fields import INTERVAL_FIELDS
from kip848_spark.wire.array_types import BoolArray, Int64Array

MAX_INDEX = 1 << 33
"""The position of a row among those of one record is less than this."""

BEGIN_FIELDS: dict[str, pa.DataType] = {
    "record": pa.int64(),
    "index": pa.int64(),
    "from_offset": pa.int64(),
    "valid_from": pa.int64(),
    "known": pa.bool_(),
}
"""Where the open rows of a table began. ``record`` is the offset of a record of the control state
that the row is made from, ``index`` its position among the rows of this record. ``valid_from`` is
in microseconds. ``known``: the beginning is only the point from which the state is known."""


@dataclass(frozen=True)
class Candidates:
    """Rows of a state table with the intervals in which they are true, sorted by ``entity`` and
    ``start``; those of one entity don't overlap.

    int64[n]: ``start`` and ``end`` are rows of the chunk; ``first_record`` and ``last_record`` the
    record by which the row is identified at its start and at its end, and ``index`` the position
    among the rows of that record. bool[n]: ``same``, whether the columns are those of the row
    before; ``complete``, whether the records that the row is made from were seen. ``columns`` gives
    the columns of the rows at the positions int64[m]."""

    entity: Int64Array
    start: Int64Array
    end: Int64Array
    same: BoolArray
    complete: BoolArray
    first_record: Int64Array
    last_record: Int64Array
    index: Int64Array
    columns: Callable[[Int64Array], pa.Table]


@dataclass(frozen=True)
class ChunkTimes:
    """When the rows of a chunk happened, and in which of them the state is known.

    int64[n]: ``offset`` and ``time`` (µs, never going backwards) of each row. ``gap_offset``
    (int64[n]) is, where the row is a gap, the offset behind the last record before it, else -1
    (commits that create no group do not count).
    int64[k]: the state is known in the intervals [``known_start``, ``known_end``); bool[k]:
    ``by_repeat``, whether that follows from a repeated key, and ``cut_off``, whether records before
    it were cut off."""

    first: int
    count: int
    offset: Int64Array
    time: Int64Array
    gap_offset: Int64Array
    known_start: Int64Array
    known_end: Int64Array
    by_repeat: BoolArray
    cut_off: BoolArray


@dataclass(frozen=True)
class MergedIntervals:
    """Rows of a history table that ended in a chunk; a function that gives those that didn't; and
    where the latter began (`BEGIN_FIELDS`)."""

    closed: pa.Table
    open_rows: Callable[[], pa.Table]
    begins: pa.Table


def merge_intervals(candidates: Candidates, times: ChunkTimes, begins: pa.Table) -> MergedIntervals:
    """Merges rows that follow each other and don't differ, and clips them to where the state is
    known. ``begins`` are those of the chunk before."""
    c, at, segment, start, end = _clip(candidates, times)
    complete = c.complete[at] | ~times.cut_off[segment]
    count = len(at)
    follows = np.zeros(count, bool)
    follows[1:] = (c.entity[at[1:]] == c.entity[at[:-1]]) & (end[:-1] == start[1:])
    merges = follows & c.same[at]
    merges[1:] &= complete[1:] == complete[:-1]
    head = np.flatnonzero(~merges)
    tail = np.append(head[1:], count)[: len(head)] - 1
    unseen = follows[head]
    unseen[1:] &= ~complete[head[1:] - 1]
    if len(unseen):
        unseen[0] = False
    stays = complete[head]
    head, tail, unseen = head[stays], tail[stays], unseen[stays]
    from_offset, valid_from, known = _begin(c, at, segment, start, head, unseen, times, begins)
    is_open = end[tail] == times.count
    closing = np.flatnonzero(~is_open)
    last = end[tail[closing]]
    gap_offset = times.gap_offset[last]
    interval = (from_offset, valid_from, known)
    opening = np.flatnonzero(is_open)
    closed = _history_rows(
        c.columns(at[head[closing]]),
        _take(interval, closing),
        np.where(gap_offset >= 0, gap_offset, times.offset[last]),
        times.time[last],
    )
    opened, first_of = _take(interval, opening), at[head[opening]]
    return MergedIntervals(
        closed,
        lambda: _history_rows(c.columns(first_of), opened, None, None),
        _begins(times, c, at[tail[opening]], opened),
    )


Interval = tuple[Int64Array, Int64Array, BoolArray]
"""From_offset, valid_from, and whether the beginning is only the point where the state is known."""


def _take(interval: Interval, at: Int64Array) -> Interval:
    return interval[0][at], interval[1][at], interval[2][at]


def _clip(
    c: Candidates, times: ChunkTimes
) -> tuple[Candidates, Int64Array, Int64Array, Int64Array, Int64Array]:
    """The parts of the intervals in which the state is known: the position of the candidate, the
    number of the known interval, start and end of each."""
    low = np.searchsorted(times.known_end, c.start, side="right")
    high = np.searchsorted(times.known_start, c.end, side="left")
    parts = np.maximum(high - low, 0)
    at = np.repeat(np.arange(len(parts)), parts)
    before = np.cumsum(parts) - parts
    segment = low[at] + np.arange(len(at)) - before[at]
    start = np.maximum(c.start[at], times.known_start[segment])
    end = np.minimum(c.end[at], times.known_end[segment])
    return c, at, segment, start, end


def _begin(
    c: Candidates,
    at: Int64Array,
    segment: Int64Array,
    start: Int64Array,
    head: Int64Array,
    unseen: BoolArray,
    times: ChunkTimes,
    begins: pa.Table,
) -> Interval:
    """Where the rows ``head`` began."""
    row, part = start[head], segment[head]
    known = unseen | (times.by_repeat[part] & (row == times.known_start[part]))
    inside = np.maximum(row, 0)
    from_offset, valid_from = times.offset[inside].copy(), times.time[inside].copy()
    base = np.flatnonzero(row < times.first)
    if len(base):
        key = _keys(c.first_record[at[head[base]]], c.index[at[head[base]]])
        records = np.searchsorted(times.offset[: times.first], begins["record"].to_numpy())
        stored = _keys(records, begins["index"].to_numpy())
        order = np.argsort(stored)
        found = order[np.searchsorted(stored[order], key)]
        if not (stored[found] == key).all():
            raise AssertionError("an open row has no beginning in the carry")
        from_offset[base] = begins["from_offset"].to_numpy()[found]
        valid_from[base] = begins["valid_from"].to_numpy()[found]
        known[base] = begins["known"].to_numpy()[found]
    return from_offset, valid_from, known


def _keys(record: Int64Array, index: Int64Array) -> Int64Array:
    return record * MAX_INDEX + index


def _begins(times: ChunkTimes, c: Candidates, at: Int64Array, interval: Interval) -> pa.Table:
    from_offset, valid_from, known = interval
    columns = {
        "record": times.offset[c.last_record[at]],
        "index": c.index[at],
        "from_offset": from_offset,
        "valid_from": valid_from,
        "known": known,
    }
    return pa.table(columns, schema=pa.schema(list(BEGIN_FIELDS.items())))


def _history_rows(
    rows: pa.Table,
    interval: Interval,
    to_offset: Int64Array | None,
    valid_to: Int64Array | None,
) -> pa.Table:
    """``rows`` with the columns `INTERVAL_FIELDS`; the interval is open without ``to_offset``."""
    from_offset, valid_from, known = interval
    begin = pa.array(valid_from)
    columns = {
        "valid_from": begin,
        "valid_to": pa.nulls(rows.num_rows) if valid_to is None else pa.array(valid_to),
        "from_offset": pa.array(from_offset),
        "to_offset": pa.nulls(rows.num_rows) if to_offset is None else pa.array(to_offset),
        "known_from": pa.array(valid_from, mask=~known),
    }
    for name, type_ in INTERVAL_FIELDS.items():
        rows = rows.append_column(pa.field(name, type_), columns[name].cast(type_))
    return rows


def no_begins() -> pa.Table:
    """Where the open rows began if there are none."""
    return pa.schema(list(BEGIN_FIELDS.items())).empty_table()
