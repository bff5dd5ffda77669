"""Simulated partitions for tests: they run for some time, and then until every group is stable."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from kip848_spark.coordinator.classic_group import STABLE, ClassicGroup
from kip848_spark.coordinator.consumer_group import ConsumerGroup
from kip848_spark.coordinator.releases import find_release
from kip848_spark.coordinator.share_group import ShareGroup
from kip848_spark.coordinator.streams_group import StreamsGroup, TaskState
from kip848_spark.simulation.classic import ClassicConsumer
from kip848_spark.simulation.commits import ReadPositions
from kip848_spark.simulation.group import SimulatedGroup
from kip848_spark.simulation.log import Log
from kip848_spark.simulation.partition import SimulatedPartition
from kip848_spark.simulation.plan import START, ClusterPlan, plan_cluster
from kip848_spark.simulation.schedule import start_schedule
from kip848_spark.simulation.streams_thread import StreamsThread

RELEASES = ("4.0", "4.1", "4.2", "4.3", "4.4")
PROFILES = ("chaos", "churn", "migration", "steady", "types")
SETTLE_MS = 25 * 60_000
"""The longest event (a rolling restart of twelve processes), then sessions and rebalances."""


def plan_small(
    profile: str, seed: int, release: str, records: int = 2_000, groups: int = 2
) -> ClusterPlan:
    """A cluster of a few groups in one partition; one more if they have several types."""
    groups += profile == "types"
    return plan_cluster(profile, records, seed, release=release, partitions=1, groups=groups)


def simulate_minutes(plan: ClusterPlan, folder: Path, minutes: int) -> SimulatedPartition:
    """One partition after some minutes of simulated time."""
    positions = ReadPositions(START)
    log = Log(
        folder / "log.parquet",
        0,
        positions,
        4 if find_release(plan.release).offset_topic_ids else 3,
    )
    partition = SimulatedPartition(plan, 0, log, positions)
    start_schedule(partition)
    partition.run_until(START + minutes * 60_000)
    return partition


def check_converges(partition: SimulatedPartition) -> None:
    """Without events, every group with clients becomes stable and assigns every partition."""
    partition.winding_down = True
    partition.run_until(partition.now + SETTLE_MS)
    for group in partition.groups:
        if group.plan.kind == "simple" or not group.running_clients():
            continue
        state = partition.coordinator.shard.groups[group.plan.group_id]
        if isinstance(state, ConsumerGroup):
            _check_consumer(partition, group, state)
        elif isinstance(state, ShareGroup):
            _check_share(partition, group, state)
        elif isinstance(state, StreamsGroup):
            _check_streams(partition, group, state)
        else:
            _check_classic(partition, group, state)


def _check_consumer(
    partition: SimulatedPartition, group: SimulatedGroup, state: ConsumerGroup
) -> None:
    assert state.state == "Stable", "without events, a group becomes stable"
    running = {client.member_id: client for client in group.running_clients()}
    assert state.members.keys() == running.keys(), "the members are the running clients"
    given: list[tuple[str, int]] = []
    for member_id, member in state.members.items():
        assigned = {t: tuple(sorted(n)) for t, n in member.assigned.items() if n}
        assert running[member_id].owned == assigned, "a client reads its assigned partitions"
        given += [(topic, n) for topic, numbers in assigned.items() for n in numbers]
    wanted = [
        (topic.topic_id, number)
        for name in state.topic_names()
        if (topic := partition.coordinator.shard.topics.named(name)) is not None
        for number in range(topic.partitions)
    ]
    assert sorted(given) == sorted(wanted), "every partition has one owner"


def _check_share(partition: SimulatedPartition, group: SimulatedGroup, state: ShareGroup) -> None:
    running = {client.member_id: client for client in group.running_clients()}
    assert state.members.keys() == running.keys(), "the members are the running clients"
    given: set[tuple[str, int]] = set()
    listed = {topic.name for topic in state.share_state.initialized.values()}
    settles = partition.plan.release[:3] != "4.1" or listed <= state.topic_names()
    for member_id, member in state.members.items():
        # Brokers of 4.1 raise the epoch with every heartbeat while a topic with share state is not
        # subscribed (docs/kafka-facts.md#share-group-operations).
        latest = state.epoch if settles else member.epoch
        assert member.epoch == latest <= state.target_epoch, "every member is at the epoch"
        assert running[member_id].epoch == member.epoch, "a client knows its epoch"
        given |= {(topic, n) for topic, numbers in member.assigned.items() for n in numbers}
    wanted = {
        (topic.topic_id, number)
        for name in state.topic_names()
        if (topic := partition.coordinator.shard.topics.named(name)) is not None
        for number in range(topic.partitions)
    }
    assert given == wanted, "every partition is assigned"


def _check_streams(
    partition: SimulatedPartition, group: SimulatedGroup, state: StreamsGroup
) -> None:
    topics = partition.coordinator.shard.topics
    running = {client.member_id: client for client in group.running_clients()}
    assert state.members.keys() == running.keys(), "the members are the running clients"
    given: list[tuple[str, int]] = []
    read: list[tuple[str, int]] = []
    informed = True
    for member_id, member in state.members.items():
        client = running[member_id]
        assert isinstance(client, StreamsThread)
        knows = client.tasks == member.assigned
        assert knows or client.may_miss_tasks, "a client has the tasks of the last answer"
        informed = informed and knows
        assert member.state == TaskState.STABLE, "no task is to be given up or awaited"
        assert member.epoch == state.epoch == state.target_epoch, "every member is at the epoch"
        given += member.assigned.active
        read += [(topic, n) for topic, numbers in client.owned.items() for n in numbers]
    sources = [topics.named(name) for name in group.topics]
    ready = None not in sources
    assert state.state == ("Stable" if ready else "NotReady")
    count = max((topic.partitions for topic in sources if topic is not None), default=0)
    names = ("0", "1") if group.plan.topology == "repartition" else ("0",)
    wanted = [(name, number) for name in names for number in range(count)] if ready else []
    assert sorted(given) == wanted, "every task is active once"
    assert len(read) == len(set(read)), "no partition is read by two clients"
    assert not informed or len(read) == len(wanted), "every partition is read"


def _check_classic(partition: SimulatedPartition, group: SimulatedGroup, state: Any) -> None:
    assert isinstance(state, ClassicGroup)
    assert state.state == STABLE, "without events, a group becomes stable"
    running = {client.member_id: client for client in group.running_clients()}
    assert state.members.keys() == running.keys(), "the members are the running clients"
    given = [
        (t, n) for client in group.running_clients() for t, ns in client.owned.items() for n in ns
    ]
    wanted = [
        (topic.topic_id, number)
        for name in {
            name for client in group.running_clients() for name in group.topics_for(client.number)
        }
        if (topic := partition.coordinator.shard.topics.named(name)) is not None
        for number in range(topic.partitions)
    ]
    assert len(given) == len(set(given)), "no partition has two owners"
    leader = running[state.leader or ""]
    assert isinstance(leader, ClassicConsumer)
    # After a downgrade without a rebalance no client knows that it is the leader. Then no client
    # notices that a topic grew, as with Kafka's own clients.
    if leader.assigned_sizes is not None:
        assert set(given) >= set(wanted), "every partition has an owner"
