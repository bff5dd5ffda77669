"""Loads the records of streams groups (keys 17 to 23), and raises where a broker raises
(docs/kafka-facts.md#streams-groups).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from kip848_spark.coordinator.classic_group import ClassicGroup
from kip848_spark.coordinator.faults import ReplayError
from kip848_spark.coordinator.partition_state import PartitionState
from kip848_spark.coordinator.records import Json
from kip848_spark.coordinator.streams_group import (
    CURRENT,
    GROUP,
    MEMBER,
    TARGET,
    TARGET_EPOCH,
    TOPOLOGY,
    StreamsGroup,
)


def _apply(kind: str, state: PartitionState, key: Json, value: Json | None) -> None:
    group_id, member_id = key["groupId"], key.get("memberId", "")
    group = state.groups.get(group_id)
    if group is None and value is None:
        return
    if group is None or (isinstance(group, ClassicGroup) and group.simple):
        if value is None:
            return
        group = StreamsGroup(group_id, state.release.first_epoch)
        state.groups[group_id] = group
    if not isinstance(group, StreamsGroup):
        raise ReplayError(f"group {group_id!r} is a {group.type} group")
    if kind == MEMBER and value is None:
        member = group.members.get(member_id)
        if member is not None and member.epoch >= 0:
            raise ReplayError(f"member {member_id!r} is removed but its assignment is not")
        if member is not None and member_id in group.targets:
            raise ReplayError(f"member {member_id!r} is removed but its target is not")
    group.replay(kind, member_id, value)
    if kind == GROUP and value is None:
        state.groups.pop(group_id, None)


STREAMS_APPLIERS: dict[str, Callable[[PartitionState, Json, Json | None], None]] = {
    kind: partial(_apply, kind) for kind in (GROUP, MEMBER, TARGET_EPOCH, TARGET, CURRENT, TOPOLOGY)
}
"""By key type: how a record changes the state."""
