"""Splits control records into operations: the records that a coordinator writes for one request or
timer.

The records of an operation have adjacent offsets and one timestamp, and an order that
docs/kafka-facts.md#operations lists. Two operations of a group can fall into the same millisecond,
so a run of such records is split by these orders. The order of a run is a short text with one
letter for each record, its *shape*. A log has few distinct shapes, and only these are parsed."""

from __future__ import annotations

import re
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from kip848_spark.insight.array_functions import expand_ranges
from kip848_spark.wire.array_types import BoolArray, Int64Array

CHANGE = 0
"""A heartbeat, a join (also to an empty classic group, or to a group of committed offsets only), a
leave, an expression that was resolved, or the end of a group."""
UPGRADE = 1
"""A classic group with members ends, and a consumer group with these members begins."""
REPLACEMENT = 2
"""A member with an instance id replaces the one that had it before."""
DOWNGRADE = 3
"""A consumer or streams group ends, and a classic group begins."""
INVALID = 4
"""Records in an order that no coordinator writes."""

# One letter for the role of each record: a group (key types 2), b group epoch, c metadata of
# partitions, d member, e target epoch, f target, g current assignment, h expression, s share state,
# t topology. A capital is a tombstone; k is a member that uses the classic protocol. Without a k
# behind it, A ends a classic group that had no members.
_HEARTBEAT = r"(?:[dk]H*)?t?(?:c?b)?C?(?:f*e)?g?s?"
_REPLACED = rf"GFD[dk]fg{_HEARTBEAT}"
_SHAPES = tuple(
    (operation, re.compile(pattern.encode()))
    for operation, pattern in (
        (UPGRADE, rf"A(?=k)(?:k+c?bf*eg+)?{_HEARTBEAT}"),
        (CHANGE, rf"A(?!k){_HEARTBEAT}(?<!A)"),
        (DOWNGRADE, rf"(?:{_REPLACED})?G*F*ED*H*C?S?BT?a"),
        (CHANGE, r"s?G*F*ED*H*C?S?BT?"),
        (REPLACEMENT, _REPLACED),
        (CHANGE, r"(?:GFD)+H*c?b?e?"),
        (CHANGE, r"h+(?:c?b)?C?"),
        (CHANGE, r"[aA]"),
        (CHANGE, _HEARTBEAT),
    )
)


class Operations(NamedTuple):
    """The operations of a log, in the order of their records."""

    of: Int64Array
    """int64[records]: the operation of each record."""
    first: Int64Array
    """int64[operations]: the position of its first record."""
    last: Int64Array
    """int64[operations]: the position of its last record."""
    run: Int64Array
    """int64[operations]: the position of the first record of its run."""
    name: Int64Array
    """int64[operations]: one of the constants of this module."""


def split_operations(letters: bytes, run_start: BoolArray) -> Operations:
    """The operations of records with these letters. ``run_start`` marks the first record of each
    run of adjacent offsets with one timestamp in one group."""
    count = len(letters)
    runs = np.flatnonzero(run_start)
    bounds = np.append(runs, count).astype(np.int32)
    buffers = [None, pa.py_buffer(bounds), pa.py_buffer(letters)]
    encoded = pa.BinaryArray.from_buffers(pa.binary(), len(runs), buffers).dictionary_encode()
    parsed = [_parse(shape) for shape in encoded.dictionary.to_pylist()]
    sizes = np.fromiter(map(len, parsed), np.int64, len(parsed))
    flat = np.array([part for parts in parsed for part in parts], np.int64).reshape(-1, 2)
    shape = encoded.indices.to_numpy(zero_copy_only=False)
    before = np.cumsum(sizes) - sizes
    run, part = expand_ranges(before[shape], before[shape] + sizes[shape])
    first = runs[run] + flat[part, 1]
    starts = np.zeros(count, np.int64)
    starts[first] = 1
    return Operations(
        np.cumsum(starts) - 1, first, np.append(first[1:], count) - 1, runs[run], flat[part, 0]
    )


def _parse(shape: bytes) -> list[tuple[int, int]]:
    """The operations in a run: the name of each, and the index of its first record."""
    found = []
    at = 0
    while at < len(shape):
        for name, pattern in _SHAPES:
            match = pattern.match(shape, at)
            if match is not None and match.end() > at:
                found.append((name, at))
                at = match.end()
                break
        else:
            found.append((INVALID, at))
            break
    return found
