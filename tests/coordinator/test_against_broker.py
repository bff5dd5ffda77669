"""The reference against real brokers: equal answers, and equal records in the same order.

Responses and records that list two topics in another order are counted separately. The order of
topic ids in one bucket of a Java hash table depends on the whole history of the table
(docs/kafka-facts.md#hash-order).
"""

from __future__ import annotations

import warnings

import pytest

from kip848_spark.local.broker import Broker
from tests.coordinator.broker_comparison import BrokerComparison
from tests.coordinator.conversation import NEVER, run_all
from tests.coordinator.conversations import SCRIPTED
from tests.coordinator.conversations.registry import ConversationFunction
from tests.coordinator.random_conversations import consumers, migrations

pytestmark = pytest.mark.slow

RELEASES = ["4.3.1", "4.4.0", "4.0.2"]
OTHERS = [
    pytest.param(release, marks=pytest.mark.long)
    for release in ("4.3.0", "4.1.1", "4.1.0", "4.0.1", "4.0.0")
]
MIGRATION = "group.consumer.migration.policy"
BROKERS: dict[str, dict[str, str]] = {
    "plain": {},
    "upgrade": {MIGRATION: "upgrade"},
    "downgrade": {MIGRATION: "downgrade"},
    "disabled": {MIGRATION: "disabled"},
    "small": {
        "group.consumer.max.size": "2",
        "group.max.size": "2",
        "group.consumer.assignors": "range",
        "offset.metadata.max.bytes": "8",
        "offsets.retention.minutes": "1",
        "offsets.retention.check.interval.ms": "2000",
        "broker.rack": "here",
        "group.initial.rebalance.delay.ms": "1000",
        "group.consumer.regex.refresh.interval.ms": "10000",
    },
}
"""Settings that differ from the usual broker, by the kind of broker that conversations request."""
ATTEMPTS = 3
"""Sessions end by the clock, on a machine that may be busy: a difference caused by timing does not
repeat, a real one does.
"""
Conversations = list[tuple[str, ConversationFunction]]


def settings(version: str, kind: str = "plain") -> dict[str, str]:
    """No session ends unless a conversation intends it; in 4.3, targets are computed at once."""
    settings = {
        "group.consumer.session.timeout.ms": str(NEVER),
        "group.consumer.max.session.timeout.ms": str(NEVER),
    }
    if version.startswith(("4.3", "4.4")):
        settings["group.consumer.assignment.interval.ms"] = "0"
    return settings | BROKERS[kind]


def check_against_broker(version: str, conversations: Conversations, kind: str = "plain") -> None:
    for attempt in range(ATTEMPTS):
        comparison, records = run_comparison(version, conversations, kind)
        if not comparison.differences or attempt == ATTEMPTS - 1:
            break
        warnings.warn(f"repeated: {comparison.differences[0]}", stacklevel=2)
    listed = "\n".join(str(difference) for difference in comparison.differences[:10])
    assert not comparison.differences, (
        f"{len(comparison.differences)} differences, the first ones:\n{listed}"
    )
    assert records > 2 * len(conversations)
    assert comparison.reordered <= (comparison.requests + records) / 200


def run_comparison(
    version: str, conversations: Conversations, kind: str
) -> tuple[BrokerComparison, int]:
    """Run conversations against a new broker; returns the comparison and the number of records
    compared.
    """
    with Broker(version, settings=settings(version, kind), offsets_partitions=1) as broker:
        comparison = BrokerComparison(broker, version)
        try:
            run_all(comparison, conversations)
            records = comparison.compare_logs()
        finally:
            comparison.close()
    return comparison, records


def select_scripted(kind: str, share: int = 1) -> Conversations:
    """The scripted conversations for one kind of broker, or every ``share``-th of them."""
    items = [item for item in SCRIPTED.values() if item.broker == kind]
    return [(item.name, item.function) for item in items[::share]]


@pytest.mark.parametrize("version", [*RELEASES, *OTHERS])
def test_scripted_conversations(version: str) -> None:
    check_against_broker(version, select_scripted("plain", share=5))


@pytest.mark.long
@pytest.mark.timeout(1_800)
@pytest.mark.parametrize("kind", BROKERS)
@pytest.mark.parametrize("version", [*RELEASES, *OTHERS])
def test_all_scripted_conversations(version: str, kind: str) -> None:
    check_against_broker(version, select_scripted(kind), kind)


def _select_generated(seeds: range) -> Conversations:
    conversations: Conversations = []
    for seed in seeds:
        conversations.append(
            (f"consumers{seed}", lambda conversation, s=seed: consumers(conversation, s))
        )
        conversations.append(
            (f"migrations{seed}", lambda conversation, s=seed: migrations(conversation, s))
        )
    return conversations


@pytest.mark.parametrize("version", [*RELEASES, *OTHERS])
def test_generated_conversations(version: str) -> None:
    check_against_broker(version, _select_generated(range(8)))


@pytest.mark.long
@pytest.mark.timeout(1_800)
@pytest.mark.parametrize("version", [*RELEASES, *OTHERS])
def test_three_hundred_generated_conversations(version: str) -> None:
    check_against_broker(version, _select_generated(range(100, 250)))
