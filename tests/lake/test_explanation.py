"""What a lake says about rebalances, events and owners, through the Python API."""

from __future__ import annotations

from pathlib import Path

import pytest

from kip848_spark import Lake
from kip848_spark.errors import LakeError, NotFoundError
from kip848_spark.lake.explanation import most_eventful
from kip848_spark.lake.ledger import LAKE
from kip848_spark.lake.rebalances import patterns_of, read_rebalances
from tests.insight.story_rows import GROUP, at, group, member, part, rebalance
from tests.lake.billing_lake import (
    ASSIGNMENTS,
    BACK,
    HOST,
    REBALANCES,
    write_billing_lake,
)
from tests.lake.written_lake import write_lake, write_run


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Lake:
    return Lake(write_billing_lake(tmp_path_factory.mktemp("explained") / "lake"))


def test_the_evidence_is_read_from_the_lake(lake: Lake) -> None:
    reported = lake.explain(GROUP, epoch=42)
    (row,) = reported["rebalances"]
    assert row["headline"].endswith("(epoch 41 → 42, converged after 38.2 s)")
    assert row["from_offset"] == 101
    (gone,) = row["departures"]
    assert gone["last_commit_at"] == at(-44.9)
    assert gone["usual_commit_interval_ms"] == 5000
    assert (gone["likely"], gone["session_timeout_assumed"]) == ("expired", True)
    assert row["given_up"] == [
        {"topic": "orders", "topic_partition": 7},
        {"topic": "orders", "topic_partition": 9},
    ]
    lost = {one["topic_partition"]: one["ms"] for one in row["without_owner"]}
    assert lost == {3: pytest.approx(38_200), 7: pytest.approx(38_100), 9: pytest.approx(38_100)}
    labels = [line["label"] for line in row["lines"]]
    assert labels == ["cause", "waited", "moved", "then"]
    assert row["lines"][-1]["text"] == "worker-3 came back at 02:15:31 (epoch 43)"


def test_which_rebalances_are_explained(lake: Lake) -> None:
    def epochs(**window: str) -> list[int]:
        return [row["epoch"] for row in lake.explain(GROUP, **window)["rebalances"]]

    assert epochs() == [43], "the last episode"
    assert epochs(since="2026-11-20T02:00") == [42, 43]
    assert epochs(until="2026-11-20T02:15") == [42]
    assert epochs(since="2026-11-20T03:00") == []
    assert lake.explain("reports")["rebalances"] == []
    with pytest.raises(NotFoundError, match="no rebalance of orders-billing to epoch 99") as raised:
        lake.explain(GROUP, epoch=99)
    assert raised.value.hint == "It has rebalances to epochs 42-43."
    with pytest.raises(NotFoundError, match="no group order-biling") as raised:
        lake.explain("order-biling")
    assert raised.value.hint == "Did you mean orders-billing?"


def test_an_episode_is_explained_as_a_whole(tmp_path: Path) -> None:
    first, second = (row | {"episode_id": "12-101"} for row in REBALANCES)
    earlier = rebalance(40, ["unknown"], -500, -499, 60)
    write_lake(
        tmp_path / "lake",
        {"groups": [group(43, 84, None, (121, None))], "rebalances": [second, earlier, first]},
    )
    reported = Lake(tmp_path / "lake").explain(GROUP)
    assert [row["epoch"] for row in reported["rebalances"]] == [42, 43]


def test_a_run_that_reads_no_source_makes_nothing_known(tmp_path: Path) -> None:
    """Such as one of `maintain`: what happened after the last run on the topic is not known."""
    path = write_billing_lake(tmp_path / "lake")
    before = Lake(path).explain(GROUP)["through"]
    write_run(path, {}, finished_at=at(200_000), source=LAKE)
    assert Lake(path).explain(GROUP)["through"] == before < at(200_000)


def test_rebalances_between_times(lake: Lake) -> None:
    assert lake.rebalances()["epoch"].to_pylist() == [42, 43]
    assert lake.rebalances([GROUP], since=at(1))["epoch"].to_pylist() == [43]
    assert lake.rebalances(until=at(84))["epoch"].to_pylist() == [42]
    assert lake.rebalances(["reports"]).num_rows == 0


