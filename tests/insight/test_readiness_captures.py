"""Readiness of the groups of real brokers, against Kafka's own reading of their logs."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import pytest

from kip848_spark.insight.readiness import assess
from kip848_spark.insight.readiness_cluster import known_cluster
from kip848_spark.insight.readiness_rules import VERDICTS
from tests.captures import DUMP, read_dump
from tests.conftest import CAPTURED, DATA
from tests.insight.readiness_lake import State, state_of_capture

CAPTURES = sorted(path.name for path in DATA.iterdir() if path.is_dir())


def rows_of(state: State) -> dict[str, dict[str, Any]]:
    found = assess(state.facts(), known_cluster(state.groups))
    return {row["group_id"]: row for row in found.rows.to_pylist()}


@pytest.mark.parametrize("capture", CAPTURES)
def test_every_group_of_every_capture_has_a_verdict(capture: str) -> None:
    state = state_of_capture(DATA / capture)
    rows = rows_of(state)
    assert len(rows) == state.groups.num_rows > 0
    types = dict(zip(*(state.groups[n].to_pylist() for n in ("group_id", "type")), strict=True))
    for group_id, row in rows.items():
        assert row["verdict"] in VERDICTS
        assert row["evidence"], group_id
        migrated = row["verdict"] in ("already_migrated", "migrating")
        assert migrated == (types[group_id] == "consumer")


def dumped_classic_groups(folder: Path) -> dict[str, dict[str, Any]]:
    """The last value of key 2 of each group that still has one at the end, as Kafka's tool prints
    it. A consumer group's first record deletes it (`2t`)."""
    groups: dict[str, dict[str, Any]] = {}
    for line in read_dump(folder / DUMP):
        if line.get("key", {}).get("type") != "2":
            continue
        group_id = line["key"]["data"]["group"]
        groups.pop(group_id, None)
        if line["payload"] is not None:
            groups[group_id] = line["payload"]["data"] | {"offset": line["offset"]}
    return groups


@pytest.mark.parametrize(
    "capture", [f"kafka-{release}" for release in CAPTURED] + ["clients-4.3.1"]
)
def test_facts_of_classic_groups_are_those_that_kafkas_tool_prints(capture: str) -> None:
    """Fails if members, timeouts or user data are taken from another group or another record."""
    facts = {row["group_id"]: row for row in state_of_capture(DATA / capture).facts().to_pylist()}
    groups = dumped_classic_groups(DATA / capture)
    assert groups
    for group_id, said in groups.items():
        row, members = facts[group_id], said["members"]
        assert row["evidence"] == [said["offset"]]
        assert (row["members"], row["protocol"]) == (len(members), said["protocol"])
        assert row["protocol_type"] == said["protocolType"]
        timeouts = [member["sessionTimeout"] for member in members]
        assert row["session_timeout_min"] == min(timeouts, default=None)
        assert row["session_timeout_max"] == max(timeouts, default=None)
        if said["protocolType"] == "consumer":
            for part in ("subscription", "assignment"):
                with_data = [m for m in members if base64.b64decode(m[part]["userData"] or "")]
                assert row[f"{part}_user_data"] == len(with_data)
        assert row["unreadable_subscriptions"] == row["unreadable_assignments"] == 0


@pytest.mark.parametrize("release", CAPTURED)
def test_verdicts_of_the_scenarios(release: str) -> None:
    """What is known of these groups from how they were made (kip848_spark/local/scenarios.py)."""
    rows = rows_of(state_of_capture(DATA / f"kafka-{release}"))
    verdicts = {name: row["verdict"] for name, row in rows.items()}
    assert verdicts["demo.classic-range"] == "ready_with_warnings"
    assert verdicts["demo.emptied-classic"] == "ready"
    assert verdicts["demo.half-migrated"] == "migrating"
    assert verdicts["demo.manual"] == "not_applicable"
    assert verdicts["demo.three"] == "already_migrated"
    assert rows["demo.half-migrated"]["classic_members"] == 1


def test_librdkafkas_cooperative_sticky_assignor_sends_user_data_with_assignments() -> None:
    """So that these groups can't be converted while they have members: test_readiness_broker.py."""
    row = rows_of(state_of_capture(DATA / "kafka-4.3.1"))["demo.classic-sticky"]
    assert (row["verdict"], row["blockers"]) == ("blocked", ["assignment-user-data"])


def test_connect_and_streams_are_not_consumers_of_this_protocol() -> None:
    rows = rows_of(state_of_capture(DATA / "clients-4.3.1"))
    assert {name: row["verdict"] for name, row in rows.items()} == dict.fromkeys(
        ("connect-cluster", "old-application", "new-application", "shared-application"),
        "not_applicable",
    )
    assert rows["old-application"]["likely_client"] == "streams"
