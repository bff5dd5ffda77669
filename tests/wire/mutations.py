"""Damaged records: real and generated ones, with random edits.

`Corpus` has good records of every kind, version and dialect: those of the captures in
``tests/data``, and as many from the scalar encoder. `Mutator` takes some and damages most of them;
the same seed gives the same bytes."""

from __future__ import annotations

import functools
import random
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from tests.wire import scalar_writer
from tests.wire.scalar_comparison import Pair
from tests.wire.schema_definitions import records
from tests.wire.strategies import Bulk

FOLDERS = ("shipped", "kip", "kip_ea37", "kip_draft")
DATA = Path(__file__).parents[1] / "data"
MADE = 60
"""So many records of each kind and version."""
INTACT = 0.2
"""The share of records that are left as they are."""
FAMILIES = 6
"""A batch has so many records of which many other rows are near relatives, of the same length."""

_NUMBERS = tuple(
    number.to_bytes(size, "big", signed=True)
    for size in (1, 2, 4, 8)
    for number in (-(1 << 8 * size - 1), -2, -1, 0, 1, 2, (1 << 8 * size - 1) - 1)
)
_VARINTS = (
    *(
        scalar_writer.varint(number)
        for number in (0, 1, 2, 127, 128, 16_383, 16_384, 2**31 - 1, 2**31)
    ),
    *(b"\xff\xff\xff\xff\x0f", b"\xff\xff\xff\xff\x10", b"\xff" * 5, b"\xff" * 10),
    *(b"\x80\x00", b"\x80\x80\x80\x80\x00", b"\x81\x80\x80\x80\x80\x00", b"\x80" * 12),
)
_TAGS = (
    b"\1\0\0", b"\1\7\1x", b"\2\0\0\0\0", b"\2\7\0\7\0", b"\2\7\0\3\0", b"\3\0\1\1\1\1\1\2\0",
    b"\1\xff\xff\xff\xff\x07\0", b"\1\x80\x80\x80\x80\x08\0", b"\1\x2a\x7f", b"\x7f",
    b"\1\0\x08" + bytes(8), b"\2\0\x08" + bytes(8) + b"\0\x08" + bytes(8),
    b"\1\0\x10" + b"\xab" * 16,
)  # fmt: skip
"""Sections of tagged fields, to be put where one without any stood."""
_TEXTS = (
    b"\xc0\x80",
    b"\xed\xa0\x80",
    b"\xf4\x90\x80\x80",
    b"\xe2\x82",
    b"\xff",
    b"\xc3\xa9",
    b"\0",
)


@functools.cache
def corpus(folder: str) -> tuple[tuple[bytes, bytes | None], ...]:
    """Good records of a dialect, each different; those of its folder, tombstones among them."""
    bulk = Bulk(seed=848)
    made = [
        sample.encoded()
        for record in records(folder).values()
        for version in (*record.value.valid, None)
        for sample in bulk.samples(record, version, MADE if version is not None else 6)
    ]
    if folder == "shipped":
        for file in sorted(DATA.glob("*/records.parquet")):
            if file.parent.name.startswith("early"):
                continue  # of another dialect
            table = pq.read_table(file, columns=["key", "value"])
            made += zip(*(column.to_pylist() for column in table.columns), strict=True)
    return tuple(dict.fromkeys(made))


