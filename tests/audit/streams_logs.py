"""Logs of streams groups that real brokers wrote (``tests.capture_churn`` with ``--streams``)."""

from __future__ import annotations

from functools import lru_cache

from kip848_spark.checks.log_entries import SHARE_STREAMS_KINDS, LogEntry
from kip848_spark.checks.topics import KnownTopics
from kip848_spark.state import kinds
from tests.audit.fault_rates import FaultyLog
from tests.audit.raw_records import entries_of, topics_of
from tests.captures import COMMITTED, LIVE
from tests.conftest import DATA

STREAMS_KEY_TYPES = frozenset(
    key_type
    for kind, key_type in SHARE_STREAMS_KINDS.items()
    if kinds.group_type(kind) == "streams"
)
"""Key types of streams groups."""
MEMBER = "19"
CAPTURES = tuple(sorted(path.name for path in DATA.glob("streams-*")))


def streams_log(capture: str) -> list[LogEntry]:
    """The records of streams groups in a capture."""
    return [e for e in entries_of(DATA / capture / COMMITTED) if e.kind in STREAMS_KEY_TYPES]


def streams_topics(capture: str) -> KnownTopics:
    """The topics that its broker listed at the end."""
    return topics_of(DATA / capture / LIVE)


@lru_cache
def faulty_logs() -> tuple[FaultyLog, ...]:
    """All captures, to put faults into."""
    return tuple(
        FaultyLog.of(capture, streams_log(capture), streams_topics(capture)) for capture in CAPTURES
    )


@lru_cache
def static_logs() -> tuple[FaultyLog, ...]:
    """Of all captures, the groups with static members, which Kafka 4.4 and later have."""
    logs = []
    for capture in CAPTURES:
        log = streams_log(capture)
        static = {e.group for e in log if e.kind == MEMBER and (e.value or {}).get("instanceId")}
        if static:
            own = (entry for entry in log if entry.group in static)
            logs.append(FaultyLog.of(capture, own, streams_topics(capture)))
    return tuple(logs)
