"""The consumer group and its members: the data model of KIP-848.

Three epochs drive every rebalance (KIP-848 "Rebalance Process"). The *group epoch* rises when a new
assignment is needed. The *assignment epoch* is the group epoch that the target was computed for.
The *member epoch* is the assignment epoch that a member has reached.
"""

from __future__ import annotations

import base64
from collections import Counter
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, NamedTuple

from kip848_spark.coordinator.client_side import ClientSide
from kip848_spark.coordinator.faults import GroupError, ReplayError
from kip848_spark.coordinator.javahash import TimelineOrder
from kip848_spark.coordinator.records import Partitions, assigned_rows, record
from kip848_spark.coordinator.releases import Release

JOIN = 0
LEAVE = -1
STATIC_LEAVE = -2
NO_OWNER = -1
Targets = dict[str, dict[str, dict[int, None]]]
"""The target of each member: topic ids and partitions."""


class MemberState(IntEnum):
    """A member's progress towards its target (the state byte of key 8)."""

    STABLE = 0
    UNREVOKED_PARTITIONS = 1
    UNRELEASED_PARTITIONS = 2
    UNKNOWN = 127


@dataclass(frozen=True, slots=True)
class ClassicMetadata:
    """What is stored of a member that still uses the classic protocol (online migration)."""

    session_timeout: int
    protocols: tuple[tuple[str, bytes], ...]


_NOTHING: Partitions = {}


class Member(NamedTuple):
    """A member: what it reported of itself (key 5) and its current assignment (key 8).

    Immutable, including its partitions. Replaying a log creates one per record, so creation has to
    be cheap.
    """

    member_id: str
    instance_id: str | None = None
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    topic_names: frozenset[str] = frozenset()
    regex: str = ""
    rebalance_timeout: int = -1
    server_assignor: str | None = None
    classic: ClassicMetadata | None = None
    client_assignors: tuple[Any, ...] = ()

    epoch: int = 0
    previous_epoch: int = -1
    state: MemberState = MemberState.STABLE
    assigned: Partitions = _NOTHING
    pending: Partitions = _NOTHING
    """Partitions pending revocation: the member still owns them and must give them up."""

    def with_assignment(
        self,
        epoch: int,
        previous_epoch: int,
        state: MemberState,
        assigned: Partitions,
        pending: Partitions,
    ) -> Member:
        """The member with another current assignment (``_replace`` is too slow for
        replaying logs).
        """
        return Member._make(
            (*self[:_METADATA_FIELDS], epoch, previous_epoch, state, assigned, pending)
        )

    def at_epoch(
        self,
        epoch: int,
        state: MemberState | None = None,
        assigned: Partitions | None = None,
        pending: Partitions | None = None,
    ) -> Member:
        """The member at another epoch; its present epoch becomes the previous one."""
        return self.with_assignment(
            epoch,
            self.epoch,
            self.state if state is None else state,
            self.assigned if assigned is None else assigned,
            self.pending if pending is None else pending,
        )

    def is_reconciled(self, target_epoch: int) -> bool:
        """Whether the member has reached this target epoch and has nothing left to do."""
        return self.state is MemberState.STABLE and self.epoch == target_epoch

    def same_subscription(self, other: Member) -> bool:
        """Whether both members subscribe to the same names and expression."""
        return self.topic_names == other.topic_names and self.regex == other.regex

    def metadata(self) -> tuple[Any, ...]:
        """The content of key 5: a new record is written if it changes."""
        return (
            self.instance_id,
            self.rack_id,
            self.client_id,
            self.client_host,
            self.topic_names,
            self.regex,
            self.rebalance_timeout,
            self.server_assignor,
            self.classic,
            self.client_assignors,
        )


_METADATA_FIELDS = Member._fields.index("epoch")
"""The first fields of a member are its metadata; the rest is its assignment."""


@dataclass(frozen=True, slots=True)
class ResolvedRegex:
    """The topics that a regular expression matches, and when they were resolved (key 16)."""

    topics: frozenset[str]
    version: int
    timestamp: int


