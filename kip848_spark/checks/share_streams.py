"""Checks share and streams groups: epochs, ownership of active tasks, and the order of records.

Their targets, the transitions of members and the metadata hash are not checked; each such record is
counted as unverifiable. The rules hold in the captured logs of 4.1.2, 4.2.0 and 4.3.1.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from kip848_spark.checks.context import AuditContext
from kip848_spark.checks.log_entries import LogEntry
from kip848_spark.checks.record_order import report_orphan_tombstone, report_unknown_member
from kip848_spark.checks.results import (
    CRITICAL,
    EPOCHS,
    GAP,
    HASH,
    ORDER,
    OWNERSHIP,
    TARGETS,
    TRANSITIONS,
    Tally,
)
from kip848_spark.checks.value_times import check_entry_times

NOT_CHECKED = "a share or streams group, of which only epochs, ownership and order are checked"
_FIRST_EPOCHS = (1, 2)
"""4.3 creates a group with epoch 1, earlier releases with 0; the first record is one higher."""
_TASKS = ("activeTasks", "activeTasksPendingRevocation")

GROUP, MEMBER, TARGET_EPOCH, TARGET, CURRENT = (
    "group", "member", "target epoch", "target", "current",
)  # fmt: skip
_ROLES = {
    "10": MEMBER, "11": GROUP, "12": TARGET_EPOCH, "13": TARGET, "14": CURRENT,
    "17": GROUP, "19": MEMBER, "20": TARGET_EPOCH, "21": TARGET, "22": CURRENT,
}  # fmt: skip
ActiveTask = tuple[str, int]
"""Subtopology id and partition."""


@dataclass(slots=True)
class _GroupState:
    """What the records since the last gap say. An epoch is None if no record gave it."""

    epoch: int | None = None
    target_epoch: int | None = None
    members: set[str] = field(default_factory=set)
    epochs: dict[str, int] = field(default_factory=dict)
    """Member epochs."""
    owners: dict[ActiveTask, str] = field(default_factory=dict)


class ShareStreamsAudit:
    """Checks one share or streams group: `add` its records in offset order, then `finish`."""

    def __init__(self, partition: int, group_id: str, context: AuditContext) -> None:
        self.partition = partition
        self.group_id = group_id
        self.context = context
        self._counted = Tally()
        self._tally = self._counted
        self._state = _GroupState()
        self._past_gaps = True
        self._complete = True
        self._seen: set[tuple[str, str]] = set()
        self._last = -1

    def add(self, entry: LogEntry) -> None:
        """Takes the next record of the group."""
        if (
            self.context.coverage.suspect_range(self.partition, self._last, entry.offset)
            is not None
        ):
            self.mark_gap()
        self._last = entry.offset
        self._tally = self._counted if self.context.counts(entry) else Tally()
        role = _ROLES.get(entry.kind)
        if role is None:
            return
        check_entry_times(self._tally, entry)
        if self._past_gaps:
            self._check(role, entry)
        else:
            self._add_unverifiable(role, entry, GAP)
            # The cleaner keeps one record of each key: a second one is beyond what it has cleaned.
            self._past_gaps = entry.key in self._seen
        self._seen.add(entry.key)
        self._apply(role, entry)

    def mark_gap(self) -> None:
        """Records may be missing here: nothing is known of the group any more."""
        self._state, self._past_gaps, self._complete = _GroupState(), False, False
        self._seen.clear()

    def finish(self) -> Tally:
        """All verdicts on the group."""
        return self._counted

    def _add_unverifiable(self, role: str, entry: LogEntry, reason: str) -> None:
        self._tally.add_unverifiable(ORDER, reason)
        if entry.value is None:
            return
        if role in (GROUP, TARGET_EPOCH, CURRENT):
            self._tally.add_unverifiable(EPOCHS, reason)
        self._count_unchecked(role, entry)
        if role == CURRENT and entry.kind == "22":
            self._tally.add_unverifiable(OWNERSHIP, reason)

    def _count_unchecked(self, role: str, entry: LogEntry) -> None:
        """Counts what is never checked of these groups."""
        if role == TARGET_EPOCH:
            self._tally.add_unverifiable(TARGETS, NOT_CHECKED)
        elif role == CURRENT:
            self._tally.add_unverifiable(TRANSITIONS, NOT_CHECKED)
        elif role == GROUP and (entry.value or {}).get("metadataHash"):
            self._tally.add_unverifiable(HASH, NOT_CHECKED)

    def _check(self, role: str, entry: LogEntry) -> None:
        self._check_order(role, entry)
        if entry.value is None:
            return
        self._count_unchecked(role, entry)
        if role == GROUP:
            self._check_group_epoch(entry, entry.value["epoch"])
        elif role == TARGET_EPOCH:
            self._check_target_epoch(entry, entry.value["assignmentEpoch"])
        elif role == CURRENT:
            self._check_member_epoch(entry)
            if entry.kind == "22":
                self._check_ownership(entry)

    def _check_order(self, role: str, entry: LogEntry) -> None:
        exists = entry.member in self._state.members
        if exists or not self._complete:
            self._tally.add_verified(ORDER)
        elif entry.value is not None and role in (TARGET, CURRENT):
            report_unknown_member(self._tally, entry)
        elif entry.value is None and role == MEMBER:
            report_orphan_tombstone(self._tally, entry)
        else:
            self._tally.add_verified(ORDER)

    def _check_group_epoch(self, entry: LogEntry, epoch: int) -> None:
        before = self._state.epoch
        if before is None and not self._complete:
            self._tally.add_unverifiable(EPOCHS, GAP)
        elif epoch in (_FIRST_EPOCHS if before is None else (before + 1,)):
            self._tally.add_verified(EPOCHS)
        else:
            expected = min(_FIRST_EPOCHS) if before is None else before + 1
            self._tally.add_disagreement(
                EPOCHS,
                "group_epoch",
                entry,
                expected,
                epoch,
            )

    def _check_target_epoch(self, entry: LogEntry, epoch: int) -> None:
        state = self._state
        if state.epoch is None:
            self._tally.add_unverifiable(EPOCHS, GAP)
        elif epoch == state.epoch and epoch > (state.target_epoch or 0):
            self._tally.add_verified(EPOCHS)
        else:
            self._tally.add_disagreement(
                EPOCHS,
                "target_again" if epoch == state.epoch else "target_epoch",
                entry,
                state.epoch,
                epoch,
            )

    def _check_member_epoch(self, entry: LogEntry) -> None:
        value, state = entry.value, self._state
        assert value is not None
        epoch, previous = value["memberEpoch"], value["previousMemberEpoch"]
        before = state.epochs.get(entry.member)
        target = state.target_epoch
        if target is None and self._complete:
            target = min(_FIRST_EPOCHS)  # of a group that 4.3 has just created
        if target is None or (before is None and not self._complete):
            self._tally.add_unverifiable(EPOCHS, GAP)
            return
        if epoch <= 0:  # a static member that left temporarily, or rejoined
            self._tally.add_verified(EPOCHS)
            return
        least = max(before or 0, 0)
        if least <= epoch <= target and (before is None or before <= 0 or previous == before):
            self._tally.add_verified(EPOCHS)
            return
        self._tally.add_disagreement(
            EPOCHS,
            "member_epochs",
            entry,
            {"least": least, "target": target, "previous": before},
            {"memberEpoch": epoch, "previousMemberEpoch": previous},
        )

    def _check_ownership(self, entry: LogEntry) -> None:
        taken = {
            task: owner
            for task in _tasks(entry)
            if (owner := self._state.owners.get(task, entry.member)) != entry.member
        }
        if taken:
            (subtopology, number), owner = min(taken.items())
            self._tally.add_disagreement(
                OWNERSHIP,
                "task_with_two_owners",
                entry,
                {"owner": owner, "task": [subtopology, number]},
                entry.record["value"]["data"],
                severity=CRITICAL,
            )
        elif self._complete:
            self._tally.add_verified(OWNERSHIP)
        else:
            self._tally.add_unverifiable(OWNERSHIP, GAP)

    def _apply(self, role: str, entry: LogEntry) -> None:
        state, value = self._state, entry.value
        if role == GROUP:
            if value is None:
                self._state = _GroupState()
                self._complete = self._complete or self._past_gaps
                self._seen.clear()
            else:
                state.epoch = value["epoch"]
        elif role == TARGET_EPOCH:
            state.target_epoch = None if value is None else value["assignmentEpoch"]
        elif role == MEMBER:
            (state.members.discard if value is None else state.members.add)(entry.member)
        elif role == CURRENT:
            state.owners = {t: m for t, m in state.owners.items() if m != entry.member}
            if value is None:
                state.epochs.pop(entry.member, None)
            else:
                state.epochs[entry.member] = value["memberEpoch"]
                state.owners |= dict.fromkeys(_tasks(entry), entry.member)


def _tasks(entry: LogEntry) -> list[ActiveTask]:
    value = entry.value or {}
    return [
        (row["subtopologyId"], number)
        for name in _TASKS
        for row in value.get(name) or ()
        for number in row["partitions"]
    ]
