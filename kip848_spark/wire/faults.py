"""Why a record could not be read: one reason a row, and the byte at which reading it ended."""

from __future__ import annotations

from enum import IntEnum

import numpy as np
import numpy.typing as npt

Rows = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]


class Reason(IntEnum):
    """Machine-readable reasons; the lower-case name is what tables and `dump` show."""

    NONE = 0
    NULL_KEY = 1
    EMPTY_KEY = 2
    TRUNCATED = 3
    TRAILING_BYTES = 4
    BAD_LENGTH = 5
    BAD_VARINT = 6
    BAD_UTF8 = 7
    NULL_NOT_ALLOWED = 8
    BAD_TAG = 9
    UNKNOWN_KEY_TYPE = 10
    UNKNOWN_VALUE_VERSION = 11
    EMPTY_VALUE = 12

    @property
    def text(self) -> str:
        return self.name.lower()


UNREADABLE = (Reason.UNKNOWN_KEY_TYPE, Reason.UNKNOWN_VALUE_VERSION)
"""Reasons that say "newer than this program", not "damaged"."""


class Faults:
    """The first fault of each of ``count`` rows, and how many unknown tags each one carried.

    ``reason`` is uint8[count], ``at`` int64[count] (a byte of the buffer being read), ``tags``
    int32[count].
    """

    def __init__(self, count: int) -> None:
        self.reason = np.zeros(count, np.uint8)
        self.at = np.zeros(count, np.int64)
        self.tags = np.zeros(count, np.int32)

    def record(self, rows: Rows, reason: Reason, at: Rows) -> None:
        """Notes ``reason`` for those of ``rows`` that have none yet."""
        fresh = self.reason[rows] == 0
        self.reason[rows[fresh]] = reason
        self.at[rows[fresh]] = at[fresh]
