"""Fills a Kafka topic of any size with records like those of a cluster's `__consumer_offsets`.

Every record is one that a real broker wrote (the capture in tests/data), with new values in the
fields that vary: for commits the group, topic, partition, offset and time; for control records the
group and the time. The control records of a group are its history in the capture, operation by
operation, so an audit finds nothing wrong. The sizes of groups and partitions vary widely. Each
group is in the partition in which Kafka itself would put it."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import count, islice
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from confluent_kafka import Producer
from confluent_kafka.admin import NewTopic  # type: ignore[attr-defined]

from kip848_spark.kafka.admin import LOG, admin_client

CAPTURE = Path(__file__).parent.parent / "tests" / "data" / "kafka-4.3.1" / "records.parquet"

GROUPS = 300
"""The number of groups that commit. With their topic partitions they have a few thousand keys."""
CONTROL_EVERY = 20
"""One of so many records is a control record, if nothing else is asked for."""
TOMBSTONE_EVERY = 50
"""One of so many commits is a tombstone, as for an expired offset."""
TRANSACTION_EVERY, TRANSACTION = 20_000, 200
"""Of every 20,000 records, 200 are sent in a transaction; every fifth transaction is aborted."""
SPAN_MS = 86_400_000
"""The timestamps are spread over the last day (ms)."""

_COMMIT_KEY = 1
_TIME = struct.Struct(">q")
Message = tuple[int, bytes, bytes | None, int | None]
"""Partition, key, value, and the timestamp (ms) if it is not that of the message's place."""


@dataclass(frozen=True)
class _CommitTemplate:
    """A group's key for one topic partition, and its value in parts: ``head``, offset, ``middle``,
    time, ``tail``."""

    partition: int
    key: bytes
    head: bytes
    middle: bytes
    tail: bytes

    def value(self, offset: int | None, time_ms: int) -> bytes | None:
        """The value of a commit of ``offset``; None for a tombstone."""
        if offset is None:
            return None
        return self.head + _TIME.pack(offset) + self.middle + _TIME.pack(time_ms) + self.tail


def fill(bootstrap: str, topic: str, partitions: int, records: int, now_ms: int) -> None:
    """Creates ``topic`` and sends ``records`` records to it, including those of aborted
    transactions.

    Raises RuntimeError if the broker did not accept all of them."""
    TopicFiller(bootstrap, topic, partitions, records, now_ms).send(records)


class TopicFiller:
    """Creates ``topic`` and sends records to it, ``records`` in all, which end at ``now_ms``. One
    of ``control_every`` is a control record. If ``hot``, about three of four commits
    are in one partition, the one in the middle."""

    def __init__(
        self,
        bootstrap: str,
        topic: str,
        partitions: int,
        records: int,
        now_ms: int,
        control_every: int = CONTROL_EVERY,
        hot: bool = False,
    ) -> None:
        admin = admin_client(bootstrap)
        admin.create_topics([NewTopic(topic, partitions, 1)])[topic].result(30)
        settings = {
            "bootstrap.servers": bootstrap,
            "linger.ms": 20,
            "queue.buffering.max.messages": 500_000,
            "queue.buffering.max.kbytes": 512_000,
        }
        self._topic, self._records, self._now_ms = topic, records, now_ms
        self._plain = Producer({**settings, "enable.idempotence": True}, logger=LOG)
        filler = {**settings, "transactional.id": f"{topic}-filler"}
        self._transactional = Producer(filler, logger=LOG)
        self._transactional.init_transactions(30)
        self._messages = enumerate(_messages(partitions, records, now_ms, control_every, hot))
        self._transactions = 0
        self._failed: list[object] = []

    def send(self, records: int) -> None:
        """Sends the next ``records`` records, including those of aborted transactions. Raises
        RuntimeError if the broker did not accept all of them."""
        in_transaction = False
        for number, (partition, key, value, own_time) in islice(self._messages, records):
            place = number % TRANSACTION_EVERY
            if place < TRANSACTION and not in_transaction:
                self._plain.flush()  # the records of an operation have successive offsets
                self._transactional.begin_transaction()
                in_transaction = True
            time = own_time or self._now_ms - SPAN_MS + number * SPAN_MS // self._records
            producer = self._transactional if in_transaction else self._plain
            while True:
                try:
                    producer.produce(
                        self._topic, value, key, partition,
                        on_delivery=self._delivered, timestamp=time,
                    )  # fmt: skip
                    break
                except BufferError:
                    producer.poll(0.1)
            if number % 1000 == 0:
                producer.poll(0)
            if place == TRANSACTION - 1:
                self._end_transaction()
                in_transaction = False
        if in_transaction:
            self._end_transaction()
        if self._plain.flush(60) or self._failed:
            raise RuntimeError(f"the broker did not take all records: {self._failed[:1]}")

    def _delivered(self, error: object, _: object) -> None:
        if error is not None:
            self._failed.append(error)

    def _end_transaction(self) -> None:
        self._transactions += 1
        # Otherwise an abort would drop the records that are still queued.
        self._transactional.flush()
        if self._transactions % 5:
            self._transactional.commit_transaction(30)
        else:
            self._transactional.abort_transaction(30)


