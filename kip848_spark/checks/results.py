"""The result of an audit: verdicts counted by check, and the findings."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import orjson

from kip848_spark.checks.log_entries import LogEntry
from kip848_spark.insight.severities import SEVERITIES

STATE = "state"
LOADING = "loading"
ORDER = "order"
EPOCHS = "epochs"
CAUSES = "causes"
HASH = "metadata_hash"
TARGETS = "targets"
TRANSITIONS = "transitions"
OWNERSHIP = "ownership"
MIGRATION = "migration"
VALUE_TIMES = "value_times"
COMMITS = "commits"
LIVE = "live"
CHECKS = (
    STATE, LOADING, ORDER, EPOCHS, CAUSES, HASH, TARGETS, TRANSITIONS, OWNERSHIP, MIGRATION,
    VALUE_TIMES, COMMITS, LIVE,
)  # fmt: skip
"""Every check, in the order in which they are shown."""

INFO, WARNING, ERROR, CRITICAL = SEVERITIES

GAP = "gap"
"""A record that the verdict would need is missing, or may be."""
UNREAD = "a record that could not be read"
END_OF_LOG = "end of log"
"""The operation ends with the last record that was read, so more of its records may follow."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One row of `findings`: a disagreement, at the record that shows it.

    ``reason`` says what kind of disagreement it is (`finding_kinds.KINDS`). The place is None where
    no single record shows it. ``timestamp`` is in ms since the epoch; ``expected`` and ``recorded``
    are JSON.
    """

    check: str
    reason: str
    severity: str
    group_id: str
    member_id: str | None
    partition: int | None
    offset: int | None
    timestamp: int | None
    expected: str
    recorded: str
    explanation: str = ""
    """The text for people: see `finding_text.with_texts`, which sets it."""
    finding_id: str | None = None
    """See `finding_ids.with_ids`, which sets it."""
    caused_by: str | None = None
    """The id of the finding that this one follows from."""


@dataclass
class Tally:
    """Counts of verdicts by check, and the findings."""

    verified: Counter[str] = field(default_factory=Counter)
    unverifiable: Counter[tuple[str, str]] = field(default_factory=Counter)
    disagreed: Counter[str] = field(default_factory=Counter)
    notes: Counter[tuple[str, str]] = field(default_factory=Counter)
    """By check: how things were verified, where there is more than one way."""
    findings: list[Finding] = field(default_factory=list)
    postponed: frozenset[str] = frozenset()
    """Checks that must not fail on the current operation, since more of its records may follow:
    their disagreements are counted as unverifiable."""

    def add_verified(self, check: str, note: str | None = None) -> None:
        """Counts one thing that is as it should be. ``note``: how it was verified."""
        self.verified[check] += 1
        if note is not None:
            self.notes[check, note] += 1

    def add_unverifiable(self, check: str, reason: str) -> None:
        """Counts one thing that could not be checked, and why."""
        self.unverifiable[check, reason] += 1

    def add_disagreement(
        self,
        check: str,
        reason: str,
        at: LogEntry,
        expected: Any,
        recorded: Any,
        *,
        severity: str = ERROR,
        member: str | None = None,
    ) -> None:
        """Counts one thing that is not as it should be, and keeps a finding at the record ``at``.

        ``reason`` is one of `finding_kinds.KINDS`. ``expected`` and ``recorded`` must be fit for
        JSON; ``member`` replaces the entry's own, and "" stands for none.
        """
        if check in self.postponed:
            self.add_unverifiable(check, END_OF_LOG)
            return
        self.disagreed[check] += 1
        self.findings.append(
            Finding(
                check,
                reason,
                severity,
                at.group,
                (at.member if member is None else member) or None,
                at.partition,
                at.offset,
                at.timestamp,
                as_json(expected),
                as_json(recorded),
            )
        )

    def add(self, other: Tally) -> None:
        """Adds the counts and findings of ``other``."""
        self.verified.update(other.verified)
        self.unverifiable.update(other.unverifiable)
        self.disagreed.update(other.disagreed)
        self.notes.update(other.notes)
        self.findings += other.findings

    def rows(self) -> list[dict[str, Any]]:
        """The rows of `agreement`, one for each check that has any verdict. ``reasons`` counts why
        things were unverifiable, and how others were verified."""
        return [
            {
                "check": check,
                "verified": self.verified[check],
                "unverifiable": sum(self._of(self.unverifiable, check).values()),
                "disagreed": self.disagreed[check],
                "reasons": self._of(self.unverifiable, check) | self._of(self.notes, check),
            }
            for check in CHECKS
            if self._seen(check)
        ]

    def _seen(self, check: str) -> bool:
        return bool(
            self.verified[check] or self.disagreed[check] or self._of(self.unverifiable, check)
        )

    @staticmethod
    def _of(counts: Counter[tuple[str, str]], check: str) -> dict[str, int]:
        return {reason: n for (of, reason), n in sorted(counts.items()) if of == check}


def as_json(value: Any) -> str:
    """``value`` as JSON with sorted keys; a set or another iterable becomes a list."""
    return orjson.dumps(value, list, orjson.OPT_SORT_KEYS | orjson.OPT_NON_STR_KEYS).decode()
