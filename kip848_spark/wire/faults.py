"""Why a record could not be read: one reason a row, and the byte at which reading it ended."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

import numpy as np
import numpy.typing as npt

Bytes = npt.NDArray[np.uint8]
Rows = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]


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


@dataclass(frozen=True)
class Faults:
    """What is wrong with rows: ``reason`` is uint8[n], ``at`` int64[n] (a byte of the row),
    ``tags`` int32[n]: how many unknown tags a row that was read has."""

    reason: npt.NDArray[np.uint8]
    at: Rows
    tags: npt.NDArray[np.int32]

    @classmethod
    def none(cls, count: int) -> Faults:
        return cls(np.zeros(count, np.uint8), np.zeros(count, np.int64), np.zeros(count, np.int32))
