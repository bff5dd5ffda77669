"""The history of groups, members and assignments: rows of the state tables as intervals.

`HistoryFold` runs beside the fold of the state. Of each chunk it derives the rows of the state
tables after each record, by the code that derives the state tables themselves, and merges rows that
don't differ. It remembers where the open rows began; their columns follow from the control
state."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

import pyarrow as pa

from kip848_spark.state.chunk_times import KnownState, chunk_times
from kip848_spark.state.control_state import ControlState
from kip848_spark.state.fold import ControlChunk
from kip848_spark.state.history_assignments import assignment_candidates
from kip848_spark.state.history_fields import (
    ASSIGNMENT_HISTORY,
    ASSIGNMENT_HISTORY_FIELDS,
    GROUP_HISTORY,
    GROUP_HISTORY_FIELDS,
    HISTORY_FIELDS,
    INTERVAL_FIELDS,
    MEMBER_HISTORY,
    MEMBER_HISTORY_FIELDS,
)
from kip848_spark.state.history_groups import group_candidates
from kip848_spark.state.history_members import member_candidates
from kip848_spark.state.intervals import (
    Candidates,
    ChunkTimes,
    MergedIntervals,
    join_begins,
    merge_intervals,
    no_begins,
    split_begins,
)
from kip848_spark.state.partition_fold import Carry, RowsByTable

__all__ = [
    "ASSIGNMENT_HISTORY",
    "ASSIGNMENT_HISTORY_FIELDS",
    "GROUP_HISTORY",
    "GROUP_HISTORY_FIELDS",
    "HISTORY_FIELDS",
    "INTERVAL_FIELDS",
    "MEMBER_HISTORY",
    "MEMBER_HISTORY_FIELDS",
    "HistoryFold",
]


Merged = dict[str, list[MergedIntervals]]
"""The rows of a chunk by history table, in parts."""


class HistoryFold:
    """Turns control records into rows of the history tables: a `PartitionFold` (see there)."""

    def __init__(self, carries: Mapping[int, Carry]) -> None:
        self._partitions = sorted(carries)
        ordered = [carries[partition] for partition in self._partitions]
        self._known = [_known_state(carry) for carry in ordered]
        self._begins = {
            name: join_begins([carry.get(name, no_begins()) for carry in ordered])
            for name in HISTORY_FIELDS
        }
        self._merged: Merged | None = None

    @staticmethod
    def joint_key(carry: Carry) -> bool | None:
        """See `PartitionFold`."""
        return _known_state(carry).joint_key

    def add(self, chunk: ControlChunk) -> RowsByTable:
        """The rows that were closed by the new records of ``chunk``."""
        self._merged = None
        times, self._known = chunk_times(chunk, self._known)
        self._merged = self._merge(chunk, times)
        self._begins = {
            name: pa.concat_tables([no_begins(), *(part.begins for part in parts)])
            for name, parts in self._merged.items()
        }
        return _join(self._merged, lambda part: part.closed)

    def finish(self, live: pa.Table | None) -> RowsByTable:
        """The open rows; ``live`` is the control state after the last chunk."""
        if self._merged is None and live is not None and live.num_rows:
            chunk = ControlChunk(live, live.num_rows, self._partitions)
            self._merged = self._merge(chunk, chunk_times(chunk, self._known)[0])
        return _join(self._merged or {}, lambda part: part.open_rows())

    def carries(self) -> dict[int, Carry]:
        """See `PartitionFold`."""
        count = len(self._partitions)
        begins = {name: split_begins(rows, count) for name, rows in self._begins.items()}
        return {
            partition: {**known.to_tables(), **{name: begins[name][part] for name in begins}}
            for part, (partition, known) in enumerate(
                zip(self._partitions, self._known, strict=True)
            )
        }

    def _merge(self, chunk: ControlChunk, times: ChunkTimes) -> Merged:
        state, lifetimes = ControlState(chunk.table), chunk.lifetimes
        groups = group_candidates(state, lifetimes, chunk.first)
        candidates: dict[str, Iterable[Candidates]] = {
            GROUP_HISTORY: () if groups is None else (groups,),
            MEMBER_HISTORY: member_candidates(state, lifetimes, chunk.first),
            ASSIGNMENT_HISTORY: assignment_candidates(state, lifetimes, chunk.first),
        }
        return {
            name: [merge_intervals(part, times, self._begins[name]) for part in parts]
            for name, parts in candidates.items()
        }


def _known_state(carry: Carry) -> KnownState:
    return KnownState.from_tables(carry["known"], carry["seen"]) if carry else KnownState()


def _join(merged: Merged, rows: Callable[[MergedIntervals], pa.Table]) -> RowsByTable:
    """The rows of each history table."""
    return {
        name: pa.concat_tables([_empty(name), *(rows(part) for part in merged.get(name, ()))])
        for name in HISTORY_FIELDS
    }


def _empty(table: str) -> pa.Table:
    return pa.schema(list(HISTORY_FIELDS[table].items())).empty_table()
