"""What ends: expired offsets, deleted groups, deleted topics; and what topic changes start.

Facts A ("Delete/downgrade"), F ("Expiry", "Topic deletion"). The sweep runs by a timer; group
settings outlive their group.
"""

from __future__ import annotations

from kip848_spark.coordinator.classic import cancel_group_timers, keep_classic_session
from kip848_spark.coordinator.classic_group import DEAD, EMPTY, STABLE, ClassicGroup
from kip848_spark.coordinator.config import RETENTION_CHECK, RETENTION_MINUTES
from kip848_spark.coordinator.consumer_group import ConsumerGroup, MemberState
from kip848_spark.coordinator.faults import GroupError
from kip848_spark.coordinator.offset_store import CommittedOffset, offset_tombstone
from kip848_spark.coordinator.offsets import subscribes_to
from kip848_spark.coordinator.partition_state import AnyGroup
from kip848_spark.coordinator.records import Json
from kip848_spark.coordinator.sessions import await_revocation, keep_session
from kip848_spark.coordinator.shard import Shard
from kip848_spark.coordinator.tombstones import (
    append_classic_group_tombstone,
    append_consumer_group_tombstones,
)
from kip848_spark.coordinator.topics import Topic

_SWEEP = "expire-offsets"


def delete_groups(shard: Shard, request: Json) -> Json:
    """DeleteGroups: an empty group goes, its offsets first."""
    rows = []
    for group_id in request.get("groupsNames") or ():
        code = "NONE"
        try:
            _check_deletable(shard.groups.get(group_id))
        except GroupError as bad:
            code = bad.code
        else:
            for place in list(shard.offsets.places(group_id)):
                shard.append(offset_tombstone(group_id, place))
                shard.metrics.mark("offset-deletion", shard.now)
            _delete(shard, shard.groups[group_id])
        rows.append({"groupId": group_id, "errorCode": code})
    return {"throttleTimeMs": 0, "results": rows}


def _check_deletable(group: AnyGroup | None) -> None:
    if group is None or group.state == DEAD:
        raise GroupError("GROUP_ID_NOT_FOUND", "there is no such group")
    if group.state != EMPTY:
        raise GroupError("NON_EMPTY_GROUP", f"group {group.group_id!r} has members")


def _delete(shard: Shard, group: AnyGroup) -> None:
    if isinstance(group, ConsumerGroup):
        append_consumer_group_tombstones(shard, group)
    else:
        cancel_group_timers(shard, group)
        append_classic_group_tombstone(shard, group)


# Expiry


def start_sweeping(shard: Shard) -> None:
    """Sweep at each check interval from now on."""

    def sweep() -> None:
        expire(shard)
        start_sweeping(shard)

    shard.schedule(_SWEEP, shard.config.number(RETENTION_CHECK), sweep)


def expire(shard: Shard) -> None:
    """One sweep: expired offsets go, and groups that are empty and have none left."""
    for group in list(shard.groups.values()):
        none_left = _expire_offsets(shard, group)
        if none_left and group.state == EMPTY:
            _delete(shard, group)


def _expire_offsets(shard: Shard, group: AnyGroup) -> bool:
    """Expire what may go; whether no offset is left, nor any pending."""
    group_id = group.group_id
    none_left = not shard.offsets.has_pending(group_id)
    for place, offset in list(shard.offsets.group(group_id).items()):
        base = _age_base(group, offset)
        if (
            base is None
            or subscribes_to(group, place[0])
            or shard.offsets.is_pending(group_id, place)
            or not _expired(shard, offset, base)
        ):
            none_left = False
        else:
            shard.append(offset_tombstone(group_id, place))
            shard.metrics.mark("offset-expiration", shard.now)
    return none_left


def _expired(shard: Shard, offset: CommittedOffset, base: int) -> bool:
    if offset.expire_timestamp >= 0:
        return shard.now >= offset.expire_timestamp
    return shard.now - base >= shard.config.number(RETENTION_MINUTES) * 60_000


def _age_base(group: AnyGroup, offset: CommittedOffset) -> int | None:
    """What an offset's age is counted from; ``None`` keeps it."""
    if isinstance(group, ConsumerGroup) or group.protocol_type is None:
        return offset.commit_timestamp
    if group.state == EMPTY:
        return offset.commit_timestamp if group.state_since is None else group.state_since
    if group.state == STABLE and group.subscribed_topics() is not None:
        return offset.commit_timestamp
    return None


# Topics


def change_topic(shard: Shard, topic: Topic) -> None:
    """A topic came, grew, moved racks, or (without partitions) went."""
    old = shard.topics.named(topic.name)
    if topic.partitions > 0:
        shard.topics.put(topic)
        if old is not None and old.topic_id != topic.topic_id:
            _forget_offsets(shard, old)
    else:
        gone = shard.topics.delete(topic.name)
        if gone is not None:
            _forget_offsets(shard, gone)
    for group in shard.groups.values():
        if isinstance(group, ConsumerGroup) and topic.name in group.topic_names():
            group.metadata_deadline = 0  # the next heartbeat looks at the topics anew


def _forget_offsets(shard: Shard, topic: Topic) -> None:
    """Every group's offsets of a deleted topic go, then the pending ones of each producer: one
    with both has two tombstones."""
    for group_id in list(shard.groups):
        there = [
            (place, shard.offsets.group(group_id)[place]) for place in shard.offsets.walk(group_id)
        ]
        for groups in shard.offsets.pending.values():
            there += groups.get(group_id, {}).items()
        for place, offset in there:
            other_id = offset.topic_id not in (None, topic.topic_id)
            if place[0] != topic.name or (shard.release.deletes_offsets_by_topic_id and other_id):
                continue
            shard.append(offset_tombstone(group_id, place))


def after_loading(shard: Shard, now: int) -> None:
    """A log is loaded: sessions start, topics are looked at anew (KIP, "Fail Over")."""
    shard.now = now
    for group in shard.groups.values():
        if isinstance(group, ClassicGroup):
            for classic_member in group.members.values():
                keep_classic_session(shard, group, classic_member)
            continue
        group.metadata_deadline = 0
        for member in group.members.values():
            keep_session(shard, group, member)
            if member.state is MemberState.UNREVOKED_PARTITIONS:
                await_revocation(shard, group, member)
    start_sweeping(shard)
