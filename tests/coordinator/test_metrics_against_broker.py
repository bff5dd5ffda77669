"""The reference's metrics against those that a real broker shows in JMX, after each request."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import pytest

from kip848_spark.local.broker import Broker
from tests.coordinator.broker_comparison import BrokerComparison
from tests.coordinator.broker_metrics import BrokerMetrics
from tests.coordinator.conversation import NEVER, Conversation
from tests.coordinator.share_conversations import ShareClient
from tests.coordinator.test_against_broker import settings
from tests.coordinator.test_streams_against_broker import settings as newer_settings
from tests.kafka_releases import NEWEST
from tests.streams_conversations import StreamsClient, subtopology

pytestmark = pytest.mark.slow

COUNTS = (
    "consumer-group-rebalance-count",
    "group-completed-rebalance-count",
    "offset-commit-count",
    "offset-deletion-count",
)
NEWER_COUNTS = ("share-group-rebalance-count", "streams-group-rebalance-count")
GAUGES = (
    "num-partitions[",
    "group-count[",
    "consumer-group-count[",
    "share-group-count[",
    "streams-group-count[",
    "NumGroups",
)
GAUGES_AGE_S = 65
"""A broker counts its groups once a minute."""
NEWER = "4.3"
"""From this release on, share and streams groups are compared as well."""
Step = tuple[str, Callable[[], object]]


def _consumers(conversation: Conversation) -> Iterator[Step]:
    a, b = (conversation.consumer(name, "foo") for name in "AB")
    c = conversation.consumer("C", "foo", instance="c")
    for member in (a, b, c):
        yield f"{member.name} joins", member.join
        yield f"{member.name} acknowledges", member.acknowledge
    yield "A commits", lambda: a.commit("foo", 0, 5)
    yield "A subscribes", lambda: a.subscribe("foo", "bar")
    yield "C leaves for a while", lambda: c.leave(-2)
    yield "C comes back", c.join
    yield "B leaves", b.leave
    yield "A has an old epoch", lambda: a.heartbeat(memberEpoch=1)
    yield "A leaves", a.leave


def _classic(conversation: Conversation) -> Iterator[Step]:
    a = conversation.classic("A", "foo")
    yield "A joins", a.join
    yield "A syncs", lambda: a.sync({a.member_id: {"foo": [0, 1]}})
    yield "A syncs again", a.sync
    yield "A joins again", a.join
    yield "A syncs the second generation", a.sync
    b = conversation.consumer("B", "foo")
    yield "the group is upgraded", b.join
    yield "A joins a consumer group", a.join
    yield "B leaves", b.leave
    yield "A leaves", a.leave


def _offsets(conversation: Conversation) -> Iterator[Step]:
    topics = conversation.commit_topics("foo", 0, 7, "")
    nobody = {"memberId": "", "generationIdOrMemberEpoch": -1, "groupInstanceId": None}
    send = conversation.send
    yield "nobody commits", lambda: send("x", "OffsetCommit", topics=topics, **nobody)
    yield "an offset is deleted", lambda: conversation.delete_offset("foo")


def _shares(conversation: Conversation) -> Iterator[Step]:
    a, b = (ShareClient(conversation, name) for name in "AB")
    yield "A joins", lambda: a.join("foo")
    yield "B joins", lambda: b.join("foo")
    yield "A subscribes", lambda: a.subscribe("foo", "bar")
    yield "B leaves", b.leave


def _streams(conversation: Conversation) -> Iterator[Step]:
    topology = [subtopology("0", sourceTopics=[conversation.topic_name("foo")])]
    a, b = (StreamsClient(conversation, name, f"process-{name}", topology) for name in "AB")
    yield "A joins", a.join
    yield "A acknowledges", a.acknowledge
    yield "B joins", b.join
    yield "B leaves", b.leave
    yield "A has another process", lambda: a.heartbeat(processId="other")


SCRIPTS = {"consumers": _consumers, "classic": _classic, "offsets": _offsets}
NEWER_SCRIPTS = {"shares": _shares, "streams": _streams}


def set_up(version: str) -> dict[str, str]:
    """A broker on which no session ends."""
    if version < NEWER:
        return settings(version)
    share = ("group.share.session.timeout.ms", "group.share.max.session.timeout.ms")
    return newer_settings(version) | dict.fromkeys(share, str(NEVER))


def _differences(comparison: BrokerComparison, metrics: BrokerMetrics, newer: bool) -> list[object]:
    """Runs the scripts. Returns the steps after which the counts have not risen alike."""
    counts = COUNTS + NEWER_COUNTS * newer
    differences: list[object] = []
    risen = set()
    for name, script in (SCRIPTS | (NEWER_SCRIPTS if newer else {})).items():
        conversation = Conversation(comparison, name)
        for topic in ("foo", "bar"):
            conversation.shared_topic(topic, 2)
        before = metrics.read(), comparison.reference.metrics()
        for what, act in script(conversation):
            act()
            after = metrics.read(), comparison.reference.metrics()
            rises = {n: (after[0][n] - before[0][n], after[1][n] - before[1][n]) for n in counts}
            risen |= {n for n, (theirs, _) in rises.items() if theirs}
            if any(theirs != ours for theirs, ours in rises.values()):
                differences.append((name, what, rises))
            before = after
    assert risen == set(counts)
    return differences


@pytest.mark.timeout(300)
@pytest.mark.parametrize("version", ["4.0.2", "4.3.1", "4.4.0"])
def test_metrics_are_those_of_a_broker(version: str) -> None:
    with (
        Broker(version, settings=set_up(version), offsets_partitions=1) as broker,
        BrokerMetrics(broker) as metrics,
    ):
        comparison = BrokerComparison(broker, version)
        differences = _differences(comparison, metrics, version >= NEWER)
        theirs, ours = {}, {}
        if version == NEWEST:
            time.sleep(GAUGES_AGE_S)
            theirs, ours = metrics.read(), comparison.reference.metrics()
            assert theirs["num-partitions[state=active]"] == 1
            for name in ("group-count[protocol=consumer]", "consumer-group-count[state=Stable]"):
                ours[name] += comparison.probes
        comparison.close()
    assert not differences
    gauges = [name for name in ours if name.startswith(GAUGES)]
    assert {name: theirs.get(name) for name in gauges} == {name: ours[name] for name in gauges}
    assert bool(gauges) == (version == NEWEST)
