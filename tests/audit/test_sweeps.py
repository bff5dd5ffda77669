"""Every cut, every start and every clean point of every group of real logs: no alarm at any."""

from __future__ import annotations

import random
from collections.abc import Iterator

import pytest

from kip848_spark.checks.coverage import Coverage
from kip848_spark.checks.log_entries import LogEntry
from kip848_spark.checks.results import Tally
from kip848_spark.checks.topics import KnownTopics
from tests.audit.captured_logs import (
    CHURNED,
    MOVING,
    RELEASES,
    UPGRADED,
    audit,
    churned,
    churned_topics,
    entries,
    topics,
)
from tests.audit.log_cuts import cleaned, read_twice

Log = list[LogEntry]
_MOST = 15
"""PartitionSets of a group that are tried in the logs of heavy churn."""


def groups_of(log: Log) -> list[Log]:
    """The records of each group."""
    found: dict[tuple[int, str], Log] = {}
    for item in log:
        found.setdefault((item.partition, item.group), []).append(item)
    return list(found.values())


def ends_anywhere(own: Log, at: int) -> Iterator[tuple[Log, Coverage]]:
    """The log ends with this record, or goes on with those of others."""
    partition, offset = own[at].partition, own[at].offset
    yield own[: at + 1], Coverage.of((), {partition: offset})
    if at + 1 < len(own) and own[at + 1].offset > offset + 1:
        yield own[: at + 1], Coverage.of((), {partition: offset + 1})


def begins_anywhere(own: Log, at: int) -> Iterator[tuple[Log, Coverage]]:
    """What was before this record is gone."""
    partition = own[at].partition
    yield own[at:], Coverage.of([(partition, own[at].offset - 1)], {partition: own[-1].offset})


def cleaned_anywhere(own: Log, at: int) -> Iterator[tuple[Log, Coverage]]:
    """Cleaned up to this record, tombstones kept or not, and then cut somewhere."""
    partition = own[at].partition
    for tombstones in (True, False):
        kept, coverage = cleaned(own, {partition: own[at].offset}, tombstones=tombstones)
        yield kept, coverage
        cut = random.Random(at).randrange(len(kept)) if kept else 0
        yield (
            kept[: cut + 1],
            Coverage(coverage.suspect_ranges, {p: e.offset for p, e in _last(kept, cut)}),
        )


def read_before_cleaning(own: Log, at: int) -> Iterator[tuple[Log, Coverage]]:
    """One reading ended before this record; then the cleaner came, then the second reading."""
    rng = random.Random(at)
    if at == 0:
        return
    for tombstones in (True, False):
        first = {own[0].partition: own[rng.randrange(at)].offset + 1}
        yield read_twice(own, first, {own[0].partition: own[at].offset}, tombstones=tombstones)


def _last(kept: Log, cut: int) -> Iterator[tuple[int, LogEntry]]:
    if kept:
        yield kept[cut].partition, kept[cut]


WAYS = [ends_anywhere, begins_anywhere, cleaned_anywhere, read_before_cleaning]


def sweep(log: Log, known: KnownTopics, way, most: int | None = None) -> Tally:  # type: ignore[no-untyped-def]
    """Audits at each record of each group (or at so many of them); none may find anything."""
    rng = random.Random(1)
    total = Tally()
    for own in groups_of(log):
        places = range(len(own))
        if most is not None and len(own) > most:
            places = sorted(rng.sample(places, most))  # type: ignore[assignment]
        for at in places:
            for part, coverage in way(own, at):
                tally = audit(part, known, coverage)
                reported = [(f.check, f.group_id, f.offset, f.reason) for f in tally.findings]
                assert reported == [], (way.__name__, own[at].partition, own[at].offset)
                total.add(tally)
    return total


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("release", RELEASES)
def test_the_scenarios(release: str, way) -> None:  # type: ignore[no-untyped-def]
    total = sweep(entries(release), topics(release), way)
    assert total.verified.total() > 1_000


@pytest.mark.long
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("capture", [*CHURNED, *MOVING, *UPGRADED])
def test_heavy_churn(capture: str, way) -> None:  # type: ignore[no-untyped-def]
    total = sweep(churned(capture), churned_topics(capture), way, _MOST)
    assert total.verified.total() > 1_000


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("odd", ["odd-4.3.1", "odd-4.2.0", "odd-4.1.0"])
def test_groups_that_raised_a_false_alarm_once(odd: str, way) -> None:  # type: ignore[no-untyped-def]
    """A subscribed topic that came and went; a second record in the moment of a downgrade. A
    conversion of a classic group that is on record only as one without members or a type. Static
    members that were replaced by classic ones with other topics, before KAFKA-19546 was fixed."""
    tally = sweep(churned(odd), churned_topics(odd), way)
    assert tally.verified.total() > 20
