"""The intervals of `member_history`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from kip848_spark.state import kinds
from kip848_spark.state.codes import combine, factorize, starts_of_runs
from kip848_spark.state.control_state import ControlState
from kip848_spark.state.intervals import Candidates
from kip848_spark.state.lifetimes import Lifetimes, Occupancy
from kip848_spark.state.members import classic_members, modern_members
from kip848_spark.state.same_rows import same_as_before
from kip848_spark.wire.array_types import Int64Array


@dataclass(frozen=True)
class MemberRecords:
    """The records that a member's row is made from, through time. int64[n] each: the ``member``,
    the interval [``start``, ``end``), and the records ``metadata`` and ``current`` (-1: none) as
    rows of the chunk. Sorted by member and start."""

    member: Int64Array
    start: Int64Array
    end: Int64Array
    metadata: Int64Array
    current: Int64Array


def member_records(
    lifetimes: Lifetimes, metadata: Int64Array, current: Int64Array, first: int
) -> MemberRecords:
    """Which of the records ``metadata`` and ``current`` (int64[m], ascending) are those of a member
    at a time; only intervals with at least one of them."""
    width = lifetimes.count + 1
    rows = np.concatenate([metadata, current])
    member, end = lifetimes.member[rows] * width, lifetimes.end[rows]
    ended = end < lifetimes.count
    points = np.unique(
        np.concatenate([member + np.maximum(rows, first - 1) + 1, member[ended] + end[ended] + 1])
    )
    code, row = points // width, points % width - 1
    until = np.full(len(points), lifetimes.count)
    until[:-1][code[1:] == code[:-1]] = row[1:][code[1:] == code[:-1]]
    found = [
        Occupancy(lifetimes.member, each, lifetimes.end).newest(code, row)
        for each in (metadata, current)
    ]
    known = (found[0] >= 0) | (found[1] >= 0)
    return MemberRecords(code[known], row[known], until[known], found[0][known], found[1][known])


def member_candidates(
    state: ControlState, lifetimes: Lifetimes, first: int
) -> Iterator[Candidates]:
    """The rows of members, and the intervals in which they are true: those of consumer, share and
    streams groups, then those of classic groups."""
    records = member_records(
        lifetimes, lifetimes.rows(*kinds.MEMBERS), lifetimes.rows(*kinds.CURRENTS), first
    )
    if len(records.member):
        yield _modern(state, records)
    rows = lifetimes.rows(kinds.CLASSIC)
    if len(rows):
        yield _classic(state, lifetimes, rows, first)


def _modern(state: ControlState, records: MemberRecords) -> Candidates:
    table = modern_members(state, records.metadata, records.current)
    record = np.where(records.metadata >= 0, records.metadata, records.current)
    return Candidates(
        entity=records.member,
        start=records.start,
        end=records.end,
        same=same_as_before(table),
        complete=records.metadata >= 0,
        first_record=record,
        last_record=record,
        index=np.zeros(len(record), np.int64),
        columns=lambda at: table.take(pa.array(at)),
    )


def _classic(state: ControlState, lifetimes: Lifetimes, rows: Int64Array, first: int) -> Candidates:
    table, record = classic_members(state, rows)
    index = np.arange(len(record)) - np.searchsorted(record, record)
    code = combine(lifetimes.group[record], factorize(table["member_id"]))
    order = np.argsort(code, kind="stable")
    starts = starts_of_runs(code[order], record[order])
    if not starts.all():  # a record that names a member twice
        position = np.arange(len(order))
        repeat = position - np.maximum.accumulate(np.where(starts, position, 0))
        code[order] = combine(code[order], repeat)
        order = np.argsort(code, kind="stable")
    table, record = table.take(pa.array(order)), record[order]
    return Candidates(
        entity=code[order],
        start=np.maximum(record, first - 1),
        end=lifetimes.end[record],
        same=same_as_before(table),
        complete=np.ones(len(record), bool),
        first_record=record,
        last_record=record,
        index=index[order],
        columns=lambda at: table.take(pa.array(at)),
    )
