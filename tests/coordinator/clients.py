"""A group and its clients in one process, checked after every step, and random histories of them.

The invariants are those of facts C: safety (no partition with two owners, epochs in order; C1 to
C12 in the records alone, by `simulation.invariants`), liveness at the end (left alone, all members
converge within bounded heartbeats).
"""

from __future__ import annotations

import random
from typing import Any

from kip848_spark.coordinator import Client, Coordinator
from kip848_spark.coordinator.consumer_group import ConsumerGroup, MemberState
from kip848_spark.simulation.invariants import Invariants

TOPICS = {"foo": "Zm9vAAAAAAAAAAAAAAAAAA", "bar": "YmFyAAAAAAAAAAAAAAAAAA"}
NAMES = ("A", "B", "C", "D")


class Clients:
    """A group and its clients, each of which does as the KIP's consumer does."""

    def __init__(self, release: str) -> None:
        config = {"group.consumer.assignment.interval.ms": "0"} if release == "4.3" else {}
        self.coordinator = Coordinator(release, config)
        self.shadow = Coordinator(release, config)
        self.now = 1_000
        self.epochs: dict[str, int] = {}
        self.owned: dict[str, dict[str, set[int]]] = {}
        self.told: dict[str, dict[str, set[int]]] = {}
        self.lives: dict[str, int] = {}
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
                self.shadow.replay(record)
        return answer

    def check_record(self, record: dict[str, Any]) -> None:
        kind, key, value = record["key"]["type"], record["key"]["data"], record["value"]
        if kind == "3" and value is not None:
            epoch = value["data"]["epoch"]
            first = self.coordinator.release.first_epoch
            assert epoch == (self.group_epoch or first) + 1, "an epoch is bumped by one"
            self.group_epoch = epoch
        elif kind == "3":
            self.group_epoch = 0  # an empty group is deleted after a while, and made anew
        if kind == "8":
            member = key["memberId"]
            if value is None:
                self.member_epochs.pop(member, None)
            else:
                epoch = value["data"]["memberEpoch"]
                assert epoch >= self.member_epochs.get(member, 0), "member epochs never fall"
                self.member_epochs[member] = epoch

    def topic(self, name: str, partitions: int) -> None:
        self.sizes[name] = partitions
        self.take(self.coordinator.topic(self.now, name, TOPICS[name], partitions))

    def beat(self, name: str, *, owned: bool = True, **more: Any) -> dict[str, Any]:
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
            self.owned[name], self.told[name] = {}, {}
        elif owned:
            request["topicPartitions"] = [
                {"topicId": t, "partitions": sorted(n)} for t, n in self.owned[name].items()
            ]
        self.now += 100
        answer = self.take(
            self.coordinator.request(self.now, "ConsumerGroupHeartbeat", request, Client(name))
        )
        if answer["errorCode"] in ("FENCED_MEMBER_EPOCH", "UNKNOWN_MEMBER_ID"):
            self.forget(name)  # gives up everything and joins again
        elif answer["errorCode"] == "NONE" and request["memberEpoch"] >= 0:
            self.epochs[name] = answer["memberEpoch"]
            if answer["assignment"] is not None:
                rows = answer["assignment"]["topicPartitions"]
                self.told[name] = {r["topicId"]: set(r["partitions"]) for r in rows}
        return answer

    def member_id(self, name: str) -> str:
        """The client's id: one for each of its lives."""
        return f"{name}{self.lives.get(name, '')}"

    def crash(self, name: str) -> None:
        """The client dies and starts again; its old id stays until the session is over."""
        self.forget(name)
        self.lives[name] = self.lives.get(name, 0) + 1

    def obey(self, name: str) -> None:
        """Revoke and take over what the last response said."""
        self.owned[name] = {t: set(n) for t, n in self.told.get(name, {}).items()}

    def forget(self, name: str) -> None:
        for known in (self.epochs, self.owned, self.told):
            known.pop(name, None)

    # Safety

    def check(self) -> None:
        owners: dict[tuple[str, int], str] = {}
        for name, owned in self.owned.items():
            if name not in self.epochs:
                continue
            for topic, numbers in owned.items():
                for number in numbers:
                    assert (topic, number) not in owners, "two consumers use a partition"
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
        shadow = self.shadow.shard.groups["g"]
        assert isinstance(shadow, ConsumerGroup)
        assert shadow.members == group.members, "the log gives another state"
        assert (shadow.epoch, shadow.target_epoch) == (group.epoch, group.target_epoch)

    # Liveness

    def check_converges(self) -> None:
        for _ in range(14):
            self.now += 4_000  # dead members' sessions end meanwhile
            for name in list(self.epochs):
                self.beat(name)
                self.obey(name)
                self.check()
        group = self.group
        if group is None or not self.epochs:
            return
        assert group.state == "Stable", "left alone, a group comes to rest"
        given = {(t, n) for m in group.members.values() for t, ns in m.assigned.items() for n in ns}
        asked = group.topic_names()
        wanted = {
            (TOPICS[name], number)
            for name in asked
            if self.sizes[name]
            for number in range(self.sizes[name])
        }
        assert given == wanted, "every partition is given to someone"


def history(release: str, seed: int) -> None:
    """A random history of the machine, cheap enough to run by the hundred."""
    rng = random.Random(seed)
    clients = Clients(release)
    clients.topic("foo", rng.randint(1, 6))
    for _ in range(40):
        name, what = rng.choice(NAMES), rng.random()
        if what < 0.45:
            clients.beat(name, owned=rng.random() < 0.7)
        elif what < 0.7:
            if name in clients.epochs:
                clients.obey(name)
        elif what < 0.8:
            clients.beat(name, subscribedTopicNames=rng.choice((["foo"], ["foo", "bar"])))
        elif what < 0.88 and name in clients.epochs:
            clients.beat(name, memberEpoch=-1)
            clients.forget(name)
        elif what < 0.95:
            topic = rng.choice(sorted(TOPICS))
            clients.topic(topic, clients.sizes[topic] + 1)
        clients.check()
    clients.check_converges()


def histories(release: str) -> None:
    for seed in range(60):
        history(release, seed)
