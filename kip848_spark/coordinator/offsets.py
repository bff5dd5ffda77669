"""Offset requests: commit, transactional commit and deletion (docs/kafka-facts.md#offsets).

KIP-848 "OffsetCommit API": the member's epoch is checked. STALE_MEMBER_EPOCH
tells the client to retry after its next heartbeat.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from kip848_spark.coordinator.classic import keep_classic_session
from kip848_spark.coordinator.classic_group import (
    COMPLETING,
    DEAD,
    EMPTY,
    PREPARING,
    STABLE,
    ClassicGroup,
)
from kip848_spark.coordinator.classic_join import check_member
from kip848_spark.coordinator.config import METADATA_BYTES
from kip848_spark.coordinator.consumer_group import ConsumerGroup, Member
from kip848_spark.coordinator.faults import GroupError
from kip848_spark.coordinator.offset_store import (
    CommittedOffset,
    TopicPartition,
    offset_record,
    offset_tombstone,
)
from kip848_spark.coordinator.partition_state import AnyGroup
from kip848_spark.coordinator.records import Json
from kip848_spark.coordinator.replay import replay
from kip848_spark.coordinator.shard import Shard
from kip848_spark.coordinator.share_group import ShareGroup
from kip848_spark.coordinator.streams_group import StreamsGroup, StreamsMember
from kip848_spark.coordinator.streams_topology import reading_subtopologies
from kip848_spark.coordinator.topics import Topic

PartitionCheck = Callable[[Topic, int], None]
"""Raises GroupError if the member may not commit a partition of the topic."""

_MEMBER_EPOCH_FROM = 9
"""The OffsetCommit version that introduced member epochs and GROUP_ID_NOT_FOUND."""


def commit(shard: Shard, request: Json, version: int) -> Json:
    """OffsetCommit: topics that do not exist are answered before the group is checked."""
    return _commit_existing(shard, request, lambda known: _commit(shard, known, version))


def _commit_existing(shard: Shard, request: Json, handle: Callable[[Json], list[Json]]) -> Json:
    """Commit the requested partitions that exist; if the commit is refused, each gets the error.

    Answers are in a broker's order: first partitions that do not exist, then those of the group's
    answer.
    """
    requested = request.get("topics") or []
    known: list[Json] = []
    rows: list[Json] = []
    for row in requested:
        topic, missing = find_topic(shard, row)
        existing: list[Json] = []
        missing_parts: list[Json] = []
        for part in row.get("partitions") or ():
            found = topic is not None and 0 <= part["partitionIndex"] < topic.partitions
            (existing if found else missing_parts).append(part)
        if missing_parts or topic is None:
            code = missing if topic is None else "UNKNOWN_TOPIC_OR_PARTITION"
            rows.append(_row({**row, "partitions": missing_parts}, code))
        if existing:
            known.append({**row, "partitions": existing})
    if known or not requested:
        try:
            done = handle({**request, "topics": known})
        except GroupError as bad:
            done = [_row(row, bad.code) for row in known]
        rows = _merge_rows(rows, done)
    return {"throttleTimeMs": 0, "topics": rows}


def _merge_rows(rows: list[Json], more: list[Json]) -> list[Json]:
    """Rows of both lists, with one row per topic."""

    def name(row: Json) -> tuple[Any, Any]:
        return row.get("topicId"), row.get("name")

    merged = {name(row): row for row in rows}
    for row in more:
        if name(row) in merged:
            merged[name(row)]["partitions"] += row["partitions"]
        else:
            merged[name(row)] = row
    return list(merged.values())


def _row(topic: Json, code: str) -> Json:
    row: Json = {key: topic[key] for key in ("name", "topicId") if key in topic}
    row["partitions"] = [
        {"partitionIndex": part["partitionIndex"], "errorCode": code}
        for part in topic.get("partitions") or ()
    ]
    return row


def _commit(shard: Shard, request: Json, version: int) -> list[Json]:
    epoch = request.get("generationIdOrMemberEpoch", -1)
    missing = "GROUP_ID_NOT_FOUND" if version >= _MEMBER_EPOCH_FROM else "ILLEGAL_GENERATION"
    group = _committed_group(shard, request, epoch, missing)
    check = _check_commit(shard, group, request, epoch, version, transactional=False)
    if isinstance(group, ClassicGroup) and group.state in (STABLE, PREPARING):
        classic_member = group.members.get(request.get("memberId") or "")
        if classic_member is not None:
            keep_classic_session(shard, group, classic_member)
    retention = request.get("retentionTimeMs", -1)
    expire = -1 if retention == -1 else shard.now + retention
    return _write(shard, request, check, expire, producer=-1)


def commit_in_transaction(shard: Shard, request: Json, version: int) -> Json:
    """TxnOffsetCommit: the offsets stay pending until the transaction's marker."""
    return _commit_existing(shard, request, lambda known: _commit_pending(shard, known, version))


