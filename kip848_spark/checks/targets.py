"""Compares a target with the one that the assignor computes (docs/kafka-facts.md#assignors).

A target depends on the order in which the broker iterates over its hash tables. Where the records
determine that order, the reference's assignors must give the same target. Where they do not (member
ids in one bucket, whose order changes when the broker restarts), the properties that every target
of the assignor has must hold.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from kip848_spark.checks.topics import Proven
from kip848_spark.coordinator.assignors import ASSIGNORS, AssignmentSpec, Assignor, MemberSpec
from kip848_spark.coordinator.consumer_group import ConsumerGroup
from kip848_spark.coordinator.javahash import string_order, string_orders, uuid_order
from kip848_spark.coordinator.shard import Shard
from kip848_spark.coordinator.target import GroupSnapshot, specification

MOST_ORDERS = 48
"""The most orders of members that are tried."""
_MOST_SORTED = 12
"""A hash table of up to this many small integers iterates over them in ascending order, whatever
its history."""

MemberShares = dict[str, dict[str, set[int]]]
"""Member -> topic id -> partitions."""


class TargetVerdict(NamedTuple):
    """``fault`` is None if the target is right. ``exact``: it was compared for equality, not just
    by its properties. ``expected``: a right target. ``gives_back``: the only rule of the uniform
    assignor by which it is right; None if there may be more (`Release.uniform_gives_back`).
    ``by_order``: of a fault, that other names might explain it, since they have another order in
    hash tables."""

    fault: str | None
    exact: bool
    expected: MemberShares | None = None
    gives_back: bool | None = None
    by_order: bool = False


def shares_of(targets: Mapping[str, Mapping[str, Iterable[int]]]) -> MemberShares:
    """Targets as sets, without topics that have no partitions."""
    return {
        member: {topic: set(numbers) for topic, numbers in target.items() if numbers}
        for member, target in targets.items()
    }


def overlap(shares: MemberShares) -> tuple[str, int] | None:
    """A partition that is in the targets of two members; None if there is none."""
    seen: dict[str, set[int]] = {}
    for share in shares.values():
        for topic, numbers in share.items():
            before = seen.setdefault(topic, set())
            if not before.isdisjoint(numbers):
                return topic, next(number for number in numbers if number in before)
            before |= numbers
    return None


def holders(shares: MemberShares, topic: str, number: int) -> list[str]:
    """The members whose targets have this partition."""
    return [member for member, share in shares.items() if number in share.get(topic, ())]


def nonexistent(shares: MemberShares, topics: Proven) -> tuple[str, int] | None:
    """A partition in a target that no assignor can know of: its topic has fewer partitions, or the
    group does not subscribe to the topic. None if there is none."""
    counts = {topic.topic_id: topic.partitions for topic in topics.values()}
    for share in shares.values():
        for topic, numbers in share.items():
            if max(numbers) >= counts.get(topic, 0):
                return topic, max(numbers)
    return None


def with_given_partitions(shares: MemberShares, topics: Proven) -> Proven:
    """The topics, as if the partitions after the last one in a target did not exist. A topic
    without partitions in the targets stays as it is."""
    given: dict[str, int] = {}
    for share in shares.values():
        for topic, numbers in share.items():
            given[topic] = max(given.get(topic, 0), max(numbers) + 1)
    return {
        name: replace(topic, partitions=count, racks=topic.racks[:count])
        if (count := given.get(topic.topic_id, topic.partitions)) < topic.partitions
        else topic
        for name, topic in topics.items()
    }


def has_votes(group: ConsumerGroup) -> bool:
    """Whether any member asks for an assignor."""
    return any(member.server_assignor for member in group.members.values())


def assignors(group: ConsumerGroup, default: str | None = None) -> list[str]:
    """The assignors that the broker may have used: those with the most votes. If no member votes,
    the broker's configuration decides: its ``default``, or all of Kafka's if that is None."""
    votes = Counter(m.server_assignor for m in group.members.values() if m.server_assignor)
    if not votes:
        return list(ASSIGNORS) if default is None else [default]
    most = max(votes.values())
    return sorted(name for name, count in votes.items() if count == most)


class Given(NamedTuple):
    """What the assignor was given, beside the group's members."""

    before: GroupSnapshot
    """The group before the operation."""
    old: dict[str, dict[str, dict[int, None]]]
    """Its target before the operation."""
    topics: Proven
    """The topics that it subscribes to."""


