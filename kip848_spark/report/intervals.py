"""Intervals of the history tables as the report's timelines draw them. Everything here works on
whole columns of integers: times in ms, and codes for members and partitions."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from kip848_spark.wire.array_types import BoolArray, Int64Array

STILL = np.int64(2**53)
"""Stands for the end of an interval that has not ended (ms)."""


class Intervals(NamedTuple):
    """int64[n] each. ``subject`` says what an interval is about, ``value`` what was true, from
    ``start`` to before ``end`` (`STILL`: still)."""

    subject: Int64Array
    value: Int64Array
    start: Int64Array
    end: Int64Array

    def take(self, rows: Int64Array) -> Intervals:
        """These rows."""
        return Intervals(*(column[rows] for column in self))


def merge(found: Intervals) -> Intervals:
    """The intervals without those that lasted for no time, and those that follow each other with
    the same subject and value as one; by subject, then by start."""
    found = found.take(np.flatnonzero(found.end > found.start))
    order = np.lexsort((found.start, found.value, found.subject))
    subject, value, start, end = found.take(order)
    if not len(order):
        return Intervals(subject, value, start, end)
    others = (subject[1:] != subject[:-1]) | (value[1:] != value[:-1])
    begins = np.concatenate([[True], others])
    reached = _running_maximum(end, begins)
    follows = np.zeros(len(order), bool)
    follows[1:] = ~others & (start[1:] <= reached[:-1])
    first = np.flatnonzero(~follows)
    last = np.append(first[1:], len(order)) - 1
    joined = Intervals(subject[first], value[first], start[first], reached[last])
    return joined.take(np.lexsort((joined.start, joined.subject)))


def without(found: Intervals, until: Int64Array) -> Intervals:
    """The times between intervals of one subject, and after its last one until ``until`` (int64[n],
    ms, by subject code): nothing was true then. ``value`` is 0."""
    order = np.lexsort((found.start, found.subject))
    subject, _, start, end = found.take(order)
    if not len(order):
        return Intervals(*(np.empty(0, np.int64) for _ in range(4)))
    begins = np.concatenate([[True], subject[1:] != subject[:-1]])
    reached = _running_maximum(end, begins)
    before = np.concatenate([[0], reached[:-1]])
    gap = ~begins & (start > before)
    last = np.append(np.flatnonzero(begins)[1:], len(order)) - 1
    after = last[(reached[last] < STILL) & (reached[last] < until[subject[last]])]
    return Intervals(
        np.concatenate([subject[gap], subject[after]]),
        np.zeros(int(gap.sum()) + len(after), np.int64),
        np.concatenate([before[gap], reached[after]]),
        np.concatenate([start[gap], until[subject[after]]]),
    )


def outside(found: Intervals, start: Int64Array, end: Int64Array) -> Intervals:
    """The parts of the intervals outside the times from each of ``start`` to before ``end``
    (int64[m], ms)."""
    for first, last in zip(start, end, strict=True):
        before = found._replace(end=np.minimum(found.end, first))
        after = found._replace(start=np.maximum(found.start, last))
        parts = Intervals(*map(np.concatenate, zip(before, after, strict=True)))
        found = parts.take(np.flatnonzero(parts.end > parts.start))
    return found


def _running_maximum(values: Int64Array, begins: BoolArray) -> Int64Array:
    """int64[n]: the largest of ``values`` since the last row where ``begins`` is true."""
    segment = np.cumsum(begins) - 1
    rank = np.argsort(np.argsort(values, kind="stable"), kind="stable")
    # Ranks are small, so that a segment and a rank fit into one integer.
    highest = np.maximum.accumulate(segment * len(values) + rank) - segment * len(values)
    found: Int64Array = np.sort(values, kind="stable")[highest]
    return found
