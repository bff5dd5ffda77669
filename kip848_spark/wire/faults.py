"""Why a record could not be read: one reason a row, and the byte at which reading it ended."""

from __future__ import annotations

from enum import IntEnum
from typing import Any

import numpy as np
import numpy.typing as npt

Bytes = npt.NDArray[np.uint8]
Rows = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]


def rows_where(mask: npt.NDArray[Any]) -> Rows:
    """The rows for which ``mask`` holds (is true, or is not 0)."""
    return mask.nonzero()[0]


class Reason(IntEnum):
    """Machine-readable reasons; the lower-case name is what tables and `dump` show.

    Bytes are read from left to right, and the first fault is the answer. ``at`` says where.
    """

    NONE = 0
    NULL_KEY = 1
    """There is no key; at 0."""
    EMPTY_KEY = 2
    """The key has no bytes; at 0."""
    TRUNCATED = 3
    """The record ends inside a number, an id, a length or a count; at the first byte of it."""
    TRAILING_BYTES = 4
    """The record goes on behind its last field; at the first byte too many."""
    BAD_LENGTH = 5
    """A length, count or size is negative, more than what is left has room for, or too much for
    a string; at the first byte of it."""
    BAD_VARINT = 6
    """A varint goes on beyond 32 bits; at the first byte of it."""
    BAD_UTF8 = 7
    """A string is not strictly UTF-8; at its length."""
    NULL_NOT_ALLOWED = 8
    """A field is null that can't be; at its length."""
    BAD_TAG = 9
    """A tag is not above the one before, too large, or its field shorter than its size says; at
    the first byte of the tag."""
    UNKNOWN_KEY_TYPE = 10
    """The dialect has no such key type; at 0."""
    UNKNOWN_VALUE_VERSION = 11
    """The key type has no such value version; at 0."""
    EMPTY_VALUE = 12
    """The value has no bytes (and is no tombstone); at 0."""
    BAD_PRESENCE = 13
    """What says whether a nullable struct is there is neither yes nor no; at that."""

    @property
    def text(self) -> str:
        return self.name.lower()


UNREADABLE = (Reason.UNKNOWN_KEY_TYPE, Reason.UNKNOWN_VALUE_VERSION)
"""Reasons that say "newer than this program", not "damaged"."""


class Faults:
    """The first fault of each of ``count`` rows, and how many unknown tags each one carried.

    ``reason`` is uint8[count], ``at`` int64[count] (a byte of the buffer being read), ``tags``
    int32[count]. Rows are not read strictly from left to right: strings are looked at last, and
    the elements of an array together. Of a row's faults that one counts which a reader that goes
    byte by byte would meet first, ``when`` says at which byte.
    """

    def __init__(self, count: int) -> None:
        self.reason = np.zeros(count, np.uint8)
        self.at = np.zeros(count, np.int64)
        self.tags = np.zeros(count, np.int32)
        self._when = np.zeros(count, np.int64)

    def record(self, rows: Rows, reason: Reason, at: Rows, when: Rows | None = None) -> None:
        """Notes ``reason`` for ``rows`` (one may come more than once)."""
        when = at if when is None else when
        order = np.lexsort((when, rows))
        rows, first = np.unique(rows[order], return_index=True)
        of_row = order[first]
        sooner = (self.reason[rows] == 0) | (when[of_row] < self._when[rows])
        if reason == Reason.TRUNCATED:
            sooner |= when[of_row] == self._when[rows]
        rows, of_row = rows[sooner], of_row[sooner]
        self.reason[rows] = reason
        self.at[rows] = at[of_row]
        self._when[rows] = when[of_row]

    def count_tags(self, rows: Rows) -> None:
        """Counts an unknown tag for each of ``rows``."""
        np.add.at(self.tags, rows, 1)
