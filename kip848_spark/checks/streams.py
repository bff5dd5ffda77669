"""The audit of one streams group: its records in offset order, split into operations, each checked
in turn (docs/kafka-facts.md#streams-groups)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from kip848_spark.checks import release as releases
from kip848_spark.checks.context import AuditContext
from kip848_spark.checks.log_entries import LogEntry
from kip848_spark.checks.operations import INVALID_ORDER, LEAVE, REJOIN, same_operation
from kip848_spark.checks.results import (
    CAUSES,
    EPOCHS,
    GAP,
    HASH,
    ORDER,
    OWNERSHIP,
    TARGETS,
    TRANSITIONS,
    Tally,
)
from kip848_spark.checks.stateful import Stateful
from kip848_spark.checks.streams_epochs import (
    begins_anew,
    check_causes,
    check_group_epoch,
    check_member_epoch,
    check_target_epoch,
    restores,
)
from kip848_spark.checks.streams_hashes import StreamsHashes
from kip848_spark.checks.streams_operations import StreamsPart, split_operation
from kip848_spark.checks.streams_order import check_order, check_record
from kip848_spark.checks.streams_state import AuditedStreams
from kip848_spark.checks.streams_targets import (
    accept_another_assignor,
    check_taken_target,
    check_target,
)
from kip848_spark.checks.streams_transitions import check_ownership, check_transition
from kip848_spark.checks.value_times import check_entry_times
from kip848_spark.coordinator import streams_group as streams

_CHECKS_OF = {
    streams.GROUP: (EPOCHS, CAUSES, HASH),
    streams.TARGET_EPOCH: (EPOCHS, TARGETS),
    streams.CURRENT: (EPOCHS, TRANSITIONS, OWNERSHIP),
}
"""The checks that a value of a key type counts for, beside the order."""


class StreamsAudit(Stateful):
    """Checks one streams group: `add` its records in offset order, then `finish`."""

    STATE = ("_keys_after_gap",)

    def __init__(self, partition: int, group_id: str, context: AuditContext) -> None:
        self.partition = partition
        self.context = context
        self._counted = Tally()
        self._audited = AuditedStreams(
            group_id, releases.candidates(context.release), self._counted
        )
        self._hashes = StreamsHashes(context.topics)
        self._operation: list[LogEntry] = []
        self._keys_after_gap: set[tuple[str, str]] = set()
        self._last = -1
        self.checked: tuple[LogEntry, ...] = ()
        """The last two records of the operations that were checked."""
        self._found = False

    def add(self, entry: LogEntry) -> None:
        """Takes the next record of the group."""
        coverage = self.context.coverage
        suspect = coverage.suspect_range(self.partition, self._last, entry.offset)
        if suspect is not None:
            # The last operation of the run before may have had further records, now missing.
            resumed = coverage.resumes(self.partition, self._last + 1)
            self._check_operation(closed=not resumed)
            self.mark_gap()
        elif self._operation and not same_operation(self._operation[-1], entry):
            self._check_operation()
        self._last = entry.offset
        self._operation.append(entry)

    def mark_gap(self) -> None:
        """Records may be missing here: nothing is known of the group any more."""
        self._check_operation(closed=False)
        self._hashes.forget(self._audited)
        self._audited.begin_anew()
        self._audited.past_gaps = self._audited.complete = False
        self._keys_after_gap.clear()

    @property
    def is_clean(self) -> bool:
        """See `GroupAudit.is_clean`."""
        return not (self._found or self._hashes.is_waiting or self._audited.by_another)

    def parts(self) -> Iterator[Stateful]:
        """See `GroupAudit.parts`."""
        yield from (self, self._audited, self._hashes, self._hashes.prover)

    def resume_after(self, checked: Sequence[LogEntry]) -> None:
        """See `GroupAudit.resume_after`."""
        self.checked = tuple(checked)
        self._last = checked[-1].offset

    def finish(self) -> Tally:
        """Call this after the last record. Returns all verdicts on the group."""
        may_go_on = self.context.coverage.may_go_on(self.partition, self._last)
        self._check_operation(closed=not may_go_on)
        self._audited.tally = self._counted
        self._hashes.finish(self._audited, self.context.counts)
        accept_another_assignor(self._audited)
        return self._counted

    def _check_operation(self, *, closed: bool = True) -> None:
        """Checks the records since the last operation. If it is not ``closed``, more of its records
        may follow."""
        entries, self._operation = self._operation, []
        if not entries:
            return
        self.checked = (*self.checked, *entries)[-2:]
        tally = self._counted if self.context.counts(entries[-1]) else Tally()
        self._audited.tally = tally
        for entry in entries:
            check_entry_times(tally, entry)
        if not self._audited.past_gaps:
            self._replay_unverified(entries)
            return
        self._audited.displaced = {}
        tally.postponed = frozenset() if closed else frozenset((ORDER, CAUSES))
        for part in split_operation(entries):
            self._check_part(part)
        tally.postponed = frozenset()
        self._found = self._found or bool(tally.findings)

    def _replay_unverified(self, entries: list[LogEntry]) -> None:
        audited = self._audited
        for entry in entries:
            audited.tally.add_unverifiable(ORDER, GAP)
            if entry.value is not None:
                for check in _CHECKS_OF.get(entry.kind, ()):
                    audited.tally.add_unverifiable(check, GAP)
            # The cleaner keeps one record of each key: a second one is beyond what it has cleaned.
            audited.past_gaps = audited.past_gaps or entry.key in self._keys_after_gap
            self._keys_after_gap.add(entry.key)
            audited.replay(entry)

    def _check_part(self, part: StreamsPart) -> None:
        audited = self._audited
        audited.narrow(part)
        if begins_anew(audited, part):
            self._hashes.forget(audited)
            audited.begin_anew()
        check_order(audited, part)
        if part.name == INVALID_ORDER:
            for entry in part.entries:
                audited.replay(entry)
            return
        check_causes(audited, part)
        same_target = restores(audited, part)
        old_targets = dict(audited.group.targets)
        audited.moving.clear()
        if part.name == REJOIN:
            _note_displaced(audited, part)
        audited.left_target = old_targets.get(part.entries[0].member)
        for entry in part.entries:
            check_record(audited, part, entry)
            if entry.value is not None:
                self._check_value(part, entry)
            elif entry.kind == streams.GROUP:
                self._hashes.forget(audited)
            audited.replay(entry)
            if entry.value is not None and entry.kind == streams.GROUP:
                self._check_hash(part, entry)
            if entry.value is not None and entry.kind == streams.TARGET_EPOCH and not same_target:
                check_target(audited, part, old_targets)

    def _check_value(self, part: StreamsPart, entry: LogEntry) -> None:
        audited = self._audited
        if entry.kind == streams.GROUP:
            check_group_epoch(audited, entry)
        elif entry.kind == streams.TARGET_EPOCH:
            check_target_epoch(audited, entry)
        elif entry.kind == streams.TARGET and part.name == REJOIN:
            check_taken_target(audited, part, entry)
        elif entry.kind == streams.CURRENT:
            check_member_epoch(audited, entry)
            check_transition(audited, part, entry)
            check_ownership(audited, entry)

    def _check_hash(self, part: StreamsPart, entry: LogEntry) -> None:
        if part.name == LEAVE:  # a copy, which was compared with the one before
            return
        self._hashes.check(self._audited, entry)


def _note_displaced(audited: AuditedStreams, part: StreamsPart) -> None:
    """A static member returns under the id that another member has, whose tasks the broker frees
    only after the request."""
    old = part.entries[0].member
    for entry in part.entries:
        before = audited.member(entry.member)
        if entry.member != old and entry.kind == streams.MEMBER and before is not None:
            audited.displaced[entry.member] = before
