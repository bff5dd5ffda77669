"""Check `live`: the state tables of a lake against the live cluster's answers on the same groups.

The admin API names no offset, so an answer may be newer than the records that were read. The check
leaves out whatever the records written since then change.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from kip848_spark.checks.erased_names import has_erased_name
from kip848_spark.checks.live_newer import NEWER_TYPES, LakeRow, NewerComparison, compare_epochs
from kip848_spark.checks.results import ERROR, LIVE, Finding, Tally, as_json
from kip848_spark.kafka.snapshot import (
    REASONS,
    ClusterSnapshot,
    LiveGroup,
    LiveMember,
    LiveOffset,
)

UNNAMED = "Unknown"
"""The client library's name for a state that it does not know: Assigning and Reconciling."""
REBALANCING = ("PreparingRebalance", "CompletingRebalance")
"""States of a classic group that a broker holds in memory only."""

MOVING = "moving: new records since"
IN_MEMORY = "a classic group that the broker holds in memory only"
IN_REBALANCE = "a classic group in a rebalance, which is recorded when the rebalance ends"
NO_NAME = "a state that the client library has no name for"
DEFAULT_ASSIGNOR = "the brokers' default assignor, which no record names"
INVISIBLE = "a topic that does not exist, or on which the client lacks the ACL DESCRIBE"
REFUSED = "the broker refused to describe the group"
ERASED = "names that may have been erased from the lake"
NOT_ALLOWED = "the client lacks the ACL DESCRIBE on the group"

LAKE_COLUMNS: Mapping[str, tuple[str, ...]] = {
    "groups": (
        *("group_id", "type", "state", "protocol", "assignor", "partition", "last_offset"),
        *("epoch", "target_epoch"),
    ),
    "members": (
        *("group_id", "member_id", "instance_id", "client_id", "client_host", "assignor"),
        "member_epoch",
    ),
    "assignments": ("group_id", "member_id", "topic", "topic_partition", "role"),
    "offsets": (
        *("group_id", "topic", "topic_partition", "committed_offset", "leader_epoch"),
        *("metadata", "offset"),
    ),
}
"""The columns of the state tables that are compared, or that a finding names."""

CommitKey = tuple[str, str, int]
"""Group, topic, partition."""
CommitFields = tuple[int, int | None, str | None]
"""Committed offset, leader epoch, metadata text."""


@dataclass(frozen=True)
class LakeState:
    """Rows of the state tables `groups`, `members`, `assignments` and `offsets`; and of streams
    groups the tasks and the epochs of the topologies, as in `state.streams_tasks.StreamsState`.
    ``erased``: names were erased from the lake."""

    groups: Iterable[LakeRow]
    members: Iterable[LakeRow]
    assignments: Iterable[LakeRow]
    offsets: Iterable[LakeRow]
    tasks: Iterable[LakeRow] = ()
    topologies: Mapping[str, int] = field(default_factory=dict)
    erased: bool = False


@dataclass(frozen=True)
class ChangedSince:
    """What the records after the lake's last ones change: groups (control records), committed
    offsets, and whole partitions of `__consumer_offsets` if a record names no group."""

    groups: Collection[str] = frozenset()
    offsets: Collection[CommitKey] = frozenset()
    partitions: Collection[int] = frozenset()

    def __or__(self, other: ChangedSince) -> ChangedSince:
        return ChangedSince(
            {*self.groups, *other.groups},
            {*self.offsets, *other.offsets},
            {*self.partitions, *other.partitions},
        )


@dataclass(frozen=True)
class Difference:
    """One thing on which lake and cluster differ. ``partition`` and ``offset`` are those of the
    newest record about it in the lake."""

    group_id: str
    what: str
    lake: Any
    live: Any
    member_id: str | None = None
    partition: int | None = None
    offset: int | None = None

    def __str__(self) -> str:
        return f"{self.group_id}: {self.what}: lake {self.lake!r}, cluster {self.live!r}"

    def finding(self) -> Finding:
        """The row of `findings`; expected is what the cluster says."""
        return Finding(
            check=LIVE,
            reason="cluster_differs",
            severity=ERROR,
            group_id=self.group_id,
            member_id=self.member_id,
            partition=self.partition,
            offset=self.offset,
            timestamp=None,
            expected=as_json({self.what: self.live}),
            recorded=as_json({self.what: self.lake}),
        )


@dataclass
class LiveComparison:
    """The result of a comparison.

    ``compared`` counts groups, members, assigned and target partitions ("partitions"), assigned and
    target tasks ("tasks"), and offsets.
    ``not_compared`` counts the things that were left out, by reason. ``moving`` are the groups with
    new control records: they can be compared after the next run.
    """

    differences: list[Difference] = field(default_factory=list)
    compared: Counter[str] = field(default_factory=Counter)
    moving: list[str] = field(default_factory=list)
    same: int = 0
    not_compared: Counter[str] = field(default_factory=Counter)

    def tally(self) -> Tally:
        """The counts and findings of the check `live`."""
        tally = Tally(findings=[difference.finding() for difference in self.differences])
        tally.verified[LIVE] = self.same
        tally.disagreed[LIVE] = len(self.differences)
        tally.unverifiable.update({(LIVE, why): n for why, n in self.not_compared.items()})
        return tally


