"""How often the findings of an injected fault come down to one root, at the record that was edited.

    python -m tests.audit.root_rates 20

prints a Markdown table with the given number of instances of each kind of fault.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from kip848_spark.checks.audit_rows import AuditStep
from kip848_spark.checks.context import AuditContext
from kip848_spark.checks.coverage import Coverage
from kip848_spark.checks.finding_causes import with_causes
from kip848_spark.checks.log_entries import LogEntry
from kip848_spark.checks.results import Finding
from kip848_spark.checks.topics import KnownTopics
from tests.audit.captured_logs import audit
from tests.audit.fault_rates import FaultyLog, instances, real_logs, simulated_logs
from tests.audit.faults import FAULTS, Fault
from tests.audit.faults.injection import Injection


def linked(log: Sequence[LogEntry], topics: KnownTopics) -> list[Finding]:
    """The findings of one group's records, with their causes."""
    context = AuditContext(Coverage(), topics)
    return with_causes(audit(log, topics).findings, [AuditStep.of(entry) for entry in log], context)


@dataclass
class Roots:
    """Of the instances of one kind of fault that were found."""

    found: int = 0
    findings: int = 0
    roots: int = 0
    single: int = 0
    """Instances with one root, which is in the edited operation or the next one."""
    at_record: int = 0
    """Instances whose first root is the edited record."""
    reasons: Counter[str] = field(default_factory=Counter)
    """Of the roots after the first one."""

    def add(self, injection: Injection, findings: Sequence[Finding]) -> None:
        """Counts one instance."""
        roots = sorted((f for f in findings if f.caused_by is None), key=lambda f: f.offset or -1)
        if not roots:
            return
        self.found += 1
        self.findings += len(findings)
        self.roots += len(roots)
        first = roots[0].offset or -1
        self.single += len(roots) == 1 and injection.first <= first <= injection.last
        self.at_record += first == injection.place
        self.reasons.update(root.reason for root in roots[1:])


def roots(name: str, fault: Fault, number: int, logs: Sequence[FaultyLog]) -> Roots:
    """Injects a fault and links what the audit finds."""
    result = Roots()
    for log, injection, own in instances(name, fault, number, logs):
        result.add(injection, linked(own, log.topics))
    return result


def main(number: int) -> None:
    """Prints the table."""
    print("| fault | instances | findings | roots | one root | at the record | further roots |")
    print("|---|---|---|---|---|---|---|", flush=True)
    total = Roots()
    for name, fault in FAULTS.items():
        one = roots(name, fault, number, (*real_logs(), *simulated_logs()))
        if not one.found:
            continue
        print(
            f"| {name.replace('_', ' ')} | {one.found} | {one.findings} | {one.roots} "
            f"| {100 * one.single // one.found} % | {100 * one.at_record // one.found} % "
            f"| {', '.join(f'{reason} {n}' for reason, n in one.reasons.most_common(4))} |",
            flush=True,
        )
        for part in ("found", "findings", "roots", "single", "at_record"):
            setattr(total, part, getattr(total, part) + getattr(one, part))
    print(total)


if __name__ == "__main__":
    main(int(sys.argv[1]))
