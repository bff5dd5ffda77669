"""The ``range`` assignor: consecutive partitions of each topic, co-partitioned over topics.

KIP-848 "Server Side Mode"; docs/kafka-facts.md#range. It is not sticky: members are always sorted
the same way (static members first, by instance id, then the others by member id), so the same
subscriptions give the same target.
"""

from __future__ import annotations

from collections.abc import Mapping

from kip848_spark.coordinator.assignors.model import AssignmentSpec, GroupAssignment, MemberSpec
from kip848_spark.coordinator.javahash import copied_size, uuid_order


def _sort_key(member: MemberSpec) -> tuple[int, bytes]:
    if member.instance_id is not None:
        return 0, member.instance_id.encode("utf-16-be", "surrogatepass")
    return 1, member.member_id.encode("utf-16-be", "surrogatepass")


def assign_range(spec: AssignmentSpec) -> GroupAssignment:
    """Each topic's subscribers get its partitions in ranges; the first ones get one more.

    In a homogeneous group, the first member's subscription counts for all members, even for one
    that (if the group's type is outdated) subscribes to nothing.
    """
    ranges: GroupAssignment = {member.member_id: {} for member in spec.members}
    in_order = sorted(spec.members, key=_sort_key)
    for topic, count in spec.partitions.items():
        if spec.homogeneous:
            subscribers = in_order if topic in in_order[0].topics else []
        else:
            subscribers = [member for member in in_order if topic in member.topics]
        if not subscribers:
            continue
        least, extra = divmod(count, len(subscribers))
        start = 0
        for index, member in enumerate(subscribers):
            size = least + (index < extra)
            if size:
                ranges[member.member_id][topic] = list(range(start, start + size))
            start += size
    return {
        member.member_id: _order_topics(
            ranges[member.member_id], (in_order[0] if spec.homogeneous else member).topics
        )
        for member in spec.members
    }


def _order_topics(
    assigned: dict[str, list[int]], topics: Mapping[str, None]
) -> dict[str, list[int]]:
    """A member's topics in the order of its hash table, which was created for all topics and filled
    in turn.
    """
    order = uuid_order([t for t in topics if t in assigned], copied_size(len(topics), 1))
    return {topic: assigned[topic] for topic in order}
