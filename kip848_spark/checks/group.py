"""One group's records in the order of their offsets, cut into operations, each judged in turn.

Memory: the group's state, and the records of one operation.
"""

from __future__ import annotations

from kip848_spark.checks import release as releases
from kip848_spark.checks.assignment import judge_current
from kip848_spark.checks.completed_target import Before, judge_target
from kip848_spark.checks.epochs import Bump, judge_bump, judge_epoch, judge_target_epoch
from kip848_spark.checks.expressions import judge_abandoned, subscribed
from kip848_spark.checks.group_case import Case
from kip848_spark.checks.hashes import Hashes
from kip848_spark.checks.log_entries import OTHERS, Entry
from kip848_spark.checks.migration import Dissolved, judge_classic, judge_upgrade
from kip848_spark.checks.operations import (
    BROKEN,
    CLASSIC,
    DELETE,
    LEAVE,
    REJOIN,
    STEP,
    UPGRADE,
    Part,
    parts_of,
    same_operation,
)
from kip848_spark.checks.record_order import judge_order, judge_sense
from kip848_spark.checks.results import (
    CAUSES,
    CHECKS,
    CRITICAL,
    EPOCHS,
    GAP,
    HASH,
    LOADING,
    MIGRATION,
    ORDER,
    OWNERSHIP,
    TARGETS,
    TRANSITIONS,
    UNREAD,
    Tally,
)
from kip848_spark.checks.settings import Settings
from kip848_spark.checks.share_streams import OtherGroupAudit
from kip848_spark.coordinator import records


def _postponed(entries: list[Entry]) -> frozenset[str]:
    """The checks that may not be failed by an operation of which more may follow."""
    begins_a_group = any(e.kind == records.CLASSIC_GROUP and e.value is None for e in entries)
    return frozenset(CHECKS if begins_a_group else (ORDER, CAUSES))


