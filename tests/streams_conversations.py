"""Generated conversations of streams groups, in raw requests: topologies of several kinds, standby
tasks, processes with several members, internal topics that come late, topics that grow."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import Any

from confluent_kafka.admin import AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType

from tests.coordinator.conversation import Conversation, Json, Pauses

ROLES = ("activeTasks", "standbyTasks", "warmupTasks")
STANDBYS = "streams.num.standby.replicas"
DELAY = "streams.initial.rebalance.delay.ms"
INTERVAL = "streams.assignment.interval.ms"
JOIN, LEAVE, STATIC_LEAVE = 0, -1, -2


def broker_settings(release: str) -> dict[str, str]:
    """What a broker of a release needs for conversations of streams groups."""
    settings = {
        "group.coordinator.rebalance.protocols": "classic,consumer,streams",
        "group.streams.heartbeat.interval.ms": "300",
        "group.streams.min.heartbeat.interval.ms": "200",
        "group.streams.session.timeout.ms": "4000",
        "group.streams.min.session.timeout.ms": "1000",
        "group.streams.max.standby.replicas": "2",
        "unstable.api.versions.enable": "true",
    }
    if release < "4.2":
        return settings | {"unstable.feature.versions.enable": "true"}
    return settings | {"group.streams.initial.rebalance.delay.ms": "0"}


def internal_topic(name: str, partitions: int = 0) -> Json:
    """A row of a topology: a changelog or repartition topic."""
    return {"name": name, "partitions": partitions, "replicationFactor": 0, "topicConfigs": []}


def subtopology(name: str, **fields: Any) -> Json:
    """A row of a topology, empty but for the given fields."""
    return {
        "subtopologyId": name,
        "sourceTopics": [],
        "sourceTopicRegex": [],
        "stateChangelogTopics": [],
        "repartitionSinkTopics": [],
        "repartitionSourceTopics": [],
        "copartitionGroups": [],
    } | fields


@dataclass(slots=True)
class StreamsClient:
    """A member of a streams group, with the state that its client holds."""

    conversation: Conversation
    name: str
    process: str
    topology: list[Json]
    instance: str | None = None
    timeout: int = 300_000
    topology_epoch: int = 0
    epoch: int = 0
    owned: dict[str, Any] = field(default_factory=dict)
    member_id: str = ""

    def __post_init__(self) -> None:
        self.member_id = self.member_id or self.name

    def join(self, **more: Any) -> Any:
        self.owned = {role: [] for role in ROLES}
        request: Json = {
            "rebalanceTimeoutMs": self.timeout,
            "processId": self.process,
            "topology": {"epoch": self.topology_epoch, "subtopologies": self.topology},
            "clientTags": [],
            **self.owned,
        }
        return self.heartbeat(**({"memberEpoch": JOIN} | request | more))

    def heartbeat(self, **more: Any) -> Any:
        request: Json = {
            "memberId": self.member_id,
            "memberEpoch": self.epoch,
            "instanceId": self.instance,
            "endpointInformationEpoch": -1,
            "rackId": None,
            "rebalanceTimeoutMs": -1,
            "topology": None,
            "processId": None,
            "userEndpoint": None,
            "clientTags": None,
            "taskOffsets": None,
            "taskEndOffsets": None,
            "shutdownApplication": False,
            **dict.fromkeys(ROLES),
        } | more
        answer = self.conversation.send(self.name, "StreamsGroupHeartbeat", 0, **request)
        if answer is None:
            return None
        if answer["errorCode"] == "NONE":
            self.epoch = max(answer["memberEpoch"], 0)
            for role in ROLES:
                if answer.get(role) is not None:
                    self.owned[role] = answer[role]
        elif answer["errorCode"] in ("FENCED_MEMBER_EPOCH", "UNKNOWN_MEMBER_ID"):
            self.epoch = 0
        return answer

    def acknowledge(self) -> Any:
        """A heartbeat that reports the owned tasks."""
        return self.heartbeat(**self.owned)

    def leave(self, epoch: int = LEAVE) -> Any:
        """Leave for good, or for a while (-2)."""
        answer = self.heartbeat(memberEpoch=epoch)
        self.epoch = 0
        return answer


def configure(conversation: Conversation, settings: dict[str, str]) -> None:
    """Set the group's own settings, on the reference too if there is one."""
    comparison: Any = conversation.comparison
    if hasattr(comparison, "configure"):
        comparison.configure(conversation.group, settings)
        return
    entries = [
        ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET)
        for name, value in settings.items()
    ]
    resource = ConfigResource(ResourceType.GROUP, conversation.group, incremental_configs=entries)
    comparison.retry(lambda: comparison.admin.incremental_alter_configs([resource]))


