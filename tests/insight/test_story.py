"""Stories of rebalances, from rows written by hand: each cause and outcome, as people read it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from kip848_spark.insight.departures import Departure
from kip848_spark.insight.rebalance_fields import CAUSES, OUTCOMES
from kip848_spark.insight.story import Evidence, RebalanceStory, write_stories
from tests.insight.story_rows import GROUP, Row, at, group, member, part, rebalance

EPOCHS = [group(41, -3000, 0, (13, 101)), group(42, 0, None, (101, None))]
WORKERS = [
    member("worker-1", -3000, None, (10, None), host="10.0.4.11"),
    member("worker-2", -3000, None, (11, None), host="10.0.4.12"),
    member("worker-3", -3000, 0, (12, 100), host="10.0.4.17"),
]
LOOP = {"pattern": "restart_loop", "members": ["id-of-worker-3", "another-id"]}
PARTITIONS = [part("worker-1", n, "target", -3000, None, (9, None)) for n in range(24)]


def story(row: Row, **evidence: Any) -> RebalanceStory:
    """The story of one rebalance; it is the group's only one unless ``rebalances`` says more."""
    given = {"groups": EPOCHS, "members": WORKERS, "assignments": PARTITIONS} | evidence
    rebalances = given.pop("rebalances", [row])
    (found,) = write_stories(Evidence(GROUP, rebalances, **given), [row])
    return found


def texts(reported: RebalanceStory, label: str) -> list[str]:
    return [line.text for line in reported.lines if line.label == label]


def cause(causes: Sequence[str], evidence: dict[str, Any] | None = None, **columns: Any) -> str:
    (text,) = texts(story(rebalance(42, causes, 0, 5, 101, **columns), **(evidence or {})), "cause")
    return text


def test_a_member_that_was_waited_for() -> None:
    """The night in which worker-3 crashed and worker-1 revoked slowly."""
    row = rebalance(
        42, ["left_or_expired"], 0, 38.2, 101, left=["worker-3"], trigger_members=["worker-3"],
        partitions_moved=4, minimal_moves=2, slowest_member="worker-1", slowest_ms=38_100,
        blocked_members=["worker-2"], evidence=[100, 101, 110],
    )  # fmt: skip
    later = rebalance(43, ["member_joined"], 84, 85, 121)
    later["joined"] = later["trigger_members"] = ["another-id"]
    earlier = [
        rebalance(
            36 + number,
            ["left_or_expired" if number % 2 else "member_joined"],
            -2400 + 600 * number,
            -2399 + 600 * number,
            30 + number,
            **{"left" if number % 2 else "joined": ["worker-3"]},
        )
        for number in range(5)  # joined, left, joined, left, joined
    ]
    assignments = [
        *PARTITIONS,
        part("worker-1", 7, "assigned", -3000, 0.1, (10, 102)),
        part("worker-1", 7, "pending_revocation", 0.1, 38.2, (102, 110)),
        part("worker-2", 7, "assigned", 38.2, None, (111, None)),
        part("worker-1", 9, "assigned", -3000, 0.1, (10, 102)),
        part("worker-1", 9, "pending_revocation", 0.1, 38.2, (102, 110)),
        part("worker-2", 9, "assigned", 38.2, None, (111, None)),
    ]
    again = member("worker-3", 84, None, (120, None), member_id="another-id", host="10.0.4.17")
    gone = Departure("id-of-worker-3", at(0), 2, at(-44.9), 5000.0)
    reported = story(
        row,
        rebalances=[*earlier, row, later],
        members=[*WORKERS, again],
        assignments=assignments,
        departures={(101, "id-of-worker-3"): gone},
        patterns=[LOOP],
    )
    assert reported.headline == (
        "orders-billing rebalanced at 2026-11-20 02:14:07 UTC "
        "(epoch 41 → 42, converged after 38.2 s)"
    )
    assert [(line.label, line.text) for line in reported.lines] == [
        (
            "cause",
            "worker-3 (10.0.4.17) left or its session expired; its last commit was 44.9 s before "
            "(session timeout 45 s, assumed): probably expired",
        ),
        (
            "waited",
            "38.1 s for worker-1 to give up orders-7 and orders-9; worker-2 had to wait",
        ),
        (
            "moved",
            "4 of 24 partitions (2 were necessary); orders-7 and orders-9 had no owner for 38.1 s",
        ),
        (
            "then",
            "worker-3 came back at 02:15:31 (epoch 43): the third time in an hour: restart loop",
        ),
    ]


