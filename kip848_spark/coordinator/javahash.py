"""The iteration order of Kafka's hash tables, which decides which member gets which partition.

The uniform assignor iterates a ``HashMap`` of members, a ``HashSet`` of topic ids and ``HashSet``s
of partition numbers, so its target can only be reproduced with the same iteration order
(docs/kafka-facts.md#hash-order). A Java table visits its buckets in turn and, inside a bucket, the
keys in order of insertion. :class:`TimelineOrder` reproduces Kafka's own ``TimelineHashMap``, whose
order depends on the largest size that the table ever had.
"""

from __future__ import annotations

import base64
import itertools
import math
from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache
from typing import Any, Generic, TypeVar

_K = TypeVar("_K")
_S = TypeVar("_S", str, int)

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
    """The signed high and low halves of a uuid in Kafka's base64 form. Raises ValueError."""
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


def table_size(wanted: int) -> int:
    """The number of buckets of a table created for ``wanted`` entries: the next power of two."""
    return 1 << (wanted - 1).bit_length() if wanted > 1 else 1


@lru_cache(maxsize=1 << 12)
def copied_size(entries: int, least: int = 16) -> int:
    """The number of buckets of a copy with this many entries: a set has at least 16, a map
    (``least=1``) has no minimum.
    """
    return max(table_size(entries * 4 // 3 + 1), least)


def grown_size(start: int, entries: int) -> int:
    """The number of buckets of a table that began with ``start`` and once had this many entries."""
    while entries * 4 > start * 3:
        start *= 2
    return start


def _by_bucket(hashes: Callable[[_K], int], keys: list[_K], start: int) -> list[_K]:
    """Keys in the order of a table that began with ``start`` buckets and grew at a load of 3/4."""
    bucket = _bucket_in(grown_size(start, len(keys)), hashes)
    return sorted(keys, key=bucket)  # stable: within a bucket, the order of insertion


def _bucket_in(capacity: int, hashes: Callable[[_K], int]) -> Callable[[_K], int]:
    """The bucket of each key in a table of ``capacity`` buckets."""

    def bucket(key: _K) -> int:
        code = hashes(key) & 0xFFFFFFFF
        return (code ^ (code >> 16)) & (capacity - 1)

    return bucket


def string_order(keys: Iterable[str], start: int = 16) -> list[str]:
    """The iteration order of a ``HashMap`` whose string keys were inserted in this order."""
    return _by_bucket(string_hash, list(keys), start)


def string_orders(keys: Iterable[str], most: int) -> list[list[str]] | None:
    """Every iteration order that a ``HashMap`` of these keys may have, whatever the order of their
    insertion; None if there are more than ``most``."""
    ordered = string_order(keys)
    bucket = _bucket_in(grown_size(16, len(ordered)), string_hash)
    tied = [list(keys) for _, keys in itertools.groupby(ordered, bucket)]
    if math.prod(math.factorial(len(keys)) for keys in tied) > most:
        return None
    choices = itertools.product(*(itertools.permutations(keys) for keys in tied))
    return [list(itertools.chain.from_iterable(chosen)) for chosen in choices]


def uuid_order(keys: Iterable[str], start: int = 16) -> list[str]:
    """The iteration order of a ``HashMap`` whose topic ids were inserted in this order."""
    keys = tuple(keys)
    return list(keys if len(keys) < 2 else _uuid_order(keys, start))


@lru_cache(maxsize=1 << 12)
def _uuid_order(keys: tuple[str, ...], start: int) -> list[str]:
    """Cached, since every record of a group orders the group's topics."""
    return _by_bucket(uuid_hash, list(keys), start)


def int_order(numbers: Iterable[int], start: int = 16) -> list[int]:
    """The iteration order of a ``HashSet`` whose numbers were inserted in this order."""
    numbers = list(numbers)
    if len(numbers) < 2:
        return numbers
    if max(numbers) < min(grown_size(start, len(numbers)), 1 << 16):  # each has its own bucket
        numbers.sort()
        return numbers
    return _by_bucket(lambda number: number, numbers, start)


class HashTable(Generic[_K]):
    """A ``HashMap`` of topic ids (or of what ``hash_of`` hashes), iterated in Java's order.

    ``put`` appends a key to its bucket and grows the table if it is too full afterwards.
    ``compute`` (``computeIfAbsent``, ``merge``) grows it if it was too full before, and inserts the
    key at the front of its bucket.
    """

    __slots__ = ("_buckets", "_capacity", "_hash_of", "_size")

    def __init__(
        self,
        keys: Iterable[_K] = (),
        start: int = 16,
        hash_of: Callable[[Any], int] = uuid_hash,
    ) -> None:
        self._buckets: dict[int, list[_K]] = {}
        self._capacity = start
        self._hash_of = hash_of
        self._size = 0
        for key in keys:
            self.put(key)

    def put(self, key: _K) -> None:
        """``HashMap.put``."""
        bucket = self._bucket(key)
        if key not in bucket:
            bucket.append(key)
            self._size += 1
            if self._too_full():
                self._grow()

    def compute(self, key: _K) -> None:
        """``HashMap.computeIfAbsent`` and ``HashMap.merge``."""
        if self._too_full():
            self._grow()
        bucket = self._bucket(key)
        if key not in bucket:
            bucket.insert(0, key)
            self._size += 1

    def remove(self, key: _K) -> None:
        """``HashMap.remove``."""
        bucket = self._bucket(key)
        if key in bucket:
            bucket.remove(key)
            self._size -= 1

    def __iter__(self) -> Iterator[_K]:
        for number in sorted(self._buckets):
            yield from self._buckets[number]

    def _too_full(self) -> bool:
        return self._size > self._capacity * 3 // 4

    def _bucket(self, key: _K) -> list[_K]:
        code = self._hash_of(key) & 0xFFFFFFFF
        return self._buckets.setdefault((code ^ (code >> 16)) & (self._capacity - 1), [])

    def _grow(self) -> None:
        keys = list(self)
        self._buckets = {}
        self._capacity *= 2
        for key in keys:
            self._bucket(key).append(key)


class TimelineOrder:
    """The order of one ``TimelineHashMap`` (keys are strings or numbers), given every put.

    The table starts with two slots and doubles when a put finds more than 4/3 as many entries
    (counting the new one) as slots; it never shrinks. A slot is chosen by the top bits of a
    Fibonacci product, and iterated from its newest entry to its oldest.
    """

    __slots__ = ("slots",)

    def __init__(self) -> None:
        self.slots = 2

    def record_put(self, entries: int) -> None:
        """Record a put, of a new key or an old one, into a table of ``entries`` entries."""
        if (entries + 1) * 0.75 > self.slots:
            self.slots *= 2

    def walk(self, keys: Iterable[_S]) -> list[_S]:
        """The keys, given in the order of their first put, in the table's order."""
        shift = 64 - (self.slots.bit_length() - 1)
        newest_first = list(keys)[::-1]

        def slot(key: str | int) -> int:
            code = key if isinstance(key, int) else string_hash(key)
            return ((code * _FIBONACCI) & 0xFFFF_FFFF_FFFF_FFFF) >> shift

        return sorted(newest_first, key=slot)