def _messages(
    partitions: int, records: int, now_ms: int, control_every: int, hot: bool
) -> Iterator[Message]:
    """Commits, with an operation of control records in between, outside of transactions."""
    commits = _commits(partitions, hot)
    operations = _operations(partitions)
    number = written = 0
    operation = next(operations)
    while number < records:
        place = number % TRANSACTION_EVERY
        fits = TRANSACTION <= place <= TRANSACTION_EVERY - len(operation)
        later = now_ms - SPAN_MS + number * SPAN_MS // records
        if not fits or written * control_every > number:
            commit, offset = next(commits)
            yield commit.partition, commit.key, commit.value(offset, later), None
            number += 1
            continue
        yield from (record.message(later) for record in operation)
        number += len(operation)
        written += len(operation)
        operation = next(operations)


def _commits(partitions: int, hot: bool) -> Iterator[tuple[_CommitTemplate, int | None]]:
    """An endless stream of keys and offsets (None for a tombstone): a random group commits some of
    its partitions, as one of its members would."""
    rng = np.random.default_rng(848)
    groups = _groups(rng, partitions, hot)
    weights = 1 / np.arange(1, len(groups) + 1) ** 0.8
    weights = rng.permutation(weights / weights.sum())
    offsets = [rng.integers(0, 10**9, len(keys)).tolist() for keys in groups]
    number = 0
    while True:
        chosen = rng.choice(len(groups), 10_000, p=weights).tolist()
        places = rng.random(10_000).tolist()
        for group, place in zip(chosen, places, strict=True):
            keys = groups[group]
            first = int(place * len(keys)) // 8 * 8
            for index in range(first, min(first + 8, len(keys))):
                number += 1
                if number % TOMBSTONE_EVERY == 0:
                    yield keys[index], None
                    continue
                offsets[group][index] += 17
                yield keys[index], offsets[group][index]


def _groups(rng: np.random.Generator, partitions: int, hot: bool) -> list[list[_CommitTemplate]]:
    """The keys of each committing group: one to three topics of 4 to 12 partitions."""
    templates = [
        record.value
        for record in _captured_records()
        if record.key_type == _COMMIT_KEY and record.value
    ]
    areas = ("billing", "search", "fraud", "orders", "telemetry", "mail")
    roles = ("indexer", "enricher", "sink", "projector", "notifier-v2")
    sizes = {f"{area}.events-{n}": int(rng.integers(4, 13)) for area in areas for n in range(8)}
    ids = {topic: rng.bytes(16) for topic in sizes}
    groups = []
    for number in range(GROUPS):
        group = f"{areas[number % len(areas)]}.{roles[number % len(roles)]}-{number}"
        home = partitions // 2 if hot and number % 4 else _partition_of(group, partitions)
        template = templates[int(rng.integers(len(templates)))]
        keys = []
        for topic in rng.choice(list(sizes), int(rng.integers(1, 4)), replace=False).tolist():
            for partition in range(sizes[topic]):
                key = struct.pack(">h", _COMMIT_KEY) + _kafka_string(group) + _kafka_string(topic)
                key += struct.pack(">i", partition)
                keys.append(_CommitTemplate(home, key, *_split_value(template, ids[topic])))
        groups.append(keys)
    return groups


