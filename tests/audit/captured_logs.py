"""The control records of the captures, as Kafka's own tool read them, and audits of them."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping
from functools import lru_cache

from kip848_spark.checks.context import AuditContext
from kip848_spark.checks.coverage import Coverage
from kip848_spark.checks.group import GroupAudit
from kip848_spark.checks.log_entries import LogEntry, log_entry
from kip848_spark.checks.results import Tally
from kip848_spark.checks.topics import KnownTopics
from kip848_spark.coordinator.assignors import Assignor
from tests.audit.raw_records import entries_of, topics_of
from tests.captures import COMMITTED, DUMP, LIVE, read_dump
from tests.conftest import CAPTURED as RELEASES
from tests.conftest import DATA

CHURNED = tuple(sorted(path.name for path in DATA.glob("churn-*")))
"""Captures of heavy churn, with a broker restart in the middle."""
MOVING = tuple(sorted(path.name for path in DATA.glob("moving-*")))
"""The same, of groups that migrate and of members that subscribe by expression."""
UPGRADED = tuple(sorted(path.name for path in DATA.glob("upgraded-*")))
"""The same, of a broker that restarts with another release, newer or older, twice."""
CONTROL = ("2", "3", "4", "5", "6", "7", "8", "16")
__all__ = [
    "CHURNED", "CONTROL", "MOVING", "RELEASES", "UPGRADED", "audit", "churned", "churned_topics",
    "entries", "topics", "whole",
]  # fmt: skip


@lru_cache
def _entries(release: str) -> tuple[LogEntry, ...]:
    lines = read_dump(DATA / f"kafka-{release}" / DUMP)
    return tuple(
        log_entry(
            line["partition"],
            line["offset"],
            line["timestamp"],
            {"key": line["key"], "value": line["payload"]},
        )
        for line in lines
        if "key" in line and line["key"]["type"] in CONTROL
    )


def entries(release: str) -> list[LogEntry]:
    """The control records of a capture, in offset order of each partition; free to be edited."""
    return copy.deepcopy(list(_entries(release)))


@lru_cache
def topics(release: str) -> KnownTopics:
    """The topics that the captured broker listed."""
    return topics_of(DATA / f"kafka-{release}" / LIVE)


@lru_cache
def _churned(capture: str) -> tuple[LogEntry, ...]:
    return tuple(entries_of(DATA / capture / COMMITTED))


def churned(capture: str) -> list[LogEntry]:
    """The control records of a capture of heavy churn; free to be edited."""
    return copy.deepcopy(list(_churned(capture)))


@lru_cache
def churned_topics(capture: str) -> KnownTopics:
    """The topics that its broker listed at the end."""
    return topics_of(DATA / capture / LIVE)


def whole(log: Iterable[LogEntry]) -> Coverage:
    """A log that is all there, and that was read in the middle of nothing."""
    return Coverage.of((), {})


def audit(
    log: Iterable[LogEntry],
    known: KnownTopics,
    coverage: Coverage | None = None,
    release: str | None = None,
    assignors: Mapping[str, Assignor | None] | None = None,
) -> Tally:
    """What the audit of these records comes to."""
    context = AuditContext(coverage or Coverage(), known, release, assignors)
    audits: dict[tuple[int, str], GroupAudit] = {}
    for item in log:
        key = item.partition, item.group
        if key not in audits:
            audits[key] = GroupAudit(item.partition, item.group, context)
        audits[key].add(item)
    tally = Tally()
    for one in audits.values():
        tally.add(one.finish())
    return tally
