"""The settings of groups: names, defaults and limits, as real brokers have them."""

from __future__ import annotations

import time
from typing import Any

import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ResourceType,
)

from kip848_spark.coordinator import Coordinator
from kip848_spark.coordinator.config import NUMBERS, BrokerConfig
from kip848_spark.coordinator.releases import find_release
from kip848_spark.local.broker import Broker
from tests.coordinator.broker_comparison import BrokerComparison

pytestmark = pytest.mark.slow

HEARTBEAT, SESSION = "consumer.heartbeat.interval.ms", "consumer.session.timeout.ms"
VALUES = ["", "abc", "-1", "0", "1", "2", "5", "200", "999", "16000", "59000", "999999999"]
VALUES += ["latest", "LATEST", "earliest", "true", "FALSE", "read_committed", "READ_COMMITTED"]
VALUES += ["by_duration:PT1H", "by_duration:P1DT2H3.5S", "by_duration:pt1h", "by_duration:"]
VALUES += ["by_duration:P", "by_duration:PT", "by_duration:-PT1H", "by_duration:PT-1H", "by_days:1"]


class Groups:
    """One group, on a broker and in a reference with the same settings."""

    def __init__(self, broker: Broker) -> None:
        self.admin = AdminClient({"bootstrap.servers": broker.bootstrap})
        settings = {name: value for name, value in broker.settings.items() if name in NUMBERS}
        self.reference = Coordinator(broker.version, settings)

    def described(self) -> dict[str, str]:
        resource = ConfigResource(ResourceType.GROUP, "g")
        found = self.admin.describe_configs([resource])[resource].result()
        return {name: entry.value for name, entry in found.items()}

    def set(self, name: str, value: str | None) -> bool:
        """Whether the broker accepts the value; None deletes."""
        what = AlterConfigOpType.SET if value is not None else AlterConfigOpType.DELETE
        entry = ConfigEntry(name, value, incremental_operation=what)
        resource = ConfigResource(ResourceType.GROUP, "g", incremental_configs=[entry])
        try:
            self.admin.incremental_alter_configs([resource])[resource].result()
        except KafkaException:
            return False
        return True

    def set_in_reference(self, name: str, value: str | None) -> bool:
        config = {"name": name, "configOperation": int(value is None), "value": value}
        resource = {"resourceType": 32, "resourceName": "g", "configs": [config]}
        answer = self.ask("IncrementalAlterConfigs", {"resources": [resource]})
        return bool(answer["responses"][0]["errorCode"] == "NONE")

    def described_in_reference(self) -> dict[str, str]:
        resource = {"resourceType": 32, "resourceName": "g"}
        rows = self.ask("DescribeConfigs", {"resources": [resource]})["results"][0]["configs"]
        return {row["name"]: row["value"] for row in rows}

    def ask(self, api: str, request: dict[str, Any]) -> dict[str, Any]:
        (step,) = self.reference.request(int(time.time() * 1000), api, request)
        return step.answers[0][1]


@pytest.mark.parametrize(
    "version",
    ["4.3.1", *(pytest.param(v, marks=pytest.mark.long) for v in ("4.0.2", "4.1.2", "4.2.0"))],
)
def test_names_defaults_and_limits_are_those_of_a_broker(version: str) -> None:
    with Broker(version, offsets_partitions=1) as broker:
        groups = Groups(broker)
        listed = groups.described()
        assert groups.described_in_reference() == listed
        accepted: dict[bool, list[tuple[str, str]]] = {True: [], False: []}
        differing = []
        for name in listed:
            for value in VALUES:
                theirs, ours = groups.set(name, value), groups.set_in_reference(name, value)
                accepted[theirs].append((name, value))
                if theirs is not ours:
                    differing.append((name, value, theirs))
                groups.set(name, None)
                groups.set_in_reference(name, None)
        assert differing == []
        assert min(len(accepted[True]), len(accepted[False])) > len(listed)


@pytest.mark.parametrize(("release", "interval"), [("4.2", 400), ("4.3", 1_000)])
def test_a_setting_outside_of_new_limits_counts_as_the_limit_from_4_3_on(
    release: str, interval: int
) -> None:
    """The test below sees the same on real brokers."""
    limits = {"group.consumer.min.heartbeat.interval.ms": "200"}
    before = BrokerConfig(find_release(release), limits)
    before.alter_group("g", {HEARTBEAT: "400"})
    later = BrokerConfig(
        find_release(release), {"group.consumer.min.heartbeat.interval.ms": "1000"}
    )
    later.keep_group_settings(before)
    assert later.for_group("g", "group.consumer.heartbeat.interval.ms") == interval
    assert later.for_group("other", "group.consumer.heartbeat.interval.ms") == 5_000
    assert later.describe_group("g")[HEARTBEAT] == "400"


@pytest.mark.long
@pytest.mark.parametrize(("version", "interval"), [("4.2.0", 400), ("4.3.1", 1_000)])
def test_a_restarted_broker_clamps_settings_from_4_3_on(version: str, interval: int) -> None:
    with Broker(version, offsets_partitions=1) as broker:
        assert Groups(broker).set(HEARTBEAT, "400")
        broker.stop()
        with (broker.folder / "server.properties").open("a") as properties:
            properties.write("group.consumer.min.heartbeat.interval.ms=1000\n")
            properties.write("group.consumer.heartbeat.interval.ms=2000\n")
        broker.start()
        comparison = BrokerComparison(broker, version)
        join = {
            "groupId": "g",
            "memberId": "A",
            "memberEpoch": 0,
            "rebalanceTimeoutMs": 60_000,
            "subscribedTopicNames": ["foo"],
            "topicPartitions": [],
        }
        answer = comparison.send_to_broker("ConsumerGroupHeartbeat", 1, join)
        comparison.close()
    assert answer["heartbeatIntervalMs"] == interval
