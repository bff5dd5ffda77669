"""What happened in a group, in order; and who owned a partition, in order.

Both are made from rows of the history tables of one group. Rows that were true for no time are left
out, and a row follows another one if it begins at the time when that one ends: the records of one
operation of the coordinator have one timestamp, and what was true between them happened to nobody.
An operation that converts a group, for example, deletes it first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from kip848_spark.insight.departures import is_away
from kip848_spark.insight.ownership import (
    ASSIGNED,
    END,
    PENDING,
    TopicPartition,
    place,
    unknown_times,
)
from kip848_spark.wire.tables import Row

KNOWN, CREATED, DELETED, EPOCH = "known", "created", "deleted", "epoch"
UNKNOWN = "unknown"
PRESENT, JOINED, GONE = "present", "joined", "gone"
AWAY, RETURNED = "away", "returned"
GOT, MUST_GIVE_UP, GAVE_UP = "got", "must_give_up", "gave_up"
EVENTS = {
    KNOWN: "the history begins here: earlier records are missing",
    CREATED: "the group was created",
    DELETED: "the group was deleted",
    UNKNOWN: "the history ends here: later records are missing",
    EPOCH: "the group has a new epoch",
    PRESENT: "the member was in the group when the requested time began",
    JOINED: "the member joined",
    AWAY: "the static member is away, and can return within its session timeout",
    RETURNED: "the static member returned, with the same member id",
    GONE: "the member left, expired or was removed",
    GOT: "the member got partitions",
    MUST_GIVE_UP: "the member was told to give up partitions, and still owns them",
    GAVE_UP: "the member gave up partitions, or lost them",
}
"""The kinds of events."""


@dataclass(frozen=True)
class Event:
    """Something that happened at a record of the topic. ``epoch`` is the group's epoch after the
    operation that it belongs to. ``member_id`` is None if it concerns the group."""

    at: datetime
    offset: int
    kind: str
    member_id: str | None = None
    partitions: tuple[TopicPartition, ...] = ()
    epoch: int | None = None


def events(
    groups: Sequence[Row],
    members: Sequence[Row],
    assignments: Sequence[Row],
    since: datetime | None = None,
    until: datetime | None = None,
) -> list[Event]:
    """The events from ``since`` to before ``until`` in the order of their records, but a member
    joins before it gets partitions. Members that were there at ``since`` come first, with what they
    owned."""
    groups, members, assignments = map(lasting, (groups, members, assignments))
    found = [*_of_group(groups), *_of_members(members), *_of_partitions(assignments)]
    if since is not None:
        present = _present(members, assignments, since)
        found = [*present, *(one for one in found if one.at >= since)]
    if until is not None:
        found = [one for one in found if one.at < until]
    merged = _merge(sorted(found, key=_order(found)))
    return list(_with_epochs(merged, groups))


def _order(found: Iterable[Event]) -> Callable[[Event], tuple[int, int, str]]:
    """The sort key of events. An operation may write the record of an assignment before that of its
    new member, and one record may concern several members."""
    kinds = list(EVENTS)
    first: dict[tuple[str | None, datetime], int] = {}
    for one in found:
        if one.kind == GOT:
            place = one.member_id, one.at
            first[place] = min(one.offset, first.get(place, one.offset))

    def key(one: Event) -> tuple[int, int, str]:
        got = first.get((one.member_id, one.at), one.offset) if one.kind == JOINED else one.offset
        return min(got, one.offset), kinds.index(one.kind), one.member_id or ""

    return key


@dataclass(frozen=True)
class Ownership:
    """A time in which a member owned a partition, or in which nobody did (``member_id`` None), or
    of which records are missing (also None, and not ``known``).

    ``end`` is None if it lasts. ``giving_up``: the member had been told to give up the partition
    and had not confirmed it yet. ``away``: it was a static member that had left temporarily."""

    start: datetime
    end: datetime | None
    member_id: str | None
    giving_up: bool = False
    known: bool = True
    away: bool = False


def owners(
    rows: Iterable[Row], groups: Iterable[Row], members: Iterable[Row] = ()
) -> list[Ownership]:
    """The owners of one partition in one group, in order, and the times between them: without an
    owner, or not known. ``rows`` are of `assignment_history`, of that group and partition;
    ``groups`` are all rows of that group in `group_history`, and ``members`` those of the owners in
    `member_history`.

    In a share group, several members may own it at the same time.
    """
    joined: list[Ownership] = []
    last: dict[tuple[str, bool, datetime | None], int] = {}
    for row in lasting(row for row in rows if row["role"] in (ASSIGNED, PENDING)):
        member, pending = row["member_id"], row["role"] == PENDING
        start, end = row["valid_from"], row["valid_to"]
        number = last.pop((member, pending, start), None)
        if number is None:
            number = len(joined)
            joined.append(Ownership(start, end, member, pending))
        else:
            joined[number] = replace(joined[number], end=end)
        last.setdefault((member, pending, end), number)
    joined = _apart_while_away(joined, members)
    unknown = unknown_times(groups)
    found: list[Ownership] = []
    until: datetime | None = None
    for one in joined:
        if until is not None:
            found.extend(_without_owner(until, one.start, unknown))
        found.append(one)
        until = max(until or one.start, one.end or END)
    if until is not None:
        found.extend(_without_owner(until, END, unknown))
    return found


def _apart_while_away(owned: Iterable[Ownership], members: Iterable[Row]) -> list[Ownership]:
    """``owned`` in the order of time, divided where an owner left temporarily and returned."""
    times: dict[str, list[tuple[datetime, datetime]]] = {}
    for row in lasting(members):
        if is_away(row):
            times.setdefault(row["member_id"], []).append(
                (row["valid_from"], row["valid_to"] or END)
            )
    found = []
    for one in owned:
        start, end = one.start, one.end or END
        for first, last in times.get(one.member_id or "", ()):
            if first < end and last > start:
                if start < first:
                    found.append(replace(one, start=start, end=first))
                begin, start = max(start, first), min(last, end)
                found.append(replace(one, start=begin, end=_or_none(start), away=True))
        if start < end:
            found.append(replace(one, start=start))
    return sorted(found, key=lambda one: one.start)


def _without_owner(
    start: datetime, end: datetime, unknown: Iterable[tuple[datetime, datetime]]
) -> Iterator[Ownership]:
    """The parts of a time in which no member is known to own a partition."""
    for first, last in unknown:
        if first < end and last > start:
            if start < first:
                yield Ownership(start, first, None)
            start, begin = min(last, end), max(start, first)
            yield Ownership(begin, _or_none(start), None, known=False)
    if start < end:
        yield Ownership(start, _or_none(end), None)


def _or_none(end: datetime) -> datetime | None:
    return None if end == END else end


def lasting(rows: Iterable[Row]) -> list[Row]:
    """The rows that were true for some time, in the order of their offsets. If the beginning or the
    end of a row that is left out was not seen, that of its neighbour was not seen either, and has
    its offset."""
    found = sorted(rows, key=lambda row: row["from_offset"])
    found = _passed_on(found, "known_from", ("valid_from", "from_offset"), "to_offset")
    found = _passed_on(found[::-1], "known_to", ("valid_to", "to_offset"), "from_offset")[::-1]
    return [row for row in found if row["valid_from"] != row["valid_to"]]


def life_before(groups: Iterable[Row], time: datetime) -> tuple[list[Row], datetime | None]:
    """The rows of a group that follow one another until just before ``time``, in order, without
    those of an earlier group of the same name; and the time at which that one was deleted (None if
    there was none, or if records are missing). ``groups`` are rows of `group_history`."""
    found: list[Row] = []
    end, unseen = time, False
    for row in reversed([row for row in lasting(groups) if row["valid_from"] <= time]):
        if row["valid_from"] == time:
            unseen = row["known_from"] is not None
            continue
        follows = (row["valid_to"] or END) >= end if not found else row["valid_to"] == end
        if not follows or unseen:
            is_seen = not unseen and row.get("known_to") is None
            return found[::-1], row["valid_to"] if is_seen else None
        found.append(row)
        end, unseen = row["valid_from"], row["known_from"] is not None
    return found[::-1], None


def _passed_on(rows: Iterable[Row], known: str, bound: tuple[str, str], other: str) -> list[Row]:
    """``rows``, of which those that were true for no time pass an unseen ``bound`` on to the next
    row of the same group, member or partition: that which has this bound at the offset ``other``.
    ``known`` is the column that says that the bound (its time and offset) was not seen."""
    time, offset = bound
    unseen: dict[tuple[object, ...], int] = {}
    found = []
    for row in rows:
        what = tuple(row.get(name) for name in _IDENTITY)
        outer = unseen.get((*what, row[offset]))
        if outer is None and row.get(known) is not None:
            outer = row[offset]
        if outer is None:
            found.append(row)
            continue
        found.append({**row, known: row[time], offset: outer})
        if row["valid_from"] == row["valid_to"]:
            unseen[*what, row[other]] = outer
    return found


_IDENTITY = ("member_id", "role", "topic_id", "topic", "topic_partition")


def _holds(row: Row, before: datetime) -> bool:
    """True if the row was true just before a time."""
    return bool(row["valid_from"] < before <= (row["valid_to"] or END))


def _of_group(rows: Sequence[Row]) -> Iterator[Event]:
    before: Row | None = None
    for row in rows:
        follows = before is not None and before["valid_to"] == row["valid_from"]
        if before is not None and not follows:
            yield _end(before)
        if not follows:
            kind = CREATED if row["known_from"] is None else KNOWN
            yield Event(row["valid_from"], row["from_offset"], kind)
        elif before is not None and before["epoch"] != row["epoch"]:
            yield Event(row["valid_from"], row["from_offset"], EPOCH)
        before = row
    if before is not None and before["to_offset"] is not None:
        yield _end(before)


def _end(row: Row) -> Event:
    kind = DELETED if row.get("known_to") is None else UNKNOWN
    return Event(row["valid_to"], row["to_offset"], kind)


def _of_members(rows: Sequence[Row]) -> Iterator[Event]:
    runs: dict[str, list[Row]] = {}
    for row in rows:
        runs.setdefault(row["member_id"], []).append(row)
    for member_id, intervals in runs.items():
        for before, row in zip([None, *intervals], intervals, strict=False):
            if before is None or before["valid_to"] != row["valid_from"]:
                kind = JOINED if row["known_from"] is None else PRESENT
                yield Event(row["valid_from"], row["from_offset"], kind, member_id)
                if is_away(row):
                    yield Event(row["valid_from"], row["from_offset"], AWAY, member_id)
            elif is_away(row) != is_away(before):
                kind = AWAY if is_away(row) else RETURNED
                yield Event(row["valid_from"], row["from_offset"], kind, member_id)
        for row, after in zip(intervals, [*intervals[1:], None], strict=False):
            ended = row["valid_to"] is not None and row.get("known_to") is None
            if ended and (after is None or after["valid_from"] != row["valid_to"]):
                yield Event(row["valid_to"], row["to_offset"], GONE, member_id)


def _of_partitions(rows: Sequence[Row]) -> Iterator[Event]:
    held = [row for row in rows if row["role"] in (ASSIGNED, PENDING)]
    ends = {(row["member_id"], place(row), row["valid_to"]) for row in held}
    starts = {(row["member_id"], place(row), row["valid_from"]) for row in held}
    given_up = {
        (row["member_id"], place(row), row["valid_to"]) for row in held if row["role"] == PENDING
    }
    for row in held:
        member, where = row["member_id"], place(row)
        continued = (member, where, row["valid_from"]) in ends
        start = row["valid_from"], row["from_offset"]
        if row["role"] == PENDING:
            yield Event(*start, MUST_GIVE_UP, member, (where,))
            back = False
        else:  # a member that gives a partition up may get it back in the same operation
            back = (member, where, row["valid_from"]) in given_up
        if (back or not continued) and row["known_from"] is None:
            yield Event(*start, GOT, member, (where,))
        ended = row["to_offset"] is not None and row.get("known_to") is None
        if ended and (member, where, row["valid_to"]) not in starts:
            yield Event(row["valid_to"], row["to_offset"], GAVE_UP, member, (where,))


def _present(
    members: Sequence[Row], assignments: Sequence[Row], since: datetime
) -> Iterator[Event]:
    owned: dict[str, list[TopicPartition]] = {}
    for row in assignments:
        if row["role"] in (ASSIGNED, PENDING) and _holds(row, since):
            owned.setdefault(row["member_id"], []).append(place(row))
    for row in sorted(members, key=lambda row: str(row["member_id"])):
        if _holds(row, since):
            mine = tuple(sorted(owned.get(row["member_id"], ())))
            yield Event(since, -1, PRESENT, row["member_id"], mine)
            if is_away(row):
                yield Event(since, -1, AWAY, row["member_id"])


def _merge(found: Iterable[Event]) -> Iterator[Event]:
    """``found`` with one event in place of several that only differ in their partitions."""
    last: Event | None = None
    for one in found:
        if last is not None and replace(one, partitions=()) == replace(last, partitions=()):
            places = tuple(sorted({*last.partitions, *one.partitions}))
            last = replace(last, partitions=places)
            continue
        if last is not None:
            yield last
        last = one
    if last is not None:
        yield last


def _with_epochs(found: Iterable[Event], groups: Sequence[Row]) -> Iterator[Event]:
    """``found`` with the epoch of the group after the operation that an event belongs to. Both are
    in the order of time."""
    number, epoch = 0, None
    for one in found:
        while number < len(groups) and groups[number]["valid_from"] <= one.at:
            epoch = groups[number]["epoch"]
            number += 1
        yield replace(one, epoch=epoch)
