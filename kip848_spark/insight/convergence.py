"""When groups are stable: every member is at the target epoch, has nothing to give up or to wait
for, and the target epoch is the group epoch. An empty group is stable as well.

These are the states Stable and Empty of the column ``groups.state``, except that the members of a
share group are looked at too, which have no Reconciling state."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from kip848_spark.insight.array_functions import is_run_start, last_before
from kip848_spark.insight.control_log import (
    CONSUMER,
    CURRENT,
    EPOCH,
    MEMBER,
    STREAMS,
    TARGET_EPOCH,
    ControlLog,
)
from kip848_spark.state import kinds
from kip848_spark.wire.array_types import BoolArray, Int64Array


@dataclass(frozen=True)
class Membership:
    """Members and epochs of the groups of a log."""

    log: ControlLog
    joined: BoolArray
    """bool[n]: records of key types 5, 10 and 19 that add a member."""
    removed: BoolArray
    """bool[n]: tombstones that remove a member: those of key types 5, 10 and 19; or that of its
    current assignment, if the member has no other record."""
    members: Int64Array
    """int64[n]: the number of members of the group after each record."""
    group_epoch: Int64Array
    """int64[n]: the epoch in a record of the group epoch; -1 elsewhere."""
    current: Int64Array
    """The positions of current assignments (tombstones and those of members included), sorted by
    member and position."""
    current_end: Int64Array
    """For each of ``current``: the position of the member's next one, or of the end of the
    life."""
    state: Int64Array
    """int64[n]: the state in a current assignment, counted from 0; -1 elsewhere."""

    def stable_ends(self) -> Int64Array:
        """The positions of the last records of operations after which the group is stable."""
        log = self.log
        ends = log.operations.last
        ends = ends[log.life_type[log.life[ends]] <= STREAMS]
        epochs = log.integer(kinds.TARGET_EPOCHS, "assignment_epoch")
        targets = log.positions(TARGET_EPOCH)
        target = _at(epochs, last_before(targets, log.life, ends))
        groups = np.flatnonzero((log.role == EPOCH) & ~log.tombstone)
        group = _at(self.group_epoch, last_before(groups, log.life, ends))
        reached = (target == group) & (target >= 0)
        waiting = self._expected(ends) - self._count_settled(ends, target)
        stable = (self.members[ends] == 0) | (reached & (waiting == 0))
        return np.asarray(ends[stable], np.int64)

    def is_present(self, member: Int64Array, after: Int64Array) -> BoolArray:
        """bool[m]: whether members are in their groups after the records at ``after``."""
        log = self.log
        order, present = _presence(log)
        width = log.count + 1
        key = log.member[order] * width + order
        found = np.searchsorted(key, member * width + after, "right") - 1
        if not len(order):
            return np.zeros(len(member), bool)
        last = np.maximum(found, 0)
        has_record = (found >= 0) & (log.member[order[last]] == member)
        return np.asarray(has_record & present[last])

    def _expected(self, ends: Int64Array) -> Int64Array:
        """int64[ends]: the number of members that have to reach the target epoch. A member of a
        consumer group counts even without a current assignment."""
        log, current = self.log, self.current
        value = (log.role[current] == CURRENT) & ~log.tombstone[current]
        assigned = running_count(log, *_changes(log, current, value))
        consumer = log.life_type[log.life[ends]] == CONSUMER
        return np.where(consumer, self.members[ends], assigned[ends])

    def _count_settled(self, ends: Int64Array, target: Int64Array) -> Int64Array:
        """int64[ends]: the number of members that are at the epoch ``target`` in state 0."""
        log = self.log
        epoch = log.integer(kinds.CURRENTS, "member_epoch")
        settled = self.state[self.current] == 0
        begin, end = self.current[settled], self.current_end[settled]
        key = (log.life[begin] << 32) + epoch[begin]
        known = np.unique(key)
        if not len(known):
            return np.zeros(len(ends), np.int64)
        wanted = (log.life[ends] << 32) + target
        code = np.minimum(np.searchsorted(known, wanted), len(known) - 1)
        base = np.searchsorted(known, key) * (log.count + 2)
        query = code * (log.count + 2)
        total = np.zeros(len(ends), np.int64)
        for events, sign in ((begin, 1), (end, -1)):
            events_of_keys = np.sort(base + events)
            total += sign * (
                np.searchsorted(events_of_keys, query + ends, "right")
                - np.searchsorted(events_of_keys, query)
            )
        return np.where(known[code] == wanted, total, 0)


def find_members(log: ControlLog) -> Membership:
    """The members of all groups of a log."""
    is_member = log.role == MEMBER
    is_current = log.role == CURRENT
    at, change = _changes(log, *_presence(log))
    joined = np.zeros(log.count, bool)
    removed = np.zeros(log.count, bool)
    joined[at[change > 0]] = True
    removed[at[change < 0]] = True
    current, current_end = log.next_of_member(
        np.flatnonzero(is_current | (is_member & log.tombstone))
    )
    state = log.integer(kinds.CURRENTS, "state")
    share = log.integer((kinds.SHARE_CURRENT,), "member_epoch") >= 0
    state[share] = 0
    streams = (log.type == STREAMS) & (state >= 0)
    state[streams] -= 1  # docs/kafka-facts.md#streams-member-states
    return Membership(
        log,
        joined & is_member,
        removed,
        running_count(log, at, change),
        log.integer(kinds.GROUP_EPOCHS, "epoch"),
        current,
        current_end,
        state,
    )


def _presence(log: ControlLog) -> tuple[Int64Array, BoolArray]:
    """The positions of the records of members and of their current assignments, sorted by member;
    and whether the member is in the group after each: whether one of the two is in effect. The
    tombstone of a member ends its current assignment, too (see `state.fold`)."""
    order, _ = log.next_of_member(np.flatnonzero((log.role == MEMBER) | (log.role == CURRENT)))
    value, is_member = ~log.tombstone[order], log.role[order] == MEMBER
    index = np.arange(len(order))

    def last(wanted: BoolArray) -> Int64Array:
        return np.maximum.accumulate(np.where(wanted, index, -1))

    first = last(is_run_start(log.member[order]))
    metadata, current = last(is_member), last(~is_member)
    present = (metadata >= first) & value[metadata]
    present |= (current >= first) & value[current] & (current > last(is_member & ~value))
    return order, present


def _changes(log: ControlLog, order: Int64Array, after: BoolArray) -> tuple[Int64Array, Int64Array]:
    """The positions where something that is true of a member begins (1) or ends (-1). ``order``
    are positions sorted by member; ``after`` says whether it is true after each."""
    before = np.zeros(len(order), bool)
    before[1:] = after[:-1] & (log.member[order[1:]] == log.member[order[:-1]])
    change = after.astype(np.int64) - before
    return order[change != 0], change[change != 0]


def running_count(log: ControlLog, at: Int64Array, change: Int64Array) -> Int64Array:
    """int64[n]: the sum of the changes in the same life, up to each record."""
    total = np.zeros(log.count, np.int64)
    total[at] = change
    total = np.cumsum(total)
    before = np.where(log.life_first > 0, total[log.life_first - 1], 0)
    return np.asarray(total - before[log.life], np.int64)


def _at(values: Int64Array, positions: Int64Array) -> Int64Array:
    """``values`` at ``positions``; -1 where a position is -1."""
    return np.where(positions >= 0, values[positions], -1)
