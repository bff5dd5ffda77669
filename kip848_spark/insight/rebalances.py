"""The table `rebalances`: one row for each rebalance of a group, from its control records."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import asdict, dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kip848_spark.insight.control_log import (
    LOG_FIELDS,
    RECORD,
    STATE,
    ControlLog,
)
from kip848_spark.insight.rebalance_fields import CAUSES, OUTCOMES, REBALANCE_FIELDS, REBALANCES
from kip848_spark.insight.rebalance_rows import find_rebalances
from kip848_spark.insight.rebalance_spans import (
    MAX_EPOCHS,
    MAX_RECORDS,
    Eras,
    Surroundings,
    surroundings,
)
from kip848_spark.state import kinds
from kip848_spark.state.codes import combine, factorize
from kip848_spark.state.fold import (
    ControlChunk,
    find_live_records,
    order_keys,
    part_numbers,
)
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

_SCHEMA = pa.schema(list(LOG_FIELDS.items()))
_KEY = ("kind", "group_id", "member_id", "regular_expression")
_OPEN, _SEEN, _CLOCK = "open", "seen", "clock"
_NEVER = np.iinfo(np.int64).max


@dataclass
class _Clock:
    """The times (us) and the gaps of a partition."""

    time: int = np.iinfo(np.int64).min
    """The newest time."""
    record_time: int = np.iinfo(np.int64).min
    """The newest time without those of `ControlChunk.idle_commits`."""
    gap: int = -1
    """The offset of the last gap; -1 without one."""
    known_from: int = -1
    """The offset from which the state is known: the first one, or the first record after a gap
    whose key occurred before. (The log cleaner has not processed the log from there on: see
    docs/kafka-facts.md#compaction.)"""

    @classmethod
    def of(cls, carry: Carry) -> _Clock:
        if _CLOCK not in carry:
            return cls()
        stored = carry[_CLOCK].to_pylist()[0]
        return cls(**{"record_time": stored["time"], **stored})  # an earlier version had one time

    def eras(self, gaps: Int64Array, gap_times: Int64Array, known: Int64Array) -> Eras:
        """The eras of the partition: the one before the last gap (records that are in effect may be
        from there), and those that the new ``gaps`` end, and the last one."""
        ends, times = [*gaps.tolist(), -1], [*gap_times.tolist(), self.time]
        if self.gap < 0:
            return Eras(ends, times, known.tolist())
        return Eras([self.gap, *ends], [self.time, *times], [_NEVER, *known.tolist()])


class RebalanceFold:
    """Finds rebalances: a `PartitionFold` (see there).

    A rebalance is closed when its episode is: when the group is stable again, ends, or is cut off
    by a gap. Until then the fold holds the group's control records since the episode began, and
    those that were in effect before. A group that never becomes stable would need ever more memory,
    so its episode is closed after `MAX_EPOCHS` rebalances or `MAX_RECORDS` records, and the next
    epoch begins a new one. The rows that are closed then have no ``converged_at``, are not
    complete, and are superseded (the last one is open if no epoch followed).

    The rows do not depend on how the records are split into chunks and runs, or on which partitions
    are folded together."""

    def __init__(self, carries: Mapping[int, Carry]) -> None:
        self._partitions = sorted(carries)
        ordered = [carries[partition] for partition in self._partitions]
        empty = _SCHEMA.empty_table()
        self._open = pa.concat_tables([empty, *(c[_OPEN] for c in ordered if _OPEN in c)])
        """Records of groups with an open rebalance, and of the operation at the end of the log."""
        self._seen = pa.concat_tables(
            [empty.select(_KEY), *(carry[_SEEN] for carry in ordered if _SEEN in carry)]
        )
        """The keys of the records since the last gap, as long as the state is not known; then there
        is only one partition."""
        self._clocks = [_Clock.of(carry) for carry in ordered]

    @staticmethod
    def joint_key(carry: Carry) -> bool | None:
        """See `PartitionFold`."""
        return None if _Clock.of(carry).known_from == _NEVER else True

    def add(self, chunk: ControlChunk) -> RowsByTable:
        """See `PartitionFold`."""
        new, around = self._new_rows(chunk)
        quiet = self._take_quiet(chunk)
        earlier = self._earlier_rows(chunk, new)
        part = np.concatenate([self._part(earlier), self._part(new)])
        held = _find_tails(earlier, new, part)
        offset = np.concatenate([earlier["offset"].to_numpy(), new["offset"].to_numpy()])
        log = ControlLog(earlier, new, around.era(order_keys(part, offset)), held)
        found = find_rebalances(log, around)
        closed = found.rows["to_offset"].is_valid().to_numpy()
        rows = found.rows.filter(pa.array(closed & (found.begin < found.cut[found.group])))

        # From the cut of its group on, a record is needed again, and the state before it.
        needed = held.copy()
        needed[log.rows] = np.arange(log.count) >= found.cut[log.group]
        is_open = np.zeros(len(held), bool)
        is_open[log.rows] = (found.cut < log.count)[log.group]
        if held.any():
            groups = pa.chunked_array(earlier["group_id"].chunks + new["group_id"].chunks)
            unfinished = pc.unique(groups.filter(pa.array(held)))
            is_open |= pc.is_in(groups, value_set=unfinished).to_numpy()
        self._open = _sorted(
            pa.concat_tables([_open_records(earlier, new, needed, is_open), quiet])
        )
        return {REBALANCES: rows}

    def _part(self, rows: pa.Table) -> Int64Array:
        return part_numbers(rows["partition"], self._partitions)

    def _take_quiet(self, chunk: ControlChunk) -> pa.Table:
        """Removes the open records of partitions without new rows, and returns them."""
        is_quiet = np.zeros(self._open.num_rows, bool)
        if len(self._partitions) > 1:
            is_quiet = ~np.isin(self._part(self._open), chunk.part[chunk.first :])
        quiet = self._open.filter(pa.array(is_quiet))
        self._open = self._open.filter(pa.array(~is_quiet))
        return quiet

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
        return _sorted(pa.concat_tables([self._open, state])) if self._open.num_rows else state

    def finish(self, live: pa.Table | None) -> RowsByTable:
        """See `PartitionFold`."""
        none = np.zeros(0, np.int64)
        around = surroundings(
            [clock.eras(none, none, np.array([clock.known_from])) for clock in self._clocks]
        )
        era = around.era(order_keys(self._part(self._open), self._open["offset"].to_numpy()))
        log = ControlLog(self._open, self._open.slice(0, 0), era)
        rows = find_rebalances(log, around).rows
        index = rows.column_names.index("to_offset")
        return {REBALANCES: rows.set_column(index, "to_offset", pa.nulls(len(rows), pa.int64()))}

    def carries(self) -> dict[int, Carry]:
        """See `PartitionFold`."""
        bounds = np.searchsorted(self._part(self._open), np.arange(len(self._partitions) + 1))
        return {
            partition: {
                _OPEN: self._open.slice(start, end - start),
                _SEEN: self._seen,
                _CLOCK: pa.Table.from_pylist([asdict(clock)]),
            }
            for partition, clock, (start, end) in zip(
                self._partitions, self._clocks, itertools.pairwise(bounds.tolist()), strict=True
            )
        }

    def _new_rows(self, chunk: ControlChunk) -> tuple[pa.Table, Surroundings]:
        """The new records, and what is known beside them."""
        rows = chunk.rows.combine_chunks()
        stamp = rows["timestamp"].cast(pa.int64()).fill_null(np.iinfo(np.int64).min).to_numpy()
        is_gap = pc.equal(rows["kind"], kinds.GAP).to_numpy()
        time = np.where(is_gap, np.iinfo(np.int64).min, stamp)
        idle = np.zeros(len(time), bool)
        idle[chunk.idle_commits - chunk.first] = True
        offset = rows["offset"].to_numpy()
        bounds = np.searchsorted(chunk.part[chunk.first :], np.arange(len(self._clocks) + 1))
        eras = []
        for clock, (start, end) in zip(
            self._clocks, itertools.pairwise(bounds.tolist()), strict=True
        ):
            own = slice(start, end)
            clock.time = int(time[own].max(initial=clock.time))
            time[own][idle[own]] = np.iinfo(np.int64).min
            time[own] = np.maximum(np.maximum.accumulate(time[own]), clock.record_time)
            if end > start:
                clock.record_time = int(time[end - 1])
            gaps = offset[own][is_gap[own]]
            known = self._find_known(clock, rows.slice(start, end - start), is_gap[own], gaps)
            eras.append(clock.eras(gaps, time[own][is_gap[own]], known))
            if len(gaps):
                clock.gap = int(gaps[-1])
        return _prepare(rows, RECORD, pa.array(time).cast(TIMESTAMP)), surroundings(eras)

    def _find_known(
        self, clock: _Clock, rows: pa.Table, is_gap: BoolArray, gaps: Int64Array
    ) -> Int64Array:
        """int64[gaps + 1]: the offset from which the state is known between the ``gaps``."""
        known = np.full(len(gaps) + 1, _NEVER)
        known[0] = clock.known_from
        if not len(gaps) and clock.known_from != _NEVER:
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
        clock.known_from = int(known[-1])
        rest = era == len(gaps) if clock.known_from == _NEVER else np.zeros(len(era), bool)
        self._seen = keys.filter(pa.array(rest)).combine_chunks()
        return known


def _prepare(rows: pa.Table, use: int, time: pa.ChunkedArray | pa.Array) -> pa.Table:
    count = rows.num_rows
    extra = {"use": pa.array(np.full(count, use, np.int8)), "time": time}
    columns = {name: extra[name] if name in extra else rows[name] for name in LOG_FIELDS}
    return pa.table(columns, schema=_SCHEMA)


def _find_tails(earlier: pa.Table, new: pa.Table, part: Int64Array) -> BoolArray:
    """bool[rows]: the records at the end of each partition (``part``, of the earlier rows and the
    new ones) that later records may belong to the same operation as. A partition that has earlier
    rows has new ones, too."""
    held = np.zeros(len(part), bool)
    if not new.num_rows:
        return held
    number = np.arange(len(part))
    order = np.argsort(part, kind="stable")
    last = np.append(np.flatnonzero(np.diff(part[order])), len(part) - 1)
    last = last[np.searchsorted(last, number)]
    end, place = np.empty_like(order), np.empty_like(order)
    end[order], place[order] = order[last], number  # the last row of the partition, the row's place

    def column(name: str) -> pa.ChunkedArray:
        return pa.chunked_array(earlier[name].chunks + new[name].chunks)

    offset = column("offset").to_numpy()
    same = column("use").to_numpy() == RECORD
    same &= offset[end] - offset == place[end] - place
    for name in ("timestamp", "group_id"):
        values = column(name)
        equal = pc.equal(values, values.take(pa.array(end))).fill_null(False)
        same &= equal.to_numpy()
    breaks = np.maximum.accumulate(np.where(same[order], -1, number))
    held[order] = breaks[last] < number
    return held


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
    return pa.concat_tables([live, table.filter(pa.array(mark))])


def _sorted(rows: pa.Table) -> pa.Table:
    """``rows`` in the order of partitions and offsets."""
    keys = [("partition", "ascending"), ("offset", "ascending")]
    return rows.take(pc.sort_indices(rows, keys)).combine_chunks()
