"""The ``uniform`` assignor: as even as can be, keeping what members have (KIP-848 "Server Side
Mode"; facts D).

If all members ask for the same topics, everyone's share is known in advance: each partition
count is the quota or one more. Otherwise :mod:`.balance` levels loads topic by topic.
"""

from __future__ import annotations

from kip848_spark.coordinator.assignors.balance import assign_heterogeneous
from kip848_spark.coordinator.assignors.model import (
    AssignmentSpec,
    GroupAssignment,
    Share,
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
    """Equal subscriptions: a quota each, ``extras`` members one more, old partitions kept."""
    topics = uuid_order(spec.members[0].topics, copied_size(len(spec.members[0].topics)))
    shares = {member.member_id: Share(member) for member in spec.members}
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

    # Keep: visit each member once; what exceeds its quota becomes free, after the rest.
    missing: list[tuple[str, int]] = []
    wanted = set(topics)
    for index, member in enumerate(spec.members):
        to_come = len(spec.members) - index
        room = quota + (extras > 0)
        has_extra = extras > 0
        for topic in uuid_order(member.target):
            if topic not in wanted:
                continue
            listed = int_order(member.target[topic], copied_size(len(member.target[topic])))
            kept, excess = listed[:room], listed[room:]
            if kept:
                shares[member.member_id].keep(topic, kept)
            room -= len(kept)
            free += [(topic, number) for number in excess]
        if room and has_extra and to_come > extras:
            room -= 1  # enough members follow who may fill the extra place with what they have
            has_extra = False
        if has_extra:
            extras -= 1
        if room:
            missing.append((member.member_id, room))

    # Fill: hand the free partitions to those who are short, in the order of the visits.
    start = 0
    for member_id, room in missing:
        for topic, number in free[start : start + room]:
            shares[member_id].add(topic, number, fresh=16)
        start += room
    return {member_id: share.listed() for member_id, share in shares.items()}