def test_what_happened_in_a_group(lake: Lake) -> None:
    found = lake.history(GROUP, since=at(-1))
    seen = [
        (
            (row["at"] - at(0)).total_seconds(),
            row["epoch"],
            row["event"],
            row["name"],
            [place["topic_partition"] for place in row["partitions"]],
        )
        for row in found
    ]
    assert seen == [
        (-1, 41, "present", "worker-1", [7, 9]),
        (-1, 41, "present", "worker-2", []),
        (-1, 41, "present", "worker-3", [3]),
        (0, 42, "gave_up", "worker-3", [3]),
        (0, 42, "gone", "worker-3", []),
        (0, 42, "epoch", None, []),
        (0.1, 42, "must_give_up", "worker-1", [7, 9]),
        (38.2, 42, "got", "worker-1", [3]),
        (38.2, 42, "gave_up", "worker-1", [7, 9]),
        (38.2, 42, "got", "worker-2", [7, 9]),
        (84, 43, "joined", "worker-3", []),
        (84, 43, "epoch", None, []),
    ]
    assert lake.history("old-group")[-1]["event"] == "deleted"
    with pytest.raises(NotFoundError, match="no group nobody"):
        lake.history("nobody")


def test_a_conversion_is_no_end_of_the_group(tmp_path: Path) -> None:
    """The coordinator deletes the classic group and its members in the operation that creates the
    consumer group; between these records, the group did not exist for 0 ms."""
    rows = [
        group(7, -100, 0, (5, 10), type="classic"),
        group(7, 0, 0, (11, 12), state="Empty", members=0),
        group(8, 0, None, (12, None)),
    ]
    members = [
        member("worker-1", -100, 0, (5, 10), is_classic=True),
        member("worker-1", 0, None, (13, None)),
    ]
    tables = {"groups": rows[-1:], "group_history": rows, "member_history": members}
    write_lake(tmp_path / "lake", tables)
    found = Lake(tmp_path / "lake").history(GROUP)
    assert [row["event"] for row in found] == ["created", "joined", "epoch"]


def test_the_owners_of_a_partition(lake: Lake) -> None:
    found = lake.owners("orders", 7)
    assert [(row["name"], row["giving_up"], row["from"], row["to"]) for row in found] == [
        ("worker-1", False, at(-3000), at(0.1)),
        ("worker-1", True, at(0.1), at(38.2)),
        ("worker-2", False, at(38.2), None),
    ]
    found = lake.owners("orders", 3)
    assert [(row["name"], row["from"], row["to"]) for row in found] == [
        ("worker-3", at(-3000), at(0)),
        (None, at(0), at(38.2)),
        ("worker-1", at(38.2), None),
    ]
    assert [row["name"] for row in lake.owners("orders", 3, until=at(0))] == ["worker-3"]
    with pytest.raises(NotFoundError, match="No group ever owned orders-99") as raised:
        lake.owners("orders", 99)
    assert raised.value.hint == "The largest partition of orders that was ever assigned is 23."
    with pytest.raises(NotFoundError, match="a topic order") as raised:
        lake.owners("order", 3)
    assert raised.value.hint == "Did you mean orders?"


def test_several_members_of_a_share_group_own_a_partition(tmp_path: Path) -> None:
    rows = [
        part("worker-1", 0, "assigned", -100, 50, (1, 5)),
        part("worker-2", 0, "assigned", -50, None, (2, None)),
    ]
    tables = {"groups": [group(1, -100, None, (1, None))], "assignment_history": rows}
    write_lake(tmp_path / "lake", tables)
    found = Lake(tmp_path / "lake").owners("orders", 0)
    assert [row["member_id"] for row in found] == ["id-of-worker-1", "id-of-worker-2"]


def test_a_topic_that_records_name_by_its_id_only(tmp_path: Path) -> None:
    rows = [row | {"topic": None} for row in ASSIGNMENTS]
    topics = [{"topic": "orders", "topic_id": "id of orders", "partitions": 24}]
    tables = {"groups": [group(1, -100, None, (1, None))], "assignment_history": rows}
    write_lake(tmp_path / "lake", {**tables, "topics": topics})
    found = Lake(tmp_path / "lake").owners("orders", 7)
    assert [row["member_id"] for row in found][-1] == "id-of-worker-2"


def test_nothing_is_claimed_between_two_known_times(tmp_path: Path) -> None:
    rows = [
        part("worker-1", 0, "assigned", -100, 0, (1, 5)),
        part("worker-2", 0, "assigned", 60, None, (50, None)) | {"known_from": at(60)},
    ]
    groups = [
        group(1, -100, 0, (1, 5)) | {"known_to": at(0)},
        group(1, 60, None, (50, None)) | {"known_from": at(60)},
    ]
    tables = {"groups": groups[1:], "group_history": groups, "assignment_history": rows}
    write_lake(tmp_path / "lake", tables)
    found = Lake(tmp_path / "lake").owners("orders", 0)
    assert [row["member_id"] for row in found] == ["id-of-worker-1", "id-of-worker-2"]


