"""What every part of the coordinator shares: the groups, the clock, the log and the timers.

One shard is one partition of ``__consumer_offsets``. A handler reads the state, appends records
and answers tickets; :meth:`Shard.append` writes a record *and* replays it, so the state is at
every moment what a broker would load from the log.
"""

from __future__ import annotations

import base64
import random
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from kip848_spark.coordinator.classic_group import EMPTY, ClassicGroup, Ticket
from kip848_spark.coordinator.config import BrokerConfig
from kip848_spark.coordinator.consumer_group import ConsumerGroup
from kip848_spark.coordinator.faults import GroupError
from kip848_spark.coordinator.javahash import copied_size, int_order, uuid_order
from kip848_spark.coordinator.metrics import Metrics
from kip848_spark.coordinator.partition_state import PartitionState
from kip848_spark.coordinator.records import Json, Record
from kip848_spark.coordinator.releases import Release
from kip848_spark.coordinator.replay import replay
from kip848_spark.coordinator.timers import Timers
from kip848_spark.coordinator.topics import Topics


@dataclass(frozen=True, slots=True)
class Client:
    """Who sends a request, as the broker sees it."""

    client_id: str = ""
    host: str = "/127.0.0.1"


@dataclass(frozen=True, slots=True)
class Call:
    """A request on its way to a handler."""

    request: Json
    client: Client
    version: int
    ticket: int


@dataclass(slots=True)
class Output:
    """What one step gave: answers (the asker's own first) and appended records."""

    answers: list[tuple[Ticket, Json]] = field(default_factory=list)
    records: list[Record] = field(default_factory=list)


class Shard(PartitionState):
    """The state of one coordinator and the means to change it."""

    def __init__(self, release: Release, config: BrokerConfig, seed: int = 0) -> None:
        super().__init__(release)
        self.config = config
        self.topics = Topics()
        self.timers = Timers()
        self.metrics = Metrics()
        self.log_end = 0
        self.output = Output()
        self.answering = True
        self._random = random.Random(seed)

    # The log

    def append(self, record: Record) -> None:
        """Write a record and apply it."""
        self.output.records.append(record)
        replay(self, record, self.log_end)
        self.log_end += 1

    def append_only(self, record: Record) -> None:
        """Write a record whose effect the state has already (classic groups work that way)."""
        self.output.records.append(record)
        self.log_end += 1

    def answer(self, ticket: Ticket | None, response: Json) -> None:
        """Send a response, now or long after its request."""
        if ticket is not None:
            self.output.answers.append((ticket, response))

    def take_output(self) -> Output:
        """What happened since the last call."""
        output, self.output = self.output, Output()
        return output

    # Ids

    def new_uuid(self) -> str:
        """A random uuid in Kafka's base64 form, never with a leading dash."""
        while True:
            raw = bytearray(self._random.randbytes(16))
            raw[6] = raw[6] & 0x0F | 0x40
            raw[8] = raw[8] & 0x3F | 0x80
            uuid = base64.urlsafe_b64encode(bytes(raw)).decode().rstrip("=")
            if not uuid.startswith("-"):
                return uuid

    def new_java_uuid(self) -> str:
        """A random uuid in the hyphenated form that classic member ids end with."""
        digits = bytearray(self._random.randbytes(16))
        digits[6] = digits[6] & 0x0F | 0x40
        digits[8] = digits[8] & 0x3F | 0x80
        text = digits.hex()
        return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"

    # Groups

    def consumer_group(self, group_id: str) -> ConsumerGroup:
        """The consumer group of that id, or GROUP_ID_NOT_FOUND."""
        group = self.groups.get(group_id)
        if not isinstance(group, ConsumerGroup):
            raise GroupError("GROUP_ID_NOT_FOUND", f"there is no consumer group {group_id!r}")
        return group

    def classic_group(self, group_id: str) -> ClassicGroup:
        """The classic group of that id, or GROUP_ID_NOT_FOUND."""
        group = self.groups.get(group_id)
        if not isinstance(group, ClassicGroup):
            raise GroupError("GROUP_ID_NOT_FOUND", f"there is no classic group {group_id!r}")
        return group

    def new_classic_group(self, group_id: str) -> ClassicGroup:
        """A classic group that exists only here so far."""
        group = ClassicGroup(group_id, state=EMPTY, state_since=self.now)
        self.groups[group_id] = group
        return group

    # Time

    def schedule(self, key: str, delay: int, action: Callable[[], None]) -> None:
        """Run ``action`` after ``delay`` ms, unless the key is cancelled or scheduled anew."""
        self.timers.schedule(key, self.now + delay, action)


def partitions_of(rows: list[Mapping[str, Any]] | None) -> dict[str, set[int]] | None:
    """``topicPartitions`` of a request by topic id; ``None`` stays ``None``."""
    if rows is None:
        return None
    owned: dict[str, set[int]] = {}
    for row in rows:
        owned.setdefault(row["topicId"], set()).update(row.get("partitions", ()))
    return owned


def rows_in_order(target: Mapping[str, Iterable[int]]) -> dict[str, list[int]]:
    """A stored target in the order a broker lists it."""
    return {
        topic: int_order(numbers := list(target[topic]), copied_size(len(numbers)))
        for topic in uuid_order(target)
    }


def rows_of(partitions: Mapping[str, Any]) -> list[Json]:
    """Partitions as responses list them, in the order they are kept."""
    return [{"topicId": topic, "partitions": list(partitions[topic])} for topic in partitions]
