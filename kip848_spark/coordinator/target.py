"""The target assignment: who shall have what (KIP-848 "Target Assignment", "Assignment Epoch").

Computed for a group epoch when a member heartbeats; written as the difference to the last one
(key 7 for each member whose target changed) and closed by the epoch it belongs to (key 6).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from kip848_spark.coordinator import records
from kip848_spark.coordinator.assignors import ASSIGNORS, AssignmentSpec, MemberSpec
from kip848_spark.coordinator.consumer_group import ConsumerGroup, Member
from kip848_spark.coordinator.javahash import copied_size, string_order
from kip848_spark.coordinator.shard import Shard


def may_compute(shard: Shard, group: ConsumerGroup) -> bool:
    """From 4.3 on a target stays for the assignment interval; without a time it may go now."""
    interval = shard.config.assignment_interval(group.group_id)
    return (
        group.target_timestamp == 0
        or interval == 0
        or shard.now >= group.target_timestamp + interval
    )


def preferred_assignor(shard: Shard, group: ConsumerGroup) -> str:
    """The assignor most members ask for; without any wish, the broker's first one."""
    votes = Counter(m.server_assignor for m in group.members.values() if m.server_assignor)
    best: str | None = None
    for name in string_order(votes):
        if best is None or votes[name] > votes[best]:
            best = name
    return best or shard.config.assignors[0]


def update_target(shard: Shard, group: ConsumerGroup, walked: Iterable[str], joiner: str) -> None:
    """Compute the target of the current group epoch and append what changed.

    ``walked`` are the members in the order a broker walked them before this operation; a joiner
    is visited after them within its bucket (facts D, "Hash order").
    """
    known = [member_id for member_id in walked if member_id in group.members]
    comers = [member_id for member_id in group.members if member_id not in set(known)]
    order = string_order(known + comers)
    assign = ASSIGNORS[preferred_assignor(shard, group)]
    result = assign(specification(shard, group, order))
    for member_id in order:
        new = result.get(member_id, {})
        fresh = member_id == joiner and member_id not in known
        if fresh or group.targets.get(member_id) != {t: dict.fromkeys(n) for t, n in new.items()}:
            shard.append(records.target_member(group.group_id, member_id, new))
    timestamp = shard.now if shard.release.assignment_interval else 0
    shard.append(records.target_epoch(group.group_id, group.epoch, timestamp))


def specification(shard: Shard, group: ConsumerGroup, order: Iterable[str]) -> AssignmentSpec:
    """The group as an assignor sees it: only topics that exist."""
    ids: dict[tuple[frozenset[str], str], dict[str, None]] = {}
    members = []
    for member_id in order:
        member = group.members[member_id]
        names = (member.topic_names, member.regex)
        if names not in ids:
            ids[names] = _topic_ids(shard, group, member)
        members.append(
            MemberSpec(member_id, member.instance_id, ids[names], group.target_of(member_id))
        )
    partitions = {}
    for topic_id in {topic_id: None for found in ids.values() for topic_id in found}:
        topic = shard.topics.with_id(topic_id)
        assert topic is not None
        partitions[topic_id] = topic.partitions
    return AssignmentSpec(tuple(members), partitions, group.homogeneous())


def _topic_ids(shard: Shard, group: ConsumerGroup, member: Member) -> dict[str, None]:
    """A member's existing topics in the order a broker walks their names."""
    names = string_order(sorted(member.topic_names), copied_size(len(member.topic_names)))
    if member.regex in group.resolved:
        found = group.resolved[member.regex].topics
        names += string_order(sorted(found), copied_size(len(found)))
    topics = (shard.topics.named(name) for name in dict.fromkeys(names))
    return {topic.topic_id: None for topic in topics if topic is not None}