def _internal(conversation: Conversation, name: str) -> str:
    """The full name of an internal topic, which `Conversation.topics` then knows."""
    conversation.topics[name] = f"{conversation.group}-{name}"
    return conversation.topics[name]


def _create(conversation: Conversation, name: str, partitions: int) -> None:
    conversation.comparison.topic(conversation.topics[name], partitions)


def _topology(conversation: Conversation, rng: random.Random) -> tuple[list[Json], list[str]]:
    """A random topology over the topics t1 and t2, and the internal topics that it needs."""
    first, second = (conversation.topic_name(name) for name in ("t1", "t2"))
    needed: list[str] = []

    def store(name: str) -> Json:
        needed.append(name)
        return internal_topic(_internal(conversation, name))

    kind = rng.choice(("stateless", "stateful", "stateful", "two", "repartition"))
    if kind == "stateless":
        return [subtopology("0", sourceTopics=[first])], needed
    if kind == "stateful":
        stores = [store("store-changelog")]
        return [subtopology("0", sourceTopics=[first], stateChangelogTopics=stores)], needed
    if kind == "two":
        stores = [store("store-changelog")]
        return [
            subtopology("0", sourceTopics=[first], stateChangelogTopics=stores),
            subtopology("1", sourceTopics=[second]),
        ], needed
    repartition = store("by-key-repartition")
    stores = [store("store-changelog")]
    return [
        subtopology("0", sourceTopics=[first], repartitionSinkTopics=[repartition["name"]]),
        subtopology("1", repartitionSourceTopics=[repartition], stateChangelogTopics=stores),
    ], needed


