"""Functions over sorted integer arrays and lists that the modules of this package share.

A *position* is the index of a control record in a `ControlLog`. An *interval* is a pair of
positions, the second one exclusive."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kip848_spark.state.control_state import parent_rows
from kip848_spark.wire.array_types import BoolArray, Int64Array
from kip848_spark.wire.columns import list_offsets


class Pairs(NamedTuple):
    """Pairs of two indexes: ``left`` and ``right``, int64[pairs] each."""

    left: Int64Array
    right: Int64Array


def points_in_intervals(begin: Int64Array, end: Int64Array, points: Int64Array) -> Pairs:
    """The pairs (interval, point) where the point lies in the interval. ``points`` ascend."""
    low = np.searchsorted(points, begin)
    high = np.searchsorted(points, end)
    return expand_ranges(low, np.maximum(high, low))


def expand_ranges(low: Int64Array, high: Int64Array) -> Pairs:
    """The pairs (row, i) with low[row] <= i < high[row]."""
    counts = high - low
    row = np.repeat(np.arange(len(low)), counts)
    first = np.cumsum(counts) - counts
    return Pairs(row, np.arange(len(row)) - np.repeat(first - low, counts))


def last_before(rows: Int64Array, life: Int64Array, points: Int64Array) -> Int64Array:
    """int64[points]: the last of ``rows`` (ascending positions) that is not after the point and in
    the same life; -1 without one. ``life`` is the life of each position."""
    if not len(rows):
        return np.full(len(points), -1, np.int64)
    found = rows[np.maximum(np.searchsorted(rows, points, "right") - 1, 0)]
    return np.where((found <= points) & (life[found] == life[points]), found, -1)


def first_from(rows: Int64Array, life: Int64Array, points: Int64Array) -> Int64Array:
    """int64[points]: the first of ``rows`` (ascending positions) that is not before the point and
    in the same life; -1 without one."""
    if not len(rows):
        return np.full(len(points), -1, np.int64)
    found = rows[np.minimum(np.searchsorted(rows, points), len(rows) - 1)]
    return np.where((found >= points) & (life[found] == life[points]), found, -1)


def is_run_start(code: Int64Array) -> BoolArray:
    """bool[n]: whether the code differs from the one before it."""
    starts = np.ones(len(code), bool)
    starts[1:] = code[1:] != code[:-1]
    return starts


def string_lists(owner: Int64Array, values: pa.Array, count: int) -> pa.Array:
    """list<string>[count]: for each owner, its distinct values, sorted."""
    pairs = pa.table({"owner": owner, "value": values}).group_by(["owner", "value"]).aggregate([])
    pairs = pairs.sort_by([("owner", "ascending"), ("value", "ascending")])
    sizes = np.bincount(pairs["owner"].to_numpy(), minlength=count)
    return pa.ListArray.from_arrays(list_offsets(sizes), pairs["value"].combine_chunks())


def set_fingerprints(lists: pa.Array) -> Int64Array:
    """int64[n]: a number for each list of strings, equal for lists with the same elements in any
    order."""
    flat = pc.list_flatten(lists)
    encoded = pc.dictionary_encode(flat, null_encoding="encode")
    codes = encoded.indices.to_numpy(zero_copy_only=False)
    return sum_by_row(scramble(codes), parent_rows(lists), len(lists))


def sum_by_row(numbers: Int64Array, row: Int64Array, count: int) -> Int64Array:
    """int64[count]: the sum of the numbers of each row, modulo 2**64. ``row`` ascends."""
    total = np.concatenate([[0], np.cumsum(numbers)])
    bounds = np.searchsorted(row, np.arange(count + 1))
    return np.asarray(total[bounds[1:]] - total[bounds[:-1]], np.int64)


def sum_by_code(numbers: Int64Array, code: Int64Array, count: int) -> Int64Array:
    """int64[count]: the sum of the numbers of each code, exact up to 2**53."""
    return np.bincount(code, weights=numbers, minlength=count)[:count].astype(np.int64)


def scramble(codes: Int64Array) -> Int64Array:
    """int64[n]: a pseudo-random number for each code (the finalizer of SplitMix64)."""
    mixed = (codes.astype(np.uint64) + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
    mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return (mixed ^ (mixed >> np.uint64(31))).view(np.int64)
