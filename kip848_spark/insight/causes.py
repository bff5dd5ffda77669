"""Why the epoch of a group rose: the other records of the same operation.

A leave and the end of a session write the same records (docs/kafka-facts.md#operations). A member
that was fenced because it did not give up partitions in time differs: its last assignment has
partitions to give up, and is as old as its rebalance timeout."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kip848_spark.insight import rebalance_fields as names
from kip848_spark.insight.array_functions import set_fingerprints, string_lists
from kip848_spark.insight.control_log import (
    CLASSIC,
    CONSUMER,
    CURRENT,
    EPOCH,
    MEMBER,
    METADATA,
    REGEX,
    SHARE,
    STREAMS,
    ControlLog,
    last_of_member,
)
from kip848_spark.insight.convergence import Membership
from kip848_spark.insight.departures import AWAY_EPOCH
from kip848_spark.insight.operation_shapes import DOWNGRADE, REPLACEMENT, UPGRADE
from kip848_spark.insight.unresolved_expressions import Waits, changed_before, joined_before
from kip848_spark.state import kinds
from kip848_spark.state.codes import factorize, factorize_pairs
from kip848_spark.wire.array_types import BoolArray, Int64Array

EARLY_MS, LATE_MS = 50, 2_000
"""How much earlier or later than its rebalance timeout a member is fenced. Both times are the
CreateTime of a record. A broker sets it when it appends the record, up to some ms after it started
the timer, and it handles an expired timer after the requests that wait already. Later than this,
the timer did not run: a change of the coordinator starts it again."""
MAX_TRIGGERS = 8
"""At most this many records of members are evidence."""


class Causes(NamedTuple):
    """Columns of `rebalances`; ``trigger`` and ``trigger_of`` are the positions of the records that
    caused them, and their rebalances."""

    causes: pa.Array
    likely: pa.Array
    joined: pa.Array
    left: pa.Array
    trigger_members: pa.Array
    trigger: Int64Array
    trigger_of: Int64Array


class _Events(NamedTuple):
    """What records say that can raise a group epoch: bool[n] each, and only in operations with a
    group epoch."""

    rebalance: Int64Array
    """int64[n]: the rebalance that each record belongs to; -1."""
    joins: BoolArray
    replaces: BoolArray
    """Those of ``joins`` that replace a member with the same instance id."""
    leaves: BoolArray
    replaced: BoolArray
    """Those of ``leaves`` that another member replaces."""
    subscribes: BoolArray
    assigns: BoolArray
    resolves: BoolArray
    upgrades: BoolArray


def find_causes(
    log: ControlLog,
    membership: Membership,
    revoking: BoolArray,
    epochs: Int64Array,
    known: BoolArray,
) -> Causes:
    """The causes of the rebalances that begin at the positions ``epochs``. ``revoking``: see
    `is_revoking`; ``known`` (bool[rebalances]): whether the state before is known."""
    count = len(epochs)
    events = _find_events(log, membership, epochs)
    rebalance = events.rebalance
    waited = joined_before(log, events.resolves, rebalance, epochs)
    changed = changed_before(log, events.resolves, rebalance, epochs, waited, known)
    joined = np.flatnonzero(events.joins)
    flags = _find_flags(log, events, changed, _late(log, revoking), epochs, known)
    changes = events.subscribes | events.assigns
    trigger = np.flatnonzero(
        events.joins | events.leaves | changes | events.resolves | events.upgrades
    )
    of_member = trigger[np.isin(log.role[trigger], (MEMBER, CURRENT))]
    return Causes(
        cause_lists(flags, count),
        _likely(log, events.leaves & ~events.replaced, rebalance, count),
        _members(
            log,
            np.append(joined, waited.at),
            np.append(rebalance[joined], waited.rebalance),
            count,
        ),
        _members(log, np.flatnonzero(events.leaves), rebalance[events.leaves], count),
        _members(
            log,
            np.append(of_member, changed.at),
            np.append(rebalance[of_member], changed.rebalance),
            count,
        ),
        trigger,
        rebalance[trigger],
    )


def _find_events(log: ControlLog, membership: Membership, epochs: Int64Array) -> _Events:
    count = len(epochs)
    operations = log.operations
    of_epoch = operations.of[epochs]
    # Records of an operation belong to its next epoch, those after its last epoch to that one.
    at = np.flatnonzero(np.isin(operations.of, of_epoch) & ~log.is_state)
    later = np.minimum(np.searchsorted(epochs, at), max(count - 1, 0))
    owner = np.where(of_epoch[later] == operations.of[at], later, later - 1) if count else at
    rebalance = np.full(log.count, -1, np.int64)
    rebalance[at] = owner
    name = operations.name[operations.of]
    there = rebalance >= 0

    # The members that an upgrade copies from the classic group come before its first epoch.
    copied = membership.joined & there & log.is_classic_member & (name == UPGRADE)
    copies = np.flatnonzero(copied)
    first_of_operation = np.ones(count, bool)
    first_of_operation[1:] = of_epoch[1:] != of_epoch[:-1]
    owner = rebalance[copies]
    copied[copies] = first_of_operation[owner] & (copies < epochs[owner])

    joins = membership.joined & there & ~copied
    leaves = membership.removed & there
    # The tombstones with which a downgrade ends the group come after its last epoch.
    ends = np.flatnonzero(leaves & (name == DOWNGRADE))
    leaves[ends] = ends < epochs[rebalance[ends]]
    replaces = joins & np.isin(name, (REPLACEMENT, DOWNGRADE))
    replaced = leaves & np.isin(operations.of, operations.of[replaces])
    subscribes, assigns = _changes(log, membership, replaces)
    return _Events(
        rebalance,
        joins,
        replaces,
        leaves,
        replaced,
        subscribes & there,
        assigns & there,
        (log.role == REGEX) & ~log.tombstone & there,
        (log.role == CLASSIC) & log.tombstone & there & (name == UPGRADE),
    )


def _find_flags(
    log: ControlLog,
    events: _Events,
    changed: Waits,
    late: BoolArray,
    epochs: Int64Array,
    known: BoolArray,
) -> dict[str, BoolArray]:
    """bool[rebalances] for each cause. The members of an upgrade are not causes of their own, and a
    change of the topics is one only if nothing else is."""
    count = len(epochs)
    rebalance = events.rebalance

    def flag(records: BoolArray) -> BoolArray:
        found = np.zeros(count, bool)
        found[rebalance[records]] = True
        return found

    upgraded = log.operations.name[log.operations.of[epochs]] == UPGRADE
    leaves = events.leaves & ~events.replaced
    left, timed_out = flag(leaves & ~late), flag(leaves & late)
    joined = flag(events.joins & ~events.replaces) & ~upgraded
    changes = ~upgraded & ~joined & ~left
    subscribed = flag(events.subscribes)
    subscribed[changed.rebalance] = True
    flags = {
        names.UPGRADED: upgraded,
        names.LEFT: left,
        names.REBALANCE_TIMEOUT: timed_out,
        names.JOINED: joined,
        names.SUBSCRIPTION: subscribed & changes,
        names.ASSIGNOR: flag(events.assigns) & changes,
        names.REGEX: flag(events.resolves) & ~upgraded & ~left & ~timed_out,
    }
    alone = ~np.logical_or.reduce(list(flags.values()))
    replaced = flag(events.replaces)
    topics = _topics_changed(log, epochs, rebalance) & known
    unsure = joined & ~known & ~_joins_at_zero(log, epochs, rebalance)
    votes = alone & ~topics & ~replaced & known & _votes_differ(log, epochs)
    flags[names.JOINED] &= ~unsure
    flags[names.REPLACED] = replaced
    flags[names.TOPICS] = alone & topics
    flags[names.ASSIGNOR] |= votes
    flags[names.UNKNOWN] = (alone & ~topics & ~replaced & ~votes) | unsure
    return flags


def cause_lists(flags: dict[str, BoolArray], count: int) -> pa.Array:
    """list<string>[count]: the names of the flags that are set, sorted."""
    found = [np.flatnonzero(flags[cause]) for cause in flags]
    index = [np.full(len(rows), i) for i, rows in enumerate(found)]
    name = pa.array(list(flags), pa.string()).take(pa.array(np.concatenate(index)))
    return string_lists(np.concatenate(found), name, count)


def _members(log: ControlLog, at: Int64Array, rebalance: Int64Array, count: int) -> pa.Array:
    """list<string>[count]: the members of the records ``at``, which belong to ``rebalance``
    (int64[len(at)])."""
    return string_lists(rebalance, log.take("member_id", at), count)


def _changes(
    log: ControlLog, membership: Membership, replaces: BoolArray
) -> tuple[BoolArray, BoolArray]:
    """Records of members with another subscription, and with another assignor, than the record
    before. Any change of a streams group's member counts as the first, because any of them raises
    the epoch. The record before one that ``replaces`` a member is that of the other member."""
    at = np.flatnonzero((log.role == MEMBER) & ~log.tombstone)
    subscribed = np.zeros(log.count, bool)
    assignor = np.zeros(log.count, bool)
    if not len(at):
        return subscribed, assignor
    print_ = np.zeros(len(at), np.int64)
    wanted = np.zeros(len(at), np.int64)
    for kind, type_ in ((kinds.MEMBER, CONSUMER), (kinds.SHARE_MEMBER, SHARE)):
        mine = np.flatnonzero(log.type[at] == type_)
        print_[mine] = set_fingerprints(log.field(kind, "subscribed_topic_names", at[mine]))
    consumers = np.flatnonzero(log.type[at] == CONSUMER)
    regex = log.field(kinds.MEMBER, "subscribed_topic_regex", at[consumers]).fill_null("")
    wish = log.field(kinds.MEMBER, "server_assignor", at[consumers]).fill_null("")
    expression = np.zeros(len(at), np.int64)
    expression[consumers] = factorize(regex)
    wanted[consumers] = factorize(wish)

    # The record before, if it is still in effect.
    every = log.positions(MEMBER)
    last = last_of_member(log, every, at)
    last = np.where((last >= 0) & ~log.tombstone[every[last]], every[last], -1)
    before = np.where(last >= 0, np.searchsorted(at, last), -1)
    # The member that was replaced: its tombstone is right before the record of the new one.
    new = np.flatnonzero(replaces[at])
    gone = at[new] - 1
    last = last_of_member(log, at, gone)
    before[new] = last
    there = before >= 0
    changed = (print_ != print_[before]) | (expression != expression[before])
    changed |= log.type[at] == STREAMS
    present = ~membership.joined[at] | replaces[at]
    subscribed[at] = there & present & changed
    assignor[at] = there & present & (wanted != wanted[before])
    return subscribed, assignor


def _votes_differ(log: ControlLog, epochs: Int64Array) -> BoolArray:
    """bool[rebalances]: members of the consumer group ask for different assignors then. From 4.4
    on, a heartbeat without any change may then raise the epoch: of two assignors with equal votes,
    the broker takes now one, now the other (docs/kafka-facts.md#which-assignor-runs)."""
    begin, end = log.next_of_member(np.flatnonzero((log.role == MEMBER) & (log.type == CONSUMER)))
    wish = log.field(kinds.MEMBER, "server_assignor", begin).fill_null("")
    asks = np.asarray(pc.not_equal(wish, ""))
    begin, end, wish = begin[asks], end[asks], wish.filter(pa.array(asks))
    if not len(begin):
        return np.zeros(len(epochs), bool)
    # From when to when anybody asks for each assignor.
    code = factorize_pairs(log.life[begin], factorize(wish))
    order = np.lexsort((begin, code))
    base = code[order] * (log.count + 2)
    reach = np.maximum.accumulate(base + end[order])
    starts = np.ones(len(order), bool)
    starts[1:] = (base + begin[order])[1:] > reach[:-1]
    first = np.flatnonzero(starts)
    last = np.append(first[1:], len(order)) - 1
    begins, ends = np.sort(begin[order[first]]), np.sort((reach - base)[last])
    asked = np.searchsorted(begins, epochs, "right") - np.searchsorted(ends, epochs, "right")
    return np.asarray(asked > 1)


def _late(log: ControlLog, revoking: BoolArray) -> BoolArray:
    """bool[n]: tombstones of members whose rebalance timeout ended just then."""
    found = np.zeros(log.count, bool)
    gone = np.flatnonzero((log.role == MEMBER) & log.tombstone)
    current = np.flatnonzero((log.role == CURRENT) & ~log.tombstone)
    values = np.flatnonzero((log.role == MEMBER) & ~log.tombstone)
    if not (len(gone) and len(current) and len(values)):
        return found
    last = last_of_member(log, current, gone)
    metadata = last_of_member(log, values, gone)
    timeouts = log.integer((kinds.MEMBER, kinds.STREAMS_MEMBER), "rebalance_timeout_ms")
    timeout = timeouts[values[metadata]]
    elapsed = (log.stamp[gone] - log.stamp[current[last]]) / 1000
    late = (last >= 0) & (metadata >= 0) & revoking[current[last]] & (timeout >= 0)
    late &= ~log.is_classic_member[values[metadata]]
    late &= (elapsed >= timeout - EARLY_MS) & (elapsed <= timeout + LATE_MS)
    found[gone] = late
    return found


def _likely(
    log: ControlLog,
    leaves: BoolArray,
    rebalance: Int64Array,
    count: int,
) -> pa.Array:
    """string[count]: ``expired`` where all members that are gone had left for a while with a static
    leave and did not come back in time; else null."""
    gone = np.flatnonzero(leaves)
    epochs = log.integer(kinds.CURRENTS, "member_epoch")
    current = np.flatnonzero((log.role == CURRENT) & ~log.tombstone)
    last = last_of_member(log, current, gone) if len(current) else np.full(len(gone), -1)
    away = np.zeros(len(gone), bool)
    away[last >= 0] = epochs[current[last[last >= 0]]] == AWAY_EPOCH
    all_away = np.zeros(count, bool)
    all_away[rebalance[gone[away]]] = True
    all_away[rebalance[gone[~away]]] = False
    return pa.array(["expired", None]).take(pa.array(np.where(all_away, 0, 1)))


def _topics_changed(log: ControlLog, epochs: Int64Array, rebalance: Int64Array) -> BoolArray:
    """bool[rebalances]: the metadata hash differs from the one before, or (4.0) the operation has a
    record of the topics' partitions. A share group's epoch also rises when new partitions are ready
    to be assigned, so there nothing else is left."""
    count = len(epochs)
    hashes = log.integer(kinds.GROUP_EPOCHS, "metadata_hash", 0)
    values = np.flatnonzero((log.role == EPOCH) & ~log.tombstone)
    before = values[np.maximum(np.searchsorted(values, epochs) - 1, 0)]
    has_before = (before < epochs) & (log.life[before] == log.life[epochs])
    changed = has_before & (hashes[epochs] != hashes[before])
    described = np.zeros(count, bool)
    described[rebalance[(log.role == METADATA) & ~log.tombstone & (rebalance >= 0)]] = True
    return np.asarray(changed | described | ((log.type[epochs] == SHARE) & has_before))


def _joins_at_zero(log: ControlLog, epochs: Int64Array, rebalance: Int64Array) -> BoolArray:
    """bool[rebalances]: a member's assignment in the operation says that it had none before."""
    previous = log.integer(kinds.CURRENTS, "previous_member_epoch")
    found = np.zeros(len(epochs), bool)
    found[rebalance[(log.role == CURRENT) & (previous == 0) & (rebalance >= 0)]] = True
    return found
