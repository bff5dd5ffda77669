"""Arrow arrays out of positions in a buffer, without a loop over rows."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from kip848_spark.wire.faults import Bytes, Mask, Rows
from kip848_spark.wire.layout import UUID

_BASE64URL = np.frombuffer(
    b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_", np.uint8
)
ZERO_UUID = bytes(16)
_INT32_END = 0x7FFFFFFF
UTF8_AT_ONCE = 1 << 20
"""Bytes in which what is not UTF-8 is looked for at once: that takes twenty times the memory."""


def slices(
    data: Bytes, start: Rows, length: Rows, null: Mask | None, type_: pa.DataType
) -> pa.Array:
    """string or binary[n]: the bytes ``data[start : start + length]`` of each row.

    The offsets of an Arrow array need not be those of neighbours: start and end of each row in
    turn make an array over ``data`` itself, of which every other element is what is wanted.
    """
    count = len(start)
    if not np.count_nonzero(length):
        return from_buffers(type_, count, null, even_offsets(count, 0), b"")
    wide = len(data) > _INT32_END
    bounds = np.empty(2 * count + 1, np.int64 if wide else np.int32)
    bounds[0:-1:2] = start
    np.add(start, length, out=bounds[1::2], casting="unsafe")
    # Arrow makes room for half of what the whole array spans: let that be what is needed.
    bounds[-1] = min(len(data), int(start[0]) + 2 * int(length.sum()))
    every = pa.Array.from_buffers(
        pa.large_binary() if wide else pa.binary(),
        2 * count,
        [None, pa.py_buffer(bounds), pa.py_buffer(data)],
    )
    taken = every.take(integers(even_offsets(count - 1, 2)))
    _, offsets, octets = (taken.cast(pa.binary()) if wide else taken).buffers()
    return pa.Array.from_buffers(type_, count, [_bitmap(null), offsets, octets])


def from_buffers(
    type_: pa.DataType,
    count: int,
    null: Mask | None,
    offsets: npt.NDArray[np.int32],
    octets: Bytes | bytes,
) -> pa.Array:
    """string or binary[n] of its parts."""
    return pa.Array.from_buffers(
        type_, count, [_bitmap(null), pa.py_buffer(offsets), pa.py_buffer(octets)]
    )


def even_offsets(count: int, step: int) -> npt.NDArray[np.int32]:
    """int32[count + 1]: 0, step, 2 step and so on; not to be written to."""
    kept = _OFFSETS.get(step)
    if kept is None or len(kept) <= count:
        kept = np.arange(count + 1, dtype=np.int32) * np.int32(step)
        if step <= 2:
            _OFFSETS[step] = kept
    return kept[: count + 1]


_OFFSETS: dict[int, npt.NDArray[np.int32]] = {}


def lists(count: Rows, elements: pa.Array, null: Mask | None, type_: pa.ListType) -> pa.ListArray:
    """list[n]: ``count`` of the ``elements`` for each row, one row's after the other's."""
    offsets = np.zeros(len(count) + 1, np.int32)
    count.cumsum(out=offsets[1:])
    mask = None if null is None else pa.array(null)
    return pa.ListArray.from_arrays(integers(offsets), elements, type=type_, mask=mask)


def integers(values: npt.NDArray[np.int32]) -> pa.Array:
    """int32[n], without a copy."""
    return pa.Array.from_buffers(pa.int32(), len(values), [None, pa.py_buffer(values)])


def _bitmap(null: Mask | None) -> pa.Buffer | None:
    if null is None or not np.count_nonzero(null):
        return None
    return pa.py_buffer(np.packbits(~null, bitorder="little"))


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


def part_of(
    every: pa.Array, first: int, count: int, null: Mask | None, type_: pa.DataType
) -> pa.Array:
    """string or binary[count]: a part of a binary array, as an array of its own."""
    _, offsets, octets = every.buffers()
    part = offsets.slice(4 * (every.offset + first), 4 * (count + 1))
    return pa.Array.from_buffers(type_, count, [_bitmap(null), part, octets])


def content(array: pa.Array) -> Bytes:
    """The bytes of a string or binary array, its rows' one after the other."""
    _, offsets, octets = array.buffers()
    if octets is None or not len(array):
        return np.zeros(0, np.uint8)
    bounds = np.frombuffer(offsets, np.int32)[array.offset : array.offset + len(array) + 1]
    return np.frombuffer(octets, np.uint8)[int(bounds[0]) : int(bounds[-1])]


