"""The share group and its members: the data model of KIP-932, and its records (keys 10 to 15).

Share groups have the epochs of consumer groups, but a partition may be assigned to several members
at once, so nothing is ever revoked: a member moves to its target in one step. A partition is
assigned only after the share coordinator has initialized its state
(docs/kafka-facts.md#share-groups).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from kip848_spark.coordinator.faults import GroupError
from kip848_spark.coordinator.javahash import TimelineOrder
from kip848_spark.coordinator.records import Json, Record, record
from kip848_spark.coordinator.releases import Release

SHARE_MEMBER = "10"
SHARE_GROUP = "11"
SHARE_TARGET_EPOCH = "12"
SHARE_TARGET = "13"
SHARE_CURRENT = "14"
SHARE_STATE = "15"

JOIN = 0
LEAVE = -1

Share = Mapping[str, Mapping[int, None]]
"""Topic id -> partitions, in order."""


_NOTHING: Share = {}


class ShareMember(NamedTuple):
    """A member: what it reported of itself (key 10) and its current assignment (key 14)."""

    member_id: str
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    topic_names: frozenset[str] = frozenset()

    epoch: int = 0
    previous_epoch: int = -1
    assigned: Share = _NOTHING

    def metadata(self) -> tuple[Any, ...]:
        """The content of key 10: a new record is written if it changes."""
        return self[1:5]


class StateTopic(NamedTuple):
    """A topic with share state: its name when the state was written, and partitions."""

    name: str
    partitions: frozenset[int]


_NO_TOPICS: Mapping[str, StateTopic] = {}
_NO_NAMES: Mapping[str, str] = {}


class ShareState(NamedTuple):
    """The partitions of a group with share state (key 15), by topic id."""

    initializing: Mapping[str, StateTopic] = _NO_TOPICS
    """The share coordinator has been asked to initialize them."""
    initialized: Mapping[str, StateTopic] = _NO_TOPICS
    """They may be assigned."""
    deleting: Mapping[str, str] = _NO_NAMES
    """Names of the topics whose state is being deleted."""


class ShareGroup:
    """A share group."""

    type = "share"

    def __init__(self, group_id: str, release: Release) -> None:
        self.group_id = group_id
        self.release = release
        self.epoch = release.first_epoch
        self.metadata_hash = 0
        self.target_epoch = release.first_epoch
        self.target_timestamp = 0
        self.members: dict[str, ShareMember] = {}
        self.targets: dict[str, dict[str, dict[int, None]]] = {}
        self.share_state = ShareState()
        self.has_share_state = False
        """Whether there is a record of key 15, even one without topics."""
        self.name_counts: Counter[str] = Counter()
        self.metadata_deadline = 0
        self._order = TimelineOrder()

    def member(self, member_id: str) -> ShareMember:
        """The member of that id. Raises UNKNOWN_MEMBER_ID."""
        try:
            return self.members[member_id]
        except KeyError:
            raise GroupError("UNKNOWN_MEMBER_ID", f"no member {member_id!r}") from None

    def put_member(self, member: ShareMember) -> None:
        """Add or replace a member."""
        self._order.record_put(len(self.members))
        self._count(self.members.get(member.member_id), member)
        self.members[member.member_id] = member

    def remove_member(self, member_id: str) -> None:
        """Remove a member, if it exists."""
        self._count(self.members.pop(member_id, None), None)

    def _count(self, old: ShareMember | None, new: ShareMember | None) -> None:
        for member, step in ((old, -1), (new, 1)):
            for name in member.topic_names if member is not None else ():
                self.name_counts[name] += step
                if not self.name_counts[name]:
                    del self.name_counts[name]

    def walk_members(self) -> list[str]:
        """Member ids in the order in which a broker iterates its hash table of members."""
        return self._order.walk(self.members)

    def topic_names(self) -> set[str]:
        """Every topic that the group subscribes to."""
        return set(self.name_counts)

    def homogeneous(self) -> bool:
        """Whether all members subscribe to the same names."""
        return all(count == len(self.members) for count in self.name_counts.values())

    @property
    def state(self) -> str:
        """Empty or Stable."""
        return "Stable" if self.members else "Empty"

    def target_of(self, member_id: str) -> dict[str, dict[int, None]]:
        """A member's partitions in the last target assignment."""
        return self.targets.get(member_id, {})

    # Records

    def member_record(self, member: ShareMember) -> Record:
        """Key 10 of a member."""
        return record(
            SHARE_MEMBER,
            0,
            {"groupId": self.group_id, "memberId": member.member_id},
            {
                "rackId": member.rack_id,
                "clientId": member.client_id,
                "clientHost": member.client_host,
                "subscribedTopicNames": sorted(member.topic_names),
            },
        )

    def current_record(self, member: ShareMember) -> Record:
        """Key 14 of a member."""
        return record(
            SHARE_CURRENT,
            0,
            {"groupId": self.group_id, "memberId": member.member_id},
            {
                "memberEpoch": member.epoch,
                "previousMemberEpoch": member.previous_epoch,
                "state": 0,
                "assignedPartitions": _rows(member.assigned),
            },
        )

    def epoch_record(self, epoch: int, metadata_hash: int) -> Record:
        """Key 11."""
        value = {"epoch": epoch, "metadataHash": metadata_hash}
        return record(SHARE_GROUP, 0, {"groupId": self.group_id}, value)

    def target_epoch_record(self, epoch: int, timestamp: int) -> Record:
        """Key 12; ``timestamp`` (ms) from 4.3 on, else 0."""
        value: Json = {"assignmentEpoch": epoch}
        if timestamp:
            value["assignmentTimestamp"] = timestamp
        return record(SHARE_TARGET_EPOCH, 0, {"groupId": self.group_id}, value)

    def target_record(self, member_id: str, target: Mapping[str, Iterable[int]]) -> Record:
        """Key 13 of a member."""
        key = {"groupId": self.group_id, "memberId": member_id}
        return record(SHARE_TARGET, 0, key, {"topicPartitions": _rows(target)})

    def state_record(self, state: ShareState) -> Record:
        """Key 15."""

        def rows(topics: Mapping[str, StateTopic]) -> list[Json]:
            return [
                {"topicId": topic_id, "topicName": t.name, "partitions": sorted(t.partitions)}
                for topic_id, t in topics.items()
            ]

        value = {
            "initializingTopics": rows(state.initializing),
            "initializedTopics": rows(state.initialized),
            "deletingTopics": [
                {"topicId": topic_id, "topicName": name}
                for topic_id, name in state.deleting.items()
            ],
        }
        return record(SHARE_STATE, 0, {"groupId": self.group_id}, value)


def _rows(partitions: Mapping[str, Iterable[int]]) -> list[Json]:
    return [{"topicId": topic, "partitions": list(partitions[topic])} for topic in partitions]
