"""Recorded groups held against the model: real ones conform, ones with injected faults do not.

TLC and the checker without it (`kip848_spark.conformance`) must give the same verdicts.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import count
from pathlib import Path

import pytest

from kip848_spark.checks.log_entries import LogEntry
from kip848_spark.conformance.judge import judge
from kip848_spark.conformance.records import RELEASES as RELEASES_OF_THE_MODEL
from kip848_spark.conformance.records import NotModelledError, Trace, trace_of
from spec.conform import conform
from tests.audit.captured_logs import CHURNED, MOVING, RELEASES, churned, entries
from tests.audit.fault_rates import FaultyLog, instances, real_logs, simulated_logs
from tests.audit.faults import FAULTS
from tests.audit.raw_records import entries_of
from tests.audit.simulated_logs import KINDS, simulated_log
from tests.captures import COMMITTED
from tests.conftest import DATA

CLASSIC = "the classic protocol is not modelled"
NO_TIME = "the model has no time"
NO_TOPICS = (
    "topics, their sizes and names are not in the log; the recorded target is taken as given"
)
NOT_SEEN = {
    "classic_generation_decreases": CLASSIC,
    "duplicate_classic_instance_id": CLASSIC,
    "leader_not_a_member": CLASSIC,
    "time_of_classic_state_decreases": CLASSIC,
    "time_of_classic_state_too_late": CLASSIC,
    "downgrade_gains_a_partition": "classic assignments name topics, the others have topic ids",
    "downgrade_loses_a_partition": "classic assignments name topics, the others have topic ids",
    "expressions_resolved_again_too_soon": NO_TIME,
    "expressions_resolved_at_different_times": NO_TIME,
    "record_one_day_before_the_time_in_its_value": NO_TIME,
    "split_operation": NO_TIME,
    "time_of_resolution_too_late": NO_TIME,
    "time_of_target_too_early": NO_TIME,
    "time_of_target_too_late": NO_TIME,
    "regex_resolved_to_unmatched_topic": NO_TOPICS,
    "wrong_metadata_hash": "the model only knows whether the hash changed",
    "wrong_topic_metadata": "the model only knows whether records of key type 4 came",
}
"""Faults that the model cannot see, and why. The audit finds them."""
NOT_ALWAYS_SEEN = {
    "lost_regex_resolution": "until 4.1 nothing else need be written",
    "lost_target": NO_TOPICS,
    "swapped_records": "records of key type 4 are left out",
    "target_misses_a_partition": NO_TOPICS,
    "target_of_unknown_topic": NO_TOPICS,
    "target_of_unsubscribed_topic": NO_TOPICS,
    "target_with_nonexistent_partition": NO_TOPICS,
    "targets_swapped": NO_TOPICS,
    "topics_swapped_in_target": NO_TOPICS,
    "unbalanced_target": NO_TOPICS,
    "wrong_generation_at_downgrade": "a static member that became classic may have raised it",
}
"""Faults that the model sees only by their consequences, if there are any."""
CAPTURED = {release: f"kafka-{release}" for release in RELEASES}
OTHERS = ("odd-4.2.0", "odd-4.3.1", "racks-4.3.1")


def trace(log: Iterable[LogEntry]) -> Trace | None:
    """The trace of a group; None if the model can't express it."""
    lines = (
        {
            "key": entry.record["key"],
            "value": None if entry.value is None else {"data": entry.value},
            "offset": entry.offset,
            "timestamp": entry.timestamp,
        }
        for entry in log
    )
    try:
        found = trace_of(lines)
    except NotModelledError:
        return None
    return found if found.records else None


def traces(log: Iterable[LogEntry]) -> dict[str, Trace]:
    """The traces of the groups that the model can express."""
    groups: dict[str, list[LogEntry]] = {}
    for entry in log:
        groups.setdefault(entry.group, []).append(entry)
    found = {group: trace(own) for group, own in groups.items()}
    return {group: one for group, one in found.items() if one is not None}


def release_of(log: FaultyLog | str) -> str:
    """The release of the model. The fixes that it knows came with 4.0.2 and 4.1.2."""
    found = re.search(r"(4\.\d)(\.\d)?", log if isinstance(log, str) else log.name)
    assert found
    line, patch = found.groups()
    return f"{line}.0" if line in ("4.0", "4.1") and patch in (".0", ".1") else line


