"""Groups and committed offsets by our own requests, against the client library and the broker."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from typing import Any

import pytest
from confluent_kafka import ConsumerGroupTopicPartitions, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from kip848_spark.kafka.admin import Cluster
from kip848_spark.kafka.broker_connection import (
    BrokerConnection,
    compact,
    compact_array,
    unsigned_varint,
)
from kip848_spark.kafka.cluster import ask_in_child, snapshot
from kip848_spark.kafka.group_descriptions import describe_groups
from kip848_spark.kafka.group_offsets import committed_offsets
from kip848_spark.kafka.snapshot import NO_COORDINATOR, UNREADABLE, LiveGroup, LiveOffset
from kip848_spark.local.broker import Broker
from kip848_spark.local.scenarios import IdleConsumers
from tests.insight.classic_groups import Member, Requests

OAUTH = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "OAUTHBEARER"}
UNNAMED = "Unknown"


def by_library(group: LiveGroup, state: str) -> LiveGroup:
    """What the client library says of a group, of which it calls the state ``state``."""
    members = tuple(replace(member, epoch=None) for member in group.members)
    named = group.state if state != UNNAMED else UNNAMED
    return replace(group, state=named, epochs=None, members=members)


def test_the_client_library_says_the_same(idle_consumers: IdleConsumers) -> None:
    bootstrap = idle_consumers.testbed.broker.bootstrap
    cluster = Cluster(bootstrap)
    names = [*cluster.group_ids(), "no-such-group"]
    own = describe_groups(cluster, names)
    library, _ = ask_in_child("describe", bootstrap, {}, 30.0, names)
    assert {n: by_library(one, library[n].state) for n, one in own.answers.items()} == library
    assert own.absent == {"no-such-group"}
    assert own.unasked == set()
    assert {group.type for group in library.values()} == {"classic", "consumer"}
    assert max(len(group.members) for group in library.values()) >= 3
    assert any(member.target for group in library.values() for member in group.members)

    committed = committed_offsets(cluster, names)
    theirs, refused = ask_in_child("committed", bootstrap, {}, 30.0, names)
    assert (committed.refused, refused) == ({}, {})
    assert {
        name: tuple(replace(one, exact=False, metadata=text_up_to_nul(one)) for one in offsets)
        for name, offsets in committed.answers.items()
    } == theirs
    assert committed.answers["demo.manual"][0].metadata == "zurück: 取り消し ⏪\0"


def text_up_to_nul(offset: LiveOffset) -> str:
    """The metadata up to the first NUL byte, where the library ends it."""
    return (offset.metadata or "").partition("\0")[0]


def test_epochs_and_the_state_of_a_group_that_waits(idle_consumers: IdleConsumers) -> None:
    """In `demo.stuck` a member waits for partitions that another one does not give up."""
    cluster = Cluster(idle_consumers.testbed.broker.bootstrap)
    group = describe_groups(cluster, ["demo.stuck"]).answers["demo.stuck"]
    assert group.state == "Reconciling"
    assert group.epochs is not None
    assert group.epochs.group == group.epochs.assignment >= 2
    assert sorted(member.epoch or 0 for member in group.members)[0] < group.epochs.group


@pytest.fixture(scope="module")
def own_broker() -> Iterator[Broker]:
    """A broker with a topic `foo` of three partitions. Other tests do not see its groups."""
    with Broker() as running:
        admin = AdminClient({"bootstrap.servers": running.bootstrap})
        admin.create_topics([NewTopic("foo", 3)])["foo"].result(30)
        yield running


def commit(admin: AdminClient, name: str, one: LiveOffset) -> Any:
    """Commits an offset for a group, with the offset as metadata."""
    place = TopicPartition(one.topic, one.partition, one.offset, str(one.offset))
    return admin.alter_consumer_group_offsets([ConsumerGroupTopicPartitions(name, [place])])[name]


def test_more_groups_than_a_request_takes(own_broker: Broker) -> None:
    admin = AdminClient({"bootstrap.servers": own_broker.bootstrap})
    wanted = {
        f"requests.{number:03d}": LiveOffset(
            "foo", number % 3, number, None, f"{number}\0", exact=True
        )
        for number in range(230)
    }
    left = dict(wanted)
    while left:  # coordinators that are new refuse commits
        under_way = {name: commit(admin, name, one) for name, one in left.items()}
        for name, answer in under_way.items():
            if answer.result(30).topic_partitions[0].error is None:
                del left[name]
    cluster = Cluster(own_broker.bootstrap)
    found = committed_offsets(cluster, list(wanted))
    assert found.refused == {}
    assert {name: offsets for name, (offsets,) in found.answers.items()} == wanted
    described = describe_groups(cluster, list(wanted)).answers
    assert {(one.type, one.state, one.simple) for one in described.values()} == {
        ("classic", "Empty", True)
    }
    assert described.keys() == wanted.keys()


def test_assignments_that_are_none(broker: Broker) -> None:
    """Members of classic groups have any bytes as their assignment."""
    hostile = {
        "short": b"\x01",
        "count": b"\x00\x00\x7f\xff\xff\xff",
        "negative": b"\x00\x00\xff\xff\xff\xff",
        "text": b"\x00\x00\x00\x00\x00\x01\x00\x09foo",
        "partitions": b"\x00\x00\x00\x00\x00\x01\x00\x03foo\x00\x00\x00\x02\x00\x00\x00\x00",
    }
    with ExitStack() as stack:
        clients = Requests(broker.bootstrap, stack)
        clients.wait_for_coordinator()
        members = {
            name: clients.form(f"bytes.{name}", [Member(raw_assignment=octets)], topic="foo")
            for name, octets in hostile.items()
        }
        names = [f"bytes.{name}" for name in hostile]
        found = describe_groups(Cluster(broker.bootstrap), names)
        assert found.refused == dict.fromkeys(names, UNREADABLE)
        for name, ids in members.items():  # a later test shall not meet them
            clients.leave(f"bytes.{name}", *ids)


def test_a_cluster_that_has_no_groups_yet() -> None:
    """Its first group makes the broker create the topic of offsets, so the coordinator moves while
    it is asked: librdkafka ends its process then."""
    with Broker() as broker:
        cluster = Cluster(broker.bootstrap)
        assert committed_offsets(cluster, ["none"]).answers == {"none": ()}
        assert describe_groups(cluster, ["none"]).absent == {"none"}


def test_coordinators_that_never_answer() -> None:
    """One broker can't make three replicas of the topic of offsets."""
    with Broker(settings={"offsets.topic.replication.factor": "3"}) as broker:
        cluster = Cluster(broker.bootstrap, timeout=2)
        assert committed_offsets(cluster, ["none"]).refused == {"none": NO_COORDINATOR}
        assert describe_groups(cluster, ["none"]).refused == {"none": NO_COORDINATOR}


