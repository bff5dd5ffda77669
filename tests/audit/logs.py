"""The control records of the captures, as Kafka's own tool read them, and audits of them."""

from __future__ import annotations

import copy
from collections.abc import Iterable
from functools import lru_cache

from kip848_spark.audit.coverage import Coverage
from kip848_spark.audit.entries import Entry, entry
from kip848_spark.audit.group import GroupAudit, Settings
from kip848_spark.audit.results import Tally
from kip848_spark.audit.topics import KnownTopics
from kip848_spark.coordinator.topics import Topic
from tests.captures import DUMP, LIVE, read_dump, read_live
from tests.conftest import DATA, RELEASES

CONTROL = ("2", "3", "4", "5", "6", "7", "8", "16")
__all__ = ["CONTROL", "RELEASES", "audit", "entries", "topics", "whole"]


@lru_cache
def _entries(release: str) -> tuple[Entry, ...]:
    lines = read_dump(DATA / f"kafka-{release}" / DUMP)
    return tuple(
        entry(
            line["partition"],
            line["offset"],
            line["timestamp"],
            {"key": line["key"], "value": line["payload"]},
        )
        for line in lines
        if "key" in line and line["key"]["type"] in CONTROL
    )


def entries(release: str) -> list[Entry]:
    """The control records of a capture, in offset order of each partition; free to be edited."""
    return copy.deepcopy(list(_entries(release)))


@lru_cache
def topics(release: str) -> KnownTopics:
    """The topics that the captured broker listed."""
    live = read_live(DATA / f"kafka-{release}" / LIVE)
    listed = [
        Topic(t.name, t.topic_id.replace("+", "-").replace("/", "_"), t.partitions)
        for t in live.topics.values()
    ]
    return KnownTopics.of(listed)


def whole(log: Iterable[Entry]) -> Coverage:
    """A log that is all there, and that was read in the middle of nothing."""
    return Coverage.of((), {})


def audit(
    log: Iterable[Entry],
    known: KnownTopics,
    coverage: Coverage | None = None,
    release: str | None = None,
) -> Tally:
    """What the audit of these records comes to."""
    settings = Settings(coverage or Coverage(), known, release)
    audits: dict[tuple[int, str], GroupAudit] = {}
    for item in log:
        key = item.partition, item.group
        if key not in audits:
            audits[key] = GroupAudit(item.partition, item.group, settings)
        audits[key].add(item)
    tally = Tally()
    for one in audits.values():
        tally.add(one.finish())
    return tally
