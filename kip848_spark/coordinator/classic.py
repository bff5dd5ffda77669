"""The rebalance of a classic group: from "someone came or went" to "everyone has joined".

The classic protocol's page. A rebalance waits for every member to join again, for at most the
longest rebalance timeout; the first one of a group also waits a little for company. Records are
written when a generation is complete (by the leader's SyncGroup) and when the group empties.
"""

from __future__ import annotations

import base64
from typing import Any

from kip848_spark.coordinator.classic_group import (
    COMPLETING,
    DEAD,
    EMPTY,
    PREPARING,
    STABLE,
    ClassicGroup,
    ClassicMember,
    Ticket,
)
from kip848_spark.coordinator.javahash import string_order
from kip848_spark.coordinator.records import Json
from kip848_spark.coordinator.shard import Shard


def session_key(group_id: str, member_id: str) -> str:
    """The timer of a classic member's session."""
    return f"classic-session-{group_id}-{member_id}"


def join_key(group_id: str) -> str:
    """The timer that ends the wait for members to join."""
    return f"classic-join-{group_id}"


def sync_key(group_id: str) -> str:
    """The timer that ends the wait for members to sync."""
    return f"classic-sync-{group_id}"


def cancel_group_timers(shard: Shard, group: ClassicGroup) -> None:
    """Stop every timer of a group that ends."""
    shard.timers.cancel(join_key(group.group_id))
    shard.timers.cancel(sync_key(group.group_id))
    for member_id in (*group.members, *group.pending_joins):
        shard.timers.cancel(session_key(group.group_id, member_id))


# Responses


def join_response(**fields: Any) -> Json:
    """JoinGroup's response with Kafka's defaults for what is not said."""
    return {
        "throttleTimeMs": 0,
        "errorCode": "NONE",
        "generationId": -1,
        "protocolType": None,
        "protocolName": None,
        "leader": "",
        "skipAssignment": False,
        "memberId": "",
        "members": [],
        **fields,
    }


def sync_response(**fields: Any) -> Json:
    """SyncGroup's response with Kafka's defaults for what is not said."""
    return {
        "throttleTimeMs": 0,
        "errorCode": "NONE",
        "protocolType": None,
        "protocolName": None,
        "assignment": "",
        **fields,
    }


def encoded(data: bytes) -> str:
    """Bytes as JSON has them."""
    return base64.b64encode(data).decode()


def joined_response(group: ClassicGroup, member_id: str, **fields: Any) -> Json:
    """What a member learns of the generation; the leader learns everyone's metadata."""
    members = []
    if group.leader == member_id:
        members = [
            {
                "memberId": other_id,
                "groupInstanceId": group.members[other_id].instance_id,
                "metadata": encoded(group.members[other_id].metadata(group.protocol)),
            }
            for other_id in string_order(group.members)
        ]
    known = {
        "memberId": member_id,
        "generationId": group.generation,
        "protocolType": group.protocol_type,
        "protocolName": group.protocol,
        "leader": group.leader,
        "members": members,
    }
    return join_response(**(known | fields))


def complete_join(shard: Shard, member: ClassicMember, response: Json) -> None:
    """Answer a waiting JoinGroup."""
    ticket, member.join_ticket = member.join_ticket, None
    shard.answer(ticket, response)


def complete_sync(shard: Shard, member: ClassicMember, response: Json) -> bool:
    """Answer a waiting SyncGroup; whether there was one."""
    ticket: Ticket | None
    ticket, member.sync_ticket = member.sync_ticket, None
    shard.answer(ticket, response)
    return ticket is not None


def abort_waiting(shard: Shard, group: ClassicGroup) -> None:
    """The group is being converted: whoever waits is told to join again."""
    for member_id in string_order(group.members):
        member = group.members[member_id]
        complete_join(
            shard, member, join_response(memberId=member_id, errorCode="REBALANCE_IN_PROGRESS")
        )
        complete_sync(shard, member, sync_response(errorCode="REBALANCE_IN_PROGRESS"))


# Sessions


def keep_classic_session(
    shard: Shard, group: ClassicGroup, member: ClassicMember, timeout: int | None = None
) -> None:
    """(Re)start a member's session."""
    schedule_expiration(
        shard, group, member.member_id, member.session_timeout if timeout is None else timeout
    )


def schedule_expiration(shard: Shard, group: ClassicGroup, member_id: str, timeout: int) -> None:
    """End the session of a member, or the wait for one that was promised an id."""
    group_id = group.group_id

    def expire() -> None:
        current = shard.groups.get(group_id)
        if not isinstance(current, ClassicGroup) or current.state == DEAD:
            return
        if member_id in current.pending_joins:
            current.pending_joins.discard(member_id)
            if current.state == PREPARING and current.all_joined:
                complete_rebalance(shard, current)
            return
        member = current.members.get(member_id)
        if member is None:
            return
        waiting = member.join_ticket is not None or member.sync_ticket is not None
        if member.is_new or not waiting:
            expel(shard, current, member)

    shard.schedule(session_key(group_id, member_id), timeout, expire)