def test_what_a_member_has_still_not_given_up() -> None:
    """The rebalance is open: its last record is the one that tells the member to give up."""
    row = rebalance(
        42, ["member_joined"], 0, None, 101, outcome="open", slowest_member="worker-1",
        slowest_ms=125_000, blocked_members=["worker-2"],
    )  # fmt: skip
    assignments = [
        *PARTITIONS,
        part("worker-1", 7, "assigned", -3000, 2, (10, 110)),
        part("worker-1", 7, "pending_revocation", 2, None, (110, None)),
    ]
    (text,) = texts(story(row, assignments=assignments), "waited")
    assert text == "2 min 5 s for worker-1 to give up orders-7; worker-2 had to wait"


def test_every_cause_has_words() -> None:
    for name in CAUSES:
        text = cause([name], trigger_members=["worker-1"])
        assert len(text) > len(name) - 3
        assert text != name


def test_members_that_joined() -> None:
    assert cause(["member_joined"], joined=["worker-2"]) == "worker-2 (10.0.4.12) joined"
    several = cause(["member_joined"], joined=["worker-1", "worker-2", "worker-3"])
    assert several == "worker-1, worker-2 and worker-3 joined"


def test_many_members_that_left_are_counted() -> None:
    names = [f"worker-{n}" for n in range(1, 9)]
    members = [member(name, -3000, 0, (n, 100)) for n, name in enumerate(names)]
    gone = {
        (101, f"id-of-{name}"): Departure(f"id-of-{name}", at(0), 1, at(-0.2), 5000.0)
        for name in names[:5]
    }
    text = cause(["left_or_expired"], {"members": members, "departures": gone}, left=names)
    assert text == (
        "worker-1, worker-2, worker-3 and 5 others left or their sessions expired; to judge by "
        "their last commits, 5 probably left"
    )


def test_a_member_that_was_too_slow() -> None:
    held = part("worker-3", 5, "pending_revocation", -300, 0, (50, 99))
    text = cause(["rebalance_timeout"], {"assignments": [held]}, trigger_members=["worker-3"])
    assert text == (
        "worker-3 (10.0.4.17) did not give up orders-5 within the rebalance timeout and was removed"
    )


def test_a_subscription_that_changed() -> None:
    members = [
        member("worker-1", -3000, 0, (10, 100), subscribed_topics=["audit", "orders"]),
        member("worker-1", 0, None, (100, None), subscribed_topics=["orders", "payments"]),
    ]
    text = cause(["subscription_changed"], {"members": members}, trigger_members=["worker-1"])
    assert text == "worker-1 (10.0.4.1) changed its subscription: added payments, removed audit"


def test_a_regular_expression_that_changed_before_it_was_resolved() -> None:
    members = [
        member("worker-1", -3000, -2.2, (10, 90), subscribed_regex="a.*"),
        member("worker-1", -2.2, -2, (90, 92), subscribed_regex="b", member_epoch=41),
        member("worker-1", -2, None, (92, None), subscribed_regex="b", member_epoch=42),
    ]
    both = ["regex_resolved", "subscription_changed"]
    text = cause(both, {"members": members}, trigger_members=["worker-1"])
    assert text == (
        "worker-1 (10.0.4.1) changed its subscription: pattern b, which was resolved 2.2 s later"
    )


def test_a_regular_expression_whose_change_is_not_on_record() -> None:
    members = [member("worker-1", -2, None, (92, None), subscribed_regex="b", member_epoch=42)]
    row = rebalance(42, ["regex_resolved", "subscription_changed"], 0, 5, 101)
    row["trigger_members"] = ["id-of-worker-1"]
    assert texts(story(row, members=members), "cause") == [
        "the regular expression b was resolved",
        "worker-1 (10.0.4.1) changed its subscription",
    ]


def test_many_members_of_which_some_had_closed() -> None:
    """What is known of static members that had closed does not come from commits."""
    row = rebalance(42, ["left_or_expired"], 0, 5, 101, left=[f"m{n}" for n in range(5)])
    gone = {
        (101, "id-of-m0"): Departure("id-of-m0", at(0), 1, away_since=at(-45), concluded="expired"),
        (101, "id-of-m1"): Departure("id-of-m1", at(0), 1, away_since=at(-45), concluded="expired"),
        (101, "id-of-m2"): Departure("id-of-m2", at(0), 1, last_commit_at=at(-0.1)),
    }
    (text,) = texts(story(row, departures=gone), "cause")
    assert text.endswith(
        "; 2 had closed as static members and did not come back; to judge by their last commits, "
        "1 probably left"
    )


