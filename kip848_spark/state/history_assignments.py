"""The intervals of `assignment_history`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kip848_spark.state import kinds
from kip848_spark.state.assignments import (
    ASSIGNMENT_FIELDS,
    ASSIGNMENT_LISTS,
    AssignedPartitions,
    AssignmentList,
    explode,
)
from kip848_spark.state.codes import combine, factorize
from kip848_spark.state.control_state import ControlState, integers, state_table
from kip848_spark.state.intervals import MAX_INDEX, Candidates
from kip848_spark.state.lifetimes import Lifetimes
from kip848_spark.wire.array_types import BoolArray, Int64Array

MAX_PARTITIONS = 1 << 21
"""About as many partitions are exploded at once."""
_SECOND_LIST = MAX_INDEX >> 1
"""Added to the index of partitions in the second list of a record."""


def assignment_candidates(
    state: ControlState, lifetimes: Lifetimes, first: int
) -> Iterator[Candidates]:
    """The partitions of each member and role, and the intervals in which they were assigned, some
    groups and lists at a time."""
    for each in ASSIGNMENT_LISTS:
        if each.kind not in state.kinds:
            continue
        rows = lifetimes.rows(each.kind)
        for part in _blocks(state, lifetimes, each, rows):
            partitions = explode(state, each, part)
            if len(partitions.record):
                yield _candidates(state, lifetimes, first, each, part, partitions)


def _blocks(
    state: ControlState, lifetimes: Lifetimes, each: AssignmentList, rows: Int64Array
) -> Iterator[Int64Array]:
    """``rows`` in parts that have about `MAX_PARTITIONS`; the records of a group stay together."""
    if _most_partitions(state, each) <= MAX_PARTITIONS:
        if len(rows):
            yield rows
        return
    sizes = _partition_counts(state, each, rows)
    of_group = np.bincount(lifetimes.group[rows], sizes).astype(np.int64)
    block = (np.cumsum(of_group) // MAX_PARTITIONS)[lifetimes.group[rows]]
    for number in np.unique(block):
        yield rows[block == number]


def _most_partitions(state: ControlState, each: AssignmentList) -> int:
    """At least the number of partitions in the lists of all records."""
    elements = state.every(each.kind, each.field).values
    if each.kind == kinds.CLASSIC:
        assignment = elements.field("consumer_assignment")
        elements = assignment.field("assigned_partitions").values
    return len(elements.field("partitions").values)


def _partition_counts(state: ControlState, each: AssignmentList, rows: Int64Array) -> Int64Array:
    """int64[m]: at least the number of partitions in each record; for classic groups, which have
    their members in one record, by the bytes of the assignments."""
    lists = state.field(each.kind, each.field, rows)
    elements = pc.list_flatten(lists)
    if "assignment" in elements.type.names:
        sizes = integers(pc.binary_length(pc.struct_field(elements, "assignment")), 0) // 4
    else:
        sizes = integers(pc.list_value_length(pc.struct_field(elements, "partitions")), 0)
    total = np.concatenate([[0], np.cumsum(sizes)])
    end = np.cumsum(integers(pc.list_value_length(lists), 0))
    return np.asarray(np.diff(total[np.concatenate([[0], end])]), np.int64)


def _candidates(
    state: ControlState,
    lifetimes: Lifetimes,
    first: int,
    each: AssignmentList,
    rows: Int64Array,
    partitions: AssignedPartitions,
) -> Candidates:
    record = partitions.record
    code = _codes(lifetimes, partitions)
    begin = np.searchsorted(record, np.arange(len(lifetimes.end) + 1))
    runs = _unchanged_runs(lifetimes, rows, code, begin)
    chosen = np.flatnonzero(runs.is_head[record])
    index = chosen - begin[record[chosen]]
    order = np.argsort(code[chosen], kind="stable")
    chosen, code, index = chosen[order], code[chosen[order]], index[order]
    owner = record[chosen]
    second = _SECOND_LIST if each.role == "pending_revocation" else 0

    def columns(at: Int64Array) -> pa.Table:
        found = partitions.columns(state, each.role, chosen[at])
        return state_table(found, ASSIGNMENT_FIELDS, len(at))

    everything = np.ones(len(chosen), bool)
    return Candidates(
        entity=code,
        start=np.maximum(owner, first - 1),
        end=lifetimes.end[runs.last[owner]],
        same=everything,
        complete=everything,
        first_record=owner,
        last_record=runs.last[owner],
        index=index + second,
        columns=columns,
    )


def _codes(lifetimes: Lifetimes, partitions: AssignedPartitions) -> Int64Array:
    """int64[n]: one code for each distinct member, topic, partition and epoch."""
    record = partitions.record
    codes = [lifetimes.member[record]]
    if partitions.member is not None and partitions.member_ids is not None:
        codes.append(factorize(partitions.member_ids)[partitions.member])
    codes.append(factorize(partitions.topics)[partitions.topic])
    number = integers(partitions.number, 0)
    codes.append(number - number.min())
    if partitions.epoch is not None:
        codes.append(factorize(partitions.epoch))
    return combine(*codes)


@dataclass(frozen=True)
class _Runs:
    """Records that replace each other with the same list. bool[records]: whether a record is the
    first one of its run; int64[records]: the last record of its run."""

    is_head: BoolArray
    last: Int64Array


def _unchanged_runs(
    lifetimes: Lifetimes, rows: Int64Array, code: Int64Array, begin: Int64Array
) -> _Runs:
    before = lifetimes.replaces[rows]
    count = begin[rows + 1] - begin[rows]
    compared = np.flatnonzero(before >= 0)
    compared = compared[begin[before[compared] + 1] - begin[before[compared]] == count[compared]]
    sizes = count[compared]
    first_element = np.cumsum(sizes) - sizes
    position = np.arange(int(sizes.sum())) - np.repeat(first_element, sizes)
    here = np.repeat(begin[rows[compared]], sizes) + position
    there = np.repeat(begin[before[compared]], sizes) + position
    pair = np.repeat(np.arange(len(compared)), sizes)
    differs = np.bincount(pair[code[here] != code[there]], minlength=len(compared)) > 0
    same = compared[~differs]
    is_head = np.zeros(len(lifetimes.end), bool)
    is_head[rows] = True
    is_head[rows[same]] = False
    last = np.arange(len(lifetimes.end))
    # Each record of a run points to the one that replaces it, then the pointers are doubled.
    last[before[same]] = rows[same]
    while True:
        further = last[last]
        if (further == last).all():
            return _Runs(is_head, last)
        last = further
