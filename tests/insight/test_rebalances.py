"""Rebalances in logs that are written by hand, one for each cause and outcome."""

from __future__ import annotations

from typing import Any

import pytest

from kip848_spark.state import kinds
from tests.insight.fold_captures import fold
from tests.insight.written_records import (
    PARTITION,
    SCHEMA,
    Log,
    classic,
    current,
    epoch,
    member,
    no_member,
    record,
    regex,
    stable_group,
    target,
    target_epoch,
)

Row = dict[str, Any]


def found(log: Log) -> list[Row]:
    """The rows, with times in ms. The operation at the end of a log may be incomplete, so another
    group's record follows."""
    follows = Log([*log.rows], log.offset).write(10**9, member("x", group="another"))
    rows = fold(follows.table()).to_pylist()
    for row in rows:
        for name in ("started_at", "converged_at"):
            row[name] = None if row[name] is None else round(row[name].timestamp() * 1_000)
    return rows


def last(log: Log) -> Row:
    return found(log)[-1]


def settle(log: Log, at: int, number: int) -> Log:
    """Both members reach epoch ``number``."""
    return log.write(at, target_epoch(number), current("m1", number, (0, 1))).write(
        at + 500, current("m2", number, (2, 3))
    )


def test_a_join_and_who_was_waited_for() -> None:
    first, second = found(stable_group())
    assert (first["epoch"], first["started_at"], first["converged_at"]) == (1, 1_000, 1_000)
    assert (first["partitions_moved"], first["unowned_ms"]) == (0, 0)
    assert second["causes"] == ["member_joined"]
    assert second["joined"] == second["trigger_members"] == ["m2"]
    assert (second["started_at"], second["converged_at"]) == (2_000, 4_000)
    assert (second["duration_ms"], second["members"]) == (2_000, 2)
    assert (second["partitions_moved"], second["minimal_moves"], second["revoked"]) == (2, 2, 2)
    assert second["blocked_members"] == ["m2"]
    assert (second["slowest_member"], second["slowest_ms"]) == ("m1", 1_000)
    assert second["unowned_ms"] == 2 * 1_500, "two partitions from 2.5 s to 4 s"
    assert (second["outcome"], second["complete"], second["superseded_by"]) == (
        "converged",
        True,
        None,
    )
    assert second["episode_id"] == f"{PARTITION}-{second['from_offset']}"
    assert second["from_offset"] in second["evidence"]
    assert second["to_offset"] == second["evidence"][-1]


def test_a_first_epoch_of_two_as_in_4_3() -> None:
    assert [row["epoch"] for row in found(stable_group(2))] == [2, 3]


def test_a_member_that_is_gone() -> None:
    log = stable_group().write(9_000, no_member("m2"), epoch(3))
    row = last(log)
    assert (row["causes"], row["left"], row["likely"]) == (["left_or_expired"], ["m2"], None)
    assert (row["outcome"], row["to_offset"], row["complete"]) == ("open", None, False)
    log.write(9_500, target("m1", range(4)), target_epoch(3), current("m1", 3, range(4)))
    log.write(9_900, epoch(3))  # says nothing new
    row = last(log)
    assert (row["outcome"], row["duration_ms"], row["unowned_ms"]) == ("converged", 500, 1_000)
    assert (row["partitions_moved"], row["minimal_moves"], row["revoked"]) == (2, 2, 0)


def test_the_last_member_that_is_gone_leaves_nothing_to_do() -> None:
    log = Log().write(
        1_000, member("m1"), epoch(1), target("m1", ()), target_epoch(1), current("m1", 1, ())
    )
    row = last(log.write(2_000, no_member("m1"), epoch(2)))
    assert (row["converged_at"], row["members"], row["partitions_moved"]) == (2_000, 0, 0)


@pytest.mark.parametrize(
    ("after", "cause"),
    [
        (60_000, "rebalance_timeout"),
        (60_300, "rebalance_timeout"),
        (45_000, "left_or_expired"),
        (70_000, "left_or_expired"),
    ],
)
def test_a_member_that_did_not_revoke_in_time(after: int, cause: str) -> None:
    log = stable_group().write(
        10_000,
        member("m3"),
        epoch(3),
        target("m2", (2,)),
        target("m3", (3,)),
        target_epoch(3),
        current("m3", 3, (), state=2),
    )
    log.write(11_000, current("m1", 3, (0, 1)))
    log.write(12_000, current("m2", 2, (2,), (3,), state=1, before=2))
    row = last(log.write(12_000 + after, no_member("m2"), epoch(4)))
    assert row["causes"] == [cause]
    before = found(log)[-2]
    assert (before["outcome"], before["superseded_by"]) == ("superseded", 4)
    assert (before["slowest_member"], before["slowest_ms"]) == ("m2", after)
    assert before["episode_id"] == row["episode_id"]


