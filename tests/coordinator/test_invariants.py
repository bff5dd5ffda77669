"""A Hypothesis state machine over the coordinator, its invariants, and mutants that break them.

The invariants are those of facts C: safety after every step (no partition with two owners,
epochs in order; C1 to C12 in the records alone, by `simulation.invariants`), liveness at the end
(left alone, all members converge within bounded heartbeats). Each mutant is a coordinator with one
rule broken; the same machine must notice.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from kip848_spark.coordinator import (
    Client,
    Coordinator,
    heartbeat,
    membership,
    reconcile,
    target,
)
from kip848_spark.coordinator import records as record_forms
from kip848_spark.coordinator.assignors import AssignmentSpec
from kip848_spark.coordinator.consumer_group import ConsumerGroup, Member, MemberState
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
            if member.reconciled_to(group.target_epoch) and member.member_id in group.targets:
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


class Machine(RuleBasedStateMachine):
    """Anything may happen to a group, in any order."""

    release = "4.3"

    @initialize(size=st.integers(1, 6))
    def start(self, size: int) -> None:
        self.clients = Clients(self.release)
        self.clients.topic("foo", size)

    @rule(name=st.sampled_from(NAMES), owned=st.booleans())
    def heartbeat(self, name: str, owned: bool) -> None:
        self.clients.beat(name, owned=owned)

    @rule(name=st.sampled_from(NAMES))
    def obey(self, name: str) -> None:
        if name in self.clients.epochs:
            self.clients.obey(name)

    @rule(name=st.sampled_from(NAMES), topics=st.sampled_from((["foo"], ["bar"], ["foo", "bar"])))
    def subscribe(self, name: str, topics: list[str]) -> None:
        self.clients.beat(name, subscribedTopicNames=topics)

    @precondition(lambda self: self.clients.epochs)
    @rule(data=st.data())
    def leave(self, data: st.DataObject) -> None:
        name = data.draw(st.sampled_from(sorted(self.clients.epochs)))
        self.clients.beat(name, memberEpoch=-1)
        self.clients.forget(name)

    @rule(name=st.sampled_from(sorted(TOPICS)), more=st.integers(1, 3))
    def grow(self, name: str, more: int) -> None:
        self.clients.topic(name, self.clients.sizes[name] + more)

    @rule(seconds=st.sampled_from((1, 10, 21, 46)))
    def wait(self, seconds: int) -> None:
        self.clients.now += seconds * 1_000
        self.clients.take(self.clients.coordinator.run_until(self.clients.now))
        group = self.clients.group
        for name in list(self.clients.epochs):
            if group is None or self.clients.member_id(name) not in group.members:
                self.clients.forget(name)  # its own timer told it, too

    @rule(name=st.sampled_from(NAMES))
    def crash_and_restart(self, name: str) -> None:
        self.clients.crash(name)
        self.clients.beat(name)

    @invariant()
    def safe(self) -> None:
        if hasattr(self, "clients"):
            self.clients.check()

    def teardown(self) -> None:
        if hasattr(self, "clients"):
            self.clients.check_converges()


_QUICK = settings(
    max_examples=40,
    stateful_step_count=30,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)


@pytest.mark.parametrize("release", ["kip", "4.0", "4.1", "4.2", "4.3"])
def test_any_history_is_safe_and_comes_to_rest(release: str) -> None:
    run_state_machine_as_test(type("M", (Machine,), {"release": release}), settings=_QUICK)


@pytest.mark.long
@pytest.mark.parametrize("release", ["kip", "4.0", "4.1", "4.2", "4.3"])
def test_a_thousand_histories(release: str) -> None:
    thorough = settings(_QUICK, max_examples=1_000, stateful_step_count=50)
    run_state_machine_as_test(type("M", (Machine,), {"release": release}), settings=thorough)


# Mutants


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


def _free_always(*_: Any) -> bool:
    return True


def _still_owns_never(*_: Any) -> bool:
    return False


def _bump_by_two(group_id: str, epoch: int, metadata_hash: int | None) -> dict[str, Any]:
    return _real_epoch(group_id, epoch + 1, metadata_hash)


_real_epoch = record_forms.group_epoch
_real_target_epoch = record_forms.target_epoch
_real_reconcile = reconcile.reconcile
_real_refresh = heartbeat.refresh_metadata
_real_uniform = target.ASSIGNORS["uniform"]


def _stale_target_epoch(group_id: str, epoch: int, timestamp: int) -> dict[str, Any]:
    return _real_target_epoch(group_id, epoch - 1, timestamp)


def _never_reconciles(member: Member, *_: Any) -> Member:
    return member


def _keeps_pending(member: Member, goal: Any, owned: Any) -> Member:
    after = _real_reconcile(member, goal, owned)
    return after if after.state is not MemberState.STABLE or not member.pending else member


def _epoch_ahead(member: Member, goal: Any, owned: Any) -> Member:
    after = _real_reconcile(member, goal, owned)
    return after if after is member else after.moved_to(after.epoch + 1)


def _epoch_back(member: Member, goal: Any, owned: Any) -> Member:
    after = _real_reconcile(member, goal, owned)
    return after if after is member or after.epoch < 2 else after.moved_to(1)


def _takes_all(spec: AssignmentSpec) -> Any:
    everything = {topic: list(range(count)) for topic, count in spec.partitions.items()}
    return {member.member_id: everything for member in spec.members}


def _forgets_a_partition(spec: AssignmentSpec) -> Any:
    result = _real_uniform(spec)
    for share in result.values():
        for numbers in share.values():
            if numbers:
                numbers.pop()
                return result
    return result


def _remove_without_tombstones(shard: Any, group: ConsumerGroup, member: Member) -> None:
    group.remove_member(member.member_id)


def _no_bump(*_: Any, **__: Any) -> None:
    return None


def _forgets_where_it_was(member: Member, epoch: int, **changes: Any) -> Member:
    return replace(member, epoch=epoch, **changes)


def _partitions_ahead(member: Member, goal: Any, owned: Any) -> Member:
    after = _real_reconcile(member, goal, owned)
    ahead = {t: {n: e + 1 for n, e in ns.items()} for t, ns in after.assigned.items()}
    return after if after is member else replace(after, assigned=ahead)


def _always_a_target(shard: Any, group: ConsumerGroup, *_: Any, **__: Any) -> None:
    _real_refresh(shard, group, *_, **__)
    if group.members and set(group.targets) == set(group.members):
        shard.append(_real_target_epoch(group.group_id, group.target_epoch, 1))


Mutant = Callable[[], AbstractContextManager[Any]]
MUTANTS: dict[str, Mutant] = {
    "grants what others still own": lambda: patch.object(reconcile, "_is_free", _free_always),
    "takes away without revoking": lambda: patch.object(
        reconcile, "_still_owns", _still_owns_never
    ),
    "bumps by two": lambda: patch.object(record_forms, "group_epoch", _bump_by_two),
    "target of the epoch before": lambda: patch.object(
        record_forms, "target_epoch", _stale_target_epoch
    ),
    "never reconciles": lambda: patch.object(heartbeat, "reconcile", _never_reconciles),
    "never finishes a revocation": lambda: patch.object(heartbeat, "reconcile", _keeps_pending),
    "runs ahead of the target": lambda: patch.object(heartbeat, "reconcile", _epoch_ahead),
    "goes back an epoch": lambda: patch.object(heartbeat, "reconcile", _epoch_back),
    "assigns a partition twice": lambda: patch.dict(target.ASSIGNORS, uniform=_takes_all),
    "assigns not all": lambda: patch.dict(target.ASSIGNORS, uniform=_forgets_a_partition),
    "leaves no tombstones": lambda: patch.object(membership, "remove", _remove_without_tombstones),
    "no bump when a member goes": lambda: patch.object(membership, "bump_after_removal", _no_bump),
    "blind to topics": lambda: patch.object(heartbeat, "refresh_metadata", _no_bump),
    "never a new target": lambda: patch.object(heartbeat, "update_target", _no_bump),
    "forgets the previous epoch": lambda: patch.object(Member, "moved_to", _forgets_where_it_was),
    "dates partitions ahead": lambda: patch.object(heartbeat, "reconcile", _partitions_ahead),
    "writes a target twice": lambda: patch.object(heartbeat, "refresh_metadata", _always_a_target),
    "takes any epoch": lambda: patch.object(membership, "check_epoch", _no_bump),
}


@pytest.mark.parametrize("release", ["4.0", "4.3"])
def test_the_histories_are_fine_without_a_mutant(release: str) -> None:
    histories(release)


@pytest.mark.parametrize("name", [name for name in MUTANTS if name != "takes any epoch"])
def test_a_mutant_is_caught(name: str) -> None:
    with MUTANTS[name](), pytest.raises(Exception):  # noqa: B017, PT011 - any way to notice
        histories("4.3")


def test_a_coordinator_that_takes_any_epoch_is_caught() -> None:
    clients = Clients("4.3")
    clients.topic("foo", 2)
    clients.beat("A")
    assert clients.beat("A", memberEpoch=9)["errorCode"] == "FENCED_MEMBER_EPOCH"
    clients.beat("A")
    with MUTANTS["takes any epoch"]():
        assert clients.beat("A", memberEpoch=9)["errorCode"] != "FENCED_MEMBER_EPOCH"
