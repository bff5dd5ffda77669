"""The classic protocol: joins, syncs, generations, static members."""

from __future__ import annotations

from tests.coordinator.conversation import Conversation, Talk
from tests.coordinator.conversations.registry import story


@story()
def classic_life(talk: Talk) -> Conversation:
    """Two classic members: join, sync, heartbeat, rebalance, leave."""
    talk.topic("foo", 4)
    a, b = talk.classic("A", "foo"), talk.classic("B", "foo")
    a.join()
    yield 0.1
    a.joined(a.join())
    a.sync({a.member_id: {"foo": [0, 1, 2, 3]}})
    a.beat()
    a.beat(generationId=99)
    a.beat(memberId="nobody")
    b.join()
    a.beat()
    a.join()
    yield 0.1
    b.join()
    a.join()
    yield 0.1
    talk.ask("x", "DescribeGroups", groups=[talk.group])
    talk.ask("x", "ListGroups", statesFilter=["stable"], typesFilter=["nonsense"])
    a.leave()
    b.leave(members=[{"memberId": "nobody", "groupInstanceId": None}])
    b.beat()
    yield 0.1
    b.leave()
    b.beat()
    talk.ask("x", "DeleteGroups", groupsNames=[talk.group])
    a.beat()


@story()
def classic_errors(talk: Talk) -> Conversation:
    talk.topic("foo", 2)
    a = talk.classic("A", "foo")
    a.join(sessionTimeoutMs=1)
    a.join(groupId="")
    a.join(memberId="nobody")
    a.join(protocolType="")
    a.join(protocols=[])
    a.sync()
    a.beat()
    a.leave()
    a.join()
    yield 0.1
    c = talk.classic("C", "foo", protocols=("other",))
    c.join()
    c.join(protocolType="connect")
    a.sync(generationId=7)
    a.sync(memberId="nobody")
    a.sync(protocolName="other")
    a.sync(groupInstanceId="nobody")
    yield 0


@story()
def classic_static(talk: Talk) -> Conversation:
    """Static members come back under new ids; a stable group does not rebalance for that."""
    talk.topic("foo", 4)
    a = talk.classic("A", "foo", instance="a")
    b = talk.classic("B", "foo", instance="b")
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
    talk.ask("x", "DescribeGroups", groups=[talk.group])
    old = a.member_id
    a.member_id = ""
    a.join()
    yield 0.2
    a.beat(memberId=old)
    a.sync(memberId=old)
    a.leave(members=[{"memberId": old, "groupInstanceId": "a"}])
    b.leave(members=[{"memberId": "", "groupInstanceId": "b"}])
    b.leave(members=[{"memberId": "", "groupInstanceId": "nobody"}])
    yield 0.2
    talk.ask("x", "DescribeGroups", groups=[talk.group])
