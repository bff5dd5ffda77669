"""A cluster of two real brokers: settings that each of them answers for, and one that dies."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import suppress

import pytest
from confluent_kafka import admin

from kip848_spark.kafka.admin import Cluster
from kip848_spark.local.broker import Broker
from kip848_spark.local.testbed import wait_for_topics

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

SETTINGS = {
    "offsets.topic.replication.factor": "2",
    "group.consumer.max.size": "7",
    # On a busy machine, a living broker must not count as dead.
    "broker.session.timeout.ms": "6000",
}


class SecondBroker(Broker):
    """A broker without a controller, in the cluster of ``first``."""

    def __init__(self, first: Broker, **settings: str) -> None:
        super().__init__(settings=settings, heap="512m")
        self.cluster_id = first.cluster_id
        self._first = first

    def _write_configuration(self) -> None:
        self.settings |= {
            "process.roles": "broker",
            "node.id": "2",
            "controller.quorum.voters": f"1@127.0.0.1:{self._first._controller_port}",
            "listeners": f"PLAINTEXT://{self.bootstrap}",
        }
        super()._write_configuration()


@pytest.fixture(scope="module")
def two() -> Iterator[tuple[Broker, Broker]]:
    with Broker(settings=SETTINGS, heap="512m") as first:
        other = {**SETTINGS, "group.consumer.heartbeat.interval.ms": "400"}
        with SecondBroker(first, **other) as second:
            yield first, second


def test_settings_in_which_all_brokers_agree(two: tuple[Broker, Broker]) -> None:
    cluster = Cluster(two[0].bootstrap)
    assert len(cluster.brokers()) == 2
    names = ["group.consumer.max.size", "group.consumer.heartbeat.interval.ms", "no.such"]
    assert cluster.broker_settings(names) == {"group.consumer.max.size": "7"}


def test_a_broker_that_dies_between_two_requests(two: tuple[Broker, Broker]) -> None:
    """Whichever of the two librdkafka asks: the other one answers, at the latest when the cluster
    has noticed the death."""
    first, second = two
    cluster = Cluster(first.bootstrap, timeout=8)
    made = cluster.admin.create_topics([admin.NewTopic("t", 2, replica_assignment=[[1], [1]])])
    made["t"].result(20)
    wait_for_topics(cluster, ["t"])
    cluster.refresh()
    assert cluster.topics(["t"])["t"].partitions == 2
    with suppress(ProcessLookupError):
        os.kill(second.pid, signal.SIGKILL)
    assert cluster.topics(["t"])["t"].partitions == 2
    assert cluster.ends("t").keys() == {0, 1}