def test_a_static_member_that_did_not_come_back_had_expired() -> None:
    log = stable_group().write(5_000, current("m2", -2, (2, 3), before=2))
    assert len(found(log)) == 2, "a static leave is no rebalance"
    row = last(log.write(50_000, no_member("m2"), epoch(3)))
    assert (row["causes"], row["likely"]) == (["left_or_expired"], "expired")


def test_members_that_are_gone_for_different_reasons_have_no_likely_one() -> None:
    """The other member's commits would tell, which only `kip848 explain` reads."""
    log = stable_group().write(5_000, current("m2", -2, (2, 3), before=2))
    row = last(log.write(50_000, no_member("m1"), no_member("m2"), epoch(3)))
    assert (row["causes"], row["likely"]) == (["left_or_expired"], None)


@pytest.mark.parametrize(
    ("change", "cause"),
    [
        ([member("m1", ("a", "b"))], "subscription_changed"),
        ([member("m1", subscribed_topic_regex="a.*")], "subscription_changed"),
        ([member("m1", server_assignor="range")], "assignor_changed"),
        ([regex("a.*", ("a", "b"))], "regex_resolved"),
        ([record(kinds.PARTITIONS, {"topics": []})], "topics_changed"),
        ([], "unknown"),
        ([member("m1", rack_id="r2")], "unknown"),
    ],
)
def test_causes_without_members_that_come_or_go(change: list[Row], cause: str) -> None:
    row = last(stable_group().write(9_000, *change, epoch(3)))
    assert row["causes"] == [cause]
    changed = {one.get("member_id") for one in change} - {None} if cause != "unknown" else set()
    assert set(row["trigger_members"]) == changed


def test_the_order_of_topics_does_not_matter() -> None:
    log = stable_group().write(9_000, member("m1", ("a", "b")), epoch(3))
    row = last(log.write(9_500, member("m1", ("b", "a")), epoch(4, hash_=2)))
    assert row["causes"] == ["topics_changed"]


def test_topics_that_changed() -> None:
    assert last(stable_group().write(9_000, epoch(3, hash_=2)))["causes"] == ["topics_changed"]


def test_a_static_member_that_was_replaced() -> None:
    log = Log().write(
        1_000,
        member("m1", instance_id="i"),
        epoch(1),
        target("m1", (0,)),
        target_epoch(1),
        current("m1", 1, (0,)),
    )
    row = last(
        log.write(
            5_000,
            no_member("m1"),
            member("m9", instance_id="i"),
            target("m9", (0,)),
            current("m9", 0, (0,)),
            member("m9", ("a", "b"), instance_id="i"),
            epoch(2),
            target("m9", (0, 1)),
            target_epoch(2),
            current("m9", 2, (0, 1)),
        )
    )
    assert row["causes"] == ["static_member_replaced", "subscription_changed"]
    assert (row["joined"], row["left"]) == (["m9"], ["m1"])
    assert (row["partitions_moved"], row["unowned_ms"]) == (0, 0)


def test_a_group_that_is_deleted_and_made_again_begins_at_the_first_epoch() -> None:
    log = stable_group().write(9_000, epoch(3, hash_=2))
    ends = [*no_member("m1"), *no_member("m2")]
    by_kind = sorted(ends, key=lambda one: kinds.MEMBER in one["kind"])
    log.write(10_000, by_kind[:4], target_epoch(None), by_kind[4:], epoch(None))
    row = last(log)
    assert (row["outcome"], row["converged_at"], row["complete"]) == ("group_deleted", None, True)
    assert row["to_offset"] is not None
    again = stable_group()
    for one in again.rows:
        log.rows.append(one | {"offset": log.offset + one["offset"]})
    assert [row["epoch"] for row in found(log)] == [1, 2, 3, 1, 2]
    assert found(log)[-2]["causes"] == ["member_joined"]