def test_a_lake_of_an_earlier_version_says_what_is_missing(tmp_path: Path) -> None:
    history = ("group_history", "member_history", "assignment_history", "rebalances")
    lake = Lake(write_billing_lake(tmp_path / "lake", without=history))
    for ask in (
        lake.rebalances,
        lambda: lake.explain(GROUP),
        lambda: lake.history(GROUP),
        lambda: lake.owners("orders", 3),
    ):
        with pytest.raises(LakeError) as raised:
            ask()
        assert "run" in (raised.value.hint or "")


def test_a_returned_client_has_its_name(lake: Lake) -> None:
    (row,) = lake.explain(GROUP, epoch=43)["rebalances"]
    (back,) = row["member_names"]
    assert back == {
        "member_id": BACK,
        "name": "worker-3",
        "instance_id": None,
        "client_id": "worker-3",
        "host": "10.0.4.17",
    }


def test_the_most_eventful_rebalance_has_the_longest_wait(tmp_path: Path) -> None:
    path = write_billing_lake(tmp_path / "lake")
    assert most_eventful(Lake(path).snapshot()) == (GROUP, 42)
    write_lake(tmp_path / "empty", {})
    assert most_eventful(Lake(tmp_path / "empty").snapshot()) is None


def test_a_loss_earlier_in_the_episode_counts(tmp_path: Path) -> None:
    """orders-3 lost its owner in the first rebalance of the episode; the second one is explained
    alone."""
    first, second = (row | {"episode_id": "12-101"} for row in REBALANCES)
    first |= {"outcome": "superseded", "superseded_by": 43}
    lost = part("worker-3", 3, "assigned", -3000, 0, (12, 99))
    found = part("worker-1", 3, "assigned", 84.3, None, (125, None))
    groups = [group(42, 0, 84, (101, 121)), group(43, 84, None, (121, None))]
    tables = {"groups": groups[1:], "group_history": groups, "rebalances": [first, second]}
    write_lake(tmp_path / "lake", {**tables, "assignment_history": [lost, found]})
    (row,) = Lake(tmp_path / "lake").explain(GROUP, epoch=43)["rebalances"]
    assert [(one["topic_partition"], one["ms"]) for one in row["without_owner"]] == [
        (3, pytest.approx(300))
    ]


def test_patterns_are_part_of_the_story(tmp_path: Path) -> None:
    """worker-3 comes back for the third time within the hour."""
    rows, members = [], []
    for number in range(4):
        start, offset, name = 300.0 * number, 10 * number, f"id-{number}"
        members.append(
            member("worker-3", start, start + 100, (offset, offset + 5), member_id=name, **HOST)
        )
        joined = rebalance(2 * number + 1, ["member_joined"], start, start + 1, offset)
        left = rebalance(2 * number + 2, ["left_or_expired"], start + 100, start + 101, offset + 5)
        rows += [joined | {"joined": [name]}, left | {"left": [name]}]
    groups = [group(8, 0, None, (0, None))]
    tables = {"groups": groups, "group_history": groups, "member_history": members}
    write_lake(tmp_path / "lake", {**tables, "rebalances": rows})
    reported = Lake(tmp_path / "lake").explain(GROUP, epoch=6)
    assert "restart_loop" in [row["pattern"] for row in reported["patterns"]]
    then = [line["text"] for line in reported["rebalances"][0]["lines"] if line["label"] == "then"]
    assert then == [
        "worker-3 came back at 02:29:07 (epoch 7): the third time in an hour: restart loop"
    ]


def test_a_rebalance_has_the_same_patterns_in_every_time_range(tmp_path: Path) -> None:
    """Three members are replaced one after the other, and then again: more often than a rolling
    restart does. The second half alone would look like one."""
    rows = []
    for epoch in range(1, 13):
        number = (epoch - 1) // 2
        change = {"left": [f"w{number}"]} if epoch % 2 else {"joined": [f"w{number + 3}"]}
        begin = 40.0 * epoch
        rows.append(rebalance(epoch, [], begin, begin + 5, 10 * epoch, **change))
    members = [member(f"w{number}", 0, None, (0, None)) for number in range(9)]
    path = tmp_path / "lake"
    write_lake(path, {"rebalances": rows, "member_history": members})
    snapshot = Lake(path).snapshot()
    whole = patterns_of(snapshot, read_rebalances(snapshot))
    assert [row["pattern"] for row in whole] == ["storm"]
    late = read_rebalances(snapshot, since=at(40.0 * 7))
    assert len(late) == 6
    assert patterns_of(snapshot, late) == whole
