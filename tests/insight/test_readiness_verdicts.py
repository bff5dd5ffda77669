"""Verdicts, waves, notes on the cluster, ranges of releases and changes between two runs."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kip848_spark.insight.readiness import Assessment, assess
from kip848_spark.insight.readiness_changes import readiness_changes
from kip848_spark.insight.readiness_cluster import facts_from_settings, known_cluster
from kip848_spark.insight.readiness_rules import load_rules
from kip848_spark.insight.readiness_versions import KnownRelease, ReleaseRange
from tests.insight.readiness_examples import EMPTY, PLAIN, Example, group_of, on, rebalances
from tests.insight.readiness_lake import START, state_of_records
from tests.insight.readiness_records import classic, commit, member


def assessed(example: Example) -> Assessment:
    state = state_of_records(example.records)
    facts = state.facts(example.now, **example.extra)
    return assess(facts, known_cluster(state.groups, example.cluster))


def rows_by_group(example: Example) -> dict[str, dict[str, Any]]:
    return {row["group_id"]: row for row in assessed(example).rows.to_pylist()}


def test_a_guess_never_makes_a_group_ready() -> None:
    """Whatever the client ids say, a group is at most as ready as one whose clients are unknown."""
    for guess in ("rdkafka", "consumer-g-1", "kgo", "kafka-python-2.0.2"):
        named = rows_by_group(group_of(client_id=guess))["g"]
        unnamed = rows_by_group(group_of(client_id="app"))["g"]
        assert unnamed["verdict"] == "ready"
        assert set(unnamed["warnings"]) <= set(named["warnings"])
    blocked = Example([classic(member(client_id="consumer-g-1", assignment_data=b"x"))])
    assert rows_by_group(blocked)["g"]["verdict"] == "blocked"


def test_what_could_not_be_read_outweighs_every_other_verdict() -> None:
    """A quarantined record may be the group's newest one: not even `blocked` is certain."""
    unread = {"unread": pa.table({"group_id": ["g"], "offset": [5]})}
    for example in (PLAIN, group_of(assignment_data=b"x"), Example([commit()])):
        assert rows_by_group(replace(example, extra=unread))["g"]["verdict"] == "unknown"


def test_empty_groups_move_under_every_policy_and_with_any_data() -> None:
    assert rows_by_group(on(EMPTY, migration_policy="disabled"))["g"]["verdict"] == "ready"


def test_a_group_that_had_no_generation_has_a_note() -> None:
    """The first JoinGroup of a group writes key 2 without protocol type and members, also where
    an empty consumer group has commits."""
    joining = classic(protocol_type="")
    for records in ([joining], [commit(), joining], [commit(), classic()]):
        found = rows_by_group(Example(records))["g"]
        assert (found["verdict"], found["notes"]) == ("ready", ["empty-group"])
    found = rows_by_group(Example([commit(), joining], now=START + timedelta(days=7)))["g"]
    assert set(found["notes"]) == {"abandoned-group", "empty-group"}
    assert rows_by_group(Example([commit()]))["g"]["notes"] == ["commits-only"]


def test_the_rules_of_a_group_are_sorted() -> None:
    """Fails if they are in the order of the file of rules."""
    several = Example(
        [
            classic(
                member(instance_id="i", session_timeout=6000, rack="r", subscription_data=b"x"),
                member("m-2", owned=(), topics=("payments",), client_id="kafka-python-2"),
                protocol="sticky",
            )
        ],
        {"release": "4.0.0"},
    )
    found = rows_by_group(several)["g"]
    for name in ("blockers", "warnings", "unknowns", "notes"):
        assert found[name] == sorted(set(found[name]))
    assert len(found["warnings"]) > 2
    assert len(found["notes"]) > 2


