"""An audit that goes on from a saved one gives the verdicts of an audit of all records: nights of
simulated clusters and of real brokers' logs, cut anywhere."""

from __future__ import annotations

import random
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import pytest

from kip848_spark.checks.context import AuditContext, KnownLine
from kip848_spark.checks.coverage import Coverage
from kip848_spark.checks.group import GroupAudit
from kip848_spark.checks.log_entries import LogEntry
from kip848_spark.checks.results import Tally
from kip848_spark.checks.saved_audit import resume_audit, save_audit
from kip848_spark.checks.topics import KnownTopics
from tests.audit.captured_logs import (
    CHURNED,
    MOVING,
    RELEASES,
    UPGRADED,
    churned,
    churned_topics,
    entries,
    topics,
)
from tests.audit.fault_rates import instances, real_logs, simulated_logs
from tests.audit.faults import FAULTS
from tests.audit.faults.share_groups import SHARE_FAULTS
from tests.audit.faults.streams import STREAMS_FAULTS
from tests.audit.log_cuts import ends_of
from tests.audit.simulated_logs import KINDS, simulated_log
from tests.audit.streams_logs import CAPTURES as STREAMS
from tests.audit.streams_logs import faulty_logs, streams_log, streams_topics
from tests.audit.test_share_groups import CAPTURES as SHARES
from tests.audit.test_share_groups import log_of as share_log
from tests.audit.test_sweeps import groups_of

CLUSTERS, AT_ONCE = 500, 20
NIGHTS = 6
FEW = 20


@dataclass(frozen=True)
class Saved:
    """The state of an audit, which was saved after the record at ``offset``."""

    offset: int
    state: str


@dataclass
class Night:
    """What an audit at the end of a night came to, and what it saved."""

    tally: Tally
    rows: list[object]
    saved: Saved | None


def night(log: Sequence[LogEntry], context: AuditContext, saved: Saved | None = None) -> Night:
    """An audit of the records of a group that were read so far, from a saved one on."""
    audit = GroupAudit(log[0].partition, log[0].group, context)
    if saved is not None:
        assert resume_audit(audit, saved.state) == saved.offset
    for entry in log:
        if saved is None or entry.offset > saved.offset:
            audit.add(entry)
    state = save_audit(audit)
    made = None if state is None else Saved(audit.checked[-1].offset, state)
    return Night(audit.finish(), sorted(map(repr, audit.reference.rows())), made)


def counts(tally: Tally) -> tuple[object, ...]:
    positive = (+tally.verified, +tally.unverifiable, +tally.disagreed, +tally.notes)
    return (*positive, sorted(map(repr, tally.findings)))


def cleaned_at_night(
    log: list[LogEntry], cuts: dict[int, list[int]], rng: random.Random
) -> tuple[list[LogEntry], list[tuple[int, int]]]:
    """What is read of a log if the cleaner comes before each night, and up to some offset leaves
    only the newest record of each key; and the place of each record that it removes."""
    kept, removed = [], []
    cleaned = {
        p: [rng.randint(-at, at) for at in (*cuts[p], ends)] for p, ends in ends_of(log).items()
    }
    newest: dict[tuple[object, ...], int] = {}
    for entry in reversed(log):
        number = bisect_right(cuts[entry.partition], entry.offset)
        upto = cleaned[entry.partition][number]
        key = (number, entry.partition, entry.group, entry.key)
        if entry.offset >= upto or entry.offset > newest.get(key, -1):
            kept.append(entry)
        else:
            removed.append((entry.partition, entry.offset))
        newest.setdefault(key, entry.offset)
    return kept[::-1], removed


