"""The state as the reference replays it, row for row in the form of the tables.

Two programs that were written apart, one record at a time in plain Python and one in columns, must
come to the same rows of `groups`, `members` and `assignments`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from typing import Any, NamedTuple

from kip848_spark.audit.entries import Entry
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
"""The columns of each table that are compared; those of its key tell which row is which."""
KEYS: dict[str, tuple[str, ...]] = {
    GROUPS: (),
    MEMBERS: ("member_id",),
    ASSIGNMENTS: ("member_id", "role", "topic_id", "topic", "topic_partition"),
    OFFSETS: ("topic", "topic_partition"),
}
JUDGED_TYPES = ("classic", "consumer")

_STATES = {
    MemberState.STABLE: "stable",
    MemberState.UNREVOKED_PARTITIONS: "unrevoked_partitions",
    MemberState.UNRELEASED_PARTITIONS: "unreleased_partitions",
    MemberState.UNKNOWN: "unknown",
}


class _Unsaid:
    """The one value of a column on which nothing is said."""


UNSAID = _Unsaid()


class StateRow(NamedTuple):
    """A row of a state table: the columns `KEYS`, which tell it from others, and what it says in
    the columns `COMPARED`, where that may be `UNSAID`."""

    table: str
    group_id: str
    key: tuple[Any, ...]
    row: tuple[Any, ...]

    @property
    def member_id(self) -> str | None:
        """The member that the row is of, if it is of one."""
        return self.key[0] if self.table in (MEMBERS, ASSIGNMENTS) else None

    @property
    def named_key(self) -> dict[str, Any]:
        """The columns of the key by their names."""
        return dict(zip(KEYS[self.table], self.key, strict=True))

    @property
    def named_row(self) -> dict[str, Any]:
        """What is said, by the columns' names."""
        columns = zip(COMPARED[self.table], self.row, strict=True)
        return {name: value for name, value in columns if value is not UNSAID}


def state_row(
    table: str, group_id: str, row: Mapping[str, Any], unsaid: Collection[str] = ()
) -> StateRow:
    """A row of a table in the form in which rows are compared, without the columns ``unsaid``."""
    if table == ASSIGNMENTS:
        topic_id = row["topic_id"]
        topic = row["topic"] if topic_id is None else None  # a name is another word for the id
        key = (row["member_id"], row["role"], topic_id, topic, row["topic_partition"])
        return StateRow(table, group_id, key, (row["assignment_epoch"],))
    said = {name: row.get(name) for name in COMPARED[table]}
    if table == GROUPS and row["type"] == "classic" and not said["protocol_type"]:
        said["epoch"] = said["epoch"] or None  # a group of commits alone has no generation
    if table == GROUPS and row["type"] == "consumer":
        said["metadata_hash"] = said["metadata_hash"] or 0
    if table == MEMBERS:  # without its key 5 a member has none of these: unknown here, empty there
        for name in ("client_id", "client_host"):
            said[name] = said[name] or None
        said["subscribed_topics"] = tuple(said["subscribed_topics"] or ()) or None
    for name in unsaid:
        said[name] = UNSAID
    return StateRow(table, group_id, tuple(row[n] for n in KEYS[table]), tuple(said.values()))


class Reference:
    """A group as the reference replays it, from all its records, into `shard`."""

    def __init__(self, group_id: str, releases: tuple[Release, ...]) -> None:
        self.group_id = group_id
        self.fault: str | None = None
        """Why a broker would not load the group; then there is nothing to compare with."""
        self.shard = Shard(releases[-1], BrokerConfig(releases[-1]))
        self._recorded: set[str] = set()
        """Which of keys 3 and 6 the group has on record."""

    def written_by(self, release: Release) -> None:
        """The log goes on in this release."""
        self.shard.release = release
        group = self.shard.groups.get(self.group_id)
        if isinstance(group, ConsumerGroup):
            group.release = release

    def replay(self, entry: Entry) -> str | None:
        """The next record; what a broker would say if it refused to load it."""
        self.shard.now = entry.timestamp
        fault: str | None = None
        try:
            replay(self.shard, entry.record, entry.offset)
        except ReplayError as error:
            fault = str(error)
            self.fault = self.fault or fault
        if entry.value is not None:
            self._recorded.add(entry.kind)
        else:
            self._recorded.discard(entry.kind)
        if entry.kind == records.CLASSIC_GROUP:
            self._recorded.clear()
        return fault

    def rows(self) -> Iterator[StateRow]:
        """The rows of the state tables; none if the group is not there, or can't be loaded."""
        group = self.shard.groups.get(self.group_id)
        if self.fault is not None or group is None:
            return
        rows = _classic(group) if isinstance(group, ClassicGroup) else _consumer(group)
        unsaid = self._unsaid() if isinstance(group, ConsumerGroup) else ()
        for table, row in rows:
            yield state_row(table, self.group_id, row, unsaid if table == GROUPS else ())
        if isinstance(group, ConsumerGroup):
            yield from _assignments(group)

    def _unsaid(self) -> Collection[str]:
        """Columns of `groups` that stand for records that are not there: what an epoch is then
        depends on the broker's release."""
        unsaid = set()
        for kind, column in ((records.GROUP, "epoch"), (records.TARGET_EPOCH, "target_epoch")):
            if kind not in self._recorded:
                unsaid |= {column, "state"}
        return unsaid

    def offset_rows(self) -> Iterator[StateRow]:
        """The rows of `offsets`, if all commits of the group were replayed."""
        for (topic, number), held in self.shard.offsets.group(self.group_id).items():
            if not topic:
                continue  # stands for a commit that only had to make the group
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
        # Without a key 8 both are 0 and -1, whether it is yet to come or was taken away.
        "member_epoch": JOIN if member.epoch == LEAVE else member.epoch,
        "previous_member_epoch": member.previous_epoch,
        "member_state": _STATES[member.state],
        "is_classic": member.classic is not None,
    }


def _assignments(group: ConsumerGroup) -> Iterator[StateRow]:
    epochs = group.release.partition_epochs
    for member in group.members.values():
        roles = (("assigned", member.assigned), ("pending_revocation", member.pending))
        for role, partitions in roles:
            for topic_id, numbers in partitions.items():
                for number, epoch in numbers.items():
                    key = (member.member_id, role, topic_id, None, number)
                    row = (epoch if epochs else None,)
                    yield StateRow(ASSIGNMENTS, group.group_id, key, row)
    for member_id, target in group.targets.items():
        for topic_id, wanted in target.items():
            for number in wanted:
                key = (member_id, "target", topic_id, None, number)
                yield StateRow(ASSIGNMENTS, group.group_id, key, (None,))


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
                said = read_subscription(member.metadata(group.protocol))
            except MalformedMetadataError:
                said = None
            if said is not None:
                row |= {"subscribed_topics": sorted(set(said.topics)), "rack_id": said.rack_id}
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
