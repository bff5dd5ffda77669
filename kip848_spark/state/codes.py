"""Integer codes for distinct values, and lookups by code."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kip848_spark.wire.array_types import BoolArray, Int64Array

_MAX_CODE = 1 << 62


def factorize(column: pa.ChunkedArray | pa.Array) -> Int64Array:
    """int64[n]: the number of each distinct value, null included, from 0 on."""
    if isinstance(column, pa.ChunkedArray):
        column = column.combine_chunks()
    encoded = pc.dictionary_encode(column, null_encoding="encode")
    return np.asarray(encoded.indices.to_numpy(zero_copy_only=False), np.int64)


def factorize_pairs(left: Int64Array, right: Int64Array) -> Int64Array:
    """int64[n]: the number of each distinct pair, from 0 on."""
    if not len(left):
        return left
    pairs = left * (int(right.max()) + 1) + right
    return factorize(pa.array(pairs))


def combine(*codes: Int64Array) -> Int64Array:
    """int64[n]: one code for each distinct tuple of ``codes`` (each from 0 on). Codes ascend as the
    tuples do, unless their range is too large for 62 bits."""
    combined, limit = codes[0], count_codes(codes[0])
    for code in codes[1:]:
        size = count_codes(code)
        if limit * size >= _MAX_CODE:
            combined = factorize(pa.array(combined))
            limit = count_codes(combined)
        combined, limit = combined * size + code, limit * size
    return combined


def count_codes(code: Int64Array) -> int:
    """The number of codes, which start at 0."""
    return int(code.max()) + 1 if len(code) else 1


def last_rows(code: Int64Array, rows: Int64Array) -> Int64Array:
    """int64[codes]: for each code, the last of ``rows`` (ascending) with that code; -1 if there is
    none."""
    last = np.full(int(code.max()) + 1 if len(code) else 0, -1, np.int64)
    last[code[rows]] = rows  # for equal indices, NumPy keeps the last assignment
    return last


def next_rows(code: Int64Array, events: Int64Array, count: int) -> Int64Array:
    """int64[n]: for each row, the first of the rows ``events`` (ascending) behind it that has the
    same code; ``count`` (the number of rows) if there is none."""
    if not len(events):
        return np.full(count, count, np.int64)
    sorted_events = events[np.argsort(code[events], kind="stable")]
    keys = code[sorted_events] * count + sorted_events
    at = np.searchsorted(keys, code * count + np.arange(count), side="right")
    inside = np.minimum(at, len(keys) - 1)
    found = (at < len(keys)) & (code[sorted_events[inside]] == code)
    return np.where(found, sorted_events[inside], count)


def next_same(code: Int64Array) -> Int64Array:
    """int64[n]: for each row, the next row with the same code; n if there is none."""
    count = len(code)
    order = np.argsort(code, kind="stable")
    following = np.full(count, count, np.int64)
    same = code[order[1:]] == code[order[:-1]]
    following[order[:-1][same]] = order[1:][same]
    return following


def starts_of_runs(*codes: Int64Array) -> BoolArray:
    """bool[n]: the rows where one of ``codes`` differs from the row before."""
    starts = np.ones(len(codes[0]), bool)
    if len(starts):
        starts[1:] = False
        for code in codes:
            starts[1:] |= code[1:] != code[:-1]
    return starts
