"""JoinGroup to a classic group (docs/kafka-facts.md#classic-protocol; static members: KIP-345)."""

from __future__ import annotations

from kip848_spark.coordinator.classic import (
    complete_join,
    complete_sync,
    join_response,
    join_success_response,
    keep_classic_session,
    maybe_complete,
    prepare_rebalance,
    rebalance_or_complete,
    schedule_expiration,
    session_key,
    sync_response,
)
from kip848_spark.coordinator.classic_group import (
    COMPLETING,
    DEAD,
    EMPTY,
    PREPARING,
    STABLE,
    ClassicGroup,
    ClassicMember,
    Ticket,
    empty_record,
)
from kip848_spark.coordinator.classic_on_consumer import join_consumer_group
from kip848_spark.coordinator.config import CLASSIC_JOIN_TIMEOUT_MS
from kip848_spark.coordinator.consumer_group import ConsumerGroup
from kip848_spark.coordinator.faults import GroupError
from kip848_spark.coordinator.join_request import MEMBER_ID_REQUIRED_FROM, read_protocols
from kip848_spark.coordinator.records import Json
from kip848_spark.coordinator.shard import ApiCall, Shard
from kip848_spark.coordinator.share_group import ShareGroup
from kip848_spark.coordinator.streams_group import StreamsGroup
from kip848_spark.coordinator.streams_heartbeat import delete_streams_group
from kip848_spark.coordinator.tombstones import append_consumer_group_tombstones

_SKIPS_ASSIGNMENT_FROM = 9


def join(shard: Shard, call: ApiCall) -> None:
    """Answer a JoinGroup, at once or when the join phase completes."""
    request = call.request
    group_id = request.get("groupId") or ""
    if not group_id:
        raise GroupError("INVALID_GROUP_ID", "the group id is empty")
    timeout = request["sessionTimeoutMs"]
    least = shard.config.number("group.min.session.timeout.ms")
    most = shard.config.number("group.max.session.timeout.ms")
    if not least <= timeout <= most:
        raise GroupError("INVALID_SESSION_TIMEOUT", f"{timeout} is not between {least} and {most}")
    existing = shard.groups.get(group_id)
    if isinstance(existing, ShareGroup) or (
        isinstance(existing, StreamsGroup)
        and (existing.members or not shard.release.streams_configs)
    ):
        # As that of a consumer group, this refusal does not contain the member id.
        shard.answer(call.ticket, join_response(errorCode="INCONSISTENT_GROUP_PROTOCOL"))
        return
    if isinstance(existing, ConsumerGroup) and existing.members:
        try:
            join_consumer_group(shard, existing, call)
        except GroupError as bad:  # this refusal does not contain the member id
            shard.answer(call.ticket, join_response(errorCode=bad.code))
        return

    member_id = request.get("memberId") or ""
    if existing is None or isinstance(existing, ConsumerGroup | StreamsGroup):
        if member_id:
            shard.forget_group(group_id)
            raise GroupError("UNKNOWN_MEMBER_ID", f"group {group_id!r} has no members")
        if isinstance(existing, ConsumerGroup):
            append_consumer_group_tombstones(shard, existing)
        elif existing is not None:
            delete_streams_group(shard, existing)
        group, is_new = shard.new_classic_group(group_id), True
    else:
        group, is_new = existing, False
    started = len(shard.output.records)
    try:
        _join(shard, group, call)
    finally:  # a new group is written even if the join was refused
        if is_new and len(shard.output.records) == started:
            shard.append_only(empty_record(group))


def _join(shard: Shard, group: ClassicGroup, call: ApiCall) -> None:
    request, version, ticket = call.request, call.version, call.ticket
    member_id = request.get("memberId") or ""
    if not _has_room(shard, group, member_id):
        group.remove(member_id)
        raise GroupError("GROUP_MAX_SIZE_REACHED", f"group {group.group_id!r} is full")
    if group.state == DEAD:
        raise GroupError("COORDINATOR_NOT_AVAILABLE", f"group {group.group_id!r} is dead")
    protocols = read_protocols(request)
    if not group.supports(request.get("protocolType") or "", {name for name, _ in protocols}):
        raise GroupError("INCONSISTENT_GROUP_PROTOCOL", "no protocol is common to all members")
    instance_id = request.get("groupInstanceId")
    if not member_id:
        new_id = f"{instance_id or call.client.client_id}-{shard.new_java_uuid()}"
        if instance_id is not None:
            old_id = group.static_ids.get(instance_id)
            if old_id is None:
                _add(shard, group, call, new_id)
            else:
                _replace_static(shard, group, call, old_id, new_id)
        elif version >= MEMBER_ID_REQUIRED_FROM:
            group.pending_joins.add(new_id)
            schedule_expiration(shard, group, new_id, request["sessionTimeoutMs"])
            shard.answer(ticket, join_response(memberId=new_id, errorCode="MEMBER_ID_REQUIRED"))
        else:
            _add(shard, group, call, new_id)
    elif member_id in group.pending_joins:
        _add(shard, group, call, member_id)
    else:
        check_member(group, member_id, instance_id)
        _rejoin(shard, group, group.member(member_id), request, ticket)


