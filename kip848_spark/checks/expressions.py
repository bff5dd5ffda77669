"""Regular expressions that members subscribe by (key 16): what they match, and when they go."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache

from kip848_spark.checks.group_case import Case
from kip848_spark.checks.log_entries import Entry
from kip848_spark.checks.results import ORDER
from kip848_spark.coordinator import records
from kip848_spark.coordinator.re2 import compile_re2

_MOST_REPEATS = 3


def judge_resolved(case: Case, entry: Entry) -> None:
    """A value of key 16: every topic that an expression stands for is one that it matches."""
    assert entry.value is not None
    patterns = [_compiled(entry.member, r.short_group_names) for r in case.releases]
    if None in patterns:
        return
    others = [
        topic
        for topic in entry.value["topics"]
        if not any(pattern is not None and pattern.fullmatch(topic) for pattern in patterns)
    ]
    if others:
        case.tally.wrong(
            ORDER,
            entry,
            f"The expression {entry.member} does not match topic {min(others)}, which it is said "
            "to stand for: members will be given partitions that they did not ask for; look for a "
            "record that was damaged.",
            "topics that the expression matches",
            sorted(others),
        )


@lru_cache(maxsize=1024)
def _compiled(expression: str, short_names: bool) -> re.Pattern[str] | None:
    """The expression; None if it is not one, or one that may take Python for ever, which goes back
    where a broker does not."""
    repeats = len(re.findall(r"[*+?{]", expression))
    if repeats > _MOST_REPEATS or re.search(r"\)[*+?{]", expression):
        return None
    try:
        return compile_re2(expression, short_names=short_names)
    except (ValueError, re.error, OverflowError, RecursionError):
        return None


def subscribed(case: Case) -> frozenset[str]:
    """The resolved expressions that members subscribe by."""
    group = case.consumer
    if group is None or not group.resolved:
        return frozenset()
    return frozenset(regex for regex in group.resolved if group.regex_counts[regex])


def judge_abandoned(case: Case, entries: Sequence[Entry], before: frozenset[str]) -> None:
    """Whoever takes an expression's last subscriber away clears it. ``before``: `subscribed` when
    the operation began."""
    group = case.consumer
    if not before or group is None or not case.census:
        return
    left = [r for r in before if r in group.resolved and not group.regex_counts[r]]
    if not left:
        return
    at = next((e for e in entries if e.kind == records.MEMBER), entries[0])
    case.tally.wrong(
        ORDER,
        at,
        f"Nobody subscribes by the expression {min(left)} any more, but what it stands for stays: "
        "its tombstone is lost; compare with another replica of this partition.",
        "a tombstone of key 16",
        sorted(left),
    )