def test_an_assignor_that_changed() -> None:
    groups = [
        group(41, -3000, 0, (13, 101), assignor="uniform"),
        group(42, 0, None, (101, None), assignor="range"),
    ]
    text = cause(["assignor_changed"], {"groups": groups})
    assert text == "the assignor changed from uniform to range"


def test_a_topic_that_grew() -> None:
    assignments = [
        *(part("worker-1", n, "target", -3000, None, (9, None)) for n in range(12)),
        *(part("worker-2", n, "target", 0.01, None, (103, None)) for n in range(12, 24)),
    ]
    text = cause(["topics_changed"], {"assignments": assignments})
    assert text == "a subscribed topic changed: orders now has 24 partitions instead of 12"


def test_a_topic_that_is_gone() -> None:
    kept = [part("worker-1", n, "target", -3000, None, (9, None)) for n in range(12)]
    gone = [part("worker-1", n, "target", -3000, 0.1, (9, 103), topic="audit") for n in range(2)]
    by_regex = [member("worker-1", -3000, None, (10, None), subscribed_regex=".*")]
    known = {"assignments": [*kept, *gone], "members": by_regex}
    text = cause(["topics_changed"], known)
    assert text == "a subscribed topic changed: audit is no longer there"
    text = cause(["regex_resolved"], known)
    assert text.endswith("matched other topics than before: audit is no longer matched")
    unknown = "the metadata of a subscribed topic changed"
    assert cause(["topics_changed"], {"assignments": gone}).startswith(unknown), "no target after"
    assert cause(["topics_changed"], known, outcome="cut_by_gap").startswith(unknown)


def test_a_regular_expression_that_matched_another_topic() -> None:
    members = [
        member("worker-1", -3000, None, (10, None), subscribed_regex="orders.*"),
        member("worker-2", -3000, None, (11, None), subscribed_regex="orders.*"),
    ]
    new = [
        part("worker-1", n, "target", 0.01, None, (103, None), topic="orders-eu") for n in range(3)
    ]
    text = cause(["regex_resolved"], {"members": members, "assignments": [*PARTITIONS, *new]})
    assert text == (
        "the regular expression orders.* matched other topics than before: "
        "orders-eu (3 partitions) is new"
    )


def test_a_member_that_joined_with_a_regular_expression() -> None:
    new = member("worker-3", -0.1, None, (99, None), subscribed_regex="orders.*")
    text = cause(["regex_resolved"], {"members": [new]}, joined=["worker-3"])
    assert text == ("worker-3 (10.0.4.1) joined, and the regular expression orders.* was resolved")


def test_a_static_member_that_was_replaced() -> None:
    new = member("worker-3", 0, None, (100, None), member_id="id-of-new", instance_id="billing-3")
    text = cause(["static_member_replaced"], {"members": [new]}, joined=["new"])
    assert text == (
        "billing-3 (10.0.4.1, client id worker-3) replaced a static member that had the same "
        "instance id"
    )


def test_several_causes_are_several_lines() -> None:
    row = rebalance(42, ["member_joined", "topics_changed"], 0, 5, 101, joined=["worker-2"])
    assert len(texts(story(row), "cause")) == 2


@pytest.mark.parametrize(
    ("columns", "end", "expected"),
    [
        ({}, 5, "epoch 41 → 42, converged after 5 s"),
        (
            {"outcome": "superseded", "superseded_by": 43},
            9.5,
            "epoch 41 → 42, replaced by epoch 43 after 2 s; stable again after 9.5 s",
        ),
        (
            {"outcome": "superseded", "superseded_by": 43},
            None,
            "epoch 41 → 42, replaced by epoch 43 after 2 s",
        ),
        (
            {"outcome": "open"},
            None,
            "epoch 41 → 42; not converged by the last record that was read",
        ),
        (
            {"outcome": "group_deleted"},
            None,
            "epoch 41 → 42; the group was deleted before it converged",
        ),
        ({"outcome": "cut_by_gap"}, None, "epoch 41 → 42; missing records hide how it ended"),
        ({"type": "classic", "duration_ms": None}, 0, "generation 41 → 42"),
    ],
)
def test_outcomes(columns: dict[str, Any], end: float | None, expected: str) -> None:
    row = rebalance(42, ["member_joined"], 0, end, 101, **columns)
    later = rebalance(43, ["left_or_expired"], 2, 9.5, 120)
    reported = story(row, rebalances=[row, later])
    assert reported.headline == f"orders-billing rebalanced at 2026-11-20 02:14:07 UTC ({expected})"
    assert row["outcome"] in OUTCOMES


