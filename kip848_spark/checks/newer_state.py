"""Share and streams groups as the reference replays them, as rows of the state tables.

The audit of such a group has a state of its own, which it drops at gaps. So the records are kept
beside it, the newest of each key, and are only replayed when rows are compared.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from kip848_spark.checks.log_entries import LogEntry
from kip848_spark.checks.stateful import Stateful
from kip848_spark.coordinator.faults import ReplayError
from kip848_spark.coordinator.partition_state import PartitionState
from kip848_spark.coordinator.share_group import (
    SHARE_GROUP,
    SHARE_TARGET_EPOCH,
    Share,
    ShareGroup,
    ShareMember,
)
from kip848_spark.coordinator.share_replay import SHARE_APPLIERS
from kip848_spark.coordinator.streams_group import (
    GROUP,
    TARGET_EPOCH,
    StreamsGroup,
    StreamsMember,
    TaskState,
)
from kip848_spark.coordinator.streams_replay import STREAMS_APPLIERS

EPOCH_KEY_TYPES = {
    "share": (SHARE_GROUP, SHARE_TARGET_EPOCH),
    "streams": (GROUP, TARGET_EPOCH),
}
"""The key types of the group epoch and of the target epoch, by type of group."""
_APPLIERS = SHARE_APPLIERS | STREAMS_APPLIERS
_TASK_STATES = {
    TaskState.STABLE: "stable",
    TaskState.UNREVOKED_TASKS: "unrevoked_partitions",
    TaskState.UNRELEASED_TASKS: "unreleased_partitions",
}
_UNKNOWN_STATE = "unknown"
_JOINING, _LEFT = 0, -1
"""The epochs of a member that has no current assignment yet, or none any more."""


def note_kind(recorded: set[str], entry: LogEntry) -> None:
    """Adds the key type of ``entry`` to those of which the group has a value, or removes it if
    ``entry`` is a tombstone."""
    (recorded.discard if entry.value is None else recorded.add)(entry.kind)


class NewestRecords(Stateful):
    """The newest record of each key of a share or streams group. A log of these records alone gives
    the same group, since the log cleaner may leave no others.

    ``recorded`` has the key types of which the group has a value, without the record that was
    added last: it may be beyond the offset up to which the others are replayed."""

    STATE = ("recorded", "_by_key", "_last")

    def __init__(self) -> None:
        self.recorded: set[str] = set()
        self._by_key: dict[tuple[str, str], LogEntry] = {}
        self._last: LogEntry | None = None

    def add(self, entry: LogEntry) -> None:
        """Takes the next record."""
        if self._last is not None:
            self._keep(self._last)
        self._last = entry

    def _keep(self, entry: LogEntry) -> None:
        key = entry.kind, entry.member
        self._by_key.pop(key, None)
        self._by_key[key] = entry
        note_kind(self.recorded, entry)

    def replay(self, state: PartitionState, before: int | None = None) -> str | None:
        """Replays what was added, in offset order, and forgets it: records before an offset, or
        all. Returns why a broker would refuse to load a record, or None."""
        if self._last is None and not self._by_key:  # as in most groups
            return None
        if self._last is not None and (before is None or self._last.offset < before):
            self._keep(self._last)
            self._last = None
        fault: str | None = None
        due = [e for e in self._by_key.values() if before is None or e.offset < before]
        for entry in due:
            del self._by_key[entry.kind, entry.member]
            try:
                _APPLIERS[entry.kind](state, entry.record["key"]["data"], entry.value)
            except ReplayError as error:
                fault = fault or str(error)
        return fault


Rows = Iterator[tuple[str, dict[str, Any]]]


def newer_rows(group: ShareGroup | StreamsGroup) -> Rows:
    """The rows of a group: the name of the table and the columns of each."""
    yield (
        "groups",
        {
            "type": group.type,
            "state": group.state if isinstance(group, ShareGroup) else _streams_state(group),
            "protocol_type": group.type,
            "epoch": group.epoch,
            "target_epoch": group.target_epoch,
            "metadata_hash": group.metadata_hash,
            "members": len(group.members),
        },
    )
    if isinstance(group, StreamsGroup):
        for thread in group.members.values():
            yield "members", _thread(thread)
        return
    for member in group.members.values():
        yield "members", _share_member(member)
        yield from _assigned(member.member_id, "assigned", member.assigned)
    for member_id, target in group.targets.items():
        yield from _assigned(member_id, "target", target)


def _streams_state(group: StreamsGroup) -> str:
    """The state as far as records show it: whether the topics of a topology exist, they do not."""
    members = group.members.values()
    if not members:
        return "Empty"
    if group.target_epoch < group.epoch:
        return "Assigning"
    moving = any(m.epoch != group.target_epoch or m.state != TaskState.STABLE for m in members)
    return "Reconciling" if moving else "Stable"


def _share_member(member: ShareMember) -> dict[str, Any]:
    assigned = member.previous_epoch != _LEFT or member.epoch > 0
    return {
        "member_id": member.member_id,
        "rack_id": member.rack_id,
        "client_id": member.client_id,
        "client_host": member.client_host,
        "subscribed_topics": sorted(member.topic_names),
        "member_epoch": member.epoch if assigned else None,
        "previous_member_epoch": member.previous_epoch if assigned else None,
        "member_state": "stable" if assigned else None,
        "is_classic": False,
    }


def _thread(member: StreamsMember) -> dict[str, Any]:
    metadata, assigned = member.metadata, member.epoch not in (_JOINING, _LEFT)
    state = _TASK_STATES.get(TaskState(member.state), _UNKNOWN_STATE)
    return {
        "member_id": member.member_id,
        "instance_id": metadata.get("instanceId"),
        "rack_id": metadata.get("rackId"),
        "client_id": metadata.get("clientId"),
        "client_host": metadata.get("clientHost"),
        "member_epoch": member.epoch if assigned else None,
        "previous_member_epoch": member.previous_epoch if assigned else None,
        "member_state": state if assigned else None,
        "is_classic": False,
    }


def _assigned(member_id: str, role: str, partitions: Share) -> Rows:
    for topic_id, numbers in partitions.items():
        for number in numbers:
            place = {"member_id": member_id, "role": role, "topic_id": topic_id, "topic": None}
            yield "assignments", {**place, "topic_partition": number, "assignment_epoch": None}
