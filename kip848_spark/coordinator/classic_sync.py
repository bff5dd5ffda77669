"""SyncGroup, Heartbeat and LeaveGroup of the classic protocol.

Requests to a classic group are handled here, requests to a consumer group with classic members in
:mod:`.classic_on_consumer`.
"""

from __future__ import annotations

from kip848_spark.coordinator.classic import (
    complete_join,
    complete_sync,
    join_response,
    keep_classic_session,
    maybe_complete,
    rebalance_or_complete,
    session_key,
    sync_key,
    sync_response,
    to_base64,
)
from kip848_spark.coordinator.classic_group import (
    COMPLETING,
    DEAD,
    EMPTY,
    PREPARING,
    STABLE,
    ClassicGroup,
    Ticket,
)
from kip848_spark.coordinator.classic_join import check_member
from kip848_spark.coordinator.classic_on_consumer import (
    heartbeat_consumer_group,
    leave_consumer_group,
    sync_consumer_group,
)
from kip848_spark.coordinator.consumer_group import ConsumerGroup
from kip848_spark.coordinator.consumer_protocol import assignment_bytes
from kip848_spark.coordinator.faults import GroupError
from kip848_spark.coordinator.records import Json
from kip848_spark.coordinator.shard import Shard
from kip848_spark.coordinator.share_group import ShareGroup
from kip848_spark.coordinator.streams_group import StreamsGroup


def _check_group_id(request: Json) -> str:
    group_id: str = request.get("groupId") or ""
    if not group_id:
        raise GroupError("INVALID_GROUP_ID", "the group id is empty")
    return group_id


def _group(shard: Shard, request: Json) -> ConsumerGroup | ClassicGroup:
    group_id = _check_group_id(request)
    group = shard.groups.get(group_id)
    if group is None or isinstance(group, ShareGroup | StreamsGroup):
        raise GroupError("UNKNOWN_MEMBER_ID", f"there is no group {group_id!r}")
    return group


def sync(shard: Shard, request: Json, ticket: Ticket) -> None:
    """Answer a SyncGroup: at once in a stable group, else when the leader has sent the
    assignment.
    """
    group = _group(shard, request)
    if isinstance(group, ConsumerGroup):
        shard.answer(ticket, sync_consumer_group(shard, group, request))
        return
    if group.state == DEAD:
        raise GroupError("COORDINATOR_NOT_AVAILABLE", f"group {group.group_id!r} is dead")
    member_id = request.get("memberId") or ""
    check_member(group, member_id, request.get("groupInstanceId"))
    if request["generationId"] != group.generation:
        raise GroupError("ILLEGAL_GENERATION", f"the generation is {group.generation}")
    for name, own in (("protocolType", group.protocol_type), ("protocolName", group.protocol)):
        if request.get(name) is not None and request[name] != own:
            raise GroupError("INCONSISTENT_GROUP_PROTOCOL", f"{name} is {own!r}")
    if group.state == EMPTY:
        raise GroupError("UNKNOWN_MEMBER_ID", f"group {group.group_id!r} is empty")
    if group.state == PREPARING:
        raise GroupError("REBALANCE_IN_PROGRESS", "the member must rejoin")
    group.pending_syncs.discard(member_id)
    if not group.pending_syncs:
        shard.timers.cancel(sync_key(group.group_id))
    member = group.member(member_id)
    if group.state == STABLE:
        shard.answer(ticket, _sync_success(group, member.assignment))
        return
    member.sync_ticket = ticket
    if group.leader == member_id:
        _install(shard, group, request)


def _install(shard: Shard, group: ClassicGroup, request: Json) -> None:
    """Write the leader's assignment and send it to the members; the group becomes stable."""
    given = {
        row["memberId"]: assignment_bytes(row.get("assignment"))
        for row in request.get("assignments") or ()
    }
    shard.append_only(group.to_record(given))
    for member_id, member in group.members.items():
        member.assignment = given.get(member_id, b"")
        if complete_sync(shard, member, _sync_success(group, member.assignment)):
            keep_classic_session(shard, group, member)
    group.enter(STABLE, shard.now)
    shard.metrics.mark("group-completed-rebalance", shard.now)


