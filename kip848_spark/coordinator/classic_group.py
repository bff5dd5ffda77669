"""The classic group: generations, a leader and five states (docs/kafka-facts.md#classic-protocol).

The coordinator gathers the members and distributes the assignment that the leader computes. Every
change of membership causes a rebalance of the whole group.
"""

from __future__ import annotations

import base64
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from kip848_spark.coordinator.consumer_protocol import (
    CONSUMER,
    assignment_json,
    read_subscription,
    subscription_json,
)
from kip848_spark.coordinator.faults import GroupError
from kip848_spark.coordinator.javahash import string_order
from kip848_spark.coordinator.records import CLASSIC_GROUP, Record, record

EMPTY = "Empty"
PREPARING = "PreparingRebalance"
COMPLETING = "CompletingRebalance"
STABLE = "Stable"
DEAD = "Dead"

Ticket = int
"""Identifies the request that a response answers, perhaps much later."""


@dataclass(slots=True)
class ClassicMember:
    """A member of a classic group. Its assignment is opaque to the coordinator."""

    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    rebalance_timeout: int
    session_timeout: int
    protocol_type: str
    protocols: tuple[tuple[str, bytes], ...]
    assignment: bytes = b""
    join_ticket: Ticket | None = None
    sync_ticket: Ticket | None = None
    is_new: bool = False

    @property
    def joining(self) -> bool:
        """Whether it has sent JoinGroup and waits for the response."""
        return self.join_ticket is not None

    def metadata(self, protocol: str | None) -> bytes:
        """Its metadata for a protocol that it supports."""
        return dict(self.protocols).get(protocol or "", b"")

    def vote(self, candidates: set[str]) -> str:
        """The first of its protocols that all members support."""
        return next(name for name, _ in self.protocols if name in candidates)


