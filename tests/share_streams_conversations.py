"""Generated conversations of share and streams groups, in raw requests."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import Any

from tests.coordinator.conversation import Conversation, Json, Pauses

SETTINGS = {
    "group.coordinator.rebalance.protocols": "classic,consumer,share,streams",
    "group.share.enable": "true",
    "group.share.heartbeat.interval.ms": "300",
    "group.share.min.heartbeat.interval.ms": "200",
    "group.share.session.timeout.ms": "4000",
    "group.share.min.session.timeout.ms": "1000",
    "group.streams.heartbeat.interval.ms": "300",
    "group.streams.min.heartbeat.interval.ms": "200",
    "group.streams.session.timeout.ms": "4000",
    "group.streams.min.session.timeout.ms": "1000",
    "group.share.assignment.interval.ms": "0",
    "group.streams.assignment.interval.ms": "0",
    "group.streams.initial.rebalance.delay.ms": "0",
    "unstable.api.versions.enable": "true",
}
"""What a broker needs for both kinds of groups."""


@dataclass(slots=True)
class _Member:
    conversation: Conversation
    name: str
    epoch: int = 0
    owned: dict[str, Any] = field(default_factory=dict)

    def heard(self, answer: Any) -> Any:
        if answer["errorCode"] == "NONE":
            self.epoch = max(answer["memberEpoch"], 0)
        elif answer["errorCode"] in ("FENCED_MEMBER_EPOCH", "UNKNOWN_MEMBER_ID"):
            self.epoch = 0
        return answer


@dataclass(slots=True)
class ShareMember(_Member):
    """A member of a share group."""

    def heartbeat(self, **more: Any) -> Any:
        request: Json = {"memberId": self.name, "memberEpoch": self.epoch} | more
        return self.heard(self.conversation.send(self.name, "ShareGroupHeartbeat", 1, **request))

    def join(self, names: list[str]) -> Any:
        topics = [self.conversation.topic_name(name) for name in names]
        return self.heartbeat(memberEpoch=0, subscribedTopicNames=topics)


@dataclass(slots=True)
class StreamsMember(_Member):
    """A member of a streams group."""

    def heartbeat(self, **more: Any) -> Any:
        request: Json = {
            "memberId": self.name,
            "memberEpoch": self.epoch,
            "endpointInformationEpoch": -1,
            "taskOffsets": None,
            "taskEndOffsets": None,
            "clientTags": None,
            **dict.fromkeys(("activeTasks", "standbyTasks", "warmupTasks")),
        } | more
        answer = self.heard(
            self.conversation.send(self.name, "StreamsGroupHeartbeat", 0, **request)
        )
        if answer["errorCode"] == "NONE":
            for kind in ("activeTasks", "standbyTasks", "warmupTasks"):
                if answer.get(kind) is not None:
                    self.owned[kind] = answer[kind]
        return answer

    def join(self, process: str, changelog: bool) -> Any:
        self.owned = {kind: [] for kind in ("activeTasks", "standbyTasks", "warmupTasks")}
        stores = [
            {
                "name": f"{self.conversation.group}-store-changelog",
                "partitions": 0,
                "replicationFactor": 0,
                "topicConfigs": [],
            }
        ]
        subtopology: Json = {
            "subtopologyId": "0",
            "sourceTopics": [self.conversation.topic_name("t1")],
            "sourceTopicRegex": [],
            "stateChangelogTopics": stores if changelog else [],
            "repartitionSinkTopics": [],
            "repartitionSourceTopics": [],
            "copartitionGroups": [],
        }
        return self.heartbeat(
            memberEpoch=0,
            rebalanceTimeoutMs=30_000,
            processId=process,
            topology={"epoch": 0, "subtopologies": [subtopology]},
            clientTags=[],
            **self.owned,
        )

    def acknowledge(self) -> Any:
        return self.heartbeat(**self.owned)


def share(conversation: Conversation, seed: int, steps: int = 40) -> Pauses:
    """Members of a share group that come, go and subscribe."""
    rng = random.Random(seed)
    names = ["t1", "t2"]
    for name in names:
        conversation.topic(name, rng.randint(1, 6))
    members = [ShareMember(conversation, f"{name}{seed}") for name in "ABCD"[: rng.randint(2, 4)]]
    for _ in range(steps):
        member = rng.choice(members)
        what = rng.random()
        if member.epoch == 0:
            member.join(rng.sample(names, rng.randint(1, 2)))
        elif what < 0.6:
            member.heartbeat()
        elif what < 0.75:
            chosen = rng.sample(names, rng.randint(1, 2))
            member.heartbeat(
                subscribedTopicNames=[conversation.topic_name(name) for name in chosen]
            )
        elif what < 0.9:
            member.heartbeat(memberEpoch=-1)
        elif what < 0.95:
            member.heartbeat(rackId=rng.choice(("a", "b")))
        else:
            member.heartbeat(memberEpoch=member.epoch + 3)
    yield 0
    for member in members[1:]:
        if member.epoch:
            member.heartbeat(memberEpoch=-1)


def streams(conversation: Conversation, seed: int, steps: int = 80) -> Pauses:
    """Members of a streams group that join, leave, and return tasks that they must revoke."""
    rng = random.Random(seed)
    conversation.topic("t1", rng.randint(2, 6))
    changelog = rng.random() < 0.3
    if changelog:
        size = rng.randint(2, 6)
        conversation.topics["store"] = f"{conversation.group}-store-changelog"
        conversation.comparison.topic(conversation.topics["store"], size)
    members = [StreamsMember(conversation, f"{name}{seed}") for name in "ABCD"[: rng.randint(2, 4)]]
    for _ in range(steps):
        member = rng.choice(members)
        what = rng.random()
        if member.epoch == 0:
            member.join(f"process-{rng.randint(0, 2)}", changelog)
        elif what < 0.7:
            member.acknowledge()
        elif what < 0.85:
            member.heartbeat()
        elif what < 0.95:
            member.heartbeat(memberEpoch=-1)
        else:
            member.heartbeat(memberEpoch=member.epoch + 3)
    yield 0
    for _ in range(3):
        for member in members:
            if member.epoch:
                member.acknowledge()
    for member in members[1:]:
        if member.epoch:
            member.heartbeat(memberEpoch=-1)
