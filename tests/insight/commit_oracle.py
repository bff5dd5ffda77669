"""What a summary of commits must be: computed record by record, with dictionaries."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from typing import Any

Record = dict[str, Any]
"""A commit or its tombstone: the columns of `records`."""
Key = tuple[int, str, str, int]


def key_of(record: Record) -> Key:
    return record["partition"], record["group_id"], record["topic"], record["topic_partition"]


def day_of(time: datetime) -> date:
    return time.astimezone(UTC).date()


@dataclass
class Activity:
    """What happened to a key on one day."""

    commits: int = 0
    tombstones: int = 0
    bytes: int = 0
    offsets: list[int] = field(default_factory=list)
    rewinds: list[int] = field(default_factory=list)

    def row(self) -> tuple[int, ...]:
        return (
            self.commits, self.tombstones, self.bytes, min(self.offsets), max(self.offsets),
            len(self.rewinds), max(self.rewinds, default=0),
        )  # fmt: skip


def activity(records: Iterable[Record]) -> dict[tuple[Key, date], tuple[int, ...]]:
    """By key and day: commits, tombstones, bytes, the first and the last offset, the number of
    rewinds and the largest one. ``records`` are in offset order."""
    found: dict[tuple[Key, date], Activity] = {}
    committed: dict[Key, int] = {}
    for record in records:
        key = key_of(record)
        day = found.setdefault((key, day_of(record["timestamp"])), Activity())
        day.offsets.append(record["offset"])
        day.bytes += record["size"]
        if record["tombstone"]:
            day.tombstones += 1
            committed.pop(key, None)
            continue
        day.commits += 1
        if record["committed_offset"] < committed.get(key, record["committed_offset"]):
            day.rewinds.append(committed[key] - record["committed_offset"])
        committed[key] = record["committed_offset"]
    return {place: day.row() for place, day in found.items()}


def rewinds(records: Iterable[Record]) -> list[tuple[Any, ...]]:
    """Key, offset, time, committed offset before and after of each commit that went back."""
    found = []
    committed: dict[Key, int] = {}
    for record in records:
        key, now = key_of(record), record["committed_offset"]
        if record["tombstone"]:
            committed.pop(key, None)
            continue
        if now < committed.get(key, now):
            found.append((key, record["offset"], record["timestamp"], committed[key], now))
        committed[key] = now
    return sorted(found)


def newest(records: Iterable[Record]) -> dict[Key, Record]:
    """The last record of each key."""
    return {key_of(record): record for record in records}


def commits_of_groups(records: Sequence[Record]) -> dict[tuple[int, str], tuple[Any, ...]]:
    """By partition and group: offset and time of the first and of the last commit."""
    found: dict[tuple[int, str], tuple[Any, ...]] = {}
    for record in records:
        if not record["tombstone"]:
            group = record["partition"], record["group_id"]
            here = record["offset"], record["timestamp"]
            first = found.get(group, here)[:2]
            found[group] = (*first, *here)
    return found


def at_day(day: int, seconds: int = 0) -> datetime:
    """A time on a day counted from 2026-01-01."""
    return datetime(2026, 1, 1, tzinfo=UTC) + timedelta(days=day, seconds=seconds)
