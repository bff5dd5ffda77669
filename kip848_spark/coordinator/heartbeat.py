"""ConsumerGroupHeartbeat: the one request of the new protocol (KIP-848 "ConsumerGroupHeartbeat
API").

Read :func:`heartbeat` from top to bottom: validate the request, find the group and the member,
update the member's metadata, bump the epoch if that calls for a new assignment, compute the target,
take one step towards it, answer. Records are written in the same order
(docs/kafka-facts.md#operations).
"""

from __future__ import annotations

from typing import Any

from kip848_spark.coordinator.client_assignors import (
    assignment_of,
    check_assignors,
    common_assignor,
    gives_reason,
    must_compute,
)
from kip848_spark.coordinator.config import HEARTBEAT
from kip848_spark.coordinator.consumer_group import JOIN, STATIC_LEAVE, ConsumerGroup, Member
from kip848_spark.coordinator.consumer_group import MemberState as State
from kip848_spark.coordinator.faults import GroupError
from kip848_spark.coordinator.member_timers import rebalance_key
from kip848_spark.coordinator.membership import (
    check_not_full,
    is_leave,
    joining_member,
    leave,
    replace_member,
)
from kip848_spark.coordinator.reconcile import Goal, Owned, reconcile
from kip848_spark.coordinator.records import Json
from kip848_spark.coordinator.sessions import await_revocation, keep_session
from kip848_spark.coordinator.shard import Client, Shard, owned_partitions, partition_rows
from kip848_spark.coordinator.subscriptions import (
    RegexChange,
    drop_unused_regex,
    maybe_resolve,
    refresh_metadata,
    regex_change,
)
from kip848_spark.coordinator.target import (
    EMPTY_SNAPSHOT,
    GroupSnapshot,
    changes_assignor,
    may_compute,
    needs_no_target,
    take_snapshot,
    update_target,
)
from kip848_spark.coordinator.upgrade import group_to_join


def heartbeat(shard: Shard, request: Json, client: Client, version: int = 1) -> Json:
    """Answer a heartbeat, and append the records that it causes."""
    validate(shard, request, version)
    if is_leave(request["memberEpoch"]):
        left = response(**leave(shard, request))
        return left | ({"shouldComputeAssignment": False} if shard.release.client_assignors else {})
    epoch = request["memberEpoch"]
    owned = owned_partitions(request.get("topicPartitions"))
    member_id = request.get("memberId") or ""

    instance_id = request.get("instanceId")
    group, member_order = group_to_join(
        shard, request["groupId"], member_id, instance_id, joins=epoch == JOIN
    )
    check_not_full(shard, group, member_id, instance_id)
    member_id = member_id or shard.new_uuid()
    before, replaced = joining_member(
        shard, group, member_id, instance_id, epoch=epoch, owned=owned
    )
    after = update_member(before, request, client)
    change = regex_change(before, after, group)

    shard.groups[group.group_id] = group
    changed = replaced is not None or after.metadata() != before.metadata()
    idle = needs_no_target(shard, group) and not changed
    if idle and shard.release.assignor_votes_bump:
        idle = not any(member.server_assignor for member in group.members.values())
    snapshot = EMPTY_SNAPSHOT if idle else take_snapshot(group, before, member_order)
    resolved = dict(group.resolved)
    had_regexes = bool(group.regex_counts)
    if replaced is not None:
        replace_member(shard, group, replaced, before)
    if after.metadata() != before.metadata():
        shard.append(group.member_record(after))
    if change is not RegexChange.NONE:
        drop_unused_regex(shard, group, before.regex)
    requested = bool(after.regex) or had_regexes
    maybe_resolve(shard, group, resolved, requested=requested)
    names_changed = before.topic_names != after.topic_names
    bump = (
        names_changed
        or before.client_assignors != after.client_assignors
        or gives_reason(request)
        or change is RegexChange.UPDATED_AND_RESOLVED
        or (group.epoch == 0 and shard.release.bumps_fresh_group)
        or (
            shard.release.assignor_votes_bump
            and changes_assignor(shard, group, snapshot, member_id)
        )
    )
    member = advance(
        shard,
        group,
        member_id,
        owned,
        snapshot,
        bump=bump,
        subscription_changed=names_changed or change is not RegexChange.NONE,
    )
    keep_session(shard, group, member)

    full = epoch == JOIN or (
        request.get("rebalanceTimeoutMs", -1) != -1
        and (
            request.get("subscribedTopicNames") is not None
            or request.get("subscribedTopicRegex") is not None
        )
        and owned is not None
    )
    include_assignment = full or before.assigned != member.assigned
    answer = response(
        memberId=member_id,
        memberEpoch=member.epoch,
        heartbeatIntervalMs=shard.config.for_group(group.group_id, HEARTBEAT),
        assignment={"topicPartitions": partition_rows(member.assigned)}
        if include_assignment
        else None,
    )
    if shard.release.client_assignors:
        given = assignment_of(group, member)
        if before.epoch != member.epoch:  # the assignor's metadata are new with each epoch
            beside = given["error"] or given["metadataBytes"] or given["pendingTopicPartitions"]
            include_assignment = include_assignment or bool(beside)
        answer["assignment"] = given if include_assignment else None
        answer["shouldComputeAssignment"] = must_compute(shard, group, member_id)
    return answer


