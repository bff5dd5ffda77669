"""Loads the records of share groups (keys 10 to 15), and raises where a broker raises
(docs/kafka-facts.md#share-groups).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kip848_spark.coordinator.faults import ReplayError
from kip848_spark.coordinator.partition_state import PartitionState
from kip848_spark.coordinator.records import Json
from kip848_spark.coordinator.removals import (
    REMOVED,
    check_group_removal,
    check_member_removal,
    check_target_removal,
)
from kip848_spark.coordinator.share_group import ShareGroup, ShareMember, ShareState, StateTopic


def _group_for_value(state: PartitionState, group_id: str) -> ShareGroup:
    group = state.groups.get(group_id)
    if isinstance(group, ShareGroup):
        return group
    if group is not None:
        raise ReplayError(f"group {group_id!r} is a {group.type} group")
    created = ShareGroup(group_id, state.release)
    state.groups[group_id] = created
    return created


def _group_for_tombstone(state: PartitionState, group_id: str) -> ShareGroup | None:
    return _group_for_value(state, group_id) if group_id in state.groups else None


def _member(state: PartitionState, key: Json, value: Json | None) -> None:
    """Key 10: what a member reported of itself; its assignment is unchanged."""
    group_id, member_id = key["groupId"], key["memberId"]
    if value is not None:
        group = _group_for_value(state, group_id)
        old = group.members.get(member_id) or ShareMember(member_id)
        group.put_member(
            old._replace(
                rack_id=value["rackId"],
                client_id=value["clientId"],
                client_host=value["clientHost"],
                topic_names=frozenset(value["subscribedTopicNames"]),
            )
        )
        return
    existing = _group_for_tombstone(state, group_id)
    member = existing.members.get(member_id) if existing is not None else None
    if existing is None or member is None:
        return
    check_member_removal(existing, member_id, member.epoch)
    existing.remove_member(member_id)


def _epoch(state: PartitionState, key: Json, value: Json | None) -> None:
    """Key 11: the group's epoch. Its tombstone deletes the group, which must be empty by then."""
    group_id = key["groupId"]
    if value is not None:
        group = _group_for_value(state, group_id)
        group.epoch, group.metadata_hash = value["epoch"], value["metadataHash"]
        return
    existing = _group_for_tombstone(state, group_id)
    if existing is None:
        return
    check_group_removal(existing)
    del state.groups[group_id]


def _target_epoch(state: PartitionState, key: Json, value: Json | None) -> None:
    """Key 12: the epoch the target was computed for."""
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


def _target(state: PartitionState, key: Json, value: Json | None) -> None:
    """Key 13: a member's target."""
    group_id, member_id = key["groupId"], key["memberId"]
    if value is not None:
        _group_for_value(state, group_id).targets[member_id] = partitions_of(
            value["topicPartitions"]
        )
        return
    existing = _group_for_tombstone(state, group_id)
    if existing is not None:
        existing.targets.pop(member_id, None)


def _current(state: PartitionState, key: Json, value: Json | None) -> None:
    """Key 14: a member's epochs and assignment; the tombstone keeps the member without any."""
    group_id, member_id = key["groupId"], key["memberId"]
    if value is not None:
        group = _group_for_value(state, group_id)
        member = group.members.get(member_id) or ShareMember(member_id)
        group.put_member(
            member._replace(
                epoch=value["memberEpoch"],
                previous_epoch=value["previousMemberEpoch"],
                assigned=partitions_of(value["assignedPartitions"]),
            )
        )
        return
    existing = _group_for_tombstone(state, group_id)
    old = existing.members.get(member_id) if existing is not None else None
    if existing is not None and old is not None:
        existing.put_member(old._replace(epoch=REMOVED, previous_epoch=REMOVED, assigned={}))


def _share_state(state: PartitionState, key: Json, value: Json | None) -> None:
    """Key 15: the partitions with share state."""
    group_id = key["groupId"]
    if value is not None:
        group = _group_for_value(state, group_id)
        group.share_state, group.has_share_state = share_state_of(value), True
        return
    existing = _group_for_tombstone(state, group_id)
    if existing is not None:
        existing.share_state, existing.has_share_state = ShareState(), False


def partitions_of(rows: list[Json]) -> dict[str, dict[int, None]]:
    """Topic id -> partitions."""
    return {row["topicId"]: dict.fromkeys(row["partitions"]) for row in rows}


def share_state_of(value: Json) -> ShareState:
    """The value of key 15."""

    def topics(rows: list[Json]) -> dict[str, StateTopic]:
        return {
            row["topicId"]: StateTopic(row["topicName"], frozenset(row["partitions"]))
            for row in rows
        }

    return ShareState(
        topics(value["initializingTopics"]),
        topics(value["initializedTopics"]),
        {row["topicId"]: row["topicName"] for row in value["deletingTopics"]},
    )


SHARE_APPLIERS: dict[str, Callable[[PartitionState, Json, Any], None]] = {
    "10": _member,
    "11": _epoch,
    "12": _target_epoch,
    "13": _target,
    "14": _current,
    "15": _share_state,
}
"""How each key type of share groups is replayed."""