def _sync_success(group: ClassicGroup, assignment: bytes) -> Json:
    return sync_response(
        protocolType=group.protocol_type,
        protocolName=group.protocol,
        assignment=to_base64(assignment),
    )


def classic_heartbeat(shard: Shard, request: Json) -> Json:
    """Extend a session; REBALANCE_IN_PROGRESS tells the member to rejoin."""
    group = _group(shard, request)
    code = "NONE"
    if isinstance(group, ConsumerGroup):
        code = heartbeat_consumer_group(shard, group, request)
    else:
        if group.state == DEAD:
            raise GroupError("COORDINATOR_NOT_AVAILABLE", f"group {group.group_id!r} is dead")
        member_id = request.get("memberId") or ""
        check_member(group, member_id, request.get("groupInstanceId"))
        if request["generationId"] != group.generation:
            raise GroupError("ILLEGAL_GENERATION", f"the generation is {group.generation}")
        if group.state == EMPTY:
            raise GroupError("UNKNOWN_MEMBER_ID", f"group {group.group_id!r} is empty")
        keep_classic_session(shard, group, group.member(member_id))
        if group.state == PREPARING:
            code = "REBALANCE_IN_PROGRESS"
    return {"throttleTimeMs": 0, "errorCode": code}


def leave_group(shard: Shard, request: Json) -> Json:
    """Remove members by member id, or by instance id alone (as an administrator does)."""
    identities = request.get("members")
    if identities is None:
        identities = [{"memberId": request.get("memberId") or ""}]
    group = shard.groups.get(request.get("groupId") or "")
    if group is None or isinstance(group, ShareGroup | StreamsGroup):
        _check_group_id(request)
        rows = [_leave_row(identity, "UNKNOWN_MEMBER_ID") for identity in identities]
    elif isinstance(group, ConsumerGroup):
        rows = leave_consumer_group(shard, group, identities)
    else:
        if group.state == DEAD:
            raise GroupError("COORDINATOR_NOT_AVAILABLE", f"group {group.group_id!r} is dead")
        rows = [_leave(shard, group, identity) for identity in identities]
        if any(row["errorCode"] == "NONE" for row in rows):
            if group.state in (STABLE, COMPLETING):
                rebalance_or_complete(shard, group)
            elif group.state == PREPARING:
                maybe_complete(shard, group)
    return {"throttleTimeMs": 0, "errorCode": "NONE", "members": rows}


def _leave_row(identity: Json, code: str) -> Json:
    return {
        "memberId": identity.get("memberId") or "",
        "groupInstanceId": identity.get("groupInstanceId"),
        "errorCode": code,
    }


def _leave(shard: Shard, group: ClassicGroup, identity: Json) -> Json:
    member_id = identity.get("memberId") or ""
    instance_id = identity.get("groupInstanceId")
    row = _leave_row(identity, "NONE")
    try:
        if not member_id:
            if instance_id is None or instance_id not in group.static_ids:
                raise GroupError("UNKNOWN_MEMBER_ID", "neither id is known")
            member_id = group.static_ids[instance_id]
        elif member_id in group.pending_joins:
            group.pending_joins.discard(member_id)
            shard.timers.cancel(session_key(group.group_id, member_id))
            return row
        else:
            check_member(group, member_id, instance_id)
    except GroupError as bad:
        return row | {"errorCode": bad.code}
    member = group.member(member_id)
    shard.timers.cancel(session_key(group.group_id, member_id))
    complete_join(shard, member, join_response(memberId="", errorCode="UNKNOWN_MEMBER_ID"))
    complete_sync(shard, member, sync_response(errorCode="UNKNOWN_MEMBER_ID"))
    group.remove(member_id)
    return row