def compare(
    shard: Shard,
    group: ConsumerGroup,
    recorded: MemberShares,
    given: Given,
    possible: Mapping[str, Assignor],
    rules: tuple[bool, ...] = (True,),
) -> TargetVerdict:
    """Compares the ``recorded`` target with the one that each of the ``possible`` assignors
    computes. ``rules``: those of the uniform assignor that are possible
    (`Release.uniform_gives_back`).
    """
    inputs = list(_specifications(shard, group, given))
    specs = [replace(spec, gives_back=rule) for rule in rules for spec in inputs]
    expected: MemberShares | None = None
    matched: set[bool | None] = set()
    for spec in specs:
        for name, assignor in possible.items():
            shares = shares_of(assignor(spec))
            if shares == recorded:
                if len(rules) == 1:
                    return TargetVerdict(None, exact=True)
                matched.add(spec.gives_back if name == "uniform" else None)
            expected = expected or shares
    if matched:
        return TargetVerdict(None, exact=True, gives_back=_only_rule(matched, specs, recorded))
    custom = {name: one for name, one in possible.items() if name not in ASSIGNORS}
    if custom and _matches_in_any_order(custom, inputs, recorded):
        return TargetVerdict(None, exact=True)
    fault: str | None = f"is not the {next(iter(custom), 'range')} assignor's"
    if "uniform" in possible:
        faults = [_property_fault(replace(inputs[0], gives_back=rule), recorded) for rule in rules]
        fault = next((one for one in faults if one is None), faults[0])
    if fault is None:
        in_any_order = _matched_rules(specs, recorded)
        if in_any_order is None:
            return TargetVerdict(None, exact=False)
        if in_any_order:
            (only,) = in_any_order if len(in_any_order) == 1 < len(rules) else (None,)
            return TargetVerdict(None, exact=True, gives_back=only)
    fault = fault or "is not the uniform assignor's"
    by_order = _has_properties(possible, specs, recorded)
    return TargetVerdict(fault, exact=True, expected=expected, by_order=by_order)


def _has_properties(
    possible: Iterable[str], specs: Sequence[AssignmentSpec], recorded: MemberShares
) -> bool:
    """Whether the target has the properties that one of the ``possible`` assignors gives it in any
    order of the names. Those of a custom assignor are not known. If the group counts as homogeneous
    and is not, all members get what the first one subscribes to, in whichever order."""
    faults = {"uniform": _property_fault, "range": _range_fault}
    if any(spec.homogeneous and _subscribe_apart(spec) for spec in specs):
        return True
    return any(
        name not in faults or faults[name](spec, recorded) is None
        for name, spec in itertools.product(possible, specs)
    )


def _subscribe_apart(spec: AssignmentSpec) -> bool:
    """Whether members subscribe to different topics."""
    return len({frozenset(member.topics) for member in spec.members}) > 1


def _matched_rules(
    specs: Sequence[AssignmentSpec], recorded: MemberShares
) -> set[bool | None] | None:
    """The rules of the uniform assignor that give the target in some order of the members; None if
    there are too many orders."""
    orders = _orders(specs[0])
    if orders is None:
        return None
    matched: set[bool | None] = set()
    for members, spec in itertools.product(orders, specs):
        if spec.gives_back in matched:
            continue
        if shares_of(ASSIGNORS["uniform"](_reordered(spec, members))) == recorded:
            matched.add(spec.gives_back)
    return matched


def _matches_in_any_order(
    custom: Mapping[str, Assignor], specs: Sequence[AssignmentSpec], recorded: MemberShares
) -> bool:
    """Whether a custom assignor computes the target, given the members in some order that the
    broker's hash table may have had."""
    orders = _member_orders(specs[0]) or ()
    return any(
        shares_of(assignor(_reordered(spec, members))) == recorded
        for members, spec, assignor in itertools.product(orders, specs, custom.values())
    )


def _reordered(spec: AssignmentSpec, members: list[str]) -> AssignmentSpec:
    return replace(
        spec, members=tuple(sorted(spec.members, key=lambda m: members.index(m.member_id)))
    )


def _only_rule(
    matched: set[bool | None], specs: Sequence[AssignmentSpec], recorded: MemberShares
) -> bool | None:
    """The rule by which alone the target is right, in whichever order the members are visited."""
    if len(matched) > 1 or None in matched:
        return None
    everywhere = _matched_rules(specs, recorded)
    if everywhere is None or len(everywhere) > 1:
        return None
    (only,) = matched
    return only


def _specifications(shard: Shard, group: ConsumerGroup, given: Given) -> Iterator[AssignmentSpec]:
    """The inputs that the assignor may have been given: the members' subscriptions are the current
    ones, but whether they count as equal may be as before the operation."""
    before, old, topics = given
    for name in shard.topics.names():
        if topics.get(name) != shard.topics.named(name):
            shard.topics.delete(name)
    for topic in topics.values():
        if shard.topics.named(topic.name) != topic:
            shard.topics.put(topic)
    remaining = [member for member in before.member_order if member in group.members]
    old_members = set(remaining)
    order = string_order([*remaining, *(m for m in group.members if m not in old_members)])
    new, group.targets = group.targets, old
    try:
        for homogeneous in dict.fromkeys((group.homogeneous(), before.homogeneous)):
            yield specification(shard, group, order, homogeneous)
    finally:
        group.targets = new


