"""The audit of one group: its records in offset order, split into operations, each checked in turn.

Memory: the group's state, and the records of one operation.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from kip848_spark.checks import release as releases
from kip848_spark.checks.assignment import check_assignment
from kip848_spark.checks.audited_group import AuditedGroup
from kip848_spark.checks.commits import CommitChecker
from kip848_spark.checks.completed_target import (
    StateBefore,
    accept_default_assignor,
    check_target,
)
from kip848_spark.checks.context import AuditContext
from kip848_spark.checks.epochs import (
    EpochBump,
    begins_anew,
    check_bump_cause,
    check_group_epoch,
    check_target_epoch,
)
from kip848_spark.checks.expressions import check_unused, subscribed_expressions
from kip848_spark.checks.hashes import HashChecker
from kip848_spark.checks.log_entries import (
    SHARE_STREAMS_KEY_TYPES,
    LogEntry,
)
from kip848_spark.checks.migration import EndedConsumerGroup, check_classic_record, check_upgrade
from kip848_spark.checks.operations import (
    CLASSIC,
    DELETE,
    INVALID_ORDER,
    LEAVE,
    REJOIN,
    SINGLE_ASSIGNMENT,
    UPGRADE,
    OperationPart,
    same_operation,
    split_operation,
)
from kip848_spark.checks.other_types import OtherTypes
from kip848_spark.checks.record_order import check_order, check_record
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
from kip848_spark.checks.stateful import Stateful
from kip848_spark.checks.value_times import NeighbourTimes, check_entry_times, check_part_times
from kip848_spark.coordinator import records

_STARTED_OVER = "started over"
BY_ANSWER = "operations judged by the release that the brokers answered"


def _postponed_checks(entries: list[LogEntry]) -> frozenset[str]:
    """The checks that must not fail on an operation whose last records may not have been read."""
    begins_a_group = any(e.kind == records.CLASSIC_GROUP and e.value is None for e in entries)
    return frozenset(CHECKS if begins_a_group else (ORDER, CAUSES))


class GroupAudit(Stateful):
    """Checks one group: `add` its control records in offset order, then `finish`."""

    STATE = ("by_log", "judged_by", "keys_after_gap")

    def __init__(self, partition: int, group_id: str, context: AuditContext) -> None:
        self.context = context
        self.partition = partition
        self.group_id = group_id
        self._counted = Tally()
        candidates = releases.candidates(context.release)
        self.audited = AuditedGroup(
            group_id, context.topics, candidates, Tally(), context.assignors
        )
        self.by_log = self.judged_by = candidates
        """The releases that the log allows, and those of them that the brokers' answers leave."""
        self.hashes = HashChecker(self.audited)
        given = context.release is not None
        self._commits = CommitChecker(self.audited, release_given=given)
        self.reference = self.audited.reference
        """The replay of all records of the group, even where `audited` started over."""
        self._operation: list[LogEntry] = []
        self._last = -1
        self._checked: tuple[LogEntry, ...] = ()
        self.keys_after_gap: set[tuple[str, str]] = set()
        """Keys of the records since a gap beyond which others may be missing."""
        self._ended: EndedConsumerGroup | None = None
        self._others = OtherTypes(partition, group_id, context)
        self._unread = False
        self._times = NeighbourTimes(self._counted, context.counts)
        self._found = False

    def add(self, entry: LogEntry) -> None:
        """Takes the next record of the group."""
        self._times.add(entry)
        if entry.kind in SHARE_STREAMS_KEY_TYPES:
            # A group of the same name that ended before; its last tombstones may be pending.
            resumed = self.context.coverage.resumes(self.partition, self._last + 1)
            self._check_operation(closed=not resumed)
            self._others.add(entry, unread=self._unread)
            self.reference.defer(entry)
            return
        suspect = self.context.coverage.suspect_range(self.partition, self._last, entry.offset)
        if suspect is not None:
            # The last operation of the run before may have had further records, now missing.
            resumed = self.context.coverage.resumes(self.partition, self._last + 1)
            self._check_operation(closed=not resumed)
            self.audited.mark_gap(forget=suspect.reread and self._last < suspect.first)
            self.keys_after_gap.clear()
        elif self._operation and not same_operation(self._operation[-1], entry):
            self._check_operation()
        self._last = entry.offset
        self._operation.append(entry)

    @property
    def only_last_is_pending(self) -> bool:
        """Whether the reference has replayed all records but the last one that was added."""
        return len(self._operation) < 2

    # The state, which `saved_audit` saves

    @property
    def is_clean(self) -> bool:
        """Whether nothing was wrong so far, and nothing waits for later records, in any record of
        the group. False if it was read as groups of several types."""
        others = list(self._others)
        types = len(others) + (self._last >= 0)
        return not (
            self._found
            or self._times.found
            or self._unread
            or self.hashes.is_waiting
            or self.audited.default_targets.contradicted
            or types > 1
            or not all(other.is_clean for other in others)
        )

    @property
    def checked(self) -> Sequence[LogEntry]:
        """The last two records of the operations that were checked."""
        return self._others.checked or self._checked

    @property
    def part_names(self) -> list[str]:
        """The names of the parts that not every audit has, for `begin_parts`."""
        started_over = self.audited.reference is not self.reference
        return [*self._others.names, *([_STARTED_OVER] if started_over else [])]

    def begin_parts(self, names: Sequence[str]) -> None:
        """Gives these parts to a new audit."""
        for name in names:
            if name == _STARTED_OVER:
                self.audited.begin_anew()
            else:
                self._others.begin(name)

    def parts(self) -> Iterator[Stateful]:
        """The objects whose attributes ``STATE`` are the state."""
        audited = self.audited
        yield from (self, audited, audited.default_targets, audited.prover, self.hashes)
        yield from self.reference.parts()
        if audited.reference is not self.reference:
            yield from audited.reference.parts()
        yield from self._others.parts()

    def resume_after(self, checked: Sequence[LogEntry]) -> None:
        """Goes on after the records up to the last of ``checked``, as if it had checked them."""
        for reference in (self.reference, self.audited.reference):
            reference.set_releases(self.audited.releases)
        for other in self._others:
            other.resume_after(checked)
        if not self._others.names:
            self._checked = tuple(checked)
            self._last = checked[-1].offset
        for entry in checked:
            self._times.add(entry)

    def finish(self) -> Tally:
        """Call this after the last record. Checks what is pending, and returns all verdicts."""
        may_go_on = self.context.coverage.may_go_on(self.partition, self._last)
        self._check_operation(closed=not may_go_on)
        self.audited.tally = self._counted
        self.tally.postponed = frozenset()
        self.hashes.finish(self.context.counts)
        accept_default_assignor(self.audited)
        for other in self._others:
            self.tally.add(other.finish())
        return self.tally

    @property
    def tally(self) -> Tally:
        """The tally of the current operation; one that is thrown away if it is not counted."""
        return self.audited.tally

    def commit(self, entry: LogEntry) -> None:
        """Takes an offset commit: it creates a simple classic group where there is no group."""
        self._check_operation()
        tally = self._counted if self.context.counts(entry) else Tally()
        check_entry_times(tally, entry)
        if entry.record["key"]["data"]["topic"]:
            self._commits.check(tally, entry)
        self.reference.replay(entry)

    def unreadable(self, offset: int, timestamp: int) -> None:
        """Takes note of a control record that could not be decoded. ``timestamp`` is in ms."""
        self._unread = True
        for other in self._others:
            other.mark_gap()
        self._check_operation(closed=False)
        if self.context.counts_at(self.partition, offset, timestamp):
            self._counted.add_unverifiable(LOADING, UNREAD)
        self.audited.mark_gap(forget=True)
        self.keys_after_gap.clear()
        self._last = offset

    def _check_operation(self, *, closed: bool = True) -> None:
        """Checks the operation at hand. ``closed``: no further record can belong to it."""
        entries, self._operation = self._operation, []
        if not entries:
            return
        audited = self.audited
        if self.context.release is None:
            audited.set_releases(self._possible_releases(entries))
            if audited.reference is not self.reference:
                self.reference.set_releases(audited.releases)
        if audited.past_gaps and begins_anew(audited, entries):
            audited.begin_anew()
        self._ended = None
        audited.rejoined.clear()
        audited.epoch_before = audited.consumer.epoch if audited.consumer is not None else None
        audited.targets_before = None
        counts = self.context.counts(entries[-1])
        audited.tally = self._counted if counts else Tally()
        self.tally.postponed = frozenset() if closed else _postponed_checks(entries)
        expressions = subscribed_expressions(audited)
        for part in split_operation(entries):
            if audited.past_gaps:
                self._check_part(part)
            else:
                self._replay_unchecked(part)
        if audited.past_gaps:
            check_unused(audited, entries, expressions)
        else:
            keys = {entry.key for entry in entries}
            # The cleaner keeps one record of each key: a second one is beyond what it has cleaned.
            repeated = bool(keys & self.keys_after_gap) or len(keys) < len(entries)
            audited.past_gaps = repeated
            self.keys_after_gap |= keys
        self._found = self._found or bool(audited.tally.findings)
        self._checked = (*self._checked, *entries)[-2:]

    def _possible_releases(self, entries: list[LogEntry]) -> releases.PossibleReleases:
        """The releases that may have written an operation: what the log tells, and then what the
        brokers have answered, unless the log contradicts it."""
        before = self.audited.releases
        if not self.context.known_lines:
            found = releases.narrow(before, entries, complete=self.audited.complete)
            self.by_log = self.judged_by = found
            return found
        # What a check has ruled out since stays ruled out; what the answer ruled out does not.
        if before != self.judged_by:
            self.by_log = releases.without(self.by_log, self.judged_by, before) or before
        complete = self.audited.complete
        self.by_log = releases.narrow(self.by_log, entries, complete=complete)
        line = self.context.line_at(self.partition, entries[-1].offset)
        of_line = None if line is None else releases.of_line(self.by_log, entries, line)
        if of_line is not None and self.context.counts(entries[-1]):
            self._counted.notes[ORDER, BY_ANSWER] += 1
        self.judged_by = of_line or self.by_log
        return self.judged_by

    def _apply(self, entry: LogEntry) -> str | None:
        """Replays a record. Returns why a broker would refuse to load it; None if it would not."""
        if self.audited.reference is not self.reference:
            self.reference.replay(entry)
        return self.audited.apply(entry)

    def _replay_unchecked(self, part: OperationPart) -> None:
        """Replays records before which others may be missing, and counts them as unverifiable."""
        checks_of = {
            records.CURRENT: (TRANSITIONS, OWNERSHIP, EPOCHS),
            records.TARGET_EPOCH: (TARGETS, EPOCHS),
            records.GROUP: (EPOCHS, CAUSES),
        }
        self.tally.add_unverifiable(ORDER, GAP)
        self.tally.add_unverifiable(LOADING, GAP)
        if part.name in (UPGRADE, CLASSIC):
            self.tally.add_unverifiable(MIGRATION, GAP)
        for entry in part.entries:
            value = entry.value
            if value is not None:
                check_entry_times(self.tally, entry)
                for check in checks_of.get(entry.kind, ()):
                    self.tally.add_unverifiable(check, GAP)
                if entry.kind == records.GROUP and value.get("metadataHash"):
                    self.tally.add_unverifiable(HASH, GAP)
            if self._apply(entry) is not None:
                self.audited.forget()

    def _check_record(self, part: OperationPart, entry: LogEntry, before: StateBefore) -> None:
        check_record(self.audited, part, entry)
        if entry.value is None or part.name == UPGRADE:  # check_upgrade takes an upgrade as a whole
            return
        if entry.kind == records.CURRENT:
            check_assignment(self.audited, part, entry, before.replaced)
        elif entry.kind == records.GROUP:
            check_group_epoch(self.audited, entry)
        elif entry.kind == records.TARGET_EPOCH:
            check_target_epoch(self.audited, entry)
        elif entry.kind == records.CLASSIC_GROUP:
            check_classic_record(self.audited, entry, self._ended)
            self._ended = None  # a second record of the same operation follows this one

    def _check_single_assignment(self, part: OperationPart) -> None:
        """Checks a part that is one member's new assignment, as most parts are. No such record
        bumps an epoch or closes a target."""
        (entry,) = part.entries
        self.tally.add_verified(ORDER)
        self._check_record(part, entry, StateBefore())
        fault = self._apply(entry)
        if fault is None:
            self.tally.add_verified(LOADING)
        else:
            self._refused(entry, fault)

    def _check_part(self, part: OperationPart) -> None:
        if part.letters == SINGLE_ASSIGNMENT:
            self._check_single_assignment(part)
            return
        audited = self.audited
        check_order(audited, part)
        check_part_times(audited, part)
        before = StateBefore.of(audited, part)
        if before.targets is not None:
            audited.targets_before = before.targets
        bump = EpochBump.of(audited, part)
        refused = False
        for entry in part.entries:
            self._check_record(part, entry, before)
            fault = self._apply(entry)
            if fault is not None:
                refused = True
                self._refused(entry, fault)
        if part.name == DELETE:
            self._ended = before.ended
        if part.name == REJOIN:
            audited.rejoined |= {entry.member for entry in part.of(records.MEMBER)}
        if refused:
            return
        self.tally.add_verified(LOADING)
        self.hashes.check(part)
        if part.name == UPGRADE:
            check_upgrade(audited, part, before.classic)
        elif part.name not in (CLASSIC, DELETE, REJOIN):
            check_bump_cause(audited, part, bump)
        if part.name not in (UPGRADE, REJOIN, LEAVE, CLASSIC, DELETE):
            check_target(audited, part, before)
        if part.name == INVALID_ORDER:
            audited.mark_gap(forget=True)

    def _refused(self, entry: LogEntry, fault: str) -> None:
        """A broker that loads the log stops at this record, so the state after it is unknown."""
        if self.audited.complete:
            self.tally.add_disagreement(
                LOADING,
                "not_loadable",
                entry,
                "a record that a broker can load",
                {"fault": fault, "record": entry.record},
                severity=CRITICAL,
            )
        else:
            self.tally.add_unverifiable(LOADING, GAP)
        self.audited.forget()
