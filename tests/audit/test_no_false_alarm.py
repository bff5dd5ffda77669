"""No false alarm: real logs as they are, as the cleaner leaves them, begun late and cut short."""

from __future__ import annotations

import random

import pytest

from kip848_spark.checks.completed_target import TOPICS_UNKNOWN
from kip848_spark.checks.coverage import Coverage
from kip848_spark.checks.hashes import TOPICS_THEN
from kip848_spark.checks.operations import same_operation
from kip848_spark.checks.results import (
    CAUSES,
    CHECKS,
    COMMITS,
    EPOCHS,
    HASH,
    LIVE,
    LOADING,
    MIGRATION,
    ORDER,
    OWNERSHIP,
    STATE,
    TARGETS,
    TRANSITIONS,
    Tally,
)
from kip848_spark.checks.topics import KnownTopics
from tests.audit.capture_counts import counted
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
from tests.audit.log_cuts import begun_at, cleaned, cut_at, ends_of

SEEDS = range(25)


def clean(tally: Tally) -> bool:
    assert [f"{f.check} {f.group_id} {f.partition}/{f.offset}" for f in tally.findings] == []
    return not tally.disagreed


@pytest.mark.parametrize("release", RELEASES)
def test_every_record_of_a_real_log_is_verified(release: str) -> None:
    tally = audit(entries(release), topics(release))
    assert clean(tally)
    assert tally.unverifiable == {}
    reported = counted(release)
    assert tally.verified[TRANSITIONS] == tally.verified[OWNERSHIP] == reported.assignments
    assert tally.verified[TARGETS] == reported.targets
    assert tally.verified[HASH] >= reported.hashes
    assert tally.verified[CAUSES] == reported.bumps
    assert tally.verified[EPOCHS] == reported.assignments + reported.targets + reported.bumps
    assert tally.verified[ORDER] == tally.verified[LOADING] >= reported.bumps
    assert tally.verified[MIGRATION] >= reported.upgrades
    assert tally.notes == {}


@pytest.mark.parametrize("capture", [*CHURNED, *MOVING])
def test_all_that_can_be_of_heavy_churn_is_verified(capture: str) -> None:
    """What is not, are hashes of topics that were deleted meanwhile, and targets that need them."""
    tally = audit(churned(capture), churned_topics(capture))
    assert clean(tally)
    assert tally.unverifiable.keys() <= {(TARGETS, TOPICS_UNKNOWN), (HASH, TOPICS_THEN)}
    without_hashes = {HASH} if "4.0." in capture else set()
    assert {check for check in CHECKS if tally.verified[check]} == (
        set(CHECKS) - {STATE, LIVE, COMMITS} - without_hashes
    )
    assert tally.unverifiable.total() <= 0.01 * tally.verified.total() + 4


@pytest.mark.parametrize("capture", UPGRADED)
def test_a_cluster_that_changed_its_release(capture: str) -> None:
    """Up and down again: each operation is judged by the releases that may have written it."""
    tally = audit(churned(capture), churned_topics(capture))
    assert clean(tally)
    assert tally.unverifiable.keys() <= {(TARGETS, TOPICS_UNKNOWN), (HASH, TOPICS_THEN)}
    assert tally.unverifiable.total() <= 0.01 * tally.verified.total() + 4


@pytest.mark.parametrize("capture", [*CHURNED, *MOVING])
def test_the_exact_release_may_be_given(capture: str) -> None:
    """A patch release judges its own log: 4.0.0 has another uniform assignor than 4.0.2."""
    release = capture.rpartition("-")[2]
    assert clean(audit(churned(capture), churned_topics(capture), release=release))


@pytest.mark.parametrize("release", RELEASES)
def test_without_a_list_of_topics_what_needs_it_is_unverifiable(release: str) -> None:
    tally = audit(entries(release), KnownTopics())
    assert clean(tally)
    assert {check for check, _ in tally.unverifiable} <= {HASH, TARGETS}
    assert tally.verified[TRANSITIONS] == counted(release).assignments


@pytest.mark.parametrize("release", RELEASES)
@pytest.mark.parametrize("tombstones", [True, False])
def test_a_cleaned_log(release: str, tombstones: bool) -> None:
    log = entries(release)
    ends = ends_of(log)
    verified = 0
    for seed in SEEDS:
        rng = random.Random(seed)
        upto = {partition: rng.randint(0, end + 1) for partition, end in ends.items()}
        tally = audit(*_known(cleaned(log, upto, tombstones=tombstones), release))
        assert clean(tally), seed
        verified += tally.verified.total()
    assert verified


