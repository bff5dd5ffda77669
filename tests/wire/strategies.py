"""Values for any message definition, as plain dicts: see ``scalar`` for their form.

Two makers of the same kind of values: Hypothesis strategies, which find small counterexamples, and
``Bulk``, a seeded generator that makes tens of thousands a second.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from hypothesis import strategies as st

from tests.wire import scalar, scalar_writer
from tests.wire.scalar import UNKNOWN_TAGS, Plain
from tests.wire.schema_definitions import INTEGERS, Field, Message, Record, records

NAMES = ("", "a", "orders", "payments.eu-1", "__consumer_offsets", "group\x00with\nodd\tchars")
UNICODE = (
    "é",
    "日本",
    "Ω≈ç√",
    "\ud7ff\ue000",
    "😀",
    "\U0010ffff",
    "e\u0301",
    "\ufeffbom",
    "\x7f\x80",
)
LENGTHS = (0, 1, 2, 3, 62, 63, 64, 126, 127, 128, 129, 254, 255, 256)
"""Around these a length's varint grows by a byte."""
LONG_LENGTHS = (8191, 16382, 16383, 16384, 32766, 32767)
HIGHEST_TAG = 2**31 - 2
"""The highest that Kafka's classes write; they do read one more."""
MANY = (62, 63, 64, 126, 127, 128, 129, 300)


class Sample(NamedTuple):
    """A record: ``value`` is None for a tombstone, and then ``version`` too."""

    record: Record
    key: Plain
    version: int | None
    value: Plain | None

    def encoded(self) -> tuple[bytes, bytes | None]:
        """Its bytes, by the scalar encoder."""
        key = scalar_writer.encode_key(self.record, self.key)
        if self.value is None or self.version is None:
            return key, None
        return key, scalar_writer.encode_value(self.record, self.version, self.value)


def integer_range(type_: str) -> tuple[int, int]:
    size, signed = INTEGERS[type_]
    bits = 8 * size
    return (-(1 << bits - 1), (1 << bits - 1) - 1) if signed else (0, (1 << bits) - 1)


def extreme_integers(type_: str) -> list[int]:
    low, high = integer_range(type_)
    near = [low, low + 1, -2, -1, 0, 1, 2, 127, 128, 255, 256, high - 1, high]
    return [number for number in near if low <= number <= high]


def known_tags(fields: tuple[Field, ...], version: int) -> set[int]:
    return {field.tag for field in fields if field.tag is not None and field.is_tagged(version)}


# --- Hypothesis ------------------------------------------------------------------------------

_CHARACTERS = st.characters(exclude_categories=["Cs"])  # no surrogates: UTF-8 has none
_TEXT = st.one_of(
    st.sampled_from(NAMES + UNICODE),
    st.text(_CHARACTERS, max_size=40),
    st.tuples(st.sampled_from(LENGTHS), st.sampled_from("xé")).map(lambda it: _sized_text(*it)),
)
_LONG_TEXT = st.sampled_from(LONG_LENGTHS).map(lambda length: _sized_text(length, "y"))
_BYTES = st.one_of(st.binary(max_size=40), st.sampled_from(LENGTHS).map(lambda n: b"\xa5" * n))


def samples(folder: str = "shipped", *, unknown_tags: bool = True) -> st.SearchStrategy[Sample]:
    """Any record of a dialect: any key type, any version, tombstones too."""
    return st.one_of(
        [
            samples_of(record, version, unknown_tags=unknown_tags)
            for record in records(folder).values()
            for version in (*record.value.valid, None)
        ]
    )


def samples_of(
    record: Record, version: int | None, *, unknown_tags: bool = True
) -> st.SearchStrategy[Sample]:
    """A key type's records of one version; tombstones if that is None."""
    value: st.SearchStrategy[Plain | None] = st.none()
    if version is not None:
        value = values(record.value, version, unknown_tags=unknown_tags)
    return st.builds(Sample, st.just(record), values(record.key, 0), st.just(version), value)


def values(
    message: Message, version: int, *, unknown_tags: bool = True
) -> st.SearchStrategy[Plain]:
    """What a message of one version can say."""
    flexible = version in message.flexible
    return _struct(message.fields, version, flexible and unknown_tags)


