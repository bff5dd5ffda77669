"""Share groups: the reference against real brokers, as in `test_against_broker`.

The order of partitions within a list is not compared: it is that of hash tables with a history. The
audit of the broker's log finds nothing.
"""

from __future__ import annotations

import time
from collections.abc import Iterable

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from kip848_spark.local.broker import Broker
from tests.coordinator.broker_audit import findings
from tests.coordinator.broker_comparison import BrokerComparison
from tests.coordinator.conversation import NEVER, run_all
from tests.coordinator.conversations import SCRIPTED
from tests.coordinator.conversations.registry import ConversationFunction
from tests.coordinator.share_conversations import shares
from tests.coordinator.wire import Connection

pytestmark = pytest.mark.slow
Conversations = list[tuple[str, ConversationFunction]]
RELEASES = ["4.3.1", "4.1.2", "4.2.2", "4.4.0"]


def settings(version: str) -> dict[str, str]:
    """No session ends; from 4.3 on, targets are computed at once."""
    made = {
        "group.coordinator.rebalance.protocols": "classic,consumer,share,streams",
        **{
            f"group.{kind}.{name}session.timeout.ms": str(NEVER)
            for kind in ("consumer", "share", "streams")
            for name in ("", "max.")
        },
    }
    if version.startswith("4.1"):
        made["group.share.enable"] = "true"
        made["unstable.api.versions.enable"] = "true"
        made["unstable.feature.versions.enable"] = "true"
    else:
        made["group.streams.initial.rebalance.delay.ms"] = "0"
    if version >= "4.3":
        for kind in ("consumer", "share", "streams"):
            made[f"group.{kind}.assignment.interval.ms"] = "0"
    return made


def wake_share_coordinator(broker: Broker) -> None:
    """Let the share coordinator of 4.1 fail once: it knows no topic until one is created after its
    own topic.
    """
    connection = Connection(broker.bootstrap, "first")
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    for name in ("first", "second"):
        admin.create_topics([NewTopic(name, 1, 1)])[name].result()
        request = {
            "groupId": f"probe-{name}",
            "memberId": "first",
            "memberEpoch": 0,
            "rackId": None,
            "subscribedTopicNames": [name],
        }
        deadline, next_try = time.monotonic() + 90, 0.0
        while "__share_group_state" not in admin.list_topics().topics or not next_try:
            assert time.monotonic() < deadline, "the share coordinator has no topic"
            if time.monotonic() > next_try:  # what a busy broker leaves undone it does not repeat
                connection.receive(connection.send("ShareGroupHeartbeat", 1, request), 10)
                next_try = time.monotonic() + 10
            time.sleep(0.1)
    connection.close()


def check(version: str, conversations: Conversations) -> None:
    with Broker(version, settings=settings(version), offsets_partitions=1) as broker:
        comparison = BrokerComparison(broker, version)
        try:
            if version.startswith("4.1"):
                wake_share_coordinator(broker)
            run_all(comparison, conversations)
            records = comparison.compare_logs()
        finally:
            comparison.close()
    listed = "\n".join(str(difference) for difference in comparison.differences[:40])
    assert not comparison.differences, f"{len(comparison.differences)} differences:\n{listed}"
    assert records > 2 * len(conversations)
    assert not findings(comparison)


def scripted(version: str, every: int = 1) -> Conversations:
    """The scripted conversations of share groups, or every so many of them. Streams groups were
    early access in 4.1, where no member of one joins.
    """
    items = [item for item in SCRIPTED.values() if item.broker == "share"]
    if version.startswith("4.1"):
        items = [item for item in items if "joined-by-a-stream" not in item.name]
    return [(item.name, item.function) for item in items[::every]]


SEEDS = (*range(12), 323)
"""In 323, a deleted topic was the only one that had share state."""


def generated(seeds: Iterable[int]) -> Conversations:
    return [
        (f"shares{seed}", lambda conversation, s=seed: shares(conversation, s)) for seed in seeds
    ]


@pytest.mark.parametrize("version", RELEASES[:1])
def test_conversations(version: str) -> None:
    check(version, scripted(version, every=17) + generated(SEEDS))


@pytest.mark.long
@pytest.mark.timeout(1_800)
@pytest.mark.parametrize("version", RELEASES)
def test_all_scripted_conversations(version: str) -> None:
    check(version, scripted(version))


@pytest.mark.long
@pytest.mark.timeout(1_800)
@pytest.mark.parametrize("version", RELEASES)
def test_three_hundred_generated_conversations(version: str) -> None:
    check(version, generated(range(100, 400)))
