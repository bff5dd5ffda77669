"""Static members of streams groups (from 4.4; docs/kafka-facts.md#streams-static-members).

A static member is known by its instance id. It may leave for a while and return with another member
id; until then it keeps its tasks.
"""

from __future__ import annotations

from kip848_spark.coordinator.faults import GroupError
from kip848_spark.coordinator.member_timers import rebalance_key, session_key
from kip848_spark.coordinator.records import Json, record, tombstone
from kip848_spark.coordinator.shard import Shard
from kip848_spark.coordinator.streams_group import (
    CURRENT,
    JOIN,
    MEMBER,
    NO_TASKS,
    STATIC_LEAVE,
    TARGET,
    StreamsGroup,
    StreamsMember,
    Tasks,
    TaskSet,
    current_record,
    target_record,
)
from kip848_spark.coordinator.streams_request import check_epoch

_BUMPING = ("topologyEpoch", "rackId", "clientTags", "processId")
"""What a static member may not change without a new epoch."""


def member_of_request(
    shard: Shard, group: StreamsGroup, request: Json, owned: Tasks | None
) -> tuple[StreamsMember | None, StreamsMember | None]:
    """The member of a heartbeat, None if it is new, and the static member that it replaces, if any.

    Raises UNKNOWN_MEMBER_ID, FENCED_MEMBER_EPOCH, FENCED_INSTANCE_ID or UNRELEASED_INSTANCE_ID.
    """
    member_id, epoch = request["memberId"], request["memberEpoch"]
    instance_id = request.get("instanceId")
    if instance_id is None:
        member = group.members.get(member_id)
        if member is not None:
            check_epoch(shard, member, epoch, owned)
        elif epoch != JOIN:
            group.member(member_id)
        return member, None
    holder = group.static_member(instance_id)
    if holder is not None and holder.member_id in group.computed:
        # A broker does this before it looks at the member's right to the instance id.
        group.computed[member_id] = group.computed.pop(holder.member_id)
    if epoch != JOIN:
        holder = check_static(holder, member_id, instance_id)
        check_epoch(shard, holder, epoch, owned)
        return holder, None
    if holder is None:
        return group.members.get(member_id), None
    if holder.epoch != STATIC_LEAVE:
        raise GroupError(
            "UNRELEASED_INSTANCE_ID",
            f"instance id {instance_id!r} is still held by member {holder.member_id!r}",
        )
    return holder._replace(member_id=member_id, epoch=0, previous_epoch=0), holder


def check_static(holder: StreamsMember | None, member_id: str, instance_id: str) -> StreamsMember:
    """The holder of an instance id, which must be this member. Raises UNKNOWN_MEMBER_ID or
    FENCED_INSTANCE_ID."""
    if holder is None:
        raise GroupError("UNKNOWN_MEMBER_ID", f"no member has instance id {instance_id!r}")
    if holder.member_id != member_id:
        raise GroupError(
            "FENCED_INSTANCE_ID", f"instance id {instance_id!r} belongs to {holder.member_id!r}"
        )
    return holder


def leaving_member(group: StreamsGroup, request: Json) -> StreamsMember:
    """The member that leaves. Raises UNKNOWN_MEMBER_ID or FENCED_INSTANCE_ID."""
    member_id, instance_id = request["memberId"], request.get("instanceId")
    if instance_id is None:
        return group.member(member_id)
    return check_static(group.static_member(instance_id), member_id, instance_id)


def leave_for_a_while(shard: Shard, group: StreamsGroup, member: StreamsMember) -> None:
    """The member keeps its tasks, except those that it must give up."""
    gone = member._replace(
        epoch=STATIC_LEAVE, pending=NO_TASKS, since=dict.fromkeys(member.assigned.active, 0)
    )
    shard.append(current_record(group.group_id, gone, epochs=True))


def replace_member(
    shard: Shard, group: StreamsGroup, old: StreamsMember, new: StreamsMember
) -> None:
    """A static member returns: it takes over the target and the tasks, at epoch 0."""
    group_id = group.group_id
    target = group.target_of(old.member_id)
    for timer in (session_key, rebalance_key):
        shard.timers.cancel(timer(group_id, old.member_id))
    for kind in (CURRENT, TARGET, MEMBER):
        shard.append(tombstone(kind, groupId=group_id, memberId=old.member_id))
    key = {"groupId": group_id, "memberId": new.member_id}
    shard.append(record(MEMBER, 0, key, new.metadata))
    shard.append(target_record(group_id, new.member_id, target))
    shard.append(current_record(group_id, new, epochs=True))


def displaced_tasks(group: StreamsGroup, member_id: str, replaced: StreamsMember | None) -> TaskSet:
    """The active tasks of another member whose id a returning static member uses. A broker frees
    them only after the request."""
    if replaced is None or replaced.member_id == member_id or member_id not in group.members:
        return frozenset()
    return group.members[member_id].assigned.active


def changes_epoch(old: StreamsMember | None, metadata: Json, instance_id: str | None) -> bool:
    """Whether new ``metadata`` of a member need a new group epoch. ``instance_id``: that of the
    request."""
    if old is None:
        return True
    if instance_id is None:
        return metadata != old.metadata
    return any(metadata[name] != old.metadata[name] for name in _BUMPING)
