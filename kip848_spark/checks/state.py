"""The state as the reference replays it, as rows of the state tables.

Two programs that share no code replay the same records: the reference one record at a time in plain
Python, `kip848_spark.state` in columns. They must give the same rows of `groups`, `members`,
`assignments` and `offsets`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

from kip848_spark.checks.log_entries import LogEntry
from kip848_spark.checks.newer_state import EPOCH_KEY_TYPES, NewestRecords, newer_rows, note_kind
from kip848_spark.checks.release import replaying
from kip848_spark.checks.saved_values import SavedGroups
from kip848_spark.checks.stateful import Stateful
from kip848_spark.coordinator import records
from kip848_spark.coordinator.classic_group import ClassicGroup
from kip848_spark.coordinator.config import BrokerConfig
from kip848_spark.coordinator.consumer_group import (
    JOIN,
    LEAVE,
    ConsumerGroup,
    Member,
    MemberState,
)
from kip848_spark.coordinator.consumer_protocol import (
    MalformedMetadataError,
    read_assignment,
    read_subscription,
)
from kip848_spark.coordinator.faults import ReplayError
from kip848_spark.coordinator.releases import Release
from kip848_spark.coordinator.replay import replay
from kip848_spark.coordinator.shard import Shard
from kip848_spark.coordinator.share_group import ShareGroup
from kip848_spark.coordinator.streams_group import StreamsGroup

GROUPS, MEMBERS, ASSIGNMENTS, OFFSETS = "groups", "members", "assignments", "offsets"
COMPARED: dict[str, tuple[str, ...]] = {
    GROUPS: (
        "type", "state", "protocol_type", "protocol", "assignor", "epoch", "target_epoch",
        "metadata_hash", "members",
    ),
    MEMBERS: (
        "instance_id", "rack_id", "client_id", "client_host", "subscribed_topics",
        "subscribed_regex", "assignor", "member_epoch", "previous_member_epoch", "member_state",
        "is_classic",
    ),
    ASSIGNMENTS: ("assignment_epoch",),
    OFFSETS: ("committed_offset", "leader_epoch", "metadata", "topic_id", "offset"),
}  # fmt: skip
"""The columns of each table that are compared."""
KEYS: dict[str, tuple[str, ...]] = {
    GROUPS: (),
    MEMBERS: ("member_id",),
    ASSIGNMENTS: ("member_id", "role", "topic_id", "topic", "topic_partition"),
    OFFSETS: ("topic", "topic_partition"),
}
"""The columns of each table that identify a row within its group."""

_STATES = {
    MemberState.STABLE: "stable",
    MemberState.UNREVOKED_PARTITIONS: "unrevoked_partitions",
    MemberState.UNRELEASED_PARTITIONS: "unreleased_partitions",
    MemberState.UNKNOWN: "unknown",
}


class _NotCompared:
    """The type of `NOT_COMPARED`."""


NOT_COMPARED = _NotCompared()
"""Stands for a value that the reference does not know."""


StateRow = tuple[Any, ...]
"""A row of a state table: the table's name, the group id, the values of the columns `KEYS`, then
those of the columns `COMPARED`, of which some may be `NOT_COMPARED`."""


def identity_of(row: StateRow) -> StateRow:
    """The table, the group id and the values of the columns `KEYS`."""
    return row[: 2 + len(KEYS[row[0]])]


def values_of(row: StateRow) -> StateRow:
    """The values of the columns `COMPARED`."""
    return row[2 + len(KEYS[row[0]]) :]


def named_identity(row: StateRow) -> dict[str, Any]:
    """The values of the columns `KEYS`, by column."""
    return dict(zip(KEYS[row[0]], identity_of(row)[2:], strict=True))


def named_values(row: StateRow) -> dict[str, Any]:
    """The values of the columns `COMPARED`, by column, without those that are `NOT_COMPARED`."""
    columns = zip(COMPARED[row[0]], values_of(row), strict=True)
    return {name: value for name, value in columns if value is not NOT_COMPARED}


def member_of(row: StateRow) -> str | None:
    """The member that the row belongs to; None for rows of `groups` and `offsets`."""
    return row[2] if row[0] in (MEMBERS, ASSIGNMENTS) else None


def state_row(
    table: str, group_id: str, row: Mapping[str, Any], not_compared: Collection[str] = ()
) -> StateRow:
    """A row of a table in the form in which rows are compared. The columns in ``not_compared`` are
    left out of the comparison."""
    values = {name: row.get(name) for name in COMPARED[table]}
    key = [row[name] for name in KEYS[table]]
    if table == ASSIGNMENTS and row["topic_id"] is not None:
        key[KEYS[table].index("topic")] = None  # the id says it already
    if table == GROUPS and row["type"] == "classic" and not values["protocol_type"]:
        values["epoch"] = values["epoch"] or None  # a group of commits alone has no generation
    if table == GROUPS and row["type"] != "classic":
        values["metadata_hash"] = values["metadata_hash"] or 0
    if table == MEMBERS:  # of a member without key 5, the tables have null and the reference ""
        for name in ("client_id", "client_host"):
            values[name] = values[name] or None
        values["subscribed_topics"] = tuple(values["subscribed_topics"] or ()) or None
    for name in not_compared:
        values[name] = NOT_COMPARED
    return (table, group_id, *key, *values.values())


def state_rows(table: str, group_id: str, rows: Iterable[Sequence[Any]]) -> list[StateRow]:
    """Many rows of a table, each given by its columns `KEYS` and `COMPARED`, as `state_row` makes
    them."""
    if table == ASSIGNMENTS:  # most rows are of this table
        return [
            (table, group_id, member, role, id_, topic if id_ is None else None, number, epoch)
            for member, role, id_, topic, number, epoch in rows
        ]
    names = (*KEYS[table], *COMPARED[table])
    return [state_row(table, group_id, dict(zip(names, row, strict=True))) for row in rows]


def _give_epochs(group: ConsumerGroup) -> None:
    """Partitions that an older broker has recorded without an assignment epoch get the epoch of
    their member, as when a newer broker loads the group (docs/kafka-facts.md#assignment-epochs)."""
    for name, member in group.members.items():
        since = max(member.epoch, 0)
        assigned, pending = (
            {topic: {n: at or since for n, at in of.items()} for topic, of in held.items()}
            for held in (member.assigned, member.pending)
        )
        group.members[name] = member._replace(assigned=assigned, pending=pending)


class Reference(Stateful):
    """A group as the reference coordinator replays it, in a shard of its own."""

    STATE = ("fault", "_with_epochs", "_without_epochs")

    def __init__(self, group_id: str, releases: tuple[Release, ...]) -> None:
        self.group_id = group_id
        self.fault: str | None = None
        """Why a broker would refuse to load the group; then there is no state to compare."""
        release = replaying(releases)
        self.shard = Shard(release, BrokerConfig(release))
        self._newest = NewestRecords()
        self._with_epochs: set[str] = set()
        """The members of a consumer group whose assignment has epochs, which were replayed."""
        self._without_epochs: set[str] = set()
        """Those whose assignment has none."""

    def parts(self) -> Iterator[Stateful]:
        """The objects whose attributes ``STATE`` are the state of this one."""
        yield from (self, SavedGroups(self.shard), self._newest)

    def set_releases(self, releases: tuple[Release, ...]) -> None:
        """Sets the releases that may have written the records from here on."""
        before = self.shard.release
        self.shard.release = release = replaying(releases)
        group = self.shard.groups.get(self.group_id)
        if isinstance(group, ConsumerGroup):
            group.release = release
            if release.partition_epochs and not before.partition_epochs:
                _give_epochs(group)

    def replay(self, entry: LogEntry) -> str | None:
        """Replays the next record. Returns why a broker would refuse to load it, or None."""
        self.shard.now = entry.timestamp
        fault = self._newest.replay(self.shard, entry.offset)
        self.fault = self.fault or fault
        fault = None
        try:
            replay(self.shard, entry.record, entry.offset)
        except ReplayError as error:
            fault = str(error)
            self.fault = self.fault or fault
        note_kind(self._newest.recorded, entry)
        if entry.kind == records.CURRENT:
            self._note_epochs(entry)
        if entry.kind == records.CLASSIC_GROUP:
            self._newest.recorded.clear()
        return fault

    def _note_epochs(self, entry: LogEntry) -> None:
        """Notes whether an assignment has epochs. That depends on the broker that wrote it: during
        a rolling upgrade, that of one member may have them and that of another may not."""
        member, value = entry.member, entry.value
        self._with_epochs.discard(member)
        self._without_epochs.discard(member)
        if value is None:
            return
        rows = (*value["assignedPartitions"], *value["partitionsPendingRevocation"])
        have = {len(row.get("assignmentEpochs") or ()) == len(row["partitions"]) for row in rows}
        if not any(row.get("assignmentEpochs") for row in rows):
            self._without_epochs.add(member)
        elif have == {True} and self.shard.release.partition_epochs:
            self._with_epochs.add(member)

    def defer(self, entry: LogEntry) -> None:
        """Takes the next record of a share or streams group; `rows` replays it."""
        self._newest.add(entry)

    def rows(self, before: int | None = None) -> Iterator[StateRow]:
        """The rows of `groups`, `members` and `assignments`; none if the group does not exist, or a
        broker would refuse to load it. With ``before``, the last deferred record counts only if its
        offset is below."""
        fault = self._newest.replay(self.shard, before)
        self.fault = self.fault or fault
        group = self.shard.groups.get(self.group_id)
        if self.fault is not None or group is None:
            return
        if isinstance(group, ShareGroup | StreamsGroup):
            unknown = self._unknown_columns(*EPOCH_KEY_TYPES[group.type])
            for table, row in newer_rows(group):
                yield state_row(table, self.group_id, row, unknown if table == GROUPS else ())
            return
        rows = _classic(group) if isinstance(group, ClassicGroup) else _consumer(group)
        unknown = ()
        if isinstance(group, ConsumerGroup):
            unknown = self._unknown_columns(records.GROUP, records.TARGET_EPOCH)
        for table, row in rows:
            yield state_row(table, self.group_id, row, unknown if table == GROUPS else ())
        if isinstance(group, ConsumerGroup):
            yield from self._assignments(group)

    def _assignments(self, group: ConsumerGroup) -> Iterator[StateRow]:
        name = group.group_id
        for member_id, member in group.members.items():
            known, none = member_id in self._with_epochs, member_id in self._without_epochs
            roles = (("assigned", member.assigned), ("pending_revocation", member.pending))
            for role, partitions in roles:
                for topic_id, numbers in partitions.items():
                    for number, epoch in numbers.items():
                        since = epoch if known else None if none else NOT_COMPARED
                        yield (ASSIGNMENTS, name, member_id, role, topic_id, None, number, since)
        for member_id, target in group.targets.items():
            for topic_id, wanted in target.items():
                for number in wanted:
                    yield (ASSIGNMENTS, name, member_id, "target", topic_id, None, number, None)

    def _unknown_columns(self, group: str, target: str) -> Collection[str]:
        """Columns of `groups` that depend on a record which is not there: the epoch of a group
        without a record of that key type is 0 or 1, by release."""
        unknown = set()
        for kind, column in ((group, "epoch"), (target, "target_epoch")):
            if kind not in self._newest.recorded:
                unknown |= {column, "state"}
        return unknown

    def offset_rows(self) -> Iterator[StateRow]:
        """The rows of `offsets`, for the keys whose commits were replayed."""
        for (topic, number), held in self.shard.offsets.group(self.group_id).items():
            if not topic:
                continue  # a placeholder for a commit that creates the group
            row = {
                "topic": topic,
                "topic_partition": number,
                "committed_offset": held.offset,
                "leader_epoch": held.leader_epoch,
                "metadata": held.metadata,
                "topic_id": held.topic_id,
                "offset": held.log_offset,
            }
            yield state_row(OFFSETS, self.group_id, row)


def _consumer(group: ConsumerGroup) -> Iterator[tuple[str, dict[str, Any]]]:
    votes = Counter(m.server_assignor for m in group.members.values() if m.server_assignor)
    most = max(votes.values(), default=0)
    chosen = sorted(name for name, count in votes.items() if count == most) or ["uniform"]
    yield (
        GROUPS,
        {
            "type": "consumer",
            "state": group.state,
            "protocol_type": "consumer",
            "assignor": chosen[-1],
            "epoch": group.epoch,
            "target_epoch": group.target_epoch,
            "metadata_hash": group.metadata_hash,
            "members": len(group.members),
        },
    )
    for member in group.members.values():
        yield MEMBERS, _member(member)


def _member(member: Member) -> dict[str, Any]:
    return {
        "member_id": member.member_id,
        "instance_id": member.instance_id,
        "rack_id": member.rack_id,
        "client_id": member.client_id,
        "client_host": member.client_host,
        "subscribed_topics": sorted(member.topic_names),
        "subscribed_regex": member.regex or None,
        "assignor": member.server_assignor,
        # Without a key 8 the epochs are 0 and -1, whether it was deleted or not written yet.
        "member_epoch": JOIN if member.epoch == LEAVE else member.epoch,
        "previous_member_epoch": member.previous_epoch,
        "member_state": _STATES[member.state],
        "is_classic": member.classic is not None,
    }


def _classic(group: ClassicGroup) -> Iterator[tuple[str, dict[str, Any]]]:
    yield (
        GROUPS,
        {
            "type": "classic",
            "state": group.state,
            "protocol_type": group.protocol_type or "",
            "protocol": group.protocol,
            "epoch": group.generation,
            "members": len(group.members),
        },
    )
    consumer = group.protocol_type == "consumer"
    for member in group.members.values():
        row: dict[str, Any] = {
            "member_id": member.member_id,
            "instance_id": member.instance_id,
            "client_id": member.client_id,
            "client_host": member.client_host,
            "is_classic": True,
        }
        if consumer:
            try:
                subscription = read_subscription(member.metadata(group.protocol))
            except MalformedMetadataError:
                subscription = None
            if subscription is not None:
                row |= {
                    "subscribed_topics": sorted(set(subscription.topics)),
                    "rack_id": subscription.rack_id,
                }
        yield MEMBERS, row
        if not consumer:
            continue
        try:
            given = read_assignment(member.assignment).partitions
        except MalformedMetadataError:
            continue
        for topic, numbers in given:
            for number in numbers:
                place = {
                    "member_id": member.member_id,
                    "role": "assigned",
                    "topic_id": None,
                    "topic": topic,
                    "topic_partition": number,
                    "assignment_epoch": None,
                }
                yield ASSIGNMENTS, place
