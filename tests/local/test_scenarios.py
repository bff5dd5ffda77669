"""The scenarios produce what they claim, by Kafka's own reading of the log."""

from __future__ import annotations

import re
from collections import defaultdict
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from kip848_spark.local.scenarios import SCENARIOS, IdleConsumers, title
from kip848_spark.simulation.log import SCHEMA
from tests.captures import COMMITTED, DUMP, RECORDS, read_dump

Line = dict[str, Any]


def story(lines: list[Line], group: str) -> list[tuple[str, Line]]:
    """A group's records as (kind, line); a kind is the key type, with a t for a tombstone."""
    found = []
    for line in lines:
        data = (line.get("key") or {}).get("data", {})
        if data.get("groupId", data.get("group")) == group:
            kind = line["key"]["type"] + ("" if line["payload"] else "t")
            found.append((kind, line))
    return found


def kinds(lines: list[Line], group: str) -> str:
    return " ".join(kind for kind, _ in story(lines, group))


@pytest.fixture
def dump(capture: Path) -> list[Line]:
    return read_dump(capture / DUMP)


@pytest.fixture(scope="session")
def scenario_log(idle_consumers: IdleConsumers) -> list[Line]:
    """The same lines of the broker that runs now."""
    return [
        {
            "partition": one.partition,
            "offset": one.offset,
            "key": one.key,
            "payload": one.payload,
            "transactional": one.transactional,
        }
        for one in idle_consumers.testbed.broker.dump_all()
    ]


def test_every_scenario_has_a_title() -> None:
    assert len({title(scenario) for scenario in SCENARIOS}) == len(SCENARIOS)
    assert all("\n" not in title(scenario) for scenario in SCENARIOS)


def test_the_consumers_still_run(idle_consumers: IdleConsumers) -> None:
    assert len(idle_consumers.members) >= 20
    assert all(member.assignment() is not None for member in idle_consumers.members)


def test_migration_as_it_happens_now(scenario_log: list[Line]) -> None:
    assert re.match(r"2 .*2t 5 5 3 7 7 6 8 8 5 ", kinds(scenario_log, "demo.migrated"))


def test_migration(dump: list[Line], capture: Path) -> None:
    metadata = "4 " if "4.0" in capture.name else ""  # 4.0 writes topic metadata, later ones a hash
    reported = kinds(dump, "demo.migrated")
    assert re.match(rf"2 .*2t 5 5 {metadata}3 7 7 6 8 8 5 ", reported)
    assert re.search(r"8t 7t 5t 3", reported)


def test_the_way_back(dump: list[Line]) -> None:
    records = story(dump, "demo.returned")
    reported = " ".join(kind for kind, _ in records)
    assert re.search(r"8t 8t 7t 7t 6t 5t 5t 4t 3t 2", reported)
    last = [line for kind, line in records if kind == "2"][-1]["payload"]["data"]
    assert (last["protocolType"], last["protocol"], len(last["members"])) == (
        "consumer",
        "range",
        1,
    )


def test_both_protocols_in_one_group(dump: list[Line]) -> None:
    members = [
        line["payload"]["data"] for kind, line in story(dump, "demo.half-migrated") if kind == "5"
    ]
    classic = [one for one in members if one["classicMemberMetadata"]]
    assert {one["clientId"] for one in classic} == {"classic-1"}
    assert any(one["clientId"] == "new-1" for one in members)


def test_three_join_one_after_another(dump: list[Line]) -> None:
    joined = [
        line["payload"]["data"]["clientId"]
        for kind, line in story(dump, "demo.three")
        if kind == "5"
    ]
    assert list(dict.fromkeys(joined)) == ["A", "B", "C"]


def test_the_killed_member_is_expired(dump: list[Line]) -> None:
    records = story(dump, "demo.killed")
    clients = {
        line["key"]["data"]["memberId"]: line["payload"]["data"]["clientId"]
        for kind, line in records
        if kind == "5"
    }
    expired = [line["key"]["data"]["memberId"] for kind, line in records if kind == "5t"]
    assert [clients[member] for member in expired] == ["dies"]


def test_static_members_leave_for_a_while(dump: list[Line]) -> None:
    records = story(dump, "demo.static")
    away = [
        line for kind, line in records if kind == "8" and line["payload"]["data"]["memberEpoch"] < 0
    ]
    assert [line["payload"]["data"]["memberEpoch"] for line in away] == [-2, -2]
    assert " 8t 7t 5t 5 7 8 8" in kinds(dump, "demo.static")


def test_the_hanging_member_gives_nothing_back(dump: list[Line]) -> None:
    states = [
        line["payload"]["data"]["state"] for kind, line in story(dump, "demo.stuck") if kind == "8"
    ]
    assert {1, 2} <= set(states)


def test_the_regular_expression_finds_a_new_topic(dump: list[Line]) -> None:
    resolved = [
        line["payload"]["data"]["topics"]
        for kind, line in story(dump, "demo.regex")
        if kind == "16"
    ]
    assert sorted(resolved[0]) == ["metrics-cpu", "metrics-net"]
    assert sorted(resolved[-1]) == ["metrics-cpu", "metrics-disk", "metrics-net"]


def test_deleted_groups(dump: list[Line]) -> None:
    assert kinds(dump, "demo.deleted").endswith("1t 1t 1t 6t 4t 3t")
    assert kinds(dump, "demo.deleted-classic").endswith("1t 1t 1t 2t")
    assert kinds(dump, "demo.topic-deleted") == "1 1 1t"


def test_aborted_commits_are_in_the_log_and_not_committed(dump: list[Line], capture: Path) -> None:
    written = {
        line["payload"]["data"]["offset"]
        for _, line in story(dump, "demo.transactions")
        if line["transactional"]
    }
    assert {100, 200, 300, 400, 999} <= written
    markers = [line["marker"] for line in dump if "marker" in line]
    assert sorted(markers) == ["ABORT"] * 3 + ["COMMIT"] * 2
    every = {
        (row["partition"], row["offset"]) for row in pq.read_table(capture / RECORDS).to_pylist()
    }
    committed = {
        (row["partition"], row["offset"]) for row in pq.read_table(capture / COMMITTED).to_pylist()
    }
    aborted = {
        (line["partition"], line["offset"])
        for _, line in story(dump, "demo.transactions")
        if line["transactional"]
        and line["payload"]["data"]["offset"] not in range(100, 104)
        and line["payload"]["data"]["offset"] not in range(300, 304)
    }
    assert every - committed == aborted
    assert committed < every


def test_a_rewind_with_metadata_beyond_ascii(dump: list[Line]) -> None:
    commits = [
        line["payload"]["data"]
        for _, line in story(dump, "demo.manual")
        if line["key"]["data"]["partition"] == 0
    ]
    assert [one["offset"] for one in commits] == [500, 1500, 250]
    # The client ends what it is given with a zero byte.
    assert commits[-1]["metadata"] == "zurück: 取り消し ⏪\0"


def test_a_capture_and_its_dump_are_of_the_same_records(dump: list[Line], capture: Path) -> None:
    table = pq.read_table(capture / RECORDS)
    assert table.schema.equals(SCHEMA)
    rows = [
        (row["partition"], row["offset"], int(row["timestamp"].timestamp() * 1000 + 0.5))
        for row in table.to_pylist()
    ]
    lines = [
        (line["partition"], line["offset"], line["timestamp"])
        for line in dump
        if "marker" not in line
    ]
    assert rows == lines
    ends: defaultdict[int, int] = defaultdict(int)
    for line in dump:
        assert line["offset"] == ends[line["partition"]], "the log has no gaps but markers"
        ends[line["partition"]] += 1
