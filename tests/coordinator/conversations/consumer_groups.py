"""Members of the new protocol: joining, heartbeats, epochs, subscriptions."""

from __future__ import annotations

from tests.coordinator.conversation import Conversation, Pauses
from tests.coordinator.conversations.registry import scripted


@scripted()
def three_members_join_foo(conversation: Conversation) -> Pauses:
    """The KIP's first example, with one more member."""
    conversation.topic("foo", 3)
    a, b, c = (conversation.consumer(name, "foo") for name in "ABC")
    a.join()
    b.join()
    b.heartbeat()
    a.heartbeat()
    a.heartbeat()
    a.acknowledge()
    b.heartbeat()
    c.join()
    b.heartbeat()
    c.heartbeat()
    a.heartbeat()
    a.acknowledge()
    c.heartbeat()
    yield 0
    for member in (a, b, c):
        member.heartbeat()
        member.leave()
    conversation.send("x", "ConsumerGroupDescribe", groupIds=[conversation.group])
    a.heartbeat()


@scripted()
def lost_response(conversation: Conversation) -> Pauses:
    """A member that missed the response with its new epoch retries with its previous epoch."""
    conversation.topic("foo", 4)
    a, b = conversation.consumer("A", "foo"), conversation.consumer("B", "foo")
    a.join()
    old = a.epoch
    owned = a.owned
    b.join()
    a.heartbeat()
    a.acknowledge()
    a.heartbeat(memberEpoch=old)
    a.heartbeat(memberEpoch=old, topicPartitions=owned)
    a.heartbeat(memberEpoch=old, topicPartitions=a.owned)
    a.heartbeat(memberEpoch=old, topicPartitions=[])
    a.heartbeat()
    yield 0


@scripted()
def metadata_changes(conversation: Conversation) -> Pauses:
    """Only a changed subscription bumps the epoch; other metadata is only stored."""
    conversation.topic("foo", 3)
    conversation.topic("bar", 2)
    a, b = conversation.consumer("A", "foo"), conversation.consumer("B", "foo")
    a.join()
    b.join()
    a.acknowledge()
    a.acknowledge()
    b.heartbeat()
    a.heartbeat(rackId="r1")
    a.heartbeat(rebalanceTimeoutMs=1234)
    a.heartbeat(serverAssignor="range")
    a.heartbeat(subscribedTopicNames=[conversation.topic_name("foo")])
    a.subscribe("foo", "bar")
    a.heartbeat()
    b.acknowledge()
    a.acknowledge()
    b.subscribe("bar", "foo")
    b.acknowledge()
    a.acknowledge()
    b.heartbeat()
    a.heartbeat()
    a.subscribe("bar")
    a.acknowledge()
    a.acknowledge()
    b.acknowledge()
    b.acknowledge()
    a.heartbeat(subscribedTopicNames=[])
    a.acknowledge()
    a.acknowledge()
    b.acknowledge()
    a.heartbeat(
        rebalanceTimeoutMs=30000,
        subscribedTopicNames=[conversation.topic_name("foo")],
        topicPartitions=a.owned,
    )
    yield 0


@scripted()
def many_members(conversation: Conversation) -> Pauses:
    """Enough members for a broker's hash tables to grow."""
    conversation.topic("foo", 20)
    members = [conversation.consumer(f"m{number:02}", "foo") for number in range(14)]
    for member in members:
        member.join()
    for _ in range(3):
        for member in members:
            member.acknowledge()
    for member in members[::2]:
        member.leave()
    for _ in range(3):
        for member in members[1::2]:
            member.acknowledge()
    yield 0


@scripted()
def every_bad_heartbeat(conversation: Conversation) -> Pauses:
    """Invalid requests, and requests of unknown members or to unknown groups."""
    conversation.topic("foo", 2)
    a = conversation.consumer("A", "foo")
    a.join(groupId="")
    a.join(memberId="")
    a.join(memberEpoch=-3)
    a.join(rebalanceTimeoutMs=-1)
    a.join(topicPartitions=None)
    a.join(topicPartitions=[{"topicId": conversation.topic("foo2", 1), "partitions": [0]}])
    a.join(subscribedTopicNames=None)
    a.join(serverAssignor="nonsense")
    a.join(instanceId="")
    a.join(rackId="")
    a.join(subscribedTopicRegex="(")
    a.heartbeat(memberEpoch=5)
    a.leave()
    a.leave(-2)
    a.heartbeat(memberEpoch=-2, instanceId="i")
    a.join()
    a.heartbeat(memberEpoch=9)
    a.heartbeat(memberEpoch=1)
    a.heartbeat(memberEpoch=0, topicPartitions=[])
    a.heartbeat(memberEpoch=3, memberId="B")
    a.heartbeat(memberId="")
    a.heartbeat(memberEpoch=-1, memberId="B")
    a.heartbeat(instanceId="nobody")
    a.heartbeat()
    yield 0
