"""Intervals of history: rows of the state tables, and the records between which they were true.

Within a chunk, an interval is a pair of rows: [start, end). The state before the first new record
is the state after the row ``first`` - 1; an interval that was open then starts there, and where it
really began is looked up in the carry."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from kip848_spark.state.fold import MAX_OFFSET, order_keys
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
that the row is made from (its `ControlChunk.order_key` while several partitions are folded
together), ``index`` its position among the rows of this record. ``valid_from`` is in microseconds.
``known``: the beginning is only the point from which the state is known."""


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

    int64[n]: ``offset``, ``order_key`` (see `ControlChunk`) and ``time`` (µs, never going
    backwards in a partition) of each row. ``gap_offset``
    (int64[n]) is, where the row is a gap, the offset behind the last record before it, else -1
    (commits that create no group do not count).
    int64[k]: the state is known in the intervals [``known_start``, ``known_end``); bool[k]:
    ``by_repeat``, whether that follows from a repeated key, and ``cut_off``, whether records before
    it were cut off."""

    first: int
    count: int
    offset: Int64Array
    order_key: Int64Array
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
    begin = (from_offset, valid_from, known)
    opening = np.flatnonzero(is_open)
    unseen_end = gap_offset >= 0
    end_offset = np.where(unseen_end, gap_offset, times.offset[last])
    closed = _history_rows(
        c.columns(at[head[closing]]),
        _take(begin, closing),
        (end_offset, times.time[last], unseen_end),
    )
    opened, first_of = _take(begin, opening), at[head[opening]]
    return MergedIntervals(
        closed,
        lambda: _history_rows(c.columns(first_of), opened, None),
        _begins(times, c, at[tail[opening]], opened),
    )


Bounds = tuple[Int64Array, Int64Array, BoolArray]
"""Beginnings or ends of intervals: the offset, the time, and whether the true one was not seen, so
that this is the point from which or up to which the state is known."""


def _take(bounds: Bounds, at: Int64Array) -> Bounds:
    return bounds[0][at], bounds[1][at], bounds[2][at]


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
) -> Bounds:
    """Where the rows ``head`` began."""
    row, part = start[head], segment[head]
    known = unseen | (times.by_repeat[part] & (row == times.known_start[part]))
    inside = np.maximum(row, 0)
    from_offset, valid_from = times.offset[inside].copy(), times.time[inside].copy()
    base = np.flatnonzero(row < times.first)
    if len(base):
        key = _keys(c.first_record[at[head[base]]], c.index[at[head[base]]])
        records = np.searchsorted(times.order_key[: times.first], begins["record"].to_numpy())
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


def _begins(times: ChunkTimes, c: Candidates, at: Int64Array, begin: Bounds) -> pa.Table:
    from_offset, valid_from, known = begin
    columns = {
        "record": times.order_key[c.last_record[at]],
        "index": c.index[at],
        "from_offset": from_offset,
        "valid_from": valid_from,
        "known": known,
    }
    return pa.table(columns, schema=pa.schema(list(BEGIN_FIELDS.items())))


def _history_rows(
    rows: pa.Table,
    begin: Bounds,
    end: Bounds | None,
) -> pa.Table:
    """``rows`` with the columns `INTERVAL_FIELDS`; the intervals are open without ``end``."""
    offset, time, known = begin
    columns = {
        "valid_from": pa.array(time),
        "from_offset": pa.array(offset),
        "known_from": pa.array(time, mask=~known),
    }
    if end is None:
        columns |= dict.fromkeys(("valid_to", "to_offset", "known_to"), pa.nulls(rows.num_rows))
    else:
        offset, time, known = end
        columns["valid_to"], columns["to_offset"] = pa.array(time), pa.array(offset)
        columns["known_to"] = pa.array(time, mask=~known)
    for name, type_ in INTERVAL_FIELDS.items():
        rows = rows.append_column(pa.field(name, type_), columns[name].cast(type_))
    return rows


def no_begins() -> pa.Table:
    """Where the open rows began if there are none."""
    return pa.schema(list(BEGIN_FIELDS.items())).empty_table()


def join_begins(parts: Sequence[pa.Table]) -> pa.Table:
    """The beginnings of the partitions ``parts``, with order keys instead of offsets."""
    if len(parts) == 1:
        return parts[0]
    part = np.repeat(np.arange(len(parts)), [rows.num_rows for rows in parts])
    joined = pa.concat_tables([no_begins(), *parts])
    return _with_record(joined, order_keys(part, joined["record"].to_numpy()))


def split_begins(rows: pa.Table, count: int) -> list[pa.Table]:
    """The beginnings of each of ``count`` partitions, with offsets: the reverse of
    `join_begins`."""
    if count == 1:
        return [rows]
    part, offset = np.divmod(rows["record"].to_numpy(), MAX_OFFSET)
    rows = _with_record(rows, offset)
    order = np.argsort(part, kind="stable")
    bounds = np.searchsorted(part[order], np.arange(count + 1))
    ordered = rows.take(pa.array(order))
    return [
        ordered.slice(start, end - start) for start, end in itertools.pairwise(map(int, bounds))
    ]


def _with_record(rows: pa.Table, record: Int64Array) -> pa.Table:
    return rows.set_column(0, rows.schema.field("record"), pa.array(record))
