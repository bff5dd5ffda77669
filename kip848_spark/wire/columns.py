"""Arrow arrays out of positions in a buffer, without a loop over rows."""

from __future__ import annotations

import base64
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from kip848_spark.wire.cursor import Bytes
from kip848_spark.wire.faults import Mask, Rows

_BASE64URL = np.frombuffer(
    b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_", np.uint8
)
ZERO_UUID = bytes(16)


def slices(
    data: Bytes, start: Rows, length: Rows, null: Mask | None, type_: pa.DataType
) -> pa.Array:
    """string or binary[n]: the bytes ``data[start : start + length]`` of each row.

    The offsets of an Arrow array need not be those of neighbours: start and end of each row in
    turn make an array over ``data`` itself, of which every other element is what is wanted.
    """
    count = len(start)
    if not count or not length.any():
        offsets = pa.py_buffer(np.zeros(count + 1, np.int32))
        return pa.Array.from_buffers(type_, count, [_bitmap(null), offsets, pa.py_buffer(b"")])
    bounds = np.empty(2 * count + 1, np.int32)
    bounds[0:-1:2] = start
    np.add(start, length, out=bounds[1::2], casting="unsafe")
    bounds[-1] = bounds[-2]
    both = pa.Array.from_buffers(
        pa.binary(), 2 * count, [None, pa.py_buffer(bounds), pa.py_buffer(data)]
    )
    taken = both.take(pa.array(np.arange(0, 2 * count, 2, dtype=np.int32)))
    _, offsets, content = taken.buffers()
    return pa.Array.from_buffers(type_, count, [_bitmap(null), offsets, content])


def _bitmap(null: Mask | None) -> pa.Buffer | None:
    if null is None or not null.any():
        return None
    return pa.py_buffer(np.packbits(~null, bitorder="little"))


def numbers(values: npt.NDArray[np.generic], type_: pa.DataType) -> pa.Array:
    """``values`` as an Arrow array of ``type_``, without a copy where the widths agree."""
    return pa.array(values.astype(type_.to_pandas_dtype(), copy=False), type_)


def uuids(values: Bytes) -> pa.Array:
    """binary(16)[n] of uint8[n, 16]."""
    return pa.Array.from_buffers(pa.binary(16), len(values), [None, pa.py_buffer(values)])


def uuid_text(ids: pa.Array) -> pa.Array:
    """string[n]: Kafka's form of binary(16) ids (URL-safe base64, no padding).

    Few are distinct, and only those are spelled out.
    """
    encoded = pc.dictionary_encode(ids)
    raw = encoded.dictionary
    count = len(raw)
    octets = np.zeros((count, 18), np.uint8)
    content = np.frombuffer(raw.buffers()[1], np.uint8)[raw.offset * 16 :]
    octets[:, :16] = content[: count * 16].reshape(count, 16)
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


def gather(parts: Sequence[tuple[Rows, pa.Array]], count: int, type_: pa.DataType) -> pa.Array:
    """``type_``[count]: the arrays of ``parts`` put at their rows, null elsewhere.

    No row comes twice.
    """
    parts = [(rows, array) for rows, array in parts if len(rows)]
    if not parts:
        return pa.nulls(count, type_)
    if len(parts) == 1 and len(parts[0][0]) == count:
        rows, array = parts[0]
        if int(rows[0]) == 0 and int(rows[-1]) == count - 1 and (np.diff(rows) == 1).all():
            return array
    source = np.full(count, -1, np.int64)
    at = 0
    for rows, array in parts:
        source[rows] = np.arange(at, at + len(array))
        at += len(array)
    together = pa.concat_arrays([array for _, array in parts]) if len(parts) > 1 else parts[0][1]
    absent = source < 0
    return together.take(pa.array(source, mask=absent if absent.any() else None))


def invalid_utf8(strings: pa.Array) -> Mask | None:
    """bool[n]: the rows of a binary or string array that are not UTF-8; None if all are.

    Pure ASCII, the usual case, costs one look at the bytes. Surrogates, overlong forms and
    code points above U+10FFFF are invalid, as for Java's strict decoder.
    """
    offsets = np.frombuffer(strings.buffers()[1], np.int32)
    offsets = offsets[strings.offset : strings.offset + len(strings) + 1]
    content = strings.buffers()[2]
    if content is None or not len(strings):
        return None
    octets = np.frombuffer(content, np.uint8)[int(offsets[0]) : int(offsets[-1])]
    if not len(octets) or octets.max() < 0x80:
        return None
    wrong = _malformed(octets, offsets.astype(np.int64) - int(offsets[0]))
    if not wrong.any():
        return None
    bad = np.zeros(len(strings), bool)
    bad[np.searchsorted(offsets - offsets[0], np.flatnonzero(wrong), side="right") - 1] = True
    return bad


def _malformed(octets: Bytes, offsets: Rows) -> Mask:
    """bool[bytes]: lead bytes without their continuation, continuations without a lead."""
    size = len(octets)
    need = np.zeros(size, np.int8)
    need[(octets >= 0xC2) & (octets <= 0xDF)] = 1
    need[(octets >= 0xE0) & (octets <= 0xEF)] = 2
    need[(octets >= 0xF0) & (octets <= 0xF4)] = 3
    continuation = (octets & 0xC0) == 0x80
    expected = np.zeros(size, bool)
    for distance in (1, 2, 3):
        expected[distance:] |= need[:-distance] >= distance
    wrong = continuation != expected
    wrong |= (octets == 0xC0) | (octets == 0xC1) | (octets > 0xF4)
    following = np.append(octets[1:], np.uint8(0))
    wrong |= (octets == 0xE0) & (following < 0xA0)
    wrong |= (octets == 0xED) & (following > 0x9F)
    wrong |= (octets == 0xF0) & (following < 0x90)
    wrong |= (octets == 0xF4) & (following > 0x8F)
    leads = np.flatnonzero(need)
    row_end = offsets[np.searchsorted(offsets, leads, side="right")]
    wrong[leads[leads + need[leads] >= row_end]] = True
    return np.asarray(wrong)
