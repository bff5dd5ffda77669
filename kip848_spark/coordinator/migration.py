"""Online migration: a classic group becomes a consumer group and back while its members work.

KIP-848 "Supporting Online Consumer Group Upgrade"; facts A ("Online upgrade", "Online
downgrade") and G. Going up, the generation becomes the group epoch and the classic assignment
both target and current assignment; going down, the targets become the classic assignment and a
rebalance follows.
"""

from __future__ import annotations

from kip848_spark.coordinator import records
from kip848_spark.coordinator.classic_group import STABLE, ClassicGroup, ClassicMember
from kip848_spark.coordinator.config import MAX_SIZE
from kip848_spark.coordinator.consumer_group import ClassicMetadata, ConsumerGroup, Member
from kip848_spark.coordinator.consumer_protocol import (
    CONSUMER,
    ClassicAssignment,
    read_assignment,
    read_subscription,
    write_assignment,
)
from kip848_spark.coordinator.faults import GroupError
from kip848_spark.coordinator.javahash import int_order, string_order, uuid_order
from kip848_spark.coordinator.records import Partitions
from kip848_spark.coordinator.sessions import cancel_timers, keep_session
from kip848_spark.coordinator.shard import Shard


def group_to_join(
    shard: Shard, group_id: str, member_id: str, *, joins: bool
) -> tuple[ConsumerGroup, list[str] | None]:
    """The consumer group a heartbeat is for; a joiner may create it or convert a classic one.

    Beside it the order in which a converted group's members are walked during this request: a
    broker then still has the table it converted them into, and from then on the one that the
    records written out of that make, where members of one slot come the other way round.
    """
    group = shard.groups.get(group_id)
    if isinstance(group, ConsumerGroup):
        return group, None
    if not joins:
        return shard.consumer_group(group_id), None
    if group is None:
        return ConsumerGroup(group_id, shard.release), None
    if not group.members:
        # Nobody is there: the classic group ends and the epoch starts anew (facts A).
        from kip848_spark.coordinator.classic import forget_timers

        forget_timers(shard, group)
        shard.append(records.tombstone("2", group=group_id))
        return ConsumerGroup(group_id, shard.release), None
    if len(group.members) >= shard.config.number(MAX_SIZE) and member_id not in group.members:
        check_upgrade(shard, group)
        raise GroupError("GROUP_MAX_SIZE_REACHED", f"group {group_id!r} is full")
    return upgrade(shard, group)


# Up


def check_upgrade(shard: Shard, group: ClassicGroup) -> None:
    """GROUP_ID_NOT_FOUND unless policy, protocol type and size allow an upgrade."""
    reason = None
    if not shard.config.upgrades:
        reason = "the migration policy forbids it"
    elif not group.uses_consumer_protocol:
        reason = "it does not use the consumer protocol"
    elif len(group.members) > shard.config.number(MAX_SIZE):
        reason = "it is too large"
    if reason is not None:
        raise GroupError(
            "GROUP_ID_NOT_FOUND", f"classic group {group.group_id!r} is not upgraded: {reason}"
        )


def upgrade(shard: Shard, group: ClassicGroup) -> tuple[ConsumerGroup, list[str]]:
    """Convert: group tombstone, members, epoch, targets, target epoch, current assignments.

    Gives the new group, and its members in the order they were written.
    """
    from kip848_spark.coordinator.classic import abort_waiting, forget_timers

    check_upgrade(shard, group)
    members = [_upgraded(shard, group, group.members[i]) for i in _walk(group)]
    abort_waiting(shard, group)
    forget_timers(shard, group)
    group_id = group.group_id
    shard.append(records.tombstone("2", group=group_id))
    new = ConsumerGroup(group_id, shard.release)
    shard.groups[group_id] = new
    for member in members:
        new.put_member(member)
    walked = [new.members[member_id] for member_id in new.walk_members()]
    shard.groups[group_id] = new = ConsumerGroup(group_id, shard.release)
    for member in walked:
        shard.append(new.member_record(member))
    metadata_hash = None
    if shard.release.partition_metadata_record:
        topics = shard.topics.subscription_metadata(sorted(new.topic_names()))
        shard.append(records.topic_metadata(group_id, topics))
    else:
        metadata_hash = shard.topics.hash_of(new.topic_names())
    shard.append(records.group_epoch(group_id, group.generation, metadata_hash))
    for member in walked:
        shard.append(
            records.target_member(
                group_id,
                member.member_id,
                {t: member.assigned[t] for t in uuid_order(member.assigned)},
            )
        )
    shard.append(records.target_epoch(group_id, group.generation, 0))
    for member in walked:
        shard.append(new.current_record(member))
        keep_session(shard, new, member)
    return new, [member.member_id for member in walked]


def _walk(group: ClassicGroup) -> list[str]:
    return string_order(group.members)


def _upgraded(shard: Shard, group: ClassicGroup, member: ClassicMember) -> Member:
    """A classic member as a member of the new protocol, at the generation as its epoch."""
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


# Down


def may_downgrade(
    shard: Shard, group: ConsumerGroup, leavers: set[str], *, replaced: bool = False
) -> bool:
    """Whether the last member of the new protocol is going and classic ones remain."""
    remaining = [m for m in group.members.values() if m.member_id not in leavers]
    stays = len(remaining) + replaced
    return (
        stays > 0
        and all(member.classic is not None for member in remaining)
        and (not replaced or all(group.members[i].classic is None for i in leavers))
        and shard.config.downgrades
        and stays <= shard.config.number("group.max.size")
    )


def downgrade(
    shard: Shard,
    group: ConsumerGroup,
    leavers: set[str],
    joiner: Member | None = None,
    *,
    walked: list[str] | None = None,
    rebalance: bool = True,
) -> ClassicGroup:
    """Convert: all of the consumer group's tombstones, then one classic group record.

    ``joiner`` is a static member that comes back with the classic protocol in the place of the
    last one of the new protocol; otherwise a rebalance of those that remain follows.
    """
    from kip848_spark.coordinator.classic import keep_classic_session, prepare_rebalance

    group_id = group.group_id
    walked = walked or group.walk_members()
    remaining = [group.members[i] for i in walked if i not in leavers]
    targets = {m.member_id: group.target_of(m.member_id) for m in remaining}
    if joiner is not None:
        remaining = [m for m in remaining if m.member_id != joiner.member_id] + [joiner]
    new = ClassicGroup(group_id, STABLE, shard.now, CONSUMER, None, group.epoch)
    for member in remaining:
        assert member.classic is not None
        given = tuple(
            (topic.name, tuple(int_order(targets[member.member_id][topic_id])))
            for topic_id in uuid_order(targets[member.member_id])
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
    delete_records(shard, group, walked if joiner is not None else None)
    for member_id in walked:
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


def delete_records(shard: Shard, group: ConsumerGroup, walked: list[str] | None = None) -> None:
    """Every tombstone of a consumer group, kind by kind (facts A, "Delete/downgrade")."""
    group_id = group.group_id
    walked = walked or group.walk_members()
    regexes = group.walk_regexes()
    for kind, ids in (("8", walked), ("7", walked)):
        for member_id in ids:
            shard.append(records.tombstone(kind, groupId=group_id, memberId=member_id))
    shard.append(records.tombstone("6", groupId=group_id))
    for member_id in walked:
        shard.append(records.tombstone("5", groupId=group_id, memberId=member_id))
    for regex in regexes:
        shard.append(records.tombstone("16", groupId=group_id, regularExpression=regex))
    shard.append(records.tombstone("4", groupId=group_id))
    shard.append(records.tombstone("3", groupId=group_id))
