"""A group as the replay of its records (``spec/Coordinator.tla``: EmptyGroup, Replay)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any, Final

from kip848_spark.conformance.records import (
    CLASSIC,
    CURRENT,
    EPOCH,
    MEMBER,
    REGEX,
    TARGET,
    TARGET_EPOCH,
    Current,
    MemberValue,
    Partition,
    TraceRecord,
)

NOTHING: Final = Current()
"""The current assignment of a member that has none (Nothing in the model)."""
NO_PARTITIONS: Final[frozenset[Partition]] = frozenset()


class Rules:
    """How a release differs (``spec/Coordinator.tla``, "How releases differ")."""

    def __init__(self, release: str) -> None:
        self.release = release
        until_41 = release[:3] in ("4.0", "4.1")
        first_patches = release in ("4.0.0", "4.1.0")
        self.epochs_after_revocation = int(until_41)
        self.masks_lost_topics = not until_41
        from_43 = release in ("4.3", "4.4")
        self.has_partition_epochs = from_43
        self.has_assignment_interval = from_43
        self.unsubscribing_steps = from_43
        self.first_epoch = int(from_43)
        self.bumps_fresh_group = not from_43
        self.repeats_copied_target = release != "4.4"
        self.votes_bump = release == "4.4"
        self.empties_target = release == "4.4"
        self.clearing_regex_bumps = not (release == "4.0" or first_patches)
        self.own_pending_is_free = not first_patches


class ModelGroup:
    """A group. `replay` takes its records one by one."""

    def __init__(self, rules: Rules) -> None:
        self._rules = rules
        self.generation = -1
        """The generation of a classic group; -1: there is none."""
        self.classic_members: frozenset[str] = frozenset()
        self._clear()

    def _clear(self) -> None:
        self.epoch = self.target_epoch = self._rules.first_epoch
        self.known = 0
        self.members: dict[str, MemberValue] = {}
        self.target: dict[str, frozenset[Partition]] = {}
        self.current: dict[str, Current] = {}
        self.resolved: dict[str, frozenset[str]] = {}
        self.owners: Counter[Partition] = Counter()
        """How many members own each partition."""

    @property
    def is_empty(self) -> bool:
        """Whether it is as a group without records (a classic group may be there)."""
        fresh = self.epoch == self.target_epoch == self._rules.first_epoch
        return fresh and not (self.members or self.target or self.current or self.resolved)

    def replay(self, records: Iterable[TraceRecord]) -> ModelGroup:
        """Takes further records. Returns the same group."""
        for record in records:
            self._replay_one(record)
        return self

    def _replay_one(self, record: TraceRecord) -> None:
        key, name, value = record.key, record.name, record.value
        if key == CURRENT:
            self._count(self.current.pop(name, NOTHING), -1)
            if value is not None:
                self.current[name] = value
                self._count(value, 1)
        elif key == TARGET:
            _put(self.target, name, value)
        elif key == TARGET_EPOCH:
            self.target_epoch = self._rules.first_epoch if value is None else value
        elif key == EPOCH:
            if value is None:
                self._clear()
            else:
                self.epoch, self.known = value
        elif key == MEMBER:
            _put(self.members, name, value)
        elif key == REGEX:
            _put(self.resolved, name, value)
        elif key == CLASSIC:
            self.generation = -1 if value is None else value.generation
            self.classic_members = frozenset() if value is None else value.members

    def _count(self, current: Current, by: int) -> None:
        for partitions in (current.assigned, current.pending):
            for partition in partitions:
                self.owners[partition] += by

    def current_of(self, member: str) -> Current:
        """CurrentOf"""
        return self.current.get(member, NOTHING)

    def target_of(self, member: str) -> frozenset[Partition]:
        """TargetOf"""
        return self.target.get(member, NO_PARTITIONS)

    def targets_of(self, members: Iterable[str]) -> set[Partition]:
        """The partitions of these members' targets."""
        return {partition for member in members for partition in self.target_of(member)}

    def copy(self) -> ModelGroup:
        """A group in the same state that can be changed alone. Classic members are left out."""
        copied = ModelGroup(self._rules)
        copied.epoch, copied.target_epoch, copied.known = self.epoch, self.target_epoch, self.known
        copied.members, copied.target = dict(self.members), dict(self.target)
        copied.current, copied.resolved = dict(self.current), dict(self.resolved)
        copied.owners = self.owners.copy()
        return copied

    def uses(self, regex: str, but: Iterable[str] = ()) -> bool:
        """Whether a member subscribes to this expression, other than ``but``."""
        others = set(but)
        return any(s.regex == regex for m, s in self.members.items() if m not in others)


def _put(table: dict[str, Any], name: str, value: Any) -> None:
    if value is None:
        table.pop(name, None)
    else:
        table[name] = value
