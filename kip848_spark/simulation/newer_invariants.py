"""Invariants of share groups (S1 to S7) and streams groups (T1 to T10), checked as those of
consumer groups are: operation by operation, on the records alone (docs/kafka-facts.md#invariants).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

Place = tuple[str, int]
"""A partition of a topic id, or a task: a partition of a subtopology."""
ROLES = ("activeTasks", "standbyTasks", "warmupTasks")
STATIC_LEAVE = -2
TASKS_STABLE, TASKS_UNREVOKED = 1, 2


class BrokenInvariantError(AssertionError):
    """A coordinator wrote records that break an invariant."""


def require(condition: object, rule: str, violation: str) -> None:
    """Raise BrokenInvariantError unless the condition holds."""
    if not condition:
        raise BrokenInvariantError(f"{rule}: {violation}")


@dataclass
class _ObservedEpochs:
    """What share and streams groups have in common."""

    first_epoch: int
    rule: str
    epoch: int | None = None
    target_epoch: int | None = None
    members: set[str] = field(default_factory=set)
    targeted: set[str] = field(default_factory=set)
    """The members that have a target."""
    member_epochs: dict[str, tuple[int, int]] = field(default_factory=dict)
    """The member epoch and the one before, of members with a current assignment."""

    def _bump(self, epoch: int) -> None:
        due = self.first_epoch + 1 if self.epoch is None else self.epoch + 1
        require(epoch == due, f"{self.rule}1", f"the epoch does not follow {due - 1}")
        self.epoch = epoch

    def _retarget(self, epoch: int) -> None:
        require(epoch == self.epoch, f"{self.rule}2", "a target epoch differs from the group epoch")
        newer = self.target_epoch is None or epoch > self.target_epoch
        require(newer, f"{self.rule}2", "a target is not newer than the previous one")
        require(
            self.targeted == self.members,
            f"{self.rule}3",
            "the members with a target are not the members",
        )
        self.target_epoch = epoch

    def _move(self, member: str, epoch: int, previous: int) -> None:
        before = self.member_epochs.get(member)
        if before is None:
            require(previous <= 0, f"{self.rule}4", "a new member has a previous epoch")
        elif epoch == STATIC_LEAVE:
            require(
                previous == before[1], f"{self.rule}4", "leaving changes the previous member epoch"
            )
        else:
            require(epoch >= before[0], f"{self.rule}4", "a member epoch decreases")
            require(
                previous in (before[0], before[1]) if epoch == before[0] else previous == before[0],
                f"{self.rule}4",
                "the previous epoch differs from the last one",
            )
        self.member_epochs[member] = epoch, previous

    def _remove(self, kind: str, member: str, parts: Mapping[str, str]) -> None:
        """Apply a tombstone; ``parts`` are the key types of the group's records by name."""
        rule = f"{self.rule}5"
        if kind == parts["current"]:
            self.member_epochs.pop(member, None)
        elif kind == parts["target"]:
            self.targeted.discard(member)
        elif kind == parts["member"]:
            kept = member in self.member_epochs or member in self.targeted
            require(not kept, rule, "a member is deleted before its target or assignment")
            self.members.discard(member)
        elif kind == parts["target epoch"]:
            self.target_epoch = None
        elif kind == parts["group"]:
            require(not self.members, rule, "a group is deleted before its members")
            require(self.target_epoch is None, rule, "a group is deleted before its target")

    def _at_end(self) -> None:
        reached = max(self.first_epoch, 1) if self.target_epoch is None else self.target_epoch
        for epoch, _ in self.member_epochs.values():
            require(epoch <= reached, f"{self.rule}2", "a member is ahead of the target")


@dataclass
class ObservedShareGroup(_ObservedEpochs):
    """A share group as far as its records show it."""

    initializing: set[Place] = field(default_factory=set)
    initialized: set[Place] = field(default_factory=set)
    assignable: set[Place] = field(default_factory=set)
    """Partitions that are or were initialized: the state of a deleted topic goes before its targets
    do."""
    targets: dict[str, frozenset[Place]] = field(default_factory=dict)

    PARTS: ClassVar[dict[str, str]] = {
        "member": "10", "group": "11", "target epoch": "12", "target": "13", "current": "14",
    }  # fmt: skip

    def apply(self, kind: str, member: str, value: Mapping[str, Any] | None) -> None:
        """Apply a record of the group, a tombstone if it has no value."""
        if value is None:
            self._remove(kind, member, self.PARTS)
            return
        match kind:
            case "10":
                self.members.add(member)
            case "11":
                self._bump(value["epoch"])
            case "12":
                self._retarget(value["assignmentEpoch"])
            case "13":
                self.targeted.add(member)
                self.targets[member] = places = _places(value["topicPartitions"], "topicId")
                require(
                    places <= self.assignable, "S6", "a target has a partition without share state"
                )
            case "14":
                self._move(member, value["memberEpoch"], value["previousMemberEpoch"])
                require(
                    _places(value["assignedPartitions"], "topicId")
                    <= self.targets.get(member, frozenset()),
                    "S6",
                    "a partition is assigned that was not targeted",
                )
            case "15":
                self._initialize(value)

    def at_end(self) -> None:
        """What holds after an operation."""
        self._at_end()

    def _initialize(self, value: Mapping[str, Any]) -> None:
        begun = set(_places(value["initializingTopics"], "topicId"))
        done = set(_places(value["initializedTopics"], "topicId"))
        require(not begun & done, "S7", "a partition is initialized and being initialized")
        require(
            done <= self.initialized | self.initializing,
            "S7",
            "a partition is initialized that was not being initialized",
        )
        self.initializing, self.initialized = begun, done
        self.assignable |= done


