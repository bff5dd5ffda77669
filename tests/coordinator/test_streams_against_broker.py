"""The reference against real brokers in streams groups: equal answers, and equal records in the
same order. What answers say of the group's status is not compared. The audit of the broker's log
finds nothing."""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from functools import partial

import pytest

from kip848_spark.checks.log_entries import log_entry
from kip848_spark.checks.results import Finding
from kip848_spark.checks.topics import KnownTopics
from kip848_spark.local.broker import Broker
from tests.audit.captured_logs import CONTROL as MODERN_AND_CLASSIC
from tests.audit.captured_logs import audit, whole
from tests.coordinator.broker_comparison import BrokerComparison
from tests.coordinator.conversation import NEVER, run_all
from tests.coordinator.conversations.registry import ConversationFunction
from tests.streams_conversations import applications, broker_settings
from tests.streams_scripts import SCRIPTS
from tests.streams_static_scripts import STATIC_SCRIPTS

pytestmark = pytest.mark.slow
RELEASES = ["4.2.2", "4.3.1", "4.4.0"]
CONTROL = (*MODERN_AND_CLASSIC, "17", "19", "20", "21", "22", "23")
ATTEMPTS = 3
"""Sessions end by the clock, on a machine that may be busy: a difference caused by timing does not
repeat, a real one does."""
Conversations = list[tuple[str, ConversationFunction]]


def settings(version: str) -> dict[str, str]:
    """No session ends unless a conversation intends it; targets are computed at once."""
    found = broker_settings(version) | {
        "group.streams.session.timeout.ms": str(NEVER),
        "group.streams.max.session.timeout.ms": str(NEVER),
        "group.consumer.session.timeout.ms": str(NEVER),
        "group.consumer.max.session.timeout.ms": str(NEVER),
    }
    if version >= "4.3":
        found["group.streams.assignment.interval.ms"] = "0"
        found["group.consumer.assignment.interval.ms"] = "0"
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


def findings(comparison: BrokerComparison) -> list[Finding]:
    """What the audit finds in the broker's log."""
    log = [
        log_entry(0, one.offset, one.timestamp, {"key": one.key, "value": one.payload})
        for one in comparison.logged
        if one.key is not None and one.key["type"] in CONTROL
    ]
    topics = comparison.reference.shard.topics
    known = KnownTopics.of(one for one in map(topics.named, topics.names()) if one is not None)
    return list(audit(log, known, whole(log)).findings)


SEEDS = (*range(4), 27, 58, 254)
"""Of 0 and 1 (4.2.2, 4.3.1), 58 and 254 (4.4.0), two members of a process have the same task after
one has moved there, and what they get depends on how the broker counts them. In 27, a static member
loses its target to a request that is refused."""


def generated(seeds: Iterable[int], release: str) -> Conversations:
    """Conversations of these seeds, none of which depends on the clock."""
    options = {"timed": False, "release": release}
    return [(f"application{seed}", partial(applications, seed=seed, **options)) for seed in seeds]


@pytest.mark.parametrize("version", RELEASES)
def test_scripted_and_generated_conversations(version: str) -> None:
    check_against_broker(
        version,
        [
            *SCRIPTS.items(),
            *STATIC_SCRIPTS.items(),
            *generated(SEEDS, version),
        ],
    )


@pytest.mark.long
@pytest.mark.timeout(3_600)
@pytest.mark.parametrize("version", RELEASES)
def test_three_hundred_generated_conversations(version: str) -> None:
    check_against_broker(version, generated(range(100, 400), version))