class GroupAudit:
    """Judges one group: `add` its control records, then `finish`."""

    def __init__(self, partition: int, group_id: str, settings: Settings) -> None:
        self.settings = settings
        self.partition = partition
        self.group_id = group_id
        self._counted = Tally()
        self.case = Case(group_id, settings.topics, releases.given(settings.release), Tally())
        self.hashes = Hashes(self.case)
        self.reference = self.case.reference
        """The group as replayed from all its records, also where the case began anew."""
        self._operation: list[Entry] = []
        self._last = -1
        self._repeatable: set[tuple[str, str]] = set()
        self._dissolved: Dissolved | None = None
        self._others: OtherGroupAudit | None = None
        self._unread = False

    def add(self, entry: Entry) -> None:
        """The next record of the group."""
        if entry.kind in OTHERS:
            if self._others is None:
                self._others = OtherGroupAudit(self.partition, self.group_id, self.settings)
                if self._unread:
                    self._others.doubt()
            self._others.add(entry)
            return
        doubt = self.settings.coverage.doubt(self.partition, self._last, entry.offset)
        if doubt is not None:
            # What the reading before ended with may have had a rest that is gone.
            self._judge(closed=not self.settings.coverage.resumes(self.partition, self._last + 1))
            self.case.doubt(forget=doubt.again and self._last < doubt.first)
            self._repeatable.clear()
        elif self._operation and not same_operation(self._operation[-1], entry):
            self._judge()
        self._last = entry.offset
        self._operation.append(entry)

    @property
    def at_rest(self) -> bool:
        """Whether the reference has replayed all records but the last one that was added."""
        return len(self._operation) < 2

    def finish(self) -> Tally:
        """No record follows: what is left open is judged, or said to be unknown."""
        at_end = self.settings.coverage.is_end(self.partition, self._last)
        self._judge(closed=not at_end)
        self.case.tally = self._counted
        self.tally.postponed = frozenset()
        self.hashes.finish(self.settings.counts)
        if self._others is not None:
            self.tally.add(self._others.finish())
        return self.tally

    @property
    def tally(self) -> Tally:
        """What the verdicts at hand are counted in."""
        return self.case.tally

    def commit(self, entry: Entry) -> None:
        """A commit at its place among the records: it makes a simple group where there is none."""
        self._judge()
        self.reference.replay(entry)

    def unreadable(self, offset: int, timestamp: int) -> None:
        """A control record that nobody could read: what it said is missing."""
        self._unread = True
        if self._others is not None:
            self._others.doubt()
        self._judge(closed=False)
        if self.settings.counts_at(self.partition, offset, timestamp):
            self._counted.unknown(LOADING, UNREAD)
        self.case.doubt(forget=True)
        self._repeatable.clear()
        self._last = offset

    def _judge(self, *, closed: bool = True) -> None:
        entries, self._operation = self._operation, []
        if not entries:
            return
        if self.settings.release is None:
            self.case.written_by(releases.possible(self.case.releases, entries))
            if self.case.reference is not self.reference:
                self.reference.written_by(self.case.releases[-1])
        self._dissolved = None
        self.case.rejoined.clear()
        self.case.began = self.case.consumer.epoch if self.case.consumer is not None else None
        counts = self.settings.counts(entries[-1])
        self.case.tally = self._counted if counts else Tally()
        self.tally.postponed = frozenset() if closed else _postponed(entries)
        expressions = subscribed(self.case)
        for part in parts_of(entries):
            if self.case.sure:
                self._judge_part(part)
            else:
                self._pass_over(part)
        if self.case.sure:
            judge_abandoned(self.case, entries, expressions)
        else:
            keys = {entry.key for entry in entries}
            # The cleaner leaves one record a key: a second one lies behind what it has cleaned.
            self.case.sure = bool(keys & self._repeatable) or len(keys) < len(entries)
            self._repeatable |= keys

    def _apply(self, entry: Entry) -> str | None:
        """Replay a record; what a broker would say if it refused to load it."""
        if self.case.reference is not self.reference:
            self.reference.replay(entry)
        return self.case.apply(entry)

    def _pass_over(self, part: Part) -> None:
        """Records before which others may be missing: replayed, not judged."""
        counted = {
            records.CURRENT: (TRANSITIONS, OWNERSHIP, EPOCHS),
            records.TARGET_EPOCH: (TARGETS, EPOCHS),
            records.GROUP: (EPOCHS, CAUSES),
        }
        self.tally.unknown(ORDER, GAP)
        self.tally.unknown(LOADING, GAP)
        if part.name in (UPGRADE, CLASSIC):
            self.tally.unknown(MIGRATION, GAP)
        for entry in part.entries:
            value = entry.value
            if value is not None:
                for check in counted.get(entry.kind, ()):
                    self.tally.unknown(check, GAP)
                if entry.kind == records.GROUP and value.get("metadataHash"):
                    self.tally.unknown(HASH, GAP)
            if self._apply(entry) is not None:
                self.case.forget()

    def _judge_record(self, part: Part, entry: Entry, before: Before) -> None:
        judge_sense(self.case, part, entry)
        if entry.value is None or part.name == UPGRADE:  # an upgrade is judged as a whole
            return
        if entry.kind == records.CURRENT:
            judge_current(self.case, part, entry, before.left)
        elif entry.kind == records.GROUP:
            judge_epoch(self.case, entry)
        elif entry.kind == records.TARGET_EPOCH:
            judge_target_epoch(self.case, entry)
        elif entry.kind == records.CLASSIC_GROUP:
            judge_classic(self.case, entry, self._dissolved)
            self._dissolved = None  # the next one, though of the same moment, is its successor

    def _judge_step(self, part: Part) -> None:
        """A member's next assignment alone, as most parts are: it is no cause of anything."""
        (entry,) = part.entries
        self.tally.right(ORDER)
        self._judge_record(part, entry, Before())
        fault = self._apply(entry)
        if fault is None:
            self.tally.right(LOADING)
        else:
            self._refused(entry, fault)

    def _judge_part(self, part: Part) -> None:
        if part.letters == STEP:
            self._judge_step(part)
            return
        case = self.case
        judge_order(case, part)
        before = Before.of(case, part)
        bump = Bump.of(case, part)
        refused = False
        for entry in part.entries:
            self._judge_record(part, entry, before)
            fault = self._apply(entry)
            if fault is not None:
                refused = True
                self._refused(entry, fault)
        if part.name == DELETE:
            self._dissolved = before.dissolved
        if part.name == REJOIN:
            case.rejoined |= {entry.member for entry in part.of(records.MEMBER)}
        if refused:
            return
        self.tally.right(LOADING)
        self.hashes.judge(part)
        if part.name == UPGRADE:
            judge_upgrade(case, part, before.classic)
        elif part.name not in (CLASSIC, DELETE, REJOIN):
            judge_bump(case, part, bump)
        if part.name not in (UPGRADE, REJOIN, LEAVE, CLASSIC, DELETE):
            judge_target(case, part, before)
        if part.name == BROKEN:
            case.doubt(forget=True)

    def _refused(self, entry: Entry, fault: str) -> None:
        """A broker that loads this log stops here; what the group is after it, nobody can say."""
        if self.case.census:
            self.tally.wrong(
                LOADING,
                entry,
                f"A broker would fail to load this record ({fault}), and with it the whole "
                "partition: do not restart the coordinator before the record is understood.",
                "a record that can be replayed",
                entry.record,
                severity=CRITICAL,
            )
        else:
            self.tally.unknown(LOADING, GAP)
        self.case.forget()