def same_in_nights(
    log: list[LogEntry],
    known: KnownTopics,
    holes: Iterable[tuple[int, int]] = (),
    seed: int = 0,
    line: str | None = None,
) -> tuple[int, int]:
    """Compares the nights of each group with and without the saved audit of an earlier night, and
    returns the number of nights that were saved, and of all nights."""
    rng = random.Random(seed)
    ends = ends_of(log)
    cuts = {
        p: sorted(rng.randint(0, end + 1) for _ in range(NIGHTS - 1)) for p, end in ends.items()
    }
    if seed % 2:
        log, missing = cleaned_at_night(log, cuts, rng)
        holes = [*holes, *missing]
    by_group: dict[tuple[int, str], list[LogEntry]] = {}
    for entry in log:
        by_group.setdefault((entry.partition, entry.group), []).append(entry)
    saved_nights = nights = 0
    saved: dict[tuple[int, str], Saved] = {}
    before = dict.fromkeys(ends, 0)
    for number in range(NIGHTS):
        upto = {p: (*cuts[p], end + 1)[number] for p, end in ends.items()}
        gaps = [(p, last) for p, last in holes if last < upto.get(p, 0)]
        restarts = [(p, at) for p in ends for at in (*cuts[p], ends[p] + 1)[:number] if at]
        coverage = Coverage.of(gaps, {p: end - 1 for p, end in upto.items()}, restarts)
        # Two nights have answers about the records that the second one reads.
        answered = line is not None and number > 0
        lines = (KnownLine(line, {p: cuts[p][0] for p in ends}, upto),) if answered else ()
        context = AuditContext(coverage, known, known_lines=lines, since_offsets=before)
        for key, of_group in by_group.items():
            read = [entry for entry in of_group if entry.offset < upto[key[0]]]
            if not read or read[-1].offset < before[key[0]]:
                continue
            whole = night(read, context)
            if (start := saved.get(key)) is not None:
                resumed = night(read, context, start)
                if not whole.tally.findings:
                    assert counts(resumed.tally) == counts(whole.tally), key
                    assert resumed.rows == whole.rows, key
                assert bool(resumed.tally.findings) == bool(whole.tally.findings)
                assert resumed.saved == whole.saved
            nights += 1
            if whole.saved is not None and rng.random() < 0.7:
                saved[key] = whole.saved
                saved_nights += 1
        before = upto
    return saved_nights, nights


def nights_of_a_cluster(seed: int) -> tuple[int, int]:
    cluster = simulated_log(seed)
    known = cluster.topics if seed % 3 else KnownTopics()
    line = cluster.name.split()[2][:3] if seed % 2 else None
    return same_in_nights(cluster.log, known, cluster.holes, seed, line)


@pytest.mark.parametrize("seed", range(0, len(KINDS), 3))
def test_nights_of_a_simulated_cluster(seed: int) -> None:
    nights_of_a_cluster(seed)


@pytest.mark.long
@pytest.mark.parametrize("first", range(0, CLUSTERS, AT_ONCE))
def test_nights_of_simulated_clusters(first: int) -> None:
    saved, nights = map(
        sum, zip(*map(nights_of_a_cluster, range(first, first + AT_ONCE)), strict=True)
    )
    assert saved > nights / 3


@pytest.mark.parametrize("release", RELEASES)
def test_nights_of_a_real_log(release: str) -> None:
    same_in_nights(entries(release), topics(release))


@pytest.mark.slow
@pytest.mark.parametrize("capture", [*CHURNED, *MOVING, *UPGRADED])
def test_nights_of_heavy_churn(capture: str) -> None:
    """Nearly all groups are saved: they have nothing in them that prevents it."""
    saved, nights = same_in_nights(churned(capture), churned_topics(capture))
    assert saved > nights / 2


@pytest.mark.parametrize("capture", STREAMS)
def test_nights_of_streams_groups(capture: str) -> None:
    for seed in range(2):
        saved, nights = same_in_nights(streams_log(capture), streams_topics(capture), seed=seed)
        assert saved > nights / 3


@pytest.mark.parametrize("capture", SHARES)
def test_nights_of_share_groups(capture: str) -> None:
    """In many captures the topics of a hash are not known, so that it waits for later records."""
    for seed in range(2):
        saved, _ = same_in_nights(share_log(capture), KnownTopics(), seed=seed)
        assert saved > 10


@pytest.mark.slow
@pytest.mark.parametrize("name", STREAMS_FAULTS)
def test_a_fault_in_a_streams_group(name: str) -> None:
    for seed, (log, _, records) in enumerate(
        instances(name, STREAMS_FAULTS[name], FEW, faulty_logs())
    ):
        same_in_nights(records, log.topics, seed=seed)


@pytest.mark.slow
@pytest.mark.parametrize("name", SHARE_FAULTS)
def test_a_fault_in_a_share_group(name: str) -> None:
    rng = random.Random(name)
    for capture in ("others-4.3.1", "shares-4.4.0"):
        for seed, own in enumerate(groups_of(share_log(capture))[:FEW]):
            faulty = SHARE_FAULTS[name](own, rng.randrange(len(own)), rng)
            if faulty is not None:
                same_in_nights(faulty, KnownTopics(), seed=seed)


@pytest.mark.slow
@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_is_found_from_a_saved_audit_as_well(name: str) -> None:
    """A finding makes the task audit all records again, so only its presence matters."""
    for seed, (log, _, records) in enumerate(
        instances(name, FAULTS[name], FEW, (*real_logs(), *simulated_logs()))
    ):
        same_in_nights(records, log.topics, seed=seed)
