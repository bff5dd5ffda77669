"""Starts a partition's topics and clients, and schedules its random events."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from kip848_spark.simulation.events import EVENTS
from kip848_spark.simulation.group import SimulatedGroup
from kip848_spark.simulation.partition import SimulatedPartition
from kip848_spark.simulation.plan import START, TopicEvent


def start_schedule(partition: SimulatedPartition) -> None:
    """Create the topics, start the clients and schedule the first events."""
    for event in partition.plan.topics:
        partition.change_topic(event)
    for event in partition.plan.own_topics:
        if event.at == START:
            partition.change_topic(event)
        else:  # an internal topic that is created after the application has started
            partition.at(event.at, partial(partition.change_topic, event))
    for group in partition.groups:
        start = START + partition.rng.randrange(2, partition.plan.first_starts)
        for i in range(group.plan.clients):
            client = group.new_client()
            partition.at(start + i * partition.rng.randrange(50, 3_000), client.start)
        _schedule_event(partition, group)
    _schedule_topic_event(partition, partition.plan.topic_events())


def _schedule_event(partition: SimulatedPartition, group: SimulatedGroup) -> None:
    delay = int(partition.rng.expovariate(1 / partition.profile.event_interval)) + 1_000

    def happen() -> None:
        if not partition.winding_down and partition.now >= group.busy_until:
            names = list(partition.profile.events)
            (name,) = partition.rng.choices(names, list(partition.profile.events.values()))
            EVENTS[name](group)
        _schedule_event(partition, group)

    partition.at(partition.now + delay, happen)


def _schedule_topic_event(partition: SimulatedPartition, events: Iterator[TopicEvent]) -> None:
    event = next(events)

    def change() -> None:
        if not partition.winding_down:
            partition.change_topic(event)
        _schedule_topic_event(partition, events)

    partition.at(event.at, change)
