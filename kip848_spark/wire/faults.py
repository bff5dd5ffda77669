"""Why a record could not be read: a reason for each row, and the byte at which reading stopped."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

import numpy as np

from kip848_spark.wire.array_types import Int32Array, Int64Array, UInt8Array


class Reason(IntEnum):
    """Machine-readable reasons. Tables and `dump` show the lower-case name.

    A record is read from left to right, and the first fault found is reported. Each description
    ends with the byte that is reported: an offset within the key or within the value.
    """

    NONE = 0
    NULL_KEY = 1
    """The key is null. Byte 0."""
    EMPTY_KEY = 2
    """The key has no bytes. Byte 0."""
    TRUNCATED = 3
    """The bytes end inside a number, an id, a length or a count. The first byte of that item."""
    TRAILING_BYTES = 4
    """There are bytes after the last field. The first of them."""
    BAD_LENGTH = 5
    """A length, count or size is negative, exceeds the bytes that are left, or exceeds the limit
    for strings. The first byte of the length."""
    BAD_VARINT = 6
    """A varint has more than 32 bits. The first byte of the varint."""
    BAD_UTF8 = 7
    """A string is not strict UTF-8. The first byte of its length."""
    NULL_NOT_ALLOWED = 8
    """A field that cannot be null is null. The first byte of its length."""
    BAD_TAG = 9
    """A tag is not greater than the one before it or is too large, or its field is shorter than
    the size says. The first byte of the tag."""
    UNKNOWN_KEY_TYPE = 10
    """The dialect has no such key type. Byte 0."""
    UNKNOWN_VALUE_VERSION = 11
    """The key type has no such value version. Byte 0."""
    EMPTY_VALUE = 12
    """The value has no bytes, and is not null, so it is no tombstone. Byte 0."""
    BAD_PRESENCE = 13
    """The marker of a nullable struct is neither "present" nor "null". The marker's first byte."""

    @property
    def text(self) -> str:
        """The name that tables show."""
        return self.name.lower()


UNKNOWN_REASONS = (Reason.UNKNOWN_KEY_TYPE, Reason.UNKNOWN_VALUE_VERSION)
"""Reasons for records in a format newer than this program. All others mean damaged bytes."""


@dataclass(frozen=True)
class Faults:
    """The outcome of reading n rows.

    ``reason``: uint8[n], a `Reason`. ``at``: int64[n], the byte within the row at which reading
    stopped. ``tags``: int32[n], the number of unknown tagged fields in each row that was read.
    """

    reason: UInt8Array
    at: Int64Array
    tags: Int32Array

    @classmethod
    def none(cls, count: int) -> Faults:
        """``count`` rows without a fault."""
        return cls(np.zeros(count, np.uint8), np.zeros(count, np.int64), np.zeros(count, np.int32))
