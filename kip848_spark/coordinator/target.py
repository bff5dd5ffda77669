"""The target assignment (KIP-848 "Target Assignment" and "Assignment Epoch").

It is computed for a group epoch when a member sends a heartbeat. Only changes are written: key 7
for each member whose target changed, then key 6 with the epoch.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from kip848_spark.coordinator import records
from kip848_spark.coordinator.assignors import AssignmentSpec, MemberSpec
from kip848_spark.coordinator.client_side import NO_RESULT
from kip848_spark.coordinator.consumer_group import ConsumerGroup, Member
from kip848_spark.coordinator.javahash import (
    HashTable,
    TimelineOrder,
    copied_size,
    string_hash,
    string_order,
)
from kip848_spark.coordinator.shard import Shard


def may_compute(shard: Shard, group: ConsumerGroup) -> bool:
    """Whether a new target may be computed: from 4.3 on, not before the assignment interval has
    passed.
    """
    interval = shard.config.assignment_interval(group.group_id)
    return (
        group.target_timestamp == 0
        or interval == 0
        or shard.now >= group.target_timestamp + interval
    )


class GroupSnapshot(NamedTuple):
    """What a broker still uses of the group's state before the current request."""

    member_order: list[str]
    """Its members in the order of their hash table."""
    homogeneous: bool
    """Whether all members subscribed to the same topics; only a metadata refresh updates this."""
    votes: Counter[str]
    """How many members requested each assignor."""
    vote: str | None
    """The assignor that the requesting member requested before."""


EMPTY_SNAPSHOT = GroupSnapshot([], True, Counter(), None)
"""For a request that changes nothing in a stable group: no target will be computed."""


def needs_no_target(shard: Shard, group: ConsumerGroup) -> bool:
    """Whether the target is of the group's epoch and topic metadata need not be checked."""
    return 0 < group.epoch <= group.target_epoch and shard.now < group.metadata_deadline


def take_snapshot(
    group: ConsumerGroup, member: Member, member_order: list[str] | None = None
) -> GroupSnapshot:
    """Store the group's state before a request changes it; ``member_order`` is the order of its
    members if it is not that of their table.
    """
    order = group.walk_members() if member_order is None else member_order
    return GroupSnapshot(order, group.homogeneous(), _votes(group), member.server_assignor)


def _votes(group: ConsumerGroup) -> Counter[str]:
    return Counter(m.server_assignor for m in group.members.values() if m.server_assignor)


def preferred_assignor(
    shard: Shard, group: ConsumerGroup, before: GroupSnapshot | None = None, member_id: str = ""
) -> str:
    """The assignor that most members request; without any request, the broker's first one.

    Of two assignors with equal votes, the first one in a hash table wins. The table began as a copy
    of the votes before the request, from which the member's old vote was removed first.
    """
    if before is None:
        best = assignor_after(_votes(group), None, None)
    else:
        vote = group.members[member_id].server_assignor
        best = assignor_after(before.votes, before.vote, vote)
    return best or shard.config.assignors[0]


def assignor_before(votes: Mapping[str, int]) -> str | None:
    """The assignor with the most votes, as a broker reads them before a heartbeat (from 4.4); None
    if nobody votes.
    """
    names = TimelineOrder().walk(sorted(votes))
    return max(names, key=votes.__getitem__) if names else None


def assignor_after(votes: Mapping[str, int], old: str | None, new: str | None) -> str | None:
    """The assignor with the most votes after a member has replaced its vote ``old`` by ``new``;
    None if nobody votes.
    """
    counts = Counter(votes)
    known = TimelineOrder().walk(sorted(counts))
    table = HashTable(known, copied_size(len(known), 1) if known else 16, string_hash)
    if old is not None:
        counts[old] -= 1
        if counts[old] <= 0:
            table.remove(old)
    if new is not None:
        counts[new] += 1
        table.compute(new)
    best: str | None = None
    for name in table:
        if best is None or counts[name] > counts[best]:
            best = name
    return best