def check_member(group: ClassicGroup, member_id: str, instance_id: str | None) -> None:
    """Raise UNKNOWN_MEMBER_ID or FENCED_INSTANCE_ID unless both ids belong to one
    member of the group.
    """
    if instance_id is not None:
        holder = group.static_ids.get(instance_id)
        if holder is None:
            raise GroupError("UNKNOWN_MEMBER_ID", f"no member has instance id {instance_id!r}")
        if holder != member_id:
            raise GroupError(
                "FENCED_INSTANCE_ID", f"instance id {instance_id!r} belongs to {holder!r}"
            )
    group.member(member_id)


def _has_room(shard: Shard, group: ClassicGroup, member_id: str) -> bool:
    most = shard.config.number("group.max.size")
    if group.state in (EMPTY, DEAD):
        return True
    member = group.members.get(member_id)
    if group.state == PREPARING:
        joined = sum(other.joining for other in group.members.values())
        return (member is not None and member.joining) or joined < most
    return member is not None or len(group.members) < most


def _add(shard: Shard, group: ClassicGroup, call: ApiCall, member_id: str) -> None:
    """Add a new member; it must complete its first join within five minutes."""
    request, client = call.request, call.client
    if group.state == PREPARING and group.initial:
        group.member_added = True
    member = ClassicMember(
        member_id,
        request.get("groupInstanceId"),
        client.client_id,
        client.host,
        _rebalance_timeout(request),
        request["sessionTimeoutMs"],
        request["protocolType"],
        read_protocols(request),
        join_ticket=call.ticket,
        is_new=True,
    )
    group.add(member)
    keep_classic_session(shard, group, member, CLASSIC_JOIN_TIMEOUT_MS)
    rebalance_or_complete(shard, group)


def _rebalance_timeout(request: Json) -> int:
    timeout: int = request.get("rebalanceTimeoutMs", -1)
    return request["sessionTimeoutMs"] if timeout == -1 else timeout


def _update(member: ClassicMember, request: Json, ticket: Ticket) -> None:
    member.protocols = read_protocols(request)
    member.rebalance_timeout = _rebalance_timeout(request)
    member.session_timeout = request["sessionTimeoutMs"]
    member.join_ticket = ticket


def _rejoin(
    shard: Shard, group: ClassicGroup, member: ClassicMember, request: Json, ticket: Ticket
) -> None:
    """A known member joins: a rebalance follows if it is the leader, changed, or one is
    in progress.
    """
    same = read_protocols(request) == member.protocols
    if group.state == EMPTY:
        raise GroupError("UNKNOWN_MEMBER_ID", f"group {group.group_id!r} is empty")
    if (group.state == COMPLETING and same) or (
        group.state == STABLE and same and group.leader != member.member_id
    ):
        shard.answer(ticket, join_success_response(group, member.member_id))
        return
    _update(member, request, ticket)  # an earlier join that still waits is never answered (4.3.1)
    rebalance_or_complete(shard, group)


def _replace_static(
    shard: Shard, group: ClassicGroup, call: ApiCall, old_id: str, new_id: str
) -> None:
    """A static member returns with a new id: in a stable group no rebalance is needed."""
    leader_before = group.leader
    old = group.members[old_id]
    complete_join(shard, old, join_response(memberId=old_id, errorCode="FENCED_INSTANCE_ID"))
    complete_sync(shard, old, sync_response(errorCode="FENCED_INSTANCE_ID"))
    member = group.rename(old_id, new_id)
    shard.timers.cancel(session_key(group.group_id, old_id))
    keep_classic_session(shard, group, member)
    _update(member, call.request, call.ticket)
    if group.state == STABLE and group.select_protocol() == group.protocol:
        shard.append_only(group.to_record())
        leads = group.leader == new_id
        if call.version >= _SKIPS_ASSIGNMENT_FROM:
            response = join_success_response(group, new_id, skipAssignment=leads)
        else:
            response = join_success_response(group, new_id, leader=leader_before, members=[])
        complete_join(shard, member, response)
    elif group.state == STABLE:
        rebalance_or_complete(shard, group)
    elif group.state == COMPLETING:
        prepare_rebalance(shard, group)
    else:
        maybe_complete(shard, group)
