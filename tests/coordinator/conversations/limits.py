"""Brokers that are set up otherwise: full groups, migration policies, racks, a default assignor."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.coordinator.conversation import Conversation, Talk
from tests.coordinator.conversations.registry import story

Tell = Callable[..., Any]


def under_each_policy(tell: Tell) -> Tell:
    """The three migration policies beside the default."""
    for policy in ("upgrade", "downgrade", "disabled"):
        story(policy)(tell)
    return tell


@under_each_policy
def consumer_joins_classic_members(talk: Talk) -> None:
    talk.shared("foo", 6)
    classic = talk.classic("C", "foo")
    classic.join()
    classic.sync({classic.member_id: {"foo": [0, 1, 2, 3, 4, 5]}})
    consumer = talk.consumer("A", "foo")
    consumer.join()
    classic.beat()
    talk.look()
    consumer.leave()
    talk.look()
    classic.beat()


@under_each_policy
def classic_member_joins_consumers(talk: Talk) -> None:
    talk.shared("foo", 6)
    consumer = talk.consumer("A", "foo")
    consumer.join()
    classic = talk.classic("C", "foo")
    classic.join()
    classic.sync()
    consumer.ack()
    consumer.ack()
    talk.look()
    consumer.leave()
    talk.look()
    classic.beat()
    classic.join()
    talk.look()


@under_each_policy
def last_consumer_is_replaced_by_itself(talk: Talk) -> None:
    talk.shared("foo", 6)
    consumer = talk.consumer("A", "foo", instance="a")
    consumer.join()
    consumer.leave(-2)
    classic = talk.classic("C", "foo", instance="a")
    classic.join()
    classic.sync()
    talk.look()
    classic.beat()


@under_each_policy
def empty_classic_group_gets_a_consumer(talk: Talk) -> None:
    talk.shared("foo", 6)
    classic = talk.classic("C", "foo")
    classic.join()
    classic.sync({classic.member_id: {"foo": [0]}})
    classic.leave()
    consumer = talk.consumer("A", "foo")
    consumer.join()
    talk.look()


@under_each_policy
def empty_consumer_group_gets_a_classic_member(talk: Talk) -> None:
    talk.shared("foo", 6)
    consumer = talk.consumer("A", "foo")
    consumer.join()
    consumer.leave()
    classic = talk.classic("C", "foo")
    classic.join()
    classic.sync({classic.member_id: {"foo": [0]}})
    talk.look()


# A broker whose groups have room for two, and whose default assignor is the range assignor


@story("small")
def third_consumer_is_refused(talk: Talk) -> None:
    talk.shared("foo", 6)
    a, b, c = (talk.consumer(name, "foo") for name in "ABC")
    a.join()
    b.join()
    c.join()
    b.join()
    a.leave()
    c.join()
    talk.look()


@story("small")
def full_group_has_no_room_for_a_static_return(talk: Talk) -> None:
    talk.shared("foo", 6)
    a, b = talk.consumer("A", "foo", instance="a"), talk.consumer("B", "foo")
    a.join()
    b.join()
    a.leave(-2)
    back = talk.consumer("A2", "foo", instance="a")
    back.join()
    a.join()
    talk.look()


@story("small", version=[3, 9])
def third_classic_member_is_refused(talk: Talk, version: int) -> Conversation:
    talk.shared("foo", 6)
    a, b, c = (talk.classic(name, "foo") for name in "ABC")
    for member in (a, b, c):
        member.join(version)
    yield 2.3
    a.joined(a.join(version))
    yield 2.3
    c.join(version)
    talk.look()
    for member in (a, b):
        member.leave()
    yield 3  # the empty group is swept away
    c.join(version)
    yield 2.3
    talk.look()


@story("small")
def classic_member_finds_a_full_consumer_group(talk: Talk) -> None:
    talk.shared("foo", 6)
    a, b = talk.consumer("A", "foo"), talk.consumer("B", "foo", instance="b")
    a.join()
    b.join()
    talk.classic("C", "foo").join()
    talk.classic("B2", "foo", instance="b").join()
    talk.look()


@story("small")
def full_classic_group_is_upgraded_by_nobody(talk: Talk) -> Conversation:
    talk.shared("foo", 6)
    a, b = talk.classic("A", "foo"), talk.classic("B", "foo", instance="b")
    a.join()
    b.join()
    yield 2.3
    a.join()
    b.join()
    yield 2.3
    talk.look()
    talk.consumer("C", "foo").join()
    talk.consumer("B2", "foo", instance="b").join()
    talk.look()


@story("small")
def first_members_wait_for_company(talk: Talk) -> Conversation:
    """`group.initial.rebalance.delay.ms`, and again as long as members come."""
    talk.shared("foo", 6)
    a, b = talk.classic("A", "foo"), talk.classic("B", "foo")
    a.join()
    talk.look()
    yield 0.6
    b.join()
    yield 0.6
    talk.look()
    yield 2.3
    talk.look()


@story("small", assignor=[None, "range", "uniform"])
def the_only_assignor(talk: Talk, assignor: str | None) -> None:
    talk.shared("foo", 6)
    a, b = (talk.consumer(name, "foo", assignor=assignor) for name in "AB")
    a.join()
    b.join()
    a.ack()
    a.ack()
    b.ack()
    talk.look()


@story("small", length=[8, 9])
def text_of_a_commit(talk: Talk, length: int) -> None:
    """`offset.metadata.max.bytes`."""
    talk.shared("foo", 6)
    a = talk.consumer("A", "foo")
    a.join()
    a.commit("foo", 0, 5, "x" * length)
    a.commit("foo", 0, 5, "é" * (length // 2))
    talk.offsets("foo")


@story("small", rack=["here", "elsewhere"])
def member_in_a_rack(talk: Talk, rack: str) -> None:
    """The topics' racks are in the metadata hash; a member's own are only stored."""
    talk.topic("foo", 3)
    a = talk.consumer("A", "foo", rack=rack)
    a.join()
    a.beat(rackId="another")
    talk.topic("foo", 4)
    a.beat()
    a.ack()
    talk.look()