def strided(block: npt.NDArray[np.void], offset: int, dtype: str) -> npt.NDArray[Any]:
    """What stands at ``offset`` in each item of ``block``, as ``dtype``; a view."""
    return np.ndarray((len(block),), dtype, block, offset, (block.itemsize,))


def numbers(values: npt.NDArray[Any], type_: pa.DataType) -> pa.Array:
    """``values`` as an Arrow array of ``type_``; without a copy if they are that already."""
    if pa.types.is_boolean(type_):
        return pa.array(values != 0)
    native = np.ascontiguousarray(values, type_.to_pandas_dtype())
    return pa.Array.from_buffers(type_, len(native), [None, pa.py_buffer(native)])


def uuids(values: npt.NDArray[Any]) -> pa.Array:
    """binary(16)[n] of uint8[n * 16] or void[n]."""
    octets = np.ascontiguousarray(values)
    return pa.Array.from_buffers(UUID, octets.nbytes // 16, [None, pa.py_buffer(octets)])


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


def invalid_utf8(strings: pa.Array) -> Mask | None:
    """bool[n]: the rows of a binary or string array that are not UTF-8; None if all are.

    Pure ASCII, the usual case, costs one look at the bytes, and the whole of them being valid
    one more. Surrogates, overlong forms and code points above U+10FFFF are invalid, as for Java's
    strict decoder.
    """
    octets = content(strings)
    if not len(octets) or octets.max() < 0x80 or _all_utf8(strings):
        return None
    if len(octets) > UTF8_AT_ONCE and len(strings) > 1:
        half = len(strings) // 2
        halves = strings.slice(0, half), strings.slice(half)
        found = [(invalid_utf8(each), len(each)) for each in halves]
        return np.concatenate([np.zeros(n, bool) if bad is None else bad for bad, n in found])
    offsets = np.frombuffer(strings.buffers()[1], np.int32)
    offsets = offsets[strings.offset : strings.offset + len(strings) + 1]
    ends = offsets[1:].astype(np.int64) - int(offsets[0])
    wrong = np.flatnonzero(_malformed(octets, ends))
    if not len(wrong):
        return None
    bad = np.zeros(len(strings), bool)
    bad[np.searchsorted(ends, wrong, side="right")] = True
    return bad


def _all_utf8(strings: pa.Array) -> bool:
    try:
        strings.cast(pa.binary()).cast(pa.string())
    except pa.ArrowInvalid:
        return False
    return True


def _malformed(octets: Bytes, ends: Rows) -> Mask:
    """bool[bytes]: lead bytes without their continuation, continuations without a lead.

    ``ends`` are where the strings in ``octets`` end: none goes on in the next.
    """
    lead = np.flatnonzero(octets >= 0xC0)
    first = octets[lead]
    need = (first >= 0xC2).astype(np.int64) + (first >= 0xE0) + (first >= 0xF0)
    bad = (first < 0xC2) | (first > 0xF4)
    second = octets.take(lead + 1, mode="clip")
    bad |= (first == 0xE0) & (second < 0xA0)
    bad |= (first == 0xED) & (second > 0x9F)
    bad |= (first == 0xF0) & (second < 0x90)
    bad |= (first == 0xF4) & (second > 0x8F)
    bad |= lead + need >= ends[np.searchsorted(ends, lead, side="right")]
    continuation = (octets & 0xC0) == 0x80
    led = np.zeros(len(octets), bool)
    for distance in (1, 2, 3):
        far = np.flatnonzero((need >= distance) & ~bad)
        led[lead[far] + distance] = True
        bad[far[~continuation[lead[far] + distance]]] = True
    wrong: Mask = continuation & ~led
    wrong[lead[bad]] = True
    return wrong
