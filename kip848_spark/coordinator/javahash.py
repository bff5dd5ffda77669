"""The iteration order of Kafka's hash tables, which decides who gets which partition.

The uniform assignor walks a ``HashMap`` of members, a ``HashSet`` of topic ids and ``HashSet``s
of partition numbers, so a target can only be reproduced by walking them in the same order
(facts D, "Hash order"). A Java table visits its buckets in turn and, inside one, the keys in the
order they came. :class:`TimelineOrder` does the same for Kafka's own ``TimelineHashMap``, whose
order depends on how large the table ever was.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import TypeVar

_K = TypeVar("_K")

_FIBONACCI = -7046029254386353131


def _int32(value: int) -> int:
    value &= 0xFFFFFFFF
    return value - 0x1_0000_0000 if value & 0x8000_0000 else value


@lru_cache(maxsize=1 << 16)
def string_hash(text: str) -> int:
    """``String.hashCode``: base 31 over UTF-16 code units, as a signed 32-bit number."""
    raw = text.encode("utf-16-be", "surrogatepass")
    value = 0
    for i in range(0, len(raw), 2):
        value = (31 * value + (raw[i] << 8 | raw[i + 1])) & 0xFFFFFFFF
    return _int32(value)


@lru_cache(maxsize=1 << 16)
def uuid_halves(uuid: str) -> tuple[int, int]:
    """The signed high and low halves of a uuid in Kafka's base64 form."""
    raw = base64.urlsafe_b64decode(uuid + "==")
    if len(raw) != 16:
        raise ValueError(f"{uuid!r} is not a uuid in Kafka's base64 form")
    return (
        int.from_bytes(raw[:8], "big", signed=True),
        int.from_bytes(raw[8:], "big", signed=True),
    )


@lru_cache(maxsize=1 << 16)
def uuid_hash(uuid: str) -> int:
    """``Uuid.hashCode`` of a uuid in Kafka's base64 form."""
    high, low = uuid_halves(uuid)
    mixed = (high ^ low) & 0xFFFF_FFFF_FFFF_FFFF
    return _int32((mixed >> 32) ^ mixed)


def _capacity(size: int, least: int = 16, *, copied: bool = False) -> int:
    """Buckets of a table of that size: grown past 3/4, or made large enough for a copy."""
    capacity = least
    while size > capacity * 3 // 4 or (copied and size * 4 // 3 + 1 > capacity):
        capacity *= 2
    return capacity


def _by_bucket(hashes: Callable[[_K], int], keys: Iterable[_K], capacity: int) -> list[_K]:
    def bucket(key: _K) -> int:
        code = hashes(key) & 0xFFFFFFFF
        return (code ^ (code >> 16)) & (capacity - 1)

    return sorted(keys, key=bucket)  # stable: within a bucket, the order of insertion


def string_order(keys: Iterable[str], *, sized_for: int = 0) -> list[str]:
    """The order in which a ``HashMap`` with these string keys, put in this order, is walked."""
    keys = list(keys)
    return _by_bucket(string_hash, keys, _capacity(len(keys), _table_size(sized_for)))


def uuid_order(keys: Iterable[str], *, copied: bool = False) -> list[str]:
    """The order in which a ``HashMap`` with these topic ids, put in this order, is walked."""
    keys = list(keys)
    if len(keys) < 2:
        return keys
    return _by_bucket(uuid_hash, keys, _capacity(len(keys), copied=copied))


def int_order(numbers: Iterable[int], *, copied: bool = False) -> list[int]:
    """The order in which a ``HashSet`` of small non-negative numbers is walked."""
    numbers = sorted(numbers)
    capacity = _capacity(len(numbers), copied=copied)
    if not numbers or numbers[-1] < capacity:
        return numbers
    return _by_bucket(lambda n: n, numbers, capacity)


def _table_size(wanted: int) -> int:
    """A ``HashMap`` made for ``wanted`` keys starts at the next power of two (16 if not said)."""
    return 1 << (wanted - 1).bit_length() if wanted > 0 else 16


class TimelineOrder:
    """The order of one ``TimelineHashMap`` with string keys, kept by telling it of each put.

    It starts with two slots and doubles when a put finds more than 4/3 as many entries (counting
    the new one) as slots; it never shrinks. A slot is chosen by the top bits of a Fibonacci
    product and walked from its newest entry to its oldest.
    """

    __slots__ = ("slots",)

    def __init__(self) -> None:
        self.slots = 2

    def putting(self, entries: int) -> None:
        """A put, new key or old, into a table of that many entries."""
        if (entries + 1) * 0.75 > self.slots:
            self.slots *= 2

    def walk(self, keys: Iterable[str]) -> list[str]:
        """The keys, given in the order of their first put, in the table's order."""
        shift = 64 - (self.slots.bit_length() - 1)

        def slot(key: str) -> int:
            return ((string_hash(key) * _FIBONACCI) & 0xFFFF_FFFF_FFFF_FFFF) >> shift

        return sorted(reversed(list(keys)), key=slot)