def _struct(
    fields: tuple[Field, ...], version: int, unknown_tags: bool
) -> st.SearchStrategy[Plain]:
    parts = {field.key: _field(field, version, unknown_tags) for field in fields}
    known = st.fixed_dictionaries(parts)
    if not unknown_tags:
        return known
    return st.tuples(known, _unknown_tags(known_tags(fields, version))).map(
        lambda it: {**it[0], UNKNOWN_TAGS: it[1]} if it[1] else it[0]
    )


def _unknown_tags(known: set[int]) -> st.SearchStrategy[list[tuple[int, bytes]]]:
    numbers = st.one_of(
        st.integers(0, 20), st.sampled_from([127, 128, 16383, 16384, HIGHEST_TAG])
    ).filter(lambda tag: tag not in known)
    some = st.dictionaries(numbers, _BYTES, min_size=1, max_size=3).map(
        lambda tags: sorted(tags.items())
    )
    return st.one_of(st.just([]), st.just([]), st.just([]), some)


def _field(field: Field, version: int, unknown_tags: bool) -> st.SearchStrategy[Any]:
    if version not in field.versions:
        return st.just(field.default)
    item = _item(field, version, unknown_tags)
    one: st.SearchStrategy[Any] = item
    if field.array:
        one = st.lists(item, max_size=4)
        if field.type != "struct":
            # a repeated item keeps the example small, and the count is what matters
            many = st.tuples(item, st.sampled_from(MANY)).map(lambda it: [it[0]] * it[1])
            one = st.one_of(one, one, many)
    elif field.type == "string":
        one = st.one_of(item, item, item, item, _LONG_TEXT)
    choices = [one]
    if field.is_nullable(version):
        choices.append(st.none())
    if field.is_tagged(version):
        choices.append(st.just(field.default))
    return st.one_of(choices)


def _item(field: Field, version: int, unknown_tags: bool) -> st.SearchStrategy[Any]:
    if field.type == "struct":
        return _struct(field.fields, version, unknown_tags)
    if field.type == "string":
        return _TEXT
    if field.type == "bytes":
        return _BYTES
    if field.type == "uuid":
        return st.one_of(st.just(bytes(16)), st.binary(min_size=16, max_size=16))
    low, high = integer_range(field.type)
    return st.one_of(st.sampled_from(extreme_integers(field.type)), st.integers(low, high))


