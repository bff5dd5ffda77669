"""Groups that change their protocol, with and without members."""

from __future__ import annotations

from tests.coordinator.conversation import Conversation, Pauses
from tests.coordinator.conversations.registry import scripted


@scripted()
def upgrade_and_downgrade(conversation: Conversation) -> Pauses:
    """Online upgrade, reconciliation of a classic member, and downgrade."""
    conversation.topic("foo", 6)
    a = conversation.classic("A", "foo")
    a.join()
    yield 0.2
    a.join()
    a.generation = 1
    a.sync({a.member_id: {"foo": [0, 1, 2, 3, 4, 5]}})
    a.heartbeat()
    b = conversation.consumer("B", "foo")
    b.join()
    conversation.send("x", "ConsumerGroupDescribe", groupIds=[conversation.group])
    a.heartbeat()
    a.sync()
    b.heartbeat()
    a.owned = []
    a.join()
    a.sync()
    b.heartbeat()
    a.heartbeat()
    a.heartbeat(memberId="nobody")
    a.heartbeat(generationId=77)
    a.sync(protocolName="other")
    c = conversation.classic("C", "foo", protocols=("other",))
    c.join()
    d = conversation.classic("D", "foo")
    d.join()
    d.sync()
    b.acknowledge()
    b.acknowledge()
    a.heartbeat()
    a.join()
    a.sync()
    d.heartbeat()
    d.join()
    d.sync()
    b.leave()
    yield 0.1
    a.heartbeat()
    a.join()
    d.join()
    yield 0.1
    a.heartbeat()


@scripted()
def empty_groups_change_type(conversation: Conversation) -> Pauses:
    conversation.topic("foo", 2)
    a = conversation.consumer("A", "foo")
    a.join()
    a.leave()
    c = conversation.classic("C", "foo")
    c.join()
    yield 0.2
    c.leave()
    yield 0.1
    a.join()
    a.leave()


@scripted()
def downgrade_by_static_replacement(conversation: Conversation) -> Pauses:
    """The last member of the new protocol returns with the classic protocol."""
    conversation.topic("foo", 4)
    c = conversation.classic("C", "foo")
    c.join()
    yield 0.2
    c.join()
    c.generation = 1
    c.sync({c.member_id: {"foo": [0, 1, 2, 3]}})
    a = conversation.consumer("A", "foo", instance="a")
    a.join()
    c.heartbeat()
    c.owned = []
    c.joined(c.join())
    c.sync()
    a.heartbeat()
    a.leave(-2)
    back = conversation.classic("A2", "foo", instance="a")
    back.join()
    yield 0.2
    c.heartbeat()
    back.heartbeat()
    conversation.send("x", "DescribeGroups", groups=[conversation.group])
    conversation.send("x", "ConsumerGroupDescribe", groupIds=[conversation.group])


@scripted()
def static_replacement_by_a_classic_member(conversation: Conversation) -> Pauses:
    """A static member changes its protocol while other members of the new protocol remain."""
    conversation.topic("foo", 4)
    a, b = conversation.consumer("A", "foo", instance="a"), conversation.consumer("B", "foo")
    a.join()
    b.join()
    a.acknowledge()
    a.acknowledge()
    b.heartbeat()
    back = conversation.classic("A2", "foo", instance="a")
    back.join()
    back.sync()
    a.heartbeat()
    b.acknowledge()
    back.heartbeat()
    b.leave()
    yield 0.2
    back.heartbeat()


@scripted()
def downgrade_is_refused_while_new_members_remain(conversation: Conversation) -> Pauses:
    conversation.topic("foo", 6)
    a, b = conversation.consumer("A", "foo"), conversation.consumer("B", "foo")
    c = conversation.classic("C", "foo")
    a.join()
    c.join()
    c.sync()
    b.join()
    a.acknowledge()
    a.acknowledge()
    c.heartbeat()
    c.join()
    c.sync()
    b.acknowledge()
    a.leave()
    yield 0.1
    c.heartbeat()
    b.acknowledge()
    conversation.send("x", "ListGroups", statesFilter=["nothing"], typesFilter=["classic"])
    b.leave()
    yield 0.2
    c.heartbeat()
    conversation.send("x", "ConsumerGroupDescribe", groupIds=[conversation.group])
