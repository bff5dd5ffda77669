"""The values of one batch: rows that look alike as shapes, all others with a walk.

Rows are sorted into groups of one key type and one length. Where such a group is large, its first
row shows what shape the others should have (see `shapes`); rows that have another one, that are
wrong, or of which there are too few, are walked over together, a key type and version at a time.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from kip848_spark.wire.cursor import Cursor
from kip848_spark.wire.faults import Bytes, Faults, Reason, Rows
from kip848_spark.wire.plan import Part, Plan, RecordPlan
from kip848_spark.wire.shapes import OddShapeError, Shape, block_of
from kip848_spark.wire.walk import read_message

ENOUGH = 256
"""Fewer rows of one shape are cheaper to walk over."""

TRIES = 6
"""So many shapes are tried for rows of one kind and length."""

SCANNED = 1 / 32
"""Groups with that share of all rows are found by looking at all rows, the others by sorting."""

_LENGTH_BITS = 11
LONGEST = (1 << _LENGTH_BITS) - 2
"""Rows that are longer are not looked at for their shape."""

Offsets = npt.NDArray[np.signedinteger]
Codes = npt.NDArray[np.unsignedinteger]
Group = tuple[int, int | None, Rows]
"""The place of a record in the plan, the length of its rows if they share one, and the rows."""


def binary_offsets(array: pa.Array) -> tuple[Bytes, Offsets]:
    """The bytes of a binary array, and where in them each row begins and the last one ends."""
    width: type[np.signedinteger] = np.int32
    if pa.types.is_large_binary(array.type):
        width = np.int64
    _, offsets, content = array.buffers()
    data = np.frombuffer(content, np.uint8) if content is not None else np.zeros(0, np.uint8)
    if not len(array):
        return data, np.zeros(1, width)
    return data, np.frombuffer(offsets, width)[array.offset : array.offset + len(array) + 1]


def binary_bounds(array: pa.Array) -> tuple[Bytes, Rows, Rows]:
    """The bytes of a binary array and where each row's begin and end in them."""
    data, offsets = binary_offsets(array)
    wide = offsets.astype(np.int64)
    return data, wide[:-1], wide[1:]


@dataclass(frozen=True)
class Walk:
    """Rows that were walked over: the version of each (-1 where it is cut off), and their faults,
    at bytes of the row."""

    rows: Rows
    versions: npt.NDArray[np.int64]
    faults: Faults


