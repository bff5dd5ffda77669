"""A group and its clients in one process, checked after every step, and random runs of them.

Checked are the invariants of docs/kafka-facts.md#invariants (C1 to C12 from the records alone, by
`simulation.invariants`), safety (no partition is read by two clients, epochs increase) and liveness
(without further events, all members converge within a bounded number of heartbeats).
"""

from __future__ import annotations

import random
from typing import Any

from kip848_spark.coordinator import Client, Coordinator
from kip848_spark.coordinator.consumer_group import ConsumerGroup, MemberState
from kip848_spark.coordinator.releases import find_release
from kip848_spark.simulation.invariants import Invariants

TOPICS = {"foo": "Zm9vAAAAAAAAAAAAAAAAAA", "bar": "YmFyAAAAAAAAAAAAAAAAAA"}
NAMES = ("A", "B", "C", "D")


class Clients:
    """A group and its clients, each of which follows the KIP's consumer."""

    def __init__(self, release: str) -> None:
        intervals = find_release(release).assignment_interval
        config = {"group.consumer.assignment.interval.ms": "0"} if intervals else {}
        self.coordinator = Coordinator(release, config)
        self.replica = Coordinator(release, config)
        self.now = 1_000
        self.epochs: dict[str, int] = {}
        self.owned: dict[str, dict[str, set[int]]] = {}
        self.assigned: dict[str, dict[str, set[int]]] = {}
        self.restarts: dict[str, int] = {}
        self.sizes = dict.fromkeys(TOPICS, 0)
        self.group_epoch = 0
        self.member_epochs: dict[str, int] = {}
        self.invariants = Invariants(release)

    @property
    def group(self) -> ConsumerGroup | None:
        group = self.coordinator.shard.groups.get("g")
        return group if isinstance(group, ConsumerGroup) else None

    def take(self, steps: list[Any]) -> dict[str, Any]:
        answer: dict[str, Any] = {}
        for step in steps:
            self.invariants.check(step.records)
            for _, response in step.answers:
                answer = response
            for record in step.records:
                self.check_record(record)
                self.replica.replay(record)
        return answer

    def check_record(self, record: dict[str, Any]) -> None:
        kind, key, value = record["key"]["type"], record["key"]["data"], record["value"]
        if kind == "3" and value is not None:
            epoch = value["data"]["epoch"]
            first = self.coordinator.release.first_epoch
            assert epoch == (self.group_epoch or first) + 1, "an epoch is bumped by one"
            self.group_epoch = epoch
        elif kind == "3":
            self.group_epoch = 0  # an empty group is deleted after a while, and then recreated
        if kind == "8":
            member = key["memberId"]
            if value is None:
                self.member_epochs.pop(member, None)
            else:
                epoch = value["data"]["memberEpoch"]
                assert epoch >= self.member_epochs.get(member, 0), "member epochs do not decrease"
                self.member_epochs[member] = epoch

    def topic(self, name: str, partitions: int) -> None:
        self.sizes[name] = partitions
        self.take(self.coordinator.topic(self.now, name, TOPICS[name], partitions))

    def heartbeat(self, name: str, *, owned: bool = True, **more: Any) -> dict[str, Any]:
        joins = name not in self.epochs
        request: dict[str, Any] = {
            "groupId": "g",
            "memberId": self.member_id(name),
            "memberEpoch": self.epochs.get(name, 0),
            **more,
        }
        if joins:
            request |= {"rebalanceTimeoutMs": 20_000, "topicPartitions": []}
            request.setdefault("subscribedTopicNames", ["foo", "bar"])
            self.owned[name], self.assigned[name] = {}, {}
        elif owned:
            request["topicPartitions"] = [
                {"topicId": t, "partitions": sorted(n)} for t, n in self.owned[name].items()
            ]
        self.now += 100
        answer = self.take(
            self.coordinator.request(self.now, "ConsumerGroupHeartbeat", request, Client(name))
        )
        self.expire_clients(besides=name)
        if answer["errorCode"] in ("FENCED_MEMBER_EPOCH", "UNKNOWN_MEMBER_ID"):
            self.reset(name)  # gives up all partitions and joins again
        elif answer["errorCode"] == "NONE" and request["memberEpoch"] >= 0:
            self.epochs[name] = answer["memberEpoch"]
            if answer["assignment"] is not None:
                given = answer["assignment"]
                rows = given.get("topicPartitions", given.get("assignedTopicPartitions"))
                self.assigned[name] = {r["topicId"]: set(r["partitions"]) for r in rows}
        return answer

    def wait(self, ms: int) -> None:
        """Time passes without a request."""
        self.now += ms
        self.take(self.coordinator.run_until(self.now))
        self.expire_clients()

    def expire_clients(self, besides: str | None = None) -> None:
        """A client whose session or rebalance timeout has passed gives up its partitions by its own
        clock, when the coordinator removes it. ``besides``: a client that the answer tells."""
        group = self.group
        for name in list(self.epochs):
            removed = group is None or self.member_id(name) not in group.members
            if removed and name != besides:
                self.reset(name)

    def member_id(self, name: str) -> str:
        """The client's member id, a new one after each crash."""
        return f"{name}{self.restarts.get(name, '')}"

    def crash(self, name: str) -> None:
        """The client crashes and starts again; its old id remains until the session ends."""
        self.reset(name)
        self.restarts[name] = self.restarts.get(name, 0) + 1

    def apply_assignment(self, name: str) -> None:
        """Revoke and take over partitions as the last response requires."""
        self.owned[name] = {t: set(n) for t, n in self.assigned.get(name, {}).items()}

    def reset(self, name: str) -> None:
        for known in (self.epochs, self.owned, self.assigned):
            known.pop(name, None)

    # Safety

    def check(self) -> None:
        owners: dict[tuple[str, int], str] = {}
        for name, owned in self.owned.items():
            if name not in self.epochs:
                continue
            for topic, numbers in owned.items():
                for number in numbers:
                    assert (topic, number) not in owners, "two consumers read a partition"
                    owners[topic, number] = name
        group = self.group
        if group is None:
            return
        held: set[tuple[str, int]] = set()
        for member in group.members.values():
            assert member.epoch <= group.target_epoch <= group.epoch, "member <= target <= group"
            both = [member.assigned, member.pending]
            for topic, number in [(t, n) for p in both for t, ns in p.items() for n in ns]:
                assert (topic, number) not in held, "two members hold a partition"
                held.add((topic, number))
            assert bool(member.pending) == (member.state is MemberState.UNREVOKED_PARTITIONS)
            if member.is_reconciled(group.target_epoch) and member.member_id in group.targets:
                wanted = group.target_of(member.member_id)
                assert all(n in wanted.get(t, ()) for t, ns in member.assigned.items() for n in ns)
        replica = self.replica.shard.groups["g"]
        assert isinstance(replica, ConsumerGroup)
        assert replica.members == group.members, "the replayed log gives another state"
        assert (replica.epoch, replica.target_epoch) == (group.epoch, group.target_epoch)

    # Liveness

    def check_converges(self) -> None:
        for _ in range(14):
            self.now += 4_000  # sessions of crashed members end meanwhile
            for name in list(self.epochs):
                self.heartbeat(name)
                self.apply_assignment(name)
                self.check()
        group = self.group
        if group is None or not self.epochs:
            return
        assert group.state == "Stable", "without events, a group becomes stable"
        given = {(t, n) for m in group.members.values() for t, ns in m.assigned.items() for n in ns}
        subscribed = group.topic_names()
        wanted = {
            (TOPICS[name], number)
            for name in subscribed
            if self.sizes[name]
            for number in range(self.sizes[name])
        }
        assert given == wanted, "every partition is given to someone"


def random_run(release: str, seed: int) -> None:
    """A random run of the state machine, fast enough for hundreds of runs."""
    rng = random.Random(seed)
    clients = Clients(release)
    clients.topic("foo", rng.randint(1, 6))
    for _ in range(40):
        name, what = rng.choice(NAMES), rng.random()
        if what < 0.45:
            clients.heartbeat(name, owned=rng.random() < 0.7)
        elif what < 0.7:
            if name in clients.epochs:
                clients.apply_assignment(name)
        elif what < 0.8:
            clients.heartbeat(name, subscribedTopicNames=rng.choice((["foo"], ["foo", "bar"])))
        elif what < 0.88 and name in clients.epochs:
            clients.heartbeat(name, memberEpoch=-1)
            clients.reset(name)
        elif what < 0.95:
            topic = rng.choice(sorted(TOPICS))
            clients.topic(topic, clients.sizes[topic] + 1)
        clients.check()
    clients.check_converges()


def random_runs(release: str) -> None:
    for seed in range(60):
        random_run(release, seed)
