"""The reference against real brokers: same answers, same records in the same order.

A response or record that lists two topics in another order counts apart: topic ids that share a
bucket of a Java table are walked in an order that depends on the table's whole past (facts D).
"""

from __future__ import annotations

import warnings

import pytest

from kip848_spark.local.broker import Broker
from tests.coordinator.broker_comparison import Duel
from tests.coordinator.conversation import NEVER, run_all
from tests.coordinator.conversations import STORIES
from tests.coordinator.conversations.registry import Telling
from tests.coordinator.random_conversations import consumers, migrations

RELEASES = ["4.3.1", "4.0.2"]
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
    },
}
"""What differs from the usual broker, by the name that stories ask for one with."""
ATTEMPTS = 3
"""Sessions end by the clock, on a machine that may be busy: what differs then differs once, what is
wrong differs every time."""
Tellings = list[tuple[str, Telling]]


def settings(version: str, kind: str = "plain") -> dict[str, str]:
    """Nobody expires but by a story; 4.3 makes a new target at once."""
    quiet = {
        "group.consumer.session.timeout.ms": str(NEVER),
        "group.consumer.max.session.timeout.ms": str(NEVER),
    }
    if version.startswith("4.3"):
        quiet["group.consumer.assignment.interval.ms"] = "0"
    return quiet | BROKERS[kind]


def fight(version: str, tellings: Tellings, kind: str = "plain") -> None:
    for attempt in range(ATTEMPTS):
        duel, records = told(version, tellings, kind)
        if not duel.differences or attempt == ATTEMPTS - 1:
            break
        warnings.warn(f"asked again: {duel.differences[0]}", stacklevel=2)
    listed = "\n".join(str(difference) for difference in duel.differences[:10])
    assert not duel.differences, f"{len(duel.differences)} differences, the first ones:\n{listed}"
    assert records > 2 * len(tellings)
    assert duel.reordered <= (duel.requests + records) / 200


def told(version: str, tellings: Tellings, kind: str) -> tuple[Duel, int]:
    """A duel that is over, and how many records were compared."""
    with Broker(version, settings=settings(version, kind), offsets_partitions=1) as broker:
        duel = Duel(broker, version)
        try:
            run_all(duel, tellings)
            records = duel.compare_logs()
        finally:
            duel.close()
    return duel, records


def scripted(kind: str, share: int = 1) -> Tellings:
    """The scripted conversations for one kind of broker, or every ``share``th of them."""
    stories = [story for story in STORIES.values() if story.broker == kind]
    return [(story.name, story.tell) for story in stories[::share]]


@pytest.mark.parametrize("version", RELEASES)
def test_scripted_conversations(version: str) -> None:
    fight(version, scripted("plain", share=5))


@pytest.mark.long
@pytest.mark.timeout(1_800)
@pytest.mark.parametrize("kind", BROKERS)
@pytest.mark.parametrize("version", RELEASES)
def test_all_scripted_conversations(version: str, kind: str) -> None:
    fight(version, scripted(kind), kind)


def _generated(seeds: range) -> Tellings:
    tellings: Tellings = []
    for seed in seeds:
        tellings.append((f"consumers{seed}", lambda talk, s=seed: consumers(talk, s)))
        tellings.append((f"migrations{seed}", lambda talk, s=seed: migrations(talk, s)))
    return tellings


@pytest.mark.parametrize("version", RELEASES)
def test_generated_conversations(version: str) -> None:
    fight(version, _generated(range(8)))


@pytest.mark.long
@pytest.mark.timeout(1_800)
@pytest.mark.parametrize("version", RELEASES)
def test_three_hundred_generated_conversations(version: str) -> None:
    fight(version, _generated(range(100, 250)))