def compare(state: LakeState, live: ClusterSnapshot, changed: ChangedSince) -> LiveComparison:
    """Compares the state tables with the cluster, except for what has ``changed`` since."""
    groups = {row["group_id"]: row for row in state.groups}
    members = _by_group(state.members)
    assignments = _by_group(state.assignments)
    offsets, tasks = _by_group(state.offsets), _by_group(state.tasks)
    result = LiveComparison()
    for name in sorted(groups.keys() | live.groups.keys()):
        ours, theirs = groups.get(name), live.groups.get(name)
        if name in live.refused:
            result.not_compared[_why_refused(live.refused[name])] += 1
            continue
        if name in live.unasked and (ours is None or ours["type"] in NEWER_TYPES):
            result.not_compared[_why_refused(live.unasked[name])] += 1
            continue
        group = _GroupComparison(result, name, ours, live, changed, state.erased)
        if ours is None or theirs is None:
            group.compare_existence(theirs)
            continue
        if group.is_moving():
            continue
        result.compared["groups"] += 1
        if theirs.type in NEWER_TYPES and theirs.type == ours["type"]:
            newer = group.newer(ours, theirs)
            newer.compare_group(state.topologies.get(name))
            newer.compare_members(
                members.get(name, []), assignments.get(name, []), tasks.get(name, []), live.topics
            )
        elif theirs.state in REBALANCING and theirs.type == ours["type"]:
            result.not_compared[IN_REBALANCE] += 1
        else:
            group.compare_group(ours, theirs, members.get(name, []))
            group.compare_members(theirs, members.get(name, []), assignments.get(name, []))
        group.compare_offsets(offsets.get(name, []), live.offsets.get(name, ()))
    return result


def _why_refused(reason: str) -> str:
    if reason in REASONS:
        return reason
    return NOT_ALLOWED if "ACL DESCRIBE" in reason else REFUSED


def _by_group(rows: Iterable[LakeRow]) -> dict[str, list[LakeRow]]:
    found: dict[str, list[LakeRow]] = {}
    for row in rows:
        found.setdefault(row["group_id"], []).append(row)
    return found


