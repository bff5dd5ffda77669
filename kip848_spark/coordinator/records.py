"""The records of ``__consumer_offsets`` in the form that ``kip848 dump`` prints.

A record is ``{"key": {"type", "data"}, "value": {"version", "data"} | None}``; ``None`` is a
tombstone. There is one function per record type. Fields have Kafka's names and order (KIP-848
"Records"; docs/kafka-facts.md#record-layouts).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

Json = dict[str, Any]
Record = dict[str, Any]
Partitions = dict[str, dict[int, int]]
"""Assigned partitions: topic id -> partition -> assignment epoch (0 where none is kept)."""
TargetPartitions = Mapping[str, Iterable[int]]

OFFSET = "1"
CLASSIC_GROUP = "2"
GROUP = "3"
TOPICS = "4"
MEMBER = "5"
TARGET_EPOCH = "6"
TARGET_MEMBER = "7"
CURRENT = "8"
REGEX = "16"


def record(kind: str, version: int, key: Json, value: Json | None) -> Record:
    """Build a record from its parts."""
    return {
        "key": {"type": kind, "data": key},
        "value": None if value is None else {"version": str(version), "data": value},
    }


def tombstone(kind: str, **key: Any) -> Record:
    """Build the tombstone of a key."""
    return record(kind, 0, key, None)


def group_epoch(group_id: str, epoch: int, metadata_hash: int | None) -> Record:
    """Key 3: the group's epoch and, from 4.1 on, the hash of its topics' metadata."""
    value: Json = {"epoch": epoch}
    if metadata_hash:
        value["metadataHash"] = metadata_hash
    return record(GROUP, 0, {"groupId": group_id}, value)


def topic_metadata(group_id: str, topics: Iterable[Any]) -> Record:
    """Key 4: the topics that a group subscribes to (4.0). No release fills in replica racks."""
    rows = [
        {
            "topicId": topic.topic_id,
            "topicName": topic.name,
            "numPartitions": topic.partitions,
            "partitionMetadata": [],
        }
        for topic in topics
    ]
    return record(TOPICS, 0, {"groupId": group_id}, {"topics": rows})


def target_epoch(group_id: str, epoch: int, timestamp: int) -> Record:
    """Key 6: the epoch of the target assignment and, from 4.3 on, when it was computed
    (ms, else 0).
    """
    value: Json = {"assignmentEpoch": epoch}
    if timestamp:
        value["assignmentTimestamp"] = timestamp
    return record(TARGET_EPOCH, 0, {"groupId": group_id}, value)


def target_member(
    group_id: str, member_id: str, target: TargetPartitions, result: Mapping[str, Any] | None = None
) -> Record:
    """Key 7: the target assignment of one member, in the given order. ``result``: what its
    assignor says beside (release ``kip``).
    """
    rows = [{"topicId": topic, "partitions": list(target[topic])} for topic in target]
    value = {"topicPartitions": rows} | dict(result or {})
    return record(TARGET_MEMBER, 0, {"groupId": group_id, "memberId": member_id}, value)


def assigned_rows(assigned: Partitions, *, with_epochs: bool) -> list[Json]:
    """Partitions as key 8 lists them, in the order of the mapping."""
    rows: list[Json] = []
    for topic in assigned:
        numbers = list(assigned[topic])
        row: Json = {"topicId": topic, "partitions": numbers}
        if with_epochs:
            row["assignmentEpochs"] = [assigned[topic][number] for number in numbers]
        rows.append(row)
    return rows


def regular_expression(
    group_id: str, regex: str, topics: Iterable[str], version: int, timestamp: int
) -> Record:
    """Key 16: the topics that a regular expression matches."""
    return record(
        REGEX,
        0,
        {"groupId": group_id, "regularExpression": regex},
        {"topics": sorted(topics), "version": version, "timestamp": timestamp},
    )
