"""The classic protocol: joins, syncs, generations, static members."""

from __future__ import annotations

from tests.coordinator.conversation import Conversation, Pauses
from tests.coordinator.conversations.registry import scripted


@scripted()
def classic_lifecycle(conversation: Conversation) -> Pauses:
    """Two classic members: join, sync, heartbeat, rebalance, leave."""
    conversation.topic("foo", 4)
    a, b = conversation.classic("A", "foo"), conversation.classic("B", "foo")
    a.join()
    yield 0.1
    a.joined(a.join())
    a.sync({a.member_id: {"foo": [0, 1, 2, 3]}})
    a.heartbeat()
    a.heartbeat(generationId=99)
    a.heartbeat(memberId="nobody")
    b.join()
    a.heartbeat()
    a.join()
    yield 0.1
    b.join()
    a.join()
    yield 0.1
    conversation.send("x", "DescribeGroups", groups=[conversation.group])
    conversation.send("x", "ListGroups", statesFilter=["stable"], typesFilter=["nonsense"])
    a.leave()
    b.leave(members=[{"memberId": "nobody", "groupInstanceId": None}])
    b.heartbeat()
    yield 0.1
    b.leave()
    b.heartbeat()
    conversation.send("x", "DeleteGroups", groupsNames=[conversation.group])
    a.heartbeat()


@scripted()
def classic_errors(conversation: Conversation) -> Pauses:
    conversation.topic("foo", 2)
    a = conversation.classic("A", "foo")
    a.join(sessionTimeoutMs=1)
    a.join(groupId="")
    a.join(memberId="nobody")
    a.join(protocolType="")
    a.join(protocols=[])
    a.sync()
    a.heartbeat()
    a.leave()
    a.join()
    yield 0.1
    c = conversation.classic("C", "foo", protocols=("other",))
    c.join()
    c.join(protocolType="connect")
    a.sync(generationId=7)
    a.sync(memberId="nobody")
    a.sync(protocolName="other")
    a.sync(groupInstanceId="nobody")
    yield 0


@scripted()
def classic_static(conversation: Conversation) -> Pauses:
    """Static members return with new ids; a stable group does not rebalance for that."""
    conversation.topic("foo", 4)
    a = conversation.classic("A", "foo", instance="a")
    b = conversation.classic("B", "foo", instance="b")
    a.join()
    yield 0.3
    a.joined(a.join())
    a.sync({a.member_id: {"foo": [0, 1, 2, 3]}})
    b.join()
    yield 0.1
    a.join()
    yield 0.3
    b.joined(b.join())
    a.joined(a.join())
    conversation.send("x", "DescribeGroups", groups=[conversation.group])
    old = a.member_id
    a.member_id = ""
    a.join()
    yield 0.2
    a.heartbeat(memberId=old)
    a.sync(memberId=old)
    a.leave(members=[{"memberId": old, "groupInstanceId": "a"}])
    b.leave(members=[{"memberId": "", "groupInstanceId": "b"}])
    b.leave(members=[{"memberId": "", "groupInstanceId": "nobody"}])
    yield 0.2
    conversation.send("x", "DescribeGroups", groups=[conversation.group])
