"""The tombstones that delete a member or a whole group."""

from __future__ import annotations

from kip848_spark.coordinator import records
from kip848_spark.coordinator.classic_group import ClassicGroup
from kip848_spark.coordinator.consumer_group import ConsumerGroup, Member
from kip848_spark.coordinator.shard import Shard


def append_member_tombstones(shard: Shard, group: ConsumerGroup, member: Member) -> None:
    """Append the three tombstones of a member: current assignment, target, metadata."""
    key = {"groupId": group.group_id, "memberId": member.member_id}
    for kind in (records.CURRENT, records.TARGET_MEMBER, records.MEMBER):
        shard.append(records.tombstone(kind, **key))


def append_consumer_group_tombstones(
    shard: Shard, group: ConsumerGroup, member_order: list[str] | None = None
) -> None:
    """Append every tombstone of a consumer group, key type by key type
    (docs/kafka-facts.md#consumer-groups). ``member_order`` is the order of the members if it is not
    that of the group's table.
    """
    group_id = group.group_id
    member_order = member_order or group.walk_members()
    regexes = group.walk_regexes()
    for kind, ids in (("8", member_order), ("7", member_order)):
        for member_id in ids:
            shard.append(records.tombstone(kind, groupId=group_id, memberId=member_id))
    shard.append(records.tombstone("6", groupId=group_id))
    for member_id in member_order:
        shard.append(records.tombstone("5", groupId=group_id, memberId=member_id))
    for regex in regexes:
        shard.append(records.tombstone("16", groupId=group_id, regularExpression=regex))
    shard.append(records.tombstone("4", groupId=group_id))
    shard.append(records.tombstone("3", groupId=group_id))


def append_classic_group_tombstone(shard: Shard, group: ClassicGroup) -> None:
    """Append the one tombstone of a classic group."""
    shard.append(records.tombstone(records.CLASSIC_GROUP, group=group.group_id))
