"""Loads a log record by record as a broker does, and raises where a broker raises.

KIP-848 "Fail Over"; docs/kafka-facts.md#replay. The running coordinator also applies its own
records here, so its state equals the one loaded from the log. There is one function per key type.
An unknown key type is skipped; an unknown value version raises ReplayError.
"""

from __future__ import annotations

import base64
from collections.abc import Callable
from typing import Any

from kip848_spark.coordinator.classic_group import EMPTY, STABLE, ClassicGroup, ClassicMember
from kip848_spark.coordinator.client_side import AssignorResult
from kip848_spark.coordinator.consumer_group import (
    LEAVE,
    ClassicMetadata,
    ConsumerGroup,
    Member,
    MemberState,
    ResolvedRegex,
)
from kip848_spark.coordinator.consumer_protocol import assignment_bytes, subscription_bytes
from kip848_spark.coordinator.faults import ReplayError
from kip848_spark.coordinator.javahash import copied_size, int_order, uuid_order
from kip848_spark.coordinator.offset_store import CommittedOffset
from kip848_spark.coordinator.partition_state import PartitionState
from kip848_spark.coordinator.records import Json, Partitions, Record
from kip848_spark.coordinator.removals import (
    REMOVED,
    check_group_removal,
    check_member_removal,
    check_target_removal,
)
from kip848_spark.coordinator.share_replay import SHARE_APPLIERS
from kip848_spark.coordinator.streams_replay import STREAMS_APPLIERS
from kip848_spark.coordinator.topics import Topic

_NEWEST_VALUE = {"0": 4, "1": 4, "2": 4, "3": 0, "4": 0, "5": 0, "6": 0, "7": 0, "8": 0, "16": 0}
_NEWEST_VALUE |= dict.fromkeys(SHARE_APPLIERS | STREAMS_APPLIERS, 0)


def replay(
    state: PartitionState, record: Record, log_offset: int = -1, *, producer: int = -1
) -> None:
    """Apply one record; ``producer`` is the producer id if it is part of a transaction, else -1."""
    kind = str(record["key"]["type"])
    applier = _APPLIERS.get(kind)
    if applier is None or (kind in SHARE_APPLIERS and not state.release.share_groups):
        return
    value = record["value"]
    if value is not None:
        version = int(value["version"])
        newest = _NEWEST_VALUE[kind]
        if kind == "0" and not state.release.legacy_offset_key_any_version:
            newest = 0
        if not 0 <= version <= newest:
            raise ReplayError(f"key type {kind} with value version {version}")
        value = value["data"]
    if kind in ("0", "1"):
        _offset(state, record["key"]["data"], value, log_offset, producer)
    else:
        applier(state, record["key"]["data"], value)


def end_transaction(state: PartitionState, producer: int, *, commit: bool) -> None:
    """A transaction marker in the log: the producer's pending offsets are committed or dropped."""
    state.offsets.end_transaction(producer, commit=commit)


# Offsets (keys 0 and 1)


def _offset(
    state: PartitionState, key: Json, value: Json | None, log_offset: int, producer: int
) -> None:
    """A commit creates a *simple* classic group if there is no group; a tombstone
    changes no group.
    """
    group_id = key["group"]
    partition = (key["topic"], key["partition"])
    if value is None:
        state.offsets.drop(group_id, partition)
        return
    if group_id not in state.groups:
        state.groups[group_id] = ClassicGroup(group_id, state_since=state.now)
    offset = CommittedOffset(
        value["offset"],
        value.get("leaderEpoch", -1),
        value["metadata"],
        value["commitTimestamp"],
        value.get("expireTimestamp", -1),
        value.get("topicId"),
        log_offset,
    )
    state.offsets.put(group_id, partition, offset, producer)


# Classic groups (key 2)


