"""The course of things in a partition: its beginning, and when the next thing happens."""

from __future__ import annotations

from collections.abc import Iterator

from kip848_spark.simulation.events import DEEDS
from kip848_spark.simulation.group import GroupLife
from kip848_spark.simulation.partition import PartitionLife
from kip848_spark.simulation.plan import START, TopicEvent


def begin(life: PartitionLife) -> None:
    """Topics are there, clients start, and deeds begin."""
    for event in life.plan.topics:
        life.change_topic(event)
    for group in life.groups:
        start = START + life.rng.randrange(2, life.plan.first_starts)
        for i in range(group.plan.clients):
            client = group.new_client()
            life.at(start + i * life.rng.randrange(50, 3_000), client.start)
        _next_deed(life, group)
    _next_topic(life, life.plan.topic_events())


def _next_deed(life: PartitionLife, group: GroupLife) -> None:
    delay = int(life.rng.expovariate(1 / life.profile.deed_interval)) + 1_000

    def deed() -> None:
        if not life.calm and life.now >= group.busy_until:
            names = list(life.profile.deeds)
            (name,) = life.rng.choices(names, list(life.profile.deeds.values()))
            DEEDS[name](group)
        _next_deed(life, group)

    life.at(life.now + delay, deed)


def _next_topic(life: PartitionLife, events: Iterator[TopicEvent]) -> None:
    event = next(events)

    def change() -> None:
        if not life.calm:
            life.change_topic(event)
        _next_topic(life, events)

    life.at(event.at, change)
