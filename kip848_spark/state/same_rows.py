"""Compares each row of a table with the row before."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kip848_spark.state.control_state import integers
from kip848_spark.wire.array_types import BoolArray


def same_as_before(table: pa.Table) -> BoolArray:
    """bool[n]: whether all columns are equal to those of the row before; null equals null. Columns
    are lists or have no children. False in the first row."""
    same = np.ones(table.num_rows, bool)
    for column in table.columns:
        array = column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()
        same[1:] &= _equals_next(array)
    same[:1] = False
    return same


def _equals_next(array: pa.Array) -> BoolArray:
    """bool[n - 1]: whether each value is equal to the next one."""
    if len(array) < 2:
        return np.ones(max(0, len(array) - 1), bool)
    missing = array.is_null().to_numpy(zero_copy_only=False)
    if pa.types.is_list(array.type):
        equal = _equal_lists(array)
    else:
        values = pc.equal(array.slice(1), array.slice(0, len(array) - 1))
        equal = values.fill_null(False).to_numpy(zero_copy_only=False)
    both = missing[1:] & missing[:-1]
    return np.asarray(np.where(missing[1:] | missing[:-1], both, equal))


def _equal_lists(lists: pa.Array) -> BoolArray:
    """bool[n - 1]: whether each list has the same elements as the next one."""
    sizes = integers(pc.list_value_length(lists), 0)
    values = pc.list_flatten(lists)
    start = np.cumsum(sizes) - sizes
    compared = np.flatnonzero(sizes[1:] == sizes[:-1])
    length = sizes[compared]
    first = np.cumsum(length) - length
    position = np.arange(int(length.sum())) - np.repeat(first, length)
    left = values.take(pa.array(np.repeat(start[compared], length) + position))
    right = values.take(pa.array(np.repeat(start[compared + 1], length) + position))
    differs = pc.not_equal(left, right).fill_null(True).to_numpy(zero_copy_only=False)
    different = np.bincount(np.repeat(compared, length)[differs], minlength=len(sizes) - 1)
    equal = np.zeros(len(sizes) - 1, bool)
    equal[compared] = different[compared] == 0
    return equal
