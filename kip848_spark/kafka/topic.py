"""A topic and its partitions in plain values: which topic it is, and ranges of offsets."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class TopicIdentity:
    """Whose topic it is; an id is None if it is not known."""

    topic: str
    cluster_id: str | None = None
    topic_id: str | None = None


@dataclass(frozen=True)
class PartitionExtent:
    """How far a partition goes: from offset ``first`` to before ``end`` (the last stable offset,
    up to which every transaction is decided). ``open``: offsets beyond it that wait for one."""

    first: int
    end: int
    open: int = 0


@dataclass(frozen=True)
class OffsetRange:
    """What to read of a partition: offsets from ``start`` to before ``end``."""

    partition: int
    start: int
    end: int
