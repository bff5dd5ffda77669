"""The audit of a share group: its records in offset order, split into operations, each checked.

Where records may be missing, nothing but the order of epochs is checked until the keys that a
verdict needs were read again.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from kip848_spark.checks import release as releases
from kip848_spark.checks.context import AuditContext
from kip848_spark.checks.log_entries import LogEntry
from kip848_spark.checks.operations import (
    HEARTBEAT,
    INVALID_ORDER,
    LEAVE,
    OperationPart,
    same_operation,
)
from kip848_spark.checks.results import (
    CAUSES,
    CHECKS,
    CRITICAL,
    EPOCHS,
    GAP,
    HASH,
    LOADING,
    ORDER,
    TARGETS,
    TRANSITIONS,
    Tally,
)
from kip848_spark.checks.share_hashes import ShareHashes
from kip848_spark.checks.share_operations import entries_of, split_share_operation
from kip848_spark.checks.share_records import (
    accept_other_share_assignor,
    check_emptied_group,
    check_share_cause,
    check_share_order,
    check_share_record,
    check_share_state,
    check_share_target,
    share_causes,
)
from kip848_spark.checks.share_transitions import MemberBefore, check_share_transition
from kip848_spark.checks.share_view import ShareView
from kip848_spark.checks.stateful import Stateful
from kip848_spark.checks.value_times import check_entry_times
from kip848_spark.coordinator.faults import ReplayError
from kip848_spark.coordinator.share_group import (
    SHARE_CURRENT,
    SHARE_GROUP,
    SHARE_STATE,
    SHARE_TARGET_EPOCH,
)

_CHECKS_OF = {
    SHARE_GROUP: (EPOCHS, CAUSES, HASH),
    SHARE_TARGET_EPOCH: (EPOCHS, TARGETS),
    SHARE_CURRENT: (EPOCHS, TRANSITIONS),
}
"""The checks of a value, by its key type."""


class ShareAudit(Stateful):
    """Checks one share group: `add` its records in offset order, then `finish`."""

    STATE = ("_keys_after_gap", "_past_gaps")

    def __init__(self, partition: int, group_id: str, context: AuditContext) -> None:
        self.partition = partition
        self.context = context
        self._counted = Tally()
        candidates = releases.candidates(context.release)
        self._view = ShareView(group_id, context.topics, candidates)
        self._hashes = ShareHashes(context.topics)
        self._operation: list[LogEntry] = []
        self._keys_after_gap: set[tuple[str, str]] = set()
        self._past_gaps = True
        self._last = -1
        self.checked: tuple[LogEntry, ...] = ()
        """The last two records of the operations that were checked."""
        self._found = False

    def add(self, entry: LogEntry) -> None:
        """Takes the next record of the group."""
        coverage = self.context.coverage
        if coverage.suspect_range(self.partition, self._last, entry.offset) is not None:
            # The last operation of the run before may have had further records, now missing.
            self._check_operation(closed=not coverage.resumes(self.partition, self._last + 1))
            self.mark_gap()
        elif self._operation and not same_operation(self._operation[-1], entry):
            self._check_operation()
        self._last = entry.offset
        self._operation.append(entry)

    def mark_gap(self) -> None:
        """Records may be missing here: nothing is known of the group any more."""
        self._check_operation(closed=False)
        self._past_gaps = False
        self._keys_after_gap.clear()
        self._hashes.forget(self._counted, self.context.counts)
        self._view.forget()

    @property
    def is_clean(self) -> bool:
        """See `GroupAudit.is_clean`."""
        contradicted = self._view.default_targets.contradicted
        return not (self._found or self._hashes.is_waiting or contradicted)

    def parts(self) -> Iterator[Stateful]:
        """See `GroupAudit.parts`."""
        yield self
        yield from self._view.parts()
        yield from (self._hashes, self._hashes.prover)

    def resume_after(self, checked: Sequence[LogEntry]) -> None:
        """See `GroupAudit.resume_after`."""
        self.checked = tuple(checked)
        self._last = checked[-1].offset

    def finish(self) -> Tally:
        """All verdicts on the group."""
        may_go_on = self.context.coverage.may_go_on(self.partition, self._last)
        self._check_operation(closed=not may_go_on)
        self._counted.postponed = frozenset()
        accept_other_share_assignor(self._view)
        self._hashes.finish(self._counted, self.context.counts)
        return self._counted

    def _check_operation(self, *, closed: bool = True) -> None:
        entries, self._operation = self._operation, []
        if not entries:
            return
        view = self._view
        tally = self._counted if self.context.counts(entries[-1]) else Tally()
        tally.postponed = frozenset() if closed else frozenset(CHECKS)
        view.tally = tally
        for part in split_share_operation(entries):
            if self.context.release is None:
                view.narrow(part.entries)
            if self._past_gaps:
                self._check_part(part)
            else:
                self._replay_unchecked(part)
        if not self._past_gaps:
            keys = {entry.key for entry in entries}
            # The cleaner keeps one record of each key: a second one is beyond what it has cleaned.
            self._past_gaps = bool(keys & self._keys_after_gap) or len(keys) < len(entries)
            self._keys_after_gap |= keys
        self._found = self._found or bool(tally.findings)
        self.checked = (*self.checked, *entries)[-2:]

    def _replay_unchecked(self, part: OperationPart) -> None:
        tally = self._view.tally
        tally.add_unverifiable(ORDER, GAP)
        for entry in part.entries:
            if entry.value is not None:
                check_entry_times(tally, entry)
                for check in _CHECKS_OF.get(entry.kind, ()):
                    tally.add_unverifiable(check, GAP)
            self._apply(entry)

    def _check_part(self, part: OperationPart) -> None:
        view = self._view
        check_share_order(view, part)
        causes = share_causes(view, part)
        hash_before = view.target_hash
        before = {m: dict(target) for m, target in view.targets.items()}
        assignments = []
        for entry in part.entries:
            if entry.kind == SHARE_CURRENT and entry.value is not None:
                assignments.append((entry, MemberBefore.of(view, entry)))
            self._check_record(entry)
            if not self._apply(entry):
                return
        view.tally.add_verified(LOADING)
        for entry in entries_of(part, SHARE_GROUP):
            self._check_hash(entry, asked=part.name == HEARTBEAT)
        for entry, old in assignments:
            check_share_transition(view, entry, old)
        if part.name == INVALID_ORDER:
            self.mark_gap()
            return
        check_share_cause(view, part, causes)
        if part.name == LEAVE:
            check_emptied_group(view, part)
        if part.name == HEARTBEAT:
            changed = view.target_hash != hash_before
            for entry in entries_of(part, SHARE_TARGET_EPOCH):
                check_share_target(view, entry, before, topics_changed=changed)

    def _check_hash(self, entry: LogEntry, *, asked: bool) -> None:
        """Checks a hash; from it, the topics that exist are known."""
        view = self._view
        view.existing = None
        if view.group is None or not view.complete:
            view.tally.add_unverifiable(HASH, GAP)
            return
        topics = self._hashes.check(view.tally, entry, view.group, asked=asked)
        if topics is not None:
            view.existing = {name: topic.topic_id for name, topic in topics.items()}

    def _check_record(self, entry: LogEntry) -> None:
        view = self._view
        check_share_record(view, entry)
        if entry.value is None:
            return
        check_entry_times(view.tally, entry)
        if entry.kind == SHARE_STATE:
            check_share_state(view, entry)

    def _apply(self, entry: LogEntry) -> bool:
        """Replays a record; returns whether a broker would load it."""
        view = self._view
        try:
            view.apply(entry)
        except ReplayError as fault:
            if view.complete and self._past_gaps:
                view.tally.add_disagreement(
                    LOADING,
                    "not_loadable",
                    entry,
                    "a record that a broker can load",
                    {"fault": fault.message, "record": entry.record},
                    severity=CRITICAL,
                )
            else:
                view.tally.add_unverifiable(LOADING, GAP)
            view.forget()
            return False
        if entry.kind == SHARE_GROUP and entry.value is None and self._past_gaps:
            view.complete = True
        return True
