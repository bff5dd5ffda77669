"""Share groups: one rule each."""

from __future__ import annotations

from tests.coordinator.conversation import Conversation
from tests.coordinator.conversations.registry import scripted
from tests.coordinator.share_conversations import ShareClient


def describe(conversation: Conversation) -> None:
    conversation.send("x", "ShareGroupDescribe", groupIds=[conversation.group])
    conversation.send("x", "ListGroups", statesFilter=[], typesFilter=[])


def _clients(conversation: Conversation, *names: str) -> list[ShareClient]:
    return [ShareClient(conversation, name) for name in names]


@scripted("share")
def one_member(conversation: Conversation) -> None:
    """A join shows two epochs: without partitions, then with those that were initialized."""
    conversation.topic("t", 3)
    (member,) = _clients(conversation, "A")
    member.join("t")
    for _ in range(3):
        member.heartbeat()
    describe(conversation)
    member.leave()
    describe(conversation)


@scripted("share")
def more_members_than_partitions(conversation: Conversation) -> None:
    conversation.topic("t", 2)
    members = _clients(conversation, "A", "B", "C", "D", "E")
    for member in members:
        member.join("t")
        members[0].heartbeat()
    for _ in range(2):
        for member in members:
            member.heartbeat()
    members[0].leave()
    members[3].leave()
    for member in (members[1], members[2], members[4]):
        member.heartbeat()
    describe(conversation)


@scripted("share")
def different_topics(conversation: Conversation) -> None:
    for name, count in (("t1", 3), ("t2", 4)):
        conversation.topic(name, count)
    a, b, c = _clients(conversation, "A", "B", "C")
    a.join("t1")
    b.join("t2")
    c.join("t1", "t2")
    for member in (a, b, c, a, b, c):
        member.heartbeat()
    c.subscribe("t2")
    b.subscribe("t1")
    for member in (a, b, c, a):
        member.heartbeat()
    a.leave()
    for member in (b, c):
        member.heartbeat()


@scripted("share")
def a_topic_grows(conversation: Conversation) -> None:
    conversation.topic("t", 2)
    a, b = _clients(conversation, "A", "B")
    a.join("t")
    b.join("t")
    for member in (a, b, a, b):
        member.heartbeat()
    conversation.topic("t", 5)
    for member in (a, b, a, b, a):
        member.heartbeat()


@scripted("share")
def a_topic_is_deleted(conversation: Conversation) -> None:
    for name in ("t1", "t2"):
        conversation.topic(name, 2)
    a, b = _clients(conversation, "A", "B")
    a.join("t1", "t2")
    b.join("t1", "t2")
    for member in (a, b, a, b):
        member.heartbeat()
    conversation.delete_topic("t1")
    for member in (a, b, a, b):
        member.heartbeat()


@scripted("share")
def a_topic_is_unsubscribed(conversation: Conversation) -> None:
    """Brokers of 4.1 raise the epoch with every further heartbeat."""
    for name in ("t1", "t2"):
        conversation.topic(name, 2)
    a, b = _clients(conversation, "A", "B")
    a.join("t1", "t2")
    b.join("t1", "t2")
    for member in (a, b, a, b):
        member.heartbeat()
    a.subscribe("t1")
    b.subscribe("t1")
    for member in (a, b, a, b, a, b):
        member.heartbeat()


@scripted("share")
def a_topic_that_does_not_exist(conversation: Conversation) -> None:
    a, b = _clients(conversation, "A", "B")
    a.join("t")
    b.join("t")
    a.heartbeat()
    conversation.topic("t", 2)
    for member in (a, b, a, b):
        member.heartbeat()


@scripted("share")
def wrong_epochs(conversation: Conversation) -> None:
    conversation.topic("t", 2)
    a, b = _clients(conversation, "A", "B")
    a.heartbeat(memberEpoch=5)
    a.join("t")
    b.heartbeat(memberEpoch=3)
    b.join("t")
    a.heartbeat()
    a.heartbeat()
    epoch = a.epoch
    for wrong in (epoch + 1, epoch - 1, epoch - 2):
        a.heartbeat(memberEpoch=wrong)
        a.epoch = epoch
    a.join()
    a.heartbeat()
    b.heartbeat(memberEpoch=-1)
    b.heartbeat(memberEpoch=-1)


@scripted("share")
def bad_requests(conversation: Conversation) -> None:
    conversation.topic("t", 1)
    (a,) = _clients(conversation, "A")
    a.heartbeat(memberEpoch=0)
    a.heartbeat(memberEpoch=0, subscribedTopicNames=[])
    a.heartbeat(memberEpoch=-2, subscribedTopicNames=["x"])
    a.join("t", memberId="")
    a.join("t", rackId="")
    a.join("t", groupId="")
    a.join("t")
    a.heartbeat(rackId="r")
    a.heartbeat(rackId="r")
    a.heartbeat(subscribedTopicNames=[])
    describe(conversation)
    conversation.send("x", "ShareGroupDescribe", groupIds=["", "no-such-group"])


@scripted("share")
def another_type(conversation: Conversation) -> None:
    """Requests of the other protocols meet a share group, and the other way round."""
    conversation.topic("t", 1)
    (a,) = _clients(conversation, "A")
    a.join("t")
    consumer = conversation.consumer("c", "t")
    consumer.join()
    consumer.heartbeat(memberEpoch=3)
    conversation.classic("d", "t").join()
    conversation.classic("d", "t").heartbeat()
    conversation.describe()
    conversation.send("x", "ConsumerGroupDescribe", groupIds=[conversation.group])
    a.leave()
    consumer.join()
    conversation.classic("d", "t").join()


@scripted("share")
def a_consumer_group_first(conversation: Conversation) -> None:
    conversation.topic("t", 1)
    consumer = conversation.consumer("c", "t")
    consumer.join()
    (a,) = _clients(conversation, "A")
    a.join("t")
    consumer.leave()
    a.join("t")
    conversation.send("x", "ShareGroupDescribe", groupIds=[conversation.group])


@scripted("share")
def deletion(conversation: Conversation) -> None:
    conversation.topic("t", 2)
    (a,) = _clients(conversation, "A")
    a.join("t")
    a.heartbeat()
    conversation.delete_group()
    a.leave()
    conversation.delete_group()
    conversation.delete_group()
    a.join("t")
    a.heartbeat()
    describe(conversation)
