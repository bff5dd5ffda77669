"""Members join, leave for good or temporarily, and are fenced.

KIP-848 "Heartbeat & Session", "Fencing" and "Static Membership (KIP-345)";
docs/kafka-facts.md#errors.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from kip848_spark.coordinator import records
from kip848_spark.coordinator.consumer_group import (
    JOIN,
    LEAVE,
    STATIC_LEAVE,
    ConsumerGroup,
    Member,
)
from kip848_spark.coordinator.downgrade import downgrade, may_downgrade
from kip848_spark.coordinator.faults import GroupError
from kip848_spark.coordinator.member_timers import cancel_timers
from kip848_spark.coordinator.reconcile import Owned
from kip848_spark.coordinator.records import Json
from kip848_spark.coordinator.shard import Shard, order_partitions
from kip848_spark.coordinator.subscriptions import bump_after_removal, drop_unused_regex
from kip848_spark.coordinator.tombstones import append_member_tombstones


def check_not_full(
    shard: Shard, group: ConsumerGroup, member_id: str, instance_id: str | None
) -> None:
    """Raise GROUP_MAX_SIZE_REACHED if the group is full and this is not one of its members."""
    if not shard.release.counts_static_return and group.static_member(instance_id) is not None:
        return
    most = shard.config.number("group.consumer.max.size")
    if len(group.members) >= most and (not member_id or member_id not in group.members):
        raise GroupError("GROUP_MAX_SIZE_REACHED", f"group {group.group_id!r} has {most} members")


def joining_member(
    shard: Shard,
    group: ConsumerGroup,
    member_id: str,
    instance_id: str | None,
    *,
    epoch: int,
    owned: Owned,
    classic: bool = False,
) -> tuple[Member, Member | None]:
    """The member of a request, and the static member that it replaces, if any."""
    if instance_id is None:
        member = group.members.get(member_id)
        if member is None:
            if epoch != JOIN:
                group.member(member_id)
            return Member(member_id), None
        check_epoch(shard, member, epoch, owned, classic=classic)
        return member, None
    holder = group.static_member(instance_id)
    if epoch != JOIN:
        holder = check_static(holder, member_id, instance_id)
        check_epoch(shard, holder, epoch, owned, classic=classic)
        return holder, None
    if holder is None:
        return group.members.get(member_id) or Member(member_id), None
    if shard.release.client_assignors and holder.member_id == member_id:
        # "still used by another member": with a client-side assignor, the member's epoch stays 0
        # until an assignment is installed.
        return holder, None
    if not classic and holder.classic is None and holder.epoch != STATIC_LEAVE:
        raise GroupError(
            "UNRELEASED_INSTANCE_ID",
            f"instance id {instance_id!r} is still held by member {holder.member_id!r}",
        )
    return holder._replace(member_id=member_id, epoch=0, previous_epoch=0), holder


def check_static(holder: Member | None, member_id: str, instance_id: str) -> Member:
    """A static member is identified by its instance id, which only one member id may use."""
    if holder is None:
        raise GroupError("UNKNOWN_MEMBER_ID", f"no member has instance id {instance_id!r}")
    if holder.member_id != member_id:
        raise GroupError(
            "FENCED_INSTANCE_ID", f"instance id {instance_id!r} belongs to {holder.member_id!r}"
        )
    return holder


def check_epoch(
    shard: Shard, member: Member, epoch: int, owned: Owned, *, classic: bool = False
) -> None:
    """Raise FENCED_MEMBER_EPOCH unless the epochs match, or only the last response was lost.

    A member that missed the response with its new epoch still sends its previous epoch. It is
    accepted as long as it owns no more than it was assigned (KIP-848 Heartbeat "Request Handling").
    """
    if classic or (epoch == JOIN and shard.release.join_is_never_fenced):
        return
    if epoch > member.epoch:
        raise GroupError(
            "FENCED_MEMBER_EPOCH", f"epoch {epoch} is ahead of the member's {member.epoch}"
        )
    if epoch < member.epoch and not (
        epoch == member.previous_epoch and _owns_no_more(owned, member.assigned)
    ):
        raise GroupError(
            "FENCED_MEMBER_EPOCH", f"epoch {epoch} is behind the member's {member.epoch}"
        )


def _owns_no_more(owned: Owned, assigned: Mapping[str, Mapping[int, int]]) -> bool:
    if owned is None:
        return False
    return all(numbers <= assigned.get(topic, {}).keys() for topic, numbers in owned.items())


# Leaving


def leave(shard: Shard, request: Json) -> Json:
    """Epoch -1: the member leaves. Epoch -2: a static member leaves temporarily."""
    group = shard.consumer_group(request["groupId"])
    member_id, epoch = request["memberId"], request["memberEpoch"]
    instance_id = request.get("instanceId")
    if instance_id is None:
        member = group.member(member_id)
    else:
        member = check_static(group.static_member(instance_id), member_id, instance_id)
    if epoch == STATIC_LEAVE:
        # Only the epoch changes; the leaving member also gives up its pending partitions.
        assigned = {t: dict.fromkeys(numbers, 0) for t, numbers in member.assigned.items()}
        gone = member._replace(epoch=STATIC_LEAVE, assigned=assigned, pending={})
        shard.append(group.current_record(gone))
    else:
        fence(shard, group, [member])
    return {"memberId": member_id, "memberEpoch": epoch}


def fence(shard: Shard, group: ConsumerGroup, members: Sequence[Member]) -> None:
    """Remove members: by their leave, a timeout, or an administrator. One epoch bump for all of
    them.

    If the last member of the new protocol leaves, the group may be downgraded to a classic one
    instead.
    """
    leavers = {member.member_id for member in members}
    if may_downgrade(shard, group, leavers):
        downgrade(shard, group, leavers)
        return
    for member in members:
        append_member_tombstones(shard, group, member)
        cancel_timers(shard, group.group_id, member.member_id)
    for regex in dict.fromkeys(member.regex for member in members):
        drop_unused_regex(shard, group, regex)
    bump_after_removal(shard, group)


def replace_member(shard: Shard, group: ConsumerGroup, old: Member, new: Member) -> None:
    """A static member returns with a new id: it inherits target and assignment, at epoch 0."""
    target = order_partitions(group.target_of(old.member_id))
    results = group.client_side
    result = results.target_of(old.member_id).fields() if shard.release.client_assignors else None
    results.current[new.member_id] = results.current_of(old.member_id)
    cancel_timers(shard, group.group_id, old.member_id)
    append_member_tombstones(shard, group, old)
    shard.append(group.member_record(new))
    shard.append(records.target_member(group.group_id, new.member_id, target, result))
    shard.append(group.current_record(new))


def is_leave(epoch: int) -> bool:
    """Whether a member epoch in a request means leaving."""
    return epoch in (LEAVE, STATIC_LEAVE)
