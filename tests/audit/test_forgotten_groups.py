"""Empty groups that a real coordinator forgot without a record: their epochs start again, and no
check may take this for a fault (docs/kafka-facts.md#epoch-restarts-without-a-tombstone).
"""

from __future__ import annotations

import pytest

from kip848_spark.checks.log_entries import LogEntry, log_entry
from kip848_spark.checks.topics import KnownTopics
from kip848_spark.coordinator.topics import Topic
from kip848_spark.local.broker import Broker
from tests.audit.captured_logs import CONTROL, audit
from tests.coordinator.broker_comparison import BrokerComparison
from tests.coordinator.conversation import run_all
from tests.coordinator.conversations import SCRIPTED
from tests.coordinator.test_against_broker import settings

pytestmark = pytest.mark.slow

CONVERSATION = "unknown_classic_member_joins_an_empty_consumer_group"


def forgotten(version: str) -> tuple[list[LogEntry], KnownTopics]:
    """The control records of groups that were forgotten, from a broker, and its topics."""
    conversations = [
        (item.name, item.function)
        for item in SCRIPTED.values()
        if item.function_name == CONVERSATION
    ]
    with Broker(version, settings=settings(version), offsets_partitions=1) as broker:
        comparison = BrokerComparison(broker, version)
        run_all(comparison, conversations)
        topics = [
            Topic(name, topic_id, comparison.reference.shard.topics.named(name).partitions)
            for name, topic_id in comparison.topic_ids.items()
        ]
        comparison.close()
        log = [
            log_entry(0, found.offset, found.timestamp, {"key": found.key, "value": found.payload})
            for found in broker.dump_all()
            if found.key is not None and found.key["type"] in CONTROL
        ]
    return log, KnownTopics.of(topics)


@pytest.mark.parametrize("version", ["4.3.1", pytest.param("4.0.2", marks=pytest.mark.long)])
def test_epochs_that_start_again_are_no_finding(version: str) -> None:
    log, topics = forgotten(version)
    epochs: dict[str, list[int]] = {}
    restarted, replaced = set(), set()
    for item in log:
        own = epochs.setdefault(item.group, [])
        if item.kind == "3" and item.value is not None:
            if own and item.value["epoch"] < own[-1]:
                restarted.add(item.group)
            own.append(item.value["epoch"])
        elif item.value is None and item.kind in ("2", "3"):
            own.clear()
        elif item.kind == "2" and own:
            replaced.add(item.group)
    assert len(restarted) == 2  # the broker did forget them: with and without an expression
    assert len(replaced) == 2
    assert audit(log, topics).findings == []
