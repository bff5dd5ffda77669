"""What of a log was there to be read: where records may be missing, and where it ends.

The log cleaner works from the start of what it has on disk up to some offset, and keeps the newest
record of each key. A hole it left says only that it has been *behind* that hole: records before
the hole may have lost their predecessors, and so may records after it, until a key comes twice.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Doubt:
    """Offsets among which control records are missing. ``again``: earlier ones had been read, and
    what they say may have been taken back by tombstones that are gone."""

    first: int
    last: int
    again: bool


@dataclass(frozen=True)
class Coverage:
    """Of each partition: where records may be missing, and the last offset that was read."""

    doubts: Mapping[int, tuple[Doubt, ...]] = field(default_factory=dict)
    ends: Mapping[int, int] = field(default_factory=dict)

    @classmethod
    def of(
        cls,
        holes: Iterable[tuple[int, int]],
        ends: Mapping[int, int],
        restarts: Iterable[tuple[int, int]] = (),
    ) -> Coverage:
        """From (partition, last offset) of each hole that may hide a control record, and the
        (partition, first offset) of each reading after the first one. Any order."""
        begins: dict[int, list[int]] = {}
        for partition, offset in restarts:
            begins.setdefault(partition, []).append(offset)
        last: dict[tuple[int, int], int] = {}
        for partition, hole in holes:
            starts = sorted(begins.get(partition, ()))
            at = bisect_right(starts, hole)
            first = starts[at - 1] if at else 0
            last[partition, first] = max(last.get((partition, first), 0), hole)
        doubts: dict[int, list[Doubt]] = {}
        for (partition, first), hole in sorted(last.items()):
            doubts.setdefault(partition, []).append(Doubt(first, hole, first > 0))
        return cls({p: tuple(found) for p, found in doubts.items()}, dict(ends))

    def doubt(self, partition: int, after: int, upto: int) -> Doubt | None:
        """The last doubt that touches the offsets behind ``after``, up to ``upto``."""
        for doubt in reversed(self.doubts.get(partition, ())):
            if doubt.first <= upto and doubt.last > after:
                return doubt
        return None

    def resumes(self, partition: int, offset: int) -> bool:
        """Whether a reading began here, with a hole in it."""
        return any(doubt.first == offset for doubt in self.doubts.get(partition, ()))

    def is_end(self, partition: int, offset: int) -> bool:
        """Whether nothing behind this offset was read."""
        return offset >= self.ends.get(partition, offset + 1)
