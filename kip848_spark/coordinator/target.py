"""The target assignment: who shall have what (KIP-848 "Target Assignment", "Assignment Epoch").

Computed for a group epoch when a member heartbeats; written as the difference to the last one
(key 7 for each member whose target changed) and closed by the epoch it belongs to (key 6).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import NamedTuple

from kip848_spark.coordinator import records
from kip848_spark.coordinator.assignors import ASSIGNORS, AssignmentSpec, MemberSpec
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
    """From 4.3 on a target stays for the assignment interval; without a time it may go now."""
    interval = shard.config.assignment_interval(group.group_id)
    return (
        group.target_timestamp == 0
        or interval == 0
        or shard.now >= group.target_timestamp + interval
    )


class Before(NamedTuple):
    """What a broker still knows of the group as it was before the request at hand."""

    walked: list[str]
    """Its members in the order of the table they are in."""
    homogeneous: bool
    """Whether all asked for the same topics: looked at anew only if the metadata is refreshed."""
    votes: Counter[str]
    """How many members asked for which assignor."""
    vote: str | None
    """What the member of the request asked for."""


UNNEEDED = Before([], True, Counter(), None)
"""For a request that changes nothing in a group at rest: no target will be computed."""


def at_rest(shard: Shard, group: ConsumerGroup) -> bool:
    """The target is the group epoch's own and the topics need no look."""
    return 0 < group.epoch <= group.target_epoch and shard.now < group.metadata_deadline


def before_request(group: ConsumerGroup, member: Member, walked: list[str] | None = None) -> Before:
    """Remember the group before a request of this member changes it; ``walked`` is the order of
    its members if that is not their table's."""
    order = group.walk_members() if walked is None else walked
    return Before(order, group.homogeneous(), _votes(group), member.server_assignor)


def _votes(group: ConsumerGroup) -> Counter[str]:
    return Counter(m.server_assignor for m in group.members.values() if m.server_assignor)


def preferred_assignor(
    shard: Shard, group: ConsumerGroup, before: Before | None = None, member_id: str = ""
) -> str:
    """The assignor most members ask for; without any wish, the broker's first one.

    Of two with as many votes it is the one that comes first in a table which began as a copy of
    the votes before the request, and from which the member's old vote was taken first.
    """
    votes = _votes(group) if before is None else before.votes.copy()
    known = TimelineOrder().walk(sorted(votes))
    table = HashTable(known, copied_size(len(known), 1) if known else 16, string_hash)
    if before is not None:
        if before.vote is not None:
            votes[before.vote] -= 1
            if votes[before.vote] <= 0:
                table.remove(before.vote)
        vote = group.members[member_id].server_assignor
        if vote is not None:
            votes[vote] += 1
            table.compute(vote)
    best: str | None = None
    for name in table:
        if best is None or votes[name] > votes[best]:
            best = name
    return best or shard.config.assignors[0]


def update_target(
    shard: Shard, group: ConsumerGroup, before: Before, joiner: str, *, refreshed: bool
) -> None:
    """Compute the target of the current group epoch and append what changed.

    A joiner is visited after the members there were before, within its bucket (facts D, "Hash
    order"). Unless the metadata was ``refreshed``, the subscription type is the one before, too:
    seen on 4.3.1, where a member that joins with no topics then leaves everyone with nothing.
    """
    known = [member_id for member_id in before.walked if member_id in group.members]
    comers = [member_id for member_id in group.members if member_id not in set(known)]
    order = string_order(known + comers)
    assign = ASSIGNORS[preferred_assignor(shard, group, before, joiner)]
    homogeneous = group.homogeneous() if refreshed else before.homogeneous
    result = assign(specification(shard, group, order, homogeneous))
    for member_id in order:
        new = result.get(member_id, {})
        fresh = member_id == joiner and member_id not in known
        if fresh or group.targets.get(member_id) != {t: dict.fromkeys(n) for t, n in new.items()}:
            shard.append(records.target_member(group.group_id, member_id, new))
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
            MemberSpec(member_id, member.instance_id, ids[names], group.target_of(member_id))
        )
    partitions = {}
    for topic_id in {topic_id: None for found in ids.values() for topic_id in found}:
        topic = shard.topics.with_id(topic_id)
        assert topic is not None
        partitions[topic_id] = topic.partitions
    return AssignmentSpec(tuple(members), partitions, homogeneous)


def _topic_ids(shard: Shard, group: ConsumerGroup, member: Member) -> dict[str, None]:
    """A member's existing topics in the order a broker walks their names."""
    names = string_order(sorted(member.topic_names), copied_size(len(member.topic_names)))
    if member.regex in group.resolved:
        found = group.resolved[member.regex].topics
        names += string_order(sorted(found), copied_size(len(found)))
    topics = (shard.topics.named(name) for name in dict.fromkeys(names))
    return {topic.topic_id: None for topic in topics if topic is not None}