def _classic_group(state: PartitionState, key: Json, value: Json | None) -> None:
    """Replaces any group of that id; a tombstone deletes the group, whatever its type."""
    group_id = key["group"]
    if value is None:
        state.groups.pop(group_id, None)
        return
    members = value.get("members") or []
    group = ClassicGroup(
        group_id,
        state=STABLE if members else EMPTY,
        protocol_type=value["protocolType"] or None,
        protocol=value["protocol"],
        generation=value["generation"],
        leader=value["leader"],
    )
    since = value.get("currentStateTimestamp", -1)
    group.state_since = None if since == -1 else since
    protocol_type = value["protocolType"] or "consumer"
    for row in members:
        instance = row.get("groupInstanceId")
        if instance is not None and instance in group.static_ids:
            raise ReplayError(f"group {group_id!r} has two members with instance id {instance!r}")
        timeout = row["sessionTimeout"]
        rebalance = row.get("rebalanceTimeout", -1)
        group.add(
            ClassicMember(
                row["memberId"],
                instance,
                row["clientId"],
                row["clientHost"],
                timeout if rebalance == -1 else rebalance,
                timeout,
                protocol_type,
                ((group.protocol or "", subscription_bytes(row["subscription"])),),
                assignment_bytes(row["assignment"]),
            )
        )
    group.leader = value["leader"]
    group.protocol_type = value["protocolType"] or None
    state.groups[group_id] = group


# Consumer groups


def _group_for_value(state: PartitionState, group_id: str) -> ConsumerGroup:
    """The group of a record with a value: created if missing, or in place of a simple
    classic group.
    """
    group = state.groups.get(group_id)
    if isinstance(group, ConsumerGroup):
        return group
    if group is not None and not (isinstance(group, ClassicGroup) and group.simple):
        raise ReplayError(f"group {group_id!r} is a {group.type} group")
    created = ConsumerGroup(group_id, state.release)
    state.groups[group_id] = created
    return created


def _group_for_tombstone(state: PartitionState, group_id: str) -> ConsumerGroup | None:
    """The group of a tombstone; ``None`` if there is nothing to delete."""
    return _group_for_value(state, group_id) if group_id in state.groups else None


def _epoch(state: PartitionState, key: Json, value: Json | None) -> None:
    """Key 3: the group's epoch. Its tombstone deletes the group, which must be empty by then."""
    group_id = key["groupId"]
    if value is not None:
        group = _group_for_value(state, group_id)
        group.epoch = value["epoch"]
        group.metadata_hash = value.get("metadataHash", 0)
        return
    existing = _group_for_tombstone(state, group_id)
    if existing is None:
        return
    check_group_removal(existing)
    del state.groups[group_id]


def _topic_metadata(state: PartitionState, key: Json, value: Json | None) -> None:
    """Key 4: 4.0's topic metadata; later releases only remember that the record exists."""
    group = (_group_for_tombstone if value is None else _group_for_value)(state, key["groupId"])
    if group is None:
        return
    if value is None:
        group.topic_metadata = None
    else:
        group.topic_metadata = [
            Topic(row["topicName"], row["topicId"], row["numPartitions"]) for row in value["topics"]
        ]


def _member(state: PartitionState, key: Json, value: Json | None) -> None:
    """Key 5: what a member reported of itself; its assignment is unchanged."""
    group_id, member_id = key["groupId"], key["memberId"]
    if value is None:
        group = _group_for_tombstone(state, group_id)
        old = group.members.get(member_id) if group is not None else None
        if group is None or old is None:
            return
        check_member_removal(group, member_id, old.epoch)
        group.remove_member(member_id)
        return
    group = _group_for_value(state, group_id)
    old = group.members.get(member_id)
    classic = value.get("classicMemberMetadata")
    group.put_member(
        Member(
            member_id,
            value["instanceId"],
            value["rackId"],
            value["clientId"],
            value["clientHost"],
            frozenset(value["subscribedTopicNames"]),
            value["subscribedTopicRegex"] or "",
            value["rebalanceTimeoutMs"],
            value["serverAssignor"],
            None if classic is None else _classic_metadata(classic),
            tuple(value.get("assignors") or ()),
            *(
                (old.epoch, old.previous_epoch, old.state, old.assigned, old.pending)
                if old is not None
                else ()
            ),
        )
    )


def _classic_metadata(value: Json) -> ClassicMetadata:
    return ClassicMetadata(
        value["sessionTimeoutMs"],
        tuple(
            (row["name"], base64.b64decode(row["metadata"])) for row in value["supportedProtocols"]
        ),
    )


