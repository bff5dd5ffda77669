"""What all request handlers share: the groups, the clock, the log and the timers.

One shard is one partition of ``__consumer_offsets``. A handler reads the state, appends records and
answers requests. :meth:`Shard.append` writes a record and replays it, so the state is always the
one that a broker would load from the log.
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
from kip848_spark.coordinator.partition_state import AnyGroup, PartitionState
from kip848_spark.coordinator.records import Json, Record
from kip848_spark.coordinator.releases import Release
from kip848_spark.coordinator.replay import replay
from kip848_spark.coordinator.timers import Timers
from kip848_spark.coordinator.topics import Topics


@dataclass(frozen=True, slots=True)
class Client:
    """The sender of a request, as the broker sees it."""

    client_id: str = ""
    host: str = "/127.0.0.1"


@dataclass(frozen=True, slots=True)
class ApiCall:
    """A request on its way to its handler."""

    request: Json
    client: Client
    version: int
    ticket: int


@dataclass(slots=True)
class Output:
    """The result of one step: answers (the current request's own first) and appended records."""

    answers: list[tuple[Ticket, Json]] = field(default_factory=list)
    records: list[Record] = field(default_factory=list)


class Shard(PartitionState):
    """The state of one coordinator and the operations that change it."""

    def __init__(self, release: Release, config: BrokerConfig, seed: int = 0) -> None:
        super().__init__(release)
        self.config = config
        self.topics = Topics()
        self.timers = Timers()
        self.metrics = Metrics()
        self.log_end = 0
        self.output = Output()
        self.answering = True
        self._forgotten: dict[str, AnyGroup] = {}
        self._random = random.Random(seed)

    # The log

    def append(self, record: Record) -> None:
        """Write a record and apply it to the state."""
        self.append_only(record)
        replay(self, record, self.log_end - 1)

    def append_only(self, record: Record) -> None:
        """Write a record whose effect is in the state already (classic groups change in
        memory first).
        """
        self.output.records.append(record)
        self.log_end += 1
        if self._forgotten:
            self._forgotten.clear()

    def answer(self, ticket: Ticket | None, response: Json) -> None:
        """Send a response, possibly long after its request."""
        if ticket is not None:
            self.output.answers.append((ticket, response))

    def take_output(self) -> Output:
        """Return and clear the output since the last call."""
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
        """A random uuid in the hyphenated form at the end of classic member ids."""
        digits = bytearray(self._random.randbytes(16))
        digits[6] = digits[6] & 0x0F | 0x40
        digits[8] = digits[8] & 0x3F | 0x80
        text = digits.hex()
        return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"

    # Groups

    def consumer_group(self, group_id: str) -> ConsumerGroup:
        """The consumer group of that id. Raises GROUP_ID_NOT_FOUND."""
        group = self.groups.get(group_id)
        if not isinstance(group, ConsumerGroup):
            raise GroupError("GROUP_ID_NOT_FOUND", f"there is no consumer group {group_id!r}")
        return group

    def new_classic_group(self, group_id: str) -> ClassicGroup:
        """Create a classic group in memory; nothing is written."""
        group = ClassicGroup(group_id, state=EMPTY, state_since=self.now)
        self.groups[group_id] = group
        return group

    def forget_group(self, group_id: str) -> None:
        """Remove an empty group from memory without a record, as a broker does when an unknown
        classic member wants to join it (4.0.2, 4.3.1).
        """
        group = self.groups.pop(group_id, None)
        if group is not None:
            self._forgotten[group_id] = group

    def readable_groups(self) -> Mapping[str, AnyGroup]:
        """The groups that a read-only request sees: those of the state that was written last. So
        a group that was forgotten without a record is there until the next record of any group.
        """
        return {**self.groups, **self._forgotten} if self._forgotten else self.groups

    # Time

    def schedule(self, key: str, delay: int, action: Callable[[], None]) -> None:
        """Run ``action`` after ``delay`` ms, unless the key is cancelled or scheduled again."""
        self.timers.schedule(key, self.now + delay, action)


def owned_partitions(rows: list[Mapping[str, Any]] | None) -> dict[str, set[int]] | None:
    """``topicPartitions`` of a request by topic id; ``None`` stays ``None``."""
    if rows is None:
        return None
    owned: dict[str, set[int]] = {}
    for row in rows:
        owned.setdefault(row["topicId"], set()).update(row.get("partitions", ()))
    return owned


def order_partitions(target: Mapping[str, Iterable[int]]) -> dict[str, list[int]]:
    """A stored target in the order in which a broker lists it."""
    return {
        topic: int_order(numbers := list(target[topic]), copied_size(len(numbers)))
        for topic in uuid_order(target)
    }


def partition_rows(partitions: Mapping[str, Any]) -> list[Json]:
    """Partitions as responses list them, in the order of the mapping."""
    return [{"topicId": topic, "partitions": list(partitions[topic])} for topic in partitions]
