"""What rebalances moved and how long partitions had no owner, from a plain replay of a group's
records into dictionaries, record by record."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from kip848_spark.state import kinds

Row = dict[str, Any]
Place = tuple[str, int]


@dataclass
class PlainGroup:
    """A consumer group: its members, assignments and targets."""

    members: dict[str, Row] = field(default_factory=dict)
    assigned: dict[str, set[Place]] = field(default_factory=dict)
    pending: dict[str, set[Place]] = field(default_factory=dict)
    target: dict[str, set[Place]] = field(default_factory=dict)

    def copy(self) -> PlainGroup:
        return PlainGroup(
            dict(self.members), dict(self.assigned), dict(self.pending), dict(self.target)
        )

    def apply(self, record: Row) -> None:
        kind, member = record["kind"], record["member_id"]
        value = None if record["tombstone"] else record[kind]
        if kind == kinds.CLASSIC or (kind == kinds.GROUP and value is None):
            self.__init__()  # type: ignore[misc]
        elif kind == kinds.MEMBER:
            if value is None:
                for rows in (self.members, self.assigned, self.pending):
                    rows.pop(member, None)
            else:
                self.members[member] = value
        elif kind == kinds.CURRENT:
            found = value or {"assigned_partitions": [], "partitions_pending_revocation": []}
            self.assigned[member] = places(found["assigned_partitions"])
            self.pending[member] = places(found["partitions_pending_revocation"])
        elif kind == kinds.TARGET:
            self.target[member] = places(value["topic_partitions"]) if value else set()

    def owners(self) -> dict[Place, str]:
        """The owner of each partition that a member has or still has to give up."""
        return {
            place: member
            for rows in (self.assigned, self.pending)
            for member, held in rows.items()
            for place in held
        }

    def unowned(self, among: set[Place]) -> set[Place]:
        """Those partitions that are assigned to nobody."""
        return among - self.held()

    def held(self) -> set[Place]:
        """The partitions that are assigned to a member."""
        return set().union(*self.assigned.values(), set())


def places(topics: list[Row]) -> set[Place]:
    return {(topic["topic_id"], number) for topic in topics for number in topic["partitions"]}


def fewest_moves(before: dict[Place, str], after: dict[Place, str], members: set[str]) -> int:
    """The fewest moves to an assignment that gives every member as many partitions as ``after``:
    every member in turn keeps as many of its partitions as it may."""
    room = Counter(after.values())
    moves = 0
    for place in after:
        owner = before.get(place)
        if owner is None:
            continue
        if owner in members and room[owner]:
            room[owner] -= 1
        else:
            moves += 1
    return moves


def describe(records: list[Row], rebalances: list[Row]) -> dict[int, Row]:
    """The columns members, partitions_moved, minimal_moves, revoked and unowned_ms of the
    rebalances of one consumer group, by from_offset. ``records`` are all records of the group.

    Left out: rebalances without an end, those whose operation has a second group epoch, a record of
    a classic group or a member that replaces another, and those in whose millisecond the group did
    something else."""
    first: dict[int, int] = {}
    episodes: dict[int, str] = {}
    at = {record["offset"]: index for index, record in enumerate(records)}
    for row in rebalances:
        index = at[row["from_offset"]]
        run = _run(records, index)
        episodes[run[0]] = row["episode_id"]
        kind = Counter(records[i]["kind"] for i in run)
        joins = [i for i in run if records[i]["kind"] == kinds.MEMBER]
        replaces = len({records[i]["tombstone"] for i in joins}) > 1
        if kind[kinds.GROUP] == 1 and not kind[kinds.CLASSIC] and not replaces:
            first[run[0]] = index
    found = {}
    group = PlainGroup()
    by_offset = {row["from_offset"]: row for row in rebalances}
    episode = ""
    held: set[Place] = set()  # what had an owner at some time of the episode
    for index, record in enumerate(records):
        if episodes.get(index, episode) != episode:
            episode, held = episodes[index], group.held()
        if index in first:
            row = by_offset[records[first[index]]["offset"]]
            if row["to_offset"] is not None and row["complete"]:
                later = [offset for offset in by_offset if offset > row["from_offset"]]
                until = min(later) if later and row["outcome"] == "superseded" else None
                found[row["from_offset"]] = _describe(
                    records, index, first[index], group, held, row["to_offset"], until
                )
        group.apply(record)
        held = held | group.held()
    return found


def _run(records: list[Row], index: int) -> range:
    """The records of the group with adjacent offsets and the same timestamp."""
    low = high = index
    while low and _together(records[low - 1], records[low]):
        low -= 1
    while high + 1 < len(records) and _together(records[high], records[high + 1]):
        high += 1
    return range(low, high + 1)


def _together(one: Row, other: Row) -> bool:
    return (one["offset"] + 1, one["timestamp"]) == (other["offset"], other["timestamp"])


def _describe(
    records: list[Row],
    start: int,
    epoch: int,
    group: PlainGroup,
    held: set[Place],
    last: int,
    until: int | None,
) -> Row:
    """``held`` had an owner before; ``last`` is the last offset, ``until`` that of the next epoch
    if it comes before."""
    before = group.owners()
    group = group.copy()
    clock: datetime = records[epoch]["timestamp"]
    target: PlainGroup | None = None
    unowned = 0.0
    replaced = False
    index = start
    while index < len(records) and records[index]["offset"] <= last:
        record = records[index]
        if not replaced:
            length = (record["timestamp"] - clock).total_seconds() * 1_000
            unowned += length * len(group.unowned(held))
        replaced |= record["offset"] == until
        clock = record["timestamp"]
        if record["kind"] == kinds.GROUP and record["tombstone"]:
            break
        group.apply(record)
        held = held | group.held()
        if target is None and index >= epoch and record["kind"] == kinds.TARGET_EPOCH:
            target = group.copy()
        index += 1
    result: Row = {"unowned_ms": round(unowned)}
    if target is not None:
        after = {place: member for member, held in target.target.items() for place in held}
        members = set(target.members)
        result["partitions_moved"] = sum(
            after[place] != owner for place, owner in before.items() if place in after
        )
        result["revoked"] = sum(
            after.get(place) != owner for place, owner in before.items() if owner in members
        )
        result["minimal_moves"] = fewest_moves(before, after, members)
    return result