@dataclass(slots=True)
class _Application:
    """A streams application that lives at random."""

    conversation: Conversation
    rng: random.Random
    release: str
    size: int = 0
    timed: bool = True
    """Whether targets may have to wait: then the result depends on how fast requests follow."""
    late: list[str] = field(default_factory=list)
    """Topics that do not exist yet."""
    grows: bool = False
    """Whether the source topic may grow: no internal topic depends on it."""
    members: list[StreamsClient] = field(default_factory=list)

    def begin(self, seed: int) -> None:
        rng, conversation = self.rng, self.conversation
        self.size = rng.randint(1, 5)
        topology, internal = _topology(conversation, rng)
        conversation.topic("t2", rng.randint(1, 5))
        self.grows = not internal
        late = rng.random() < 0.3
        # Brokers create missing internal topics by themselves, at some time.
        self.late = ["t1"] * late if not self.timed else internal * late
        if "t1" not in self.late:
            conversation.topic("t1", self.size)
        for name in internal:
            if name not in self.late:
                _create(conversation, name, self.size)
        settings = {STANDBYS: str(rng.choice((0, 1, 1, 2)))}
        if not self.timed:
            settings[DELAY] = "0"
        elif self.release >= "4.2" and rng.random() < 0.3:
            settings[DELAY] = "300"
        if self.timed and self.release >= "4.3":
            settings[INTERVAL] = rng.choice(("0", "0", "400"))
        configure(conversation, settings)
        statics = self.release >= "4.4" and rng.random() < 0.4
        for name in "ABCDE"[: rng.randint(1, 5)]:
            instance = f"instance-{name}" if statics and rng.random() < 0.6 else None
            self.members.append(
                StreamsClient(conversation, f"{name}{seed}", self.process(), topology, instance)
            )

    def process(self) -> str:
        """One of three processes. A member may move to another one, which no real client does."""
        return f"process-{self.rng.randint(0, 2)}"

    def step(self) -> None:
        member = self.rng.choice(self.members)
        if not member.epoch:
            if member.instance and self.rng.random() < 0.7:  # the client has been restarted
                member.member_id = f"{member.name}-{self.rng.randint(0, 9)}"
            member.join()
            return
        actions, weights = zip(*_ACTIONS.items(), strict=True)
        action = self.rng.choices(actions, weights)[0]
        getattr(self, action)(member)

    def acknowledge(self, member: StreamsClient) -> None:
        member.acknowledge()

    def heartbeat(self, member: StreamsClient) -> None:
        member.heartbeat()

    def leave(self, member: StreamsClient) -> None:
        member.leave()

    def pause(self, member: StreamsClient) -> None:
        member.leave(STATIC_LEAVE) if member.instance else member.acknowledge()

    def claim_another_epoch(self, member: StreamsClient) -> None:
        member.heartbeat(memberEpoch=member.epoch + self.rng.choice((3, -1)))

    def rejoin(self, member: StreamsClient) -> None:
        if member.instance and self.rng.random() < 0.5:
            other = f"{member.name}-other"  # wants the name of a member that has not left
            member.heartbeat(memberId=other) if self.rng.random() < 0.5 else member.join(
                memberId=other
            )
            return
        member.join(processId=self.process())

    def change(self, member: StreamsClient) -> None:
        changes: list[Json] = [
            {"rackId": self.rng.choice("ab")},
            {"clientTags": [{"key": "zone", "value": self.rng.choice("ab")}]},
            {"rebalanceTimeoutMs": self.rng.choice((200_000, 300_000))},
        ]
        if "t1" not in self.late:  # else brokers fail to list the partitions of the endpoint
            changes.append({"userEndpoint": {"host": "here", "port": self.rng.choice((1, 2))}})
        member.heartbeat(**self.rng.choice(changes))

    def move(self, member: StreamsClient) -> None:
        """Into another process, perhaps with what the member owns."""
        owned = member.owned if self.rng.random() < 0.5 else {}
        member.heartbeat(processId=self.process(), **owned)

    def set_standbys(self, member: StreamsClient) -> None:
        configure(self.conversation, {STANDBYS: str(self.rng.choice((0, 1, 2)))})

    def change_topics(self, member: StreamsClient) -> None:
        if "t1" in self.late:
            self.conversation.topic(self.late.pop(), self.size)
        elif self.late:
            _create(self.conversation, self.late.pop(), self.size)
        elif self.grows:
            self.size += 1
            self.conversation.topic("t1", self.size)

    def settle(self) -> None:
        for _ in range(4):
            for member in self.members:
                if member.epoch:
                    member.acknowledge()

    def end(self) -> None:
        """Some applications end, and some of these begin again."""
        if self.rng.random() < 0.5:
            return
        for member in self.members:
            if member.epoch:
                member.leave()
        if self.rng.random() < 0.6:
            self.conversation.delete_group()
            if self.rng.random() < 0.5:
                self.members[0].join()
                self.members[0].acknowledge()


_ACTIONS = {
    "acknowledge": 60, "heartbeat": 14, "leave": 8, "pause": 4, "claim_another_epoch": 3,
    "rejoin": 2, "move": 3, "change": 4, "set_standbys": 1, "change_topics": 3,
}  # fmt: skip
"""What a member may do next, by its weight."""


def applications(
    conversation: Conversation,
    seed: int,
    steps: int = 90,
    release: str = "4.3",
    *,
    timed: bool = True,
) -> Pauses:
    """One application: members in a few processes join, leave, acknowledge, change."""
    application = _Application(conversation, random.Random(seed), release, timed=timed)
    application.begin(seed)
    yield 0
    for _ in range(steps):
        application.step()
        if application.rng.random() < 0.02:
            yield 0.4
    application.settle()
    application.end()
