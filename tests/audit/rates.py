"""How many of the faults put into logs an audit finds.

    python -m tests.audit.rates 60

prints a Markdown table: up to so many instances of each kind in each log, at random places.
"""

from __future__ import annotations

import copy
import random
import sys
from collections import Counter
from dataclasses import dataclass, field
from functools import lru_cache

from kip848_spark.audit.entries import Entry
from kip848_spark.audit.results import worst_first
from kip848_spark.audit.topics import KnownTopics
from tests.audit.faults import FAULTS, UNDETECTABLE, Fault
from tests.audit.faults.injecting import NoPlaceError
from tests.audit.logs import (
    CHURNED,
    RELEASES,
    audit,
    churned,
    churned_topics,
    entries,
    topics,
)
from tests.audit.simulated import simulated_log

SIMULATED = (1, 2, 5, 6, 9, 10, 13, 14)
"""Clusters of much churn and of migrations, of each release, nothing cleaned away."""


_GROUPS = 5
"""Groups that are looked at for a place, at random."""


@dataclass(frozen=True)
class Source:
    """A log that faults are put into."""

    name: str
    log: list[Entry]
    topics: KnownTopics


@lru_cache
def sources() -> tuple[Source, ...]:
    """The scenarios, the heavy churn, and the simulated clusters of all releases."""
    found = [Source(name, entries(name), topics(name)) for name in RELEASES]
    found += [Source(name, churned(name), churned_topics(name)) for name in CHURNED]
    clusters = map(simulated_log, SIMULATED)
    found += [Source(cluster.name, cluster.log, cluster.topics) for cluster in clusters]
    return tuple(found)


@dataclass
class Rate:
    """Instances of one kind of fault: injected, found, and the checks that found them."""

    injected: int = 0
    found: int = 0
    checks: Counter[str] = field(default_factory=Counter)
    missed: list[str] = field(default_factory=list)


def rate(name: str, fault: Fault, instances: int) -> Rate:
    """Up to so many instances in each log, which may have no place for a kind."""
    result = Rate()
    for source in sources():
        for seed in range(instances):
            rng = random.Random(f"{name} {seed}")
            try:
                done = fault(_part(source.log, rng), rng)
            except NoPlaceError:
                continue
            result.injected += 1
            own = [item for item in done.log if item.group == done.group]
            tally = audit(own, source.topics)
            if done.found_by(tally):
                result.found += 1
                result.checks.update({finding.check for finding in tally.findings})
            else:
                told = [f"{f.check}@{f.offset}" for f in worst_first(tally.findings)]
                place = f"{source.name} {seed}: {done.group} {done.first}..{done.last}"
                result.missed.append(f"{place}: {told}")
    return result


def _part(log: list[Entry], rng: random.Random) -> list[Entry]:
    """The records of a few groups of one partition, free to be edited."""
    partition = rng.choice(sorted({item.partition for item in log}))
    groups = sorted({item.group for item in log if item.partition == partition})
    some = set(rng.sample(groups, min(_GROUPS, len(groups))))
    return [copy.deepcopy(e) for e in log if e.partition == partition and e.group in some]


def main(instances: int) -> None:
    """Print the table."""
    print("| fault | instances | found | by the checks |")
    print("|---|---|---|---|")
    for name, fault in FAULTS.items():
        line = rate(name, fault, instances)
        share = f"{100 * line.found / line.injected:.1f} %" if line.injected else "-"
        checks = ", ".join(check for check, _ in line.checks.most_common())
        print(f"| {name.replace('_', ' ')} | {line.injected} | {share} | {checks} |", flush=True)
        for missed in line.missed[:5]:
            print(f"  missed: {name} {missed}", file=sys.stderr, flush=True)
    for name, (fault, _) in UNDETECTABLE.items():
        line = rate(name, fault, instances)
        print(f"| *{name.replace('_', ' ')}* | {line.injected} | {line.found} | |", flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]))
