"""No false alarm in 500 simulated clusters of all profiles and releases: whole and compacted, begun
late, cut short, and cleaned in the middle."""

from __future__ import annotations

import random
from collections.abc import Hashable, Iterator

import pytest

from kip848_spark.checks.completed_target import OTHER_ASSIGNOR
from kip848_spark.checks.coverage import Coverage
from kip848_spark.checks.results import STATE, TARGETS, Tally
from kip848_spark.checks.topics import KnownTopics
from kip848_spark.coordinator.assignors import find_assignors
from tests.audit.captured_logs import audit
from tests.audit.log_cuts import begun_at, cleaned, cut_at, read_twice
from tests.audit.simulated_logs import KINDS, SimulatedLog, simulated_log

CLUSTERS, AT_ONCE = 500, 20
CUTS = 3


def _few() -> Iterator[int]:
    """Seeds with every profile and every release, compacted or not."""
    seen: set[tuple[int, Hashable]] = set()
    for seed, kind in enumerate(KINDS):
        if news := set(enumerate(kind)) - seen:
            seen |= news
            yield seed


@pytest.mark.parametrize("seed", list(_few()))
def test_a_simulated_cluster(seed: int) -> None:
    no_alarm(simulated_log(seed))


def test_a_cluster_with_a_custom_assignor() -> None:
    """Judged exactly if the class is given, and not at all by its name alone. Kafka's default
    would have computed other targets."""
    setting = "tests.audit.one_takes_all:OneTakesAll,uniform,range"
    cluster = simulated_log(6, setting)  # migrations, release 4.2
    given = find_assignors(setting.split(","))
    exact = clean(
        audit(cluster.log, cluster.topics, cluster.coverage, assignors=given), cluster.name
    )
    assert (TARGETS, OTHER_ASSIGNOR) not in exact.unverifiable
    named = find_assignors(["one-takes-all", "uniform", "range"])
    by_name = audit(cluster.log, cluster.topics, cluster.coverage, assignors=named)
    clean(by_name, cluster.name)
    assert by_name.unverifiable[TARGETS, OTHER_ASSIGNOR] > 0
    other = find_assignors(["uniform", "range"])
    wrong = audit(cluster.log, cluster.topics, cluster.coverage, assignors=other)
    assert {finding.check for finding in wrong.findings} == {TARGETS}


@pytest.mark.long
@pytest.mark.parametrize("first", range(0, CLUSTERS, AT_ONCE))
def test_simulated_clusters(first: int) -> None:
    for seed in range(first, first + AT_ONCE):
        no_alarm(simulated_log(seed))


def no_alarm(cluster: SimulatedLog) -> None:
    """As it is, with and without a list of topics, and as time may leave it."""
    log, topics = cluster.log, cluster.topics
    whole = clean(audit(log, topics, cluster.coverage), cluster.name)
    if not cluster.holes:
        assert not any(reason == "gap" for _, reason in whole.unverifiable)
        assert whole.verified.total() >= whole.unverifiable.total()
    clean(audit(log, KnownTopics(), cluster.coverage), f"{cluster.name}, topics unknown")
    rng = random.Random(cluster.name)
    for number in range(CUTS):

        def somewhere() -> dict[int, int]:
            return {partition: rng.randint(0, end + 1) for partition, end in cluster.ends.items()}

        name = f"{cluster.name}, cut {number}"
        kept, ended = cut_at(log, somewhere())
        clean(audit(kept, topics, _and(cluster, ended)), f"{name} short")
        kept, begun = begun_at(log, somewhere())
        clean(audit(kept, topics, _and(cluster, begun)), f"{name} begun late")
        if not cluster.holes:
            for tombstones in (True, False):
                upto = somewhere()
                clean(audit(*_with(cleaned(log, upto, tombstones=tombstones), topics)), name)
                again = read_twice(log, somewhere(), upto, tombstones=tombstones)
                clean(audit(*_with(again, topics)), f"{name} read twice")


def _with(
    log_and_coverage: tuple[list, Coverage],  # type: ignore[type-arg]
    topics: KnownTopics,
) -> tuple[list, KnownTopics, Coverage]:  # type: ignore[type-arg]
    log, coverage = log_and_coverage
    return log, topics, coverage


def _and(cluster: SimulatedLog, cut: Coverage) -> Coverage:
    """The holes of a cut beside those that the cleaner left."""
    more = [(p, doubt.last) for p, doubts in cut.suspect_ranges.items() for doubt in doubts]
    return Coverage.of([*cluster.holes, *more], cut.ends)


def clean(tally: Tally, name: str) -> Tally:
    """``tally``, which has nothing wrong in it."""
    reported = [
        f"{f.check} {f.group_id} {f.partition}/{f.offset} {f.reason}" for f in tally.findings
    ]
    assert reported == [], name
    assert not tally.disagreed, name
    assert not tally.verified[STATE], "the tables are compared elsewhere"
    return tally
