"""Finds missing offsets and their cause, while the records of a partition pass in offset order.

The cause is derived from the keys. The log cleaner starts at the beginning of the log, and of the
part that it has cleaned it keeps one record for each key. So after a key has occurred twice, the
cleaner has not been there, and missing offsets belong to a *transaction*: they are its marker, or
the records of an aborted one. Before that, the cause is *compaction* if more than half of all
offsets so far are missing, and at least `MIN_COMPACTED`; otherwise it is *unknown*.
See docs/kafka-facts.md#compaction.

A run ends at the last stable offset, so the next one often begins with a transaction that was open
in between. A gap there is therefore no sign of compaction, unless it is large."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from kip848_spark.wire.array_types import Int32Array, Int64Array

TRANSACTION = "transaction"
COMPACTION = "compaction"
UNDECIDED = "unknown"
_CAUSES = pa.array([TRANSACTION, COMPACTION, UNDECIDED])
_TRANSACTION, _COMPACTION, _UNDECIDED = range(3)
"""Places in `_CAUSES`."""

MIN_COMPACTED = 10
"""With fewer missing offsets than this, compaction is not given as the cause."""
LARGE_GAP = 100
"""A gap of so many offsets where a run ends or a later one begins is more likely the log cleaner's
than that of an aborted transaction with offset commits."""


@dataclass
class _Progress:
    """How far a partition was read: the next offset ``due``, the counts of ``present`` and
    ``missing`` offsets, and whether a key has ``repeated``. ``open`` is not None until the first
    gap of a partition that an earlier run has read, or until the marker of the transaction that
    was open there then: whether one was."""

    due: int
    present: int = 0
    missing: int = 0
    repeated: bool = False
    open: bool | None = None


class GapFinder:
    """Finds the gaps of any number of partitions, batch after batch. Each partition's records come
    in offset order."""

    def __init__(
        self,
        starts: Mapping[int, int],
        splits: Mapping[int, Sequence[int]] | None = None,
        resumed: Mapping[int, bool] | None = None,
    ) -> None:
        """``starts``: for each partition, the first offset that is read. ``splits``:
        offsets at which further tasks begin to read a partition, each after a place where a key
        occurred twice. A task reads at most one range of a partition. ``resumed``: the partitions
        that an earlier run has read up to the start, and whether a transaction was open there when
        it ended."""
        self._starts, self._splits, self._resumed = starts, splits or {}, resumed or {}
        self._progress: dict[int, _Progress] = {}

    def find(
        self, partition: Int32Array, offset: Int64Array, key: Int32Array
    ) -> tuple[pa.Array, pa.Array]:
        """``missing_before`` (int64[n]): how many offsets are missing directly before each record;
        and ``gap_cause`` (string[n]). Both are null where none is missing.

        ``partition`` and ``offset`` describe the records; ``key`` numbers the distinct keys of this
        batch (-1 for null). Raises ValueError if a partition's offsets do not ascend."""
        count = len(offset)
        missing = np.zeros(count, np.int64)
        cause = np.zeros(count, np.int8)
        bounds = [0, *(np.flatnonzero(np.diff(partition)) + 1).tolist(), count]
        for first, end in itertools.pairwise(bounds):
            if end > first:
                rows = slice(first, end)
                self._segment(
                    int(partition[first]), offset[rows], key[rows], missing[rows], cause[rows]
                )
        no_gap = missing == 0
        return pa.array(missing, mask=no_gap), _CAUSES.take(pa.array(cause, mask=no_gap))

    def _segment(
        self,
        partition: int,
        offset: Int64Array,
        key: Int32Array,
        missing: Int64Array,
        cause: npt.NDArray[np.int8],
    ) -> None:
        progress = self._progress.get(partition)
        if progress is None:
            progress = self._progress[partition] = self._begin(partition, int(offset[0]))
        missing[0] = offset[0] - progress.due
        np.subtract(offset[1:], offset[:-1] + 1, out=missing[1:])
        if int(missing.min()) < 0:
            raise ValueError(f"the records of partition {partition} are not in offset order")
        repeat = -1 if progress.repeated else find_first_repeat(key)
        rows = np.flatnonzero(missing)
        if len(rows):
            at_start = rows[0] == 0 and not progress.present
            first = self._first_gaps(progress, missing[rows[:2]].tolist(), bool(at_start))
            counted = missing[rows]
            counted[: len(first)] = 0
            gone = progress.missing + np.cumsum(counted)
            present = progress.present + rows
            guess = np.where((gone > present) & (gone >= MIN_COMPACTED), _COMPACTION, _UNDECIDED)
            cause[rows] = np.where(rows > repeat, _TRANSACTION, guess)
            for row, of_first in zip(rows, first, strict=False):
                if row <= repeat:
                    cause[row] = of_first
            progress.missing = int(gone[-1])
        progress.due = int(offset[-1]) + 1
        progress.present += len(offset)
        progress.repeated |= repeat < len(offset)

    def _first_gaps(self, progress: _Progress, missing: list[int], at_start: bool) -> list[int]:
        """The causes of the next gaps, as far as they are the first ones of a resumed partition
        and not large. If a transaction was open at the start, a gap there has its records, and the
        next one is its marker if it has one offset. Otherwise the cause of a gap ``at_start`` is
        unknown. For all other gaps, the general rules apply."""
        was_open, progress.open = progress.open, None
        if was_open is None:
            return []
        causes: list[int] = []
        if at_start:
            if missing.pop(0) >= LARGE_GAP:
                return []
            causes.append(_TRANSACTION if was_open else _UNDECIDED)
        if was_open and missing[:1] == [1]:
            causes.append(_TRANSACTION)
        elif was_open and not missing:
            progress.open = True  # the marker may come in a later batch
        return causes

    def _begin(self, partition: int, offset: int) -> _Progress:
        """The progress before the first record of this task in a partition."""
        splits = self._splits.get(partition, ())
        start = begin_of_range(offset, self._starts.get(partition), splits)
        split = start in splits
        return _Progress(
            start, repeated=split, open=None if split else self._resumed.get(partition)
        )


def begin_of_range(offset: int, start: int | None, splits: Sequence[int]) -> int:
    """Where the range that has this ``offset`` of a partition begins. ``start`` and ``splits``: see
    `GapFinder`. A partition without a start begins with the offset."""
    first = offset if start is None else start
    return max((split for split in splits if split <= offset), default=first)


def find_first_repeat(key: Int32Array) -> int:
    """The first row whose key occurred in an earlier row; ``len(key)`` if all are distinct."""
    count = len(key)
    first = np.full(int(key.max()) + 2, count)
    rows = np.arange(count)
    first[key[::-1]] = rows[::-1]  # of equal indices the last assignment stays
    again = rows[first[key] != rows]
    return int(again[0]) if len(again) else count
