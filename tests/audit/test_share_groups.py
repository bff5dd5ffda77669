"""Share groups: real logs have no finding, everything in them is judged, and faults are found."""

from __future__ import annotations

import random

import pytest

from kip848_spark.checks.log_entries import SHARE_KEY_TYPES, LogEntry
from kip848_spark.checks.results import CAUSES, EPOCHS, HASH, TARGETS, TRANSITIONS
from kip848_spark.checks.topics import KnownTopics
from tests.audit.captured_logs import audit
from tests.audit.faults.share_groups import (
    SHARE_FAULTS,
    UNDETECTABLE,
    ShareFault,
    operation_start,
)
from tests.audit.raw_records import entries_of
from tests.audit.test_sweeps import WAYS, groups_of, sweep
from tests.captures import COMMITTED
from tests.conftest import DATA

CAPTURES = {
    "others-4.2.0": "4.2.0",
    "others-4.3.1": "4.3.1",
    **{path.name: path.name.removeprefix("shares-") for path in sorted(DATA.glob("shares-*"))},
}
"""Captures with share groups, and their releases; those called ``shares`` have nothing else."""
_LONG = [name for name in CAPTURES if name.startswith("shares-")]
_QUICK = [name for name in CAPTURES if name not in ("shares-4.1.1", "shares-4.3.0")]
MOST, _FEW = 100, 8
"""Faults of a kind that are put into a capture."""


def log_of(capture: str) -> list[LogEntry]:
    return [e for e in entries_of(DATA / capture / COMMITTED) if e.kind in SHARE_KEY_TYPES]


@pytest.mark.parametrize("named", [True, False])
@pytest.mark.parametrize("capture", CAPTURES)
def test_a_real_log(capture: str, named: bool) -> None:
    """Every decision is verified, whether or not the release is known; only hashes of topics that
    are gone may stay unknown."""
    log = log_of(capture)
    tally = audit(log, KnownTopics(), release=CAPTURES[capture] if named else None)
    assert tally.findings == []
    values = [e.kind for e in log if e.value is not None]
    assert tally.verified[EPOCHS] == sum(kind in ("11", "12", "14") for kind in values) > 200
    assert tally.verified[TRANSITIONS] == values.count("14")
    assert tally.verified[CAUSES] == values.count("11")
    assert 0 < tally.verified[TARGETS] <= values.count("12")
    assert tally.verified[HASH] > 0.8 * values.count("11")
    assert {check for check, _ in tally.unverifiable} <= {HASH}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("capture", _QUICK)
def test_anything_missing(capture: str, way) -> None:  # type: ignore[no-untyped-def]
    """No cut, start or cleaning of a real log causes a finding."""
    assert sweep(log_of(capture), KnownTopics(), way, 2).verified.total() > 100


@pytest.mark.long
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("capture", CAPTURES)
def test_anything_missing_in_many_places(capture: str, way) -> None:  # type: ignore[no-untyped-def]
    assert sweep(log_of(capture), KnownTopics(), way, 25).verified.total() > 100


@pytest.mark.parametrize("capture", ["others-4.3.1"])
@pytest.mark.parametrize("name", SHARE_FAULTS)
def test_faults(name: str, capture: str) -> None:
    """A fault is found in its group, no earlier than in the operation that was edited."""
    found, tried = rate(SHARE_FAULTS[name], capture, _FEW)
    if name in UNDETECTABLE:
        assert found <= tried
    else:
        assert found == tried > 0, (found, tried)


@pytest.mark.long
@pytest.mark.parametrize("capture", _LONG)
@pytest.mark.parametrize("name", sorted(SHARE_FAULTS.keys() - UNDETECTABLE))
def test_many_faults(name: str, capture: str) -> None:
    found, tried = rate(SHARE_FAULTS[name], capture, MOST)
    assert found >= 0.99 * tried > 0, (found, tried)


def rate(fault: ShareFault, capture: str, most: int) -> tuple[int, int]:
    """How many of the faults that were put into a capture are found, and how many there were."""
    rng = random.Random(capture)
    found = tried = 0
    for own in _shuffled(groups_of(log_of(capture)), rng):
        for at in rng.sample(range(len(own)), min(len(own), 25)):
            if tried == most:
                return found, tried
            edited = fault(own, at, rng)
            if edited is None:
                continue
            tried += 1
            tally = audit(edited, KnownTopics(), release=CAPTURES[capture])
            first = min((f.offset for f in tally.findings if f.offset is not None), default=-1)
            found += first >= operation_start(own, at)
    return found, tried


def _shuffled(groups: list[list[LogEntry]], rng: random.Random) -> list[list[LogEntry]]:
    rng.shuffle(groups)
    return groups
