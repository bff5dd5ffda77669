"""Brokers with other settings: full groups, migration policies, racks, a default assignor."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.coordinator.conversation import Conversation, Pauses
from tests.coordinator.conversations.registry import scripted

ConversationFunctions = Callable[..., Any]


def under_each_policy(function: ConversationFunctions) -> ConversationFunctions:
    """Register a conversation for the three migration policies other than the default."""
    for policy in ("upgrade", "downgrade", "disabled"):
        scripted(policy)(function)
    return function


@under_each_policy
def consumer_joins_classic_members(conversation: Conversation) -> None:
    conversation.shared_topic("foo", 6)
    classic = conversation.classic("C", "foo")
    classic.join()
    classic.sync({classic.member_id: {"foo": [0, 1, 2, 3, 4, 5]}})
    consumer = conversation.consumer("A", "foo")
    consumer.join()
    classic.heartbeat()
    conversation.describe()
    consumer.leave()
    conversation.describe()
    classic.heartbeat()


@under_each_policy
def classic_member_joins_consumers(conversation: Conversation) -> None:
    conversation.shared_topic("foo", 6)
    consumer = conversation.consumer("A", "foo")
    consumer.join()
    classic = conversation.classic("C", "foo")
    classic.join()
    classic.sync()
    consumer.acknowledge()
    consumer.acknowledge()
    conversation.describe()
    consumer.leave()
    conversation.describe()
    classic.heartbeat()
    classic.join()
    conversation.describe()


@under_each_policy
def last_consumer_is_replaced_by_itself(conversation: Conversation) -> None:
    conversation.shared_topic("foo", 6)
    consumer = conversation.consumer("A", "foo", instance="a")
    consumer.join()
    consumer.leave(-2)
    classic = conversation.classic("C", "foo", instance="a")
    classic.join()
    classic.sync()
    conversation.describe()
    classic.heartbeat()


@under_each_policy
def empty_classic_group_gets_a_consumer(conversation: Conversation) -> None:
    conversation.shared_topic("foo", 6)
    classic = conversation.classic("C", "foo")
    classic.join()
    classic.sync({classic.member_id: {"foo": [0]}})
    classic.leave()
    consumer = conversation.consumer("A", "foo")
    consumer.join()
    conversation.describe()


@under_each_policy
def empty_consumer_group_gets_a_classic_member(conversation: Conversation) -> None:
    conversation.shared_topic("foo", 6)
    consumer = conversation.consumer("A", "foo")
    consumer.join()
    consumer.leave()
    classic = conversation.classic("C", "foo")
    classic.join()
    classic.sync({classic.member_id: {"foo": [0]}})
    conversation.describe()


# A broker whose groups have room for two, and whose default assignor is the range assignor


@scripted("small")
def third_consumer_is_refused(conversation: Conversation) -> None:
    conversation.shared_topic("foo", 6)
    a, b, c = (conversation.consumer(name, "foo") for name in "ABC")
    a.join()
    b.join()
    c.join()
    b.join()
    a.leave()
    c.join()
    conversation.describe()


@scripted("small")
def full_group_refuses_returning_static_member(conversation: Conversation) -> None:
    conversation.shared_topic("foo", 6)
    a, b = conversation.consumer("A", "foo", instance="a"), conversation.consumer("B", "foo")
    a.join()
    b.join()
    a.leave(-2)
    back = conversation.consumer("A2", "foo", instance="a")
    back.join()
    a.join()
    conversation.describe()


@scripted("small", version=[3, 9])
def third_classic_member_is_refused(conversation: Conversation, version: int) -> Pauses:
    conversation.shared_topic("foo", 6)
    a, b, c = (conversation.classic(name, "foo") for name in "ABC")
    for member in (a, b, c):
        member.join(version)
    yield 2.3
    a.joined(a.join(version))
    yield 2.3
    c.join(version)
    conversation.describe()
    for member in (a, b):
        member.leave()
    yield 3  # the sweep deletes the empty group
    c.join(version)
    yield 2.3
    conversation.describe()


@scripted("small")
def classic_member_finds_a_full_consumer_group(conversation: Conversation) -> None:
    conversation.shared_topic("foo", 6)
    a, b = conversation.consumer("A", "foo"), conversation.consumer("B", "foo", instance="b")
    a.join()
    b.join()
    conversation.classic("C", "foo").join()
    conversation.classic("B2", "foo", instance="b").join()
    conversation.describe()


@scripted("small")
def full_classic_group_is_not_upgraded(conversation: Conversation) -> Pauses:
    conversation.shared_topic("foo", 6)
    a, b = conversation.classic("A", "foo"), conversation.classic("B", "foo", instance="b")
    a.join()
    b.join()
    yield 2.3
    a.join()
    b.join()
    yield 2.3
    conversation.describe()
    conversation.consumer("C", "foo").join()
    conversation.consumer("B2", "foo", instance="b").join()
    conversation.describe()


@scripted("small")
def initial_rebalance_is_delayed(conversation: Conversation) -> Pauses:
    """`group.initial.rebalance.delay.ms` applies, and again as long as members join."""
    conversation.shared_topic("foo", 6)
    a, b = conversation.classic("A", "foo"), conversation.classic("B", "foo")
    a.join()
    conversation.describe()
    yield 0.6
    b.join()
    yield 0.6
    conversation.describe()
    yield 2.3
    conversation.describe()


@scripted("small", assignor=[None, "range", "uniform"])
def only_one_assignor(conversation: Conversation, assignor: str | None) -> None:
    conversation.shared_topic("foo", 6)
    a, b = (conversation.consumer(name, "foo", assignor=assignor) for name in "AB")
    a.join()
    b.join()
    a.acknowledge()
    a.acknowledge()
    b.acknowledge()
    conversation.describe()


@scripted("small", length=[8, 9])
def size_of_commit_metadata(conversation: Conversation, length: int) -> None:
    """`offset.metadata.max.bytes`."""
    conversation.shared_topic("foo", 6)
    a = conversation.consumer("A", "foo")
    a.join()
    a.commit("foo", 0, 5, "x" * length)
    a.commit("foo", 0, 5, "é" * (length // 2))
    conversation.offsets("foo")


@scripted("small", rack=["here", "elsewhere"])
def member_in_a_rack(conversation: Conversation, rack: str) -> None:
    """The topics' racks are part of the metadata hash; a member's rack is only stored."""
    conversation.topic("foo", 3)
    a = conversation.consumer("A", "foo", rack=rack)
    a.join()
    a.heartbeat(rackId="another")
    conversation.topic("foo", 4)
    a.heartbeat()
    a.acknowledge()
    conversation.describe()
