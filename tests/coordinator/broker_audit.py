"""The audit of a log that a broker wrote while it was compared with the reference."""

from __future__ import annotations

from kip848_spark.checks.log_entries import SHARE_STREAMS_KEY_TYPES, log_entry
from kip848_spark.checks.results import Finding
from kip848_spark.checks.topics import KnownTopics
from tests.audit.captured_logs import CONTROL as MODERN_AND_CLASSIC
from tests.audit.captured_logs import audit, whole
from tests.coordinator.broker_comparison import BrokerComparison

CONTROL = {*MODERN_AND_CLASSIC, *SHARE_STREAMS_KEY_TYPES}


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