class Values:
    """The values of a batch while they are read; ``walks`` fill up with what was met on the way."""

    def __init__(self, plan: Plan, values: pa.Array) -> None:
        self.records = list(plan.records.values())
        self.data, self.offsets = binary_offsets(values)
        self.count = len(values)
        self.walks: list[Walk] = []

    @property
    def not_read(self) -> int:
        """The place, for `read`, of a row that has no value to be read."""
        return len(self.records)

    def read(self, place: npt.NDArray[np.unsignedinteger]) -> list[Part]:
        """The parts of all rows. ``place`` says which of the plan's records a row is."""
        parts: list[Part] = []
        walked: dict[int, list[Rows]] = {}
        groups = self._groups(place) if self.count >= ENOUGH else self._by_record(place)
        for number, length, rows in groups:
            left = rows
            if length is not None:
                left = self._read_alike(self.records[number], rows, length, parts)
            if len(left):
                walked.setdefault(number, []).append(left)
        for number, pieces in sorted(walked.items()):
            rows = pieces[0] if len(pieces) == 1 else np.sort(np.concatenate(pieces))
            parts.extend(self._walk(self.records[number], rows))
        return parts

    # -- groups ------------------------------------------------------------------------------

    def _by_record(self, place: npt.NDArray[np.unsignedinteger]) -> Iterator[Group]:
        for number in np.unique(place).tolist():
            if number != self.not_read:
                yield number, None, np.flatnonzero(place == number)

    def _groups(self, place: npt.NDArray[np.unsignedinteger]) -> Iterator[Group]:
        wide = len(self.records) >= 1 << (16 - _LENGTH_BITS)
        codes: Codes = place.astype(np.uint32 if wide else np.uint16)
        codes <<= _LENGTH_BITS
        codes |= np.minimum(np.diff(self.offsets), LONGEST + 1).astype(codes.dtype)
        counts = np.bincount(codes)
        counts[self.not_read << _LENGTH_BITS :] = 0
        large = np.flatnonzero(counts >= ENOUGH)
        length = large & (LONGEST + 1)
        large = large[(length > 2) & (length <= LONGEST)]
        large = large[np.argsort(-counts[large], kind="stable")]
        loose = codes < self.not_read << _LENGTH_BITS
        scanned = int((counts[large] >= SCANNED * self.count).sum())
        for code in large[:scanned].tolist():
            rows = np.flatnonzero(codes == code)
            loose[rows] = False
            yield code >> _LENGTH_BITS, code & (LONGEST + 1), rows
        yield from self._sorted(np.flatnonzero(loose), codes, large[scanned:])

    def _sorted(self, rows: Rows, codes: Codes, large: Rows) -> Iterator[Group]:
        """What is left of the groups: those in ``large``, and the rest by record."""
        of_row = codes[rows]
        if len(large):
            order = np.argsort(of_row, kind="stable")
            in_order = of_row[order]
            begin = np.searchsorted(in_order, large.astype(codes.dtype), side="left")
            end = np.searchsorted(in_order, large.astype(codes.dtype), side="right")
            small = np.ones(len(rows), bool)
            for code, first, last in zip(large.tolist(), begin, end, strict=True):
                yield code >> _LENGTH_BITS, code & (LONGEST + 1), rows[order[first:last]]
                small[order[first:last]] = False
            rows, of_row = rows[small], of_row[small]
        number_of = of_row >> _LENGTH_BITS
        for number in np.unique(number_of).tolist():
            yield number, None, rows[number_of == number]

    # -- reads -------------------------------------------------------------------------------

    def _read_alike(self, record: RecordPlan, rows: Rows, length: int, parts: list[Part]) -> Rows:
        """Reads the rows that have the shape of the first, and so on; gives those left over."""
        over: list[Rows] = []
        block = block_of(self.data, self.offsets[rows], length)
        for _ in range(TRIES):
            shape = Shape.of(record.values, block[0].tobytes())
            if shape is None:
                over.append(rows[:1])
                rows, block = rows[1:], block[1:]
            else:
                fits = shape.matches(block)
                alike, same = (rows, block) if fits is None else (rows[fits], block[fits])
                if not self._read_shape(record, shape, alike, same, parts):
                    over.append(alike)
                if fits is None:
                    rows = rows[:0]
                else:
                    rows, block = rows[~fits], block[~fits]
            if len(rows) < ENOUGH:
                break
        if not over:
            return rows
        return np.sort(np.concatenate([*over, rows]))

    def _read_shape(
        self,
        record: RecordPlan,
        shape: Shape,
        rows: Rows,
        block: npt.NDArray[np.void],
        parts: list[Part],
    ) -> bool:
        """Reads rows of one shape; False if they have to be walked over."""
        if len(rows) < ENOUGH:
            return False
        try:
            fields = shape.read(block)
        except OddShapeError:
            return False
        parts.append(Part(record, shape.version, rows, shape.struct, fields))
        return True

    def _walk(self, record: RecordPlan, rows: Rows) -> Iterator[Part]:
        """The values of one key type, a part a version."""
        start, end = self.offsets[rows].astype(np.int64), self.offsets[rows + 1].astype(np.int64)
        faults = Faults(len(rows))
        cursor = Cursor(self.data, start, end, np.arange(len(rows)), faults)
        cursor.fail(start == end, Reason.EMPTY_VALUE)
        version = cursor.number(">i2")
        good = cursor.alive()
        parts: list[tuple[Cursor, int, list[pa.Array]]] = []
        for value in np.unique(version[good]).tolist():
            which = np.flatnonzero(good & (version == value))
            struct = record.values.get(value)
            if struct is None:
                faults.record(which, Reason.UNKNOWN_VALUE_VERSION, start[which])
                continue
            body = cursor if len(which) == cursor.count else cursor.select(which)
            parts.append((body, value, read_message(body, struct)))
        failed = faults.reason != 0
        if failed.any() or faults.tags.any():
            faults.at -= np.where(failed, start, 0)
            faults.tags[failed] = 0
            self.walks.append(Walk(rows, np.where(good, version, -1), faults))
        for body, value, fields in parts:
            part = Part(record, value, rows[body.rows], record.values[value], fields)
            yield part.without(failed[body.rows]) if failed.any() else part
