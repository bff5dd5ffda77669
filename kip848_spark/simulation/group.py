"""A simulated group: its clients, their subscriptions, and their commits."""

from __future__ import annotations

from collections.abc import Callable

from kip848_spark.coordinator.classic_group import EMPTY, ClassicGroup
from kip848_spark.coordinator.consumer_group import ConsumerGroup
from kip848_spark.coordinator.records import Json
from kip848_spark.coordinator.streams_group import StreamsGroup
from kip848_spark.simulation.classic import ClassicConsumer
from kip848_spark.simulation.client import SimulatedClient
from kip848_spark.simulation.consumer import Consumer
from kip848_spark.simulation.interfaces import ClientInterface, GroupInterface, PartitionInterface
from kip848_spark.simulation.newer_invariants import BrokenInvariantError
from kip848_spark.simulation.plan import GroupPlan
from kip848_spark.simulation.share_consumer import ShareConsumer
from kip848_spark.simulation.streams_thread import StreamsThread

MOST_CLIENTS = 12
TRANSACTION_TIMEOUT = 60_000


class ManualConsumer(SimulatedClient):
    """A consumer with manually assigned partitions: it only commits."""

    def join_group(self) -> None:
        self.first_tick = self.partition.now + self.partition.rng.randrange(
            self.group.plan.commit_interval
        )
        topics = self.partition.coordinator.shard.topics
        found = (topics.named(name) for name in self.group.topics)
        self.epoch = -1
        self.set_owned({t.topic_id: range(t.partitions) for t in found if t is not None})
        self.update_at_rest()

    def acceptable(self) -> bool:
        group = self.partition.coordinator.shard.groups.get(self.group.plan.group_id)
        return isinstance(group, ClassicGroup) and group.state == EMPTY

    def leave_request(self, *, for_good: bool) -> None:
        return None

    def stop(self, *, for_good: bool = True) -> None:
        self.crash()