def _commit_pending(shard: Shard, request: Json, version: int) -> list[Json]:
    epoch = request.get("generationId", -1)
    group = _committed_group(shard, request, epoch, "ILLEGAL_GENERATION")
    try:
        check = _check_commit(shard, group, request, epoch, version, transactional=True)
    except GroupError as bad:
        if bad.code == "STALE_MEMBER_EPOCH":
            raise GroupError("ILLEGAL_GENERATION", bad.message) from None
        raise
    return _write(shard, request, check, -1, producer=request["producerId"])


def end_transaction(shard: Shard, request: Json) -> Json:
    """The marker of EndTxn as it reaches this partition: commit or drop the pending offsets."""
    shard.offsets.end_transaction(request["producerId"], commit=bool(request["committed"]))
    return {"throttleTimeMs": 0, "errorCode": "NONE"}


def _committed_group(
    shard: Shard, request: Json, epoch: int, missing: str
) -> ClassicGroup | ConsumerGroup | StreamsGroup:
    """The group of a commit. Without one, a commit without an epoch creates a *simple* group."""
    group_id = request.get("groupId") or ""
    if not group_id:
        raise GroupError("INVALID_GROUP_ID", "the group id is empty")
    group = shard.groups.get(group_id)
    if group is None:
        if epoch >= 0:
            raise GroupError(missing, f"there is no group {group_id!r}")
        group = shard.new_classic_group(group_id)
    if isinstance(group, ShareGroup):
        raise GroupError("GROUP_ID_NOT_FOUND", f"{group_id!r} is another kind of group")
    return group


def _check_commit(
    shard: Shard,
    group: ClassicGroup | ConsumerGroup | StreamsGroup,
    request: Json,
    epoch: int,
    version: int,
    *,
    transactional: bool,
) -> PartitionCheck | None:
    """Check that the member may commit at this epoch; returns the check of each partition if that
    is needed too.
    """
    member_id = request.get("memberId") or ""
    instance_id = request.get("groupInstanceId")
    anonymous = epoch == -1 and not member_id and instance_id is None
    if isinstance(group, ClassicGroup):
        _check_classic(group, member_id, instance_id, epoch, transactional=transactional)
        return None
    if (epoch < 0 and not group.members) or (transactional and anonymous):
        return None
    member = group.member(member_id)
    classic = isinstance(member, Member) and member.classic is not None
    if not transactional and not classic and version < _MEMBER_EPOCH_FROM:
        raise GroupError(
            "UNSUPPORTED_VERSION", "members of the new protocol must commit with version 9 or later"
        )
    if epoch == member.epoch:
        return None
    if epoch < member.epoch and isinstance(group, StreamsGroup) and shard.release.streams_configs:
        return partial(_check_task, group, group.member(member_id), epoch)
    if epoch < member.epoch and isinstance(member, Member) and shard.release.partition_epochs:
        return partial(_check_partition, member, epoch)
    raise epoch_error(member, f"epoch {epoch} is not the member's {member.epoch}")


def epoch_error(member: Member | StreamsMember, message: str) -> GroupError:
    """The error for a wrong epoch: ILLEGAL_GENERATION for a classic member, else
    STALE_MEMBER_EPOCH.
    """
    classic = isinstance(member, Member) and member.classic is not None
    return GroupError("ILLEGAL_GENERATION" if classic else "STALE_MEMBER_EPOCH", message)


def _check_classic(
    group: ClassicGroup,
    member_id: str,
    instance_id: str | None,
    generation: int,
    *,
    transactional: bool,
) -> None:
    if group.state == DEAD:
        raise GroupError("COORDINATOR_NOT_AVAILABLE", f"group {group.group_id!r} is dead")
    if generation < 0 and group.state == EMPTY:
        return
    if generation >= 0 or member_id or instance_id is not None:
        check_member(group, member_id, instance_id)
        if generation != group.generation:
            raise GroupError("ILLEGAL_GENERATION", f"the generation is {group.generation}")
    elif not transactional:
        raise GroupError("UNKNOWN_MEMBER_ID", f"group {group.group_id!r} has members")
    if not transactional and group.state == COMPLETING:
        raise GroupError("REBALANCE_IN_PROGRESS", "the group has not synced yet")


def _check_partition(member: Member, epoch: int, topic: Topic, number: int) -> None:
    """An older epoch may still commit partitions that were assigned by then (4.3,
    assignment epochs).
    """
    gained = member.assigned.get(topic.topic_id, {}).get(number)
    if gained is None:
        gained = member.pending.get(topic.topic_id, {}).get(number)
    _check_assigned_by(member, gained, epoch, topic, number)


