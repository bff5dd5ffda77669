"""The table `rebalances`: one row for each rebalance of a group, from its control records."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kip848_spark.insight.control_log import (
    LOG_FIELDS,
    RECORD,
    STATE,
    ControlLog,
)
from kip848_spark.insight.rebalance_fields import CAUSES, OUTCOMES, REBALANCE_FIELDS
from kip848_spark.insight.rebalance_rows import find_rebalances
from kip848_spark.insight.rebalance_spans import MAX_EPOCHS, MAX_RECORDS, Surroundings
from kip848_spark.state import kinds
from kip848_spark.state.codes import combine, factorize
from kip848_spark.state.fold import ControlChunk, find_live_records
from kip848_spark.state.partition_fold import Carry, RowsByTable
from kip848_spark.wire.array_types import BoolArray, Int64Array
from kip848_spark.wire.tables import TIMESTAMP

__all__ = [
    "CAUSES",
    "MAX_EPOCHS",
    "MAX_RECORDS",
    "OUTCOMES",
    "REBALANCES",
    "REBALANCE_FIELDS",
    "RebalanceFold",
]

REBALANCES = "rebalances"
"""The name of the table."""
_SCHEMA = pa.schema(list(LOG_FIELDS.items()))
_KEY = ("kind", "group_id", "member_id", "regular_expression")
_OPEN, _SEEN, _CLOCK = "open", "seen", "clock"
_NEVER = np.iinfo(np.int64).max


class RebalanceFold:
    """Finds the rebalances of one partition: a `PartitionFold` (see there).

    A rebalance is closed when its episode is: when the group is stable again, ends, or is cut off
    by a gap. Until then the fold holds the group's control records since the episode began, and
    those that were in effect before. A group that never becomes stable would need ever more memory,
    so its episode is closed after `MAX_EPOCHS` rebalances or `MAX_RECORDS` records, and the next
    epoch begins a new one. The rows that are closed then have no ``converged_at``, are not
    complete, and are superseded (the last one is open if no epoch followed).

    ``carry`` is the carry of the run before. The rows do not depend on how the records are split
    into chunks and runs."""

    def __init__(self, carry: Carry) -> None:
        self._open = carry.get(_OPEN, _SCHEMA.empty_table())
        """Records of groups with an open rebalance, and of the operation at the end of the log."""
        self._seen = carry.get(_SEEN, _SCHEMA.empty_table().select(_KEY))
        """The keys of the records since the last gap, as long as the state is not known."""
        clock = carry.get(_CLOCK)
        if clock is not None and "record_time" not in clock.column_names:
            clock = clock.append_column("record_time", clock["time"])  # of an earlier version
        self._time = clock["time"][0].as_py() if clock else np.iinfo(np.int64).min
        """The newest time (us)."""
        self._record_time = clock["record_time"][0].as_py() if clock else self._time
        """The newest time (us) without those of `ControlChunk.idle_commits`."""
        self._gap = clock["gap"][0].as_py() if clock else -1
        """The offset of the last gap; -1 without one."""
        self._known_from = clock["known_from"][0].as_py() if clock else -1
        """The offset from which the state is known: the first one, or the first record after a gap
        whose key occurred before. (The log cleaner has not processed the log from there on: see
        docs/kafka-facts.md#compaction.)"""

    def add(self, chunk: ControlChunk) -> RowsByTable:
        """See `PartitionFold`."""
        new, around = self._new_rows(chunk.rows, chunk.idle_commits - chunk.first)
        earlier = self._earlier_rows(chunk, new)
        tail = _count_tail(earlier, new)
        held = np.arange(earlier.num_rows + new.num_rows) >= earlier.num_rows + new.num_rows - tail
        log = ControlLog(earlier, new, around.gaps, tail)
        found = find_rebalances(log, around)
        closed = found.rows["to_offset"].is_valid().to_numpy()
        rows = found.rows.filter(pa.array(closed & (found.begin < found.cut[found.group])))

        # From the cut of its group on, a record is needed again, and the state before it.
        needed = held.copy()
        needed[log.rows] = np.arange(log.count) >= found.cut[log.group]
        is_open = np.zeros(len(held), bool)
        is_open[log.rows] = (found.cut < log.count)[log.group]
        if tail:
            last = (new if new.num_rows else earlier)["group_id"][-1]
            for part in (earlier, new):
                same = pc.equal(part["group_id"], last).fill_null(False).to_numpy()
                begin = 0 if part is earlier else earlier.num_rows
                is_open[begin : begin + len(same)] |= same
        self._open = _open_records(earlier, new, needed, is_open)
        return {REBALANCES: rows}

    def _earlier_rows(self, chunk: ControlChunk, new: pa.Table) -> pa.Table:
        """The open records, and the control state of the other groups that have new records."""
        state = chunk.table.slice(0, chunk.first)
        groups = pc.unique(new["group_id"].combine_chunks())
        mine = pc.unique(self._open["group_id"].combine_chunks())
        wanted = pc.and_not(
            pc.is_in(state["group_id"], value_set=groups),
            pc.is_in(state["group_id"], value_set=mine),
        )
        state = state.filter(wanted)
        if not state.num_rows:
            return self._open
        state = _prepare(state, STATE, state["timestamp"])
        if not self._open.num_rows:
            return state
        both = pa.concat_tables([self._open, state])
        return both.take(pc.sort_indices(both, [("offset", "ascending")]))

    def finish(self, live: pa.Table | None) -> RowsByTable:
        """See `PartitionFold`."""
        none = np.zeros(0, np.int64)
        around = self._surroundings(self._gap, none, none, np.array([self._known_from]))
        log = ControlLog(self._open, self._open.slice(0, 0), around.gaps)
        rows = find_rebalances(log, around).rows
        index = rows.column_names.index("to_offset")
        return {REBALANCES: rows.set_column(index, "to_offset", pa.nulls(len(rows), pa.int64()))}

    def carry(self) -> Carry:
        """See `PartitionFold`."""
        clock = pa.table(
            {
                "time": [self._time],
                "record_time": [self._record_time],
                "gap": [self._gap],
                "known_from": [self._known_from],
            }
        )
        return {_OPEN: self._open, _SEEN: self._seen, _CLOCK: clock}

    def _new_rows(self, rows: pa.Table, idle: Int64Array) -> tuple[pa.Table, Surroundings]:
        """The new records, and what is known beside them. ``idle`` are the rows of
        `ControlChunk.idle_commits`."""
        rows = rows.combine_chunks()
        stamp = rows["timestamp"].cast(pa.int64()).fill_null(np.iinfo(np.int64).min).to_numpy()
        is_gap = pc.equal(rows["kind"], kinds.GAP).to_numpy()
        stamp = np.where(is_gap, np.iinfo(np.int64).min, stamp)
        self._time = max(self._time, int(stamp.max(initial=self._time)))
        stamp[idle] = np.iinfo(np.int64).min
        time = np.maximum(np.maximum.accumulate(stamp), self._record_time)
        if len(time):
            self._record_time = int(time[-1])
        offset = rows["offset"].to_numpy()
        gaps, gap_times = offset[is_gap], time[is_gap]
        known = self._find_known(rows, is_gap, gaps)
        around = self._surroundings(self._gap, gaps, gap_times, known)
        if len(gaps):
            self._gap = int(gaps[-1])
        return _prepare(rows, RECORD, pa.array(time).cast(TIMESTAMP)), around

    def _surroundings(
        self, last: int, gaps: Int64Array, gap_times: Int64Array, known: Int64Array
    ) -> Surroundings:
        """``last`` is the offset of the gap before these gaps; -1 without one. Records that are in
        effect may be from before it."""
        if last < 0:
            return Surroundings(gaps, gap_times, known, self._time)
        return Surroundings(
            np.append(last, gaps),
            np.append(self._time, gap_times),
            np.append(_NEVER, known),
            self._time,
        )

    def _find_known(self, rows: pa.Table, is_gap: BoolArray, gaps: Int64Array) -> Int64Array:
        known = np.full(len(gaps) + 1, _NEVER)
        known[0] = self._known_from
        if not len(gaps) and self._known_from != _NEVER:
            return known
        is_record = ~is_gap & pc.not_equal(rows["kind"], kinds.COMMIT).to_numpy()
        records = rows.filter(pa.array(is_record))
        keys = pa.concat_tables([self._seen, records.select(_KEY)])
        offset = records["offset"].to_numpy()
        era = np.concatenate([np.zeros(len(self._seen), np.int64), np.searchsorted(gaps, offset)])
        code = combine(era, *(factorize(keys[name]) for name in _KEY))
        code = factorize(pa.array(code))
        first = np.full(int(code.max(initial=-1)) + 1, -1)
        first[code[::-1]] = np.arange(len(code))[::-1]
        repeats = np.flatnonzero(first[code] != np.arange(len(code)))
        repeats = repeats[repeats >= len(self._seen)]
        which, index = np.unique(era[repeats], return_index=True)
        at = offset[repeats[index] - len(self._seen)]
        known[which] = np.minimum(known[which], at)
        self._known_from = int(known[-1])
        rest = era == len(gaps) if self._known_from == _NEVER else np.zeros(len(era), bool)
        self._seen = keys.filter(pa.array(rest)).combine_chunks()
        return known


def _prepare(rows: pa.Table, use: int, time: pa.ChunkedArray | pa.Array) -> pa.Table:
    count = rows.num_rows
    extra = {"use": pa.array(np.full(count, use, np.int8)), "time": time}
    columns = {name: extra[name] if name in extra else rows[name] for name in LOG_FIELDS}
    return pa.table(columns, schema=_SCHEMA)


def _count_tail(earlier: pa.Table, new: pa.Table) -> int:
    """The number of records at the end of the new ones (and of the earlier ones before them) that
    later records may belong to the same operation as."""
    if not new.num_rows or new["kind"][-1].as_py() == kinds.GAP:
        return 0
    total = 0
    for part in (new, earlier):
        offset = part["offset"].to_numpy()
        same = offset - new["offset"][-1].as_py() == np.arange(-part.num_rows + 1, 1) - total
        same &= pc.equal(part["timestamp"], new["timestamp"][-1]).fill_null(False).to_numpy()
        same &= pc.equal(part["group_id"], new["group_id"][-1]).fill_null(False).to_numpy()
        same &= part["use"].to_numpy() == RECORD
        breaks = np.flatnonzero(~same)
        total += part.num_rows - (int(breaks[-1]) + 1 if len(breaks) else 0)
        if len(breaks):
            break
    return total


def _open_records(
    earlier: pa.Table, new: pa.Table, needed: BoolArray, is_open: BoolArray
) -> pa.Table:
    """The records that are ``needed``, and those of the open groups that are in effect before."""
    parts, marks = [], []
    for part, begin in ((earlier, 0), (new, earlier.num_rows)):
        end = begin + part.num_rows
        taken = needed[begin:end] | is_open[begin:end]
        parts.append(part.filter(pa.array(taken)))
        marks.append(needed[begin:end][taken])
    table = pa.concat_tables(parts).combine_chunks()
    mark = np.concatenate(marks)
    before = table.filter(pa.array(~mark)).combine_chunks()
    live = before.filter(pa.array(find_live_records(before)))
    use = pa.array(np.full(len(live), STATE, np.int8))
    live = live.set_column(live.column_names.index("use"), "use", use)
    both = pa.concat_tables([live, table.filter(pa.array(mark))])
    return both.take(pc.sort_indices(both, [("offset", "ascending")])).combine_chunks()
