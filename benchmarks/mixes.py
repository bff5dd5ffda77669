"""Millions of realistic records: the input of the decoder benchmark.

They are those of a 4.3.1 broker with some hundred groups of a few members each. Names have the form
that clients give them, the commits of one request are together, and commits of newer clients carry
the topic id. There are two mixes of the same kinds of records: ``commits`` in the proportions of a
real topic (one record in twenty is a control record), and ``control``, of which half are control
records. The same seed gives the same bytes."""

from __future__ import annotations

import base64
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from kip848_spark.wire.decode import DecodePlan
from kip848_spark.wire.definitions import load_shipped
from kip848_spark.wire.embedded import Embedded
from kip848_spark.wire.encode import encode_keys, encode_message, encode_values

Integers = npt.NDArray[np.int64]

COMMITS, CONTROL = "commits", "control"

_SHARES = {  # of the control records
    "current": 0.42,
    "target_member": 0.16,
    "member": 0.10,
    "group": 0.08,
    "target": 0.08,
    "classic": 0.08,
    "regex": 0.01,
    "tombstone": 0.07,
}
_NOW = 1_795_248_083_153


@dataclass(frozen=True)
class Mix:
    """``keys`` and ``values`` (binary[n], null for tombstones) in log order."""

    name: str
    keys: pa.BinaryArray
    values: pa.BinaryArray

    @property
    def octets(self) -> int:
        """Bytes of all keys and values."""
        return sum(pc.sum(pc.binary_length(half)).as_py() for half in (self.keys, self.values))


def make(name: str, records: int, version: int = 4, seed: int = 848) -> Mix:
    """One of the two mixes. ``version`` is the value version of the commits."""
    draw = np.random.default_rng(seed)
    control = records // 2 if name == CONTROL else records // 20
    cluster = _Cluster(draw)
    counts = {kind: int(control * share) for kind, share in _SHARES.items()}
    parts = [cluster.commits(records - sum(counts.values()), version)]
    parts += [getattr(cluster, kind)(count) for kind, count in counts.items()]
    keys, values, requests = zip(*parts, strict=True)
    first = np.cumsum([0, *(int(each[-1]) + 1 for each in requests)])
    request = np.concatenate([each + at for each, at in zip(requests, first, strict=False)])
    order = pa.array(np.argsort(draw.permutation(first[-1])[request], kind="stable"))
    return Mix(name, pa.concat_arrays(keys).take(order), pa.concat_arrays(values).take(order))


_Records = tuple[pa.Array, pa.Array, Integers]
"""Keys, values, and for each record the number of the request that wrote it."""


