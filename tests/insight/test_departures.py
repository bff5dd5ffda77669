"""Whether a member left or expired, by its commits: the verdict, and the evidence that is named."""

from __future__ import annotations

from typing import Any

import pytest

from kip848_spark.insight.departures import Departure
from tests.insight.story_rows import at


def gone(silent: float | None, usual: float | None = 5_000.0, **columns: Any) -> Departure:
    """A member whose last commit was ``silent`` seconds before it was removed."""
    last = None if silent is None else at(-silent)
    return Departure("m", at(0), columns.pop("owned", 2), last, usual, **columns)


@pytest.mark.parametrize(
    ("departure", "likely", "words"),
    [
        (gone(0.1), "left", "it committed just before: probably left"),
        (gone(3), "left", "its last commit was 3 s before: probably left"),
        (
            gone(44.9),
            "expired",
            "its last commit was 44.9 s before (session timeout 45 s, assumed): probably expired",
        ),
        (
            gone(12),
            None,
            "its last commit was 12 s before, which does not tell which (session timeout 45 s, "
            "assumed)",
        ),
        # A session of 10 s that records give: the same silence now shows something.
        (
            gone(12, 2_000.0, session_timeout_ms=10_000),
            "expired",
            "its last commit was 12 s before (session timeout 10 s): probably expired",
        ),
        # A member that commits once a minute is always silent.
        (
            gone(50, 60_000.0),
            None,
            "its last commit was 50 s before, but it commits too seldom to tell which",
        ),
        (
            gone(50, None),
            None,
            "its last commit was 50 s before, but it commits too seldom to tell which",
        ),
        # In a classic group, the record comes at the end of the rebalance.
        (
            gone(50, classic=True),
            None,
            "its last commit was 50 s before, and the rebalance of a classic group may have taken "
            "a part of this time",
        ),
        (gone(None), None, "no commit of its partitions is on record, so it is not known which"),
        (gone(None, owned=0), None, "it owned no partition, so no commit tells which"),
        (
            gone(None, joined_at=at(-17)),
            None,
            "it had joined 17 s before and not committed, so it is not known which",
        ),
        # A member of a share group commits nothing, and the tasks of a streams group are not known.
        (gone(None, commits=False), None, "the records of such a group do not tell which"),
    ],
)
def test_verdicts(departure: Departure, likely: str | None, words: str) -> None:
    assert departure.likely == likely
    assert departure.sentence() == f"left or its session expired; {words}"


def test_a_conclusion_from_other_evidence_has_precedence() -> None:
    assert gone(12, concluded="expired").sentence().endswith(": probably expired")
    unseen = gone(None, concluded="expired")
    assert unseen.sentence() == "left or its session expired; probably expired"
    assert unseen.described()["likely"] == "expired"


def test_a_static_member_that_is_gone_did_not_just_close() -> None:
    """An administrator who removes a member leaves the records of a leave."""
    removed = gone(0.1, static=True)
    assert (removed.likely, removed.described()["likely"]) == ("left", "left")
    assert removed.sentence() == (
        "left or its session expired; it committed just before: probably left for good, or was "
        "removed by an administrator"
    )
    assert gone(44.9, static=True).sentence().endswith(": probably expired")


def test_a_static_member_that_did_not_come_back() -> None:
    departure = gone(0.2, away_since=at(-10), concluded="expired")
    assert departure.sentence() == (
        "closed at 02:13:57 as a static member and did not come back within its session timeout"
    )
    assert (departure.likely, departure.described()["away_since"]) == ("expired", at(-10))
