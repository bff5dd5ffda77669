"""The rebuilt state against what the live broker says of the same groups.

The admin API names no offset, so an answer may be newer than the records that were read. What the
records written in between say something about is not judged: it has *moved*.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from kip848_spark.checks.results import ERROR, LIVE, Finding, Tally, as_json
from kip848_spark.kafka.snapshot import ClusterSnapshot, LiveGroup, LiveMember, LiveOffset

JUDGED_TYPES = ("classic", "consumer")
"""Types of groups that the admin client can describe."""

UNNAMED = "Unknown"
"""What the client library says of a state it has no name for (Assigning and Reconciling)."""
REBALANCING = ("PreparingRebalance", "CompletingRebalance")
"""States of a classic group that a broker has in memory only."""

MOVING = "moving: new records since"
IN_MEMORY = "a classic group that the broker has in memory only"
IN_REBALANCE = "a classic group in a rebalance, which is on record when it is over"
NO_NAME = "a state that the client library has no name for"
INVISIBLE = "a topic that is gone, or on which the client lacks the ACL DESCRIBE"
REFUSED = "the broker refused to describe it"
NOT_ALLOWED = "the client lacks the ACL DESCRIBE on the group"

Row = Mapping[str, Any]
Place = tuple[str, str, int]
Committed = tuple[int, int | None, str | None]
"""Offset, leader epoch, text."""


@dataclass(frozen=True)
class Rebuilt:
    """Rows of the state tables `groups`, `members`, `assignments` and `offsets`."""

    groups: Iterable[Row]
    members: Iterable[Row]
    assignments: Iterable[Row]
    offsets: Iterable[Row]


@dataclass(frozen=True)
class Moved:
    """What later records are about: groups (control records), committed offsets (group, topic,
    partition), and whole partitions of the topic where a record does not say."""

    groups: Collection[str] = frozenset()
    offsets: Collection[Place] = frozenset()
    partitions: Collection[int] = frozenset()


@dataclass(frozen=True)
class Difference:
    """One thing that the lake and the broker say differently; ``partition`` and ``offset`` are of
    the newest record the lake has of it."""

    group_id: str
    what: str
    rebuilt: Any
    live: Any
    member_id: str | None = None
    partition: int | None = None
    offset: int | None = None

    def __str__(self) -> str:
        return f"{self.group_id}: {self.what}: rebuilt {self.rebuilt!r}, live {self.live!r}"

    def finding(self) -> Finding:
        """The row of `findings`: expected is what the broker says."""
        return Finding(
            LIVE,
            ERROR,
            self.group_id,
            self.member_id,
            self.partition,
            self.offset,
            None,
            as_json(self.live),
            as_json(self.rebuilt),
            f"The broker and the lake say differently what the {self.what} is, and no record "
            "since then explains it. Run again; if it stays, records are missing from the lake "
            "(see the table gaps), or the coordinator has lost what it wrote.",
        )


@dataclass
class Comparison:
    """What came of it: differences, how many of what were compared (groups, members, assigned and
    target partitions, offsets), and why others were not. ``moving``: groups with new control
    records, to be asked again."""

    differences: list[Difference] = field(default_factory=list)
    compared: Counter[str] = field(default_factory=Counter)
    moving: list[str] = field(default_factory=list)
    same: int = 0
    unjudged: Counter[str] = field(default_factory=Counter)

    def tally(self) -> Tally:
        """Counts and findings of the check `live`."""
        tally = Tally(findings=[difference.finding() for difference in self.differences])
        tally.verified[LIVE] = self.same
        tally.disagreed[LIVE] = len(self.differences)
        tally.unverifiable.update({(LIVE, why): n for why, n in self.unjudged.items()})
        return tally


def compare(rebuilt: Rebuilt, live: ClusterSnapshot, moved: Moved) -> Comparison:
    """Every difference between the two, but in what has moved."""
    groups = {row["group_id"]: row for row in rebuilt.groups if row["type"] in JUDGED_TYPES}
    members = _by_group(rebuilt.members)
    assignments = _by_group(rebuilt.assignments)
    offsets = _by_group(rebuilt.offsets)
    result = Comparison()
    for name in sorted(groups.keys() | live.groups.keys()):
        ours, theirs = groups.get(name), live.groups.get(name)
        if name in live.refused:
            denied = "ACL DESCRIBE" in live.refused[name]
            result.unjudged[NOT_ALLOWED if denied else REFUSED] += 1
            continue
        judged = _Group(result, name, ours, live, moved)
        if ours is None or theirs is None:
            judged.one_sided(theirs)
            continue
        if judged.has_moved():
            continue
        result.compared["groups"] += 1
        if theirs.state in REBALANCING and theirs.type == ours["type"]:
            result.unjudged[IN_REBALANCE] += 1
        else:
            judged.itself(ours, theirs)
            judged.members(theirs, members.get(name, []), assignments.get(name, []))
        judged.offsets(offsets.get(name, []), live.offsets.get(name, ()))
    return result


def _by_group(rows: Iterable[Row]) -> dict[str, list[Row]]:
    found: dict[str, list[Row]] = {}
    for row in rows:
        found.setdefault(row["group_id"], []).append(row)
    return found


class _Group:
    """One group, thing by thing."""

    def __init__(
        self, result: Comparison, name: str, ours: Row | None, live: ClusterSnapshot, moved: Moved
    ) -> None:
        self.result = result
        self.name = name
        self.live = live
        self.moved = moved
        self.partition: int | None = ours["partition"] if ours else None
        self.offset: int | None = ours["last_offset"] if ours else None

    def has_moved(self) -> bool:
        """Whether later records are, or may be, about this group itself."""
        unknown = self.moved.partitions
        moved = self.name in self.moved.groups
        moved |= bool(unknown) if self.partition is None else self.partition in unknown
        if moved:
            self.result.moving.append(self.name)
            self.result.unjudged[MOVING] += 1
        return moved

    def one_sided(self, theirs: LiveGroup | None) -> None:
        """A group that the lake, or the broker, does not have."""
        if self.has_moved():
            return
        committed = self.live.offsets.get(self.name, ())
        if any((self.name, o.topic, o.partition) in self.moved.offsets for o in committed):
            self.result.unjudged[MOVING] += 1  # its first commit
        elif theirs is not None and theirs.state in REBALANCING:
            self.result.unjudged[IN_REBALANCE] += 1
        elif theirs is not None and not theirs.members and not committed:
            self.result.unjudged[IN_MEMORY] += 1
        elif theirs is None and any(place[0] == self.name for place in self.moved.offsets):
            self.result.unjudged[MOVING] += 1  # its last commit deleted
        else:
            ours = None if self.partition is None else "there"
            self._same("group", ours, None if theirs is None else "there")

    def itself(self, ours: Row, theirs: LiveGroup) -> None:
        """Type, state and assignor."""
        self._same("type", ours["type"], theirs.type)
        if theirs.state == UNNAMED:
            self.result.unjudged[NO_NAME] += 1
        else:
            self._same("state", ours["state"], theirs.state)
        assignor = ours["assignor"] if ours["type"] == "consumer" else ours["protocol"] or ""
        self._same("assignor", assignor, theirs.assignor)

    def members(self, theirs: LiveGroup, members: list[Row], assignments: list[Row]) -> None:
        """Who is in it, and what everyone has and is to have."""
        live = {member.member_id: member for member in theirs.members}
        ours = {row["member_id"]: row for row in members}
        held: dict[str, list[Row]] = {}
        for row in assignments:
            held.setdefault(row["member_id"], []).append(row)
        self._same("members", sorted(ours), sorted(live))
        for member_id in sorted(ours.keys() & live.keys()):
            self.result.compared["members"] += 1
            self._member(ours[member_id], live[member_id], held.get(member_id, []))

    def _member(self, ours: Row, theirs: LiveMember, held: list[Row]) -> None:
        who = theirs.member_id
        for column in ("instance_id", "client_id", "client_host"):
            self._same(f"{column} of {who}", ours[column], getattr(theirs, column), who)
        # Kafka 4.3 counts partitions that are to be given up as still assigned, older ones don't.
        said = sorted(theirs.assigned)
        own = _partitions(held, "assigned", "pending_revocation")
        if said != own:
            own = _partitions(held, "assigned")
        self._same(f"assignment of {who}", own, said, who)
        self.result.compared["partitions"] += len(own)
        if theirs.target is not None:
            wanted = _partitions(held, "target")
            self._same(f"target of {who}", wanted, sorted(theirs.target), who)
            self.result.compared["partitions"] += len(wanted)

    def offsets(self, ours: list[Row], theirs: tuple[LiveOffset, ...]) -> None:
        """What it has committed."""
        rebuilt = {(row["topic"], row["topic_partition"]): row for row in ours}
        live = {(one.topic, one.partition): one for one in theirs}
        for place in sorted(rebuilt.keys() | live.keys()):
            topic, number = place
            if (self.name, topic, number) in self.moved.offsets:
                self.result.unjudged[MOVING] += 1
            elif topic not in self.live.topics:
                self.result.unjudged[INVISIBLE] += 1
            else:
                self.result.compared["offsets"] += 1
                row = rebuilt.get(place)
                what = f"committed offset of {topic}-{number}"
                at = None if row is None else row["offset"]
                own = None if row is None else _committed(row)
                self._same(what, own, _said(live.get(place), own), offset=at)

    def _same(
        self,
        what: str,
        rebuilt: Any,
        live: Any,
        member: str | None = None,
        offset: int | None = None,
    ) -> None:
        if rebuilt == live:
            self.result.same += 1
            return
        at = self.offset if offset is None else offset
        self.result.differences.append(
            Difference(self.name, what, rebuilt, live, member, self.partition, at)
        )


def _partitions(rows: list[Row], *roles: str) -> list[tuple[str | None, int]]:
    found = [(row["topic"], row["topic_partition"]) for row in rows if row["role"] in roles]
    return sorted(found, key=lambda pair: (pair[0] or "", pair[1]))


def _committed(row: Row) -> Committed:
    """Offset, leader epoch and text as the client library gives them: it ends text at a NUL, and
    itself commits text with one at the end."""
    epoch = None if row["leader_epoch"] in (None, -1) else row["leader_epoch"]
    return row["committed_offset"], epoch, row["metadata"].partition("\0")[0]


def _said(live: LiveOffset | None, own: Committed | None) -> Committed | None:
    """What the cluster says, without what the library read behind the text."""
    if live is None:
        return None
    text = live.metadata
    if own is not None and own[2] and (text is None or text.startswith(own[2])):
        text = own[2]
    return live.offset, live.leader_epoch, text
