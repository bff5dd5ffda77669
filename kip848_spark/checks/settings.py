"""What every group is judged by."""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field

from kip848_spark.checks.coverage import Coverage
from kip848_spark.checks.log_entries import Entry
from kip848_spark.checks.topics import KnownTopics

BUCKETS = 10_000


def bucket_of(group_id: str) -> int:
    """A number below `BUCKETS` by which samples of groups are drawn."""
    return zlib.crc32(group_id.encode()) % BUCKETS


@dataclass(frozen=True)
class Settings:
    """What every group is judged by. ``release``: the only one that wrote the log, if given."""

    coverage: Coverage
    topics: KnownTopics
    release: str | None = None
    since_ms: int | None = None
    """Verdicts on operations before this time are not counted, though their effects are."""
    since_offsets: Mapping[int, int] = field(default_factory=dict)
    """Nor those on operations that end before this offset of their partition."""
    cuts: Mapping[int, int] = field(default_factory=dict)
    """By partition: where in between the state of some groups is compared, too."""
    share: int = 0
    """How many groups that are, of `BUCKETS`."""

    def cut(self, partition: int, group_id: str) -> int | None:
        """Up to which offset (inclusive) a group's state is compared, if it is."""
        return self.cuts.get(partition) if bucket_of(group_id) < self.share else None

    def counts(self, last: Entry) -> bool:
        """Whether verdicts on an operation that ends with this record are counted."""
        return self.counts_at(last.partition, last.offset, last.timestamp)

    def counts_at(self, partition: int, offset: int, timestamp: int) -> bool:
        """The same, by the record's place and its time in ms."""
        if self.since_ms is not None and timestamp < self.since_ms:
            return False
        return offset >= self.since_offsets.get(partition, 0)
