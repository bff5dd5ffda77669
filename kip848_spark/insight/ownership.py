"""Who owned which partition, from rows of `assignment_history` of one group."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import zip_longest

from kip848_spark.wire.tables import Row

TopicPartition = tuple[str, int]
"""A partition of a topic: the topic's name, and the number."""

ASSIGNED, PENDING, TARGET = "assigned", "pending_revocation", "target"
END = datetime.max.replace(tzinfo=UTC)
"""Stands for the end of an interval that has not ended."""


@dataclass(frozen=True)
class Unowned:
    """A time without owner of a partition that had one before. ``end`` is None if there is no
    owner yet."""

    place: TopicPartition
    start: datetime
    end: datetime | None


def place(row: Row) -> TopicPartition:
    """The partition of a row. A topic whose name is not known is named by its id."""
    return row["topic"] or row["topic_id"] or "?", row["topic_partition"]


def held_before(row: Row, time: datetime) -> bool:
    """True if the row was true just before a time. The records of one operation of the coordinator
    have the same time, so this is the state before the operation."""
    return bool(row["valid_from"] < time <= (row["valid_to"] or END))


def holds_after(row: Row, offset: int) -> bool:
    """True if the row was true after the record at ``offset``."""
    return row["from_offset"] <= offset and (row["to_offset"] is None or row["to_offset"] > offset)


def owned_before(rows: Iterable[Row], member_id: str, time: datetime) -> list[TopicPartition]:
    """The partitions that a member owned just before a time, sorted."""
    return sorted(
        {
            place(row)
            for row in rows
            if row["member_id"] == member_id
            and row["role"] in (ASSIGNED, PENDING)
            and held_before(row, time)
        }
    )


def given_up(
    rows: Iterable[Row], member_id: str, start: datetime, end: datetime
) -> list[TopicPartition]:
    """The partitions that a member had to give up between two times, sorted."""
    return sorted(
        {
            place(row)
            for row in rows
            if row["member_id"] == member_id
            and row["role"] == PENDING
            and row["valid_from"] <= end
            and (row["valid_to"] or END) >= start
        }
    )


def unknown_times(groups: Iterable[Row]) -> list[tuple[datetime, datetime]]:
    """From when until when records of a group are missing (`END`: until now), in order.
    ``groups`` are its rows of `group_history`."""
    rows = sorted(groups, key=lambda row: row["from_offset"])
    found = []
    for row, following in zip_longest(rows, rows[1:]):
        again = following is not None and following["known_from"] is not None
        if again or row.get("known_to") is not None:
            found.append((row["valid_to"], following["valid_from"] if following else END))
    return found


def times_without_owner(
    rows: Iterable[Row], groups: Iterable[Row], start: datetime, end: datetime | None
) -> list[Unowned]:
    """The times within ``start`` and ``end`` (None: no end) in which a partition had no owner after
    it had one, the longest first, but for those of which records are missing. ``rows`` are of
    `assignment_history`, ``groups`` of `group_history` around that time. A member does not own a
    partition that it was told to give up.

    For a rebalance that ended, the sum is ``unowned_ms`` of the table `rebalances`, which
    `movements.unowned_time` computes."""
    unknown = unknown_times(groups)
    owners: dict[TopicPartition, list[Row]] = {}
    for row in rows:
        if row["role"] == ASSIGNED:
            # A topic that was deleted and created again has the same name.
            topic = row["topic_id"] or row["topic"]
            owners.setdefault((topic, row["topic_partition"]), []).append(row)
    found = []
    for intervals in owners.values():
        intervals.sort(key=lambda row: row["from_offset"])
        where = place(intervals[0])
        until: datetime | None = intervals[0]["valid_to"]
        # ``groups`` may lack the rows of a later time, so an unseen end of an owner counts as well.
        unseen = {row["valid_to"] for row in intervals if row.get("known_to") is not None}
        for row in intervals[1:]:
            if until is None:
                break
            if until not in unseen:
                found.append(Unowned(where, until, row["valid_from"]))
            until = None if row["valid_to"] is None else max(until, row["valid_to"])
        if until is not None and until not in unseen:
            found.append(Unowned(where, until, None))
    last = end or END
    cut = [
        Unowned(
            one.place, max(one.start, start), one.end if end is None else min(one.end or END, end)
        )
        for one in found
        if one.start <= last and (one.end or END) > start
    ]
    lasting = [one for one in cut if one.end is None or one.end > one.start]
    known = [
        one
        for one in lasting
        if not any(lost < (one.end or END) and one.start < again for lost, again in unknown)
    ]
    return sorted(known, key=lambda one: (one.start - (one.end or END), one.place))