def captured() -> Iterator[tuple[str, list[LogEntry]]]:
    """Every capture of a whole log with groups of the new protocol, and its control records."""
    yield from ((name, entries(release)) for release, name in CAPTURED.items())
    yield from ((name, churned(name)) for name in (*CHURNED, *MOVING))
    yield from ((name, entries_of(DATA / name / COMMITTED)) for name in OTHERS)


def test_captured_groups_conform() -> None:
    judged = Counter[str]()
    for name, log in captured():
        for group, one in traces(log).items():
            verdict = judge(one, release_of(name))
            assert verdict.conforms, (name, group, one.records[verdict.at or 0], verdict.allowed)
            judged[name.partition("-")[0]] += 1
    assert judged == {"kafka": 56, "churn": 480, "moving": 748, "odd": 3, "racks": 24}


def test_the_release_of_a_log_need_not_be_named() -> None:
    for name, log in captured():
        for one in traces(log).values():
            assert judge(one).conforms, name


@pytest.mark.slow
def test_simulated_groups_conform() -> None:
    """Clusters of every release, with much churn, chaos and migrations."""
    judged = 0
    seeds = (seed for seed in count() if not KINDS[seed % len(KINDS)][2])  # not compacted
    while judged < 100:
        cluster = simulated_log(next(seeds))
        for group, one in traces(cluster.log).items():
            verdict = judge(one, release_of(cluster.name))
            assert verdict.conforms, (cluster.name, group, one.records[verdict.at or 0])
            judged += 1


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(FAULTS.keys() - NOT_SEEN))
def test_injected_faults_do_not_conform(name: str) -> None:
    conforming, found = 0, 0
    for log, injection, own in instances(name, FAULTS[name], 12, (*real_logs(), *simulated_logs())):
        one = trace(own)
        if one is None:
            continue
        verdict = judge(one, release_of(log))
        conforming += verdict.conforms
        found += 1
        if verdict.at is not None and name not in NOT_ALWAYS_SEEN:
            place = one.records[verdict.at].offset
            assert injection.first <= place <= injection.last, (log.name, injection)
    assert found > 0
    assert conforming <= (found - 1 if name in NOT_ALWAYS_SEEN else 0)


@pytest.mark.slow
def test_faults_that_are_not_seen_conform() -> None:
    """A kind that is found as a rule belongs into another list."""
    for name in NOT_SEEN:
        judged = [
            judge(one, release_of(log)).conforms
            for log, _, own in instances(name, FAULTS[name], 6, real_logs())
            if (one := trace(own)) is not None
        ]
        assert sum(judged) > len(judged) / 2, name


@pytest.mark.long
@pytest.mark.timeout(900)
@pytest.mark.parametrize("capture", [*CAPTURED.values(), "churn-4.3.1", "odd-4.2.0", "odd-4.3.1"])
def test_tlc_reads_the_same_records(tmp_path: Path, capture: str) -> None:
    log = next(log for name, log in captured() if name == capture)
    some = list(traces(log).values())
    read = conform(some, release_of(capture), tmp_path)
    assert read == [len(one.records) for one in some]
    assert read == [judge(one, release_of(capture)).read for one in some]


@pytest.mark.long
@pytest.mark.timeout(1_200)
@pytest.mark.parametrize("release", RELEASES_OF_THE_MODEL)
def test_tlc_stops_at_the_same_records(tmp_path: Path, release: str) -> None:
    """In logs with faults. Short ones: TLC takes a second for each."""
    logs = [log for log in real_logs() if release_of(log) == release]
    some = [
        one
        for name, fault in FAULTS.items()
        for _, _, own in instances(name, fault, 4, logs)
        if len(own) < 60 and (one := trace(own)) is not None
    ]
    assert len(some) > 20
    read = conform(some, release, tmp_path)
    assert read == [judge(one, release).read for one in some]


def test_groups_beyond_the_model_are_named() -> None:
    classic = {"key": {"type": "2", "data": {"group": "g"}}, "value": None}
    with pytest.raises(NotModelledError, match="classic group"):
        trace_of([classic])
    share = {"key": {"type": "11", "data": {"groupId": "g"}}, "value": None}
    with pytest.raises(NotModelledError, match="key type 11"):
        trace_of([share])
