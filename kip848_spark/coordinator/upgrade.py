"""Online upgrade: a classic group becomes a consumer group while its members keep working.

KIP-848 "Supporting Online Consumer Group Upgrade"; docs/kafka-facts.md#migration. The generation
becomes the group epoch, and the classic assignment becomes both the target assignment and the
current assignment.
"""

from __future__ import annotations

from kip848_spark.coordinator import records
from kip848_spark.coordinator.classic import abort_waiting, cancel_group_timers
from kip848_spark.coordinator.classic_group import ClassicGroup, ClassicMember
from kip848_spark.coordinator.config import MAX_SIZE
from kip848_spark.coordinator.consumer_group import ClassicMetadata, ConsumerGroup, Member
from kip848_spark.coordinator.consumer_protocol import read_assignment, read_subscription
from kip848_spark.coordinator.faults import GroupError
from kip848_spark.coordinator.javahash import string_order, uuid_order
from kip848_spark.coordinator.records import Partitions
from kip848_spark.coordinator.sessions import keep_session
from kip848_spark.coordinator.shard import Shard


def group_to_join(
    shard: Shard, group_id: str, member_id: str, instance_id: str | None, *, joins: bool
) -> tuple[ConsumerGroup, list[str] | None]:
    """The consumer group of a heartbeat; a joining member may create it or convert a classic group.

    Also returns the order in which a converted group's members are visited during this request. A
    broker then still holds the table it converted them into; later it holds the one that the
    written records give, which reverses members of the same slot.
    """
    group = shard.groups.get(group_id)
    if isinstance(group, ConsumerGroup):
        return group, None
    if not joins:
        return shard.consumer_group(group_id), None
    if group is None:
        return ConsumerGroup(group_id, shard.release), None
    if not isinstance(group, ClassicGroup):
        return shard.consumer_group(group_id), None
    if not group.members:
        # An empty classic group is deleted, and the epoch starts again.
        cancel_group_timers(shard, group)
        shard.append(records.tombstone("2", group=group_id))
        return ConsumerGroup(group_id, shard.release), None
    returns = not shard.release.counts_static_return and instance_id in group.static_ids
    full = len(group.members) >= shard.config.number(MAX_SIZE)
    if full and member_id not in group.members and not returns:
        check_upgrade(shard, group)
        raise GroupError("GROUP_MAX_SIZE_REACHED", f"group {group_id!r} is full")
    return upgrade(shard, group)


def check_upgrade(shard: Shard, group: ClassicGroup) -> None:
    """Raise GROUP_ID_NOT_FOUND unless policy, protocol type and size allow an upgrade."""
    reason = None
    if not shard.config.allows_upgrade:
        reason = "the migration policy does not allow it"
    elif not group.uses_consumer_protocol:
        reason = "it does not use the consumer protocol"
    elif len(group.members) > shard.config.number(MAX_SIZE):
        reason = "it has too many members"
    if reason is not None:
        raise GroupError(
            "GROUP_ID_NOT_FOUND", f"classic group {group.group_id!r} is not upgraded: {reason}"
        )


def upgrade(shard: Shard, group: ClassicGroup) -> tuple[ConsumerGroup, list[str]]:
    """Convert the group: group tombstone, members, epoch, targets, target epoch, current
    assignments.

    Returns the new group, and its members in the order in which they were written.
    """
    check_upgrade(shard, group)
    members = [_convert_member(shard, group, group.members[i]) for i in string_order(group.members)]
    abort_waiting(shard, group)
    cancel_group_timers(shard, group)
    group_id = group.group_id
    shard.append(records.tombstone("2", group=group_id))
    new = ConsumerGroup(group_id, shard.release)
    shard.groups[group_id] = new
    for member in members:
        new.put_member(member)
    member_order = [new.members[member_id] for member_id in new.walk_members()]
    shard.groups[group_id] = new = ConsumerGroup(group_id, shard.release)
    for member in member_order:
        shard.append(new.member_record(member))
    metadata_hash = None
    if shard.release.partition_metadata_record:
        if shard.release.upgrade_reads_topics:
            topics = shard.topics.subscription_metadata(sorted(new.topic_names()))
            shard.append(records.topic_metadata(group_id, topics))
    else:
        metadata_hash = shard.topics.hash_of(new.topic_names())
    shard.append(records.group_epoch(group_id, group.generation, metadata_hash))
    for member in member_order:
        shard.append(
            records.target_member(
                group_id,
                member.member_id,
                {t: member.assigned[t] for t in uuid_order(member.assigned)},
            )
        )
    shard.append(records.target_epoch(group_id, group.generation, 0))
    for member in member_order:
        shard.append(new.current_record(member))
        keep_session(shard, new, member)
    return new, [member.member_id for member in member_order]


def _convert_member(shard: Shard, group: ClassicGroup, member: ClassicMember) -> Member:
    """A classic member as a member of the new protocol; its epoch is the generation."""
    try:
        assignment = read_assignment(member.assignment)
        subscription = read_subscription(member.metadata(group.protocol))
    except ValueError as bad:
        raise GroupError(
            "GROUP_ID_NOT_FOUND", f"classic group {group.group_id!r} is not upgraded: {bad}"
        ) from None
    if assignment.user_data:
        raise GroupError(
            "GROUP_ID_NOT_FOUND",
            f"classic group {group.group_id!r} is not upgraded: a custom assignor is in use",
        )
    epoch = group.generation if shard.release.partition_epochs else 0
    assigned: Partitions = {}
    for name, numbers in assignment.partitions:
        topic = shard.topics.named(name)
        if topic is not None:
            assigned[topic.topic_id] = dict.fromkeys(numbers, epoch)
    return Member(
        member.member_id,
        member.instance_id,
        subscription.rack_id,
        member.client_id,
        member.client_host,
        frozenset(subscription.topics),
        "",
        member.rebalance_timeout,
        None,
        ClassicMetadata(member.session_timeout, member.protocols),
        (),
        group.generation,
        group.generation,
        assigned=assigned,
    )
