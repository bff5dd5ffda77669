"""Limits of a group: its size, and the migrations that are allowed."""

from __future__ import annotations

from typing import Any

import pytest

from kip848_spark.coordinator import Client, Coordinator
from kip848_spark.coordinator.consumer_protocol import Subscription, write_subscription
from tests.coordinator.kip_notation import FOO, to_base64


def send(coordinator: Coordinator, at: int, api: str, **request: Any) -> dict[str, Any]:
    client = Client(request.get("memberId") or "x")
    for step in coordinator.request(at, api, {"groupId": "g"} | request, client, ticket=at):
        for ticket, answer in step.answers:
            if ticket == at:
                return answer
    raise AssertionError("no answer")


def join(coordinator: Coordinator, at: int, member: str, **more: Any) -> str:
    request = {
        "memberId": member,
        "memberEpoch": 0,
        "rebalanceTimeoutMs": 1_000,
        "subscribedTopicNames": ["foo"],
        "topicPartitions": [],
    }
    return str(send(coordinator, at, "ConsumerGroupHeartbeat", **request | more)["errorCode"])


def classic_join(coordinator: Coordinator, at: int, member: str = "") -> dict[str, Any]:
    metadata = to_base64(write_subscription(Subscription(1, ("foo",))))
    return send(
        coordinator,
        at,
        "JoinGroup",
        memberId=member,
        sessionTimeoutMs=30_000,
        rebalanceTimeoutMs=30_000,
        protocolType="consumer",
        protocols=[{"name": "range", "metadata": metadata}],
    )


def started(release: str = "4.3", **config: str) -> Coordinator:
    settings = {"group.initial.rebalance.delay.ms": "0"} | config
    coordinator = Coordinator(release, settings)
    coordinator.topic(0, "foo", FOO, 2)
    return coordinator


def classic_member(coordinator: Coordinator) -> str:
    """Create a stable classic group with one member; returns the member's id."""
    member = str(classic_join(coordinator, 10)["memberId"])
    assert classic_join(coordinator, 20, member)["errorCode"] == "NONE"
    answer = send(coordinator, 30, "SyncGroup", memberId=member, generationId=1, assignments=[])
    assert answer["errorCode"] == "NONE"
    return member


def test_full_group_refuses_new_members() -> None:
    coordinator = started(**{"group.consumer.max.size": "2"})
    assert join(coordinator, 10, "A") == "NONE"
    assert join(coordinator, 20, "B", instanceId="b") == "NONE"
    assert join(coordinator, 30, "C") == "GROUP_MAX_SIZE_REACHED"
    assert join(coordinator, 40, "A") == "NONE"
    send(coordinator, 50, "ConsumerGroupHeartbeat", memberId="B", memberEpoch=-2, instanceId="b")
    assert join(coordinator, 60, "B2", instanceId="b") == "GROUP_MAX_SIZE_REACHED"


def test_refused_request_writes_nothing() -> None:
    coordinator = started(**{"group.consumer.max.size": "1"})
    classic_member(coordinator)
    steps = coordinator.request(
        40,
        "ConsumerGroupHeartbeat",
        {
            "groupId": "g",
            "memberId": "A",
            "memberEpoch": 0,
            "rebalanceTimeoutMs": 1_000,
            "subscribedTopicNames": ["foo"],
            "topicPartitions": [],
        },
    )
    assert [step.records for step in steps] == [[]]
    assert steps[0].answers[0][1]["errorCode"] == "GROUP_MAX_SIZE_REACHED"
    assert coordinator.shard.groups["g"].type == "classic"


@pytest.mark.parametrize(
    ("policy", "code"),
    [
        ("bidirectional", "NONE"),
        ("upgrade", "NONE"),
        ("downgrade", "GROUP_ID_NOT_FOUND"),
        ("disabled", "GROUP_ID_NOT_FOUND"),
    ],
)
def test_policy_controls_upgrades(policy: str, code: str) -> None:
    coordinator = started(**{"group.consumer.migration.policy": policy})
    classic_member(coordinator)
    assert join(coordinator, 40, "A") == code


@pytest.mark.parametrize(
    ("release", "code"),
    [
        ("4.1", "MEMBER_ID_REQUIRED"),
        ("4.2.1", "MEMBER_ID_REQUIRED"),
        ("4.2", "INCONSISTENT_GROUP_PROTOCOL"),
        ("4.3.0", "MEMBER_ID_REQUIRED"),
        ("4.3", "INCONSISTENT_GROUP_PROTOCOL"),
    ],
)
def test_disabled_migration_refuses_classic_members(release: str, code: str) -> None:
    coordinator = started(release, **{"group.consumer.migration.policy": "disabled"})
    assert join(coordinator, 10, "A") == "NONE"
    assert classic_join(coordinator, 20)["errorCode"] == code


@pytest.mark.parametrize(
    ("policy", "kind"), [("bidirectional", "classic"), ("upgrade", "consumer")]
)
def test_policy_controls_downgrades(policy: str, kind: str) -> None:
    coordinator = started(**{"group.consumer.migration.policy": policy})
    classic_member(coordinator)
    assert join(coordinator, 40, "A") == "NONE"
    send(coordinator, 50, "ConsumerGroupHeartbeat", memberId="A", memberEpoch=-1)
    assert coordinator.shard.groups["g"].type == kind
