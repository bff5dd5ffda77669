"""Which partitions changed their owner, who had to give some up, and how long partitions had no
owner.

A partition is one of a topic; in a streams group, the active task of a subtopology. Members of a
share group do not own partitions."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kip848_spark.insight.array_functions import is_run_start, points_in_intervals, sum_by_code
from kip848_spark.insight.control_log import (
    CONSUMER,
    CURRENT,
    STREAMS,
    TARGET,
    ControlLog,
)
from kip848_spark.insight.convergence import Membership
from kip848_spark.state import kinds
from kip848_spark.state.codes import factorize, factorize_pairs
from kip848_spark.state.control_state import parent_rows
from kip848_spark.wire.array_types import Int64Array


class OwnershipIntervals(NamedTuple):
    """For how long a member had a partition: int64[intervals] each."""

    place: Int64Array
    """The partition: distinct for each topic and number, whatever the group."""
    member: Int64Array
    begin: Int64Array
    """The position of the record that gave it."""
    end: Int64Array
    """The position of the record that took it, or the end of the life."""


class AssignedPlaces(NamedTuple):
    """The partitions in the assignments of a log."""

    assigned: OwnershipIntervals
    pending: OwnershipIntervals
    """Partitions that a member has to give up, and has not given up yet."""
    target: OwnershipIntervals


_FIELDS = (
    (kinds.CURRENT, CURRENT, CONSUMER, "assigned_partitions", "topic_id"),
    (kinds.CURRENT, CURRENT, CONSUMER, "partitions_pending_revocation", "topic_id"),
    (kinds.TARGET, TARGET, CONSUMER, "topic_partitions", "topic_id"),
    (kinds.STREAMS_CURRENT, CURRENT, STREAMS, "active_tasks", "subtopology_id"),
    (kinds.STREAMS_CURRENT, CURRENT, STREAMS, "active_tasks_pending_revocation", "subtopology_id"),
    (kinds.STREAMS_TARGET, TARGET, STREAMS, "active_tasks", "subtopology_id"),
)
"""The kind, role and type of the records that list partitions, the field with the list, and the
field that names the topic."""


def find_places(log: ControlLog, current: Int64Array, current_end: Int64Array) -> AssignedPlaces:
    """The partitions in the assignments of a log. ``current``, ``current_end``: see
    `Membership`."""
    target, target_end = log.next_of_member(log.positions(TARGET))
    elements = []
    for kind, role, type_, field, topic in _FIELDS:
        order = target if role == TARGET else current
        index = np.flatnonzero(
            (log.role[order] == role) & (log.type[order] == type_) & ~log.tombstone[order]
        )
        elements.append(_explode(log, kind, field, topic, order[index], index))
    topics = factorize(pa.concat_arrays([topic for topic, _, _ in elements]))
    numbers = np.concatenate([number for _, number, _ in elements])
    width = int(numbers.max(initial=0)) + 1
    ends = np.cumsum([len(index) for _, _, index in elements])
    place = np.split(topics * width + numbers, ends[:-1])
    found = []
    for part in range(3):
        order, end = (target, target_end) if part == 2 else (current, current_end)
        index = np.concatenate([elements[part][2], elements[part + 3][2]])
        places = np.concatenate([place[part], place[part + 3]])
        found.append(_intervals(log, order, end, index, places))
    return AssignedPlaces(*found)


def _explode(
    log: ControlLog, kind: str, field: str, topic: str, positions: Int64Array, index: Int64Array
) -> tuple[pa.Array, Int64Array, Int64Array]:
    """The topic (string), the number and the element of ``index`` of each partition in the records
    at ``positions``."""
    lists = log.field(kind, field, positions)
    row = index[parent_rows(lists)]
    topics = pc.list_flatten(lists)
    partitions = pc.struct_field(topics, "partitions")
    parent = parent_rows(partitions)
    names = pc.struct_field(topics, topic).cast(pa.string()).take(pa.array(parent))
    number = pc.list_flatten(partitions).fill_null(0).to_numpy(zero_copy_only=False)
    return names, np.asarray(number, np.int64), row[parent]


def _intervals(
    log: ControlLog, order: Int64Array, end: Int64Array, index: Int64Array, place: Int64Array
) -> OwnershipIntervals:
    """Joins the partitions of consecutive records of a member. ``index`` is the element of
    ``order`` that each partition is in."""
    code = factorize_pairs(log.member[order[index]], place)
    by_code = np.lexsort((index, code))
    code, index, place = code[by_code], index[by_code], place[by_code]
    starts = is_run_start(code)
    starts[1:] |= index[1:] > index[:-1] + 1
    first = np.flatnonzero(starts)
    last = np.append(first[1:], len(code))[: len(first)] - 1
    return OwnershipIntervals(
        place[first], log.member[order[index[first]]], order[index[first]], end[index[last]]
    )


class Moves(NamedTuple):
    """Counts for each rebalance: int64[rebalances] each; -1 where no target was computed."""

    moved: Int64Array
    minimal: Int64Array
    revoked: Int64Array


def count_moves(
    before: Int64Array,
    after: Int64Array,
    places: AssignedPlaces,
    membership: Membership,
) -> Moves:
    """The partitions that a rebalance moves. ``before`` and ``after`` (int64[rebalances]): the
    positions whose owners and whose target are compared; ``after`` is -1 without a target.

    A partition is moved if it had an owner before and another member has it in the target.
    Partitions without an owner before, and those that are in no target, are not moved. It is
    revoked if its owner is still a member and does not have it in the target.

    ``minimal`` is the number of moves that any target needs in which each member gets as many
    partitions as in this one: a member that stays keeps at most as many of its partitions as its
    target has, so the others move, and so do those whose owner is gone. A target that lets every
    member keep that many reaches it, if each member may have each partition; else it is a lower
    bound."""
    valid = np.flatnonzero(after >= 0)
    count = len(before)
    owned = [np.concatenate(two) for two in zip(places.assigned, places.pending, strict=True)]
    interval, at = points_in_intervals(owned[2], owned[3], before[valid])
    target, point = points_in_intervals(
        places.target.begin, places.target.end, np.maximum.accumulate(after[valid])
    )
    # The target of a member that is gone may be left, if its tombstone was lost.
    there = membership.is_present(places.target.member[target], after[valid[point]])
    target, point = target[there], point[there]
    rebalance, owner = valid[at], owned[1][interval]
    width = int(max(owned[0].max(initial=0), places.target.place.max(initial=0))) + 1
    owned_key = rebalance * width + owned[0][interval]
    target_key = valid[point] * width + places.target.place[target]
    by_key = np.lexsort((places.target.begin[target], target_key))
    target_key, new_owner = target_key[by_key], places.target.member[target[by_key]]
    found = np.minimum(np.searchsorted(target_key, owned_key), max(len(target_key) - 1, 0))
    in_target = np.zeros(len(owned_key), bool)
    keeps = np.zeros(len(owned_key), bool)
    if len(target_key):
        in_target = target_key[found] == owned_key
        keeps = in_target & (new_owner[found] == owner)
    stays = membership.is_present(owner, after[rebalance])
    moved = np.bincount(rebalance[in_target & ~keeps], minlength=count)
    revoked = np.bincount(rebalance[stays & ~keeps], minlength=count)

    orphaned = np.bincount(rebalance[in_target & ~stays], minlength=count)
    of_stayers = in_target & stays
    most = int(max(owner.max(initial=0), new_owner.max(initial=0))) + 1
    has, had = np.unique(rebalance[of_stayers] * most + owner[of_stayers], return_counts=True)
    gets, share = np.unique(target_key // width * most + new_owner, return_counts=True)
    spot = np.minimum(np.searchsorted(gets, has), max(len(gets) - 1, 0))
    target_size = np.where(gets[spot] == has, share[spot], 0) if len(gets) else 0 * had
    excess = sum_by_code(np.maximum(had - target_size, 0), has // most, count)
    unknown = after < 0
    return Moves(*(np.where(unknown, -1, n) for n in (moved, orphaned + excess, revoked)))


class Stretches(NamedTuple):
    """From when to when rebalances last, until the next epoch at most: int64[rebalances] each."""

    begin: Int64Array
    """The position of the record of the group epoch."""
    end: Int64Array
    """The position of the last record."""
    stop: Int64Array
    """The time (us) of the end."""


class EpisodeStretches(NamedTuple):
    """From when to when episodes last: int64[episodes] each."""

    life: Int64Array
    first: Int64Array
    """The position of the first record of the first operation."""
    end: Int64Array
    """The position of the last record."""
    stop: Int64Array
    """The time (us) of the end."""


def unowned_time(
    log: ControlLog,
    assigned: OwnershipIntervals,
    episodes: EpisodeStretches,
    rebalances: Stretches,
) -> Int64Array:
    """int64[rebalances]: the time (ms) in which partitions were assigned to no member, summed over
    the partitions that lost their owner in the episode.

    Sums are modulo 2**64: only their differences are used."""
    if not len(episodes.first):
        return np.zeros(0, np.int64)
    code, first, lost = _join_overlapping(log, assigned)
    is_last = np.append(is_run_start(code)[1:], True)[: len(code)]
    found = np.where(is_last, log.count, np.append(first[1:], 0)[: len(code)])
    episode = np.searchsorted(episodes.first, lost, "right") - 1
    inside = (episode >= 0) & (log.life[first] == episodes.life[episode])
    inside &= lost <= episodes.end[episode]
    lost, found, episode = lost[inside], found[inside], episode[inside]
    last = episodes.end[episode]
    again = np.where(found <= last, log.time[np.minimum(found, last)], episodes.stop[episode])
    found = np.minimum(found, last)
    by_loss, by_find = np.argsort(lost), np.argsort(found)
    lost, found = lost[by_loss], found[by_find]
    lost_sum = np.append(0, np.cumsum(log.time[lost]))
    found_sum = np.append(0, np.cumsum(again[by_find]))

    def until(position: Int64Array, time: Int64Array) -> Int64Array:
        """The time without an owner up to these records, and after them up to ``time``."""
        losses = np.searchsorted(lost, position, "right")
        finds = np.searchsorted(found, position, "right")
        total: Int64Array = (losses - finds) * time - lost_sum[losses] + found_sum[finds]
        return total

    before = until(rebalances.begin, log.time[rebalances.begin])
    return np.asarray((until(rebalances.end, rebalances.stop) - before) // 1000, np.int64)


def _join_overlapping(
    log: ControlLog, assigned: OwnershipIntervals
) -> tuple[Int64Array, Int64Array, Int64Array]:
    """When each partition had an owner: a code for the partition in its life, the position where
    this begins and where it ends, sorted. In a valid log no two members own a partition."""
    code = factorize_pairs(log.life[assigned.begin], assigned.place)
    order = np.lexsort((assigned.begin, code))
    code, first, last = code[order], assigned.begin[order], assigned.end[order]
    width = log.count + 2
    reach = np.maximum.accumulate(code * width + last)
    starts = is_run_start(code)
    starts[1:] |= code[1:] * width + first[1:] > reach[:-1]
    at = np.flatnonzero(starts)
    last_of = np.append(at[1:], len(code))[: len(at)] - 1
    return code[at], first[at], reach[last_of] - code[at] * width
