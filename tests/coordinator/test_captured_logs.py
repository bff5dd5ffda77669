"""Logs of real brokers load without errors, and give the state that the broker reported."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from kip848_spark.coordinator import Coordinator
from kip848_spark.coordinator.classic_group import ClassicGroup
from kip848_spark.coordinator.consumer_group import ConsumerGroup
from kip848_spark.coordinator.consumer_protocol import read_assignment
from kip848_spark.coordinator.topics import Topic

DATA = Path(__file__).parents[1] / "data"
CAPTURES = sorted(folder.name for folder in DATA.glob("kafka-*")) or ["none"]


def load(capture: str) -> tuple[Coordinator, dict[str, Any], int]:
    folder = DATA / capture
    if not folder.is_dir():
        pytest.skip("the capture is missing")
    live = json.loads((folder / "live.json").read_text())
    coordinator = Coordinator(capture.removeprefix("kafka-"))
    count = 0
    with gzip.open(folder / "dump.jsonl.gz", "rt") as lines:
        for text in lines:
            line = json.loads(text)
            producer = line["producerId"] if line["transactional"] else -1
            if line.get("marker"):
                coordinator.replay_marker(producer, commit=line["marker"] == "COMMIT")
                continue
            record = {"key": line["key"], "value": line["payload"]}
            coordinator.replay(
                record, line["offset"], producer=producer, timestamp=line["timestamp"]
            )
            count += 1
    for name, topic in live["topics"].items():
        # librdkafka prints ids in plain base64, Kafka in the URL-safe one.
        topic_id = topic["topic_id"].replace("+", "-").replace("/", "_")
        coordinator.shard.topics.put(Topic(name, topic_id, topic["partitions"]))
    return coordinator, live, count


def pairs(coordinator: Coordinator, partitions: Any) -> list[list[Any]]:
    topics = coordinator.shard.topics
    return sorted(
        [topic.name, number]
        for topic_id, numbers in partitions.items()
        if (topic := topics.with_id(topic_id)) is not None
        for number in numbers
    )


@pytest.mark.parametrize("capture", CAPTURES)
def test_captured_log_gives_the_state_of_the_broker(capture: str) -> None:
    coordinator, live, count = load(capture)
    assert count > 100
    groups = coordinator.shard.groups
    compared = 0
    for group_id, seen in live["groups"].items():
        if seen["type"] not in ("classic", "consumer"):
            continue
        group = groups[group_id]
        assert group.type == seen["type"], group_id
        if seen["state"] != "Unknown":
            assert group.state == seen["state"], group_id
        members = {member["member_id"]: member for member in seen["members"]}
        assert set(group.members) == set(members), group_id
        for member_id, there in members.items():
            if isinstance(group, ConsumerGroup):
                member = group.members[member_id]
                held = {t: dict(n) for t, n in member.assigned.items()}
                if coordinator.release.describes_pending:
                    for topic, numbers in member.pending.items():
                        held.setdefault(topic, {}).update(numbers)
                assert pairs(coordinator, held) == sorted(there["assigned"]), member_id
                target = pairs(coordinator, group.target_of(member_id))
                assert target == sorted(there["target"] or []), member_id
                who: Any = member
            else:
                assert isinstance(group, ClassicGroup)
                who = group.members[member_id]
                rows = read_assignment(who.assignment).partitions
                given = sorted([topic, n] for topic, numbers in rows for n in numbers)
                assert given == sorted(there["assigned"]), member_id
            assert who.instance_id == there["instance_id"]
            assert who.client_id == there["client_id"]
            assert who.client_host == there["client_host"]
            compared += 1
    assert compared > 10
    for group_id, offsets in live["offsets"].items():
        mine = coordinator.shard.offsets.group(group_id)
        there = {(row["topic"], row["partition"]): row["offset"] for row in offsets}
        assert {place: offset.offset for place, offset in mine.items()} == there, group_id