def test_facts_of_one_group_do_not_reach_another() -> None:
    """Fails if members and groups are matched by position."""
    groups = [classic(member(f"m-{n}"), group=f"g-{n}") for n in range(20)]
    groups[7] = classic(member("m-7", assignment_data=b"x"), group="g-7")
    groups[11] = classic(member("m-11", session_timeout=6000), group="g-11")
    rows = rows_by_group(Example(groups))
    assert [g for g, row in rows.items() if row["verdict"] == "blocked"] == ["g-7"]
    assert [g for g, row in rows.items() if row["warnings"]] == ["g-11"]
    details = dict(rows["g-11"]["details"])
    assert details["session-timeout-short"] == "session timeout 6000 ms"


def test_what_concerns_the_cluster_is_said_once() -> None:
    groups = [classic(member(f"m-{n}"), group=f"g-{n}") for n in range(5)]
    found = assessed(Example(groups, {"migration_policy": "disabled"}))
    notes = [note for note in found.notes if "migration-policy" in note.rules]
    assert [(note.severity, note.groups) for note in notes] == [("blocker", 5)]
    assert found.rows["verdict"].unique().to_pylist() == ["blocked"]


def test_a_cluster_that_says_nothing_is_two_notes_at_most() -> None:
    unknown = [note for note in assessed(PLAIN).notes if note.severity == "unknown"]
    assert [note.todo for note in unknown] == [
        "Name the cluster with --source.",
        "Name the release with --release.",
    ]
    assert "group.consumer.migration.policy" in unknown[0].text


def test_settings_of_the_broker_become_facts() -> None:
    facts = facts_from_settings(
        {
            "group.consumer.migration.policy": "BIDIRECTIONAL",
            "group.consumer.assignors": "range, org.apache.kafka.coordinator.group.assignor."
            "UniformAssignor",
            "group.consumer.max.size": "7",
            "group.max.size": None,
        }
    )
    assert facts == {
        "migration_policy": "bidirectional",
        "assignors": ["range", "uniform"],
        "default_assignor": "range",
        "max_size": 7,
    }


@pytest.mark.parametrize(
    ("members", "expected"),
    [
        ([member(host="/a")], 1),  # quiet: it has never committed; small; alone on its host
        ([member(f"m-{n}", host=f"/a{n}", owned=(n,)) for n in range(6)], 2),  # not small
        ([member(host="/shared")], 2),  # not alone on its host
        ([member(host="/a", owned=range(51))], 2),  # not small
        ([member(host="/a", session_timeout=6000)], 2),  # warnings
        ([member(host="/shared", session_timeout=6000, owned=range(51))], 4),
    ],
)
def test_waves(members: list[dict[str, Any]], expected: int) -> None:
    other = classic(member("other", host="/shared"), group="other")
    rows = rows_by_group(Example([classic(*members), other]))
    assert rows["g"]["wave"] == expected


def test_a_group_that_commits_often_is_not_quiet() -> None:
    activity = pa.table({"group_id": ["g"], "commits": [1441]})
    extra = {"offset_activity": activity, "rebalances": rebalances(), "days": 1}
    assert rows_by_group(replace(PLAIN, extra=extra))["g"]["wave"] == 2
    extra["days"] = 2
    assert rows_by_group(replace(PLAIN, extra=extra))["g"]["wave"] == 1


def test_rebalances_that_the_new_protocol_makes_cheaper() -> None:
    """A group of two members and four partitions. With an eager assignor both members stop."""
    happened = rebalances(
        (2, 0, 0),  # nothing moved, and an eager assignor stopped both members
        (2, 4, 4),  # all partitions moved, as they had to
        (1, 3, 3),  # nobody else to stop
        (2, 3, 1),  # two moves too many
        (2, None, None),  # not known
    )
    # Of the two cheaper ones of the eager assignor, the first stops two members and four partitions
    # for nothing; in the second, one member had to give up one partition.
    assert _past("range", happened) == (5, 2, 2 + 1, 4 + 3)
    assert _past("cooperative-sticky", happened) == (5, 1, 0, 2)