def _check_task(
    group: StreamsGroup, member: StreamsMember, epoch: int, topic: Topic, number: int
) -> None:
    """As `_check_partition`, by the active task that reads the partition (from 4.2)."""
    gained = None
    if group.topology is not None:
        for name in reading_subtopologies(group.topology, topic.name):
            gained = member.since.get((name, number), gained)
    _check_assigned_by(member, gained, epoch, topic, number)


def _check_assigned_by(
    member: Member | StreamsMember, gained: int | None, epoch: int, topic: Topic, number: int
) -> None:
    if gained is None:
        raise epoch_error(member, f"the member does not own {topic.name}-{number}")
    if epoch < gained:
        raise epoch_error(member, f"epoch {epoch} is older than the assignment's {gained}")


def _write(
    shard: Shard, request: Json, check: PartitionCheck | None, expire: int, *, producer: int
) -> list[Json]:
    """Write a record for each partition that can be committed; returns a row for each partition."""
    group_id = request["groupId"]
    rows: list[Json] = []
    written: list[tuple[TopicPartition, CommittedOffset]] = []
    for requested in request.get("topics") or ():
        topic = find_topic(shard, requested)[0]
        row: Json = _row(requested, "NONE") | {"partitions": []}
        rows.append(row)
        for part in requested.get("partitions") or ():
            code = "NONE"
            metadata = part.get("committedMetadata") or ""
            if len(metadata) > shard.config.number(METADATA_BYTES):
                code = "OFFSET_METADATA_TOO_LARGE"
            else:
                if check is not None:
                    check(topic, part["partitionIndex"])
                by_id = shard.release.topic_ids_by_name or "topicId" in requested
                by_id = by_id and shard.release.offset_topic_ids
                by_id = by_id and (producer < 0 or shard.release.transactional_topic_ids)
                offset = CommittedOffset(
                    part["committedOffset"],
                    part.get("committedLeaderEpoch", -1),
                    metadata,
                    shard.now,
                    expire,
                    topic.topic_id if by_id else None,
                )
                written.append(((topic.name, part["partitionIndex"]), offset))
            row["partitions"].append({"partitionIndex": part["partitionIndex"], "errorCode": code})
    version = 4 if shard.release.offset_topic_ids else 3
    for partition, offset in written:
        record = offset_record(group_id, partition, offset, version)
        shard.append_only(record)
        replay(shard, record, shard.log_end - 1, producer=producer)
        shard.metrics.mark("offset-commit", shard.now)
    return rows


def find_topic(shard: Shard, requested: Json) -> tuple[Any, str]:
    """The topic that a request names by id or by name (``None`` if there is none), and the error
    for a topic that does not exist.
    """
    topic_id = requested.get("topicId")
    if topic_id is not None:
        return shard.topics.with_id(topic_id), "UNKNOWN_TOPIC_ID"
    return shard.topics.named(requested.get("name") or ""), "UNKNOWN_TOPIC_OR_PARTITION"


# Deletion by an administrator


def delete_offsets(shard: Shard, request: Json) -> Json:
    """OffsetDelete: refused for topics that a member of the group subscribes to."""
    group_id = request.get("groupId") or ""
    group = shard.groups.get(group_id)
    if group is None or isinstance(group, ShareGroup):
        raise GroupError("GROUP_ID_NOT_FOUND", f"there is no group {group_id!r} with offsets")
    if isinstance(group, ClassicGroup) and group.members and not group.uses_consumer_protocol:
        raise GroupError("NON_EMPTY_GROUP", f"group {group_id!r} has members")
    rows = []
    deleted: list[TopicPartition] = []
    for requested in request.get("topics") or ():
        name = requested["name"]
        used = subscribes_to(group, name)
        parts = []
        for part in requested.get("partitions") or ():
            partition = (name, part["partitionIndex"])
            if not used and partition in set(shard.offsets.partitions(group_id)):
                deleted.append(partition)
            code = "GROUP_SUBSCRIBED_TO_TOPIC" if used else "NONE"
            parts.append({"partitionIndex": partition[1], "errorCode": code})
        rows.append({"name": name, "partitions": parts})
    for partition in deleted:
        shard.append(offset_tombstone(group_id, partition))
        shard.metrics.mark("offset-deletion", shard.now)
    return {"errorCode": "NONE", "throttleTimeMs": 0, "topics": rows}


def subscribes_to(group: AnyGroup, topic: str) -> bool:
    """Whether the group is known to subscribe to this topic."""
    if isinstance(group, StreamsGroup) and not group.members:
        return False
    if not isinstance(group, ClassicGroup):
        return topic in group.topic_names()
    names = group.subscribed_topics()
    return names is not None and topic in names
