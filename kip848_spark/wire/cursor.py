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

from kip848_spark.wire.faults import Faults, Mask, Reason, Rows

Bytes = npt.NDArray[np.uint8]
_FAR = np.int64(1) << 62


class Cursor:
    """Positions of ``count`` rows in ``data``.

    ``rows`` are the indices of these rows in ``faults`` (a cursor over the elements of arrays
    or over one tagged field serves some of the rows only, and rows may come twice in no cursor).
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
        them."""
        which = np.flatnonzero(bad)
        if not len(which):
            return
        position = self.position
        self.faults.record(self.rows[which], reason, (position if at is None else at)[which])
        self.base, self.shift = position.copy(), 0
        self.end = self.end.copy()
        self.parked = bad.copy() if self.parked is None else self.parked | bad
        self.base[which] = 0
        self.end[which] = _FAR
        self._block = None

    def refresh(self) -> None:
        """Parks the rows that `Faults` knows as failed (through another cursor)."""
        failed = self.faults.reason[self.rows] != 0
        if self.parked is not None:
            failed &= ~self.parked
        if failed.any():
            self.fail(failed, Reason.NONE)

    def require(self, size: int) -> None:
        """Fails the rows that have fewer than ``size`` bytes left."""
        if self.count and int((self.end - self.base).min()) < self.shift + size:
            self.fail(self.end - self.position < size, Reason.TRUNCATED)

    # -- reads -------------------------------------------------------------------------------

    def number(self, dtype: str, ahead: int = 0) -> npt.NDArray[np.int64]:
        """The big-endian integer ``dtype`` of each row, in the machine's byte order.

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
        first = self._byte(start)
        if not self.count or first.max() < 0x80:
            self.shift += 1
            return first.astype(np.int64)
        return self._long_varint(start, first)

    def _long_varint(self, start: Rows, first: Bytes) -> Rows:
        value = (first & 0x7F).astype(np.int64)
        size = np.ones(self.count, np.int64)
        more = np.flatnonzero(first >= 0x80)
        short = np.zeros(self.count, bool)
        wrong = np.zeros(self.count, bool)
        for index in range(1, 5):
            at = start[more] + index
            inside = at < self.end[more]
            short[more[~inside]] = True
            more, at = more[inside], at[inside]
            byte = self._byte(at)
            if index == 4:
                wrong[more[byte > 0x0F]] = True
            value[more] |= (byte & 0x7F).astype(np.int64) << (7 * index)
            size[more] += 1
            more = more[byte >= 0x80]
        if self.parked is not None:
            short &= ~self.parked
            wrong &= ~self.parked
            size[self.parked] = 0
            value[self.parked] = 0
        self.fail(short, Reason.TRUNCATED)
        self.fail(wrong & ~short, Reason.BAD_VARINT)
        bad = short | wrong
        size[bad] = 0
        value[bad] = 0
        self.skip(size)
        return value

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

    def length(self, prefix: str) -> Rows:
        """The length before a string or bytes, or the count before an array; -1 is null.

        ``prefix`` is the type it is written in: ``varint`` (length + 1), ``>i2`` or ``>i4``.
        Anything below -1, or above the number of bytes that are left, is `BAD_LENGTH`.
        """
        start = self.position
        value = self.varint() - 1 if prefix == "varint" else self.number(prefix).astype(np.int64)
        if not self.count:
            return value
        left = int((self.end - self.base).min()) - self.shift
        if int(value.max()) > left or int(value.min()) < -1:
            bad = (value > self.end - self.position) | (value < -1)
            if self.parked is not None:
                bad &= ~self.parked
            self.fail(bad, Reason.BAD_LENGTH, start)
        if self.parked is not None:
            value = np.where(self.parked, 0, value)
        return value

    def limit(self, value: Rows, most: int, start: Rows) -> Rows:
        """Fails the rows whose ``value`` is above ``most``; returns it with 0 in their place."""
        if self.count and int(value.max()) > most:
            self.fail(value > most, Reason.BAD_LENGTH, start)
            value = np.where(value > most, 0, value)
        return value

    # -- parts -------------------------------------------------------------------------------

    def select(self, which: Rows | Mask, end: Rows | None = None) -> Cursor:
        """A cursor over some of the rows, from where they are, up to ``end`` (else their own)."""
        return Cursor(
            self.data,
            self.position[which],
            self.end[which] if end is None else end,
            self.rows[which],
            self.faults,
        )

    def finish(self) -> None:
        """Fails the rows that have bytes left."""
        if self.count and int((self.end - self.base).max()) != self.shift:
            left = self.end != self.position
            if self.parked is not None:
                left &= ~self.parked
            self.fail(left, Reason.TRAILING_BYTES)

    def _byte(self, at: Rows) -> Bytes:
        if not len(self.data):
            return np.zeros(len(at), np.uint8)
        return self.data.take(at, mode="clip")

    def _fixed(self, width: int, ahead: int) -> tuple[npt.NDArray[np.void], int]:
        """A gathered block and the offset in it at which the next ``width`` bytes stand."""
        block = self._block
        if block is not None and self.shift - self._block_at + width <= block.itemsize:
            return block, self.shift - self._block_at
        position = self.position
        room = len(self.data) - (int(position.max()) if self.count else 0)
        size = max(width, min(ahead, room))
        data = self.data
        if len(data) < size:
            data = np.zeros(size, np.uint8)
            data[: len(self.data)] = self.data
        windows = np.ndarray((len(data) - size + 1,), f"V{size}", data, 0, (1,))
        if room < size:  # only parked rows stand there
            position = np.minimum(position, len(data) - size)
        self._block = windows[position]
        self._block_at = self.shift
        return self._block, 0
