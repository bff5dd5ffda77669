"""What changed between two assessments of migration readiness."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from kip848_spark.insight.readiness_rules import RULE_LISTS

CHANGE_COLUMNS = ("group_id", "before", "after", "new", "gone")
"""``before`` and ``after`` are verdicts, null if the group did not exist. ``new`` and ``gone`` are
ids of rules of any severity."""


def readiness_changes(
    before: Iterable[Mapping[str, Any]], after: Iterable[Mapping[str, Any]]
) -> list[dict[str, Any]]:
    """One row (`CHANGE_COLUMNS`) for each group whose verdict or rules differ, by group id. The
    arguments are rows with the columns `READINESS_FIELDS`."""
    old = {row["group_id"]: row for row in before}
    new = {row["group_id"]: row for row in after}
    changes = []
    for group_id in sorted(old.keys() | new.keys()):
        was, now = old.get(group_id), new.get(group_id)
        had, has = _rules(was), _rules(now)
        verdicts = was and was["verdict"], now and now["verdict"]
        if verdicts[0] != verdicts[1] or had != has:
            values = group_id, *verdicts, sorted(has - had), sorted(had - has)
            changes.append(dict(zip(CHANGE_COLUMNS, values, strict=True)))
    return changes


def _rules(row: Mapping[str, Any] | None) -> set[str]:
    return set() if row is None else {rule for name in RULE_LISTS for rule in row[name] or ()}
