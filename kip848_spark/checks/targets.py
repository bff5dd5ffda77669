"""Whether a target is what the assignor makes of the group (facts D).

Where the order of a broker's tables follows from the records, the reference's assignors must give
the very same target. Where it does not (members in one bucket, which after a restart of the broker
come in an order that no record tells), the properties that every such target has must hold.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import NamedTuple

from kip848_spark.checks.topics import Proven
from kip848_spark.coordinator.assignors import ASSIGNORS, AssignmentSpec, MemberSpec
from kip848_spark.coordinator.consumer_group import ConsumerGroup
from kip848_spark.coordinator.javahash import grown_size, string_hash, string_order, uuid_order
from kip848_spark.coordinator.shard import Shard
from kip848_spark.coordinator.target import GroupSnapshot, specification

_MOST_ORDERS = 48
_PLAIN_COUNT = 12
"""Up to so many small numbers, a table lists them in their order, however it came about."""

Shares = dict[str, dict[str, set[int]]]
"""Member -> topic id -> partitions."""


class Verdict(NamedTuple):
    """``fault`` is None if the target is right; ``exact`` if it had to be this very one."""

    fault: str | None
    exact: bool
    expected: Shares | None = None


def shares_of(targets: Mapping[str, Mapping[str, Iterable[int]]]) -> Shares:
    """Targets without topics of no partitions."""
    return {
        member: {topic: set(numbers) for topic, numbers in target.items() if numbers}
        for member, target in targets.items()
    }


def overlap(shares: Shares) -> tuple[str, int] | None:
    """A partition that two members shall have."""
    seen: dict[str, set[int]] = {}
    for share in shares.values():
        for topic, numbers in share.items():
            before = seen.setdefault(topic, set())
            if not before.isdisjoint(numbers):
                return topic, next(number for number in numbers if number in before)
            before |= numbers
    return None


def assignors(group: ConsumerGroup) -> list[str]:
    """The assignors that may have been asked: those with most votes, or a broker's defaults."""
    votes = Counter(m.server_assignor for m in group.members.values() if m.server_assignor)
    if not votes:
        return list(ASSIGNORS)
    most = max(votes.values())
    return sorted(name for name, count in votes.items() if count == most)


def judge(
    shard: Shard,
    group: ConsumerGroup,
    recorded: Shares,
    before: GroupSnapshot,
    old: dict[str, dict[str, dict[int, None]]],
    topics: Proven,
    names: list[str],
) -> Verdict:
    """The group's target now, ``recorded`` for each member, against ``old`` and the members and
    topics it was made from."""
    specs = list(_specifications(shard, group, before, old, topics))
    expected: Shares | None = None
    for spec in specs:
        for name in names:
            shares = _assigned(name, spec)
            if shares == recorded:
                return Verdict(None, exact=True)
            expected = expected or shares
    spec = specs[0]
    broken = _broken(spec, recorded) if "uniform" in names else "is not the range assignor's"
    if broken is None:
        orders = _orders(spec)
        if orders is None:
            return Verdict(None, exact=False)
        for members, uniform in itertools.product(orders, specs):
            order = tuple(sorted(uniform.members, key=lambda m: members.index(m.member_id)))
            if _assigned("uniform", replace(uniform, members=order)) == recorded:
                return Verdict(None, exact=True)
    return Verdict(broken or "is not the uniform assignor's", exact=True, expected=expected)


def _assigned(name: str, spec: AssignmentSpec) -> Shares:
    return shares_of(ASSIGNORS[name](spec))


def _specifications(
    shard: Shard,
    group: ConsumerGroup,
    before: GroupSnapshot,
    old: dict[str, dict[str, dict[int, None]]],
    topics: Proven,
) -> Iterator[AssignmentSpec]:
    """The group as the assignor may have seen it: by its subscriptions now, or as they were."""
    for name in shard.topics.names():
        if topics.get(name) != shard.topics.named(name):
            shard.topics.delete(name)
    for topic in topics.values():
        if shard.topics.named(topic.name) != topic:
            shard.topics.put(topic)
    known = [member for member in before.member_order if member in group.members]
    there = set(known)
    order = string_order([*known, *(m for m in group.members if m not in there)])
    new, group.targets = group.targets, old
    try:
        for homogeneous in dict.fromkeys((group.homogeneous(), before.homogeneous)):
            yield specification(shard, group, order, homogeneous)
    finally:
        group.targets = new


def _orders(spec: AssignmentSpec) -> list[list[str]] | None:
    """Every order the members may be visited in, whatever the history of the broker's tables; None
    if there are too many, or if topics or partitions may come in more than one order."""
    members = [member.member_id for member in spec.members]
    topics = list(spec.partitions)
    if uuid_order(topics) != uuid_order(topics[::-1]):
        return None
    if any(count > _PLAIN_COUNT for count in spec.partitions.values()):
        return None
    buckets: dict[int, list[str]] = {}
    mask = grown_size(16, len(members)) - 1
    for member in string_order(members):
        code = string_hash(member) & 0xFFFFFFFF
        buckets.setdefault((code ^ (code >> 16)) & mask, []).append(member)
    if math.prod(math.factorial(len(tied)) for tied in buckets.values()) > _MOST_ORDERS:
        return None
    choices = itertools.product(*(itertools.permutations(tied) for tied in buckets.values()))
    return [[member for tied in chosen for member in tied] for chosen in choices]


def _broken(spec: AssignmentSpec, shares: Shares) -> str | None:
    """The first property of a uniform target that does not hold."""
    for member in spec.members:
        for topic, numbers in shares[member.member_id].items():
            if topic not in member.topics:
                return f"gives {member.member_id} topic {topic}, which it does not ask for"
            if max(numbers) >= spec.partitions[topic]:
                return f"gives out {topic}-{max(numbers)}, which does not exist"
    for topic, count in spec.partitions.items():
        given = set().union(*(share.get(topic, ()) for share in shares.values()))
        if len(given) < count:
            return f"leaves out {topic}-{min(set(range(count)) - given)}"
    if spec.homogeneous and spec.members:
        return _uneven(spec, shares)
    return _unlevel(spec, shares)


def _uneven(spec: AssignmentSpec, shares: Shares) -> str | None:
    sizes = {member: sum(map(len, share.values())) for member, share in shares.items()}
    quota, extras = divmod(sum(spec.partitions.values()), len(spec.members))
    if sorted(sizes.values(), reverse=True) != [quota + 1] * extras + [quota] * (
        len(sizes) - extras
    ):
        return "is not even"
    old = [_olds(member) for member in spec.members]
    kept = sum(
        len(olds & {(t, n) for t, ns in shares[member.member_id].items() for n in ns})
        for member, olds in zip(spec.members, old, strict=True)
    )
    rich = sum(len(olds) > quota for olds in old)
    if kept != sum(min(len(olds), quota) for olds in old) + min(extras, rich):
        return "moves more partitions than it needs to"
    return None


def _olds(member: MemberSpec) -> set[tuple[str, int]]:
    return {(t, n) for t, ns in member.target.items() if t in member.topics for n in ns}


def _unlevel(spec: AssignmentSpec, shares: Shares) -> str | None:
    loads = {member: sum(map(len, share.values())) for member, share in shares.items()}
    for topic in spec.partitions:
        askers = [member.member_id for member in spec.members if topic in member.topics]
        owners = [member for member in askers if shares[member].get(topic)]
        for owner, asker in itertools.product(owners, [min(askers, key=loads.__getitem__)]):
            if loads[owner] - loads[asker] > 1:
                return f"gives {owner} {loads[owner]} partitions and {asker} {loads[asker]}"
    return None