@dataclass(slots=True)
class ClassicGroup:
    """A classic group, or a *simple* one: an id under which offsets are committed."""

    group_id: str
    state: str = EMPTY
    state_since: int | None = None
    protocol_type: str | None = None
    protocol: str | None = None
    generation: int = 0
    leader: str | None = None
    members: dict[str, ClassicMember] = field(default_factory=dict)
    static_ids: dict[str, str] = field(default_factory=dict)
    pending_joins: set[str] = field(default_factory=set)
    """Member ids given out by MEMBER_ID_REQUIRED that have not joined yet."""
    pending_syncs: set[str] = field(default_factory=set)
    member_added: bool = False
    """Whether a member joined while the initial rebalance was delayed."""
    initial: bool = False
    """Whether the group waits for its first members (``group.initial.rebalance.delay.ms``)."""

    type = "classic"

    @property
    def simple(self) -> bool:
        """Whether only offsets were ever committed under this id."""
        return self.state == EMPTY and self.protocol_type is None and not self.pending_joins

    def enter(self, state: str, now: int) -> None:
        """Change the state and store when."""
        self.state = state
        self.state_since = now

    def member(self, member_id: str) -> ClassicMember:
        """The member of that id. Raises UNKNOWN_MEMBER_ID."""
        try:
            return self.members[member_id]
        except KeyError:
            raise GroupError(
                "UNKNOWN_MEMBER_ID", f"group {self.group_id!r} has no member {member_id!r}"
            ) from None

    def add(self, member: ClassicMember) -> None:
        """Add a member; the first one becomes the leader."""
        if not self.members:
            self.protocol_type = member.protocol_type
        if self.leader is None:
            self.leader = member.member_id
        self.members[member.member_id] = member
        self.pending_joins.discard(member.member_id)
        if member.instance_id is not None:
            self.static_ids[member.instance_id] = member.member_id

    def remove(self, member_id: str) -> None:
        """Remove a member; if it was the leader, the next one in the table becomes the leader."""
        member = self.members.pop(member_id, None)
        if member is None:
            return
        if member.instance_id is not None:
            self.static_ids.pop(member.instance_id, None)
        if self.leader == member_id:
            self.leader = next(iter(string_order(self.members)), None)
        self.pending_joins.discard(member_id)
        self.pending_syncs.discard(member_id)

    def rename(self, old_id: str, new_id: str) -> ClassicMember:
        """A static member returned with a new id and replaces the old one."""
        member = self.members.pop(old_id)
        member.member_id = new_id
        self.members[new_id] = member
        if self.leader == old_id:
            self.leader = new_id
        if member.instance_id is not None:
            self.static_ids[member.instance_id] = new_id
        self.pending_syncs.discard(old_id)
        return member

    def elect_joined_leader(self) -> bool:
        """Make sure that the leader has joined; returns whether there is such a leader."""
        if self.leader is None:
            return False
        leader = self.members.get(self.leader)
        if leader is None or leader.joining:
            return leader is not None
        for member_id in string_order(self.members):
            if self.members[member_id].joining:
                self.leader = member_id
                return True
        return False

    @property
    def all_joined(self) -> bool:
        """Whether every member has joined and no id given out is outstanding."""
        return not self.pending_joins and all(m.joining for m in self.members.values())

    @property
    def rebalance_timeout(self) -> int:
        """The longest rebalance timeout of any member, in ms."""
        return max((member.rebalance_timeout for member in self.members.values()), default=0)

    def candidates(self) -> set[str]:
        """The protocols that every member supports."""
        counts = Counter(name for member in self.members.values() for name, _ in member.protocols)
        return {name for name, count in counts.items() if count == len(self.members)}

    def supports(self, protocol_type: str, protocols: set[str]) -> bool:
        """Whether a member with these protocols may join."""
        if self.state == EMPTY:
            return bool(protocol_type) and bool(protocols)
        if protocol_type != self.protocol_type:
            return False
        return not self.members or bool(protocols & self.candidates())

    def select_protocol(self) -> str:
        """The common protocol with the most votes."""
        candidates = self.candidates()
        votes = Counter(
            self.members[member_id].vote(candidates) for member_id in string_order(self.members)
        )
        order = string_order(votes)
        return max(order, key=lambda name: votes[name])

    def next_generation(self, now: int) -> None:
        """The join phase is complete: start a new generation, or become empty."""
        self.generation += 1
        if self.members:
            self.protocol = self.select_protocol()
            self.enter(COMPLETING, now)
        else:
            self.protocol = None
            self.enter(EMPTY, now)
        self.pending_syncs.clear()

    @property
    def uses_consumer_protocol(self) -> bool:
        """Whether its members are consumers."""
        return self.protocol_type == CONSUMER

    def subscribed_topics(self) -> set[str] | None:
        """The topics that its consumers subscribe to; ``None`` if unknown."""
        if not self.uses_consumer_protocol or not self.members or self.protocol is None:
            return set() if self.uses_consumer_protocol and self.state == EMPTY else None
        names: set[str] = set()
        for member in self.members.values():
            try:
                names.update(read_subscription(member.metadata(self.protocol)).topics)
            except ValueError:
                return None
        return names

    def to_record(self, assignments: dict[str, bytes] | None = None) -> Record:
        """Key 2 of the group, with these assignments instead of the members' own."""
        rows: list[dict[str, Any]] = []
        for member_id in string_order(self.members):
            member = self.members[member_id]
            given = member.assignment if assignments is None else assignments.get(member_id, b"")
            rows.append(
                {
                    "memberId": member_id,
                    "groupInstanceId": member.instance_id,
                    "clientId": member.client_id,
                    "clientHost": member.client_host,
                    "rebalanceTimeout": member.rebalance_timeout,
                    "sessionTimeout": member.session_timeout,
                    "subscription": self._shown(member.metadata(self.protocol), subscription_json),
                    "assignment": self._shown(given, assignment_json),
                }
            )
        return record(
            CLASSIC_GROUP,
            3,
            {"group": self.group_id},
            {
                "protocolType": self.protocol_type or "",
                "generation": self.generation,
                "protocol": self.protocol,
                "leader": self.leader,
                "currentStateTimestamp": -1 if self.state_since is None else self.state_since,
                "members": rows,
            },
        )

    def _shown(self, data: bytes, as_json: Any) -> Any:
        if self.uses_consumer_protocol:
            return as_json(data)
        return base64.b64encode(data).decode()


def empty_record(group: ClassicGroup) -> Record:
    """Key 2 of a group that never had a member: generation 0 and an empty protocol type."""
    return record(
        CLASSIC_GROUP,
        3,
        {"group": group.group_id},
        {
            "protocolType": "",
            "generation": 0,
            "protocol": None,
            "leader": None,
            "currentStateTimestamp": -1 if group.state_since is None else group.state_since,
            "members": [],
        },
    )
