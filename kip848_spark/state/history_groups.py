"""The intervals of `group_history`.

A group's row can only change at a record of the group. So the row is made for each of these
records: its numbers are looked up among the records and members that belong to the state there."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kip848_spark.state import kinds
from kip848_spark.state.codes import last_rows
from kip848_spark.state.control_state import ControlState, state_table
from kip848_spark.state.groups import (
    DEFAULT_ASSIGNOR,
    GROUP_FIELDS,
    GroupRecords,
    epoch_and_stable,
    group_columns,
    group_epochs,
)
from kip848_spark.state.history_fields import GROUP_HISTORY_FIELDS, INTERVAL_FIELDS
from kip848_spark.state.history_members import member_records
from kip848_spark.state.intervals import Candidates
from kip848_spark.state.lifetimes import Lifetimes, Occupancy, count_intervals
from kip848_spark.state.same_rows import same_as_before
from kip848_spark.wire.array_types import BoolArray, Int64Array

_FIELDS = {name: GROUP_FIELDS[name] for name in GROUP_HISTORY_FIELDS if name not in INTERVAL_FIELDS}


@dataclass(frozen=True)
class _Points:
    """Groups and rows after which a group's row is looked up: int64[n] each, sorted."""

    group: Int64Array
    row: Int64Array

    def __getitem__(self, at: Int64Array | BoolArray) -> _Points:
        return _Points(self.group[at], self.row[at])


def group_candidates(state: ControlState, lifetimes: Lifetimes, first: int) -> Candidates | None:
    """The rows of groups, and the intervals in which they are true; None if there is no group."""
    points = _points(lifetimes, first)
    end = np.full(len(points.row), lifetimes.count)
    more = points.group[1:] == points.group[:-1]
    end[:-1][more] = points.row[1:][more]

    values = np.flatnonzero(~lifetimes.tombstone & ~lifetimes.is_kind(*kinds.MARKERS, kinds.COMMIT))
    records = _count(lifetimes, values, points)
    commits = lifetimes.rows(kinds.COMMIT)
    simple = Occupancy(lifetimes.group, commits, lifetimes.end).newest(points.group, points.row)
    exists = (records > 0) | (simple >= 0)
    points, end, records = points[exists], end[exists], records[exists]
    if not len(points.row):
        return None

    found = _group_records(state, lifetimes, values, records, points)
    epochs = group_epochs(state, found)
    columns = group_columns(
        state,
        found,
        epochs,
        members=_count_members(lifetimes, points),
        moving=_find_moving(state, lifetimes, epochs.target, points, first),
        assignor=_assignors(state, lifetimes, points, first),
    )
    table = state_table(columns, _FIELDS, len(points.row))
    has_epochs = [np.any([r >= 0 for r in rows], axis=0) for rows in (found.epochs, found.targets)]
    is_classic = pc.equal(columns["type"], "classic").to_numpy(zero_copy_only=False)
    live = np.flatnonzero(lifetimes.end == lifetimes.count)
    return Candidates(
        entity=points.group,
        start=points.row,
        end=end,
        same=same_as_before(table),
        complete=is_classic | (has_epochs[0] & has_epochs[1]),
        first_record=last_rows(lifetimes.group, np.arange(first))[points.group],
        last_record=last_rows(lifetimes.group, live)[points.group],
        index=np.zeros(len(points.row), np.int64),
        columns=lambda at: table.take(pa.array(at)),
    )