def changes_assignor(
    shard: Shard, group: ConsumerGroup, before: GroupSnapshot, member_id: str
) -> bool:
    """Whether a heartbeat changes the assignor with the most votes.

    Of two assignors with equal votes, the first one in a hash table wins, and the order before the
    heartbeat differs from the one in which `preferred_assignor` reads the votes. So with one vote
    each, every heartbeat of one of the two members counts as a change
    (docs/kafka-facts.md#which-assignor-runs).
    """
    if not before.votes and group.members[member_id].server_assignor is None:
        return False
    old = assignor_before(before.votes) or shard.config.assignors[0]
    return old != preferred_assignor(shard, group, before, member_id)


def update_target(
    shard: Shard,
    group: ConsumerGroup,
    before: GroupSnapshot,
    requester: str,
    *,
    refreshed: bool,
) -> None:
    """Compute the target of the current group epoch and write what changed.

    Within a hash bucket, a new member is visited after the members that existed before
    (docs/kafka-facts.md#hash-order). Unless the metadata was ``refreshed``, the group still counts
    as homogeneous or not as before the request: observed on 4.3.1, where a member that joins
    without topics then leaves every member without partitions.
    """
    known = [member_id for member_id in before.member_order if member_id in group.members]
    old = set(known)
    joined = [member_id for member_id in group.members if member_id not in old]
    order = string_order(known + joined)
    assign = shard.config.assignor(preferred_assignor(shard, group, before, requester))
    homogeneous = group.homogeneous() if refreshed else before.homogeneous
    result = assign(specification(shard, group, order, homogeneous))
    for member_id in order:
        new = result.get(member_id, {})
        fresh = member_id == requester and member_id not in old
        fresh = fresh and shard.release.repeats_copied_target
        stale = group.client_side.target_of(member_id) != NO_RESULT  # a member had computed it
        fresh = fresh or stale
        if fresh or group.targets.get(member_id) != {t: dict.fromkeys(n) for t, n in new.items()}:
            beside = NO_RESULT.fields() if shard.release.client_assignors else None
            shard.append(records.target_member(group.group_id, member_id, new, beside))
    timestamp = shard.now if shard.release.assignment_interval else 0
    shard.append(records.target_epoch(group.group_id, group.epoch, timestamp))


def specification(
    shard: Shard, group: ConsumerGroup, order: Iterable[str], homogeneous: bool
) -> AssignmentSpec:
    """The group as an assignor sees it: only topics that exist."""
    ids: dict[tuple[frozenset[str], str], dict[str, None]] = {}
    members = []
    for member_id in order:
        member = group.members[member_id]
        names = (member.topic_names, member.regex)
        if names not in ids:
            ids[names] = _topic_ids(shard, group, member)
        members.append(
            MemberSpec(
                member_id,
                member.instance_id,
                ids[names],
                group.target_of(member_id),
                member.rack_id,
            )
        )
    topics = {}
    for topic_id in {topic_id: None for found in ids.values() for topic_id in found}:
        topic = shard.topics.with_id(topic_id)
        assert topic is not None
        topics[topic_id] = topic
    return AssignmentSpec(
        tuple(members),
        {topic_id: topic.partitions for topic_id, topic in topics.items()},
        homogeneous,
        shard.release.uniform_gives_back,
        topics,
    )


def _topic_ids(shard: Shard, group: ConsumerGroup, member: Member) -> dict[str, None]:
    """A member's existing topics, in the order in which a broker iterates their names."""
    names = string_order(sorted(member.topic_names), copied_size(len(member.topic_names)))
    if member.regex in group.resolved:
        found = group.resolved[member.regex].topics
        names += string_order(sorted(found), copied_size(len(found)))
    topics = (shard.topics.named(name) for name in dict.fromkeys(names))
    return {topic.topic_id: None for topic in topics if topic is not None}
