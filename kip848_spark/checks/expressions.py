"""Checks the regular expressions that members subscribe to (key 16): the topics that they match,
and that an expression without subscribers is deleted."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache

from kip848_spark.checks.audited_group import AuditedGroup
from kip848_spark.checks.log_entries import LogEntry
from kip848_spark.checks.results import ORDER
from kip848_spark.coordinator import records
from kip848_spark.coordinator.re2 import compile_re2

_MOST_REPEATS = 3


def check_resolved(audited: AuditedGroup, entry: LogEntry) -> None:
    """Checks a value of key 16: the expression matches each of its topics."""
    assert entry.value is not None
    short_names = {release.short_group_names for release in audited.releases}
    patterns = [_compiled(entry.member, short) for short in sorted(short_names)]
    if None in patterns:
        return
    unmatched = [
        topic
        for topic in entry.value["topics"]
        if not any(pattern is not None and pattern.fullmatch(topic) for pattern in patterns)
    ]
    if unmatched:
        audited.tally.add_disagreement(
            ORDER,
            "unmatched_topic",
            entry,
            {"expression": entry.member, "topics": "only those that it matches"},
            {"expression": entry.member, "topics": sorted(unmatched)},
            member="",
        )


@lru_cache(maxsize=1024)
def _compiled(expression: str, short_names: bool) -> re.Pattern[str] | None:
    """The compiled expression; None if it is malformed, or if Python could take forever to match
    it: unlike a broker's RE2, Python backtracks."""
    repeats = len(re.findall(r"[*+?{]", expression))
    if repeats > _MOST_REPEATS or re.search(r"\)[*+?{]", expression):
        return None
    try:
        return compile_re2(expression, short_names=short_names)
    except (ValueError, re.error, OverflowError, RecursionError):
        return None


def subscribed_expressions(audited: AuditedGroup) -> frozenset[str]:
    """The resolved expressions that members subscribe to."""
    group = audited.consumer
    if group is None or not group.resolved:
        return frozenset()
    return frozenset(regex for regex in group.resolved if group.regex_counts[regex])


def check_unused(
    audited: AuditedGroup, entries: Sequence[LogEntry], before: frozenset[str]
) -> None:
    """Checks that an operation which removes an expression's last subscriber also deletes the
    expression. ``before``: `subscribed_expressions` before the operation."""
    group = audited.consumer
    if not before or group is None or not audited.complete:
        return
    unused = [r for r in before if r in group.resolved and not group.regex_counts[r]]
    if not unused:
        return
    at = next((e for e in entries if e.kind == records.MEMBER), entries[0])
    audited.tally.add_disagreement(
        ORDER,
        "unused_expression",
        at,
        "a tombstone of key 16",
        sorted(unused),
    )
