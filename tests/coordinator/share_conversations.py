"""Members of share groups, and generated conversations of them."""

from __future__ import annotations

import random
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
