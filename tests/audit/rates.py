"""How many of the faults put into real logs an audit finds.

    python -m tests.audit.rates 300

prints a Markdown table: so many instances of each kind, at random places of both captures.
"""

from __future__ import annotations

import random
import sys
from collections import Counter
from dataclasses import dataclass, field

from kip848_spark.audit.results import worst_first
from tests.audit.faults import FAULTS, UNDETECTABLE, Fault
from tests.audit.logs import RELEASES, audit, entries, topics


@dataclass
class Rate:
    """Instances of one kind of fault: injected, found, and the checks that found them."""

    injected: int = 0
    found: int = 0
    checks: Counter[str] = field(default_factory=Counter)
    missed: list[str] = field(default_factory=list)


def rate(name: str, fault: Fault, instances: int) -> Rate:
    """Up to so many instances on each capture (a capture may have no place for a kind)."""
    result = Rate()
    for release in RELEASES:
        for seed in range(instances):
            done = fault(entries(release), random.Random(f"{name} {seed}"))
            if done is None:
                continue
            result.injected += 1
            own = [item for item in done.log if item.group == done.group]
            tally = audit(own, topics(release))
            if done.found_by(tally):
                result.found += 1
                result.checks.update({finding.check for finding in tally.findings})
            else:
                told = [f"{f.check}@{f.offset}" for f in worst_first(tally.findings)]
                place = f"{release} {seed}: {done.group} {done.first}..{done.last}"
                result.missed.append(f"{place}: {told}")
    return result


def main(instances: int) -> None:
    """Print the table."""
    print("| fault | instances | found | by the checks |")
    print("|---|---|---|---|")
    for name, fault in FAULTS.items():
        line = rate(name, fault, instances)
        share = f"{100 * line.found / line.injected:.1f} %" if line.injected else "-"
        checks = ", ".join(check for check, _ in line.checks.most_common())
        print(f"| {name.replace('_', ' ')} | {line.injected} | {share} | {checks} |")
        for missed in line.missed[:3]:
            print(f"  missed: {missed}", file=sys.stderr)
    for name, (fault, _) in UNDETECTABLE.items():
        line = rate(name, fault, instances)
        print(f"| *{name.replace('_', ' ')}* | {line.injected} | {line.found} | |")


if __name__ == "__main__":
    main(int(sys.argv[1]))
