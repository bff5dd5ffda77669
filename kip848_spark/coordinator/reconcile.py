"""Reconciles a member with its target: the core of KIP-848 ("Rebalance Process").

docs/kafka-facts.md#reconciliation. A member first revokes partitions that its target lacks, then
moves to the target epoch, then receives its remaining partitions as their former owners release
them. Each heartbeat takes one step. A partition is never assigned while another member owns it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from kip848_spark.coordinator.consumer_group import NO_OWNER, Member, MemberState
from kip848_spark.coordinator.faults import GroupError
from kip848_spark.coordinator.javahash import HashTable, copied_size, int_order, uuid_order
from kip848_spark.coordinator.records import Partitions
from kip848_spark.coordinator.releases import Release

Owned = Mapping[str, set[int]] | None
"""The partitions that the member reports as owned; ``None`` if it did not report any."""


class Goal(NamedTuple):
    """What a member is reconciled with: its target, and what it may own."""

    epoch: int
    target: Mapping[str, Mapping[int, None]]
    subscribed: set[str] | None
    """Ids of the subscribed topics that exist; ``None`` in releases that do not check
    (until 4.1).
    """
    subscription_changed: bool
    owner_epoch: Callable[[str, int], int]
    release: Release


def reconcile(member: Member, goal: Goal, owned: Owned) -> Member:
    """The member after one step, or the same object if there is nothing to do. Raises
    FENCED_MEMBER_EPOCH.
    """
    drops_unsubscribed = goal.release.masks_lost_topics and goal.subscription_changed
    if member.is_reconciled(goal.epoch) and not drops_unsubscribed:
        return member
    if member.state is MemberState.STABLE:
        if member.epoch != goal.epoch:
            return _step(member, goal, owned, member.epoch)
        return _drop_unsubscribed(member, goal, owned) if drops_unsubscribed else member
    if member.state is MemberState.UNREVOKED_PARTITIONS:
        if _not_acknowledged(owned, member.pending):
            return _drop_unsubscribed(member, goal, owned) if drops_unsubscribed else member
        epoch = min(member.epoch + goal.release.epochs_after_revocation, goal.epoch)
        return _step(member, goal, owned, epoch)
    if member.state is MemberState.UNRELEASED_PARTITIONS:
        return _step(member, goal, owned, member.epoch)
    if owned is None or owned:
        raise GroupError(
            "FENCED_MEMBER_EPOCH", "the member's state is unknown: it must give up all partitions"
        )
    return _step(member, goal, owned, goal.epoch)


def _not_acknowledged(owned: Owned, revoked: Partitions) -> bool:
    """Whether the member did not report what it owns, or still owns a revoked partition."""
    if owned is None:
        return True
    return any(
        number in revoked[topic]
        for topic, numbers in owned.items()
        if topic in revoked
        for number in numbers
    )


def _step(member: Member, goal: Goal, owned: Owned, epoch: int) -> Member:
    """Revoke first; with nothing left to revoke, move to the target epoch and take the free
    partitions.
    """
    kept: Partitions = {}
    lost: Partitions = {}
    free: Partitions = {}
    waiting = False
    for topic in _topics(goal.target, member.assigned):
        target = goal.target.get(topic, {})
        if goal.subscribed is not None and topic not in goal.subscribed:
            target = {}
        assigned = member.assigned.get(topic, {})
        if assigned.keys() == target.keys():
            if assigned:
                kept[topic] = assigned
            continue
        keep = {number: at for number, at in assigned.items() if number in target}
        lose = {number: at for number, at in assigned.items() if number not in target}
        wanted = [n for n in int_order(target, copied_size(len(target))) if n not in assigned]
        gain = [number for number in wanted if _is_free(member, goal, topic, number)]
        waiting = waiting or len(gain) < len(wanted)
        if keep:
            kept[topic] = keep
        if lose:
            lost[topic] = _order_numbers(lose, assigned, goal)
        if gain:
            free[topic] = dict.fromkeys(gain, _assignment_epoch(goal))
    if lost and _not_acknowledged(owned, lost):
        return member.at_epoch(
            epoch,
            state=MemberState.UNREVOKED_PARTITIONS,
            assigned={
                t: _order_numbers(kept[t], member.assigned[t], goal) for t in uuid_order(kept)
            },
            pending={t: lost[t] for t in uuid_order(lost)},
        )
    after = {}
    for topic in _merge_topics(kept, free):
        before = member.assigned[topic] if topic in kept else {}
        after[topic] = _order_numbers(kept.get(topic, {}) | free.get(topic, {}), before, goal)
    state = MemberState.UNRELEASED_PARTITIONS if waiting else MemberState.STABLE
    return member.at_epoch(goal.epoch, state=state, assigned=after, pending={})


def _merge_topics(kept: Partitions, free: Partitions) -> Iterable[str]:
    """The topics of both, in the order in which a broker iterates them."""
    if not free or kept.keys() == free.keys():
        return uuid_order(kept)
    topics = HashTable(kept)
    for topic in uuid_order(free):
        topics.compute(topic)
    return topics


def _topics(target: Mapping[str, Mapping[int, None]], assigned: Partitions) -> Iterable[str]:
    """The topics of both, in the order in which a broker iterates them."""
    if assigned.keys() <= target.keys():
        return uuid_order(uuid_order(target), copied_size(len(target)))
    topics = HashTable(uuid_order(target), copied_size(len(target)))
    for topic in assigned:
        topics.put(topic)
    return topics


def _order_numbers(numbers: dict[int, int], table: Mapping[int, int], goal: Goal) -> dict[int, int]:
    """Partitions in the order of a broker's hash table that began as a copy of ``table``."""
    if len(numbers) < 2:
        return numbers
    start = 16
    if table:  # with epochs it is a map, whose copy can have fewer buckets than a set's copy
        start = copied_size(len(table), 1 if goal.release.partition_epochs else 16)
    return {number: numbers[number] for number in int_order(numbers, start)}


def _is_free(member: Member, goal: Goal, topic: str, number: int) -> bool:
    if goal.owner_epoch(topic, number) == NO_OWNER:
        return True
    return goal.release.free_includes_own_pending and number in member.pending.get(topic, ())


def _assignment_epoch(goal: Goal) -> int:
    return goal.epoch if goal.release.partition_epochs else 0


def _drop_unsubscribed(member: Member, goal: Goal, owned: Owned) -> Member:
    """Unsubscribed topics are dropped at once, before the next target is computed (from 4.2)."""
    if goal.subscribed is None:
        return member
    gone = {t: n for t, n in member.assigned.items() if t not in goal.subscribed}
    stepped = member.at_epoch(member.epoch) if goal.release.unsubscribing_steps else member
    if not gone:
        return member if goal.subscribed or member.pending else stepped
    rest = HashTable(member.assigned, copied_size(len(member.assigned), 1))
    assigned = {t: member.assigned[t] for t in rest if t not in gone}
    table = HashTable(member.pending, copied_size(len(member.pending), 1))
    for topic in gone:
        table.compute(topic)
    pending = {}
    for topic in table:
        held, new = member.pending.get(topic), gone.get(topic, {})
        pending[topic] = new if held is None else _order_numbers(held | new, held, goal)
    if _not_acknowledged(owned, pending):
        state = MemberState.UNREVOKED_PARTITIONS
        return stepped._replace(state=state, assigned=assigned, pending=pending)
    return stepped._replace(assigned=assigned)