def advance(
    shard: Shard,
    group: ConsumerGroup,
    member_id: str,
    owned: Owned,
    snapshot: GroupSnapshot,
    *,
    bump: bool,
    subscription_changed: bool,
) -> Member:
    """Bump the epoch, compute the target and take one step: the end of every member's request."""
    refreshes = bump or shard.now >= group.metadata_deadline
    if refreshes:
        refresh_metadata(shard, group, bump=bump)
    by_client = shard.release.client_assignors and common_assignor(group) is not None
    if group.target_epoch < group.epoch and may_compute(shard, group) and not by_client:
        update_target(shard, group, snapshot, member_id, refreshed=refreshes)

    before = group.members[member_id]
    subscribed = None
    if shard.release.masks_lost_topics:
        subscribed = shard.topics.ids_of(group.topics_of(before))
    goal = Goal(
        group.target_epoch,
        group.target_of(member_id),
        subscribed,
        subscription_changed,
        group.owner_epoch,
        shard.release,
    )
    member = reconcile(before, goal, owned)
    if member is not before and member != before:
        shard.append(group.current_record(member))
        if member.classic is None:
            if member.state is State.UNREVOKED_PARTITIONS:
                await_revocation(shard, group, member)
            else:
                shard.timers.cancel(rebalance_key(group.group_id, member_id))
    return member


def update_member(member: Member, request: Json, client: Client) -> Member:
    """The member with the fields of the request; ``None`` and -1 mean unchanged."""
    changes: dict[str, Any] = {
        "client_id": client.client_id,
        "client_host": client.host,
        "classic": None,
    }
    for field, name in (
        ("instance_id", "instanceId"),
        ("rack_id", "rackId"),
        ("server_assignor", "serverAssignor"),
        ("regex", "subscribedTopicRegex"),
    ):
        if request.get(name) is not None:
            changes[field] = request[name]
    if request.get("rebalanceTimeoutMs", -1) != -1:
        changes["rebalance_timeout"] = request["rebalanceTimeoutMs"]
    if request.get("subscribedTopicNames") is not None:
        changes["topic_names"] = frozenset(request["subscribedTopicNames"])
    if request.get("clientAssignors") is not None:
        changes["client_assignors"] = tuple(dict(row) for row in request["clientAssignors"])
    return member._replace(**changes)


def validate(shard: Shard, request: Json, version: int) -> None:
    """Raise INVALID_REQUEST and similar errors (KIP-848 "Request Validation";
    docs/kafka-facts.md#errors).
    """
    if not shard.config.consumer_protocol:
        raise GroupError("UNSUPPORTED_VERSION", "the consumer protocol is disabled")
    epoch = request.get("memberEpoch", 0)
    request.setdefault("memberEpoch", epoch)
    _check_not_blank(request.get("groupId") or "", "groupId")
    if version >= 1 or epoch > 0 or epoch == -1:
        _check_not_blank(request.get("memberId") or "", "memberId")
    for name in ("instanceId", "rackId"):
        if request.get(name) is not None:
            _check_not_blank(request[name], name)
    if epoch < STATIC_LEAVE:
        raise GroupError("INVALID_REQUEST", f"member epoch {epoch} is below -2")
    if epoch == STATIC_LEAVE and request.get("instanceId") is None:
        raise GroupError("INVALID_REQUEST", "a temporary leave (epoch -2) requires an instance id")
    if epoch == JOIN:
        if request.get("rebalanceTimeoutMs", -1) == -1:
            raise GroupError("INVALID_REQUEST", "a joining member must set a rebalance timeout")
        if request.get("topicPartitions") is None or request["topicPartitions"]:
            raise GroupError(
                "INVALID_REQUEST", "a joining member must send an empty list of owned partitions"
            )
        if request.get("subscribedTopicNames") is None and (
            request.get("subscribedTopicRegex") is None
        ):
            raise GroupError(
                "INVALID_REQUEST",
                "a joining member must subscribe to topics or a regular expression",
            )
    check_assignors(shard, request)
    assignor = request.get("serverAssignor")
    if assignor is not None and assignor not in shard.config.assignors:
        raise GroupError(
            "UNSUPPORTED_ASSIGNOR",
            f"assignor {assignor!r} is not one of {', '.join(shard.config.assignors)}",
        )


def _check_not_blank(text: str, name: str) -> None:
    if not text.strip():
        raise GroupError("INVALID_REQUEST", f"{name} is blank")


def response(**fields: Any) -> Json:
    """A heartbeat response with Kafka's defaults for the fields that are not given."""
    return {
        "throttleTimeMs": 0,
        "errorCode": "NONE",
        "errorMessage": None,
        "memberId": None,
        "memberEpoch": 0,
        "heartbeatIntervalMs": 0,
        "assignment": None,
        **fields,
    }
