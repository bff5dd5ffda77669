"""The reference against real brokers: same answers, same records in the same order.

A response or record that lists two topics in another order counts apart: topic ids that share a
bucket of a Java table are walked in an order that depends on the table's whole past (facts D).
"""

from __future__ import annotations

import warnings
from collections.abc import Callable

import pytest

from kip848_spark.local.broker import Broker
from tests.coordinator import generated
from tests.coordinator.conversations import STORIES
from tests.coordinator.duel import Conversation, Duel, Talk, run_all

RELEASES = ["4.3.1", "4.0.2"]


def settings(version: str) -> dict[str, str]:
    quiet = {"group.consumer.session.timeout.ms": "60000"}  # nobody expires but by a story
    if version.startswith("4.3"):
        quiet["group.consumer.assignment.interval.ms"] = "0"
    return quiet


ATTEMPTS = 3
"""Sessions end by the clock, on a machine that may be busy: what differs then differs once, what is
wrong differs every time."""


def fight(version: str, tellers: list[tuple[str, Callable[[Talk], Conversation]]]) -> None:
    for attempt in range(ATTEMPTS):
        duel, records = told(version, tellers)
        if not duel.differences or attempt == ATTEMPTS - 1:
            break
        warnings.warn(f"asked again: {duel.differences[0]}", stacklevel=2)
    listed = "\n".join(str(difference) for difference in duel.differences[:10])
    assert not duel.differences, f"{len(duel.differences)} differences, the first ones:\n{listed}"
    assert records > 100
    assert duel.reordered <= (duel.requests + records) / 200


def told(
    version: str, tellers: list[tuple[str, Callable[[Talk], Conversation]]]
) -> tuple[Duel, int]:
    """A duel that is over, and how many records were compared."""
    with Broker(version, settings=settings(version), offsets_partitions=1) as broker:
        duel = Duel(broker, version)
        try:
            run_all(duel, [tell(Talk(duel, name)) for name, tell in tellers])
            records = duel.compare_logs()
        finally:
            duel.close()
    return duel, records


@pytest.mark.parametrize("version", RELEASES)
def test_scripted_conversations(version: str) -> None:
    fight(version, [(story.__name__.replace("_", "-"), story) for story in STORIES])


def _generated(seeds: range) -> list[tuple[str, Callable[[Talk], Conversation]]]:
    tellers: list[tuple[str, Callable[[Talk], Conversation]]] = []
    for seed in seeds:
        tellers.append((f"consumers{seed}", lambda talk, s=seed: generated.consumers(talk, s)))
        tellers.append((f"migrations{seed}", lambda talk, s=seed: generated.migrations(talk, s)))
    return tellers


@pytest.mark.parametrize("version", RELEASES)
def test_generated_conversations(version: str) -> None:
    fight(version, _generated(range(8)))


@pytest.mark.long
@pytest.mark.parametrize("version", RELEASES)
def test_three_hundred_generated_conversations(version: str) -> None:
    fight(version, _generated(range(100, 250)))
