"""OffsetFetch: the committed offsets of groups (KIP-848 "OffsetFetch API")."""

from __future__ import annotations

from kip848_spark.coordinator.consumer_group import ConsumerGroup
from kip848_spark.coordinator.faults import GroupError
from kip848_spark.coordinator.offset_store import TopicPartition
from kip848_spark.coordinator.offsets import epoch_error, find_topic
from kip848_spark.coordinator.records import Json
from kip848_spark.coordinator.shard import Shard
from kip848_spark.coordinator.streams_group import StreamsGroup

_TOPIC_IDS_FROM = 10
"""The OffsetFetch version from which on topics are named by id."""
_NO_OFFSET = -1


def fetch(shard: Shard, request: Json, version: int) -> Json:
    """OffsetFetch for any number of groups; without topics it returns all of them."""
    stable = bool(request.get("requireStable", False))
    requested = request.get("groups")
    if requested is None:
        requested = [{"groupId": request["groupId"], "topics": request.get("topics")}]
    return {
        "throttleTimeMs": 0,
        "groups": [_fetch_group(shard, group, stable, version) for group in requested],
    }


def _fetch_group(shard: Shard, request: Json, stable: bool, version: int) -> Json:
    group_id = request["groupId"]
    group = shard.readable_groups().get(group_id)
    try:
        if isinstance(group, ConsumerGroup | StreamsGroup):
            _check_member(group, request)
    except GroupError as bad:
        return {"groupId": group_id, "topics": [], "errorCode": bad.code}
    topics, all_topics = request.get("topics"), False
    if topics is None:
        all_topics = True
        topics = _all_topics(shard, group_id, by_id=version >= _TOPIC_IDS_FROM)
    rows, unknown = [], []
    for requested in topics:
        name, topic_id = requested.get("name") or "", None
        row: Json = {key: requested[key] for key in ("name", "topicId") if key in requested}
        if "topicId" in requested:
            topic, missing = find_topic(shard, requested)
            if topic is None:
                parts = [_empty_row(number, missing) for number in requested["partitionIndexes"]]
                unknown.append({**row, "partitions": parts})
                continue
            # Only an offset that was asked for by id has to be one of this topic (4.3.1).
            name, topic_id = topic.name, None if all_topics else topic.topic_id
        parts = [
            _partition_row(shard, group_id, (name, number), topic_id, stable)
            for number in requested["partitionIndexes"]
        ]
        rows.append({**row, "partitions": parts})
    return {"groupId": group_id, "topics": rows + unknown, "errorCode": "NONE"}


def _all_topics(shard: Shard, group_id: str, *, by_id: bool) -> list[Json]:
    """Every partition with a committed offset. By id, topics that do not exist are left out."""
    if group_id not in shard.readable_groups():
        return []
    partitions: dict[str, list[int]] = {}
    for name, number in shard.offsets.walk(group_id):
        partitions.setdefault(name, []).append(number)
    if not by_id:
        return [{"name": name, "partitionIndexes": partitions[name]} for name in partitions]
    return [
        {"topicId": topic.topic_id, "partitionIndexes": partitions[name]}
        for name in partitions
        if (topic := shard.topics.named(name)) is not None
    ]


def _check_member(group: ConsumerGroup | StreamsGroup, request: Json) -> None:
    member_id, epoch = request.get("memberId"), request.get("memberEpoch", -1)
    if member_id is None and epoch < 0:
        return
    member = group.member(member_id or "")
    if epoch != member.epoch:
        raise epoch_error(member, f"epoch {epoch} is not the member's {member.epoch}")


def _partition_row(
    shard: Shard, group_id: str, partition: TopicPartition, topic_id: str | None, stable: bool
) -> Json:
    """One partition. An offset of another topic of that name does not count; nor does one of a
    group that the coordinator has forgotten.
    """
    offset = (
        shard.offsets.group(group_id).get(partition)
        if group_id in shard.readable_groups()
        else None
    )
    if stable and shard.offsets.is_pending(group_id, partition):
        return _empty_row(partition[1], "UNSTABLE_OFFSET_COMMIT")
    if offset is None or (topic_id is not None and offset.topic_id not in (None, topic_id)):
        return _empty_row(partition[1], "NONE")
    return {
        "partitionIndex": partition[1],
        "committedOffset": offset.offset,
        "committedLeaderEpoch": offset.leader_epoch,
        "metadata": offset.metadata,
        "errorCode": "NONE",
    }


def _empty_row(number: int, code: str) -> Json:
    return {
        "partitionIndex": number,
        "committedOffset": _NO_OFFSET,
        "committedLeaderEpoch": -1,
        "metadata": "",
        "errorCode": code,
    }
