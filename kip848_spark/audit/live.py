"""The rebuilt state against what the live broker says of the same groups.

The admin API names no offset, so an answer may be newer than the records that were read. Only
groups in partitions whose end did not move in between are judged; the rest are *moving*.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from kip848_spark.live import LiveGroup, LiveMember, LiveOffset, Snapshot

JUDGED_TYPES = ("classic", "consumer")
"""Types of groups that the admin client can describe."""

UNNAMED = "Unknown"
"""What the client library says of a state it has no name for (Assigning and Reconciling)."""

Row = Mapping[str, Any]


@dataclass(frozen=True)
class Rebuilt:
    """Rows of the state tables `groups`, `members`, `assignments` and `offsets`."""

    groups: Iterable[Row]
    members: Iterable[Row]
    assignments: Iterable[Row]
    offsets: Iterable[Row]


@dataclass(frozen=True)
class Difference:
    """One thing that the lake and the broker say differently."""

    group_id: str
    what: str
    rebuilt: Any
    live: Any

    def __str__(self) -> str:
        return f"{self.group_id}: {self.what}: rebuilt {self.rebuilt!r}, live {self.live!r}"


@dataclass(frozen=True)
class Comparison:
    """What was compared: groups, members, assigned and target partitions, offsets; and what
    differs. ``moving`` groups were not judged."""

    differences: tuple[Difference, ...]
    compared: Mapping[str, int]
    moving: tuple[str, ...] = ()


@dataclass
class _Tally:
    differences: list[Difference] = field(default_factory=list)
    compared: dict[str, int] = field(
        default_factory=lambda: dict.fromkeys(("groups", "members", "partitions", "offsets"), 0)
    )

    def same(self, group: str, what: str, rebuilt: Any, live: Any) -> None:
        if rebuilt != live:
            self.differences.append(Difference(group, what, rebuilt, live))


def compare(rebuilt: Rebuilt, live: Snapshot, ends: Mapping[int, int]) -> Comparison:
    """Every difference between the two. ``ends``: the offset that each partition was read up to."""
    moved = {p for p, at in live.ends.items() if ends.get(p, 0) != at.stable}
    groups = {row["group_id"]: row for row in rebuilt.groups if row["type"] in JUDGED_TYPES}
    moving = sorted(name for name, row in groups.items() if row["partition"] in moved)
    if moved:  # a group that the lake lacks may have just come to a partition that moved
        moving += sorted(live.groups.keys() - groups.keys())
    members = _by_group(rebuilt.members)
    assignments = _by_group(rebuilt.assignments)
    offsets = _by_group(rebuilt.offsets)
    tally = _Tally()
    for name in sorted((groups.keys() | live.groups.keys()) - set(moving)):
        ours, theirs = groups.get(name), live.groups.get(name)
        if ours is None or theirs is None:
            tally.same(name, "group", ours and ours["state"], theirs and theirs.state)
            continue
        tally.compared["groups"] += 1
        _group(tally, ours, theirs)
        _members(tally, theirs, members.get(name, []), assignments.get(name, []))
        _offsets(tally, name, offsets.get(name, []), live.offsets.get(name, ()))
    return Comparison(tuple(tally.differences), tally.compared, tuple(moving))


def _by_group(rows: Iterable[Row]) -> dict[str, list[Row]]:
    found: dict[str, list[Row]] = {}
    for row in rows:
        found.setdefault(row["group_id"], []).append(row)
    return found


def _group(tally: _Tally, ours: Row, theirs: LiveGroup) -> None:
    name = theirs.group_id
    tally.same(name, "type", ours["type"], theirs.type)
    if theirs.state != UNNAMED:
        tally.same(name, "state", ours["state"], theirs.state)
    assignor = ours["assignor"] if ours["type"] == "consumer" else ours["protocol"] or ""
    tally.same(name, "assignor", assignor, theirs.assignor)


def _members(tally: _Tally, theirs: LiveGroup, members: list[Row], assignments: list[Row]) -> None:
    name = theirs.group_id
    live = {member.member_id: member for member in theirs.members}
    ours = {row["member_id"]: row for row in members}
    tally.same(name, "members", sorted(ours), sorted(live))
    for member_id in sorted(ours.keys() & live.keys()):
        tally.compared["members"] += 1
        _member(tally, name, ours[member_id], live[member_id])
        own = [row for row in assignments if row["member_id"] == member_id]
        # Kafka 4.3 counts partitions that are to be given up as still assigned, older ones don't.
        said = sorted(live[member_id].assigned)
        held = _partitions(own, "assigned", "pending_revocation")
        if said != held:
            held = _partitions(own, "assigned")
        tally.same(name, f"assignment of {member_id}", held, said)
        tally.compared["partitions"] += len(held)
        target = live[member_id].target
        if target is not None:
            wanted = _partitions(own, "target")
            tally.same(name, f"target of {member_id}", wanted, sorted(target))
            tally.compared["partitions"] += len(wanted)


def _member(tally: _Tally, group: str, ours: Row, theirs: LiveMember) -> None:
    for column in ("instance_id", "client_id", "client_host"):
        said = getattr(theirs, column)
        tally.same(group, f"{column} of {theirs.member_id}", ours[column], said)


def _partitions(rows: list[Row], *roles: str) -> list[tuple[str | None, int]]:
    found = [(row["topic"], row["topic_partition"]) for row in rows if row["role"] in roles]
    return sorted(found, key=lambda pair: (pair[0] or "", pair[1]))


def _offsets(tally: _Tally, group: str, ours: list[Row], theirs: tuple[LiveOffset, ...]) -> None:
    rebuilt = {
        (row["topic"], row["topic_partition"]): (
            row["committed_offset"],
            None if row["leader_epoch"] in (None, -1) else row["leader_epoch"],
            # The client library ends text at a NUL, and itself commits text with one at the end.
            row["metadata"].partition("\0")[0],
        )
        for row in ours
    }
    live = {(o.topic, o.partition): (o.offset, o.leader_epoch, o.metadata) for o in theirs}
    tally.compared["offsets"] += len(rebuilt.keys() & live.keys())
    for place in sorted(rebuilt.keys() | live.keys()):
        tally.same(group, f"offset of {place[0]}-{place[1]}", rebuilt.get(place), live.get(place))