@dataclass
class ObservedStreamsGroup(_ObservedEpochs):
    """A streams group as far as its records show it."""

    roles_in_place: bool = False
    descriptions: tuple[Any, ...] = ()
    processes: dict[str, str] = field(default_factory=dict)
    targets: dict[str, frozenset[Place]] = field(default_factory=dict)
    """The active tasks of each target."""
    wanted: dict[str, frozenset[Place]] = field(default_factory=dict)
    """The tasks of each target in any role."""
    held: dict[str, tuple[frozenset[Place], ...]] = field(default_factory=dict)
    """Tasks by role, those pending revocation after those assigned."""

    PARTS: ClassVar[dict[str, str]] = {
        "group": "17", "member": "19", "target epoch": "20", "target": "21", "current": "22",
    }  # fmt: skip

    def apply(self, kind: str, member: str, value: Mapping[str, Any] | None) -> None:
        """Apply a record of the group, a tombstone if it has no value."""
        if value is None:
            self._remove(kind, member, self.PARTS)
            if kind == "21":
                self.targets.pop(member, None)
            elif kind == "22":
                self.held.pop(member, None)
            return
        match kind:
            case "17":
                self._group(value)
            case "19":
                self.members.add(member)
                self.processes[member] = value["processId"]
            case "20":
                self._retarget(value["assignmentEpoch"])
                active = [task for tasks in self.targets.values() for task in tasks]
                require(len(active) == len(set(active)), "T6", "a task is active in two targets")
            case "21":
                self.targeted.add(member)
                self.targets[member] = _places(value["activeTasks"], "subtopologyId")
                self.wanted[member] = frozenset().union(
                    *(_places(value[role], "subtopologyId") for role in ROLES)
                )
            case "22":
                self._current(member, value)

    def _group(self, value: Mapping[str, Any]) -> None:
        """From 4.4, key 17 is written again at the same epoch with another stored description."""
        names = ("storedDescriptionTopologyEpoch", "failedDescriptionTopologyEpoch")
        descriptions = tuple(value.get(name) for name in names)
        if self.epoch != value["epoch"] or descriptions == self.descriptions:
            self._bump(value["epoch"])
        self.descriptions = descriptions

    def _current(self, member: str, value: Mapping[str, Any]) -> None:
        self._move(member, value["memberEpoch"], value["previousMemberEpoch"])
        assigned = [_places(value[role], "subtopologyId") for role in ROLES]
        pending = [_places(value[f"{role}PendingRevocation"], "subtopologyId") for role in ROLES]
        revokes = any(pending)
        require(
            revokes == (value["state"] == TASKS_UNREVOKED),
            "T7",
            "tasks pending revocation do not agree with the member's state",
        )
        if not self.roles_in_place:
            tasks = [task for tasks in (*assigned, *pending) for task in tasks]
            require(len(tasks) == len(set(tasks)), "T7", "a member holds a task in two roles")
        had = frozenset().union(*self.held.get(member, ()))
        if value["memberEpoch"] > 0:
            require(
                frozenset().union(*assigned) <= had | self.wanted.get(member, frozenset()),
                "T8",
                "a task is assigned that was neither assigned nor targeted",
            )
            require(
                frozenset().union(*pending) <= had, "T8", "a task is pending that was not assigned"
            )
        self.held[member] = (*assigned, *pending)
        epoch = value["memberEpoch"]
        if value["state"] == TASKS_STABLE and epoch == self.target_epoch and member in self.targets:
            require(assigned[0] == self.targets[member], "T9", "a stable member lacks its target")

    def at_end(self) -> None:
        """What holds after an operation."""
        self._at_end()
        active = [task for held in self.held.values() for task in held[0] | held[3]]
        require(len(active) == len(set(active)), "T10", "two members hold a task as active")


def _places(rows: Iterable[Mapping[str, Any]], name: str) -> frozenset[Place]:
    return frozenset((row[name], number) for row in rows for number in row["partitions"])