def expel(shard: Shard, group: ClassicGroup, member: ClassicMember) -> None:
    """A session ended: the member goes and the others rebalance."""
    complete_join(shard, member, join_response(memberId="", errorCode="UNKNOWN_MEMBER_ID"))
    group.remove(member.member_id)
    if group.state in (STABLE, COMPLETING):
        rebalance_or_complete(shard, group)
    elif group.state == PREPARING and group.all_joined:
        complete_rebalance(shard, group)


# Rebalances


def rebalance_or_complete(shard: Shard, group: ClassicGroup) -> None:
    """Someone came or changed: start a rebalance, or see whether the running one is complete."""
    if group.state in (STABLE, COMPLETING, EMPTY):
        prepare_rebalance(shard, group)
    else:
        maybe_complete(shard, group)


def maybe_complete(shard: Shard, group: ClassicGroup) -> None:
    """Complete the join phase once everyone is there (the initial one waits for its timer)."""
    if group.state == PREPARING and group.all_joined and not group.initial:
        complete_rebalance(shard, group)


def prepare_rebalance(shard: Shard, group: ClassicGroup) -> None:
    """Ask everyone to join again; a brand-new group gets some time for company first."""
    if group.state == COMPLETING:
        for member_id in string_order(group.members):
            member = group.members[member_id]
            member.assignment = b""
            if complete_sync(shard, member, sync_response(errorCode="REBALANCE_IN_PROGRESS")):
                keep_classic_session(shard, group, member)
    shard.timers.cancel(sync_key(group.group_id))
    group.initial = group.state == EMPTY
    group.enter(PREPARING, shard.now)
    if group.initial:
        delay = shard.config.number("group.initial.rebalance.delay.ms")
        _complete_initially(shard, group, delay, max(group.rebalance_timeout - delay, 0))
    elif group.all_joined:
        complete_rebalance(shard, group)
    else:
        _complete_later(shard, group)


def _complete_later(shard: Shard, group: ClassicGroup) -> None:
    group_id = group.group_id

    def complete() -> None:
        current = shard.groups.get(group_id)
        if isinstance(current, ClassicGroup):
            complete_rebalance(shard, current)

    shard.schedule(join_key(group_id), group.rebalance_timeout, complete)


def _complete_initially(shard: Shard, group: ClassicGroup, delay: int, remaining: int) -> None:
    """Wait again as long as members keep coming, within the rebalance timeout."""
    group_id = group.group_id

    def look() -> None:
        current = shard.groups.get(group_id)
        if not isinstance(current, ClassicGroup):
            return
        if current.member_added and remaining > 0:
            current.member_added = False
            first = shard.config.number("group.initial.rebalance.delay.ms")
            _complete_initially(shard, current, min(first, remaining), max(remaining - delay, 0))
        else:
            complete_rebalance(shard, current)

    shard.schedule(join_key(group_id), delay, look)


def complete_rebalance(shard: Shard, group: ClassicGroup) -> None:
    """The join phase ends: drop who did not come (static members may), start the generation."""
    shard.timers.cancel(join_key(group.group_id))
    for member_id in string_order(group.members):
        member = group.members[member_id]
        if not member.joining and member.instance_id is None:
            shard.timers.cancel(session_key(group.group_id, member_id))
            group.remove(member_id)
    if group.state == DEAD:
        return
    if not group.elect_joined_leader() and group.members:
        _complete_later(shard, group)  # only absent static members are left: wait for them
        return
    group.next_generation(shard.now)
    shard.metrics.mark("group-completed-rebalance", shard.now)
    if group.state == EMPTY:
        shard.append_only(group.to_record({}))
        return
    for member_id in string_order(group.members):
        member = group.members[member_id]
        complete_join(shard, member, joined_response(group, member_id))
        keep_classic_session(shard, group, member)
        member.is_new = False
        group.pending_syncs.add(member_id)
    _expire_syncs_later(shard, group)


def _expire_syncs_later(shard: Shard, group: ClassicGroup) -> None:
    group_id, generation = group.group_id, group.generation

    def expire() -> None:
        current = shard.groups.get(group_id)
        if not isinstance(current, ClassicGroup) or current.generation != generation:
            return
        if current.state in (COMPLETING, STABLE) and current.pending_syncs:
            for member_id in list(current.pending_syncs):
                current.remove(member_id)
                shard.timers.cancel(session_key(group_id, member_id))
            prepare_rebalance(shard, current)

    shard.schedule(sync_key(group_id), group.rebalance_timeout, expire)
