"""The identity of a topic, and ranges of its offsets."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class TopicIdentity:
    """Which topic of which cluster; an id is None if it is not known."""

    topic: str
    cluster_id: str | None = None
    topic_id: str | None = None


@dataclass(frozen=True)
class PartitionExtent:
    """The offsets of a partition, from ``first`` up to but not including ``end``, the last stable
    offset. ``open`` is the number of later offsets, which are behind an open transaction.
    ``captured_to``: of a capture that says where its source ended, that offset. It is higher than
    ``end`` if no record was before it, because the marker of a transaction is none."""

    first: int
    end: int
    open: int = 0
    captured_to: int = 0


@dataclass(frozen=True)
class OffsetRange:
    """The offsets to read of a partition, from ``start`` up to but not including ``end``."""

    partition: int
    start: int
    end: int