class Mutator:
    """Records from one corpus, most of them damaged."""

    def __init__(self, seed: int, folder: str) -> None:
        self.draw = random.Random(seed)
        self.good = corpus(folder)
        self.parts = [part for pair in self.good for part in pair if part]
        small: list[Callable[[bytearray], None]] = [
            self._flip, self._flip, self._overwrite, self._number, self._varint_over,
        ]  # fmt: skip
        self.in_place = tuple(small)
        self.any = (
            *small, self._cut, self._cut, self._splice, self._insert, self._delete, self._repeat,
            self._varint, self._tags, self._tags, self._text, self._head,
        )  # fmt: skip

    def batch(self, size: int) -> list[Pair]:
        """Half from all over the corpus, half near relatives of a few records, mixed up."""
        draw, good = self.draw, self.good
        chance = draw.random
        found: list[Pair] = []
        for _ in range(size // 2):
            pair: Pair = good[int(chance() * len(good))]
            found.append(pair if chance() < INTACT else self._damaged(*pair))
        families = [good[int(chance() * len(good))] for _ in range(FAMILIES)]
        for _ in range(size - len(found)):
            pair = families[int(chance() * FAMILIES)]
            found.append(pair if chance() < INTACT else self._relative(*pair))
        draw.shuffle(found)
        return found

    def _damaged(self, key: bytes, value: bytes | None) -> Pair:
        which = self.draw.random()
        if which < 0.01:
            return self.draw.choice([(None, value), (b"", value), (key, b""), (None, None)])
        if which < 0.02:
            return self._noise(2), self._noise(0)
        if which < 0.03:
            return key, self._part()  # a value that belongs to another key
        if value is None or which < 0.13:
            return self._mutated(key, self.any), value
        return key, self._mutated(value, self.any)

    def _relative(self, key: bytes, value: bytes | None) -> Pair:
        if value is None or self.draw.random() < 0.1:
            return self._mutated(key, self.in_place), value
        return key, self._mutated(value, self.in_place)

    def _mutated(self, octets: bytes, ways: tuple[Callable[[bytearray], None], ...]) -> bytes:
        data = bytearray(octets)
        for _ in range(1 if self.draw.random() < 0.7 else 3):
            ways[int(self.draw.random() * len(ways))](data)
        return bytes(data)

    # -- ways ---------------------------------------------------------------------------------

    def _at(self, data: bytearray) -> int:
        return int(self.draw.random() * (len(data) + 1))

    def _part(self) -> bytes:
        return self.parts[int(self.draw.random() * len(self.parts))]

    def _noise(self, most_zeros: int) -> bytes:
        return bytes(self.draw.randrange(most_zeros + 1)) + self.draw.randbytes(self._small(48))

    def _small(self, most: int) -> int:
        return int(self.draw.random() * most)

    def _over(self, data: bytearray, octets: bytes) -> None:
        """Puts ``octets`` in the place of others; what would hang over is left away."""
        at = self._at(data)
        some = octets[: len(data) - at]
        data[at : at + len(some)] = some

    def _flip(self, data: bytearray) -> None:
        at = self._at(data)
        if at < len(data):
            data[at] ^= 1 << self._small(8)

    def _overwrite(self, data: bytearray) -> None:
        at = self._at(data)
        if at < len(data):
            data[at] = self.draw.choice((0, 1, 2, 0x7F, 0x80, 0xFE, 0xFF, self._small(256)))

    def _number(self, data: bytearray) -> None:
        self._over(data, self.draw.choice(_NUMBERS))

    def _varint_over(self, data: bytearray) -> None:
        self._over(data, self.draw.choice(_VARINTS))

    def _varint(self, data: bytearray) -> None:
        """A varint in the place of one byte: of a length or a count, often enough."""
        at = self._at(data)
        data[at : at + 1] = self.draw.choice(_VARINTS)

    def _cut(self, data: bytearray) -> None:
        del data[self._at(data) :]

    def _splice(self, data: bytearray) -> None:
        other = self._part()
        data[self._at(data) :] = other[self._small(len(other)) :]

    def _insert(self, data: bytearray) -> None:
        at = self._at(data)
        data[at:at] = self.draw.randbytes(1 + self._small(4))

    def _delete(self, data: bytearray) -> None:
        at = self._at(data)
        del data[at : at + 1 + self._small(4)]

    def _repeat(self, data: bytearray) -> None:
        at = self._at(data)
        data[at:at] = data[at : at + 1 + self._small(24)] * (1 + self._small(3))

    def _tags(self, data: bytearray) -> None:
        """Tagged fields where there seems to be none: at the end, or at some byte that is 0."""
        at = data.find(0, self._at(data)) if self.draw.random() < 0.6 else len(data) - 1
        if at >= 0:
            data[at : at + 1] = self.draw.choice(_TAGS)

    def _text(self, data: bytearray) -> None:
        self._over(data, self.draw.choice(_TEXTS))

    def _head(self, data: bytearray) -> None:
        """Another key type or version."""
        data[:2] = self._small(26).to_bytes(2, "big")


def arrays(pairs: list[Pair], type_: pa.DataType | None = None) -> tuple[pa.Array, pa.Array]:
    """Keys and values of ``pairs``, binary or ``type_``."""
    type_ = type_ or pa.binary()
    return pa.array([key for key, _ in pairs], type_), pa.array(
        [value for _, value in pairs], type_
    )
