"""How many injected faults the audit finds, in logs of real brokers and in simulated logs.

    python -m tests.audit.fault_rates 100 [RELEASE ...]

prints a Markdown table with the given number of instances of each kind of fault, and one by
release; with releases, only of the logs that their brokers wrote. A simulated log was written by
the same reference coordinator that the audit compares it with, so its rate says less and stands in
a column of its own.
"""

from __future__ import annotations

import pickle
import random
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from operator import attrgetter

from kip848_spark.checks.log_entries import LogEntry
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
from tests.audit.faults.injection import Injection, Log, NoPlaceError
from tests.audit.simulated_logs import simulated_log

SIMULATED = (1, 2, 5, 6, 9, 10, 13, 14)
"""Seeds of clusters with much churn and with migrations, of each release, not compacted."""
_GROUPS = 5
"""A fault is injected into the records of this many groups, chosen at random."""
_FIELDS = attrgetter(*LogEntry._fields)
_MOST_VAIN_ROUNDS = 30
"""After this many rounds over all logs without a new place, there is none left."""


@dataclass(frozen=True)
class FaultyLog:
    """A log that faults are injected into."""

    name: str
    topics: KnownTopics
    groups: dict[int, list[bytes]]
    """By partition: the records of each group, pickled, so that each use gets a fresh copy."""

    @classmethod
    def of(cls, name: str, log: Iterable[LogEntry], topics: KnownTopics) -> FaultyLog:
        """From all control records of a log."""
        by_group: dict[int, dict[str, list[LogEntry]]] = {}
        for item in log:
            by_group.setdefault(item.partition, {}).setdefault(item.group, []).append(item)
        pickled = {
            partition: [pickle.dumps([_FIELDS(item) for item in own]) for own in logs.values()]
            for partition, logs in by_group.items()
        }
        return cls(name, topics, pickled)

    @property
    def release(self) -> str:
        """The release that wrote it, or "simulated"."""
        return self.name.rpartition("-")[2] if ":" not in self.name else "simulated"

    def some_groups(self, rng: random.Random) -> Log:
        """The records of a few groups of one partition, as copies that may be edited."""
        groups = self.groups[rng.choice(sorted(self.groups))]
        chosen = rng.sample(groups, min(_GROUPS, len(groups)))
        log = [LogEntry(*fields) for own in chosen for fields in pickle.loads(own)]
        return sorted(log, key=attrgetter("offset"))


@lru_cache
def real_logs() -> tuple[FaultyLog, ...]:
    """Logs that brokers wrote: the scenarios, and the captures of heavy churn."""
    logs = [FaultyLog.of(name, entries(name), topics(name)) for name in RELEASES]
    captures = (*CHURNED, *MOVING)
    logs += [FaultyLog.of(name, churned(name), churned_topics(name)) for name in captures]
    return tuple(logs)


@lru_cache
def simulated_logs() -> tuple[FaultyLog, ...]:
    """Logs that the reference coordinator wrote: simulated clusters of all releases."""
    clusters = map(simulated_log, SIMULATED)
    return tuple(FaultyLog.of(one.name, one.log, one.topics) for one in clusters)


@dataclass
class Rate:
    """Instances of one kind of fault: injected, found, and the checks that found them."""

    injected: int = 0
    found: int = 0
    checks: Counter[str] = field(default_factory=Counter)
    missed: list[str] = field(default_factory=list)
    by_release: dict[str, Counter[str]] = field(default_factory=dict)
    """Instances (``injected``) and those ``found``, by the release that wrote the log."""

    def __str__(self) -> str:
        return f"{100 * self.found / self.injected:.1f} %" if self.injected else "-"


def instances(
    name: str, fault: Fault, number: int, logs: Sequence[FaultyLog]
) -> Iterator[tuple[FaultyLog, Injection, list[LogEntry]]]:
    """At most ``number`` instances of a fault, from the logs in turn: the log, the fault, and the
    records of its group. No place is used twice, so there are fewer if the logs have fewer
    places."""
    used: set[tuple[str, int, int]] = set()
    vain_rounds = seed = 0
    while vain_rounds < _MOST_VAIN_ROUNDS:
        vain_rounds, seed = vain_rounds + 1, seed + 1
        for log in logs:
            rng = random.Random(f"{name} {log.name} {seed}")
            try:
                injection = fault(log.some_groups(rng), rng)
            except NoPlaceError:
                continue
            place = log.name, injection.partition, injection.place
            if place in used:
                continue
            used.add(place)
            vain_rounds = 0
            yield log, injection, [item for item in injection.log if item.group == injection.group]
            if len(used) == number:
                return


def rate(name: str, fault: Fault, number: int, logs: Sequence[FaultyLog]) -> Rate:
    """Injects a fault at most ``number`` times and audits each result."""
    result = Rate()
    for log, injection, own in instances(name, fault, number, logs):
        tally = audit(own, log.topics)
        result.injected += 1
        found_it = injection.found_by(tally)
        counts = result.by_release.setdefault(log.release, Counter())
        counts.update(injected=1, found=found_it)
        if found_it:
            result.found += 1
            result.checks.update({finding.check for finding in tally.findings})
        else:
            found = [f"{f.check}@{f.offset}" for f in tally.findings]
            where = f"{log.name}: {injection.group} {injection.first}..{injection.last}"
            result.missed.append(f"{where}: {found}")
    return result


def main(instances: int, only: Sequence[str] = ()) -> None:
    """Print the table, and totals for real and for simulated logs."""
    written = [log for log in real_logs() if not only or log.release in only]
    others = [] if only else simulated_logs()
    totals: dict[str, Counter[str]] = {"real": Counter(), "simulated": Counter()}
    releases: dict[str, Counter[str]] = {}
    print("| fault | real logs: instances | found | simulated: instances | found | checks |")
    print("|---|---|---|---|---|---|", flush=True)
    for name, fault in FAULTS.items():
        real = _measure(name, fault, instances, written, totals["real"])
        for release, counts in real.by_release.items():
            releases.setdefault(release, Counter()).update(counts, kinds=1)
        simulated = _measure(name, fault, instances, others, totals["simulated"])
        checks = ", ".join(check for check, _ in (real.checks + simulated.checks).most_common())
        print(
            f"| {name.replace('_', ' ')} | {real.injected} | {real} "
            f"| {simulated.injected} | {simulated} | {checks} |",
            flush=True,
        )
    for origin, total in totals.items():
        print(f"{origin}: {dict(total)}", flush=True)
    print("\n| release | kinds | instances | found |\n|---|---|---|---|")
    for release, counts in sorted(releases.items()):
        share = f"{100 * counts['found'] / counts['injected']:.2f} %"
        print(f"| {release} | {counts['kinds']} | {counts['injected']} | {share} |", flush=True)
    for name, (fault, _) in UNDETECTABLE.items():
        real = rate(name, fault, instances, written)
        print(f"undetectable: {name} {real.found} of {real.injected} in real logs", flush=True)


def _measure(
    name: str, fault: Fault, instances: int, logs: Sequence[FaultyLog], total: Counter[str]
) -> Rate:
    result = rate(name, fault, instances, logs)
    for missed in result.missed[:5]:
        print(f"  missed: {name} {missed}", file=sys.stderr, flush=True)
    total.update(kinds=bool(result.injected), instances=result.injected, found=result.found)
    return result


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2:])
