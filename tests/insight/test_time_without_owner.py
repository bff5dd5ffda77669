"""The time without an owner in the table `rebalances` is the one that `kip848 explain` lists."""

from __future__ import annotations

from collections import Counter, defaultdict
from pathlib import Path

from kip848_spark.insight.phrases import between
from kip848_spark.insight.rebalances import REBALANCES
from kip848_spark.insight.story import Evidence, write_stories
from kip848_spark.state import kinds
from tests.captures import COMMITTED
from tests.conftest import DATA
from tests.insight.fold_captures import Row
from tests.insight.story_rows import GROUP, at, group, part, rebalance
from tests.insight.test_rebalances import found, last
from tests.insight.written_records import (
    Log,
    current,
    epoch,
    member,
    no_member,
    stable_group,
    target,
    target_epoch,
)
from tests.lake.replayed_lake import control_bytes, replayed_tables


def told_and_counted(capture: Path) -> list[tuple[Row, int, int]]:
    """The rebalances of consumer groups that ended, with the sum of the times that a story lists,
    and that of the table."""
    rows: dict[str, dict[tuple[int, str], list[Row]]] = {}
    for name, table in replayed_tables(control_bytes(capture)).items():
        rows[name] = defaultdict(list)
        for row in sorted(table.to_pylist(), key=lambda row: row["from_offset"]):
            rows[name][row["partition"], row["group_id"]].append(row)
    both = []
    for (partition, group_id), rebalances in rows[REBALANCES].items():
        key = partition, group_id
        evidence = Evidence(
            group_id,
            rebalances,
            rows["group_history"][key],
            rows["member_history"][key],
            rows["assignment_history"][key],
        )
        chosen = [
            row
            for row in rebalances
            if row["type"] == "consumer" and row["outcome"] not in ("open", "cut_by_gap")
        ]
        for story in write_stories(evidence, chosen):
            assert all(one.end is not None for one in story.unowned), story
            told = sum(between(one.start, one.end) for one in story.unowned if one.end)
            both.append((story.row, round(told), story.row["unowned_ms"]))
    return both


def test_the_table_and_the_story_agree() -> None:
    waits: Counter[str] = Counter()
    for name in ("moving-4.2.0", "churn-4.2.1", "upgraded-4.1.2-4.3.1-4.1.2"):
        for row, told, counted in told_and_counted(DATA / name / COMMITTED):
            assert told == counted, row
            waits[row["outcome"]] += counted > 0
    assert waits["superseded"] > 100
    assert waits["converged"] > 20


def gives_up_in_epoch_3() -> Log:
    """m1 gives up 2 and 3 at 6 s, which m3 gets at 12 s, in epoch 5; the group is stable at 13 s.
    The epochs 4 and 5 begin at 7 s and 10 s."""
    log = Log().write(
        1_000,
        member("m1"),
        epoch(2),
        target("m1", range(4)),
        target_epoch(2),
        current("m1", 2, range(4)),
    )
    log.write(5_000, member("m2"), epoch(3), target("m1", (0, 1)), target("m2", (2, 3)))
    log.write(5_500, target_epoch(3), current("m2", 3, (), state=2))
    log.write(6_000, current("m1", 2, (0, 1), (2, 3), state=1, before=2))
    log.write(7_000, member("m3"), epoch(4))
    log.write(8_000, current("m1", 3, (0, 1), before=2))
    log.write(10_000, no_member("m2"), epoch(5), target("m3", (2, 3)), target_epoch(5))
    return log.write(12_000, current("m3", 5, (2, 3)))


def test_each_of_several_rebalances_has_its_share() -> None:
    rows = found(gives_up_in_epoch_3().write(13_000, current("m1", 5, (0, 1), before=3)))
    assert [(row["epoch"], row["outcome"], row["unowned_ms"]) for row in rows] == [
        (2, "converged", 0),
        (3, "superseded", 2 * 1_000),
        (4, "superseded", 2 * 3_000),
        (5, "converged", 2 * 2_000),
    ]
    assert [row["converged_at"] for row in rows[1:]] == [13_000] * 3


