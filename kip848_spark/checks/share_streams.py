"""Share and streams groups: epochs, ownership of active tasks, and the order of records.

Their assignors and what a member may reconcile to are not judged; each such record is counted as
unverifiable. The rules are those that logs of 4.1.2, 4.2.0 and 4.3.1 keep.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from kip848_spark.checks.log_entries import Entry
from kip848_spark.checks.record_order import never_joined, nothing_there
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
from kip848_spark.checks.settings import Settings

NOT_JUDGED = "a share or streams group: only epochs, ownership and record order are judged"
_FIRST_EPOCHS = (1, 2)
"""4.3 makes a group at epoch 1, those before at 0; its first record is one later."""
_TASKS = ("activeTasks", "activeTasksPendingRevocation")

GROUP, MEMBER, TARGET_EPOCH, TARGET, CURRENT = (
    "group", "member", "target epoch", "target", "current",
)  # fmt: skip
_ROLES = {
    "10": MEMBER, "11": GROUP, "12": TARGET_EPOCH, "13": TARGET, "14": CURRENT,
    "17": GROUP, "19": MEMBER, "20": TARGET_EPOCH, "21": TARGET, "22": CURRENT,
}  # fmt: skip
Task = tuple[str, int]


@dataclass(slots=True)
class _State:
    """What the records seen since the log was last whole say. None: not seen."""

    epoch: int | None = None
    target_epoch: int | None = None
    members: set[str] = field(default_factory=set)
    epochs: dict[str, int] = field(default_factory=dict)
    """Member epochs."""
    owners: dict[Task, str] = field(default_factory=dict)


class OtherGroupAudit:
    """Judges one share or streams group: `add` its records, then `finish`."""

    def __init__(self, partition: int, group_id: str, settings: Settings) -> None:
        self.partition = partition
        self.group_id = group_id
        self.settings = settings
        self._counted = Tally()
        self._tally = self._counted
        self._state = _State()
        self._sure = True
        self._census = True
        self._seen: set[tuple[str, str]] = set()
        self._last = -1

    def add(self, entry: Entry) -> None:
        """The next record of the group."""
        if self.settings.coverage.doubt(self.partition, self._last, entry.offset) is not None:
            self.doubt()
        self._last = entry.offset
        self._tally = self._counted if self.settings.counts(entry) else Tally()
        role = _ROLES.get(entry.kind)
        if role is None:
            return
        if self._sure:
            self._judge(role, entry)
        else:
            self._unknown(role, entry, GAP)
            # The cleaner leaves one record a key: a second one lies behind what it has cleaned.
            self._sure = entry.key in self._seen
        self._seen.add(entry.key)
        self._apply(role, entry)

    def doubt(self) -> None:
        """Records may be missing here: nothing is known of the group any more."""
        self._state, self._sure, self._census = _State(), False, False
        self._seen.clear()

    def finish(self) -> Tally:
        """What it came to."""
        return self._counted

    def _unknown(self, role: str, entry: Entry, reason: str) -> None:
        self._tally.unknown(ORDER, reason)
        if entry.value is None:
            return
        if role in (GROUP, TARGET_EPOCH, CURRENT):
            self._tally.unknown(EPOCHS, reason)
        self._beyond(role, entry)
        if role == CURRENT and entry.kind == "22":
            self._tally.unknown(OWNERSHIP, reason)

    def _beyond(self, role: str, entry: Entry) -> None:
        """Count what is never judged of these groups."""
        if role == TARGET_EPOCH:
            self._tally.unknown(TARGETS, NOT_JUDGED)
        elif role == CURRENT:
            self._tally.unknown(TRANSITIONS, NOT_JUDGED)
        elif role == GROUP and (entry.value or {}).get("metadataHash"):
            self._tally.unknown(HASH, NOT_JUDGED)

    def _judge(self, role: str, entry: Entry) -> None:
        self._order(role, entry)
        if entry.value is None:
            return
        self._beyond(role, entry)
        if role == GROUP:
            self._group_epoch(entry, entry.value["epoch"])
        elif role == TARGET_EPOCH:
            self._target_epoch(entry, entry.value["assignmentEpoch"])
        elif role == CURRENT:
            self._member_epoch(entry)
            if entry.kind == "22":
                self._ownership(entry)

    def _order(self, role: str, entry: Entry) -> None:
        there = entry.member in self._state.members
        if there or not self._census:
            self._tally.right(ORDER)
        elif entry.value is not None and role in (TARGET, CURRENT):
            never_joined(self._tally, entry)
        elif entry.value is None and role == MEMBER:
            nothing_there(self._tally, entry)
        else:
            self._tally.right(ORDER)

    def _group_epoch(self, entry: Entry, epoch: int) -> None:
        before = self._state.epoch
        if before is None and not self._census:
            self._tally.unknown(EPOCHS, GAP)
        elif epoch in (_FIRST_EPOCHS if before is None else (before + 1,)):
            self._tally.right(EPOCHS)
        else:
            expected = min(_FIRST_EPOCHS) if before is None else before + 1
            self._tally.wrong(
                EPOCHS,
                entry,
                f"The group's epoch must be {expected} here, one more than before: look for a lost "
                "record or a second writer.",
                expected,
                epoch,
            )

    def _target_epoch(self, entry: Entry, epoch: int) -> None:
        state = self._state
        if state.epoch is None:
            self._tally.unknown(EPOCHS, GAP)
        elif epoch == state.epoch and epoch > (state.target_epoch or 0):
            self._tally.right(EPOCHS)
        else:
            self._tally.wrong(
                EPOCHS,
                entry,
                f"The target is marked as made for epoch {epoch}, but the group is at "
                f"{state.epoch}: members will converge to an epoch that is not the group's; look "
                "for a lost record, and restart one member of the group.",
                state.epoch,
                epoch,
            )

    def _member_epoch(self, entry: Entry) -> None:
        value, state = entry.value, self._state
        assert value is not None
        epoch, previous = value["memberEpoch"], value["previousMemberEpoch"]
        before = state.epochs.get(entry.member)
        target = state.target_epoch
        if target is None and self._census:
            target = min(_FIRST_EPOCHS)  # of a group that 4.3 has just made
        if target is None or (before is None and not self._census):
            self._tally.unknown(EPOCHS, GAP)
            return
        if epoch <= 0:  # a static member that left for a while, or took its place again
            self._tally.right(EPOCHS)
            return
        least = max(before or 0, 0)
        if least <= epoch <= target and (before is None or before <= 0 or previous == before):
            self._tally.right(EPOCHS)
            return
        self._tally.wrong(
            EPOCHS,
            entry,
            f"The member's epoch is {epoch}, which must be from {least} up to the target's, "
            f"{target}, and the one before it {before}: the member will be fenced; restart it.",
            {"least": least, "target": target, "previous": before},
            {"memberEpoch": epoch, "previousMemberEpoch": previous},
        )

    def _ownership(self, entry: Entry) -> None:
        taken = {
            task: owner
            for task in _tasks(entry)
            if (owner := self._state.owners.get(task, entry.member)) != entry.member
        }
        if taken:
            (subtopology, number), owner = min(taken.items())
            self._tally.wrong(
                OWNERSHIP,
                entry,
                f"Task {subtopology}_{number} is active at two members from here on, {owner} and "
                f"{entry.member}: both may process its records; restart one of the two.",
                {"owner": owner, "task": [subtopology, number]},
                entry.record["value"]["data"],
                severity=CRITICAL,
            )
        elif self._census:
            self._tally.right(OWNERSHIP)
        else:
            self._tally.unknown(OWNERSHIP, GAP)

    def _apply(self, role: str, entry: Entry) -> None:
        state, value = self._state, entry.value
        if role == GROUP:
            if value is None:
                self._state = _State()
                self._census = self._census or self._sure
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


def _tasks(entry: Entry) -> list[Task]:
    value = entry.value or {}
    return [
        (row["subtopologyId"], number)
        for name in _TASKS
        for row in value.get(name) or ()
        for number in row["partitions"]
    ]