def test_an_epoch_that_starts_again_without_a_tombstone() -> None:
    log = Log().write(
        1_000, member("m1"), epoch(7), target("m1", ()), target_epoch(7), current("m1", 7, ())
    )
    log.write(2_000, no_member("m1"), epoch(8))
    log.write(
        3_000, member("m2"), epoch(2), target("m2", (0,)), target_epoch(2), current("m2", 2, (0,))
    )
    row = last(log)
    assert (row["epoch"], row["causes"], row["outcome"]) == (2, ["member_joined"], "converged")


def test_a_member_that_joins_with_a_regular_expression() -> None:
    """The epoch rises when the expression is resolved, after the operation of the join. As in the
    log of a broker of 4.2.2."""
    by_regex = member("m9", (), subscribed_topic_regex="a.*")
    log = stable_group().write(9_000, by_regex, current("m9", 2, ()))
    assert last(log)["epoch"] == 2
    log.write(9_005, regex("a.*", ["a"]), epoch(3))
    log.write(9_100, target("m1", (0,)), target("m9", (1,)), target_epoch(3))
    row = last(log)
    assert (row["causes"], row["joined"], row["left"]) == (["regex_resolved"], ["m9"], [])

    log.write(9_500, current("m1", 3, (0,), before=2), current("m9", 3, (1,), before=2))
    log.write(9_900, current("m2", 3, (2, 3), before=2))
    log.write(20_000, regex("a.*", ["a", "ab"]), epoch(4))
    row = last(log)
    assert (row["epoch"], row["causes"], row["joined"]) == (4, ["regex_resolved"], [])


def test_a_member_with_a_regular_expression_that_raises_the_epoch_is_named_once() -> None:
    by_regex = member("m9", (), subscribed_topic_regex="a.*")
    log = stable_group().write(9_000, by_regex, epoch(3), current("m9", 3, ()))
    log.write(9_005, regex("a.*", ["a"]), epoch(4))
    *_, joined, resolved = found(log)
    assert (joined["epoch"], joined["causes"], joined["joined"]) == (3, ["member_joined"], ["m9"])
    assert (resolved["epoch"], resolved["joined"]) == (4, [])


def test_a_member_that_takes_another_regular_expression() -> None:
    """As in the log of a broker of 4.4.0: the epoch rises when the expression is resolved."""
    log = stable_group().write(9_000, member("m1", (), subscribed_topic_regex="a.*"), epoch(3))
    log.write(9_005, regex("a.*", ["a"]), epoch(4))
    assert last(log)["causes"] == ["regex_resolved"]
    log.write(20_000, member("m1", (), subscribed_topic_regex="b"), current("m1", 4, (), before=3))
    log.write(22_000, regex("a.*", ["a", "ab"]), regex("b", ["b"]), epoch(5))
    row = last(log)
    assert row["causes"] == ["regex_resolved", "subscription_changed"]
    assert (row["trigger_members"], row["joined"]) == (["m1"], [])

    log.write(30_000, member("m1", (), subscribed_topic_regex="b", rack_id="r"))
    log.write(32_000, regex("b", ["b", "b2"]), epoch(6))
    row = last(log)
    assert (row["causes"], row["trigger_members"]) == (["regex_resolved"], [])
    log.write(40_000, member("m1", (), subscribed_topic_regex="c"), regex("b", None))
    log.write(41_000, no_member("m1"))
    assert last(log.write(42_000, regex("c", ["c"]), epoch(7)))["trigger_members"] == []


def test_a_member_that_is_gone_before_its_expression_is_resolved() -> None:
    by_regex = member("m9", (), subscribed_topic_regex="a.*")
    log = stable_group().write(9_000, by_regex, current("m9", 2, ()))
    log.write(9_003, no_member("m9"))
    log.write(9_005, regex("a.*", ["a"]), epoch(3))
    assert last(log)["joined"] == []