def _split_value(value: bytes, topic_id: bytes) -> tuple[bytes, bytes, bytes]:
    """A commit's value (version 4) without its offset and its time. A topic id at its end is
    replaced by ``topic_id``."""
    at = 14 + value[14]  # leader epoch, then the metadata behind their length + 1
    tail = value[at + 8 :]
    return value[:2], value[10:at], tail[:-16] + topic_id if len(tail) > 16 else tail


class _ControlRecord(NamedTuple):
    """A control record of a copy of a group. ``times`` are the byte positions of times (int64, ms)
    in its value, and ``shift`` holds what is added to times in this copy, once it is known."""

    partition: int
    key: bytes
    value: bytes | None
    timestamp: int
    times: tuple[int, ...]
    shift: list[int]

    def message(self, now_ms: int) -> Message:
        """The record, if its copy of the capture begins at ``now_ms`` or earlier."""
        if not self.shift:
            self.shift.append(now_ms - self.timestamp)
        value = self.value
        for at in self.times:
            assert value is not None
            (time,) = _TIME.unpack_from(value, at)
            value = value[:at] + _TIME.pack(time + self.shift[0]) + value[at + _TIME.size :]
        return self.partition, self.key, value, self.timestamp + self.shift[0]


def _operations(partitions: int) -> Iterator[list[_ControlRecord]]:
    """An endless stream: the operations of the capture's groups, repeated for copies of these
    groups."""
    records = [record for record in _captured_records() if record.key_type != _COMMIT_KEY]
    times = [() if r.value is None else _times_in(r.value, r.timestamp) for r in records]
    for copy in count():
        shift: list[int] = []
        operation: list[_ControlRecord] = []
        last: _CapturedRecord | None = None
        for record, positions in zip(records, times, strict=True):
            length = int.from_bytes(record.key[2:4], "big")
            group = record.key[4 : 4 + length] + f"-{copy}".encode()
            key = record.key[:2] + struct.pack(">h", len(group)) + group + record.key[4 + length :]
            if last is not None and not record.continues(last):
                yield operation
                operation = []
            home = _partition_of(group.decode(), partitions)
            operation.append(
                _ControlRecord(home, key, record.value, record.timestamp, positions, shift)
            )
            last = record
        yield operation


def _times_in(value: bytes, timestamp: int) -> tuple[int, ...]:
    """The positions of int64 in a value that are times near the record's own (ms)."""
    return tuple(
        at
        for at in range(len(value) - _TIME.size + 1)
        if abs(_TIME.unpack_from(value, at)[0] - timestamp) < SPAN_MS
    )


class _CapturedRecord(NamedTuple):
    """A record of the capture."""

    partition: int
    offset: int
    timestamp: int
    key: bytes
    value: bytes | None

    @property
    def key_type(self) -> int:
        return int.from_bytes(self.key[:2], "big")

    def continues(self, last: _CapturedRecord) -> bool:
        """Whether this record and the one before it may be of one operation."""
        place = self.partition, self.offset, self.timestamp
        return place == (last.partition, last.offset + 1, last.timestamp)


def _captured_records() -> Sequence[_CapturedRecord]:
    """The records of the capture, by time; those of one partition by offset."""
    table = pq.read_table(CAPTURE)
    order = [("timestamp", "ascending"), ("partition", "ascending"), ("offset", "ascending")]
    table = table.sort_by(order)
    millis = table["timestamp"].cast(pa.timestamp("ms")).cast(pa.int64())
    columns = (table[name] for name in ("partition", "offset"))
    last = (table[name] for name in ("key", "value"))
    rows = zip(*(c.to_pylist() for c in (*columns, millis, *last)), strict=True)
    return [_CapturedRecord(*row) for row in rows]


def _kafka_string(text: str) -> bytes:
    return struct.pack(">h", len(text)) + text.encode()


def _partition_of(group: str, partitions: int) -> int:
    """The partition of `__consumer_offsets` that Kafka stores a group in: Java's hash of its
    name."""
    value = 0
    for character in group:
        value = (31 * value + ord(character)) & 0xFFFFFFFF
    return (value & 0x7FFFFFFF) % partitions