def _sized_text(length: int, character: str) -> str:
    """A text of so many bytes, made of one character as far as that goes."""
    size = len(character.encode())
    return character * (length // size) + "z" * (length % size)


# --- in bulk ---------------------------------------------------------------------------------

_Make = Callable[[], Any]


class Bulk:
    """The same kinds of values, many and quickly: the same seed gives the same values.

    Most are as small as real ones. One value in about a hundred is at some limit: a long text, a
    big array. Texts and bytes come from a pool.
    """

    def __init__(self, seed: int, *, unknown_tags: bool = True) -> None:
        self._random = random.Random(seed)
        self._unknown_tags = unknown_tags
        self._makers: dict[tuple[str, int], Callable[[], Plain]] = {}
        draw = self._random
        alphabet = "abcdefghijklmnopqrstuvwxyz0123456789-._ éß日😀"
        random_texts = ["".join(draw.choices(alphabet, k=draw.randrange(40))) for _ in range(2000)]
        sized = [_sized_text(length, character) for length in LENGTHS for character in "xé"]
        self._texts = [*NAMES, *UNICODE, *sized, *random_texts]
        self._blobs = [draw.randbytes(draw.randrange(60)) for _ in range(500)]
        self._blobs += [bytes([length % 256]) * length for length in LENGTHS]

    def samples(self, record: Record, version: int | None, count: int) -> Iterator[Sample]:
        """So many records of one key type and version, or tombstones."""
        key = self._maker(record.key, 0)
        value = (lambda: None) if version is None else self._maker(record.value, version)
        return (Sample(record, key(), version, value()) for _ in range(count))

    def values(self, message: Message, version: int, count: int) -> Iterator[Plain]:
        make = self._maker(message, version)
        return (make() for _ in range(count))

    def _maker(self, message: Message, version: int) -> Callable[[], Plain]:
        place = (message.name, version)
        if place not in self._makers:
            self._makers[place] = self._struct(
                message.fields, version, flexible=version in message.flexible
            )
        return self._makers[place]

    def _struct(
        self, fields: tuple[Field, ...], version: int, *, flexible: bool
    ) -> Callable[[], Plain]:
        parts = [(field.key, self._field(field, version, flexible=flexible)) for field in fields]
        chance = self._random.random
        known = known_tags(fields, version)

        def plain() -> Plain:
            return {key: make() for key, make in parts}

        def with_unknown_tags() -> Plain:
            value = {key: make() for key, make in parts}
            if chance() < 0.05:
                value[UNKNOWN_TAGS] = self._some_unknown_tags(known)
            return value

        return with_unknown_tags if flexible and self._unknown_tags else plain

    def _some_unknown_tags(self, known: set[int]) -> list[tuple[int, bytes]]:
        draw = self._random
        limit = draw.choice([20, 20, 20000, HIGHEST_TAG])
        numbers = {draw.randint(0, limit) for _ in range(draw.randint(1, 3))} - known
        return [(tag, draw.choice(self._blobs)) for tag in sorted(numbers or {77})]

    def _field(self, field: Field, version: int, *, flexible: bool) -> _Make:
        default = field.default
        if version not in field.versions:
            return lambda: scalar.fresh(default)
        make = self._item(field, version, flexible=flexible)
        if field.array:
            make = self._array(make, may_be_large=field.type != "struct")
        elif field.type == "string":
            make = self._or_long(make)
        if field.is_nullable(version):
            make = self._either(0.2, lambda: None, make)
        if field.is_tagged(version):
            make = self._either(0.3, lambda: scalar.fresh(default), make)
        return make

    def _either(self, share: float, first: _Make, second: _Make) -> _Make:
        chance = self._random.random
        return lambda: first() if chance() < share else second()

    def _array(self, item: _Make, *, may_be_large: bool) -> _Make:
        draw = self._random

        def small() -> list[Any]:
            return [item() for _ in range(int(draw.random() * 4))]

        def large() -> list[Any]:
            return [item() for _ in range(draw.choice(MANY))]

        return self._either(0.01, large, small) if may_be_large else small

    def _or_long(self, text: _Make) -> _Make:
        draw = self._random
        return self._either(0.001, lambda: _sized_text(draw.choice(LONG_LENGTHS), "w"), text)

    def _item(self, field: Field, version: int, *, flexible: bool) -> _Make:
        draw = self._random
        if field.type == "struct":
            return self._struct(field.fields, version, flexible=flexible)
        if field.type == "string":
            return self._pick(self._texts)
        if field.type == "bytes":
            return self._pick(self._blobs)
        if field.type == "uuid":
            return self._either(0.1, lambda: bytes(16), lambda: draw.randbytes(16))
        low, high = integer_range(field.type)
        bits = (high - low).bit_length()
        usual = min(high, 1000)
        extreme = self._pick(extreme_integers(field.type))
        wide = self._either(0.5, extreme, lambda: low + draw.getrandbits(bits))
        return self._either(0.4, wide, lambda: int(draw.random() * usual))

    def _pick(self, pool: list[Any]) -> _Make:
        chance = self._random.random
        size = len(pool)
        return lambda: pool[int(chance() * size)]


def damaged(draw: random.Random, good: bytes, other: bytes) -> bytes:
    """Bytes that were good once: cut, spliced, flipped, or with a length blown up."""
    data = bytearray(good)
    for _ in range(draw.choice([1, 1, 1, 2, 3])):
        at = draw.randrange(len(data) + 1)
        how = draw.randrange(7)
        if how == 0:
            del data[at:]
        elif how == 1:
            data[at:at] = draw.randbytes(draw.randint(1, 4))
        elif how == 2:
            del data[at : at + draw.randint(1, 4)]
        elif how == 3:
            data[at:] = other[draw.randrange(len(other) + 1) :]
        elif how == 4:
            bomb = draw.choice([b"\xff\xff\xff\xff\x07", b"\x7f\xff\xff\xff", b"\xff" * 6, b"\x80"])
            data[at : at + len(bomb)] = bomb
        elif at < len(data):
            data[at] = draw.choice([data[at] ^ 1 << draw.randrange(8), 0, 1, 0x7F, 0x80, 0xFF])
    return bytes(data)