@pytest.mark.parametrize(
    ("members", "causes", "counts"),
    [
        ({"a": (0, 1), "b": (2,), "c": (3,)}, ["member_joined"], (1, 1, 1)),
        ({"a": (0, 1, 2, 3)}, ["left_or_expired"], (2, 2, 0)),
        ({"a": (0, 1), "d": (2, 3)}, ["left_or_expired", "member_joined"], (2, 2, 0)),
        ({"a": (2, 3), "b": (0, 1)}, ["rejoined"], (4, 0, 4)),
        ({}, ["left_or_expired"], (0, 0, 0)),
    ],
)
def test_generations_of_a_classic_group(
    members: dict[str, tuple[int, ...]], causes: list[str], counts: tuple[int, int, int]
) -> None:
    log = Log().write(1_000, classic(0, {}, protocol_type=""))
    log.write(4_000, classic(1, {"a": {"partitions": (0, 1)}, "b": {"partitions": (2, 3)}}))
    log.write(9_000, classic(3, {one: {"partitions": own} for one, own in members.items()}))
    first, row = found(log)
    assert first["causes"] == ["member_joined"]
    assert (row["epoch"], row["started_at"], row["converged_at"]) == (3, 9_000, 9_000)
    assert (row["duration_ms"], row["unowned_ms"], row["members"]) == (None, None, len(members))
    assert row["causes"] == causes
    assert (row["partitions_moved"], row["minimal_moves"], row["revoked"]) == counts
    assert row["outcome"] == "converged"
    assert row["to_offset"] == row["from_offset"]


def test_static_members_and_subscriptions_of_a_classic_group() -> None:
    log = Log().write(1_000, classic(1, {"a": {"partitions": (0,), "instance": "i"}}))
    log.write(2_000, classic(1, {"b": {"partitions": (0,), "instance": "i"}}))
    assert len(found(log)) == 1, "a repeated generation is no rebalance"
    row = last(log.write(3_000, classic(2, {"c": {"partitions": (0,), "instance": "i"}})))
    assert (row["causes"], row["partitions_moved"]) == (["static_member_replaced"], 0)
    more = {"c": {"partitions": (0,), "instance": "i", "topics": ("a", "b")}}
    assert last(log.write(4_000, classic(3, more)))["causes"] == ["subscription_changed"]
    assert last(log.write(5_000, classic(4, more, protocol="sticky")))["causes"] == [
        "assignor_changed"
    ]


def test_a_gap_cuts_a_rebalance_and_what_follows_is_not_complete() -> None:
    log = stable_group().write(9_000, no_member("m2"), epoch(3)).gap()
    row = last(log)
    assert (row["outcome"], row["complete"], row["converged_at"]) == ("cut_by_gap", False, None)
    assert row["to_offset"] == log.rows[-1]["offset"]
    log.write(20_000, member("m3"), epoch(9), current("m3", 9, ()))
    row = last(log)
    assert (row["epoch"], row["complete"]) == (9, False)
    log.write(21_000, target_epoch(9), current("m1", 9, (0, 1)))
    assert last(log)["outcome"] == "converged"
    assert not last(log)["complete"], "it began before a key was seen twice"
    log.write(22_000, epoch(10, hash_=5))
    log.write(23_000, target_epoch(10), current("m1", 10, (0, 1)), current("m3", 10, ()))
    assert last(log)["complete"]


def test_the_first_records_after_a_gap_have_no_cause_that_nobody_saw() -> None:
    log = Log().gap().write(1_000, member("m1"), epoch(5))
    row = last(log)
    assert (row["causes"], row["complete"]) == (["unknown"], False)


def test_two_operations_of_one_millisecond_are_two_operations() -> None:
    log = stable_group()
    log.write(9_000, no_member("m2"), epoch(3), member("m3"), epoch(4))
    *_, left, joined = found(log)
    assert (left["causes"], left["joined"]) == (["left_or_expired"], [])
    assert (joined["causes"], joined["left"]) == (["member_joined"], [])


def test_several_members_that_leave_at_once_are_one_rebalance() -> None:
    row = last(stable_group().write(9_000, no_member("m1"), no_member("m2"), epoch(3)))
    assert (row["left"], row["members"], row["outcome"]) == (["m1", "m2"], 0, "converged")


def test_time_does_not_go_backwards() -> None:
    log = stable_group().write(1_500, no_member("m2"), epoch(3))
    log.write(4_700, target("m1", range(4)), target_epoch(3), current("m1", 3, range(4)))
    row = last(log)
    assert (row["started_at"], row["converged_at"], row["unowned_ms"]) == (4_000, 4_700, 1_400)


def test_nothing_comes_of_nothing() -> None:
    assert fold(SCHEMA.empty_table()).num_rows == 0
