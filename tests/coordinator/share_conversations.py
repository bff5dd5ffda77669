"""Conversations of share groups: scripted ones, and generated ones."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from tests.coordinator.conversation import Conversation, Json, Pauses


@dataclass(slots=True)
class ShareClient:
    """A member of a share group, with the epoch that its client holds."""

    conversation: Conversation
    name: str
    topics: list[str] = field(default_factory=list)
    epoch: int = 0

    def heartbeat(self, **more: Any) -> Any:
        request: Json = {"memberId": self.name, "memberEpoch": self.epoch} | more
        answer = self.conversation.send(self.name, "ShareGroupHeartbeat", **request)
        if answer["errorCode"] == "NONE":
            self.epoch = max(answer["memberEpoch"], 0)
        elif answer["errorCode"] in ("FENCED_MEMBER_EPOCH", "UNKNOWN_MEMBER_ID"):
            self.epoch = 0
        return answer

    def join(self, *topics: str, **more: Any) -> Any:
        self.topics = list(topics) or self.topics
        names = [self.conversation.topic_name(name) for name in self.topics]
        return self.heartbeat(**({"memberEpoch": 0, "subscribedTopicNames": names} | more))

    def subscribe(self, *topics: str) -> Any:
        self.topics = list(topics)
        names = [self.conversation.topic_name(name) for name in topics]
        return self.heartbeat(subscribedTopicNames=names)

    def leave(self) -> Any:
        return self.heartbeat(memberEpoch=-1)


def describe(conversation: Conversation) -> None:
    conversation.send("x", "ShareGroupDescribe", groupIds=[conversation.group])
    conversation.send("x", "ListGroups", statesFilter=[], typesFilter=[])


def _clients(conversation: Conversation, *names: str) -> list[ShareClient]:
    return [ShareClient(conversation, name) for name in names]


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


def a_topic_that_does_not_exist(conversation: Conversation) -> None:
    a, b = _clients(conversation, "A", "B")
    a.join("t")
    b.join("t")
    a.heartbeat()
    conversation.topic("t", 2)
    for member in (a, b, a, b):
        member.heartbeat()


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


def a_consumer_group_first(conversation: Conversation) -> None:
    conversation.topic("t", 1)
    consumer = conversation.consumer("c", "t")
    consumer.join()
    (a,) = _clients(conversation, "A")
    a.join("t")
    consumer.leave()
    a.join("t")
    conversation.send("x", "ShareGroupDescribe", groupIds=[conversation.group])


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


SHARE_SCRIPTED: list[Callable[[Conversation], Pauses | None]] = [
    one_member,
    more_members_than_partitions,
    different_topics,
    a_topic_grows,
    a_topic_is_deleted,
    a_topic_is_unsubscribed,
    a_topic_that_does_not_exist,
    wrong_epochs,
    bad_requests,
    another_type,
    a_consumer_group_first,
    deletion,
]


def shares(conversation: Conversation, seed: int, steps: int = 40) -> Pauses:
    """Members that come, go and subscribe, with topics that grow and are deleted."""
    rng = random.Random(seed)
    sizes = {name: rng.choice((1, 2, 3, 6)) for name in ("t1", "t2", "t3")}
    for name in sorted(sizes)[: rng.randint(1, 3)]:
        conversation.topic(name, sizes[name])
    same = rng.random() < 0.5
    members = [
        ShareClient(
            conversation,
            f"{name}{rng.randint(0, 999)}",
            ["t1", "t2"] if same else rng.sample(sorted(sizes), rng.randint(1, 3)),
        )
        for name in "ABCDEFG"[: rng.randint(1, 7)]
    ]
    for _ in range(steps):
        _random_request(conversation, rng, rng.choice(members), sizes)
    for _ in range(2):
        for member in members:
            if member.epoch:
                member.heartbeat()
    conversation.send("x", "ShareGroupDescribe", groupIds=[conversation.group])
    yield 0
    for member in members:
        if rng.random() < 0.6 and member.epoch:
            member.leave()
    if rng.random() < 0.3:
        conversation.delete_group()


def _random_request(
    conversation: Conversation, rng: random.Random, member: ShareClient, sizes: dict[str, int]
) -> None:
    what = rng.random()
    if member.epoch == 0:
        member.join()
    elif what < 0.6:
        member.heartbeat()
    elif what < 0.72:
        member.subscribe(*rng.sample(sorted(sizes), rng.randint(1, 3)))
    elif what < 0.84:
        member.leave()
    elif what < 0.87:
        member.heartbeat(rackId=rng.choice("ab"))
    elif what < 0.9:
        member.join()
    elif what < 0.93:
        member.heartbeat(memberEpoch=member.epoch + rng.choice((-1, 1, 3)))
    else:
        name = rng.choice(sorted(sizes))
        there = conversation.topics.get(name) in conversation.comparison.topic_ids
        if there and rng.random() < 0.3:
            conversation.delete_topic(name)
        else:
            sizes[name] += there
            conversation.topic(name, sizes[name])