def test_a_rebalance_that_a_downgrade_ends() -> None:
    row = rebalance(42, ["member_joined"], 0, None, 101, outcome="superseded", superseded_by=42)
    down = rebalance(42, ["downgraded"], 2, 2, 120, type="classic")
    headline = story(row, rebalances=[row, down]).headline
    assert headline.endswith(
        "(epoch 41 → 42; the group went back to the classic protocol after 2 s)"
    )


def test_a_member_that_left_has_not_changed_its_subscription() -> None:
    causes = ["static_member_replaced", "subscription_changed"]
    changes = {"joined": ["worker-3"], "left": ["worker-2"]}
    triggers = ["worker-2", "worker-3"]
    row = rebalance(42, causes, 0, 5, 101, trigger_members=triggers, **changes)
    _, changed = texts(story(row), "cause")
    assert "worker-3" in changed
    assert "worker-2" not in changed


def test_moves() -> None:
    def moved(row: Row) -> list[str]:
        return texts(story(row), "moved")

    some = {"partitions_moved": 4, "minimal_moves": 4}
    assert moved(rebalance(42, ["unknown"], 0, 5, 101, **some)) == [
        "4 of 24 partitions (all necessary)"
    ]
    some = {"partitions_moved": 2, "minimal_moves": 0}
    assert moved(rebalance(42, ["unknown"], 0, 5, 101, **some)) == [
        "2 of 24 partitions (none was necessary)"
    ]
    assert moved(rebalance(42, ["unknown"], 0, 5, 101)) == ["no partition"]
    unknown = {"partitions_moved": None, "minimal_moves": None}
    assert moved(rebalance(42, ["unknown"], 0, 5, 101, **unknown)) == []


def test_a_partition_that_still_has_no_owner() -> None:
    lost = part("worker-3", 3, "assigned", -3000, 0, (12, 99))
    row = rebalance(42, ["left_or_expired"], 0, None, 101, left=["worker-3"])
    reported = story(row, assignments=[lost])
    assert texts(reported, "moved") == [
        "no partition; orders-3 has had no owner since 2026-11-20 02:14:07 UTC"
    ]


def test_what_an_earlier_group_of_the_name_owned_is_not_without_owner() -> None:
    earlier = part("worker-3", 3, "assigned", -3000, -600, (12, 90))
    first = rebalance(42, ["left_or_expired"], -900, -890, 60)
    row = rebalance(42, ["member_joined"], 0, 5, 101, joined=["worker-1"])
    reported = story(row, assignments=[earlier], rebalances=[first, row])
    assert reported.unowned == ()
    assert texts(reported, "moved") == ["no partition"]


def test_missing_records_may_hide_the_next_owner() -> None:
    lost = part("worker-3", 3, "assigned", -3000, 0, (12, 99))
    cut = group(42, 0, 60, (101, 130)) | {"known_to": at(60)}
    row = rebalance(42, ["left_or_expired"], 0, None, 101, outcome="cut_by_gap")
    reported = story(row, assignments=[lost], groups=[EPOCHS[0], cut])
    assert texts(reported, "moved") == ["no partition"]


def test_a_share_group_has_no_owners() -> None:
    lost = part("worker-3", 3, "assigned", -3000, 0, (12, 99))
    row = rebalance(42, ["left_or_expired"], 0, 5, 101, type="share", left=["worker-3"])
    assert story(row, assignments=[lost]).unowned == ()


def test_the_next_rebalance_is_mentioned_unless_it_is_told() -> None:
    row = rebalance(42, ["member_joined"], 0, 5, 101)
    later = rebalance(43, ["topics_changed"], 60, 61, 120)
    evidence = Evidence(GROUP, [row, later], EPOCHS, WORKERS, PARTITIONS)
    (alone,) = write_stories(evidence, [row])
    assert texts(alone, "then") == [
        "the next rebalance came 1 min later (epoch 43): topics changed"
    ]
    first, _ = write_stories(evidence, [row, later])
    assert texts(first, "then") == []
