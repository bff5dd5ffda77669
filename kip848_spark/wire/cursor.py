"""Many rows read at once: a cursor holds one position a row in the buffer that they share.

A read looks at the same field of all rows with a few NumPy operations, so its cost a row is a few
nanoseconds. Two things keep it that cheap. While all rows have moved by the same number of bytes,
only the scalar ``shift`` grows. And a run of fields of fixed width is gathered once, as a block.

A row in which something is wrong is recorded in `Faults` and *parked*: from then on it reads
bytes that belong to nobody (the buffer's first), moves by nothing and never counts in a check.
No read goes beyond a row's own end, whatever its bytes claim.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from kip848_spark.wire.faults import Bytes, Faults, Mask, Reason, Rows
from kip848_spark.wire.layout import ANY_LENGTH, VARINT

_FAR = np.int64(1) << 62


class Cursor:
    """Positions of ``count`` rows in ``data``.

    ``rows`` are the indices of these rows in ``faults``; no row comes twice.
    """

    __slots__ = ("_block", "_block_at", "base", "data", "end", "faults", "parked", "rows", "shift")

    def __init__(self, data: Bytes, start: Rows, end: Rows, rows: Rows, faults: Faults) -> None:
        self.data = data
        self.base = start
        self.shift = 0
        self.end = end
        self.rows = rows
        self.faults = faults
        self.parked: Mask | None = None
        self._block: npt.NDArray[np.void] | None = None
        self._block_at = 0

    @property
    def count(self) -> int:
        return len(self.rows)

    @property
    def position(self) -> Rows:
        """int64[count]: where each row is read next."""
        return self.base + self.shift if self.shift else self.base

    # -- faults ------------------------------------------------------------------------------

    def fail(self, bad: Mask, reason: Reason, at: Rows | None = None) -> None:
        """Records ``reason`` for the rows in ``bad`` (at ``at``, else where they are) and parks
        them. Rows that are parked already are left alone."""
        if self.parked is not None:
            bad = bad & ~self.parked
        which = np.flatnonzero(bad)
        if not len(which):
            return
        position = self.position
        self.faults.record(self.rows[which], reason, (position if at is None else at)[which])
        self.base, self.shift = position.copy(), 0
        self.end = self.end.copy()
        self.parked = bad if self.parked is None else self.parked | bad
        self.base[which] = 0
        self.end[which] = _FAR
        self._block = None

    def refresh(self) -> None:
        """Parks the rows that `Faults` knows as failed (through another cursor)."""
        failed = self.faults.reason[self.rows] != 0
        if failed.any():
            self.fail(failed, Reason.NONE)

    def require(self, size: int) -> None:
        """Fails the rows that have fewer than ``size`` bytes left."""
        if self.count and int((self.end - self.base).min()) < self.shift + size:
            self.fail(self.end - self.position < size, Reason.TRUNCATED)

    # -- reads -------------------------------------------------------------------------------

    def number(self, dtype: str, ahead: int = 0) -> npt.NDArray[np.int64]:
        """The big-endian number ``dtype`` of each row, in the machine's byte order.

        ``ahead``: bytes of fixed width that will be read next, this number included.
        """
        width = int(dtype[2:])
        self.require(width)
        block, offset = self._fixed(width, ahead)
        column = np.ndarray((self.count,), dtype, block, offset, (block.itemsize,))
        self.shift += width
        return column.astype(dtype.replace(">", "="))

    def fixed(self, width: int) -> Bytes:
        """uint8[count, width]: the next ``width`` bytes of each row."""
        self.require(width)
        block, offset = self._fixed(width, width)
        view = np.ndarray((self.count, width), np.uint8, block, offset, (block.itemsize, 1))
        self.shift += width
        return np.ascontiguousarray(view)

    def varint(self) -> Rows:
        """The unsigned varint of each row as int64; more than 32 bits is `BAD_VARINT`."""
        self.require(1)
        start = self.position
        first = octets(self.data, start)
        if not self.count or first.max() < 0x80:
            self.shift += 1
            return first.astype(np.int64)
        value, size, overlong = long_varints(self.data, start, first)
        if self.parked is not None:
            size[self.parked] = 0
        # A varint that is cut off has its fourth byte or an earlier one as the row's last.
        cut = size > self.end - start
        self.fail(cut, Reason.TRUNCATED)
        self.fail(overlong, Reason.BAD_VARINT)
        if self.parked is not None:
            size[self.parked] = 0
            value[self.parked] = 0
        self.skip(size)
        return value

    def length(
        self, prefix: str, nullable: bool, longest: int = ANY_LENGTH
    ) -> tuple[Rows, Mask | None]:
        """The length of a string or bytes, or the count of an array, and which rows are null.

        ``prefix`` is what it is written in: `VARINT` (length + 1, 0 for null) or a number type
        (-1 for null). What is less, more than ``longest`` or than the bytes that are left is
        `BAD_LENGTH`. Null and parked rows have 0.
        """
        start = self.position
        if prefix == VARINT:
            value = self.varint()
            value -= 1
        else:
            value = self.number(prefix).astype(np.int64)
        if not self.count:
            return value, None
        if self.parked is not None:
            value[self.parked] = 0
        least = int(value.min())
        most = min(longest, int((self.end - self.base).min()) - self.shift)
        if least >= 0 and int(value.max()) <= most:
            return value, None
        null: Mask | None = None
        if least < 0:
            null = value == -1
            if not nullable:
                self.fail(null, Reason.NULL_NOT_ALLOWED, start)
                null = None
        self.fail(
            (value > self.end - self.position) | (value < -1) | (value > longest),
            Reason.BAD_LENGTH,
            start,
        )
        value = np.maximum(value, 0)
        if self.parked is not None:
            value[self.parked] = 0
            null = null & ~self.parked if null is not None else None
        return value, null

    def skip(self, size: Rows) -> None:
        """Moves each row by its own ``size`` bytes (already checked; parked rows stay)."""
        if not self.count:
            return
        if self.parked is not None:
            size = np.where(self.parked, 0, size)
        least = int(size.min())
        if least == int(size.max()):
            self.shift += least
            return
        self.base = self.position + size
        self.shift = 0
        self._block = None

    def move(self, which: Rows, to: Rows) -> None:
        """Moves the rows ``which`` to the positions another cursor has reached."""
        moved = np.zeros(self.count, np.int64)
        moved[which] = to - self.position[which]
        self.refresh()
        self.skip(moved)

    # -- parts -------------------------------------------------------------------------------

    def select(self, which: Rows | Mask) -> Cursor:
        """A cursor over some of the rows, from where they are."""
        return Cursor(
            self.data, self.position[which], self.end[which], self.rows[which], self.faults
        )

    def finish(self) -> None:
        """Fails the rows that have bytes left."""
        if self.count and int((self.end - self.base).max()) != self.shift:
            self.fail(self.end != self.position, Reason.TRAILING_BYTES)

    def _fixed(self, width: int, ahead: int) -> tuple[npt.NDArray[np.void], int]:
        """A gathered block and the offset in it at which the next ``width`` bytes stand."""
        block = self._block
        if block is not None and self.shift - self._block_at + width <= block.itemsize:
            return block, self.shift - self._block_at
        position = self.position
        room = len(self.data) - (int(position.max()) if self.count else 0)
        size = max(width, min(ahead, room))
        self._block = windows(self.data, size, position)
        self._block_at = self.shift
        return self._block, 0


def windows(data: Bytes, size: int, at: Rows) -> npt.NDArray[np.void]:
    """void[n]: the ``size`` bytes from each position on. Where that is beyond the end of
    ``data``, as it can be for parked rows only, they are some other bytes."""
    if len(data) < size:
        data = np.concatenate([data, np.zeros(size - len(data), np.uint8)])
    last = len(data) - size
    every = np.ndarray((last + 1,), f"V{size}", data, 0, (1,))
    if len(at) and int(at.max()) > last:
        at = np.minimum(at, last)
    found: npt.NDArray[np.void] = every[at]
    return found


def octets(data: Bytes, at: Rows) -> Bytes:
    """uint8[n]: the byte at each position; some other one where ``data`` has none."""
    if not len(data):
        return np.zeros(len(at), np.uint8)
    return data.take(at, mode="clip")


def long_varints(data: Bytes, start: Rows, first: Bytes) -> tuple[Rows, Rows, Mask]:
    """Value and size of the varints at ``start``, and which are more than 32 bits long.

    Looks at five bytes at most, those of other rows too: whoever asks compares the size.
    """
    value = (first & 0x7F).astype(np.int64)
    size = np.ones(len(start), np.int64)
    overlong = np.zeros(len(start), bool)
    more = np.flatnonzero(first >= 0x80)
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
