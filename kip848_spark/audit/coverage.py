"""What of a log was there to be read: its holes, and where it ends.

A hole that is a transaction's marker hides no control record. Any other may: then the state a
record is judged against may be wrong until the cleaner is known to have been left behind.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Coverage:
    """Of each partition: the first offsets of holes that may hide control records, ascending; the
    last offset that was read; and where each reading after the first one began."""

    holes: Mapping[int, tuple[int, ...]] = field(default_factory=dict)
    ends: Mapping[int, int] = field(default_factory=dict)
    restarts: Mapping[int, tuple[int, ...]] = field(default_factory=dict)

    @classmethod
    def of(
        cls,
        holes: Iterable[tuple[int, int]],
        ends: Mapping[int, int],
        restarts: Iterable[tuple[int, int]] = (),
    ) -> Coverage:
        """From (partition, offset) pairs in any order."""
        return cls(_sorted(holes), dict(ends), _sorted(restarts))

    def hole_between(self, partition: int, after: int, before: int) -> int | None:
        """The first offset of the last hole between two offsets, if there is one."""
        holes = self.holes.get(partition, ())
        index = bisect_right(holes, before) - 1
        return holes[index] if index >= 0 and holes[index] > after else None

    def restarted(self, partition: int, upto: int) -> bool:
        """Whether an earlier reading had ended before this offset: what it saw may since have
        been taken back by tombstones that are gone."""
        restarts = self.restarts.get(partition, ())
        return bool(restarts) and restarts[0] <= upto

    def is_end(self, partition: int, offset: int) -> bool:
        """Whether nothing behind this offset was read."""
        return offset >= self.ends.get(partition, offset + 1)


def _sorted(pairs: Iterable[tuple[int, int]]) -> dict[int, tuple[int, ...]]:
    found: dict[int, list[int]] = {}
    for partition, offset in pairs:
        found.setdefault(partition, []).append(offset)
    return {partition: tuple(sorted(offsets)) for partition, offsets in found.items()}
