"""Groups that go from one protocol to the other, with members and without."""

from __future__ import annotations

from tests.coordinator.conversation import Conversation, Talk
from tests.coordinator.conversations.registry import story


@story()
def upgrade_and_downgrade(talk: Talk) -> Conversation:
    """Online migration up, with a classic member reconciled, and down again."""
    talk.topic("foo", 6)
    a = talk.classic("A", "foo")
    a.join()
    yield 0.2
    a.join()
    a.generation = 1
    a.sync({a.member_id: {"foo": [0, 1, 2, 3, 4, 5]}})
    a.beat()
    b = talk.consumer("B", "foo")
    b.join()
    talk.ask("x", "ConsumerGroupDescribe", groupIds=[talk.group])
    a.beat()
    a.sync()
    b.beat()
    a.owned = []
    a.join()
    a.sync()
    b.beat()
    a.beat()
    a.beat(memberId="nobody")
    a.beat(generationId=77)
    a.sync(protocolName="other")
    c = talk.classic("C", "foo", protocols=("other",))
    c.join()
    d = talk.classic("D", "foo")
    d.join()
    d.sync()
    b.ack()
    b.ack()
    a.beat()
    a.join()
    a.sync()
    d.beat()
    d.join()
    d.sync()
    b.leave()
    yield 0.1
    a.beat()
    a.join()
    d.join()
    yield 0.1
    a.beat()


@story()
def empty_groups_change_type(talk: Talk) -> Conversation:
    talk.topic("foo", 2)
    a = talk.consumer("A", "foo")
    a.join()
    a.leave()
    c = talk.classic("C", "foo")
    c.join()
    yield 0.2
    c.leave()
    yield 0.1
    a.join()
    a.leave()


@story()
def downgrade_by_static_replacement(talk: Talk) -> Conversation:
    """The last member of the new protocol is replaced by itself, with the classic protocol."""
    talk.topic("foo", 4)
    c = talk.classic("C", "foo")
    c.join()
    yield 0.2
    c.join()
    c.generation = 1
    c.sync({c.member_id: {"foo": [0, 1, 2, 3]}})
    a = talk.consumer("A", "foo", instance="a")
    a.join()
    c.beat()
    c.owned = []
    c.joined(c.join())
    c.sync()
    a.beat()
    a.leave(-2)
    back = talk.classic("A2", "foo", instance="a")
    back.join()
    yield 0.2
    c.beat()
    back.beat()
    talk.ask("x", "DescribeGroups", groups=[talk.group])
    talk.ask("x", "ConsumerGroupDescribe", groupIds=[talk.group])


@story()
def static_replacement_by_a_classic_member(talk: Talk) -> Conversation:
    """A static member changes its protocol while others of the new one remain."""
    talk.topic("foo", 4)
    a, b = talk.consumer("A", "foo", instance="a"), talk.consumer("B", "foo")
    a.join()
    b.join()
    a.ack()
    a.ack()
    b.beat()
    back = talk.classic("A2", "foo", instance="a")
    back.join()
    back.sync()
    a.beat()
    b.ack()
    back.beat()
    b.leave()
    yield 0.2
    back.beat()


@story()
def downgrade_is_refused_while_new_members_remain(talk: Talk) -> Conversation:
    talk.topic("foo", 6)
    a, b = talk.consumer("A", "foo"), talk.consumer("B", "foo")
    c = talk.classic("C", "foo")
    a.join()
    c.join()
    c.sync()
    b.join()
    a.ack()
    a.ack()
    c.beat()
    c.join()
    c.sync()
    b.ack()
    a.leave()
    yield 0.1
    c.beat()
    b.ack()
    talk.ask("x", "ListGroups", statesFilter=["nothing"], typesFilter=["classic"])
    b.leave()
    yield 0.2
    c.beat()
    talk.ask("x", "ConsumerGroupDescribe", groupIds=[talk.group])