def test_a_login_that_only_the_client_library_knows(
    idle_consumers: IdleConsumers, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The groups are then read by it. Here only our own requests have the settings for a login."""
    bootstrap = idle_consumers.testbed.broker.bootstrap
    own = snapshot(bootstrap)
    asked: list[str] = []

    def in_child(question: Any, bootstrap: str, _: Any, timeout: float, ids: Any) -> Any:
        asked.append(question)
        return ask_in_child(question, bootstrap, {}, timeout, ids)

    monkeypatch.setattr("kip848_spark.kafka.cluster.ask_in_child", in_child)
    cluster = Cluster(bootstrap)
    cluster.config |= OAUTH
    found = snapshot(bootstrap, cluster=cluster)
    assert sorted(asked) == ["committed", "describe"]
    assert found.groups.keys() == own.groups.keys()
    assert found.offsets.keys() == own.offsets.keys()
    assert not any(one.exact for offsets in found.offsets.values() for one in offsets)


def commit_any(broker: Broker, group: str, partition: int, offset: int, text: str) -> None:
    """Commits an offset for a partition of `foo`, whatever the client library says to it."""
    commit = struct.pack(">iqi", partition, offset, -1) + compact(text) + b"\0"
    topics = compact_array(["foo"]) + unsigned_varint(2) + commit + b"\0"
    body = compact(group) + struct.pack(">i", -1) + compact("") + b"\0" + topics + b"\0"
    host, port = broker.bootstrap.split(":")
    with BrokerConnection(host, int(port), {}, 10) as connection:
        connection.ask(8, 8, body)


def test_offsets_that_no_log_has(own_broker: Broker) -> None:
    """Brokers take any number, and -1 in an answer about one partition means that there is none."""
    cluster = Cluster(own_broker.bootstrap)
    assert committed_offsets(cluster, ["any"]).answers == {"any": ()}
    committed = dict(enumerate((-1, -(2**63), 2**63 - 1)))
    for partition, offset in committed.items():
        commit_any(own_broker, "any", partition, offset, "")
    wanted = tuple(LiveOffset("foo", p, o, None, "", exact=True) for p, o in committed.items())
    assert committed_offsets(cluster, ["any"]).answers == {"any": wanted}
    theirs, refused = ask_in_child("committed", own_broker.bootstrap, {}, 30.0, ["any"])
    assert refused == {}
    assert theirs == {"any": (replace(wanted[2], exact=False),)}


def test_the_group_without_a_name(own_broker: Broker) -> None:
    """Brokers take its commits, and describe it as a classic group only."""
    cluster = Cluster(own_broker.bootstrap)
    assert committed_offsets(cluster, [""]).answers == {"": ()}  # its coordinator is there
    commit_any(own_broker, "", 2, 31, "text")
    wanted = (LiveOffset("foo", 2, 31, None, "text", exact=True),)
    assert committed_offsets(cluster, ["", "other"]).answers == {"": wanted, "other": ()}
    found = describe_groups(cluster, ["", "other"])
    assert (found.answers[""].type, found.absent, found.refused) == ("classic", {"other"}, {})
