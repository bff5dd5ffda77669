"""Which findings follow from another one: those that vanish when the record of the other one is
corrected.

A wrong record changes the state from which the records after it are checked, so that right records
after it may disagree. For each finding, from the first one on, the group's records are audited once
more with its record corrected: set to what was expected, or left out, or with a record that its
operation lacks. A later finding follows from it if that audit does not report it, and reports
nothing that the audit of the records as they are does not report: one wrong record then explains
both. Of several such corrections, the one that explains the most findings counts.

Beside that, two findings have one cause if they are at one record, or if both say that the same
member never joined.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from kip848_spark.checks.audit_rows import AuditStep
from kip848_spark.checks.context import AuditContext
from kip848_spark.checks.corrected_log import Correction
from kip848_spark.checks.finding_corrections import corrections
from kip848_spark.checks.finding_ids import with_ids
from kip848_spark.checks.group import GroupAudit
from kip848_spark.checks.results import CHECKS, STATE, Finding
from kip848_spark.insight.severities import SEVERITIES

_MOST_STEPS = 50_000
"""Records of a group that are audited again, over all corrections. Further findings of the group
are linked only if they are at one record."""


@dataclass
class Budget:
    """The number of records that a task may audit again: as many as it has audited, and 50,000.
    Without a limit, a rule of the audit that does not fit a log, and so gives findings in all
    groups, would make the audit many times slower."""

    steps: int = 50_000
    failures: Counter[str] = field(default_factory=Counter)
    """How many corrected logs could not be audited, by the name of the exception."""

    def add(self, steps: int) -> None:
        """Call this with the number of records that the task has audited in a group."""
        self.steps += steps

    def spend(self, steps: int) -> bool:
        """Takes ``steps`` from the budget; false if it has not so many left."""
        if steps > self.steps:
            return False
        self.steps -= steps
        return True


class _Log(NamedTuple):
    """Records of a group, and what their audit found, by finding id."""

    steps: Sequence[AuditStep]
    findings: dict[str, Finding]


def with_causes(
    findings: Sequence[Finding],
    steps: Sequence[AuditStep],
    context: AuditContext,
    budget: Budget | None = None,
) -> list[Finding]:
    """The ``findings`` of a group with their ids, and with the ids of those that they follow from.

    ``steps`` are all records of the group, from which the findings were made; without steps, no
    finding follows from another one but at the same record. A cause may be a finding that an
    earlier run has counted.
    """
    identified = with_ids(findings)
    of_records = {str(one.finding_id): one for one in identified if one.check != STATE}
    if len(of_records) < 2 and not _may_follow(of_records.values(), steps, context):
        return identified
    budget = budget or Budget()
    everything = replace(context, since_ms=None, since_offsets={})
    found = _audited(steps, everything) if budget.spend(len(steps)) else {}
    if of_records.keys() <= found.keys():
        causes = _causes(_Log(steps, found), everything, budget)
        causes = _with_shared_causes(found.values(), causes)
    else:  # without the records
        causes = _with_shared_causes(of_records.values(), {})
    return [replace(one, caused_by=causes.get(str(one.finding_id))) for one in identified]


def _may_follow(
    findings: Iterable[Finding], steps: Sequence[AuditStep], context: AuditContext
) -> bool:
    """Whether a single finding may follow from one that is not counted in this run."""
    restricted = context.since_ms is not None or bool(context.since_offsets)
    return restricted and any(findings) and bool(steps)


def _audited(steps: Sequence[AuditStep], context: AuditContext) -> dict[str, Finding]:
    """The findings of an audit of these records, by id."""
    first = next((step.entry for step in steps if step.entry is not None), None)
    if first is None:
        return {}
    audit = GroupAudit(first.partition, first.group, context)
    for step in steps:
        step.give(audit)
    return {str(finding.finding_id): finding for finding in with_ids(audit.finish().findings)}


def _causes(log: _Log, context: AuditContext, budget: Budget) -> dict[str, str]:
    """The causes of findings, both by id."""
    causes: dict[str, str] = {}
    left = _MOST_STEPS
    for root_id, root in sorted(log.findings.items(), key=lambda item: _order(item[1])):
        if root_id in causes or root_id not in log.findings or root.offset is None:
            continue
        here = [one for one in log.findings.values() if one.offset == root.offset]
        best: _Log | None = None
        for correction in corrections(here, log.steps):
            left -= len(correction.steps)
            if left < 0 or not budget.spend(len(correction.steps)):
                return causes
            found = _findings_of(correction, context, budget)
            if found is None or root_id in found or not found.keys() <= log.findings.keys():
                continue
            if best is None or len(found) < len(best.findings):
                best = _Log(correction.steps, found)
        if best is not None:
            for other_id, other in log.findings.items():
                follows = other_id not in best.findings and other_id != root_id
                if follows and (other.offset or 0) >= root.offset:
                    causes.setdefault(other_id, root_id)
            log = best
    return causes


def _findings_of(
    correction: Correction, context: AuditContext, budget: Budget
) -> dict[str, Finding] | None:
    """The findings in a corrected log, at their offsets in the recorded one; None if the log cannot
    be audited, which is counted in ``budget``."""
    try:
        found = _audited(correction.steps, context)
    except Exception as failure:  # no coordinator writes such a log; or a check has a bug
        budget.failures[type(failure).__name__] += 1
        return None
    if not correction.offsets:
        return found
    moved = [
        one
        if one.offset is None
        else replace(one, offset=correction.offsets.get(one.offset, one.offset))
        for one in found.values()
    ]
    return {str(finding.finding_id): finding for finding in with_ids(moved)}


def _order(finding: Finding) -> tuple[int, int, int]:
    """By offset; of several findings at one record the most severe first, then by check."""
    offset = -1 if finding.offset is None else finding.offset
    return offset, -SEVERITIES.index(finding.severity), CHECKS.index(finding.check)


def _with_shared_causes(findings: Iterable[Finding], causes: dict[str, str]) -> dict[str, str]:
    """``causes`` with those of findings that are at one record, or about one member that never
    joined. Each cause is the first of its chain."""
    first: dict[object, str] = {}
    linked = dict(causes)
    for finding in sorted(findings, key=_order):
        own = str(finding.finding_id)
        shared: list[object] = [] if finding.offset is None else [finding.offset]
        if finding.reason == "unknown_member":
            shared.append(finding.member_id)
        roots = [first.setdefault(what, linked.get(own, own)) for what in shared]
        other = next((root for root in roots if root != own), None)
        if own not in linked and other is not None:
            linked[own] = other
    for own, cause in list(linked.items()):
        root = cause
        while root in linked:
            root = linked[root]
        linked[own] = root
    return linked
