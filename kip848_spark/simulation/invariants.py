"""Invariants that hold in every log of consumer, share and streams groups, operation by
operation.

Only records are checked, in the form `kip848 dump` prints: nothing of the coordinator that wrote
them. The invariants C1 to C12 are listed in docs/kafka-facts.md#invariants; they follow from
KIP-848, with the exceptions that brokers of Kafka 4.0 to 4.3 write. Those of share and streams
groups are in `newer_invariants`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from kip848_spark.coordinator.releases import find_release
from kip848_spark.simulation.newer_invariants import (
    BrokenInvariantError,
    ObservedShareGroup,
    ObservedStreamsGroup,
    require,
)

TopicIdPartition = tuple[str, int]
STABLE, UNREVOKED = 0, 1
STATIC_LEAVE = -2


@dataclass(frozen=True)
class CurrentAssignment:
    """The last record of key 8 of a member."""

    epoch: int
    previous: int
    state: int
    assigned: frozenset[TopicIdPartition]
    revoking: frozenset[TopicIdPartition]
    newest: int
    """The newest assignment epoch of its partitions (4.3; 0 in older releases)."""


@dataclass
class ObservedGroup:
    """A consumer group as far as its records show it."""

    first_epoch: int
    epoch: int | None = None
    target_epoch: int | None = None
    members: set[str] = field(default_factory=set)
    targets: dict[str, frozenset[TopicIdPartition]] = field(default_factory=dict)
    current: dict[str, CurrentAssignment] = field(default_factory=dict)


class Invariants:
    """Checks every operation of a log in order, and raises at the first that breaks an
    invariant.
    """

    def __init__(self, release: str) -> None:
        known = find_release(release)
        self._first_epoch = known.first_epoch
        self._masks = known.masks_lost_topics
        self._release = known
        self._groups: dict[str, ObservedGroup] = {}
        self._newer: dict[str, ObservedShareGroup | ObservedStreamsGroup] = {}

    def check(self, records: Iterable[Mapping[str, Any]]) -> None:
        """Check the records of one operation (of any groups). Raises BrokenInvariantError."""
        by_group: dict[str, list[Mapping[str, Any]]] = {}
        for record in records:
            key = record["key"]
            if key["type"] in _KINDS:
                group_id = key["data"].get("groupId") or key["data"].get("group")
                by_group.setdefault(group_id, []).append(record)
        for group_id, own in by_group.items():
            newer = [record for record in own if record["key"]["type"] in _NEWER]
            if newer:
                self._newer_operation(group_id, newer)
            if len(newer) < len(own):
                self._operation(group_id, own)

    def _newer_operation(self, group_id: str, records: Sequence[Mapping[str, Any]]) -> None:
        """An operation of a share or streams group."""
        try:
            for record in records:
                kind, value = record["key"]["type"], record["value"]
                group = self._newer.get(group_id)
                if group is None:
                    if value is None:
                        continue
                    group = self._newer[group_id] = self._new_group(kind)
                data = None if value is None else value["data"]
                group.apply(kind, record["key"]["data"].get("memberId"), data)
                if kind in ("11", "17") and value is None:
                    del self._newer[group_id]
            if group_id in self._newer:
                self._newer[group_id].at_end()
        except BrokenInvariantError as broken:
            shown = "; ".join(_describe(record) for record in records[:12])
            raise BrokenInvariantError(f"group {group_id!r}: {broken} ({shown})") from None

    def _new_group(self, kind: str) -> ObservedShareGroup | ObservedStreamsGroup:
        if kind in _SHARE:
            return ObservedShareGroup(self._first_epoch, "S")
        first = 1 if self._release.streams_configs else self._first_epoch
        in_place = self._release.streams_roles_in_place
        return ObservedStreamsGroup(first, "T", roles_in_place=in_place)

    def _operation(self, group_id: str, records: Sequence[Mapping[str, Any]]) -> None:
        records = [record for record in records if record["key"]["type"] not in _NEWER]
        upgrades = any(r["key"]["type"] == "2" and r["value"] is None for r in records)
        try:
            for record in records:
                self._apply(group_id, record, upgrades)
            group = self._groups.get(group_id)
            if group is not None:
                self._at_end(group)
        except BrokenInvariantError as broken:
            shown = "; ".join(_describe(record) for record in records[:12])
            raise BrokenInvariantError(f"group {group_id!r}: {broken} ({shown})") from None

    def _apply(self, group_id: str, record: Mapping[str, Any], upgrades: bool) -> None:
        kind, key = record["key"]["type"], record["key"]["data"]
        value = None if record["value"] is None else record["value"]["data"]
        if kind == "2":
            self._groups.pop(group_id, None)
            return
        group = self._groups.get(group_id)
        if group is None:
            if value is None:
                return
            group = self._groups[group_id] = ObservedGroup(self._first_epoch)
        if value is None:
            self._apply_tombstone(group_id, group, kind, key.get("memberId"))
            return
        match kind:
            case "3":
                due = (group.first_epoch if group.epoch is None else group.epoch) + 1
                fresh = upgrades and group.epoch is None
                require(
                    fresh or value["epoch"] == due, "C1", f"the epoch does not follow {due - 1}"
                )
                group.epoch = value["epoch"]
            case "5":
                group.members.add(key["memberId"])
            case "6":
                self._target(group, value["assignmentEpoch"])
            case "7":
                group.targets[key["memberId"]] = _partitions(value["topicPartitions"])
            case "8":
                self._current(group, key["memberId"], value, upgrades)

    def _apply_tombstone(self, group_id: str, group: ObservedGroup, kind: str, member: str) -> None:
        """Apply a tombstone."""
        match kind:
            case "3":
                require(not group.members, "C11", "a group is deleted before its members")
                require(group.target_epoch is None, "C11", "a group is deleted before its target")
                del self._groups[group_id]
            case "5":
                require(
                    member not in group.current, "C11", "a member is deleted before its assignment"
                )
                require(member not in group.targets, "C11", "a member is deleted before its target")
                group.members.discard(member)
            case "6":
                group.target_epoch = None
            case "7":
                group.targets.pop(member, None)
            case "8":
                group.current.pop(member, None)

    def _target(self, group: ObservedGroup, epoch: int) -> None:
        reached = group.first_epoch if group.epoch is None else group.epoch
        require(epoch == reached, "C3", "a target epoch differs from the group epoch")
        if group.target_epoch is not None:
            require(epoch > group.target_epoch, "C3", "a target is not newer than the previous one")
        group.target_epoch = epoch
        require(
            set(group.targets) == group.members,
            "C4",
            "the members with a target are not the members",
        )
        seen: set[TopicIdPartition] = set()
        for places in group.targets.values():
            require(not seen & places, "C4", "a partition is in two targets")
            seen |= places

    def _current(
        self, group: ObservedGroup, member: str, value: Mapping[str, Any], upgrades: bool
    ) -> None:
        after = CurrentAssignment(
            value["memberEpoch"],
            value["previousMemberEpoch"],
            value["state"],
            _partitions(value["assignedPartitions"]),
            _partitions(value["partitionsPendingRevocation"]),
            max(
                (
                    epoch
                    for rows in (value["assignedPartitions"], value["partitionsPendingRevocation"])
                    for row in rows
                    for epoch in row.get("assignmentEpochs") or ()
                ),
                default=0,
            ),
        )
        before = group.current.get(member)
        require(after.epoch != -1, "C5", "a member epoch of -1 is written")
        require(
            not after.assigned & after.revoking,
            "C7",
            "a partition is both assigned and pending revocation",
        )
        require(
            not after.revoking or after.state == UNREVOKED,
            "C7",
            "a member with pending partitions is not in UNREVOKED_PARTITIONS",
        )
        if after.epoch not in (STATIC_LEAVE, 0):
            require(
                after.state != UNREVOKED or after.revoking,
                "C7",
                "a member in UNREVOKED_PARTITIONS has no pending partitions",
            )
        if before is None:
            first = after.previous == 0 or (upgrades and after.previous == after.epoch)
            require(first, "C6", "a new member has a previous epoch")
        elif after.epoch == STATIC_LEAVE:
            require(after.previous == before.previous, "C6", "leaving changes the previous epoch")
        else:
            require(after.epoch >= before.epoch, "C5", "a member epoch decreases")
            follows = after.previous == before.epoch or self._only_unsubscribes(before, after)
            require(follows, "C6", "the previous epoch differs from the last one")
        if after.epoch > 0 and not upgrades:
            had = before.assigned if before else frozenset()
            going = before.revoking if before else frozenset()
            target = group.targets.get(member, frozenset())
            require(
                after.assigned <= had | target,
                "C9",
                "a partition is assigned that was neither assigned nor targeted",
            )
            require(
                after.revoking <= had | going, "C9", "a partition is pending that was not assigned"
            )
        group.current[member] = after

    def _only_unsubscribes(self, before: CurrentAssignment, after: CurrentAssignment) -> bool:
        """4.2: a changed subscription alone takes partitions away, and both epochs stay."""
        return (
            self._masks
            and not self._release.unsubscribing_steps
            and (after.epoch, after.previous) == (before.epoch, before.previous)
            and after.assigned < before.assigned
        )

    def _at_end(self, group: ObservedGroup) -> None:
        epoch = group.first_epoch if group.epoch is None else group.epoch
        target = group.first_epoch if group.target_epoch is None else group.target_epoch
        require(target <= epoch, "C2", "the target is ahead of the group")
        held: set[TopicIdPartition] = set()
        for member, current in group.current.items():
            require(current.epoch <= target, "C2", "a member is ahead of the target")
            newest = (
                current.newest if current.epoch else 0
            )  # 0: inherited from a replaced static member
            require(
                newest <= max(current.epoch, 0),
                "C12",
                "an assignment epoch exceeds the member epoch",
            )
            own = current.assigned | current.revoking
            require(not held & own, "C8", "a partition is held by two members")
            held |= own
            if current.state == STABLE and current.epoch == target and member in group.targets:
                wanted = group.targets[member]
                even = current.assigned <= wanted if self._masks else current.assigned == wanted
                require(even, "C10", "a stable member differs from its target")


_SHARE = frozenset(ObservedShareGroup.PARTS.values()) | {"15"}
_NEWER = _SHARE | frozenset(ObservedStreamsGroup.PARTS.values())
_KINDS = frozenset({"2", "3", "5", "6", "7", "8"}) | _NEWER


def _partitions(rows: Iterable[Mapping[str, Any]]) -> frozenset[TopicIdPartition]:
    return frozenset((row["topicId"], number) for row in rows for number in row["partitions"])


def _describe(record: Mapping[str, Any]) -> str:
    value = record["value"]
    return f"{record['key']['type']} {'-' if value is None else value['data']}"
