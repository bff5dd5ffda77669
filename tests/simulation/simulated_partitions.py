"""Simulated partitions for tests: they live for a while, and are left alone until they rest."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from kip848_spark.coordinator.classic_group import STABLE, ClassicGroup
from kip848_spark.coordinator.consumer_group import ConsumerGroup
from kip848_spark.simulation.classic import ClassicConsumer
from kip848_spark.simulation.commits import Places
from kip848_spark.simulation.group import GroupLife
from kip848_spark.simulation.log import Log
from kip848_spark.simulation.partition import PartitionLife
from kip848_spark.simulation.plan import START, ClusterPlan, plan_cluster
from kip848_spark.simulation.schedule import begin

RELEASES = ("4.0", "4.1", "4.2", "4.3")
PROFILES = ("chaos", "churn", "migration", "steady")
REST = 25 * 60_000
"""The longest deed (a rolling restart of twelve), and then sessions, rebalances and heartbeats."""


def small(
    profile: str, seed: int, release: str, records: int = 2_000, groups: int = 2
) -> ClusterPlan:
    """A cluster of a few groups in one partition."""
    return plan_cluster(profile, records, seed, release=release, partitions=1, groups=groups)


def lived(plan: ClusterPlan, folder: Path, minutes: int) -> PartitionLife:
    """One partition after so many minutes of its profile."""
    places = Places(START)
    log = Log(folder / "log.parquet", 0, places, 3 if plan.release == "4.0" else 4)
    life = PartitionLife(plan, 0, log, places)
    begin(life)
    life.run_until(START + minutes * 60_000)
    return life


def check_comes_to_rest(life: PartitionLife) -> None:
    """Once nothing happens any more, every group with clients has given them all its partitions."""
    life.calm = True
    life.run_until(life.now + REST)
    for group in life.groups:
        if group.plan.kind == "simple" or not group.up():
            continue
        state = life.coordinator.shard.groups[group.plan.group_id]
        if isinstance(state, ConsumerGroup):
            _check_consumer(life, group, state)
        else:
            _check_classic(life, group, state)


def _check_consumer(life: PartitionLife, group: GroupLife, state: ConsumerGroup) -> None:
    assert state.state == "Stable", "left alone, a group comes to rest"
    running = {client.member_id: client for client in group.up()}
    assert state.members.keys() == running.keys(), "its members are the clients that run"
    given: list[tuple[str, int]] = []
    for member_id, member in state.members.items():
        assigned = {t: tuple(sorted(n)) for t, n in member.assigned.items() if n}
        assert running[member_id].owned == assigned, "a client works on what it was given"
        given += [(topic, n) for topic, numbers in assigned.items() for n in numbers]
    wanted = [
        (topic.topic_id, number)
        for name in state.topic_names()
        if (topic := life.coordinator.shard.topics.named(name)) is not None
        for number in range(topic.partitions)
    ]
    assert sorted(given) == sorted(wanted), "every partition has one owner"


def _check_classic(life: PartitionLife, group: GroupLife, state: Any) -> None:
    assert isinstance(state, ClassicGroup)
    assert state.state == STABLE, "left alone, a group comes to rest"
    running = {client.member_id: client for client in group.up()}
    assert state.members.keys() == running.keys(), "its members are the clients that run"
    given = [(t, n) for client in group.up() for t, ns in client.owned.items() for n in ns]
    wanted = [
        (topic.topic_id, number)
        for name in {name for client in group.up() for name in group.topics_for(client)}
        if (topic := life.coordinator.shard.topics.named(name)) is not None
        for number in range(topic.partitions)
    ]
    assert len(given) == len(set(given)), "no partition has two owners"
    leader = running[state.leader or ""]
    assert isinstance(leader, ClassicConsumer)
    # After a downgrade without a rebalance nobody knows that it leads. Then no client sees a topic
    # grow, as with Kafka's own clients.
    if leader.seen is not None:
        assert set(given) >= set(wanted), "every partition has an owner"
