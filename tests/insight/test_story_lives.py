"""Stories of rebalances at the beginning of a group's life."""

from __future__ import annotations

from tests.insight.story_rows import at, group, part, rebalance
from tests.insight.test_story import story, texts


def test_the_first_epoch_has_none_before_it() -> None:
    row = rebalance(1, ["member_joined"], 0, 5, 101)
    assert "(epoch 1, " in story(row, groups=[group(1, 0, None, (101, None))]).headline


def test_a_group_that_had_only_committed_offsets_has_no_epoch_before() -> None:
    commits = group(0, -30, 0, (40, 101), type="classic", state="Empty", members=0)
    groups = [commits | {"epoch": None}, group(1, 0, None, (101, None))]
    row = rebalance(1, ["member_joined"], 0, 5, 101, joined=["worker-1"])
    assert "(epoch 1, " in story(row, groups=groups).headline


def test_a_group_that_was_deleted_begins_anew() -> None:
    """The epoch before is never one of the deleted group."""
    groups = [
        group(40, -3000, -60, (13, 80)),
        group(41, -60, -30, (80, 90), state="Empty", members=0),
        group(1, 0, 0, (99, 101)),
        group(2, 0, 20, (101, 120)),
        group(3, 20, None, (120, None)),
    ]
    old = rebalance(41, ["left_or_expired"], -60, -60, 80)
    first = rebalance(2, ["member_joined"], 0, 5, 101, joined=["worker-1"])
    second = rebalance(3, ["member_joined"], 20, 21, 120, joined=["worker-2"])
    told = [story(row, groups=groups, rebalances=[old, first, second]) for row in (first, second)]
    assert [one.headline.split("UTC ")[1] for one in told] == [
        "(epoch 2, converged after 5 s)",
        "(epoch 2 → 3, converged after 1 s)",
    ]
    assert [texts(one, "cause") for one in told] == [
        ["worker-1 (10.0.4.11) joined", "the group is new: it had been deleted at 02:13:37"],
        ["worker-2 (10.0.4.12) joined"],
    ]
    hidden = [groups[0], groups[1] | {"known_to": at(-30)}, *groups[2:]]
    (line,) = texts(story(first, groups=hidden, rebalances=[old, first]), "cause")
    assert line == "worker-1 (10.0.4.11) joined", "records are missing: it may not be new"


def test_an_empty_group_may_restart_at_its_first_epoch() -> None:
    groups = [group(9, -3000, 0, (13, 101), state="Empty"), group(1, 0, None, (101, None))]
    row = rebalance(1, ["member_joined"], 0, 5, 101)
    assert "(epoch 1, " in story(row, groups=groups).headline


def test_a_group_that_migrates_keeps_its_epoch() -> None:
    """No epoch of the time before the last migration is the one before."""
    groups = [
        group(0, -90, -60, (80, 90), type="classic", state="Empty", members=0),
        group(2, -60, 0, (90, 101), type="classic"),
        group(2, 0, 60, (101, 120)),
        group(2, 60, None, (120, None), type="classic"),
    ]
    up = rebalance(2, ["upgraded"], 0, 0, 101)
    down = rebalance(2, ["downgraded"], 60, 60, 120, type="classic", left=["worker-3"])
    back = rebalance(3, ["member_joined"], 70, 70, 130, type="classic", joined=["worker-3"])
    told = [story(row, groups=groups, rebalances=[up, down, back]) for row in (up, down)]
    assert [one.headline.split("UTC ")[1] for one in told] == [
        "(epoch 2, converged at once)",
        "(generation 2)",
    ]
    assert texts(told[1], "then") == ["worker-3 came back at 02:15:17 (generation 3)"]


def test_a_share_group_whose_partitions_were_initialized() -> None:
    """With the same metadata hash, no topic has changed."""
    groups = [
        group(2, -5, 0, (90, 101), type="share", metadata_hash=7),
        group(3, 0, None, (101, None), type="share", metadata_hash=7),
    ]
    targets = [part("worker-1", n, "target", 0.01, None, (103, None)) for n in range(4)]
    row = rebalance(3, ["topics_changed"], 0, 1, 101, type="share")
    (cause,) = texts(story(row, groups=groups, assignments=targets), "cause")
    assert cause == (
        "the share state of orders (4 partitions) was initialized, so that they can be assigned"
    )
    (cause,) = texts(story(row, groups=groups, assignments=[]), "cause")
    assert cause == "partitions whose share state is initialized were not assigned yet"
    other = [groups[0] | {"metadata_hash": 8}, groups[1]]
    (cause,) = texts(story(row, groups=other, assignments=targets), "cause")
    assert cause == "a subscribed topic changed: orders (4 partitions) is new"
