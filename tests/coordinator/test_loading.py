"""What a coordinator does after it has loaded the log: by itself, and beside a restarted broker."""

from __future__ import annotations

import time
from typing import Any

import pytest

from kip848_spark.coordinator import Client, Coordinator, Step
from kip848_spark.coordinator.classic_group import PREPARING, STABLE, ClassicGroup
from kip848_spark.local.broker import Broker
from tests.coordinator.broker_comparison import BrokerComparison
from tests.coordinator.kip_notation import FOO
from tests.coordinator.test_limits import classic_join, started
from tests.coordinator.wire import Connection

OWN, GROUPS = 60_000, 10_000
"""ms: the session timeout of the classic member, and that of the group's consumers."""
SETTINGS = {
    "group.min.session.timeout.ms": "1000",
    "group.consumer.min.session.timeout.ms": "1000",
    "group.consumer.session.timeout.ms": str(GROUPS),
    "group.consumer.migration.policy": "upgrade",
}


def kinds(steps: list[Step]) -> list[str]:
    return [
        record["key"]["type"] + ("" if record["value"] else "t")
        for step in steps
        for record in step.records
    ]


def loaded(steps: list[Step], release: str = "4.3", at: int = 0, **config: str) -> Coordinator:
    """Another coordinator that has loaded these records."""
    coordinator = Coordinator(release, config)
    coordinator.topic(0, "foo", FOO, 2)
    for step in steps:
        for record in step.records:
            coordinator.replay(record)
    coordinator.finish_loading(at)
    return coordinator


def consumer_joins() -> dict[str, Any]:
    return {
        "groupId": "g",
        "memberId": "A",
        "memberEpoch": 0,
        "rebalanceTimeoutMs": 60_000,
        "subscribedTopicNames": ["foo"],
        "topicPartitions": [],
    }


def classic_joins(member: str = "", session: int = 30_000) -> dict[str, Any]:
    return {
        "groupId": "g",
        "memberId": member,
        "sessionTimeoutMs": session,
        "rebalanceTimeoutMs": 60_000,
        "protocolType": "consumer",
        "protocols": [{"name": "range", "metadata": "AAAAAAABAANmb2//////"}],
    }


@pytest.mark.parametrize("release", ["4.0", "4.3"])
def test_classic_member_of_a_loaded_consumer_group_has_the_session_of_the_group(
    release: str,
) -> None:
    """Its own session timeout counts from its next heartbeat on."""
    before = Coordinator(release, SETTINGS)
    steps = before.topic(0, "foo", FOO, 2)
    steps += before.request(10, "ConsumerGroupHeartbeat", consumer_joins(), Client("A"))
    steps += before.request(20, "JoinGroup", classic_joins(session=OWN), Client("C"), version=3)
    after = loaded(steps, release, at=1_000, **SETTINGS)
    assert kinds(after.run_until(1_000 + GROUPS - 1)) == []
    gone = kinds(after.run_until(1_000 + GROUPS))
    assert [kind for kind in gone if kind != "4"] == ["8t", "7t", "5t", "3"] * 2


def test_loaded_classic_group_above_the_limit_prepares_a_rebalance() -> None:
    config = {"group.initial.rebalance.delay.ms": "0"}
    before = started(**config)
    members = []
    for number in range(2):
        members.append(str(classic_join(before, 10 + 100 * number)["memberId"]))
        before.request(20 + 100 * number, "JoinGroup", classic_joins(members[-1]))
    before.request(200, "JoinGroup", classic_joins(members[0]))
    steps = before.request(210, "SyncGroup", _sync(members[0], 2))
    assert kinds(steps) == ["2"]
    for most, state in ((2, STABLE), (1, PREPARING)):
        after = loaded(steps, at=1_000, **config, **{"group.max.size": str(most)})
        group = after.shard.groups["g"]
        assert isinstance(group, ClassicGroup)
        assert (group.state, len(group.members)) == (state, 2)
    steps = after.request(1_100, "JoinGroup", classic_joins(members[0]))
    steps += after.request(1_101, "JoinGroup", classic_joins(members[1]))
    steps += after.run_until(100_000)  # the rebalance timeout
    answers = [answer["errorCode"] for step in steps for _, answer in step.answers]
    assert answers == ["GROUP_MAX_SIZE_REACHED", "NONE"]


def _sync(member: str, generation: int) -> dict[str, Any]:
    return {"groupId": "g", "memberId": member, "generationId": generation, "assignments": []}


@pytest.mark.long
@pytest.mark.parametrize("version", ["4.3.1", "4.0.2"])
def test_a_restarted_broker_gives_classic_members_the_session_of_the_group(version: str) -> None:
    """The rule of the first test, by the clock of a real broker."""
    with Broker(version, settings=SETTINGS, offsets_partitions=1) as broker:
        comparison = BrokerComparison(broker, version)
        comparison.topic("foo", 2)
        answers = [
            comparison.send_to_broker("ConsumerGroupHeartbeat", 1, consumer_joins()),
            comparison.send_to_broker("JoinGroup", 3, classic_joins(session=OWN)),
        ]
        comparison.close()
        broker.restart()
        time.sleep(GROUPS / 1000 + 2)
        removed = {
            record.key["data"]["memberId"]: record.timestamp
            for record in broker.dump_all()
            if record.key is not None
            and record.key["type"] == "8"
            and record.payload is None
            and record.group == "g"
        }
    assert set(removed) == {answer["memberId"] for answer in answers}
    first, last = sorted(removed.values())
    assert last - first < 1_000


@pytest.mark.long
def test_a_restarted_broker_rebalances_a_classic_group_above_its_limit() -> None:
    with Broker("4.3.1", offsets_partitions=1) as broker:
        comparison = BrokerComparison(broker, "4.3.1")
        send = comparison.send_to_broker
        member = str(send("JoinGroup", 3, classic_joins())["memberId"])
        second = Connection(broker.bootstrap, "second")
        number = second.send("JoinGroup", 3, classic_joins())
        time.sleep(0.3)  # it waits for the first one
        generation = send("JoinGroup", 3, classic_joins(member))["generationId"]
        assert second.receive(number, 10) is not None
        send("SyncGroup", 3, _sync(member, generation))
        beat = {"groupId": "g", "memberId": member, "generationId": generation}
        assert send("Heartbeat", 4, beat)["errorCode"] == "NONE"
        second.close()
        comparison.close()
        broker.stop()
        with (broker.folder / "server.properties").open("a") as properties:
            properties.write("group.max.size=1\n")
        broker.start()
        comparison = BrokerComparison(broker, "4.3.1")
        described = comparison.send_to_broker_once("DescribeGroups", 5, {"groups": ["g"]})
        comparison.close()
    assert described["groups"][0]["groupState"] == PREPARING
