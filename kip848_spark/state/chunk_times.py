"""When the records of a chunk happened, and where the state is known.

Time never goes backwards within a partition: the time of a record is the latest timestamp up to it.
A commit counts only if it creates a group, because only some commits are among the rows.

The state is known from the first offset on, unless records are missing there. A gap ends that. It
is known again at the first control record whose key has already occurred since the gap: of the part
of the log that the cleaner has passed it keeps one record for each key, so it has not passed that
record, and the latest value of every key before it was read. Occurrences before the gap don't
count, because they may have been read before the cleaner came. A row of kind `kinds.KNOWN` names
such a record among those that are not control records."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from kip848_spark.state import kinds
from kip848_spark.state.codes import combine, factorize
from kip848_spark.state.fold import ControlChunk
from kip848_spark.state.intervals import ChunkTimes
from kip848_spark.wire.array_types import BoolArray, Int64Array

_KEY = ("kind", "group_id", "member_id", "regular_expression")
_NO_KEYS = pa.schema([(name, pa.string()) for name in _KEY]).empty_table()
NO_TIME = np.iinfo(np.int64).min
"""The time before the first record."""


@dataclass(frozen=True)
class KnownState:
    """What is known after a chunk.

    ``offset`` and ``time`` (µs) are those of the last record, but for commits that create no group;
    ``known``: whether the state is known; ``gaps``: how many gaps there were (at most 2);
    ``cut_off``: whether the first row was a gap. ``seen`` are the keys that occurred since the last
    gap, if the state is unknown."""

    offset: int = -1
    time: int = NO_TIME
    known: bool = True
    gaps: int = 0
    cut_off: bool = False
    seen: pa.Table = field(default_factory=lambda: _NO_KEYS)

    @property
    def joint_key(self) -> bool | None:
        """See `PartitionFold.joint_key`."""
        return self.cut_off and self.gaps == 1 if self.known else None

    def is_cut_off(self, begins_with_gap: bool) -> bool:
        """`cut_off` after a chunk that begins with a gap, or with something else."""
        return self.cut_off or (self.offset < 0 and begins_with_gap)

    def to_tables(self) -> dict[str, pa.Table]:
        """The state as tables, for `from_tables`."""
        values = {"offset": self.offset, "time": self.time, "known": self.known}
        values |= {"gaps": self.gaps, "cut_off": self.cut_off}
        return {"known": pa.table({name: [v] for name, v in values.items()}), "seen": self.seen}

    @classmethod
    def from_tables(cls, known: pa.Table, seen: pa.Table) -> KnownState:
        """The state that `to_tables` made tables of."""
        return cls(**known.to_pylist()[0], seen=seen)


def chunk_times(
    chunk: ControlChunk, known_before: Sequence[KnownState]
) -> tuple[ChunkTimes, list[KnownState]]:
    """The times of a chunk, and what is known of each of its partitions after it.
    ``known_before`` is what was known after the chunk before. If the chunk has several partitions,
    they have the same `KnownState.joint_key`."""
    table, first, before = chunk.table, chunk.first, known_before[0]
    count = table.num_rows
    gap = chunk.lifetimes.is_kind(kinds.GAP)
    gap[:first] = False
    offset = table["offset"].to_numpy()
    gaps = np.flatnonzero(gap)
    repeats, seen = _repeats(chunk, before, gaps)

    # The state is known from a start of `known_start` to the next gap.
    following = np.searchsorted(repeats, gaps)
    starts = np.append(repeats, count)[following]
    ends = np.append(gaps[1:], count)
    again = starts < ends
    known_start, known_end = starts[again], ends[again]
    number = np.arange(1, len(gaps) + 1)[again] + before.gaps
    if before.known or not len(gaps):
        open_end = gaps[0] if len(gaps) else count
        start = first - 1 if before.known else (repeats[0] if len(repeats) else count)
    else:
        open_end = gaps[0]
        start = repeats[0] if len(repeats) else count
    if start < open_end:
        known_start = np.append(start, known_start)
        known_end = np.append(open_end, known_end)
        number = np.append(before.gaps, number)
    idle = chunk.idle_commits
    begins_with_gap = bool(count) and bool(gap[0])
    bounds = [*np.searchsorted(chunk.part[first:], range(len(known_before))) + first, count]
    parts = list(itertools.pairwise(map(int, bounds)))
    time = _times(chunk, known_before, parts, known_start, idle)
    passes = ~gap
    passes[idle] = False
    times = ChunkTimes(
        first=first,
        count=count,
        offset=offset,
        order_key=chunk.order_key,
        time=time,
        gap_offset=_gap_offsets(offset, gap, passes, first, before.offset),
        known_start=known_start,
        known_end=known_end,
        by_repeat=known_start >= first,
        cut_off=(number == 1) & before.is_cut_off(begins_with_gap),
    )
    known = bool(len(known_end)) and int(known_end[-1]) == count
    after = []
    for one, (start, end) in zip(known_before, parts, strict=True):
        passed = np.flatnonzero(passes[start:end]) + start
        after.append(
            KnownState(
                offset=int(offset[passed[-1]]) if len(passed) else one.offset,
                time=int(time[end - 1]) if end > start else one.time,
                known=known,
                gaps=min(2, one.gaps + len(gaps)),
                cut_off=one.is_cut_off(begins_with_gap),
                seen=seen.slice(0, 0) if known else seen,
            )
        )
    return times, after


def _times(
    chunk: ControlChunk,
    before: Sequence[KnownState],
    parts: Sequence[tuple[int, int]],
    known_start: Int64Array,
    idle: Int64Array,
) -> Int64Array:
    """int64[n]: the latest timestamp in the partition up to each new row but ``idle`` ones, in µs.
    ``parts`` are the new rows of each partition, from the first one to behind the last. A row of
    kind `kinds.KNOWN` counts if the state is known from there (``known_start``)."""
    stamps = chunk.table["timestamp"].combine_chunks().cast(pa.int64()).fill_null(NO_TIME)
    time = np.array(stamps.to_numpy(zero_copy_only=False), np.int64)
    time[: chunk.first] = before[0].time
    marks = np.flatnonzero(chunk.lifetimes.is_kind(kinds.KNOWN))
    time[marks[~np.isin(marks, known_start)]] = NO_TIME
    time[idle] = NO_TIME
    for one, (start, end) in zip(before, parts, strict=True):
        own = time[start:end]
        own[:1] = np.maximum(own[:1], one.time)
        own[:] = np.maximum.accumulate(own)
    return time


def _repeats(
    chunk: ControlChunk, before: KnownState, gaps: Int64Array
) -> tuple[Int64Array, pa.Table]:
    """int64[m]: the new rows whose key has already occurred since the last gap, if they are needed;
    and the keys since the last gap."""
    seen = before.seen
    if before.known and not len(gaps):
        return np.zeros(0, np.int64), seen
    table, first = chunk.table, chunk.first
    record = ~chunk.lifetimes.is_kind(*kinds.MARKERS, kinds.COMMIT)
    record[:first] = False
    rows = np.flatnonzero(record)
    keys = pa.concat_tables([seen, table.select(list(_KEY)).take(pa.array(rows))])
    code = combine(*(factorize(keys[name]) for name in _KEY))
    part = np.concatenate([np.zeros(seen.num_rows, np.int64), np.searchsorted(gaps, rows)])
    repeated = _occurred_before(combine(code, part))[seen.num_rows :]
    last = keys.filter(pa.array(part == len(gaps)))
    known = np.flatnonzero(chunk.lifetimes.is_kind(kinds.KNOWN))
    return np.union1d(rows[repeated], known), last.group_by(
        list(_KEY), use_threads=False
    ).aggregate([])


def _occurred_before(code: Int64Array) -> BoolArray:
    """bool[n]: whether the same code occurs in an earlier row."""
    again = np.ones(len(code), bool)
    again[np.unique(code, return_index=True)[1]] = False
    return again


def _gap_offsets(
    offset: Int64Array, gap: BoolArray, passes: BoolArray, first: int, before: int
) -> Int64Array:
    """int64[n]: where a row is a ``gap``, the offset behind the last record before it that
    ``passes``; else -1."""
    position = np.where(passes, np.arange(len(gap)), -1)
    position[:first] = -1
    last = np.maximum.accumulate(position)
    behind = np.where(last >= 0, offset[np.maximum(last, 0)], before) + 1
    return np.where(gap, behind, -1)