def _target_epoch(state: PartitionState, key: Json, value: Json | None) -> None:
    """Key 6: the epoch the target was computed for; its tombstone is written only with the group's
    deletion.
    """
    group_id = key["groupId"]
    if value is not None:
        group = _group_for_value(state, group_id)
        group.target_epoch = value["assignmentEpoch"]
        group.target_timestamp = value.get("assignmentTimestamp", 0)
        return
    existing = _group_for_tombstone(state, group_id)
    if existing is None:
        return
    check_target_removal(existing)
    existing.target_epoch, existing.target_timestamp = REMOVED, 0


def _target_member(state: PartitionState, key: Json, value: Json | None) -> None:
    """Key 7: a member's target."""
    group_id, member_id = key["groupId"], key["memberId"]
    if value is not None:
        group = _group_for_value(state, group_id)
        group.set_target(
            member_id,
            {row["topicId"]: dict.fromkeys(row["partitions"]) for row in value["topicPartitions"]},
        )
        if state.release.client_assignors:
            group.client_side.targets[member_id] = AssignorResult.of(value)
        return
    existing = _group_for_tombstone(state, group_id)
    if existing is not None:
        existing.targets.pop(member_id, None)
        existing.client_side.targets.pop(member_id, None)


def _current(state: PartitionState, key: Json, value: Json | None) -> None:
    """Key 8: a member's epochs and assignment; the tombstone keeps the member without
    partitions.
    """
    group_id, member_id = key["groupId"], key["memberId"]
    if value is None:
        group = _group_for_tombstone(state, group_id)
        old = group.members.get(member_id) if group is not None else None
        if group is None or old is None:
            return
        group.put_member(old.with_assignment(LEAVE, LEAVE, MemberState.STABLE, {}, {}))
        group.client_side.current.pop(member_id, None)
        return
    group = _group_for_value(state, group_id)
    epoch = value["memberEpoch"]
    member = group.members.get(member_id) or Member(member_id)
    with_epochs = state.release.partition_epochs
    if state.release.client_assignors:
        group.client_side.current[member_id] = AssignorResult.of(value)
    group.put_member(
        member.with_assignment(
            epoch,
            value["previousMemberEpoch"],
            _STATES.get(value["state"], MemberState.UNKNOWN),
            _partitions(value["assignedPartitions"], epoch, with_epochs),
            _partitions(value["partitionsPendingRevocation"], epoch, with_epochs),
        )
    )


_STATES = {int(state): state for state in MemberState}


def _partitions(rows: list[Json], epoch: int, with_epochs: bool) -> Partitions:
    """Partitions with their assignment epochs; without valid ones, with the member's epoch."""
    out: Partitions = {}
    for row in rows if len(rows) < 2 else _order_topics(rows):
        numbers = row["partitions"]
        epochs = row.get("assignmentEpochs") if with_epochs else None
        if not with_epochs:
            numbers = int_order(numbers, copied_size(len(numbers)))
            out[row["topicId"]] = dict.fromkeys(numbers, 0)
        elif epochs is None or len(epochs) != len(numbers):
            out[row["topicId"]] = dict.fromkeys(int_order(numbers), max(epoch, 0))
        else:
            known = dict(zip(numbers, epochs, strict=True))
            out[row["topicId"]] = {number: known[number] for number in int_order(numbers)}
    return out


def _order_topics(rows: list[Json]) -> list[Json]:
    """Rows by topic in the order of the hash table they are put into."""
    by_topic = {row["topicId"]: row for row in rows}
    return [by_topic[topic] for topic in uuid_order(by_topic)]


def _regex(state: PartitionState, key: Json, value: Json | None) -> None:
    """Key 16: the topics that a regular expression matches."""
    group_id, regex = key["groupId"], key["regularExpression"]
    if value is not None:
        group = _group_for_value(state, group_id)
        group.set_resolved(
            regex, ResolvedRegex(frozenset(value["topics"]), value["version"], value["timestamp"])
        )
        return
    existing = _group_for_tombstone(state, group_id)
    if existing is not None:
        existing.resolved.pop(regex, None)


def _skip(state: PartitionState, key: Json, value: Any) -> None:
    """A record of a share group or streams group."""


_APPLIERS: dict[str, Callable[[PartitionState, Json, Any], None]] = {
    "0": _skip,
    "1": _skip,
    "2": _classic_group,
    "3": _epoch,
    "4": _topic_metadata,
    "5": _member,
    "6": _target_epoch,
    "7": _target_member,
    "8": _current,
    "16": _regex,
    **SHARE_APPLIERS,
    **STREAMS_APPLIERS,
}
