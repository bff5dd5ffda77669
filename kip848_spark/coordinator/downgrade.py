"""Online downgrade: a consumer group becomes a classic group while its members keep working.

KIP-848 "Supporting Online Consumer Group Upgrade"; docs/kafka-facts.md#migration. The target
assignment becomes the classic assignment, and a classic rebalance follows.
"""

from __future__ import annotations

from kip848_spark.coordinator.classic import keep_classic_session, prepare_rebalance
from kip848_spark.coordinator.classic_group import STABLE, ClassicGroup, ClassicMember
from kip848_spark.coordinator.consumer_group import ConsumerGroup, Member, Targets
from kip848_spark.coordinator.consumer_protocol import (
    CONSUMER,
    ClassicAssignment,
    read_subscription,
    write_assignment,
)
from kip848_spark.coordinator.javahash import int_order, uuid_order
from kip848_spark.coordinator.member_timers import cancel_timers
from kip848_spark.coordinator.shard import Shard
from kip848_spark.coordinator.tombstones import append_consumer_group_tombstones


def may_downgrade(
    shard: Shard, group: ConsumerGroup, leavers: set[str], *, replaced: bool = False
) -> bool:
    """Whether the last member of the new protocol leaves and classic ones remain."""
    remaining = [m for m in group.members.values() if m.member_id not in leavers]
    stays = len(remaining) + replaced
    return (
        stays > 0
        and all(member.classic is not None for member in remaining)
        and (not replaced or all(group.members[i].classic is None for i in leavers))
        and shard.config.allows_downgrade
        and stays <= shard.config.number("group.max.size")
    )


def downgrade(
    shard: Shard,
    group: ConsumerGroup,
    leavers: set[str],
    joiner: Member | None = None,
    *,
    targets: Targets | None = None,
    member_order: list[str] | None = None,
    rebalance: bool = True,
) -> ClassicGroup:
    """Convert the group: all tombstones of the consumer group, then one classic group record.

    ``joiner`` is a static member that returns with the classic protocol and replaces the last
    member of the new protocol. Without it, a rebalance of the remaining members follows.
    ``targets`` become the classic assignment; without them, the group's last targets.
    """
    group_id = group.group_id
    member_order = member_order or group.walk_members()
    remaining = [group.members[i] for i in member_order if i not in leavers]
    targets = group.targets if targets is None else targets
    if joiner is not None:
        remaining = [m for m in remaining if m.member_id != joiner.member_id] + [joiner]
    new = ClassicGroup(group_id, STABLE, shard.now, CONSUMER, None, group.epoch)
    for member in remaining:
        assert member.classic is not None
        target = targets.get(member.member_id, {})
        given = tuple(
            (topic.name, tuple(int_order(target[topic_id])))
            for topic_id in uuid_order(target)
            if (topic := shard.topics.with_id(topic_id)) is not None
        )
        version = _embedded_version(member)
        new.add(
            ClassicMember(
                member.member_id,
                member.instance_id,
                member.client_id,
                member.client_host,
                member.rebalance_timeout,
                member.classic.session_timeout,
                CONSUMER,
                member.classic.protocols,
                write_assignment(ClassicAssignment(version, given)),
            )
        )
    new.protocol = new.select_protocol()
    append_consumer_group_tombstones(shard, group, member_order if joiner is not None else None)
    for member_id in member_order:
        cancel_timers(shard, group_id, member_id)
    shard.groups[group_id] = new
    shard.append_only(new.to_record())
    for classic_member in new.members.values():
        keep_classic_session(shard, new, classic_member)
    if rebalance:
        prepare_rebalance(shard, new)
    return new


def _embedded_version(member: Member) -> int:
    assert member.classic is not None
    try:
        return read_subscription(member.classic.protocols[0][1]).version
    except (ValueError, IndexError):
        return 0
