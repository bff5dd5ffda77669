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
from kip848_spark.wire.faults import Bytes, Faults, Mask, Reason, Rows, rows_where
from kip848_spark.wire.plan import Part, Plan, RecordPlan
from kip848_spark.wire.shapes import Shape
from kip848_spark.wire.walk import read_message

ENOUGH = 512
"""Fewer rows of one shape are cheaper to walk over; of long rows (see `enough_of`) even more."""

TRIES = 6
"""So many shapes are tried for rows of one kind and length."""

SCANNED = 1 / 32
"""Groups with that share of all rows are found by looking at all rows, the others by sorting."""

SAMPLED = 8
"""One row in so many is looked at to learn which groups these are."""

WALKED = 8192
"""So many rows are walked over at a time: what the walk remembers stays in the cache."""

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
        self.array = values
        self.data, self.offsets = binary_offsets(values)
        self.count = len(values)
        self.walks: list[Walk] = []

    def read(
        self, places: npt.NDArray[np.intp], key_of: npt.NDArray[np.int32], tombstone: Mask | None
    ) -> list[Part]:
        """The parts of all rows. ``key_of`` says which key a row has, and ``places`` which of the
        plan's records a key is of; a place behind the last one: none."""
        parts: list[Part] = []
        walked: dict[int, list[Rows]] = {}
        for number, length, rows in self._groups(self._codes(places, key_of, tombstone)):
            left = rows
            if length is not None:
                left = self._read_alike(self.records[number], rows, length, parts)
            if len(left):
                walked.setdefault(number, []).append(left)
        for number, pieces in sorted(walked.items()):
            rows = np.sort(np.concatenate(pieces))
            for some in np.array_split(rows, -(-len(rows) // WALKED)):
                parts.extend(self._walk(self.records[number], some))
        return parts

    # -- groups ------------------------------------------------------------------------------

    def _codes(
        self, places: npt.NDArray[np.intp], key_of: npt.NDArray[np.int32], tombstone: Mask | None
    ) -> Codes:
        """uint[n]: place and length of each row as one number; `self.unread` and above: none."""
        type_ = np.min_scalar_type(self.unread + LONGEST + 1)
        codes: Codes = (places << _LENGTH_BITS).astype(type_).take(key_of)
        codes |= np.minimum(np.diff(self.offsets), LONGEST + 1).astype(type_)
        if tombstone is not None:
            np.putmask(codes, tombstone, self.unread)
        return codes

    @property
    def unread(self) -> int:
        """The code of rows that have no value to be read."""
        return len(self.records) << _LENGTH_BITS

    def _groups(self, codes: Codes) -> Iterator[Group]:
        loose = codes < self.unread
        seen, counts = np.unique(codes[::SAMPLED], return_counts=True)
        large = counts * SAMPLED >= max(SCANNED * self.count, ENOUGH)
        for code, sampled in zip(seen[large].tolist(), counts[large].tolist(), strict=True):
            number, length = divmod(code, LONGEST + 2)
            if code < self.unread and length <= LONGEST and sampled * SAMPLED >= enough_of(length):
                this = codes == code
                loose &= ~this
                yield number, length, rows_where(this)
        yield from self._sorted(rows_where(loose), codes)

    def _sorted(self, rows: Rows, codes: Codes) -> Iterator[Group]:
        """What is left of the groups: the larger ones, and the rest by record."""
        of_row = codes[rows]
        order = np.argsort(of_row, kind="stable")
        rows, of_row = rows[order], of_row[order]
        begins = rows_where(np.append(True, of_row[1:] != of_row[:-1])) if len(rows) else rows
        ends = np.append(begins[1:], len(rows))
        small: dict[int, list[Rows]] = {}
        for first, last in zip(begins.tolist(), ends.tolist(), strict=False):
            number, length = divmod(int(of_row[first]), LONGEST + 2)
            if last - first >= enough_of(length) and length <= LONGEST:
                yield number, length, rows[first:last]
            else:
                small.setdefault(number, []).append(rows[first:last])
        for number, pieces in small.items():
            yield number, None, np.concatenate(pieces)

    # -- reads -------------------------------------------------------------------------------

    def _read_alike(self, record: RecordPlan, rows: Rows, length: int, parts: list[Part]) -> Rows:
        """Reads the rows that have the shape of the first, and so on; gives those left over."""
        over: list[Rows] = []
        enough = enough_of(length)
        for _ in range(TRIES):
            start = self.offsets.take(rows)
            first = int(start[0])
            shape = Shape.of(record.values, self.data[first : first + length].tobytes())
            if shape is None:
                over.append(rows[:1])
                rows = rows[1:]
            else:
                alike = shape.read(self.data, start, enough)
                these = rows if not len(alike.others) else rows[alike.rows]
                if alike.fields is None:
                    over.append(these)
                else:
                    parts.append(Part(record, shape.version, these, shape.struct, alike.fields))
                rows = rows[alike.others]
            if len(rows) < enough:
                break
        return np.concatenate([*over, rows])

    def _walk(self, record: RecordPlan, rows: Rows) -> Iterator[Part]:
        """The values of one key type, a part a version. They stand far apart and are looked at
        many times: that is cheaper when they are side by side."""
        near = self.array
        if len(rows) < self.count:
            near = near.take(pa.array(rows))
        data, start, end = binary_bounds(near)
        faults = Faults(len(rows))
        cursor = Cursor(data, start, end, np.arange(len(rows)), faults)
        cursor.fail(start == end, Reason.EMPTY_VALUE)
        version = cursor.number(">i2")
        good = cursor.alive()
        parts: list[tuple[Cursor, int, list[pa.Array]]] = []
        for value in np.unique(version[good]).tolist():
            which = rows_where(good & (version == value))
            struct = record.values.get(value)
            if struct is None:
                faults.record(which, Reason.UNKNOWN_VALUE_VERSION, start[which])
                continue
            body = cursor if len(which) == cursor.count else cursor.select(which)
            parts.append((body, value, read_message(body, struct)))
        failed = faults.reason != 0
        if np.count_nonzero(failed) or faults.tags.any():
            faults.at -= np.where(failed, start, 0)
            faults.tags[failed] = 0
            self.walks.append(Walk(rows, np.where(good, version, -1), faults))
        for body, value, fields in parts:
            part = Part(record, value, rows[body.rows], record.values[value], fields)
            yield part.without(failed[body.rows]) if np.count_nonzero(failed) else part


def enough_of(length: int) -> int:
    """So many rows of that length it takes to look for their shape: the longer they are, the more
    there is to work out first."""
    return ENOUGH * max(1, length // 32)
