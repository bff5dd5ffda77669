"""Who held up a rebalance: members that took long to give up partitions, and members that waited
for these."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kip848_spark.insight.array_functions import is_run_start, points_in_intervals, string_lists
from kip848_spark.insight.control_log import CONSUMER, CURRENT, STREAMS, ControlLog
from kip848_spark.insight.convergence import Membership
from kip848_spark.state import kinds
from kip848_spark.state.control_state import integers
from kip848_spark.wire.array_types import BoolArray, Int64Array

_UNREVOKED, _UNRELEASED = 1, 2


class Waiting(NamedTuple):
    """Columns of `rebalances`."""

    blocked: pa.Array
    slowest: pa.Array
    slowest_ms: pa.Array


class Revocations(NamedTuple):
    """The times that members took to give up partitions: int64[revocations] each."""

    member: Int64Array
    begin: Int64Array
    """The position of the record with the partitions to give up."""
    end: Int64Array
    """The position of the member's record that no longer has any, or the end of the life."""


def is_revoking(log: ControlLog, membership: Membership) -> BoolArray:
    """bool[n]: current assignments in which the member has to give up partitions."""
    found = np.zeros(log.count, bool)
    lists: tuple[tuple[str, int, tuple[str, ...]], ...] = (
        (kinds.CURRENT, CONSUMER, ("partitions_pending_revocation",)),
        (
            kinds.STREAMS_CURRENT,
            STREAMS,
            tuple(f"{role}_tasks_pending_revocation" for role in ("active", "standby", "warmup")),
        ),
    )
    for kind, type_, fields in lists:
        at = np.flatnonzero(
            (log.role == CURRENT) & (log.type == type_) & (membership.state == _UNREVOKED)
        )
        for field in fields if len(at) else ():
            found[at] |= integers(pc.list_value_length(log.field(kind, field, at)), 0) > 0
    return found


def find_revocations(log: ControlLog, membership: Membership, revoking: BoolArray) -> Revocations:
    """Joins the consecutive records of a member in which it has partitions to give up."""
    order, end = membership.current, membership.current_end
    active = revoking[order]
    starts = active.copy()
    starts[1:] &= ~active[:-1] | is_run_start(log.member[order])[1:]
    first = np.flatnonzero(starts)
    stops = active.copy()
    stops[:-1] &= ~active[1:] | starts[1:] | (log.member[order[1:]] != log.member[order[:-1]])
    last = np.flatnonzero(stops)
    return Revocations(log.member[order[first]], order[first], end[last])


def find_waiting(
    log: ControlLog,
    membership: Membership,
    revocations: Revocations,
    begin: Int64Array,
    end: Int64Array,
    last: Int64Array,
    last_time: Int64Array,
) -> Waiting:
    """The members that waited, and the one that was waited for. ``begin`` and ``end`` (int64
    positions, inclusive): the records from the epoch of each rebalance until it converged or the
    next epoch began; these spans are disjoint and ascend. ``last`` and ``last_time``: the position
    and the time (us) of the end of the rebalance.

    A wait counts from the beginning of the rebalance to its end at most."""
    count = len(begin)
    order = membership.current
    unreleased = membership.state[order] == _UNRELEASED
    wait, rebalance = _overlaps(order[unreleased], membership.current_end[unreleased], begin, end)
    names = log.take("member_id", order[unreleased][wait])
    blocked = string_lists(rebalance, names, count)

    wait, rebalance = _overlaps(revocations.begin, revocations.end, begin, end)
    stop = revocations.end[wait]
    within = stop <= last[rebalance]
    stop_time = np.where(within, log.time[np.minimum(stop, log.count - 1)], last_time[rebalance])
    since = np.maximum(log.time[revocations.begin[wait]], log.time[begin[rebalance]])
    length = np.maximum(stop_time - since, 0) // 1000
    by_length = np.lexsort((revocations.begin[wait], -length, rebalance))
    first = by_length[is_run_start(rebalance[by_length])]
    position = np.full(count, -1, np.int64)
    longest = np.full(count, -1, np.int64)
    position[rebalance[first]] = revocations.begin[wait[first]]
    longest[rebalance[first]] = length[first]
    none = position < 0
    slowest = log.take("member_id", np.maximum(position, 0)) if log.count else pa.nulls(0)
    slowest = pc.if_else(pa.array(none), pa.scalar(None, pa.string()), slowest)
    return Waiting(blocked, slowest, pa.array(longest, mask=none))


def _overlaps(
    begin: Int64Array, end: Int64Array, first: Int64Array, last: Int64Array
) -> tuple[Int64Array, Int64Array]:
    """The pairs (interval, span) that overlap. Interval: [begin, end); span: [first, last]; the
    spans ascend and are disjoint."""
    low = np.searchsorted(last, begin)
    high = np.searchsorted(first, end)
    pairs = points_in_intervals(low, np.maximum(high, low), np.arange(len(first)))
    return pairs.left, pairs.right
