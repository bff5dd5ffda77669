"""What an audit comes to: a count of verdicts a check, and what is wrong."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import orjson

from kip848_spark.checks.log_entries import Entry

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
LIVE = "live"
CHECKS = (
    STATE, LOADING, ORDER, EPOCHS, CAUSES, HASH, TARGETS, TRANSITIONS, OWNERSHIP, MIGRATION, LIVE,
)  # fmt: skip
"""Every check, in the order they are told."""

INFO, WARNING, ERROR, CRITICAL = "info", "warning", "error", "critical"
SEVERITIES = (INFO, WARNING, ERROR, CRITICAL)

GAP = "gap"
"""A record that the verdict would need is gone, or may be."""
UNREAD = "a record that could not be read"
END_OF_LOG = "end of log"
"""The operation reaches to the last record read, so more of it may follow."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One disagreement, at the record that shows it, if a record does. ``expected``, ``recorded``:
    JSON."""

    check: str
    severity: str
    group_id: str
    member_id: str | None
    partition: int | None
    offset: int | None
    timestamp: int | None
    expected: str
    recorded: str
    explanation: str


@dataclass
class Tally:
    """Verdicts counted, findings kept."""

    verified: Counter[str] = field(default_factory=Counter)
    unverifiable: Counter[tuple[str, str]] = field(default_factory=Counter)
    disagreed: Counter[str] = field(default_factory=Counter)
    notes: Counter[tuple[str, str]] = field(default_factory=Counter)
    """How something was verified, where there is more than one way."""
    findings: list[Finding] = field(default_factory=list)
    postponed: frozenset[str] = frozenset()
    """Checks that can't be failed right now: more of the operation at hand may follow."""

    def right(self, check: str, note: str | None = None) -> None:
        """One more thing is as it should be."""
        self.verified[check] += 1
        if note is not None:
            self.notes[check, note] += 1

    def unknown(self, check: str, reason: str) -> None:
        """One more thing could not be judged."""
        self.unverifiable[check, reason] += 1

    def wrong(
        self,
        check: str,
        at: Entry,
        explanation: str,
        expected: Any,
        recorded: Any,
        *,
        severity: str = ERROR,
        member: str | None = None,
    ) -> None:
        """One more thing is not as it should be."""
        if check in self.postponed:
            self.unknown(check, END_OF_LOG)
            return
        self.disagreed[check] += 1
        self.findings.append(
            Finding(
                check,
                severity,
                at.group,
                at.member or None if member is None else member,
                at.partition,
                at.offset,
                at.timestamp,
                as_json(expected),
                as_json(recorded),
                explanation,
            )
        )

    def add(self, other: Tally) -> None:
        """Take over everything that ``other`` counted."""
        self.verified.update(other.verified)
        self.unverifiable.update(other.unverifiable)
        self.disagreed.update(other.disagreed)
        self.notes.update(other.notes)
        self.findings += other.findings

    def rows(self) -> list[dict[str, Any]]:
        """The rows of `agreement`; ``reasons`` names why, or by what means."""
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


def worst_first(findings: Iterable[Finding]) -> list[Finding]:
    """Findings by severity, then by place."""
    return sorted(
        findings,
        key=lambda f: (-SEVERITIES.index(f.severity), f.partition or 0, f.offset or 0),
    )


def as_json(value: Any) -> str:
    """``value`` as JSON with sorted keys."""
    return orjson.dumps(value, list, orjson.OPT_SORT_KEYS | orjson.OPT_NON_STR_KEYS).decode()
