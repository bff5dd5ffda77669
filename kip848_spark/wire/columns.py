"""Vectorized operations on Arrow arrays."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kip848_spark.wire.array_types import BoolArray, Int64Array

_BASE64URL = np.frombuffer(
    b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_", np.uint8
)
ZERO_UUID = bytes(16)


def null_mask(array: pa.Array) -> BoolArray:
    """bool[n]: where ``array``, which must have nulls, is null."""
    bitmap = np.frombuffer(array.buffers()[0], np.uint8)
    first, beyond = array.offset, array.offset + len(array)
    valid = np.unpackbits(bitmap[first // 8 : -(-beyond // 8)], bitorder="little")
    null: BoolArray = valid[first % 8 : first % 8 + len(array)] == 0
    return null


def null_array(count: int, type_: pa.DataType) -> pa.Array:
    """``type_``[count], all null."""
    return shared_constant(None, count, type_)


def shared_constant(value: Any, count: int, type_: pa.DataType) -> pa.Array:
    """``type_``[count]: the same value everywhere. All arrays of a type and value share memory."""
    longest = _CONSTANTS.get((type_, repr(value)))
    if longest is None or len(longest) < count:
        longest = pa.nulls(count, type_) if value is None else constant(value, count, type_)
        _CONSTANTS[type_, repr(value)] = longest
    return longest.slice(0, count)


_CONSTANTS: dict[tuple[pa.DataType, str], pa.Array] = {}


def list_offsets(sizes: Int64Array) -> pa.Array:
    """int32[lists + 1]: the offsets of lists of these sizes."""
    return pa.array(np.concatenate([[0], np.cumsum(sizes)]).astype(np.int32))


def uuid_text(ids: pa.Array) -> pa.Array:
    """string[n] of binary(16)[n]: ids as Kafka prints them, in URL-safe base64 without padding.

    Only the distinct ids are converted, of which a batch has few."""
    encoded = pc.dictionary_encode(ids)
    raw = encoded.dictionary
    count = len(raw)
    octets = np.zeros((count, 18), np.uint8)
    plain = np.frombuffer(raw.buffers()[1], np.uint8)[raw.offset * 16 :]
    octets[:, :16] = plain[: count * 16].reshape(count, 16)
    triples = octets.reshape(count, 6, 3).astype(np.uint32)
    word = (triples[:, :, 0] << 16) | (triples[:, :, 1] << 8) | triples[:, :, 2]
    sextets = np.stack([(word >> shift) & 63 for shift in (18, 12, 6, 0)], axis=2)
    text = np.ascontiguousarray(_BASE64URL[sextets].reshape(count, 24)[:, :22])
    offsets = np.arange(0, 22 * (count + 1), 22, dtype=np.int32)
    texts = pa.Array.from_buffers(
        pa.string(), count, [None, pa.py_buffer(offsets), pa.py_buffer(text)]
    )
    return texts.take(encoded.indices)


def scatter(
    parts: Sequence[tuple[Int64Array, pa.Array]],
    count: int,
    type_: pa.DataType,
    default: Any = None,
) -> pa.Array:
    """``type_``[count]: the values of each array of ``parts`` at the rows that stand beside it, and
    ``default`` in all other rows. No row may occur twice."""
    parts = [(rows, array) for rows, array in parts if len(rows)]
    if not parts:
        return shared_constant(default, count, type_)
    if len(parts) == 1 and _is_all(parts[0][0], count):
        return parts[0][1]
    source = np.full(count, -1, np.int64)
    at = 0
    for rows, array in parts:
        source[rows] = np.arange(at, at + len(array))
        at += len(array)
    arrays = [array for _, array in parts]
    absent = source < 0
    mask: BoolArray | None = None
    if absent.any():
        if default is None:
            mask = absent
        else:
            arrays.append(constant(default, 1, type_))
            source[absent] = at
    concatenated = pa.concat_arrays(arrays) if len(arrays) > 1 else arrays[0]
    return concatenated.take(pa.array(source, mask=mask))


def _is_all(rows: Int64Array, count: int) -> bool:
    """Whether ``rows``, in which no row occurs twice, are 0, 1, …, ``count`` - 1 in this order."""
    if len(rows) != count or int(rows[0]) != 0 or int(rows[-1]) != count - 1:
        return False
    return bool((rows[1:] > rows[:-1]).all())


def constant(value: Any, count: int, type_: pa.DataType) -> pa.Array:
    """``type_``[count]: the same value everywhere."""
    return pa.array([value], type_).take(pa.array(np.zeros(count, np.int64)))