def test_a_partition_that_never_had_an_owner_does_not_count() -> None:
    log = stable_group().write(9_000, member("m1", ("a", "b")), epoch(3))
    log.write(9_400, target("m1", (0, 1, 8)), target_epoch(3))
    log.write(9_700, current("m2", 3, (2, 3), before=2))
    row = last(log.write(10_000, current("m1", 3, (0, 1, 8), before=2)))
    assert (row["outcome"], row["duration_ms"], row["unowned_ms"]) == ("converged", 1_000, 0)


def test_a_partition_of_a_deleted_topic_counts_until_the_rebalance_ends() -> None:
    log = stable_group().write(9_000, epoch(3, hash_=2), target("m1", (0,)), target_epoch(3))
    log.write(9_300, current("m1", 2, (0,), (1,), state=1, before=2))
    log.write(9_600, current("m1", 3, (0,), before=2))
    row = last(log.write(10_000, current("m2", 3, (2, 3), before=2)))
    assert (row["causes"], row["outcome"], row["unowned_ms"]) == (
        ["topics_changed"],
        "converged",
        700,
    )


def test_a_topic_that_was_deleted_and_created_again_is_another_one() -> None:
    log = stable_group().write(9_000, epoch(3, hash_=2), target_epoch(3))
    log.write(9_300, current("m1", 2, (), (0, 1), state=1, before=2))
    anew = current("m1", 3, (0, 1), before=2)
    anew[kinds.CURRENT]["assigned_partitions"][0]["topic_id"] = "topic-a created again"
    log.write(9_600, anew)
    row = last(log.write(10_000, current("m2", 3, (2, 3), before=2)))
    assert row["unowned_ms"] == 2 * 700

    row = rebalance(42, ["topics_changed"], 0, 5, 101)
    before = part("worker-3", 3, "assigned", -3000, 1, (12, 105))
    after = part("worker-3", 3, "assigned", 2, None, (108, None)) | {"topic_id": "another id"}
    (story,) = write_stories(Evidence(GROUP, [row], (), (), [before, after]), [row])
    assert [(one.start, one.end) for one in story.unowned] == [(at(1), at(5))]


def test_what_was_lost_before_the_episode_does_not_count() -> None:
    log = stable_group().write(9_000, member("m1", ("b",)), epoch(3))
    log.write(9_200, target("m1", (1,)), target_epoch(3))
    log.write(9_300, current("m1", 3, (1,), before=2), current("m2", 3, (2, 3), before=2))
    log.write(20_000, member("m1", ("a",)), epoch(4), target("m1", (0, 1)), target_epoch(4))
    log.write(21_000, current("m1", 4, (0, 1), before=3), current("m2", 4, (2, 3), before=3))
    *_, third, fourth = found(log)
    assert (third["outcome"], third["unowned_ms"]) == ("converged", 0)
    assert (fourth["outcome"], fourth["unowned_ms"]) == ("converged", 0)


def test_the_time_ends_when_the_group_is_deleted() -> None:
    row = rebalance(42, ["member_joined"], 0, None, 101, outcome="group_deleted", to_offset=130)
    lost = part("worker-3", 3, "assigned", -3000, 2, (12, 110))
    groups = [group(42, 0, 60, (101, 130))]
    evidence = Evidence(GROUP, [row], groups, (), [lost])
    ((one,),) = (story.unowned for story in write_stories(evidence, [row]))
    assert (one.start, one.end) == (at(2), at(60))


def test_a_classic_group_before_the_rebalance_does_not_count() -> None:
    """Its rows name topics, those of a consumer group have ids, which the lake may not know."""
    row = rebalance(42, ["upgraded"], 0, 5, 101)
    before = part("worker-3", 3, "assigned", -3000, 0, (12, 101)) | {"topic_id": None}
    after = part("worker-3", 3, "assigned", 0, None, (101, None)) | {"topic": None}
    (story,) = write_stories(Evidence(GROUP, [row], (), (), [before, after]), [row])
    assert story.unowned == ()