@pytest.mark.parametrize("release", RELEASES)
def test_a_log_that_is_cleaned_to_its_end_passes_nothing_it_cannot_see(release: str) -> None:
    log = entries(release)
    upto = {partition: end + 1 for partition, end in ends_of(log).items()}
    tally = audit(*_known(cleaned(log, upto), release))
    assert clean(tally)
    holed = {e.partition for e in log} - {5}  # one partition has nothing to be cleaned away
    assert len(holed) > 5
    assert tally.unverifiable.total() > 5 * tally.verified.total()


@pytest.mark.parametrize("release", RELEASES)
def test_a_log_begun_in_mid_history(release: str) -> None:
    log = entries(release)
    ends = ends_of(log)
    for seed in SEEDS:
        rng = random.Random(seed)
        first = {partition: rng.randint(0, end) for partition, end in ends.items()}
        assert clean(audit(*_known(begun_at(log, first), release))), seed


@pytest.mark.parametrize("release", RELEASES)
def test_a_log_cut_in_mid_operation(release: str) -> None:
    log = entries(release)
    ends = ends_of(log)
    for seed in SEEDS:
        rng = random.Random(seed)
        last = {partition: rng.randint(0, end) for partition, end in ends.items()}
        kept, coverage = cut_at(log, last)
        tally = audit(kept, topics(release), coverage)
        assert clean(tally), seed
        # and cleaned on top
        upto = {partition: rng.randint(0, end + 1) for partition, end in last.items()}
        assert clean(audit(*_known(cleaned(kept, upto), release))), seed


@pytest.mark.parametrize("capture", ["churn-4.3.1", "streams-4.3.1"])
def test_a_group_whose_records_were_removed_after_a_run_ended_in_mid_operation(
    capture: str,
) -> None:
    log, known = churned(capture), churned_topics(capture)
    rng = random.Random(7)
    cuts = 0
    while cuts < 40:
        before = rng.choice(log)
        place, first = (before.partition, before.group), before.offset + 1
        of_partition = [e for e in log if e.partition == before.partition]
        after = [e for e in of_partition if e.group == before.group and e.offset >= first]
        if not after or not same_operation(before, after[0]):
            continue
        kept = [e for e in of_partition if (e.partition, e.group) != place or e.offset < first]
        holes = [(e.partition, e.offset) for e in after]
        coverage = Coverage.of(holes, ends_of(kept), [(before.partition, first)])
        assert clean(audit(kept, known, coverage)), (place, first)
        cuts += 1


@pytest.mark.parametrize("release", RELEASES)
def test_the_release_may_be_given(release: str) -> None:
    assert clean(audit(entries(release), topics(release), release=release))


def test_hashes_over_racks_nobody_knows_are_unverifiable() -> None:
    """A cluster with racks: every hash is another one, consistently, and none can be made again."""
    log = entries("4.3.1")
    for item in log:
        if item.kind == "3" and item.value is not None and item.value.get("metadataHash"):
            item.value["metadataHash"] ^= 0x5DEECE66D
    tally = audit(log, topics("4.3.1"))
    assert clean(tally)
    reported = counted("4.3.1")
    without = sum(
        item.kind == "3" and item.value is not None and not item.value.get("metadataHash")
        for item in log
    )
    assert tally.verified[HASH] == without  # of groups without topics
    assert sum(n for (check, _), n in tally.unverifiable.items() if check == HASH) == (
        reported.hashes - without
    )


def test_hashes_over_racks_that_the_cluster_tells() -> None:
    """Churn on a broker that says which rack it is on: its topics are listed with their racks."""
    log, known = churned("racks-4.3.1"), churned_topics("racks-4.3.1")
    tally = audit(log, known)
    assert clean(tally)
    unknown = sum(n for (check, _), n in tally.unverifiable.items() if check == HASH)
    assert tally.verified[HASH] > 20 * unknown  # of topics that were deleted
    without = audit(log, KnownTopics(names=known.names))
    assert clean(without)
    nothing = (e.kind == "3" and e.value is not None and not e.value["metadataHash"] for e in log)
    assert without.verified[HASH] == sum(nothing)  # of groups without topics, whoever knows what


def _known(log_and_coverage, release):  # type: ignore[no-untyped-def]
    log, coverage = log_and_coverage
    return log, topics(release), coverage
