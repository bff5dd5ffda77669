"""Read-only requests: ListGroups, DescribeGroups and ConsumerGroupDescribe (KIP-848)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kip848_spark.coordinator.classic import to_base64
from kip848_spark.coordinator.classic_group import DEAD, STABLE, ClassicGroup
from kip848_spark.coordinator.consumer_group import ConsumerGroup, Member
from kip848_spark.coordinator.javahash import copied_size, string_order
from kip848_spark.coordinator.records import Json
from kip848_spark.coordinator.shard import Shard, order_partitions
from kip848_spark.coordinator.target import preferred_assignor

_NOT_REQUESTED = -2147483648
"""``authorizedOperations`` if the request did not ask for them."""
_CLASSIC, _CONSUMER = 0, 1
"""``memberType`` of a described member."""


def list_groups(shard: Shard, request: Json) -> Json:
    """Every group that passes both filters; an empty filter passes every group."""
    states = {state.lower() for state in request.get("statesFilter") or ()}
    types = {kind.lower() for kind in request.get("typesFilter") or ()}
    rows = []
    for group in shard.readable_groups().values():
        if states and group.state.lower() not in states:
            continue
        if types and group.type not in types:
            continue
        protocol_type = group.type
        if isinstance(group, ClassicGroup):
            protocol_type = group.protocol_type or ""
        rows.append(
            {
                "groupId": group.group_id,
                "protocolType": protocol_type,
                "groupState": group.state,
                "groupType": group.type,
            }
        )
    return {"throttleTimeMs": 0, "errorCode": "NONE", "groups": rows}


def describe_groups(shard: Shard, request: Json, version: int) -> Json:
    """Classic groups; any other group is reported as dead."""
    rows = []
    for group_id in request.get("groups") or ():
        group = shard.readable_groups().get(group_id)
        if isinstance(group, ClassicGroup):
            rows.append(_classic(group))
        else:
            rows.append(
                {
                    "errorCode": "GROUP_ID_NOT_FOUND" if version >= 6 else "NONE",
                    "errorMessage": (
                        f"there is no classic group {group_id!r}" if version >= 6 else None
                    ),
                    "groupId": group_id,
                    "groupState": DEAD,
                    "protocolType": "",
                    "protocolData": "",
                    "members": [],
                    "authorizedOperations": _NOT_REQUESTED,
                }
            )
    return {"throttleTimeMs": 0, "groups": rows}


def _classic(group: ClassicGroup) -> Json:
    stable = group.state == STABLE
    members = [
        {
            "memberId": member.member_id,
            "groupInstanceId": member.instance_id,
            "clientId": member.client_id,
            "clientHost": member.client_host,
            "memberMetadata": to_base64(member.metadata(group.protocol)) if stable else "",
            "memberAssignment": to_base64(member.assignment),
        }
        for member in group.members.values()
    ]
    return {
        "errorCode": "NONE",
        "errorMessage": None,
        "groupId": group.group_id,
        "groupState": group.state,
        "protocolType": group.protocol_type or "",
        "protocolData": (group.protocol or "") if stable else "",
        "members": members,
        "authorizedOperations": _NOT_REQUESTED,
    }


def describe_consumer_groups(shard: Shard, request: Json) -> Json:
    """ConsumerGroupDescribe: epochs, and current and target assignment of each member."""
    rows = []
    for group_id in request.get("groupIds") or ():
        group = shard.readable_groups().get(group_id)
        row: Json = {
            "errorCode": "NONE",
            "errorMessage": None,
            "groupId": group_id,
            "groupState": "",
            "groupEpoch": 0,
            "assignmentEpoch": 0,
            "assignorName": "",
            "members": [],
            "authorizedOperations": _NOT_REQUESTED,
        }
        if isinstance(group, ConsumerGroup):
            row |= {
                "groupState": group.state,
                "groupEpoch": group.epoch,
                "assignmentEpoch": group.target_epoch,
                "assignorName": preferred_assignor(shard, group),
                "members": [_member(shard, group, m) for m in group.members.values()],
            }
        elif not group_id:
            row["errorCode"] = "INVALID_GROUP_ID"
        else:
            row |= {
                "errorCode": "GROUP_ID_NOT_FOUND",
                "errorMessage": f"there is no consumer group {group_id!r}",
            }
        rows.append(row)
    if shard.release.empty_id_fails_description and any(not row["groupId"] for row in rows):
        failed: Json = {"errorCode": "UNKNOWN_SERVER_ERROR", "groupState": "", "members": []}
        failed |= {"groupEpoch": 0, "assignmentEpoch": 0, "assignorName": ""}
        rows = [row | failed for row in rows]
    return {"throttleTimeMs": 0, "groups": rows}


def _member(shard: Shard, group: ConsumerGroup, member: Member) -> Json:
    assigned: dict[str, list[int]] = {
        topic: list(numbers) for topic, numbers in member.assigned.items()
    }
    if shard.release.describes_pending:
        for topic, numbers in member.pending.items():
            assigned.setdefault(topic, []).extend(numbers)
    current = _with_names(shard, assigned)
    target = _with_names(shard, order_partitions(group.target_of(member.member_id)))
    if shard.release.client_assignors:
        current |= group.client_side.current_of(member.member_id).fields()
        target |= group.client_side.target_of(member.member_id).fields()
    return {
        "memberId": member.member_id,
        "instanceId": member.instance_id,
        "rackId": member.rack_id,
        "memberEpoch": member.epoch,
        "clientId": member.client_id,
        "clientHost": member.client_host,
        "subscribedTopicNames": string_order(
            sorted(member.topic_names), copied_size(len(member.topic_names))
        ),
        "subscribedTopicRegex": member.regex,
        "assignment": current,
        "targetAssignment": target,
        "memberType": _CONSUMER if member.classic is None else _CLASSIC,
    }


def _with_names(shard: Shard, partitions: Mapping[str, Any]) -> Json:
    """Partitions with topic names; deleted topics are omitted."""
    return {
        "topicPartitions": [
            {
                "topicId": topic_id,
                "topicName": topic.name,
                "partitions": list(partitions[topic_id]),
            }
            for topic_id in partitions
            if (topic := shard.topics.with_id(topic_id)) is not None
        ]
    }
