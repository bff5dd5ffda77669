"""The rebalance of a classic group: from the trigger until all members have joined.

docs/kafka-facts.md#classic-protocol. A rebalance waits until every member has rejoined, at most for
the longest rebalance timeout. The first rebalance of a group also waits for further members. A
record is written when a generation is complete (the leader's SyncGroup) and when the group becomes
empty.
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
    """Key of the timer of a classic member's session."""
    return f"classic-session-{group_id}-{member_id}"


def join_key(group_id: str) -> str:
    """Key of the timer that ends the join phase."""
    return f"classic-join-{group_id}"


def sync_key(group_id: str) -> str:
    """Key of the timer that ends the sync phase."""
    return f"classic-sync-{group_id}"


def cancel_group_timers(shard: Shard, group: ClassicGroup) -> None:
    """Cancel every timer of a group that is deleted or converted."""
    shard.timers.cancel(join_key(group.group_id))
    shard.timers.cancel(sync_key(group.group_id))
    for member_id in (*group.members, *group.pending_joins):
        shard.timers.cancel(session_key(group.group_id, member_id))


# Responses


def join_response(**fields: Any) -> Json:
    """A JoinGroup response with Kafka's defaults for the fields that are not given."""
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
    """A SyncGroup response with Kafka's defaults for the fields that are not given."""
    return {
        "throttleTimeMs": 0,
        "errorCode": "NONE",
        "protocolType": None,
        "protocolName": None,
        "assignment": "",
        **fields,
    }


def to_base64(data: bytes) -> str:
    """Bytes in the form used in JSON."""
    return base64.b64encode(data).decode()


def join_success_response(group: ClassicGroup, member_id: str, **fields: Any) -> Json:
    """The response at the end of the join phase; the leader also gets every member's metadata."""
    members = []
    if group.leader == member_id:
        members = [
            {
                "memberId": other_id,
                "groupInstanceId": group.members[other_id].instance_id,
                "metadata": to_base64(group.members[other_id].metadata(group.protocol)),
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
    """Answer a waiting JoinGroup, if there is one."""
    ticket, member.join_ticket = member.join_ticket, None
    shard.answer(ticket, response)


def complete_sync(shard: Shard, member: ClassicMember, response: Json) -> bool:
    """Answer a waiting SyncGroup; returns whether there was one."""
    ticket: Ticket | None
    ticket, member.sync_ticket = member.sync_ticket, None
    shard.answer(ticket, response)
    return ticket is not None


def abort_waiting(shard: Shard, group: ClassicGroup) -> None:
    """The group is being converted: tell members that wait for a response to rejoin."""
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
    """Start or extend a member's session."""
    schedule_expiration(
        shard, group, member.member_id, member.session_timeout if timeout is None else timeout
    )


def schedule_expiration(shard: Shard, group: ClassicGroup, member_id: str, timeout: int) -> None:
    """End a member's session, or the wait for a member that was given an id, after
    ``timeout`` ms.
    """
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
            expire_member(shard, current, member)

    shard.schedule(session_key(group_id, member_id), timeout, expire)


def expire_member(shard: Shard, group: ClassicGroup, member: ClassicMember) -> None:
    """A session ended: remove the member; the others rebalance."""
    complete_join(shard, member, join_response(memberId="", errorCode="UNKNOWN_MEMBER_ID"))
    group.remove(member.member_id)
    if group.state in (STABLE, COMPLETING):
        rebalance_or_complete(shard, group)
    elif group.state == PREPARING and group.all_joined:
        complete_rebalance(shard, group)


# Rebalances


def rebalance_or_complete(shard: Shard, group: ClassicGroup) -> None:
    """A member joined or changed: start a rebalance, or check whether the current one
    is complete.
    """
    if group.state in (STABLE, COMPLETING, EMPTY):
        prepare_rebalance(shard, group)
    else:
        maybe_complete(shard, group)


def maybe_complete(shard: Shard, group: ClassicGroup) -> None:
    """End the join phase once every member has joined (the initial one waits for its timer)."""
    if group.state == PREPARING and group.all_joined and not group.initial:
        complete_rebalance(shard, group)


def prepare_rebalance(shard: Shard, group: ClassicGroup) -> None:
    """Ask every member to rejoin; a new group first waits for further members."""
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
    """Wait again as long as members keep joining, within the rebalance timeout."""
    group_id = group.group_id

    def check() -> None:
        current = shard.groups.get(group_id)
        if not isinstance(current, ClassicGroup):
            return
        if current.member_added and remaining > 0:
            current.member_added = False
            first = shard.config.number("group.initial.rebalance.delay.ms")
            _complete_initially(shard, current, min(first, remaining), max(remaining - delay, 0))
        else:
            complete_rebalance(shard, current)

    shard.schedule(join_key(group_id), delay, check)


def complete_rebalance(shard: Shard, group: ClassicGroup) -> None:
    """End the join phase: remove dynamic members that did not rejoin, and start the generation."""
    shard.timers.cancel(join_key(group.group_id))
    for member_id in string_order(group.members):
        member = group.members[member_id]
        if not member.joining and member.instance_id is None:
            shard.timers.cancel(session_key(group.group_id, member_id))
            group.remove(member_id)
    if group.state == DEAD:
        return
    if not group.elect_joined_leader() and group.members:
        _complete_later(
            shard, group
        )  # only static members that did not rejoin are left: wait for them
        return
    group.next_generation(shard.now)
    if group.state == EMPTY:
        shard.append_only(group.to_record({}))
        return
    for member_id in string_order(group.members):
        member = group.members[member_id]
        complete_join(shard, member, join_success_response(group, member_id))
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
