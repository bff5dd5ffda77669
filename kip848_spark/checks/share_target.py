"""Compares the target of a share group with the one that Kafka's assignor computes.

The assignor visits members in the order of a hash table, whose order within a bucket depends on
restarts of the broker, so every order within a bucket is tried. Where there are too many, the
target is judged by its properties. See docs/kafka-facts.md#share-assignor.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from kip848_spark.checks.targets import MOST_ORDERS, MemberShares, TargetVerdict, shares_of
from kip848_spark.coordinator.assignors.model import AssignmentSpec, MemberSpec
from kip848_spark.coordinator.assignors.share import ShareAssignor, assign_share, wanted_counts
from kip848_spark.coordinator.assignors.share_41 import assign_share_41
from kip848_spark.coordinator.faults import GroupError
from kip848_spark.coordinator.javahash import string_order, string_orders
from kip848_spark.coordinator.releases import Release
from kip848_spark.coordinator.share_group import ShareGroup

_MOST_TOPICS = 6
"""The most topics of which every subset is tried, because some may have been deleted."""
_MOST_PERMUTED = 4
"""The most topics of which every order is tried."""
_MOST_MIXED_41 = 12
"""4.1 visits more subscribers than this in an order that the reference does not reproduce."""

ShareTargets = Mapping[str, Mapping[str, Mapping[int, None]]]


class ShareTarget(NamedTuple):
    """A target that was completed, with what the assignor was given."""

    group: ShareGroup
    """The group with the new target."""
    before: ShareTargets
    """The target of each member before."""
    existing: Mapping[str, str] | None
    """Name -> id of the subscribed topics that exist; None if they are not known."""
    topics_changed: bool
    """Whether topics were changed since the last target, so that some may not exist any more."""
    releases: tuple[Release, ...]
    """Every release that may have computed it."""


def compare_share_target(target: ShareTarget) -> TargetVerdict:
    """The verdict on a completed target of a group of which everything is known."""
    group = target.group
    recorded = _without_empty(shares_of({m: group.target_of(m) for m in group.members}))
    assignors = {release.share_assignor for release in target.releases if release.share_groups}
    orders = string_orders(group.walk_members(), MOST_ORDERS)
    expected: MemberShares | None = None
    for topics, order in _arrangements(target, orders):
        spec, assignable = _specification(target, topics, order)
        for name in sorted(assignors):
            shares = _compute(_ASSIGNORS[name], spec, assignable)
            if shares is not None and shares == recorded:
                return TargetVerdict(None, exact=True)
            expected = expected or shares
    spec, assignable = _specification(target, _names(group), group.walk_members())
    inexact = "hash" in assignors and (not spec.homogeneous and len(spec.members) > _MOST_MIXED_41)
    if orders is None or inexact:
        fault = None if "hash" in assignors else _property_fault(spec, assignable, recorded)
        if fault is None or target.topics_changed:
            return TargetVerdict(None, exact=False)
    fault = _property_fault(spec, assignable, recorded)
    return TargetVerdict(
        fault or "is not that of Kafka's assignor of share groups",
        exact=True,
        expected=expected,
        by_order="hash" in assignors or _has_properties(target, recorded),
    )


def _has_properties(target: ShareTarget, recorded: MemberShares) -> bool:
    """Whether a target from 4.2 on has the properties that it has in any order of the names."""
    members = target.group.walk_members()
    specs = (_specification(target, topics, members) for topics in _topics(target))
    return any(_property_fault(*spec, recorded) is None for spec in specs)


_ASSIGNORS: dict[str, ShareAssignor] = {"hash": assign_share_41, "balanced": assign_share}


def _compute(
    assign: ShareAssignor, spec: AssignmentSpec, assignable: Mapping[str, Iterable[int]]
) -> MemberShares | None:
    try:
        return _without_empty(shares_of(assign(spec, assignable)))
    except GroupError:
        return None


def _without_empty(shares: MemberShares) -> MemberShares:
    return {member: share for member, share in shares.items() if share}


def _names(group: ShareGroup) -> dict[str, str]:
    """Topic name -> id of the topics that may be assigned."""
    return {topic.name: topic_id for topic_id, topic in group.share_state.initialized.items()}


def _arrangements(
    target: ShareTarget, orders: list[list[str]] | None
) -> Iterator[tuple[dict[str, str], list[str]]]:
    """The topics and orders of members and topics that the assignor may have been given, the
    likeliest first."""
    members = orders or [string_order(target.group.walk_members())]
    for topics in _topics(target):
        yield from ((topics, order) for order in members)
    for topics in _topics(target):
        if len(topics) <= _MOST_PERMUTED:
            for names in itertools.permutations(topics):
                yield from (({n: topics[n] for n in names}, order) for order in members)


def _topics(target: ShareTarget) -> Iterator[dict[str, str]]:
    """The subscribed topics that may have existed. If they are not known: all that may be assigned,
    or any subset if some may have been deleted, alone or with all others, whose ids do not
    matter."""
    wanted = string_order(sorted(target.group.name_counts))
    existing = target.existing
    if existing is not None:
        yield {name: existing[name] for name in wanted if name in existing}
        return
    by_name = _names(target.group)
    names = {name: by_name[name] for name in wanted if name in by_name}
    choices = [names]
    if target.topics_changed and len(names) <= _MOST_TOPICS:
        for left_out in range(1, len(names) + 1):
            for chosen in itertools.combinations(sorted(names), len(names) - left_out):
                choices.append({name: names[name] for name in chosen})
    yield from choices
    if others := {name: f"id of {name}" for name in wanted if name not in names}:
        yield from ({**chosen, **others} for chosen in choices)


def _specification(
    target: ShareTarget, names: Mapping[str, str], order: list[str]
) -> tuple[AssignmentSpec, dict[str, list[int]]]:
    group = target.group
    members = []
    for member_id in order:
        wanted = group.members[member_id].topic_names
        ids = {topic_id: None for name, topic_id in names.items() if name in wanted}
        old = {t: dict(numbers) for t, numbers in target.before.get(member_id, {}).items()}
        members.append(MemberSpec(member_id, None, ids, old))
    initialized = group.share_state.initialized
    assignable = {
        topic: sorted(initialized[topic].partitions)
        for topic in names.values()
        if topic in initialized
    }
    return AssignmentSpec(tuple(members), {}, group.homogeneous()), assignable


def _property_fault(
    spec: AssignmentSpec, assignable: Mapping[str, list[int]], shares: MemberShares
) -> str | None:
    """The first property of a target from 4.2 on that does not hold; None if all hold."""
    held: dict[tuple[str, int], int] = {}
    for member in spec.members:
        for topic, numbers in shares.get(member.member_id, {}).items():
            old = member.target.get(topic, {})
            for number in numbers:
                if topic in assignable and number not in assignable[topic] and number not in old:
                    return f"contains {topic}-{number}, whose share state is not initialized"
                held[topic, number] = held.get((topic, number), 0) + 1
    if not spec.homogeneous or not spec.members:
        return None
    free = [(t, n) for t in spec.members[0].topics for n in assignable.get(t, ())]
    sharing, wanted = wanted_counts(len(spec.members), len(free))
    for topic, number in free:
        if not held.get((topic, number)):
            return f"leaves out {topic}-{number}"
        if held[topic, number] > sharing:
            return f"gives {topic}-{number} to {held[topic, number]} members"
    sizes = {m.member_id: sum(map(len, shares.get(m.member_id, {}).values())) for m in spec.members}
    if max(sizes.values()) > max(wanted, default=0):
        return "is not even"
    return None