class SimulatedGroup:
    """One group and the client processes that belong to it."""

    def __init__(self, partition: PartitionInterface, plan: GroupPlan) -> None:
        self.partition = partition
        self.plan = plan
        self.classic = plan.kind == "classic"
        self.topics = plan.topics
        self.subscription_overrides: dict[int, tuple[str, ...]] = {}
        """Topics of clients, by number, that do not subscribe to the group's usual topics."""
        self.regex: str | None = None
        self.assignor: str | None = partition.rng.choice(
            (None, None, None, *partition.assignor_names)
        )
        self.clients: list[SimulatedClient] = []
        self.busy_until = 0
        self._names = 0

    # Clients

    def new_client(self, *, classic: bool | None = None) -> SimulatedClient:
        """Create another client of the group; it is not started yet."""
        self._names += 1
        kind: Callable[[PartitionInterface, GroupInterface, str], SimulatedClient] = Consumer
        if self.plan.kind == "simple":
            kind = ManualConsumer
        elif self.plan.kind == "share":
            kind = ShareConsumer
        elif self.plan.kind == "streams":
            kind = StreamsThread
        elif self.classic if classic is None else classic:
            kind = ClassicConsumer
        client = kind(self.partition, self, f"{self.plan.group_id.rsplit('-', 1)[0]}-{self._names}")
        self.clients.append(client)
        return client

    def remove(self, client: SimulatedClient) -> None:
        """Remove a client for good."""
        if client in self.clients:
            self.clients.remove(client)
        self.subscription_overrides.pop(client.number, None)

    def running_clients(self) -> list[SimulatedClient]:
        """The clients whose process is running."""
        return [client for client in self.clients if client.running]

    def topics_for(self, client: int) -> tuple[str, ...]:
        """The topics that a client, given by its number, subscribes to."""
        return self.subscription_overrides.get(client, self.topics)

    def process_of(self, client: int) -> str:
        """The id of the process that a client, given by its number, runs in. In some groups, two
        threads share a process; a process keeps its id when it is restarted.
        """
        threads = 2 if self.plan.cooperative else 1
        return f"{self.plan.group_id}-process-{client // threads}"

    def on_refused(self, code: str) -> None:
        """A client's heartbeat was refused with this error code."""
        if code == "INVALID_REGULAR_EXPRESSION":
            self.regex = None

    def check_owners(self) -> None:
        """Raise BrokenInvariantError if two clients that are members read one partition.

        Only members of consumer and streams groups are checked, and of these only clients of the
        new protocol. A classic client may be removed while its JoinGroup is in flight and be a
        member again when it arrives, still reading partitions that now belong to another member.
        """
        group = self.partition.coordinator.shard.groups.get(self.plan.group_id)
        if self.partition.invariants is None or not isinstance(group, ConsumerGroup | StreamsGroup):
            return
        owners: dict[tuple[str, int], SimulatedClient] = {}
        for client in self.running_clients():
            if client.classic or client.member_id not in group.members:
                continue
            for topic, numbers in client.owned.items():
                for number in numbers:
                    other = owners.setdefault((topic, number), client)
                    if other is not client:
                        raise BrokenInvariantError(
                            f"group {self.plan.group_id!r}: {other.name} and {client.name} both "
                            f"work on {self.partition.topic_names[topic]}-{number}"
                        )

    # Commits

    def write_commits(self, until: int) -> None:
        """Write what the group's clients have committed in bulk up to a time in ms."""
        for client in self.clients:
            client.write_commits(until)

    def commit(self, client: ClientInterface, then: Callable[[Json | None], None]) -> None:
        """Send a commit of a client's current positions."""
        if self.plan.kind == "transactional":
            self._commit_in_transaction(client, then)
            return
        request = self.commit_request(client, self.partition.now)
        version = 10 if self.by_id else 9
        self.partition.request(
            "OffsetCommit", request, client.sender, then, version=version, group=self
        )

    @property
    def by_id(self) -> bool:
        """Whether the group's commits name topics by id."""
        return self.plan.commits_by_id and self.partition.coordinator.release.offset_topic_ids

    def commit_request(self, client: ClientInterface, at: int) -> Json:
        """The OffsetCommit request of a client's positions at a time in ms."""
        return {
            "groupId": self.plan.group_id,
            "generationIdOrMemberEpoch": client.epoch,
            "memberId": client.member_id,
            "groupInstanceId": client.instance_id if client.member_id else None,
            "topics": self._topics(client, at),
        }

    def _topics(self, client: ClientInterface, at: int) -> list[Json]:
        positions = self.partition.positions
        topics: dict[str, Json] = {}
        for (name, number, topic_id), key_number in zip(
            client.rows, client.numbers.tolist(), strict=True
        ):
            topic = topics.setdefault(name, {"topicId": topic_id} if self.by_id else {"name": name})
            topic.setdefault("partitions", []).append(
                {
                    "partitionIndex": number,
                    "committedOffset": positions.offset(key_number, at),
                    "committedLeaderEpoch": positions.leader(key_number),
                    "committedMetadata": client.text,
                }
            )
        return list(topics.values())

    def _commit_in_transaction(
        self, client: ClientInterface, then: Callable[[Json | None], None]
    ) -> None:
        partition = self.partition
        committed = partition.rng.random() < 0.85
        producer = partition.next_producer()
        topics = self._topics(client, partition.now)
        request: Json = {
            "transactionalId": f"{self.plan.group_id}-{client.number}",
            "groupId": self.plan.group_id,
            "producerId": producer,
            "producerEpoch": 0,
            "generationId": client.epoch,
            "memberId": client.member_id,
            "groupInstanceId": client.instance_id,
            "topics": [
                {"name": partition.name_of(topic), "partitions": topic["partitions"]}
                for topic in topics
            ],
        }
        partition.open_transactions[producer] = committed
        partition.request(
            "TxnOffsetCommit", request, client.sender, then, version=5, group=self,
            visible=committed,
        )  # fmt: skip
        delay = partition.delay() + 20 if committed or client.number % 2 else TRANSACTION_TIMEOUT
        partition.at(partition.now + delay, lambda: partition.end_transaction(producer))
