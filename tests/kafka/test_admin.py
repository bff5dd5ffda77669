"""What the live cluster says, and how it is put when it says nothing."""

from __future__ import annotations

import json
from concurrent.futures import Future
from contextlib import ExitStack
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException, Producer
from confluent_kafka.admin import AdminClient

from kip848_spark.errors import SourceError, UsageError
from kip848_spark.kafka.admin import Cluster, admin_client
from kip848_spark.kafka.cluster import ask_in_child, snapshot
from kip848_spark.kafka.snapshot import UNREADABLE, LiveOffset
from kip848_spark.local.broker import Broker
from kip848_spark.local.scenarios import IdleConsumers
from kip848_spark.local.testbed import create_topics
from tests.insight.classic_groups import Member, Requests


def test_a_snapshot_of_everything(idle_consumers: IdleConsumers) -> None:
    output = snapshot(idle_consumers.testbed.broker.bootstrap)
    assert output.cluster_id == idle_consumers.testbed.broker.cluster_id
    assert output.refused == {}
    assert set(output.offsets) == set(output.groups)
    assert output.groups["demo.three"].type == "consumer"
    assert {member.client_id for member in output.groups["demo.three"].members} == {"A", "B", "C"}
    stuck = {member.client_id: member for member in output.groups["demo.stuck"].members}
    assert (stuck["waits"].assigned, len(stuck["waits"].target or ())) == ((), 1)
    assert output.groups["demo.returned"].members[0].target is None
    static = {member.instance_id for member in output.groups["demo.static"].members}
    assert static == {"static-1", "static-2", "static-3"}
    assert output.offsets["demo.manual"][0] == LiveOffset(
        "foo", 0, 250, None, "zurück: 取り消し ⏪\0", exact=True
    )
    assert [one.offset for one in output.offsets["demo.transactions"]] == [300, 301, 302, 303]
    assert output.topics["growing"].partitions == 5
    assert len(output.topics["foo"].topic_id) == 22
    assert len(output.ends) == output.topics["__consumer_offsets"].partitions
    assert all(0 == ends.first <= ends.stable <= ends.end for ends in output.ends.values())
    json.dumps(output.to_json())


def test_assignments_that_end_the_client_library(broker: Broker) -> None:
    """Any client can write such bytes. librdkafka aborts when it reads them, so it is asked in a
    process of its own."""
    hostile = [f"admin.hostile-{number}" for number in range(2)]
    with ExitStack() as stack:
        clients = Requests(broker.bootstrap, stack)
        clients.wait_for_coordinator()
        members = {
            name: clients.form(name, [Member(raw_assignment=b"\x01")], topic="foo")
            for name in hostile
        }
        members["admin.honest"] = clients.form("admin.honest", [Member()], topic="foo")
        found = snapshot(broker.bootstrap)
        assert [found.refused.get(name) for name in hostile] == [UNREADABLE] * 2
        assert found.groups["admin.honest"].members[0].assigned == (("foo", 0),)
        names = [*hostile, "admin.honest"]
        groups, refused = ask_in_child("describe", broker.bootstrap, {}, 30.0, names)
        assert refused == dict.fromkeys(hostile, UNREADABLE)
        assert groups["admin.honest"].members[0].assigned == (("foo", 0),)
        for name, ids in members.items():  # a later test shall not meet them
            clients.leave(name, *ids)
    assert not snapshot(broker.bootstrap).refused


def test_nobody_there(capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SourceError, match=r"No Kafka broker answers at 127.0.0.1:1 .*refused"):
        Cluster("127.0.0.1:1")
    assert capfd.readouterr() == ("", "")


def test_refused_credentials(broker: Broker, capfd: pytest.CaptureFixture[str]) -> None:
    sasl = {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "PLAIN",
        "sasl.username": "somebody",
        "sasl.password": "a-secret",
    }
    with pytest.raises(SourceError, match="refuses the client") as fault:
        Cluster(broker.bootstrap, sasl)
    assert "a-secret" not in str(fault.value)
    assert capfd.readouterr() == ("", "")


def test_a_topic_that_grows_while_its_ends_are_asked_has_no_open_transaction(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster, topic = Cluster(broker.bootstrap), "admin.grows"
    create_topics(cluster, {topic: 1})
    producer = Producer({"bootstrap.servers": broker.bootstrap})
    ask = cluster.admin.list_offsets

    def ask_and_write(*args: Any, **more: Any) -> Any:
        answers = ask(*args, **more)
        for answer in answers.values():
            answer.result(30)
        producer.produce(topic, b"x")
        assert producer.flush(30) == 0
        return answers

    monkeypatch.setattr(cluster.admin, "list_offsets", ask_and_write)
    ends = cluster.ends(topic)[0]
    assert (ends.first, ends.end, ends.stable) == (0, 2, 2)


@pytest.mark.parametrize(
    "code",
    [
        KafkaError.NOT_LEADER_FOR_PARTITION,
        KafkaError.FENCED_LEADER_EPOCH,
        KafkaError.UNKNOWN_LEADER_EPOCH,
        KafkaError.OFFSET_NOT_AVAILABLE,
    ],
    ids=lambda code: KafkaError(code).name(),
)
def test_a_partition_that_another_broker_takes_over(
    code: int, broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Clients are replaced until one has new metadata: the first new one may not have them yet."""
    topic = f"admin.moves-{code}"
    create_topics(Cluster(broker.bootstrap), {topic: 1})
    refused: Future[Any] = Future()
    refused.set_exception(KafkaException(KafkaError(code)))
    made: list[AdminClient] = []

    def refuse(asked: Any, **_: Any) -> Any:
        return dict.fromkeys(asked, refused)

    def client(*args: Any) -> AdminClient:
        made.append(new := admin_client(*args))
        if len(made) <= 2:
            monkeypatch.setattr(
                new, "list_offsets", lambda asked, **_: dict.fromkeys(asked, refused)
            )
        return new

    monkeypatch.setattr("kip848_spark.kafka.admin.admin_client", client)
    assert Cluster(broker.bootstrap).ends(topic)[0].end == 0
    assert len(made) == 3


def test_an_unknown_topic_and_an_unknown_setting(broker: Broker) -> None:
    with pytest.raises(SourceError, match="no-such-topic can't be described"):
        Cluster(broker.bootstrap).ends("no-such-topic")
    with pytest.raises(UsageError, match="settings are not usable"):
        Cluster(broker.bootstrap, {"no.such.setting": "1"})