class _GroupComparison:
    """The comparison of one group. ``ours`` is from the lake, ``theirs`` from the cluster."""

    def __init__(
        self,
        result: LiveComparison,
        name: str,
        ours: LakeRow | None,
        live: ClusterSnapshot,
        changed: ChangedSince,
        erased: bool,
    ) -> None:
        self.erased = erased
        self.result = result
        self.name = name
        self.live = live
        self.changed = changed
        self.partition: int | None = ours["partition"] if ours else None
        self.offset: int | None = ours["last_offset"] if ours else None

    def is_moving(self) -> bool:
        """Whether later control records are, or may be, about this group. Counts it if so."""
        unknown = self.changed.partitions
        moved = self.name in self.changed.groups
        moved |= bool(unknown) if self.partition is None else self.partition in unknown
        if moved:
            self.result.moving.append(self.name)
            self.result.not_compared[MOVING] += 1
        return moved

    def newer(self, ours: LakeRow, theirs: LiveGroup) -> NewerComparison:
        """The comparison of a share or streams group."""
        return NewerComparison(
            ours, theirs, self._compare, self.result.compared, self.result.not_compared
        )

    def compare_existence(self, theirs: LiveGroup | None) -> None:
        """Compares a group that the lake or the cluster does not have."""
        if self.is_moving():
            return
        committed = self.live.offsets.get(self.name, ())
        if any((self.name, o.topic, o.partition) in self.changed.offsets for o in committed):
            self.result.not_compared[MOVING] += 1  # by its first commit
        elif theirs is not None and theirs.state in REBALANCING:
            self.result.not_compared[IN_REBALANCE] += 1
        elif theirs is not None and not (theirs.members or committed or theirs.epochs):
            self.result.not_compared[IN_MEMORY] += 1
        elif theirs is None and any(place[0] == self.name for place in self.changed.offsets):
            self.result.not_compared[MOVING] += 1  # its last commit was deleted
        else:
            ours = None if self.partition is None else "there"
            self._compare("group", ours, None if theirs is None else "there")

    def compare_group(self, ours: LakeRow, theirs: LiveGroup, members: list[LakeRow]) -> None:
        """Compares type, state, epochs and assignor. ``members`` are those of the lake."""
        self._compare("type", ours["type"], theirs.type)
        if theirs.state == UNNAMED:
            self.result.not_compared[NO_NAME] += 1
        else:
            self._compare("state", ours["state"], theirs.state)
        if theirs.epochs is not None:
            compare_epochs(ours, theirs.epochs, self._compare)
        consumer = ours["type"] == "consumer"
        assignor = ours["assignor"] if consumer else ours["protocol"] or ""
        named = not consumer or any(row["assignor"] for row in members)
        if named or assignor == theirs.assignor:
            self._compare("assignor", assignor, theirs.assignor)
        else:
            self.result.not_compared[DEFAULT_ASSIGNOR] += 1

    def compare_members(
        self, theirs: LiveGroup, members: list[LakeRow], assignments: list[LakeRow]
    ) -> None:
        """Compares the members, their assignments and their targets."""
        live = {member.member_id: member for member in theirs.members}
        ours = {row["member_id"]: row for row in members}
        assignments_of: dict[str, list[LakeRow]] = {}
        for row in assignments:
            assignments_of.setdefault(row["member_id"], []).append(row)
        self._compare("members", sorted(ours), sorted(live))
        for member_id in sorted(ours.keys() & live.keys()):
            self.result.compared["members"] += 1
            self._compare_member(
                ours[member_id], live[member_id], assignments_of.get(member_id, [])
            )

    def _compare_member(self, ours: LakeRow, theirs: LiveMember, rows: list[LakeRow]) -> None:
        who = theirs.member_id
        for column in ("instance_id", "client_id", "client_host"):
            self._compare(f"{column} of {who}", ours[column], getattr(theirs, column), who)
        if theirs.epoch is not None:
            self._compare(f"member epoch of {who}", ours["member_epoch"], theirs.epoch, who)
        # Kafka 4.3 lists partitions that are pending revocation as assigned; older releases do not.
        assigned = sorted(theirs.assigned)
        own = _partitions(rows, "assigned", "pending_revocation")
        if assigned != own:
            own = _partitions(rows, "assigned")
        self._compare(f"assignment of {who}", own, assigned, who)
        self.result.compared["partitions"] += len(own)
        if theirs.target is not None:
            wanted = _partitions(rows, "target")
            self._compare(f"target of {who}", wanted, sorted(theirs.target), who)
            self.result.compared["partitions"] += len(wanted)

    def compare_offsets(self, ours: list[LakeRow], theirs: tuple[LiveOffset, ...]) -> None:
        """Compares the committed offsets."""
        in_lake = {(row["topic"], row["topic_partition"]): row for row in ours}
        live = {(one.topic, one.partition): one for one in theirs}
        for place in sorted(in_lake.keys() | live.keys()):
            topic, number = place
            if (self.name, topic, number) in self.changed.offsets:
                self.result.not_compared[MOVING] += 1
            elif topic not in self.live.topics:
                self.result.not_compared[INVISIBLE] += 1
            else:
                self.result.compared["offsets"] += 1
                row = in_lake.get(place)
                what = f"committed offset of {topic}-{number}"
                at = None if row is None else row["offset"]
                theirs_at = live.get(place)
                exact = theirs_at is not None and theirs_at.exact
                own = None if row is None else _committed(row, exact)
                if own is not None and own[0] < 0 and theirs_at is None:
                    own = None  # librdkafka's answer has no negative offsets
                self._compare(what, own, _live_commit(theirs_at, own), offset=at)

    def _compare(
        self,
        what: str,
        lake: Any,
        live: Any,
        member: str | None = None,
        offset: int | None = None,
    ) -> None:
        if lake == live:
            self.result.same += 1
            return
        # The lake does not know which groups were erased: that would keep their names.
        no_group = self.partition is None
        if self.erased and (no_group or has_erased_name(repr(lake))):
            self.result.not_compared[ERASED] += 1
            return
        at = self.offset if offset is None else offset
        self.result.differences.append(
            Difference(self.name, what, lake, live, member, self.partition, at)
        )


def _partitions(rows: list[LakeRow], *roles: str) -> list[tuple[str | None, int]]:
    found = [(row["topic"], row["topic_partition"]) for row in rows if row["role"] in roles]
    return sorted(found, key=lambda pair: (pair[0] or "", pair[1]))


def _committed(row: LakeRow, exact: bool) -> CommitFields:
    """A commit in the lake. If the answer is not ``exact``, it is in the form in which the client
    library returns it: it cuts metadata text at the first NUL, and itself commits text with a NUL
    at its end."""
    epoch = None if row["leader_epoch"] in (None, -1) else row["leader_epoch"]
    text = row["metadata"] if exact else row["metadata"].partition("\0")[0]
    return row["committed_offset"], epoch, text


def _live_commit(live: LiveOffset | None, own: CommitFields | None) -> CommitFields | None:
    """A commit in the cluster. Behind text without a NUL, as Java's clients commit it, the client
    library reads on into other memory: what follows the text in the lake is cut off."""
    if live is None:
        return None
    text = live.metadata
    if not live.exact and own is not None and own[2] and (text is None or text.startswith(own[2])):
        text = own[2]
    return live.offset, live.leader_epoch, text
