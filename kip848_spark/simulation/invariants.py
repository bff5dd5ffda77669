"""What must hold in any log of consumer groups, checked operation by operation.

Only records are looked at, in the form `dump` prints them: nothing of the coordinator that wrote
them. The numbers C1 to C12 are those of the project's collected facts about the coordinator; the
rules themselves are KIP-848's, the exceptions what brokers of 4.0 to 4.3 were seen to write.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from kip848_spark.coordinator.releases import release_named

Place = tuple[str, int]
STABLE, UNREVOKED = 0, 1
STATIC_LEAVE = -2


class BrokenInvariantError(AssertionError):
    """A coordinator wrote what must not be."""


@dataclass(frozen=True)
class Current:
    """The last record of key 8 of a member."""

    epoch: int
    previous: int
    state: int
    assigned: frozenset[Place]
    revoking: frozenset[Place]
    newest: int
    """The newest assignment epoch of its partitions (4.3; else 0)."""


@dataclass
class Group:
    """A consumer group as its records have it so far."""

    first_epoch: int
    epoch: int | None = None
    target_epoch: int | None = None
    members: set[str] = field(default_factory=set)
    targets: dict[str, frozenset[Place]] = field(default_factory=dict)
    current: dict[str, Current] = field(default_factory=dict)


class Invariants:
    """Feed it every operation of a log in order; it raises at the first that breaks a rule."""

    def __init__(self, release: str) -> None:
        known = release_named(release)
        self._first_epoch = known.first_epoch
        self._masks = known.masks_lost_topics
        self._groups: dict[str, Group] = {}

    def check(self, records: Iterable[Mapping[str, Any]]) -> None:
        """The records of one operation (of any groups). Raises BrokenInvariantError."""
        by_group: dict[str, list[Mapping[str, Any]]] = {}
        for record in records:
            key = record["key"]
            if key["type"] in _KINDS:
                group_id = key["data"].get("groupId") or key["data"].get("group")
                by_group.setdefault(group_id, []).append(record)
        for group_id, own in by_group.items():
            self._operation(group_id, own)

    def _operation(self, group_id: str, records: Sequence[Mapping[str, Any]]) -> None:
        upgrades = any(r["key"]["type"] == "2" and r["value"] is None for r in records)
        try:
            for record in records:
                self._apply(group_id, record, upgrades)
            group = self._groups.get(group_id)
            if group is not None:
                self._at_end(group)
        except BrokenInvariantError as broken:
            shown = "; ".join(_shown(record) for record in records[:12])
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
            group = self._groups[group_id] = Group(self._first_epoch)
        if value is None:
            self._bury(group_id, group, kind, key.get("memberId"))
            return
        match kind:
            case "3":
                due = (group.first_epoch if group.epoch is None else group.epoch) + 1
                fresh = upgrades and group.epoch is None
                _hold(fresh or value["epoch"] == due, "C1", f"the epoch after {due - 1} is another")
                group.epoch = value["epoch"]
            case "5":
                group.members.add(key["memberId"])
            case "6":
                self._target(group, value["assignmentEpoch"])
            case "7":
                group.targets[key["memberId"]] = _places(value["topicPartitions"])
            case "8":
                self._current(group, key["memberId"], value, upgrades)

    def _bury(self, group_id: str, group: Group, kind: str, member: str) -> None:
        """A tombstone."""
        match kind:
            case "3":
                _hold(not group.members, "C11", "a group goes before its members")
                _hold(group.target_epoch is None, "C11", "a group goes before its target")
                del self._groups[group_id]
            case "5":
                _hold(member not in group.current, "C11", "a member goes before its assignment")
                _hold(member not in group.targets, "C11", "a member goes before its target")
                group.members.discard(member)
            case "6":
                group.target_epoch = None
            case "7":
                group.targets.pop(member, None)
            case "8":
                group.current.pop(member, None)

    def _target(self, group: Group, epoch: int) -> None:
        reached = group.first_epoch if group.epoch is None else group.epoch
        _hold(epoch == reached, "C3", "a target is not of the group's epoch")
        if group.target_epoch is not None:
            _hold(epoch > group.target_epoch, "C3", "a target is not newer than the last")
        group.target_epoch = epoch
        _hold(set(group.targets) == group.members, "C4", "targets are not of the members")
        seen: set[Place] = set()
        for places in group.targets.values():
            _hold(not seen & places, "C4", "a partition is in two targets")
            seen |= places

    def _current(self, group: Group, member: str, value: Mapping[str, Any], upgrades: bool) -> None:
        after = Current(
            value["memberEpoch"],
            value["previousMemberEpoch"],
            value["state"],
            _places(value["assignedPartitions"]),
            _places(value["partitionsPendingRevocation"]),
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
        _hold(after.epoch != -1, "C5", "a member epoch of -1 is written")
        _hold(not after.assigned & after.revoking, "C7", "a partition is kept and revoked at once")
        _hold(
            not after.revoking or after.state == UNREVOKED, "C7", "who revokes is not in that state"
        )
        if after.epoch not in (STATIC_LEAVE, 0):
            _hold(
                after.state != UNREVOKED or after.revoking,
                "C7",
                "who revokes has nothing to revoke",
            )
        if before is None:
            first = after.previous == 0 or (upgrades and after.previous == after.epoch)
            _hold(first, "C6", "a new member has a past")
        elif after.epoch == STATIC_LEAVE:
            _hold(after.previous == before.previous, "C6", "leaving changes the previous epoch")
        else:
            _hold(after.epoch >= before.epoch, "C5", "a member epoch falls")
            _hold(after.previous == before.epoch, "C6", "the previous epoch is another one")
        if after.epoch > 0 and not upgrades:
            had = before.assigned if before else frozenset()
            going = before.revoking if before else frozenset()
            target = group.targets.get(member, frozenset())
            _hold(after.assigned <= had | target, "C9", "more is assigned than had or targeted")
            _hold(after.revoking <= had | going, "C9", "more is revoked than there was")
        group.current[member] = after

    def _at_end(self, group: Group) -> None:
        epoch = group.first_epoch if group.epoch is None else group.epoch
        target = group.first_epoch if group.target_epoch is None else group.target_epoch
        _hold(target <= epoch, "C2", "the target is ahead of the group")
        held: set[Place] = set()
        for member, current in group.current.items():
            _hold(current.epoch <= target, "C2", "a member is ahead of the target")
            newest = current.newest if current.epoch else 0  # 0: copied from a member replaced
            _hold(newest <= max(current.epoch, 0), "C12", "a partition is newer than its member")
            own = current.assigned | current.revoking
            _hold(not held & own, "C8", "a partition is held by two members")
            held |= own
            if current.state == STABLE and current.epoch == target and member in group.targets:
                wanted = group.targets[member]
                even = current.assigned <= wanted if self._masks else current.assigned == wanted
                _hold(even, "C10", "a stable member has not what its target says")


_KINDS = frozenset({"2", "3", "5", "6", "7", "8"})


def _hold(true: object, rule: str, otherwise: str) -> None:
    if not true:
        raise BrokenInvariantError(f"{rule}: {otherwise}")


def _places(rows: Iterable[Mapping[str, Any]]) -> frozenset[Place]:
    return frozenset((row["topicId"], number) for row in rows for number in row["partitions"])


def _shown(record: Mapping[str, Any]) -> str:
    value = record["value"]
    return f"{record['key']['type']} {'-' if value is None else value['data']}"