class _Cluster:
    """The groups, members and topics that records are drawn from."""

    groups = 200
    members = 6
    topics = 60
    partitions = 12

    def __init__(self, draw: np.random.Generator) -> None:
        self.draw = draw
        self.plan = DecodePlan.of(load_shipped())
        words = ["orders", "payments", "audit-log", "clickstream", "inventory.eu", "ledger"]
        self.group_names = pa.array(
            [f"{words[i % 6]}-{'consumer' if i % 3 else 'svc'}-{i}" for i in range(self.groups)]
        )
        self.topic_names = pa.array([f"{words[i % 6]}.v{i}" for i in range(self.topics)])
        ids = [*(draw.bytes(16) for _ in range(self.topics)), bytes(16)]
        self.topic_ids = pa.array(ids, pa.binary(16))
        self.member_ids = pa.array([self._uuid() for _ in range(self.groups * self.members)])
        self.client_ids = pa.array([f"consumer-{i}-{i % 7}" for i in range(self.groups)])
        self.hosts = pa.array([f"/10.0.{i % 9}.{i % 250}" for i in range(self.groups)])

    def _uuid(self) -> str:
        text = self.draw.bytes(16).hex()
        return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"

    def _numbers(self, count: int, most: int) -> Integers:
        return self.draw.integers(0, most, count)

    def _times(self, count: int) -> pa.Array:
        return pa.array(_NOW + np.arange(count))

    def _group_key(self, key_type: int, group: Integers) -> pa.Array:
        names = {"group_id": self.group_names.take(pa.array(group))}
        if key_type == 2:
            names = {"group": names["group_id"]}
        return encode_keys(self.plan.records[key_type], names)

    def _member_key(self, key_type: int, group: Integers, member: Integers) -> pa.Array:
        ids = self.member_ids.take(pa.array(group * self.members + member))
        names = {"group_id": self.group_names.take(pa.array(group)), "member_id": ids}
        return encode_keys(self.plan.records[key_type], names)

    def _values(self, key_type: int, version_: int = 0, /, **columns: pa.Array) -> pa.Array:
        return encode_values(self.plan.records[key_type], version_, columns)

    # -- kinds, each as keys and values -------------------------------------------------------

    def commits(self, count: int, version: int) -> _Records:
        size = 1 + self._numbers(count, self.partitions)
        request = np.repeat(np.arange(count), size)[:count]
        group = self._numbers(count, self.groups)[request]
        topic = (group + self._numbers(count, 2)[request]) % self.topics
        place = np.arange(count) - np.searchsorted(request, request)
        key = {
            "group": self.group_names.take(pa.array(group)),
            "topic": self.topic_names.take(pa.array(topic)),
            "partition": pa.array(place, pa.int32()),
        }
        old = group % 5 < 2  # clients that commit without the topic's id
        columns = {
            "offset": pa.array(self._numbers(count, 1 << 40)),
            "leader_epoch": pa.array(self._numbers(count, 30), pa.int32()),
            "metadata": self._metadata(group),
            "commit_timestamp": pa.array(_NOW + request),
            "topic_id": self.topic_ids.take(pa.array(np.where(old, self.topics, topic))),
        }
        record = self.plan.records[1]
        values = encode_values(record, version, columns)
        if version > 3:  # one request in ten is from before the upgrade
            columns["topic_id"] = pa.nulls(count, pa.binary(16))
            before = encode_values(record, 3, columns)
            values = pc.if_else(pa.array(request % 10 == 3), before, values)
        return encode_keys(record, key), values, request

    def _metadata(self, group: Integers) -> pa.Array:
        """Most commits have empty metadata, one in twenty has 16 characters as Kafka Streams writes
        them, and one in twenty a text of varying length."""
        streams = [base64.b64encode(self.draw.bytes(12)).decode() for _ in range(5000)]
        free = [f"checkpoint={1 << int(n)};host=worker-{i}" for i, n in
                enumerate(self._numbers(5000, 60))]  # fmt: skip
        which = np.zeros(len(group), np.int64)
        for twentieth, first in ((7, 1), (13, 5001)):
            rows = np.flatnonzero(group % 20 == twentieth)
            which[rows] = first + self._numbers(len(rows), 5000)
        return pa.array(["", *streams, *free]).take(pa.array(which))

    def group(self, count: int) -> _Records:
        values = self._values(
            3,
            epoch=pa.array(self._numbers(count, 900), pa.int32()),
            metadata_hash=pa.array(self._numbers(count, 1 << 62)),
        )
        return self._group_key(3, self._numbers(count, self.groups)), values, np.arange(count)

    def target(self, count: int) -> _Records:
        values = self._values(
            6,
            assignment_epoch=pa.array(self._numbers(count, 900), pa.int32()),
            assignment_timestamp=self._times(count),
        )
        return self._group_key(6, self._numbers(count, self.groups)), values, np.arange(count)

    def target_member(self, count: int) -> _Records:
        group, member = self._numbers(count, self.groups), self._numbers(count, self.members)
        values = self._values(7, topic_partitions=self._assigned(group, epochs=False))
        return self._member_key(7, group, member), values, np.arange(count)

    def current(self, count: int) -> _Records:
        group, member = self._numbers(count, self.groups), self._numbers(count, self.members)
        epoch = self._numbers(count, 900).astype(np.int32)
        revoking = np.where(self._numbers(count, 10) == 0, 1, 0)
        values = self._values(
            8,
            member_epoch=pa.array(epoch),
            previous_member_epoch=pa.array(epoch - 1),
            state=pa.array(revoking, pa.int8()),
            assigned_partitions=self._assigned(group, epochs=True),
            partitions_pending_revocation=self._assigned(group, True, most=revoking),
        )
        return self._member_key(8, group, member), values, np.arange(count)

    def member(self, count: int) -> _Records:
        group, member = self._numbers(count, self.groups), self._numbers(count, self.members)
        which = pa.array(group)
        names = pa.array(
            [
                [self.topic_names[(i + j) % self.topics].as_py() for j in range(1 + i % 2)]
                for i in range(self.groups)
            ]
        )
        values = self._values(
            5,
            rack_id=pa.array([f"eu-{i % 3}" if i % 2 else None for i in range(self.groups)]).take(
                which
            ),
            client_id=self.client_ids.take(which),
            client_host=self.hosts.take(which),
            subscribed_topic_names=names.take(which),
            rebalance_timeout_ms=pa.array(np.full(count, 300_000, np.int32)),
            server_assignor=pa.array(["uniform", None]).take(pa.array(group % 2)),
            classic_member_metadata=pa.nulls(
                count, self.plan.records[5].value_type.field("classic_member_metadata").type
            ),
        )
        return self._member_key(5, group, member), values, np.arange(count)

    def classic(self, count: int) -> _Records:
        group = self._numbers(count, self.groups)
        size = 1 + self._numbers(count, 6)
        owner = np.repeat(group, size)
        place = np.arange(len(owner)) - np.repeat(np.cumsum(size) - size, size)
        ids = self.member_ids.take(pa.array(owner * self.members + place))
        subscription, assignment = self._embedded()
        structs = pa.StructArray.from_arrays(
            [
                pc.binary_join_element_wise(self.client_ids.take(pa.array(owner)), ids, "-"),
                self.client_ids.take(pa.array(owner)),
                self.hosts.take(pa.array(owner)),
                pa.array(np.full(len(owner), 300_000, np.int32)),
                pa.array(np.full(len(owner), 45_000, np.int32)),
                subscription.take(pa.array(owner)),
                assignment.take(pa.array(owner)),
            ],
            [
                *("member_id", "client_id", "client_host", "rebalance_timeout"),
                *("session_timeout", "subscription", "assignment"),
            ],
        )
        offsets = np.concatenate([[0], np.cumsum(size)]).astype(np.int32)
        values = self._values(
            2,
            3,
            protocol_type=pa.array(["consumer"]).take(pa.array(np.zeros(count, np.int64))),
            generation=pa.array(self._numbers(count, 900), pa.int32()),
            protocol=pa.array(["range", "cooperative-sticky"]).take(pa.array(group % 2)),
            leader=ids.take(pa.array(offsets[:-1])),
            current_state_timestamp=self._times(count),
            members=pa.ListArray.from_arrays(pa.array(offsets), structs),
        )
        return self._group_key(2, group), values, np.arange(count)

    def regex(self, count: int) -> _Records:
        group = self._numbers(count, self.groups)
        key = {
            "group_id": self.group_names.take(pa.array(group)),
            "regular_expression": pa.array(["orders.*", "^(audit|ledger).*$"]).take(
                pa.array(group % 2)
            ),
        }
        topics = pa.array([[name.as_py()] * 2 for name in self.topic_names])
        values = self._values(
            16,
            topics=topics.take(pa.array(group % self.topics)),
            version=pa.array(self._numbers(count, 5000)),
            timestamp=self._times(count),
        )
        return encode_keys(self.plan.records[16], key), values, np.arange(count)

    def tombstone(self, count: int) -> _Records:
        group, member = self._numbers(count, self.groups), self._numbers(count, self.members)
        return self._member_key(8, group, member), pa.nulls(count, pa.binary()), np.arange(count)

    # -- nested values ----------------------------------------------------------------------

    def _assigned(
        self, group: Integers, epochs: bool, most: Integers | None = None
    ) -> pa.ListArray:
        """Assignments: up to five partitions each of one or two topics of the group."""
        topics = 1 + self._numbers(len(group), 2) if most is None else most
        owner = np.repeat(group, topics)
        size = 1 + self._numbers(len(owner), 5)
        first = self._numbers(len(owner), 8)
        before = np.cumsum(size) - size
        numbers = np.arange(int(size.sum())) - np.repeat(before - first, size)
        bounds = pa.array(np.concatenate([[0], np.cumsum(size)]).astype(np.int32))
        arrays = [
            self.topic_ids.take(pa.array((owner + self._numbers(len(owner), 2)) % self.topics)),
            pa.ListArray.from_arrays(bounds, pa.array(numbers, pa.int32())),
        ]
        names = ["topic_id", "partitions"]
        if epochs:
            since = pa.array(self._numbers(len(numbers), 900), pa.int32())
            arrays.append(pa.ListArray.from_arrays(bounds, since))
            names.append("assignment_epochs")
        structs = pa.StructArray.from_arrays(arrays, names)
        offsets = np.concatenate([[0], np.cumsum(topics)]).astype(np.int32)
        return pa.ListArray.from_arrays(pa.array(offsets), structs)

    def _embedded(self) -> tuple[pa.Array, pa.Array]:
        """The metadata that the members of each group embed: subscriptions and assignments."""
        subscribing = Embedded.of("ConsumerProtocolSubscription").layouts[1]
        assigning = Embedded.of("ConsumerProtocolAssignment").layouts[1]
        names = [self.topic_names[i % self.topics].as_py() for i in range(self.groups)]
        owned = [[{"topic": name, "partitions": [0, 1, 2]}] for name in names]
        given = pa.array(owned)
        return (
            encode_message(
                subscribing,
                1,
                {
                    "topics": pa.array([[name] for name in names]),
                    "user_data": pa.nulls(self.groups, pa.binary()),
                    "owned_partitions": given,
                },
            ),
            encode_message(
                assigning,
                1,
                {
                    "assigned_partitions": given,
                    "user_data": pa.nulls(self.groups, pa.binary()),
                },
            ),
        )