class ConsumerGroup:
    """A group of the new protocol ("Consumer Group" in the KIP's data model)."""

    type = "consumer"

    def __init__(self, group_id: str, release: Release) -> None:
        self.group_id = group_id
        self.release = release
        self.epoch = release.first_epoch
        self.metadata_hash = 0
        self.target_epoch = release.first_epoch
        self.target_timestamp = 0
        self.members: dict[str, Member] = {}
        self.targets: Targets = {}
        self.topic_metadata: list[Any] | None = None
        """The topics of key 4; ``None`` without such a record."""
        self.resolved: dict[str, ResolvedRegex] = {}
        self.owners: dict[tuple[str, int], int] = {}
        """Partition -> member epoch of its owner, for assigned and pending partitions."""
        self.static_ids: dict[str, str] = {}
        self.name_counts: Counter[str] = Counter()
        self.regex_counts: Counter[str] = Counter()
        self.metadata_deadline = 0
        self.client_side = ClientSide()
        self.order = TimelineOrder()
        self.regex_order = TimelineOrder()

    # Members

    def member(self, member_id: str) -> Member:
        """The member of that id. Raises UNKNOWN_MEMBER_ID."""
        try:
            return self.members[member_id]
        except KeyError:
            raise GroupError(
                "UNKNOWN_MEMBER_ID", f"group {self.group_id!r} has no member {member_id!r}"
            ) from None

    def static_member(self, instance_id: str | None) -> Member | None:
        """The member with this instance id."""
        if instance_id is None:
            return None
        member_id = self.static_ids.get(instance_id)
        return None if member_id is None else self.members.get(member_id)

    def put_member(self, member: Member) -> None:
        """Store a new or changed member, and update what is counted over members."""
        old = self.members.get(member.member_id)
        self.order.record_put(len(self.members))
        self._count(old, member)
        self._set_owned(old, member)
        if member.instance_id is not None:
            self.static_ids[member.instance_id] = member.member_id
        if old is not None and old.instance_id != member.instance_id:
            self._forget_instance(old)
        self.members[member.member_id] = member

    def _forget_instance(self, old: Member) -> None:
        """The member has another instance id now."""
        known = old.instance_id is not None and self.static_ids.get(old.instance_id)
        if known == old.member_id and not self.release.keeps_old_instance:
            del self.static_ids[old.instance_id]  # type: ignore[arg-type]

    def remove_member(self, member_id: str) -> None:
        """Remove a member and its ownership of partitions."""
        old = self.members.pop(member_id, None)
        if old is None:
            return
        self._count(old, None)
        self._set_owned(old, None)
        if old.instance_id is not None and self.static_ids.get(old.instance_id) == member_id:
            del self.static_ids[old.instance_id]

    def walk_members(self) -> list[str]:
        """Member ids in the order in which a broker iterates its hash table of members."""
        return self.order.walk(self.members)

    def _count(self, old: Member | None, new: Member | None) -> None:
        if old is not None and new is not None and old.same_subscription(new):
            return
        for member, step in ((old, -1), (new, 1)):
            if member is None:
                continue
            for name in member.topic_names:
                self.name_counts[name] += step
                if not self.name_counts[name]:
                    del self.name_counts[name]
            if member.regex:
                self.regex_counts[member.regex] += step
                if not self.regex_counts[member.regex]:
                    del self.regex_counts[member.regex]

    # Ownership: no partition has two owners (docs/kafka-facts.md#ownership-while-loading)

    def _set_owned(self, old: Member | None, new: Member | None) -> None:
        if old is not None and new is not None and _same_ownership(old, new):
            return
        if old is not None:
            self._release(old.assigned, old.epoch)
            self._release(old.pending, old.epoch)
        if new is not None:
            self._take(new.assigned, new.epoch)
            self._take(new.pending, new.epoch)

    def _release(self, partitions: Partitions, epoch: int) -> None:
        for topic_id, numbers in partitions.items():
            for number in numbers:
                owner = self.owners.get((topic_id, number))
                if owner == epoch:
                    del self.owners[topic_id, number]
                elif not self.release.tolerant_ownership:
                    raise ReplayError(
                        f"group {self.group_id!r}: {topic_id}-{number} is released at epoch "
                        f"{epoch} but its owner is at {owner}"
                    )

    def _take(self, partitions: Partitions, epoch: int) -> None:
        for topic_id, numbers in partitions.items():
            for number in numbers:
                owner = self.owners.get((topic_id, number))
                if owner is not None and (not self.release.tolerant_ownership or owner >= epoch):
                    raise ReplayError(
                        f"group {self.group_id!r}: {topic_id}-{number} is taken at epoch {epoch} "
                        f"but its owner is still at {owner}"
                    )
                self.owners[topic_id, number] = epoch

    def owner_epoch(self, topic_id: str, number: int) -> int:
        """The member epoch of a partition's owner, or -1 if it has none."""
        return self.owners.get((topic_id, number), NO_OWNER)

    # Subscriptions

    def topic_names(self) -> set[str]:
        """Every topic that the group subscribes to, by name or by a resolved regular expression."""
        names = set(self.name_counts)
        for regex in self.regex_counts:
            if regex in self.resolved:
                names |= self.resolved[regex].topics
        return names

    def topics_of(self, member: Member) -> set[str]:
        """The topic names that one member subscribes to."""
        if member.regex and member.regex in self.resolved:
            return set(member.topic_names | self.resolved[member.regex].topics)
        return set(member.topic_names)

    def homogeneous(self) -> bool:
        """Whether all members subscribe to the same topics, as Kafka counts them
        (docs/kafka-facts.md#homogeneous-and-heterogeneous-groups).
        """
        members = len(self.members)
        if not self.regex_counts:
            return all(count == members for count in self.name_counts.values())
        if next(iter(self.regex_counts.values())) != members:
            return False
        seen: Counter[str] = Counter()
        for regex in self.regex_counts:
            if regex in self.resolved:
                seen.update(self.resolved[regex].topics)
        return not self.name_counts and all(count == 1 for count in seen.values())

    # States (KIP-848 "Consumer Group States")

    @property
    def state(self) -> str:
        """Empty, Assigning, Reconciling or Stable."""
        if not self.members:
            return "Empty"
        if self.epoch > self.target_epoch:
            return "Assigning"
        if all(member.is_reconciled(self.target_epoch) for member in self.members.values()):
            return "Stable"
        return "Reconciling"

    def target_of(self, member_id: str) -> dict[str, dict[int, None]]:
        """A member's partitions in the last target assignment."""
        return self.targets.get(member_id, {})

    def set_target(self, member_id: str, target: dict[str, dict[int, None]]) -> None:
        """Store a member's target."""
        self.targets[member_id] = target

    def set_resolved(self, regex: str, found: ResolvedRegex) -> None:
        """Store the topics that a regular expression matches."""
        self.regex_order.record_put(len(self.resolved))
        self.resolved[regex] = found

    def walk_regexes(self) -> list[str]:
        """Resolved expressions in the order in which a broker iterates its hash table of them."""
        return self.regex_order.walk(self.resolved)

    # Migration

    @property
    def classic_members(self) -> list[Member]:
        """Members that use the classic protocol."""
        return [member for member in self.members.values() if member.classic is not None]

    # Records

    def member_record(self, member: Member) -> dict[str, Any]:
        """Key 5 of a member."""
        value: dict[str, Any] = {
            "instanceId": member.instance_id,
            "rackId": member.rack_id,
            "clientId": member.client_id,
            "clientHost": member.client_host,
            "subscribedTopicNames": sorted(member.topic_names),
            "subscribedTopicRegex": member.regex,
            "rebalanceTimeoutMs": member.rebalance_timeout,
            "serverAssignor": member.server_assignor,
            "classicMemberMetadata": _classic_json(member.classic),
        }
        if member.client_assignors:
            value["assignors"] = [dict(assignor) for assignor in member.client_assignors]
        return record("5", 0, {"groupId": self.group_id, "memberId": member.member_id}, value)

    def current_record(self, member: Member) -> dict[str, Any]:
        """Key 8 of a member."""
        with_epochs = self.release.partition_epochs
        value = {
            "memberEpoch": member.epoch,
            "previousMemberEpoch": member.previous_epoch,
            "state": int(member.state),
            "assignedPartitions": assigned_rows(member.assigned, with_epochs=with_epochs),
            "partitionsPendingRevocation": assigned_rows(member.pending, with_epochs=with_epochs),
        }
        if self.release.client_assignors:
            at_target = member.epoch == self.target_epoch
            results = self.client_side
            found = (results.target_of if at_target else results.current_of)(member.member_id)
            value |= found.fields()
        return record("8", 0, {"groupId": self.group_id, "memberId": member.member_id}, value)


def _same_ownership(old: Member, new: Member) -> bool:
    """Whether ownership is unchanged: only metadata changed, or the epoch of a member without
    partitions.
    """
    if old.assigned is not new.assigned or old.pending is not new.pending:
        return False
    return old.epoch == new.epoch or not (old.assigned or old.pending)


def _classic_json(classic: ClassicMetadata | None) -> dict[str, Any] | None:
    if classic is None:
        return None

    return {
        "sessionTimeoutMs": classic.session_timeout,
        "supportedProtocols": [
            {"name": name, "metadata": base64.b64encode(metadata).decode()}
            for name, metadata in classic.protocols
        ],
    }
