"""A group's life: its clients, what they ask for, and how they commit."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from kip848_spark.coordinator.classic_group import EMPTY, ClassicGroup
from kip848_spark.coordinator.consumer_group import ConsumerGroup
from kip848_spark.coordinator.records import Json
from kip848_spark.simulation.classic import ClassicConsumer
from kip848_spark.simulation.client import Client
from kip848_spark.simulation.consumer import Consumer
from kip848_spark.simulation.invariants import BrokenInvariantError
from kip848_spark.simulation.plan import GroupPlan

if TYPE_CHECKING:
    from kip848_spark.simulation.partition import PartitionLife

MOST_CLIENTS = 12
TRANSACTION_TIMEOUT = 60_000


class ManualConsumer(Client):
    """A consumer that was given its partitions by hand: it only commits."""

    def enter(self) -> None:
        self.first_tick = self.life.now + self.life.rng.randrange(self.group.plan.commit_interval)
        topics = self.life.coordinator.shard.topics
        found = (topics.named(name) for name in self.group.topics)
        self.epoch = -1
        self.set_owned({t.topic_id: range(t.partitions) for t in found if t is not None})
        self.settle()

    def acceptable(self) -> bool:
        group = self.life.coordinator.shard.groups.get(self.group.plan.group_id)
        return isinstance(group, ClassicGroup) and group.state == EMPTY

    def goodbye(self, *, for_good: bool) -> None:
        return None

    def stop(self, *, for_good: bool = True) -> None:
        self.crash()


class GroupLife:
    """One group and the processes that belong to it."""

    def __init__(self, life: PartitionLife, plan: GroupPlan) -> None:
        self.life = life
        self.plan = plan
        self.classic = plan.kind == "classic"
        self.topics = plan.topics
        self.odd: dict[int, tuple[str, ...]] = {}
        """Clients that ask for other topics than the rest."""
        self.regex: str | None = None
        self.assignor: str | None = life.rng.choice((None, None, None, "range", "uniform"))
        self.clients: list[Client] = []
        self.busy_until = 0
        self._names = 0

    # Clients

    def new_client(self, *, classic: bool | None = None) -> Client:
        """Another process of the group, not yet started."""
        self._names += 1
        kind: Callable[[PartitionLife, GroupLife, str], Client] = Consumer
        if self.plan.kind == "simple":
            kind = ManualConsumer
        elif self.classic if classic is None else classic:
            kind = ClassicConsumer
        client = kind(self.life, self, f"{self.plan.group_id.rsplit('-', 1)[0]}-{self._names}")
        self.clients.append(client)
        return client

    def present(self, client: Client) -> None:
        """The client lives."""
        if client not in self.clients:
            self.clients.append(client)

    def remove(self, client: Client) -> None:
        """The client does not come back."""
        if client in self.clients:
            self.clients.remove(client)
        self.odd.pop(client.number, None)

    def up(self) -> list[Client]:
        """The clients that run."""
        return [client for client in self.clients if client.running]

    def topics_for(self, client: Client) -> tuple[str, ...]:
        """What a client asks for."""
        return self.odd.get(client.number, self.topics)

    def refused(self, client: Client, code: str) -> None:
        """A join was refused for what it asks."""
        if code == "INVALID_REGULAR_EXPRESSION":
            self.regex = None

    def check_owners(self) -> None:
        """No partition is worked on by two clients of the new protocol that are members.

        A classic client may be expelled while its JoinGroup is under way and be a member again
        when that arrives, with partitions in hand that are another's by then.
        """
        group = self.life.coordinator.shard.groups.get(self.plan.group_id)
        if self.life.invariants is None or not isinstance(group, ConsumerGroup):
            return
        owners: dict[tuple[str, int], Client] = {}
        for client in self.up():
            if client.classic or client.member_id not in group.members:
                continue
            for topic, numbers in client.owned.items():
                for number in numbers:
                    other = owners.setdefault((topic, number), client)
                    if other is not client:
                        raise BrokenInvariantError(
                            f"group {self.plan.group_id!r}: {other.name} and {client.name} both "
                            f"work on {self.life.topic_names[topic]}-{number}"
                        )

    # Commits

    def commit(self, client: Client, then: Callable[[Json | None], None]) -> None:
        """Commit what a client has read by now."""
        if self.plan.kind == "transactional":
            self._commit_in_transaction(client, then)
            return
        request = self.commit_request(client, self.life.now)
        version = 10 if self.by_id else 9
        self.life.request("OffsetCommit", request, client.sender, then, version=version, group=self)

    @property
    def by_id(self) -> bool:
        """Whether its commits name topics by their id."""
        return self.plan.commits_by_id and self.life.coordinator.release.offset_topic_ids

    def commit_request(self, client: Client, at: int) -> Json:
        """OffsetCommit of what a client has read by a time."""
        return {
            "groupId": self.plan.group_id,
            "generationIdOrMemberEpoch": client.epoch,
            "memberId": client.member_id,
            "groupInstanceId": client.instance_id if client.member_id else None,
            "topics": self._topics(client, at),
        }

    def _topics(self, client: Client, at: int) -> list[Json]:
        places = self.life.places
        topics: dict[str, Json] = {}
        for (name, number, topic_id), place in zip(
            client.rows, client.numbers.tolist(), strict=True
        ):
            topic = topics.setdefault(name, {"topicId": topic_id} if self.by_id else {"name": name})
            topic.setdefault("partitions", []).append(
                {
                    "partitionIndex": number,
                    "committedOffset": places.offset(place, at),
                    "committedLeaderEpoch": places.leader(place),
                    "committedMetadata": client.text,
                }
            )
        return list(topics.values())

    def _commit_in_transaction(self, client: Client, then: Callable[[Json | None], None]) -> None:
        life = self.life
        committed = life.rng.random() < 0.85
        producer = life.next_producer()
        places = self._topics(client, life.now)
        request: Json = {
            "transactionalId": f"{self.plan.group_id}-{client.number}",
            "groupId": self.plan.group_id,
            "producerId": producer,
            "producerEpoch": 0,
            "generationId": client.epoch,
            "memberId": client.member_id,
            "groupInstanceId": client.instance_id,
            "topics": [
                {"name": life.name_of(topic), "partitions": topic["partitions"]} for topic in places
            ],
        }
        life.open_transactions[producer] = committed
        life.request(
            "TxnOffsetCommit", request, client.sender, then, version=5, group=self,
            visible=committed,
        )  # fmt: skip
        patience = life.delay() + 20 if committed or client.number % 2 else TRANSACTION_TIMEOUT
        life.at(life.now + patience, lambda: life.end_transaction(producer))