def _points(lifetimes: Lifetimes, first: int) -> _Points:
    """Each new record of a group, and the row before the first one if the group existed there."""
    width = lifetimes.count + 1
    new = np.flatnonzero(~lifetimes.is_kind(*kinds.MARKERS))
    new = new[new >= first]
    code = np.concatenate(
        [np.unique(lifetimes.group[:first]) * width + first, lifetimes.group[new] * width + new + 1]
    )
    code.sort()
    return _Points(code // width, code % width - 1)


def _count(lifetimes: Lifetimes, rows: Int64Array, points: _Points) -> Int64Array:
    """int64[n]: how many of the records ``rows`` belong to the group's state."""
    return count_intervals(
        lifetimes.group[rows], rows, lifetimes.end[rows], points.group, points.row, lifetimes.count
    )


def _group_records(
    state: ControlState,
    lifetimes: Lifetimes,
    values: Int64Array,
    records: Int64Array,
    points: _Points,
) -> GroupRecords:
    """The records of each point. ``values`` are the records that are not commits, and ``records``
    (int64[n]) counts those of them that belong to the state."""

    def newest(*wanted: str) -> Int64Array:
        rows = lifetimes.rows(*wanted)
        return Occupancy(lifetimes.group, rows, lifetimes.end).newest(points.group, points.row)

    anything = last_rows(lifetimes.group, np.arange(lifetimes.count))
    return GroupRecords(
        newest=anything[points.group],
        state=_state_records(state, lifetimes, values, records, points),
        classic=newest(kinds.CLASSIC),
        epochs=[newest(kind) for kind in kinds.GROUP_EPOCHS],
        targets=[newest(kind) for kind in kinds.TARGET_EPOCHS],
    )


def _state_records(
    state: ControlState,
    lifetimes: Lifetimes,
    values: Int64Array,
    records: Int64Array,
    points: _Points,
) -> Int64Array:
    """int64[n]: a record of the type of group that the newest record in the state has; -1 if there
    is none. Almost always all records of a group have one type."""
    encoded = pc.dictionary_encode(state.kind)
    types = [kinds.group_type(name) for name in encoded.dictionary.to_pylist()]
    type_code = np.unique(np.array(types), return_inverse=True)[1]
    of_row = type_code[encoded.indices.to_numpy(zero_copy_only=False)[values]]
    group = lifetimes.group[values]
    size = int(lifetimes.group.max()) + 1
    low, high = np.full(size, len(types)), np.full(size, -1)
    np.minimum.at(low, group, of_row)
    np.maximum.at(high, group, of_row)
    found = np.where(records > 0, last_rows(lifetimes.group, values)[points.group], -1)
    mixed = np.flatnonzero((low < high)[points.group] & (records > 0))
    if len(mixed):
        rows = values[(low < high)[group]]
        occupancy = Occupancy(lifetimes.group, rows, lifetimes.end)
        found[mixed] = occupancy.newest(points.group[mixed], points.row[mixed])
    return found


def _count_members(lifetimes: Lifetimes, points: _Points) -> Int64Array:
    """int64[n]: how many members have records of their own."""
    rows = lifetimes.rows(*kinds.MEMBERS, *kinds.CURRENTS)
    order = rows[np.argsort(lifetimes.member[rows], kind="stable")]
    # Overlapping lifetimes of a member's records are one interval.
    width = lifetimes.count + 1
    member = lifetimes.member[order] * width
    reach = np.maximum.accumulate(member + lifetimes.end[order])
    starts = np.ones(len(order), bool)
    starts[1:] = (member + order)[1:] > reach[:-1]
    head = np.flatnonzero(starts)
    tail = np.append(head[1:], len(order))[: len(head)] - 1
    return count_intervals(
        lifetimes.group[order[head]],
        order[head],
        (reach - member)[tail],
        points.group,
        points.row,
        lifetimes.count,
    )


def _find_moving(
    state: ControlState, lifetimes: Lifetimes, target: Int64Array, points: _Points, first: int
) -> BoolArray:
    """bool[n]: whether a member is not yet at the ``target`` epoch (int64[n]), or not stable."""
    late = np.zeros(len(points.row), np.int64)
    for kind in kinds.CURRENTS:
        rows = lifetimes.rows(kind)
        if not len(rows):
            continue
        late += _count(lifetimes, rows, points)
        epoch, stable = epoch_and_stable(state, kind, rows)
        there, epoch = rows[stable], epoch[stable]
        codes, code = np.unique(lifetimes.group[there] * _EPOCHS + epoch, return_inverse=True)
        if not len(codes):
            continue
        wanted = points.group * _EPOCHS + target
        at = np.minimum(np.searchsorted(codes, wanted), len(codes) - 1)
        asked = np.flatnonzero(codes[at] == wanted)
        late[asked] -= count_intervals(
            code, there, lifetimes.end[there], at[asked], points.row[asked], lifetimes.count
        )
    for metadata, current in kinds.RECONCILED:
        members = member_records(
            lifetimes, lifetimes.rows(metadata), lifetimes.rows(current), first
        )
        waits = members.current < 0  # at epoch 0, without an assignment
        if waits.any():
            late += count_intervals(
                lifetimes.group[members.metadata[waits]],
                members.start[waits],
                members.end[waits],
                points.group,
                points.row,
                lifetimes.count,
            )
    return late > 0


_EPOCHS = 1 << 33
"""More than the range of epochs (int32), so that a group and an epoch make one code."""


def _assignors(state: ControlState, lifetimes: Lifetimes, points: _Points, first: int) -> pa.Array:
    """string[n]: the server assignor that most members ask for. Of equally many votes the last name
    in the alphabet wins, as in the state tables."""
    rows = lifetimes.rows(kinds.MEMBER)
    wish = state.field(kinds.MEMBER, "server_assignor", rows)
    asks = wish.is_valid().to_numpy(zero_copy_only=False)
    rows, wish = rows[asks], wish.filter(pa.array(asks))
    names = pc.unique(wish).sort()
    if not len(names):
        return pa.repeat(pa.scalar(DEFAULT_ASSIGNOR), len(points.row))
    vote = np.asarray(pc.index_in(wish, names).to_numpy(), np.int64)
    pairs, pair = np.unique(lifetimes.group[rows] * len(names) + vote, return_inverse=True)
    end, group = lifetimes.end[rows], lifetimes.group[rows]

    # The votes of a group only change where such a record begins or ends to be part of the state.
    width = lifetimes.count + 1
    ended = end < lifetimes.count
    changes = np.unique(
        np.concatenate(
            [
                group * width + np.maximum(rows, first - 1) + 1,
                (group * width + end + 1)[ended],
            ]
        )
    )
    low = np.searchsorted(pairs, changes // width * len(names))
    choices = np.searchsorted(pairs, (changes // width + 1) * len(names)) - low
    change = np.repeat(np.arange(len(changes)), choices)
    choice = low[change] + np.arange(len(change)) - (np.cumsum(choices) - choices)[change]
    votes = count_intervals(pair, rows, end, choice, changes[change] % width - 1, lifetimes.count)
    order = np.lexsort((choice, votes, change))
    best = order[last_rows(change, np.arange(len(change)))]
    winner = np.where(votes[best] > 0, pairs[choice[best]] % len(names), -1)

    at = np.searchsorted(changes, points.group * width + points.row + 1, side="right") - 1
    inside = np.maximum(at, 0)
    found = (at >= 0) & (changes[inside] // width == points.group)
    code = np.where(found, winner[inside], -1)
    return pc.fill_null(names.take(pa.array(code, mask=code < 0)), DEFAULT_ASSIGNOR)
