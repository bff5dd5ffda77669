"""Arrow arrays put together from others, without a loop over rows."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kip848_spark.wire.faults import Mask, Rows

_BASE64URL = np.frombuffer(
    b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_", np.uint8
)
ZERO_UUID = bytes(16)


def nulls_of(array: pa.Array) -> Mask:
    """bool[n]: where ``array``, which has nulls, is null."""
    bitmap = np.frombuffer(array.buffers()[0], np.uint8)
    first, beyond = array.offset, array.offset + len(array)
    valid = np.unpackbits(bitmap[first // 8 : -(-beyond // 8)], bitorder="little")
    null: Mask = valid[first % 8 : first % 8 + len(array)] == 0
    return null


def nulls(count: int, type_: pa.DataType) -> pa.Array:
    """``type_``[count], nothing but null."""
    return shared(None, count, type_)


def shared(value: Any, count: int, type_: pa.DataType) -> pa.Array:
    """``type_``[count]: the same plain value everywhere. Such arrays share their memory."""
    kept = _SHARED.get((type_, repr(value)))
    if kept is None or len(kept) < count:
        kept = pa.nulls(count, type_) if value is None else constant(value, count, type_)
        _SHARED[type_, repr(value)] = kept
    return kept.slice(0, count)


_SHARED: dict[tuple[pa.DataType, str], pa.Array] = {}


def uuid_text(ids: pa.Array) -> pa.Array:
    """string[n]: Kafka's form of binary(16) ids (URL-safe base64, no padding).

    Few are distinct, and only those are spelled out.
    """
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
    spelled = pa.Array.from_buffers(
        pa.string(), count, [None, pa.py_buffer(offsets), pa.py_buffer(text)]
    )
    return spelled.take(encoded.indices)


def uuid_bytes(text: str) -> bytes:
    """The sixteen bytes of an id in Kafka's form. Raises ValueError if it is none."""
    raw = base64.urlsafe_b64decode(text + "==")
    if len(raw) != 16:
        raise ValueError(f"{text!r} is not the base64 form of 16 bytes")
    return raw


def gather(
    parts: Sequence[tuple[Rows, pa.Array]], count: int, type_: pa.DataType, default: Any = None
) -> pa.Array:
    """``type_``[count]: the arrays of ``parts`` put at their rows, ``default`` elsewhere.

    No row comes twice.
    """
    parts = [(rows, array) for rows, array in parts if len(rows)]
    if not parts:
        return shared(default, count, type_)
    if len(parts) == 1 and _is_all(parts[0][0], count):
        return parts[0][1]
    source = np.full(count, -1, np.int64)
    at = 0
    for rows, array in parts:
        source[rows] = np.arange(at, at + len(array))
        at += len(array)
    pieces = [array for _, array in parts]
    absent = source < 0
    mask: Mask | None = None
    if absent.any():
        if default is None:
            mask = absent
        else:
            pieces.append(constant(default, 1, type_))
            source[absent] = at
    together = pa.concat_arrays(pieces) if len(pieces) > 1 else pieces[0]
    return together.take(pa.array(source, mask=mask))


def _is_all(rows: Rows, count: int) -> bool:
    """True if ``rows``, of which none comes twice, are 0, 1, …, ``count`` - 1."""
    if len(rows) != count or int(rows[0]) != 0 or int(rows[-1]) != count - 1:
        return False
    return bool((rows[1:] > rows[:-1]).all())


def constant(value: Any, count: int, type_: pa.DataType) -> pa.Array:
    """``type_``[count]: ``count`` times the same plain value."""
    return pa.array([value], type_).take(pa.array(np.zeros(count, np.int64)))
