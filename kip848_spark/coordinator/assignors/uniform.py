"""The ``uniform`` assignor: as even as possible, and sticky (KIP-848 "Server Side Mode").

docs/kafka-facts.md#uniform-homogeneous. If all members subscribe to the same topics, every member's
number of partitions is known in advance: the quota, or one more. Otherwise :mod:`.balance` balances
the loads topic by topic.
"""

from __future__ import annotations

from kip848_spark.coordinator.assignors.balance import assign_heterogeneous
from kip848_spark.coordinator.assignors.model import (
    AssignmentSpec,
    GroupAssignment,
    TargetBuilder,
)
from kip848_spark.coordinator.javahash import copied_size, int_order, uuid_order


def assign_uniform(spec: AssignmentSpec) -> GroupAssignment:
    """The uniform target of a group."""
    if not spec.members:
        return {}
    if spec.homogeneous:
        return assign_homogeneous(spec)
    return assign_heterogeneous(spec)


def assign_homogeneous(spec: AssignmentSpec) -> GroupAssignment:
    """Equal subscriptions: each member gets the quota, ``extras`` members one more; owned
    partitions stay.
    """
    topics = uuid_order(spec.members[0].topics, copied_size(len(spec.members[0].topics)))
    builders = {member.member_id: TargetBuilder(member) for member in spec.members}
    if not topics:
        return {member.member_id: {} for member in spec.members}
    taken: dict[str, set[int]] = {}
    for member in spec.members:
        for topic, numbers in member.target.items():
            taken.setdefault(topic, set()).update(numbers)
    free = [
        (topic, number)
        for topic in topics
        for number in sorted(set(range(spec.partitions[topic])) - taken.get(topic, set()))
    ]
    quota, extras = divmod(sum(spec.partitions[t] for t in topics), len(spec.members))

    # Keep: visit each member once; partitions above its quota are appended to the free ones.
    missing: list[tuple[str, int]] = []
    wanted = set(topics)
    for index, member in enumerate(spec.members):
        to_come = len(spec.members) - index
        remaining = quota + (extras > 0)
        has_extra = extras > 0
        for topic in uuid_order(member.target):
            if topic not in wanted:
                continue
            listed = int_order(member.target[topic], copied_size(len(member.target[topic])))
            kept, excess = listed[:remaining], listed[remaining:]
            if kept:
                builders[member.member_id].keep(topic, kept)
            remaining -= len(kept)
            free += [(topic, number) for number in excess]
        if remaining and has_extra and to_come > extras and spec.gives_back:
            remaining -= 1  # enough later members can fill the extra slot with partitions they own
            has_extra = False
        if has_extra:
            extras -= 1
        if remaining:
            missing.append((member.member_id, remaining))

    # Fill: give the free partitions to members below their quota, in the order of the visits.
    start = 0
    for member_id, remaining in missing:
        for topic, number in free[start : start + remaining]:
            builders[member_id].add(topic, number, fresh=16)
        start += remaining
    return {member_id: builder.ordered() for member_id, builder in builders.items()}
