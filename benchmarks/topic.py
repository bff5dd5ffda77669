"""Fills a Kafka topic of any size with records like those of a cluster's `__consumer_offsets`.

Every record is one that a real broker wrote (the capture in tests/data), with new values in the
fields that vary: for commits the group, topic, partition, offset and time; for other records the
group, the epochs and the time. The sizes of groups and partitions vary widely. Each group is in the
partition in which Kafka itself would put it."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
from confluent_kafka import Producer
from confluent_kafka.admin import NewTopic  # type: ignore[attr-defined]

from kip848_spark.kafka.admin import LOG, admin_client

CAPTURE = Path(__file__).parent.parent / "tests" / "data" / "kafka-4.3.1" / "records.parquet"

GROUPS = 300
"""The number of groups that commit. With their topic partitions they have a few thousand keys."""
CONTROL_COPIES = 40
"""The control records belong to so many copies of the capture's groups, each with a suffix."""
CONTROL_EVERY = 20
"""One of so many records is a control record."""
TOMBSTONE_EVERY = 50
"""One of so many commits is a tombstone, as for an expired offset."""
TRANSACTION_EVERY, TRANSACTION = 20_000, 200
"""Of every 20,000 records, 200 are sent in a transaction; every fifth transaction is aborted."""
SPAN_MS = 86_400_000
"""The timestamps are spread over the last day (ms)."""

_COMMIT_KEY = 1
_OFFSET = slice(2, 10)
_TIME = struct.Struct(">q")
_EPOCHS = {3: (2,), 6: (2,), 8: (2, 6)}
"""The byte positions of epochs (int32) in the values of some key types."""

Message = tuple[int, bytes, bytes | None]
"""Partition, key, value."""


@dataclass(frozen=True)
class _CommitTemplate:
    """A group's key for one topic partition, and its value in parts: ``head``, offset, ``middle``,
    time, ``tail``."""

    partition: int
    key: bytes
    head: bytes
    middle: bytes
    tail: bytes


def fill(bootstrap: str, topic: str, partitions: int, records: int, now_ms: int) -> None:
    """Creates ``topic`` and sends ``records`` records to it, including those of aborted
    transactions.

    Raises RuntimeError if the broker did not accept all of them."""
    TopicFiller(bootstrap, topic, partitions, records, now_ms).send(records)


class TopicFiller:
    """Creates ``topic`` and sends records to it, ``records`` in all, which end at ``now_ms``."""

    def __init__(
        self, bootstrap: str, topic: str, partitions: int, records: int, now_ms: int
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
        self._plain = Producer(settings, logger=LOG)
        filler = {**settings, "transactional.id": f"{topic}-filler"}
        self._transactional = Producer(filler, logger=LOG)
        self._transactional.init_transactions(30)
        self._messages = enumerate(_messages(partitions, records, now_ms))
        self._transactions = 0
        self._failed: list[object] = []

    def send(self, records: int) -> None:
        """Sends the next ``records`` records, including those of aborted transactions. Raises
        RuntimeError if the broker did not accept all of them."""
        in_transaction = False
        for number, (partition, key, value) in islice(self._messages, records):
            place = number % TRANSACTION_EVERY
            if place < TRANSACTION and not in_transaction:
                self._transactional.begin_transaction()
                in_transaction = True
            time = self._now_ms - SPAN_MS + number * SPAN_MS // self._records
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


def _messages(partitions: int, records: int, now_ms: int) -> Iterator[Message]:
    """Commits, with a control record at regular intervals."""
    commits = _commits(partitions, now_ms - SPAN_MS, SPAN_MS / records)
    control = _control_records(partitions)
    for number in range(records):
        yield next(control) if number % CONTROL_EVERY == 0 else next(commits)


def _commits(partitions: int, since_ms: int, step_ms: float) -> Iterator[Message]:
    """An endless stream: a random group commits some of its partitions, as one of its members
    would."""
    rng = np.random.default_rng(848)
    groups = _groups(rng, partitions)
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
                key = keys[index]
                number += 1
                if number % TOMBSTONE_EVERY == 0:
                    yield key.partition, key.key, None
                    continue
                offsets[group][index] += 17
                time = _TIME.pack(int(since_ms + number * step_ms))
                offset = _TIME.pack(offsets[group][index])
                value = key.head + offset + key.middle + time + key.tail
                yield key.partition, key.key, value


def _groups(rng: np.random.Generator, partitions: int) -> list[list[_CommitTemplate]]:
    """The keys of each committing group: one to three topics of 4 to 12 partitions."""
    templates = [
        value for key_type, _, value in _captured_records() if key_type == _COMMIT_KEY and value
    ]
    areas = ("billing", "search", "fraud", "orders", "telemetry", "mail")
    roles = ("indexer", "enricher", "sink", "projector", "notifier-v2")
    sizes = {f"{area}.events-{n}": int(rng.integers(4, 13)) for area in areas for n in range(8)}
    ids = {topic: rng.bytes(16) for topic in sizes}
    groups = []
    for number in range(GROUPS):
        group = f"{areas[number % len(areas)]}.{roles[number % len(roles)]}-{number}"
        home = _partition_of(group, partitions)
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


def _control_records(partitions: int) -> Iterator[Message]:
    """An endless stream: the capture's control records in their order, repeated for other groups or
    for the same groups with higher epochs."""
    records = [record for record in _captured_records() if record[0] != _COMMIT_KEY]
    rounds = 0
    while True:
        suffix = f"-{rounds % CONTROL_COPIES}".encode()
        for key_type, key, value in records:
            length = int.from_bytes(key[2:4], "big")
            group = key[4 : 4 + length] + suffix
            renamed = key[:2] + struct.pack(">h", len(group)) + group + key[4 + length :]
            later = value and _raise_epochs(key_type, value, 10 * (rounds // CONTROL_COPIES))
            yield _partition_of(group.decode(), partitions), renamed, later
        rounds += 1


def _raise_epochs(key_type: int, value: bytes, by: int) -> bytes:
    """``value`` with its epochs raised; a negative one, which means that a member left, stays."""
    for at in _EPOCHS.get(key_type, ()):
        (epoch,) = struct.unpack_from(">i", value, at)
        if epoch > 0:
            value = value[:at] + struct.pack(">i", epoch + by) + value[at + 4 :]
    return value


def _captured_records() -> Sequence[tuple[int, bytes, bytes | None]]:
    """The key type, the key and the value of every record of the capture, by time."""
    table = pq.read_table(CAPTURE).sort_by([("timestamp", "ascending"), ("offset", "ascending")])
    columns = (table[name].to_pylist() for name in ("key", "value"))
    return [
        (int.from_bytes(key[:2], "big"), key, value) for key, value in zip(*columns, strict=True)
    ]


def _kafka_string(text: str) -> bytes:
    return struct.pack(">h", len(text)) + text.encode()


def _partition_of(group: str, partitions: int) -> int:
    """The partition of `__consumer_offsets` that Kafka stores a group in: Java's hash of its
    name."""
    value = 0
    for character in group:
        value = (31 * value + ord(character)) & 0xFFFFFFFF
    return (value & 0x7FFFFFFF) % partitions
