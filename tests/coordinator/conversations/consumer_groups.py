"""Members of the new protocol: joining, heartbeats, epochs, subscriptions."""

from __future__ import annotations

from tests.coordinator.conversation import Conversation, Talk
from tests.coordinator.conversations.registry import story


@story()
def three_members_join_foo(talk: Talk) -> Conversation:
    """The KIP's first example, with a member more."""
    talk.topic("foo", 3)
    a, b, c = (talk.consumer(name, "foo") for name in "ABC")
    a.join()
    b.join()
    b.beat()
    a.beat()
    a.beat()
    a.ack()
    b.beat()
    c.join()
    b.beat()
    c.beat()
    a.beat()
    a.ack()
    c.beat()
    yield 0
    for member in (a, b, c):
        member.beat()
        member.leave()
    talk.ask("x", "ConsumerGroupDescribe", groupIds=[talk.group])
    a.beat()


@story()
def lost_response(talk: Talk) -> Conversation:
    """A member that missed the response which moved it on retries with its previous epoch."""
    talk.topic("foo", 4)
    a, b = talk.consumer("A", "foo"), talk.consumer("B", "foo")
    a.join()
    old = a.epoch
    owned = a.owned
    b.join()
    a.beat()
    a.ack()
    a.beat(memberEpoch=old)
    a.beat(memberEpoch=old, topicPartitions=owned)
    a.beat(memberEpoch=old, topicPartitions=a.owned)
    a.beat(memberEpoch=old, topicPartitions=[])
    a.beat()
    yield 0


@story()
def changing_what_is_said(talk: Talk) -> Conversation:
    """Only the subscription bumps the epoch; everything else is merely stored."""
    talk.topic("foo", 3)
    talk.topic("bar", 2)
    a, b = talk.consumer("A", "foo"), talk.consumer("B", "foo")
    a.join()
    b.join()
    a.ack()
    a.ack()
    b.beat()
    a.beat(rackId="r1")
    a.beat(rebalanceTimeoutMs=1234)
    a.beat(serverAssignor="range")
    a.beat(subscribedTopicNames=[talk.topic_name("foo")])
    a.subscribe("foo", "bar")
    a.beat()
    b.ack()
    a.ack()
    b.subscribe("bar", "foo")
    b.ack()
    a.ack()
    b.beat()
    a.beat()
    a.subscribe("bar")
    a.ack()
    a.ack()
    b.ack()
    b.ack()
    a.beat(subscribedTopicNames=[])
    a.ack()
    a.ack()
    b.ack()
    a.beat(
        rebalanceTimeoutMs=30000,
        subscribedTopicNames=[talk.topic_name("foo")],
        topicPartitions=a.owned,
    )
    yield 0


@story()
def many_members(talk: Talk) -> Conversation:
    """So many that the tables of a broker have grown."""
    talk.topic("foo", 20)
    members = [talk.consumer(f"m{number:02}", "foo") for number in range(14)]
    for member in members:
        member.join()
    for _ in range(3):
        for member in members:
            member.ack()
    for member in members[::2]:
        member.leave()
    for _ in range(3):
        for member in members[1::2]:
            member.ack()
    yield 0


@story()
def every_bad_heartbeat(talk: Talk) -> Conversation:
    """Errors of a request itself, and of a member or group that isn't there."""
    talk.topic("foo", 2)
    a = talk.consumer("A", "foo")
    a.join(groupId="")
    a.join(memberId="")
    a.join(memberEpoch=-3)
    a.join(rebalanceTimeoutMs=-1)
    a.join(topicPartitions=None)
    a.join(topicPartitions=[{"topicId": talk.topic("foo2", 1), "partitions": [0]}])
    a.join(subscribedTopicNames=None)
    a.join(serverAssignor="nonsense")
    a.join(instanceId="")
    a.join(rackId="")
    a.join(subscribedTopicRegex="(")
    a.beat(memberEpoch=5)
    a.leave()
    a.leave(-2)
    a.beat(memberEpoch=-2, instanceId="i")
    a.join()
    a.beat(memberEpoch=9)
    a.beat(memberEpoch=1)
    a.beat(memberEpoch=0, topicPartitions=[])
    a.beat(memberEpoch=3, memberId="B")
    a.beat(memberId="")
    a.beat(memberEpoch=-1, memberId="B")
    a.beat(instanceId="nobody")
    a.beat()
    yield 0
