"""The metadata that classic consumers embed as bytes: their subscriptions and assignments.

A group record (key type 2) carries a subscription and an assignment for each member, a member
record (key type 5) a subscription for each assignor that the member supports. Their layout is known
where the protocol type is ``consumer`` (`schemas/consumer_protocol`); other bytes are not decoded.
As Kafka does, this module reads a version above the newest known one as that version, ignores bytes
after the last field, puts U+FFFD into a text that is not UTF-8, and takes any negative length for
null. See docs/kafka-facts.md#embedded-metadata."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kip848_spark.wire.array_types import Int32Array, Int64Array
from kip848_spark.wire.columns import scatter
from kip848_spark.wire.definitions import load_embedded
from kip848_spark.wire.faults import Faults, Reason
from kip848_spark.wire.java_reader import read_as_java
from kip848_spark.wire.layout import StructNode, message_layout, message_type
from kip848_spark.wire.reader import LINE_ZERO, ByteRows, ProgramTable

CONSUMER = "consumer"
"""The protocol type of consumer groups."""

STREAMS_ASSIGNOR = "stream"
"""The assignor of Kafka Streams' classic groups, whose protocol type is ``consumer`` too. Their
members embed the metadata of Streams as user data."""

STREAMS, UNKNOWN = "streams", "unknown"

_READ_BY_JAVA = (int(Reason.BAD_UTF8), int(Reason.BAD_LENGTH))
"""The faults of rows that Kafka may read."""


def metadata_kind(
    protocol_type: pa.Array, assignor: pa.Array, bytes_there: pa.Array, read: pa.Array
) -> pa.Array:
    """string[n]: the kind of embedded metadata.

    ``consumer``; ``streams`` if its user data is that of Kafka Streams; for groups with another
    protocol type that type, such as ``connect``; ``unknown`` without a protocol type, or if the
    bytes of a consumer group could not be decoded; null without bytes. ``bytes_there`` and ``read``
    (bool[n]): there are bytes, and they were decoded as consumer metadata."""
    of_streams = pc.equal(assignor, STREAMS_ASSIGNOR).fill_null(False)
    consumers = pc.if_else(of_streams, STREAMS, CONSUMER)
    consumers = pc.if_else(read, consumers, UNKNOWN)
    is_consumer = pc.equal(protocol_type, CONSUMER).fill_null(False)
    named = pc.not_equal(protocol_type, "").fill_null(False)
    others = pc.if_else(named, protocol_type, UNKNOWN)
    kind = pc.if_else(is_consumer, consumers, others)
    return pc.if_else(bytes_there, kind, pa.scalar(None, pa.string()))


@dataclass(frozen=True)
class Embedded:
    """One kind of embedded metadata: its layouts by version, and its Arrow type. It pickles."""

    layouts: tuple[StructNode, ...]
    arrow: pa.StructType

    @classmethod
    def of(cls, name: str) -> Embedded:
        """For the definition ``name``: ``ConsumerProtocolSubscription`` or ``…Assignment``."""
        message = load_embedded(name)
        layouts = tuple(message_layout(message, version) for version in message.valid)
        extra = [pa.field("version", pa.int32())]
        return cls(layouts, pa.struct([*extra, *message_type(message)]))

    @cached_property
    def programs(self) -> ProgramTable:
        """The programs by version; newer versions are read by the newest program."""
        newest = len(self.layouts) - 1
        return ProgramTable([dict(enumerate(self.layouts))], fallback=newest)

    def decode(self, blobs: pa.Array) -> pa.StructArray:
        """struct[n] of binary[n]; null where the bytes are null, empty or no such metadata."""
        blob_of, distinct = ByteRows.of(blobs).distinct()
        count = distinct.count
        read, versions, faults = self.programs.read(
            distinct, np.zeros(count, np.int32), LINE_ZERO, Reason.EMPTY_VALUE,
            Reason.UNKNOWN_VALUE_VERSION, exact=False,
        )  # fmt: skip
        parts = [
            (
                each.rows,
                pa.StructArray.from_arrays(
                    [pa.array(versions[each.rows]), *each.fields], fields=list(self.arrow)
                ),
            )
            for each in read
        ]
        parts += self._read_refused(distinct, versions, faults)
        absent = blob_of < 0
        return scatter(parts, count, self.arrow).take(pa.array(blob_of, mask=absent))

    def _read_refused(
        self, source: ByteRows, versions: Int32Array, faults: Faults
    ) -> Iterator[tuple[Int64Array, pa.Array]]:
        """The rows that the programs refuse and Kafka reads: their numbers and their values."""
        refused = np.flatnonzero(np.isin(faults.reason, _READ_BY_JAVA))
        found = {
            int(row): {"version": version} | columns
            for row in refused
            if (version := int(versions[row])) >= 0
            and (columns := read_as_java(self.layout(version), source.row(int(row)))) is not None
        }
        if found:
            yield np.array(list(found), np.int64), pa.array(list(found.values()), self.arrow)

    def layout(self, version: int) -> StructNode:
        """The layout that reads a version: the newest known one also reads all newer versions."""
        return self.layouts[min(version, len(self.layouts) - 1)]
