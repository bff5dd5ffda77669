"""ConsumerGroupDescribe, ShareGroupDescribe and StreamsGroupDescribe (KIP-848, KIP-932, KIP-1071).

The three answers have one frame: a row for each group with its state and epochs, or with an error,
and in it a row for each member.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from kip848_spark.coordinator.consumer_group import ConsumerGroup, Member
from kip848_spark.coordinator.javahash import copied_size, string_order
from kip848_spark.coordinator.partition_state import AnyGroup
from kip848_spark.coordinator.records import Json
from kip848_spark.coordinator.shard import Shard, order_partitions
from kip848_spark.coordinator.share_group import ShareGroup, ShareMember
from kip848_spark.coordinator.streams_group import (
    ROLES,
    StreamsGroup,
    StreamsMember,
    Tasks,
    task_rows,
)
from kip848_spark.coordinator.target import preferred_assignor

NOT_REQUESTED = -2147483648
"""``authorizedOperations`` if the request did not ask for them."""
_CLASSIC, _CONSUMER = 0, 1
"""``memberType`` of a described member."""

DescribeGroup = Callable[[AnyGroup], Json | None]
"""The fields of a group beside the error; None for a group of another type."""


def _describe(
    request: Json, shard: Shard, kind: str, empty: Json, described: DescribeGroup
) -> Json:
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
            **empty,
            "members": [],
            "authorizedOperations": NOT_REQUESTED,
        }
        fields = None if group is None else described(group)
        if group is not None and fields is not None:
            row |= {"groupState": group.state, **fields}
        elif not group_id:
            row["errorCode"] = "INVALID_GROUP_ID"
        else:
            row |= {
                "errorCode": "GROUP_ID_NOT_FOUND",
                "errorMessage": f"there is no {kind} group {group_id!r}",
            }
        rows.append(row)
    return {"throttleTimeMs": 0, "groups": rows}


def describe_consumer_groups(shard: Shard, request: Json) -> Json:
    """ConsumerGroupDescribe: epochs, and current and target assignment of each member."""

    def described(group: AnyGroup) -> Json | None:
        if not isinstance(group, ConsumerGroup):
            return None
        return {
            "groupEpoch": group.epoch,
            "assignmentEpoch": group.target_epoch,
            "assignorName": preferred_assignor(shard, group),
            "members": [_member(shard, group, m) for m in group.members.values()],
        }

    answer = _describe(request, shard, "consumer", {"assignorName": ""}, described)
    rows: list[Json] = answer["groups"]
    if shard.release.empty_id_fails_description and any(not row["groupId"] for row in rows):
        failed: Json = {"errorCode": "UNKNOWN_SERVER_ERROR", "groupState": "", "members": []}
        failed |= {"groupEpoch": 0, "assignmentEpoch": 0, "assignorName": ""}
        answer["groups"] = [row | failed for row in rows]
    return answer


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


def describe_share_groups(shard: Shard, request: Json) -> Json:
    """ShareGroupDescribe: epochs and the current assignment of each member."""

    def described(group: AnyGroup) -> Json | None:
        if not isinstance(group, ShareGroup):
            return None
        return {
            "groupEpoch": group.epoch,
            "assignmentEpoch": group.target_epoch,
            "assignorName": "simple",
            "members": [_share_member(shard, member) for member in group.members.values()],
        }

    return _describe(request, shard, "share", {"assignorName": ""}, described)


def _share_member(shard: Shard, member: ShareMember) -> Json:
    return {
        "memberId": member.member_id,
        "rackId": member.rack_id,
        "memberEpoch": member.epoch,
        "clientId": member.client_id,
        "clientHost": member.client_host,
        "subscribedTopicNames": sorted(member.topic_names),
        "assignment": _with_names(shard, member.assigned),
    }


def describe_streams_groups(shard: Shard, request: Json) -> Json:
    """StreamsGroupDescribe: epochs, the topology, and the current and target tasks of members."""

    def described(group: AnyGroup) -> Json | None:
        if not isinstance(group, StreamsGroup):
            return None
        return {
            "groupEpoch": group.epoch,
            "assignmentEpoch": group.target_epoch,
            "topology": _topology(shard, group),
            "members": [_thread(group, member) for member in group.members.values()],
        }

    return _describe(request, shard, "streams", {"topology": None}, described)


def _topology(shard: Shard, group: StreamsGroup) -> Json | None:
    """The group's topology in order; if it is ready, with the partitions of its internal topics."""
    if group.topology is None:
        return None
    ready = group.configured is not None and group.configured.ready
    visible = group.sizes_after is not None and shard.log_end > group.sizes_after
    topics = shard.topics if ready and visible else None

    def internal(rows: list[Json]) -> list[Json]:
        found = {row["name"]: topics.named(row["name"]) if topics else None for row in rows}
        sizes = {name: topic.partitions for name, topic in found.items() if topic is not None}
        sized = (row | {"partitions": sizes.get(row["name"], row["partitions"])} for row in rows)
        return sorted(sized, key=lambda row: str(row["name"]))

    rows = [
        {
            "subtopologyId": row["subtopologyId"],
            "sourceTopics": sorted(row["sourceTopics"]),
            "repartitionSinkTopics": sorted(row["repartitionSinkTopics"]),
            "stateChangelogTopics": internal(row["stateChangelogTopics"]),
            "repartitionSourceTopics": internal(row["repartitionSourceTopics"]),
        }
        for row in group.topology["subtopologies"]
    ]
    rows.sort(key=lambda row: str(row["subtopologyId"]))
    return {"epoch": group.topology["epoch"], "subtopologies": rows}


def _thread(group: StreamsGroup, member: StreamsMember) -> Json:
    metadata = member.metadata
    copied = ("rackId", "clientId", "clientHost", "topologyEpoch", "processId", "userEndpoint")
    return {
        "memberId": member.member_id,
        "memberEpoch": member.epoch,
        "instanceId": member.instance_id,
        **{name: metadata[name] for name in copied},
        "clientTags": metadata["clientTags"],
        "taskOffsets": [],
        "taskEndOffsets": [],
        "assignment": _tasks(member.assigned),
        "targetAssignment": _tasks(group.target_of(member.member_id)),
        "isClassic": False,
    }


def _tasks(tasks: Tasks) -> Json:
    return {role: task_rows(own) for role, own in zip(ROLES, tasks, strict=True)}
