"""Many rows read at once: a cursor holds one position a row in the buffer that they share.

A read looks at the same field of all rows with a few NumPy operations, so its cost a row is a few
nanoseconds. Fields of fixed width that follow each other are gathered once, as a block.

A row in which something is wrong is recorded in `Faults` and *parked*: from then on it reads
bytes that belong to nobody (the buffer's first ones) and never counts in a check. No read goes
beyond a row's own end, whatever its bytes claim.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import numpy.typing as npt

from kip848_spark.wire.faults import Bytes, Faults, Mask, Reason, Rows, rows_where
from kip848_spark.wire.layout import ANY_LENGTH, VARINT, Run

_FAR = np.int64(1) << 62

Block = npt.NDArray[np.void]
"""void[n]: some bytes of each row."""


class Cursor:
    """Positions ``at`` of ``count`` rows in ``data``.

    ``rows`` are the indices of these rows in ``faults``; a cursor over the elements of arrays has
    a row for each element.
    """

    __slots__ = ("at", "count", "data", "end", "faults", "parked", "rows")

    def __init__(self, data: Bytes, at: Rows, end: Rows, rows: Rows, faults: Faults) -> None:
        self.data = data
        self.at = at
        self.end = end
        self.rows = rows
        self.count = len(rows)
        self.faults = faults
        self.parked: Mask | None = None

    # -- faults ------------------------------------------------------------------------------

    def fail(
        self, bad: Mask, reason: Reason, at: Rows | None = None, when: Rows | None = None
    ) -> None:
        """Records ``reason`` for the rows in ``bad`` (at ``at``, else where they are) and parks
        them. Rows that are parked already are left alone."""
        if self.parked is not None:
            bad = bad & ~self.parked
        which = rows_where(bad)
        if not len(which):
            return
        place = self.at if at is None else at
        at_when = None if when is None else when[which]
        self.faults.record(self.rows[which], reason, place[which], at_when)
        self._park(bad, which)

    def _park(self, bad: Mask, which: Rows) -> None:
        self.parked = bad if self.parked is None else self.parked | bad
        self.at, self.end = self.at.copy(), self.end.copy()
        self.at[which] = 0
        self.end[which] = _FAR

    def clear(self, values: Rows) -> Rows:
        """``values`` with 0 for parked rows."""
        return values if self.parked is None else np.where(self.parked, 0, values)

    def alive(self) -> Mask:
        """bool[count]: the rows that are not parked."""
        return np.ones(self.count, bool) if self.parked is None else ~self.parked

    # -- reads -------------------------------------------------------------------------------

    def run(self, run: Run) -> Block:
        """The bytes of fields of fixed width. Rows that end in one of them fail there."""
        start = self.at
        if self.count and (self.end - start).min() < run.width:
            for offset, behind in pairwise(run.offsets):
                self.fail(self.end - self.at < behind, Reason.TRUNCATED, start + offset)
        block = windows(self.data, run.width, self.at)
        self.at = self.at + run.width
        return block

    def number(self, dtype: str) -> Rows:
        """The big-endian integer ``dtype`` of each row."""
        width = int(dtype[2:])
        self._require(width)
        value = integers(self.data, dtype, self.at)
        self.at = self.at + width
        return value

    def varint(self) -> Rows:
        """The unsigned varint of each row; more than 32 bits is `BAD_VARINT`."""
        self._require(1)
        first = octets(self.data, self.at)
        if not self.count or first.max() < 0x80:
            self.at = self.at + 1
            return first.astype(np.int64)
        value, size, overlong = long_varints(self.data, self.at, first)
        # The bytes may belong to the next row: then it is longer than what is left.
        self.fail(size > self.end - self.at, Reason.TRUNCATED)
        self.fail(overlong, Reason.BAD_VARINT)
        self.at = self.at + self.clear(size)
        return self.clear(value)

    def length(
        self, prefix: str, nullable: bool, longest: int = ANY_LENGTH
    ) -> tuple[Rows, Mask | None]:
        """The length of a string or bytes, or the count of an array, and which rows are null.

        ``prefix`` is what it is written in: `VARINT` (length + 1, 0 for null) or a number type
        (-1 for null). What is less, more than ``longest`` or than the bytes that are left is
        `BAD_LENGTH`. Null and parked rows have 0.
        """
        if not self.count:
            return np.zeros(0, np.int64), None
        start = self.at
        value = self._prefix(prefix)
        if self.parked is not None:
            value[self.parked] = 0
        left = self.end - self.at  # below zero where the length itself is cut off
        # An int16 can't say more than the longest string has.
        long = longest < ANY_LENGTH and prefix == VARINT and value.max() > longest
        if value.min() >= 0 and not long and (left - value).min() >= 0:
            return value, None
        self.fail(left < 0, Reason.TRUNCATED, start)
        null: Mask | None = value == -1
        if not nullable:
            self.fail(value == -1, Reason.NULL_NOT_ALLOWED, start)
            null = None
        self.fail((value > left) | (value < -1) | (value > longest), Reason.BAD_LENGTH, start)
        if null is not None and not np.count_nonzero(null):
            null = None
        return self.clear(np.maximum(value, 0)), null

    def _prefix(self, form: str) -> Rows:
        """A length, -1 for null. It may reach beyond the row's end: whoever asks looks at that."""
        if form == VARINT:
            first = octets(self.data, self.at)
            if first.max() >= 0x80:
                return self.varint() - 1
            self.at = self.at + 1
            return np.subtract(first, 1, dtype=np.int64)
        value = integers(self.data, form, self.at)
        self.at = self.at + int(form[2:])
        return value

    def skip(self, size: Rows) -> None:
        """Moves each row by its own ``size`` bytes, which were found to be there."""
        self.at = self.at + size

    def follow(self, rows: Rows, to: Rows, failed: Rows) -> None:
        """Moves ``rows`` to the positions ``to``, which cursors over parts of them have reached,
        and parks ``failed``, which they could not read: these were recorded already."""
        if len(rows) == self.count:
            self.at = to
        else:
            self.at = self.at.copy()
            self.at[rows] = to
        if len(failed):
            bad = np.zeros(self.count, bool)
            bad[failed] = True
            if self.parked is not None:
                bad &= ~self.parked
            self._park(bad, rows_where(bad))

    def failed(self, owner: Rows) -> Rows:
        """The ``owner`` of each row that is parked; one may come more than once."""
        return owner[:0] if self.parked is None else owner[self.parked]

    def _require(self, size: int) -> None:
        """Fails the rows that have fewer than ``size`` bytes left."""
        if self.count and (self.end - self.at).min() < size:
            self.fail(self.end - self.at < size, Reason.TRUNCATED)

    # -- parts -------------------------------------------------------------------------------

    def select(self, which: Rows | Mask, size: Rows | None = None) -> Cursor:
        """A cursor over some of the rows, from where they are; with ``size``, over so many bytes
        of each."""
        at = self.at[which]
        end = self.end[which] if size is None else at + size
        return Cursor(self.data, at, end, self.rows[which], self.faults)

    def finish(self) -> None:
        """Fails the rows that have bytes left."""
        left = self.end != self.at
        if np.count_nonzero(left):
            self.fail(left, Reason.TRAILING_BYTES)


