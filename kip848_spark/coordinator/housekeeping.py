"""Expired offsets, deleted groups and topics, and the consequences of topic changes.

docs/kafka-facts.md#expiry, #deletion and #operations. A timer runs the expiration sweep. Group
settings survive the deletion of their group.
"""

from __future__ import annotations

from kip848_spark.coordinator.classic import (
    cancel_group_timers,
    keep_classic_session,
    prepare_rebalance,
)
from kip848_spark.coordinator.classic_group import DEAD, EMPTY, STABLE, ClassicGroup
from kip848_spark.coordinator.config import RETENTION_CHECK, RETENTION_MINUTES
from kip848_spark.coordinator.consumer_group import ConsumerGroup, MemberState
from kip848_spark.coordinator.faults import GroupError
from kip848_spark.coordinator.offset_store import CommittedOffset, offset_tombstone
from kip848_spark.coordinator.offsets import subscribes_to
from kip848_spark.coordinator.partition_state import AnyGroup
from kip848_spark.coordinator.records import Json
from kip848_spark.coordinator.sessions import await_revocation, begin_session
from kip848_spark.coordinator.shard import Shard
from kip848_spark.coordinator.share_group import ShareGroup
from kip848_spark.coordinator.share_heartbeat import (
    delete_share_group,
    forget_topic,
    load_share_group,
)
from kip848_spark.coordinator.streams_group import StreamsGroup
from kip848_spark.coordinator.streams_heartbeat import delete_streams_group, load_streams_group
from kip848_spark.coordinator.tombstones import (
    append_classic_group_tombstone,
    append_consumer_group_tombstones,
)
from kip848_spark.coordinator.topics import Topic

_SWEEP_TIMER = "expire-offsets"


def delete_groups(shard: Shard, request: Json) -> Json:
    """DeleteGroups: delete an empty group and, before it, its offsets."""
    rows = []
    for group_id in request.get("groupsNames") or ():
        code = "NONE"
        try:
            _check_deletable(shard.groups.get(group_id))
        except GroupError as bad:
            code = bad.code
        else:
            for partition in list(shard.offsets.partitions(group_id)):
                shard.append(offset_tombstone(group_id, partition))
                shard.metrics.mark("offset-deletion", shard.now)
            _delete(shard, shard.groups[group_id])
        rows.append({"groupId": group_id, "errorCode": code})
    return {"throttleTimeMs": 0, "results": rows}


def _check_deletable(group: AnyGroup | None) -> None:
    if group is None or group.state == DEAD:
        raise GroupError("GROUP_ID_NOT_FOUND", "the group does not exist")
    if group.state != EMPTY:
        raise GroupError("NON_EMPTY_GROUP", f"group {group.group_id!r} has members")


def _delete(shard: Shard, group: AnyGroup) -> None:
    if isinstance(group, ConsumerGroup):
        append_consumer_group_tombstones(shard, group)
    elif isinstance(group, ShareGroup):
        delete_share_group(shard, group)
    elif isinstance(group, StreamsGroup):
        delete_streams_group(shard, group)
    else:
        cancel_group_timers(shard, group)
        append_classic_group_tombstone(shard, group)


# Expiry


def schedule_expiration_sweep(shard: Shard) -> None:
    """Run the expiration sweep at each check interval from now on."""

    def sweep() -> None:
        expire(shard)
        schedule_expiration_sweep(shard)

    shard.schedule(_SWEEP_TIMER, shard.config.number(RETENTION_CHECK), sweep)


def expire(shard: Shard) -> None:
    """One sweep: delete expired offsets, and empty groups that have no offsets left."""
    for group in list(shard.groups.values()):
        none_left = _expire_offsets(shard, group)
        if none_left and group.state == EMPTY and not isinstance(group, ShareGroup):
            _delete(shard, group)


