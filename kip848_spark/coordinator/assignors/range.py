"""The ``range`` assignor: consecutive partitions of each topic, co-partitioned over topics.

KIP-848 "Server Side Mode". Not sticky: members sort the same way each time (static ones first,
by instance id, then the others by member id), so the same subscriptions give the same target
(facts D).
"""

from __future__ import annotations

from collections.abc import Mapping

from kip848_spark.coordinator.assignors.model import AssignmentSpec, GroupAssignment, MemberSpec
from kip848_spark.coordinator.javahash import copied_size, uuid_order


def _place(member: MemberSpec) -> tuple[int, bytes]:
    if member.instance_id is not None:
        return 0, member.instance_id.encode("utf-16-be", "surrogatepass")
    return 1, member.member_id.encode("utf-16-be", "surrogatepass")


def assign_range(spec: AssignmentSpec) -> GroupAssignment:
    """Each topic's subscribers get its partitions in ranges, the first ones one more.

    Where all are said to ask for the same, that is what the first member asks for: nobody else is
    looked at, not even one who (the group's type being an old one) asks for nothing.
    """
    shares: GroupAssignment = {member.member_id: {} for member in spec.members}
    in_order = sorted(spec.members, key=_place)
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
                shares[member.member_id][topic] = list(range(start, start + size))
            start += size
    return {
        member.member_id: _listed(
            shares[member.member_id], (in_order[0] if spec.homogeneous else member).topics
        )
        for member in spec.members
    }


def _listed(share: dict[str, list[int]], topics: Mapping[str, None]) -> dict[str, list[int]]:
    """A share in the order of its table, which was made for these topics and filled in turn."""
    order = uuid_order([t for t in topics if t in share], copied_size(len(topics), 1))
    return {topic: share[topic] for topic in order}
