"""Bringing a member to its target: the heart of KIP-848 ("Rebalance Process", facts B).

A member first gives up what it must no longer have, then moves to the target's epoch, then gets
what it shall have as its former owners let go. One step is taken for each heartbeat; no
partition is granted while anyone owns it.
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
"""What the member says it owns; ``None`` if it did not say."""


class Goal(NamedTuple):
    """Where a member is to go, and what it may have there."""

    epoch: int
    target: Mapping[str, Mapping[int, None]]
    subscribed: set[str] | None
    """Ids of the member's existing topics; ``None`` where a release does not look (to 4.1)."""
    subscription_changed: bool
    owner_epoch: Callable[[str, int], int]
    release: Release


def reconcile(member: Member, goal: Goal, owned: Owned) -> Member:
    """The member after one step, or the same object if there is nothing to do."""
    masks = goal.release.masks_lost_topics and goal.subscription_changed
    if member.reconciled_to(goal.epoch) and not masks:
        return member
    if member.state is MemberState.STABLE:
        if member.epoch != goal.epoch:
            return _step(member, goal, owned, member.epoch)
        return _drop_unsubscribed(member, goal, owned) if masks else member
    if member.state is MemberState.UNREVOKED_PARTITIONS:
        if _still_owns(owned, member.pending):
            return _drop_unsubscribed(member, goal, owned) if masks else member
        epoch = min(member.epoch + goal.release.epochs_after_revocation, goal.epoch)
        return _step(member, goal, owned, epoch)
    if member.state is MemberState.UNRELEASED_PARTITIONS:
        return _step(member, goal, owned, member.epoch)
    if owned is None or owned:
        raise GroupError(
            "FENCED_MEMBER_EPOCH", "the member's state is unknown: it must give up everything"
        )
    return _step(member, goal, owned, goal.epoch)


def _still_owns(owned: Owned, revoked: Partitions) -> bool:
    """Not acknowledged: the member did not say what it owns, or named a revoked partition."""
    if owned is None:
        return True
    return any(
        number in revoked[topic]
        for topic, numbers in owned.items()
        if topic in revoked
        for number in numbers
    )


def _step(member: Member, goal: Goal, owned: Owned, epoch: int) -> Member:
    """Revoke first; with nothing left to revoke, move to the target and take what is free."""
    kept: Partitions = {}
    lost: Partitions = {}
    free: Partitions = {}
    waits = False
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
        waits = waits or len(gain) < len(wanted)
        if keep:
            kept[topic] = keep
        if lose:
            lost[topic] = _listed(lose, assigned, goal)
        if gain:
            free[topic] = dict.fromkeys(gain, _gained_at(goal))
    if lost and _still_owns(owned, lost):
        return member.moved_to(
            epoch,
            state=MemberState.UNREVOKED_PARTITIONS,
            assigned={t: _listed(kept[t], member.assigned[t], goal) for t in uuid_order(kept)},
            pending={t: lost[t] for t in uuid_order(lost)},
        )
    after = {}
    for topic in _kept_and_free(kept, free):
        before = member.assigned[topic] if topic in kept else {}
        after[topic] = _listed(kept.get(topic, {}) | free.get(topic, {}), before, goal)
    state = MemberState.UNRELEASED_PARTITIONS if waits else MemberState.STABLE
    return member.moved_to(goal.epoch, state=state, assigned=after, pending={})


def _kept_and_free(kept: Partitions, free: Partitions) -> Iterable[str]:
    """Every topic of both, in the order a broker walks them."""
    if not free or kept.keys() == free.keys():
        return uuid_order(kept)
    topics = HashTable(kept)
    for topic in uuid_order(free):
        topics.compute(topic)
    return topics


def _topics(target: Mapping[str, Mapping[int, None]], assigned: Partitions) -> Iterable[str]:
    """Every topic of both, in the order a broker walks them."""
    if assigned.keys() <= target.keys():
        return uuid_order(uuid_order(target), copied_size(len(target)))
    topics = HashTable(uuid_order(target), copied_size(len(target)))
    for topic in assigned:
        topics.put(topic)
    return topics


def _listed(numbers: dict[int, int], table: Mapping[int, int], goal: Goal) -> dict[int, int]:
    """Partitions in the order of a broker's table, which began as a copy of ``table``."""
    if len(numbers) < 2:
        return numbers
    start = 16
    if table:  # with epochs it is a map, whose copy may have fewer buckets than a set's
        start = copied_size(len(table), 1 if goal.release.partition_epochs else 16)
    return {number: numbers[number] for number in int_order(numbers, start)}


def _is_free(member: Member, goal: Goal, topic: str, number: int) -> bool:
    if goal.owner_epoch(topic, number) == NO_OWNER:
        return True
    return goal.release.free_includes_own_pending and number in member.pending.get(topic, ())


def _gained_at(goal: Goal) -> int:
    return goal.epoch if goal.release.partition_epochs else 0


def _drop_unsubscribed(member: Member, goal: Goal, owned: Owned) -> Member:
    """Topics no longer asked for go at once, before a new target is there (4.2)."""
    if goal.subscribed is None:
        return member
    gone = {t: n for t, n in member.assigned.items() if t not in goal.subscribed}
    stepped = member.moved_to(member.epoch) if goal.release.unsubscribing_steps else member
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
        pending[topic] = new if held is None else _listed(held | new, held, goal)
    if _still_owns(owned, pending):
        state = MemberState.UNREVOKED_PARTITIONS
        return stepped._replace(state=state, assigned=assigned, pending=pending)
    return stepped._replace(assigned=assigned)