def _past(protocol: str, happened: pa.Table) -> tuple[int, int, int, int]:
    halves = (member("m-1", owned=(0, 1)), member("m-2", owned=(2, 3)))
    group = Example([classic(*halves, protocol=protocol)], extra={"rebalances": happened})
    row = rows_by_group(group)["g"]
    return (
        row["rebalances"],
        row["cheaper_rebalances"],
        row["avoidable_stops"],
        row["avoidable_unowned"],
    )


def test_a_member_that_has_just_joined_did_not_stop() -> None:
    happened = rebalances((2, 2, 2), joined=["m-2"])
    assert _past("range", happened) == (1, 1, 0, 2)
    assert _past("range", rebalances((2, 0, 0), joined=["m-2"])) == (1, 1, 1, 4)


def test_a_member_without_partitions_had_nothing_to_stop() -> None:
    """Three members, one partition."""
    group = Example(
        [classic(member("m-1"), protocol="range")], extra={"rebalances": rebalances((3, 0, 0))}
    )
    row = rows_by_group(group)["g"]
    assert (row["avoidable_stops"], row["avoidable_unowned"]) == (1, 1)


def test_changes_between_two_runs() -> None:
    def row(group_id: str, verdict: str, *blockers: str, note: str = "") -> dict[str, Any]:
        lists: dict[str, Any] = {"blockers": list(blockers), "warnings": None, "unknowns": []}
        lists["notes"] = [note] if note else []
        return {"group_id": group_id, "verdict": verdict, **lists}

    before = [row("a", "ready"), row("b", "blocked", "x", "y"), row("c", "ready", note="full")]
    after = [row("a", "ready"), row("b", "blocked", "y", "z"), row("c", "ready", note="empty")]
    before.append(row("gone", "ready"))
    after.append(row("new", "unknown"))
    assert [tuple(change.values()) for change in readiness_changes(before, after)] == [
        ("b", "blocked", "blocked", ["z"], ["x"]),
        ("c", "ready", "ready", ["empty"], ["full"]),
        ("gone", "ready", None, [], []),
        ("new", None, "unknown", [], []),
    ]


AFFECTED = {
    # Read from the release notes' "Fix Version/s" by line: docs/kafka-facts.md#patch-releases
    ("4.0.1", "4.1.0"): {"4.0.0": True, "4.0.1": False, "4.1.0": False, "4.3.1": False},
    ("4.0.2", "4.1.2", "4.2.0"): {"4.0.1": True, "4.1.1": True, "4.1.2": False, "4.3.0": False},
    ("4.1.2", "4.2.0"): {"4.0.2": True, "4.1.1": True, "4.1.2": False, "4.2.1": False},
    ("4.2.2", "4.3.1", "4.4.0"): {"4.2.1": True, "4.2.2": False, "4.3.0": True, "4.4.0": False},
    ("4.2.2", "4.4.0"): {"4.2.2": False, "4.3.1": True, "4.4.0": False},
}


@pytest.mark.parametrize("fixes", AFFECTED)
def test_a_fix_is_looked_up_in_the_line_of_the_release(fixes: tuple[str, ...]) -> None:
    range_ = ReleaseRange.of(None, fixes, None)
    for release, affected in AFFECTED[fixes].items():
        assert range_.contains(KnownRelease.of(release)) is affected, release


RELEASES = [f"4.{minor}.{patch}" for minor in range(6) for patch in range(4)]
RANGES = [rule.releases for rule in load_rules().rules if not rule.releases.is_everything]


@given(st.sampled_from(RANGES), st.sampled_from(RELEASES), st.sampled_from(RELEASES))
def test_what_is_said_of_at_least_a_release_holds_for_every_later_one(
    range_: ReleaseRange, at_least: str, exact: str
) -> None:
    """An answer from a lower bound must be that of each release it allows."""
    said = range_.contains(KnownRelease.of(None, at_least))
    if said is not None and RELEASES.index(exact) >= RELEASES.index(at_least):
        assert range_.contains(KnownRelease.of(exact)) is said


def test_an_unknown_release_is_never_judged() -> None:
    assert all(range_.contains(KnownRelease()) is None for range_ in RANGES)
