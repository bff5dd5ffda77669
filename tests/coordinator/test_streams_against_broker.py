"""The reference against real brokers in streams groups: equal answers, and equal records in the
same order. What answers say of the group's status is not compared. The audit of the broker's log
finds nothing."""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from functools import partial

import pytest

from kip848_spark.local.broker import Broker
from tests.coordinator.broker_audit import findings
from tests.coordinator.broker_comparison import BrokerComparison
from tests.coordinator.conversation import NEVER, run_all
from tests.coordinator.conversations import SCRIPTED
from tests.coordinator.conversations.registry import ConversationFunction, ScriptedConversation
from tests.streams_conversations import applications, broker_settings

pytestmark = pytest.mark.slow
RELEASES = ["4.2.2", "4.3.1", "4.4.0"]
ATTEMPTS = 3
"""Sessions end by the clock, on a machine that may be busy: a difference caused by timing does not
repeat, a real one does."""
Conversations = list[tuple[str, ConversationFunction]]


def settings(version: str) -> dict[str, str]:
    """No session ends unless a conversation intends it; targets are computed at once."""
    kinds = ("consumer", "share", "streams")
    found = broker_settings(version) | {
        "group.coordinator.rebalance.protocols": "classic,consumer,share,streams",
        **{
            f"group.{kind}.{name}session.timeout.ms": str(NEVER)
            for kind in kinds
            for name in ("", "max.")
        },
    }
    if version >= "4.3":
        found |= {f"group.{kind}.assignment.interval.ms": "0" for kind in kinds}
    return found


def check_against_broker(version: str, conversations: Conversations) -> None:
    for attempt in range(ATTEMPTS):
        with Broker(version, settings=settings(version), offsets_partitions=1) as broker:
            comparison = BrokerComparison(broker, version)
            try:
                run_all(comparison, conversations)
                records = comparison.compare_logs()
            finally:
                comparison.close()
        if not comparison.differences or attempt == ATTEMPTS - 1:
            break
        warnings.warn(f"repeated: {comparison.differences[0]}", stacklevel=2)
    listed = "\n".join(str(difference) for difference in comparison.differences[:10])
    assert not comparison.differences, (
        f"{len(comparison.differences)} differences, the first ones:\n{listed}"
    )
    assert records > 4 * len(conversations)
    assert not findings(comparison)


SEEDS = (*range(4), 27, 58, 254)
"""Of 0 and 1 (4.2.2, 4.3.1), 58 and 254 (4.4.0), two members of a process have the same task after
one has moved there, and what they get depends on how the broker counts them. In 27, a static member
loses its target to a request that is refused."""


def generated(seeds: Iterable[int], release: str) -> Conversations:
    """Conversations of these seeds, none of which depends on the clock."""
    options = {"timed": False, "release": release}
    return [(f"application{seed}", partial(applications, seed=seed, **options)) for seed in seeds]


def scripted(version: str) -> dict[str, list[ScriptedConversation]]:
    """The scripted conversations of streams groups by function. Static members exist from 4.4 on;
    that others refuse them is tested in each family.
    """
    kinds = ("streams", "streams-static") if version >= "4.4" else ("streams",)
    found: dict[str, list[ScriptedConversation]] = {}
    for item in SCRIPTED.values():
        if item.broker in kinds:
            found.setdefault(item.function_name, []).append(item)
    return found


def named(items: Iterable[ScriptedConversation]) -> Conversations:
    return [(item.name, item.function) for item in items]


@pytest.mark.parametrize("version", RELEASES)
def test_scripted_and_generated_conversations(version: str) -> None:
    """All that test one rule, and a few of each family."""
    functions = scripted(version).values()
    some = named(item for items in functions for item in items[::31])
    check_against_broker(version, some + generated(SEEDS, version))


@pytest.mark.long
@pytest.mark.timeout(1_800)
@pytest.mark.parametrize("version", RELEASES)
def test_all_scripted_conversations(version: str) -> None:
    check_against_broker(
        version, named(item for items in scripted(version).values() for item in items)
    )


@pytest.mark.long
@pytest.mark.timeout(3_600)
@pytest.mark.parametrize("version", RELEASES)
def test_three_hundred_generated_conversations(version: str) -> None:
    check_against_broker(version, generated(range(100, 400), version))
