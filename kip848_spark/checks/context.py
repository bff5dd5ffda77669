"""What the audit of every group needs beside the group's own records."""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from kip848_spark.checks.coverage import Coverage
from kip848_spark.checks.log_entries import LogEntry
from kip848_spark.checks.topics import KnownTopics
from kip848_spark.coordinator.assignors import Assignor

BUCKETS = 10_000
"""A sample of groups is all groups whose bucket is below some number."""


def bucket_of(group_id: str) -> int:
    """The bucket of a group, from 0 to `BUCKETS` - 1: a hash of its id."""
    return zlib.crc32(group_id.encode()) % BUCKETS


class KnownLine(NamedTuple):
    """Records between two runs at both of which all brokers answered the same line of releases."""

    line: str
    """Such as ``4.3``."""
    start: Mapping[int, int]
    """By partition: the first offset."""
    end: Mapping[int, int]
    """By partition: the offset after the last one."""


@dataclass(frozen=True)
class AuditContext:
    """What the audit of every group needs beside the group's own records.

    ``release`` names the only release that wrote the log, such as "4.1"; None if it is to be found
    from the records.
    """

    coverage: Coverage
    topics: KnownTopics
    release: str | None = None
    assignors: Mapping[str, Assignor | None] | None = None
    """The brokers' setting ``group.consumer.assignors`` (`find_assignors`): the first one computes
    the targets of groups in which no member asks for an assignor. None if it is not known. The
    targets of an assignor whose value is None are not judged."""
    known_lines: tuple[KnownLine, ...] = ()
    """What the brokers have answered: see `KnownLine`."""
    since_ms: int | None = None
    """Verdicts on operations before this time (ms since the epoch) are not counted. The operations
    are replayed all the same."""
    since_offsets: Mapping[int, int] = field(default_factory=dict)
    """By partition: verdicts on operations that end before this offset are not counted either."""
    points_in_time: Mapping[int, int] = field(default_factory=dict)
    """By partition: an offset at which the state of a sample of groups is compared, too."""
    sampled_buckets: int = 0
    """Groups in this many of the `BUCKETS` are in that sample."""
    save_after: int | None = None
    """The audit of a group is saved for later audits if it has replayed this many records; None: it
    is not saved."""

    def line_at(self, partition: int, offset: int) -> str | None:
        """The line of releases that the brokers have answered for a record; None if unknown."""
        for known in self.known_lines:
            if known.start.get(partition, offset + 1) <= offset < known.end.get(partition, 0):
                return known.line
        return None

    def point_in_time(self, partition: int, group_id: str) -> int | None:
        """The offset (inclusive) up to which the state of a group is compared; None if it is not
        in the sample."""
        in_sample = bucket_of(group_id) < self.sampled_buckets
        return self.points_in_time.get(partition) if in_sample else None

    def counts(self, last: LogEntry) -> bool:
        """Whether verdicts on an operation that ends with this record are counted."""
        return self.counts_at(last.partition, last.offset, last.timestamp)

    def counts_at(self, partition: int, offset: int, timestamp: int) -> bool:
        """As `counts`, of a record at this place and time (ms since the epoch)."""
        if self.since_ms is not None and timestamp < self.since_ms:
            return False
        return offset >= self.since_offsets.get(partition, 0)
