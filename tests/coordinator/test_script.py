"""The engine of ``kip848 coordinate``: JSON lines in, JSON lines out."""

from __future__ import annotations

import json
from typing import Any

import pytest

from kip848_spark.coordinator import RELEASES, ReplayError, run_script
from kip848_spark.coordinator.coordinator import Coordinator
from kip848_spark.errors import UsageError

FOO = "Zm9vAAAAAAAAAAAAAAAAAA"
TOPIC = {"at": 0, "event": "topic", "name": "foo", "topicId": FOO, "partitions": 2}


def join(at: int, **more: Any) -> dict[str, Any]:
    request = {
        "groupId": "g",
        "memberId": "A",
        "memberEpoch": 0,
        "rebalanceTimeoutMs": 30_000,
        "subscribedTopicNames": ["foo"],
        "topicPartitions": [],
    }
    return {"at": at, "api": "ConsumerGroupHeartbeat", "clientId": "A", "request": request | more}


def play(*lines: Any, release: str = "4.3", seed: int = 0, **config: str) -> list[dict[str, Any]]:
    text = [line if isinstance(line, str) else json.dumps(line) for line in lines]
    settings = {name.replace("_", "."): value for name, value in config.items()}
    return [json.loads(line) for line in run_script(text, release, seed, settings)]


@pytest.mark.parametrize("release", sorted(RELEASES))
def test_response_precedes_its_records(release: str) -> None:
    out = play(TOPIC, join(5), release=release)
    assert [sorted(line) for line in out] == [["at", "response"]] + [["at", "record"]] * (
        len(out) - 1
    )
    kinds = [line["record"]["key"]["type"] for line in out[1:]]
    with_topics = RELEASES[release].partition_metadata_record
    assert kinds == (["5", "4", "3", "7", "6", "8"] if with_topics else ["5", "3", "7", "6", "8"])
    assert out[0]["response"]["memberEpoch"] == RELEASES[release].first_epoch + 1


def test_timers_run_until_the_time_of_a_line() -> None:
    out = play(TOPIC, join(0), {"at": 100_000, "event": "tick"})
    assert [line["record"]["key"]["type"] for line in out[-4:]] == ["8", "7", "5", "3"]
    assert {line["at"] for line in out[-4:]} == {45_000}


def test_generated_ids_follow_the_seed() -> None:
    line = join(0)
    del line["request"]["memberId"]
    ids = {play(TOPIC, line, seed=seed)[0]["response"]["memberId"] for seed in (1, 1, 2)}
    assert len(ids) == 2


@pytest.mark.parametrize(
    "line",
    [
        "not json",
        "[]",
        {"at": "x", "event": "tick"},
        {"at": 0},
        {"at": 0, "event": "topic", "name": "foo", "topicId": "x", "partitions": 1},
        {"at": 0, "event": "topic", "name": "foo"},
        {"at": 0, "api": "Nonsense"},
        {"at": 0, "api": "Heartbeat", "request": {"groupId": "g"}, "x": 1} | {"request": 5},
        {"at": -1, "event": "tick"},
    ],
)
def test_invalid_line_is_named(line: Any) -> None:
    with pytest.raises(UsageError, match="line 2: "):
        play(TOPIC, line)


@pytest.mark.parametrize(
    "settings",
    [
        {"no.such": "1"},
        {"group.consumer.session.timeout.ms": "1"},
        {"group.consumer.session.timeout.ms": "x"},
        {"group.consumer.assignors": "nobody"},
        {"group.consumer.migration.policy": "sometimes"},
    ],
)
def test_settings_are_validated_as_in_a_broker(settings: dict[str, str]) -> None:
    with pytest.raises(UsageError):
        Coordinator("4.3", settings)
    with pytest.raises(UsageError):
        Coordinator("5.0")


def test_delayed_join_names_its_line() -> None:
    request = {
        "groupId": "c",
        "memberId": "",
        "groupInstanceId": "i",
        "sessionTimeoutMs": 10_000,
        "rebalanceTimeoutMs": 10_000,
        "protocolType": "consumer",
        "protocols": [{"name": "range", "metadata": {"topics": ["foo"]}}],
    }
    out = play(
        {"at": 0, "api": "JoinGroup", "clientId": "A", "request": request},
        {"at": 3_000, "event": "tick"},
    )
    answers = [line for line in out if "response" in line]
    assert [(line["at"], line["line"]) for line in answers] == [(3_000, 1)]
    assert answers[0]["response"]["generationId"] == 1


def record(kind: str, value: Any, **key: Any) -> dict[str, Any]:
    form = None if value is None else {"version": "0", "data": value}
    return {"key": {"type": kind, "data": {"groupId": "g"} | key}, "value": form}


def test_replay_raises_where_a_broker_fails() -> None:
    coordinator = Coordinator("4.3")
    coordinator.replay(record("99", {"x": 1}))  # an unknown key type is skipped
    coordinator.replay(record("3", None))  # nothing to delete
    coordinator.replay(record("3", {"epoch": 3}))
    with pytest.raises(ReplayError, match="epoch is still there"):
        coordinator.replay(record("3", None))
    coordinator.replay(record("7", {"topicPartitions": []}, memberId="A"))
    with pytest.raises(ReplayError, match="still have theirs"):
        coordinator.replay(record("6", None))
    with pytest.raises(ReplayError, match="value version"):
        coordinator.replay(
            {"key": {"type": "3", "data": {"groupId": "g"}}, "value": {"version": "7", "data": {}}}
        )


def partition_states(coordinator: Coordinator) -> list[float]:
    metrics = coordinator.metrics()
    return [metrics[f"num-partitions[state={name}]"] for name in ("loading", "active", "failed")]


def test_partition_is_loading_then_active_or_failed() -> None:
    loaded, failed = Coordinator("4.3"), Coordinator("4.3")
    for coordinator in (loaded, failed):
        coordinator.replay(record("3", {"epoch": 3}))
        assert partition_states(coordinator) == [1, 0, 0]
    loaded.finish_loading(at=5)
    assert partition_states(loaded) == [0, 1, 0]
    with pytest.raises(ReplayError):
        failed.replay(record("3", None))
    assert partition_states(failed) == [0, 0, 1]


def owned(member: str, epoch: int) -> dict[str, Any]:
    rows = [{"topicId": FOO, "partitions": [0]}]
    current = {
        "memberEpoch": epoch,
        "previousMemberEpoch": 0,
        "state": 0,
        "assignedPartitions": rows,
        "partitionsPendingRevocation": [],
    }
    return record("8", current, memberId=member)


def test_partition_changes_owner_only_at_a_higher_epoch() -> None:
    """KAFKA-19862: a compacted log may contain the new owner first."""
    coordinator = Coordinator("4.3")
    coordinator.replay(owned("A", 5))
    coordinator.replay(owned("B", 6))
    with pytest.raises(ReplayError, match="owner is still at 6"):
        coordinator.replay(owned("C", 6))