def _orders(spec: AssignmentSpec) -> list[list[str]] | None:
    """Every order in which the broker may iterate over the members, whatever its hash tables'
    history. None if there are too many, or if topics or partitions may have more than one order."""
    topics = list(spec.partitions)
    if uuid_order(topics) != uuid_order(topics[::-1]):
        return None
    if any(count > _MOST_SORTED for count in spec.partitions.values()):
        return None
    return _member_orders(spec)


def _member_orders(spec: AssignmentSpec) -> list[list[str]] | None:
    """Every order of the members alone; None if there are too many."""
    return string_orders((member.member_id for member in spec.members), MOST_ORDERS)


def _property_fault(spec: AssignmentSpec, shares: MemberShares) -> str | None:
    """The first property of a uniform target that does not hold; None if all hold."""
    if (fault := _content_fault(spec, shares)) is not None:
        return fault
    if spec.homogeneous and spec.members:
        return _homogeneous_fault(spec, shares)
    return _heterogeneous_fault(spec, shares)


def _content_fault(spec: AssignmentSpec, shares: MemberShares) -> str | None:
    """A partition that the target lacks or should not have; None if there is none."""
    for member in spec.members:
        for topic, numbers in shares[member.member_id].items():
            if topic not in member.topics:
                return f"gives {member.member_id} topic {topic}, to which it does not subscribe"
            if max(numbers) >= spec.partitions[topic]:
                return f"contains {topic}-{max(numbers)}, which does not exist"
    for topic, count in spec.partitions.items():
        assigned = set().union(*(share.get(topic, ()) for share in shares.values()))
        if len(assigned) < count:
            return f"leaves out {topic}-{min(set(range(count)) - assigned)}"
    return None


def _homogeneous_fault(spec: AssignmentSpec, shares: MemberShares) -> str | None:
    """All members subscribe to the same topics: a target is even, and moves as little as it can."""
    sizes = {member: sum(map(len, share.values())) for member, share in shares.items()}
    quota, extras = divmod(sum(spec.partitions.values()), len(spec.members))
    if sorted(sizes.values(), reverse=True) != [quota + 1] * extras + [quota] * (
        len(sizes) - extras
    ):
        return "is not even"
    old = [_old_target(member) for member in spec.members]
    kept = sum(
        len(olds & {(t, n) for t, ns in shares[member.member_id].items() for n in ns})
        for member, olds in zip(spec.members, old, strict=True)
    )
    rich = sum(len(olds) > quota for olds in old)
    if not spec.gives_back:  # 4.0.0 moves partitions to the first members that it visits
        return None
    if kept != sum(min(len(olds), quota) for olds in old) + min(extras, rich):
        return "moves more partitions than it needs to"
    return None


def _range_fault(spec: AssignmentSpec, shares: MemberShares) -> str | None:
    """The first property of a range target that does not hold; None if all hold. Which subscribers
    of a topic get one partition more depends on their order."""
    if (fault := _content_fault(spec, shares)) is not None:
        return fault
    for topic, count in spec.partitions.items():
        subscribers = [member.member_id for member in spec.members if topic in member.topics]
        if not subscribers:
            continue
        sizes = sorted(len(shares[member].get(topic, ())) for member in subscribers)
        least, extra = divmod(count, len(subscribers))
        if sizes != [least] * (len(subscribers) - extra) + [least + 1] * extra:
            return f"does not spread {topic} evenly"
    return None


def _old_target(member: MemberSpec) -> set[tuple[str, int]]:
    return {(t, n) for t, ns in member.target.items() if t in member.topics for n in ns}


def _heterogeneous_fault(spec: AssignmentSpec, shares: MemberShares) -> str | None:
    """Members subscribe to different topics: no partition can be moved to a member that has two
    fewer."""
    loads = {member: sum(map(len, share.values())) for member, share in shares.items()}
    for topic in spec.partitions:
        subscribers = [member.member_id for member in spec.members if topic in member.topics]
        owners = [member for member in subscribers if shares[member].get(topic)]
        for owner, subscriber in itertools.product(
            owners, [min(subscribers, key=loads.__getitem__)]
        ):
            if loads[owner] - loads[subscriber] > 1:
                return (
                    f"gives {owner} {loads[owner]} partitions and {subscriber} {loads[subscriber]}"
                )
    return None
