"""How many of the faults put into logs an audit finds.

    python -m tests.audit.fault_rates 250

prints a Markdown table: so many instances of each kind, at random places, none of them twice.
"""

from __future__ import annotations

import pickle
import random
import sys
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import lru_cache
from operator import attrgetter

from kip848_spark.checks.log_entries import Entry
from kip848_spark.checks.results import worst_first
from kip848_spark.checks.topics import KnownTopics
from tests.audit.captured_logs import (
    CHURNED,
    MOVING,
    RELEASES,
    audit,
    churned,
    churned_topics,
    entries,
    topics,
)
from tests.audit.faults import FAULTS, UNDETECTABLE, Fault
from tests.audit.faults.injection import Log, NoPlaceError
from tests.audit.simulated_logs import simulated_log

SIMULATED = (1, 2, 5, 6, 9, 10, 13, 14)
"""Clusters of much churn and of migrations, of each release, nothing cleaned away."""
_GROUPS = 5
"""Groups that are looked at for a place, at random."""
_FIELDS = attrgetter(*Entry._fields)
_VAIN = 30
"""So many times round all logs without a new place, and there is none left."""


@dataclass(frozen=True)
class Source:
    """A log that faults are put into."""

    name: str
    topics: KnownTopics
    groups: dict[int, list[bytes]]
    """By partition: the records of each group, as a pickle that gives fresh copies of them."""

    @classmethod
    def of(cls, name: str, log: Iterable[Entry], topics: KnownTopics) -> Source:
        """From all control records of a log."""
        found: dict[int, dict[str, list[Entry]]] = {}
        for item in log:
            found.setdefault(item.partition, {}).setdefault(item.group, []).append(item)
        kept = {
            partition: [pickle.dumps([_FIELDS(item) for item in own]) for own in logs.values()]
            for partition, logs in found.items()
        }
        return cls(name, topics, kept)

    def part(self, rng: random.Random) -> Log:
        """The records of a few groups of one partition, free to be edited."""
        groups = self.groups[rng.choice(sorted(self.groups))]
        some = rng.sample(groups, min(_GROUPS, len(groups)))
        log = [Entry(*told) for own in some for told in pickle.loads(own)]
        return sorted(log, key=attrgetter("offset"))


@lru_cache
def sources() -> tuple[Source, ...]:
    """The scenarios, the heavy churn, and the simulated clusters of all releases."""
    found = [Source.of(name, entries(name), topics(name)) for name in RELEASES]
    found += [Source.of(name, churned(name), churned_topics(name)) for name in (*CHURNED, *MOVING)]
    clusters = map(simulated_log, SIMULATED)
    return (*found, *(Source.of(one.name, one.log, one.topics) for one in clusters))


@dataclass
class Rate:
    """Instances of one kind of fault: injected, found, and the checks that found them."""

    injected: int = 0
    found: int = 0
    checks: Counter[str] = field(default_factory=Counter)
    missed: list[str] = field(default_factory=list)


def rate(name: str, fault: Fault, instances: int) -> Rate:
    """So many instances, out of the logs in turn, the real ones first; fewer if there are no more
    places. No place is taken twice."""
    result = Rate()
    taken: set[tuple[str, int, int]] = set()
    vain = seed = 0
    while vain < _VAIN:
        vain, seed = vain + 1, seed + 1
        for source in sources():
            rng = random.Random(f"{name} {source.name} {seed}")
            try:
                done = fault(source.part(rng), rng)
            except NoPlaceError:
                continue
            place = source.name, done.partition, done.place
            if place in taken:
                continue
            taken.add(place)
            vain = 0
            own = [item for item in done.log if item.group == done.group]
            tally = audit(own, source.topics)
            result.injected += 1
            if done.found_by(tally):
                result.found += 1
                result.checks.update({finding.check for finding in tally.findings})
            else:
                told = [f"{f.check}@{f.offset}" for f in worst_first(tally.findings)]
                where = f"{source.name} {seed}: {done.group} {done.first}..{done.last}"
                result.missed.append(f"{where}: {told}")
            if result.injected == instances:
                return result
    return result


def main(instances: int) -> None:
    """Print the table, and what it comes to for each module of faults."""
    sums: dict[str, Counter[str]] = {}
    print("| fault | instances | found | by the checks |")
    print("|---|---|---|---|")
    for name, fault in FAULTS.items():
        line = rate(name, fault, instances)
        share = f"{100 * line.found / line.injected:.1f} %" if line.injected else "-"
        checks = ", ".join(check for check, _ in line.checks.most_common())
        print(f"| {name.replace('_', ' ')} | {line.injected} | {share} | {checks} |", flush=True)
        for missed in line.missed[:5]:
            print(f"  missed: {name} {missed}", file=sys.stderr, flush=True)
        counted = sums.setdefault(fault.__module__, Counter())
        counted.update(kinds=1, instances=line.injected, found=line.found)
    for name, (fault, _) in UNDETECTABLE.items():
        line = rate(name, fault, instances)
        print(f"| *{name.replace('_', ' ')}* | {line.injected} | {line.found} | |", flush=True)
    for module, counted in sums.items():
        print(module.rpartition(".")[2], dict(counted))


if __name__ == "__main__":
    main(int(sys.argv[1]))
