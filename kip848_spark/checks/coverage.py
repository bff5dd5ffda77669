"""Which part of the log was read: where records may be missing, and where the log ends.

The log cleaner works from the start of the log up to some offset, and keeps the newest record of
each key. Missing offsets therefore prove only that the cleaner has passed that point. Records
before it may have lost their predecessors, and so may records after it, until a key occurs twice.
See docs/kafka-facts.md#compaction, and #invariants for what a log without holes guarantees.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class SuspectRange:
    """Offsets among which control records are missing, both ends inclusive.

    ``reread`` is true if earlier offsets had been read before: what those records say may have
    been deleted by tombstones that are missing here.
    """

    first: int
    last: int
    reread: bool


@dataclass(frozen=True)
class Coverage:
    """Of each partition: where records may be missing, and the last offset that was read."""

    suspect_ranges: Mapping[int, tuple[SuspectRange, ...]] = field(default_factory=dict)
    ends: Mapping[int, int] = field(default_factory=dict)

    @classmethod
    def of(
        cls,
        gaps: Iterable[tuple[int, int]],
        ends: Mapping[int, int],
        restarts: Iterable[tuple[int, int]] = (),
        kept_from: Mapping[int, int] | None = None,
    ) -> Coverage:
        """Builds the coverage of a lake; the arguments may be in any order.

        ``gaps``: (partition, last offset) of each gap that may hide a control record.
        ``ends``: the last offset read, by partition. ``restarts``: (partition, first offset) of
        each run that read the partition, but the first. ``kept_from``: by partition, the offset
        before which the lake has kept only the newest record of each key.
        """
        starts_of: dict[int, list[int]] = {}
        for partition, offset in restarts:
            starts_of.setdefault(partition, []).append(offset)
        last: dict[tuple[int, int], int] = {}
        for partition, gap_end in gaps:
            starts = sorted(starts_of.get(partition, ()))
            at = bisect_right(starts, gap_end)
            first = starts[at - 1] if at else 0
            last[partition, first] = max(last.get((partition, first), 0), gap_end)
        for partition, offset in (kept_from or {}).items():
            if offset > 0:
                last[partition, 0] = max(last.get((partition, 0), 0), offset - 1)
        ranges: dict[int, list[SuspectRange]] = {}
        for (partition, first), gap_end in sorted(last.items()):
            ranges.setdefault(partition, []).append(SuspectRange(first, gap_end, first > 0))
        return cls({p: tuple(found) for p, found in ranges.items()}, dict(ends))

    def suspect_range(self, partition: int, after: int, upto: int) -> SuspectRange | None:
        """The last suspect range that overlaps the offsets from ``after`` + 1 to ``upto``."""
        for found in reversed(self.suspect_ranges.get(partition, ())):
            if found.first <= upto and found.last > after:
                return found
        return None

    def resumes(self, partition: int, offset: int) -> bool:
        """Whether a run that has a suspect range began to read at this offset."""
        return any(found.first == offset for found in self.suspect_ranges.get(partition, ()))

    def may_go_on(self, partition: int, offset: int) -> bool:
        """Whether an operation whose last record is at this offset may have further ones that were
        not read: no later record was, or the next run found that records were missing."""
        is_end = offset >= self.ends.get(partition, offset + 1)
        return is_end or self.resumes(partition, offset + 1)