# -- gathers: what is beyond the buffer, where only rows stand that have failed, is any byte ----


def windows(data: Bytes, size: int, at: Rows) -> Block:
    """void[n]: the ``size`` bytes from each position on."""
    if len(data) < size:
        data = np.concatenate([data, np.zeros(size - len(data), np.uint8)])
    last = len(data) - size
    every = np.ndarray((last + 1,), f"V{size}", data, 0, (1,))
    try:
        found: Block = every[at]
    except IndexError:
        found = every[np.minimum(at, last)]
    return found


def octets(data: Bytes, at: Rows) -> Bytes:
    """uint8[n]: the byte at each position."""
    if not len(data):
        return np.zeros(len(at), np.uint8)
    return data.take(at, mode="clip")


def integers(data: Bytes, dtype: str, at: Rows) -> Rows:
    """The big-endian integer at each position."""
    if dtype == ">i1":
        return octets(data, at).view(np.int8).astype(np.int64)
    if dtype == ">i2":  # two bytes are cheaper than a window
        value = octets(data, at).astype(np.uint16)
        value <<= 8
        value |= octets(data, at + 1)
        return value.view(np.int16).astype(np.int64)
    return windows(data, int(dtype[2:]), at).view(dtype).astype(np.int64)


def long_varints(data: Bytes, start: Rows, first: Bytes) -> tuple[Rows, Rows, Mask]:
    """Value and size of the varints at ``start``, and which are more than 32 bits long.

    Looks at five bytes at most, those of other rows too: whoever asks compares the size.
    """
    value = (first & 0x7F).astype(np.int64)
    size = np.ones(len(start), np.int64)
    overlong = np.zeros(len(start), bool)
    more = rows_where(first >= 0x80)
    for index in range(1, 5):
        if not len(more):
            break
        byte = octets(data, start[more] + index)
        if index == 4:
            overlong[more[byte > 0x0F]] = True
        value[more] |= (byte & 0x7F).astype(np.int64) << (7 * index)
        size[more] += 1
        more = more[byte >= 0x80]
    return value, size, overlong