def _expire_offsets(shard: Shard, group: AnyGroup) -> bool:
    """Delete expired offsets; returns whether the group has neither committed nor pending offsets
    left.
    """
    group_id = group.group_id
    committed = list(shard.offsets.group(group_id).items())
    counted = bool(committed) or shard.release.pending_keeps_group
    none_left = not (counted and shard.offsets.has_pending(group_id))
    for partition, offset in committed:
        start = _retention_start(group, offset)
        if (
            start is None
            or subscribes_to(group, partition[0])
            or shard.offsets.is_pending(group_id, partition)
            or not _expired(shard, offset, start)
        ):
            none_left = False
        else:
            shard.append(offset_tombstone(group_id, partition))
            shard.metrics.mark("offset-expiration", shard.now)
    return none_left


def _expired(shard: Shard, offset: CommittedOffset, start: int) -> bool:
    if offset.expire_timestamp >= 0:
        return shard.now >= offset.expire_timestamp
    return shard.now - start >= shard.config.number(RETENTION_MINUTES) * 60_000


def _retention_start(group: AnyGroup, offset: CommittedOffset) -> int | None:
    """The time (ms) at which an offset's retention starts; ``None`` keeps the offset."""
    if not isinstance(group, ClassicGroup) or group.protocol_type is None:
        return offset.commit_timestamp
    if group.state == EMPTY:
        return offset.commit_timestamp if group.state_since is None else group.state_since
    if group.state == STABLE and group.subscribed_topics() is not None:
        return offset.commit_timestamp
    return None


# Topics


def change_topic(shard: Shard, topic: Topic) -> None:
    """A topic was created, grew, moved to other racks, or (without partitions) was deleted."""
    old = shard.topics.named(topic.name)
    if topic.partitions > 0:
        shard.topics.put(topic)
        if old is not None and old.topic_id != topic.topic_id:
            _forget_topic(shard, old)
    else:
        deleted = shard.topics.delete(topic.name)
        if deleted is not None:
            _forget_topic(shard, deleted)
    for group in shard.groups.values():
        if not isinstance(group, ClassicGroup) and topic.name in group.topic_names():
            group.metadata_deadline = 0  # the next heartbeat reads the topics again


def _forget_topic(shard: Shard, topic: Topic) -> None:
    """A topic was deleted: its offsets and share state go."""
    _delete_offsets(shard, topic)
    for group in shard.groups.values():
        if isinstance(group, ShareGroup):
            forget_topic(shard, group, topic)


def _delete_offsets(shard: Shard, topic: Topic) -> None:
    """Delete every group's offsets of a deleted topic, then the pending ones of each producer; a
    partition with both gets two tombstones.
    """
    for group_id in list(shard.groups):
        found = [
            (partition, shard.offsets.group(group_id)[partition])
            for partition in shard.offsets.walk(group_id)
        ]
        for groups in shard.offsets.pending.values():
            found += groups.get(group_id, {}).items()
        for partition, offset in found:
            other_id = offset.topic_id not in (None, topic.topic_id)
            if partition[0] != topic.name or (
                shard.release.deletes_offsets_by_topic_id and other_id
            ):
                continue
            shard.append(offset_tombstone(group_id, partition))


def after_loading(shard: Shard, now: int) -> None:
    """The log is loaded: start all sessions and check topic metadata again (KIP-848
    "Fail Over").
    """
    shard.now = now
    for group in shard.groups.values():
        if isinstance(group, ClassicGroup):
            for classic_member in group.members.values():
                keep_classic_session(shard, group, classic_member)
            if len(group.members) > shard.config.number("group.max.size"):
                prepare_rebalance(shard, group)  # the next generation has only as many members
            continue
        if isinstance(group, ShareGroup):
            load_share_group(shard, group)
            continue
        if isinstance(group, StreamsGroup):
            load_streams_group(shard, group)
            continue
        group.metadata_deadline = 0
        for member in group.members.values():
            begin_session(shard, group, member)
            if member.state is MemberState.UNREVOKED_PARTITIONS:
                await_revocation(shard, group, member)
    schedule_expiration_sweep(shard)
