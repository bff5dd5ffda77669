"""``schemas/`` as plain objects, for the tests: written apart from the codec's own loader, so that
a mistake in one is not a mistake in both.
"""

from __future__ import annotations

import functools
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

SCHEMAS = Path(__file__).resolve().parents[2] / "schemas"

INTEGERS = {
    "int8": (1, True),
    "int16": (2, True),
    "uint16": (2, False),
    "int32": (4, True),
    "int64": (8, True),
}
"""Bytes and sign of the integer types."""


@dataclass(frozen=True)
class Versions:
    """A range of versions, both ends included; empty if ``last < first``."""

    first: int
    last: int

    def __contains__(self, version: int) -> bool:
        return self.first <= version <= self.last

    def __iter__(self) -> Any:
        return iter(range(self.first, self.last + 1))

    @classmethod
    def parse(cls, text: str) -> Versions:
        if text == "none":
            return cls(0, -1)
        if text.endswith("+"):
            return cls(int(text[:-1]), 32767)
        first, _, last = text.partition("-")
        return cls(int(first), int(last or first))


NONE = Versions.parse("none")


@dataclass(frozen=True)
class Field:
    name: str
    """As in the definition."""
    key: str
    """As in Kafka's JSON and in our plain values: lower camel case."""
    type: str
    """A primitive type or ``struct``: of the field, or of its items if it is an array."""
    array: bool
    fields: tuple[Field, ...]
    """A struct's fields, in the order of the bytes."""
    versions: Versions
    nullable: Versions
    tagged: Versions
    tag: int | None
    default: Any
    ignorable: bool

    def is_tagged(self, version: int) -> bool:
        return version in self.tagged

    def is_nullable(self, version: int) -> bool:
        return version in self.nullable


@dataclass(frozen=True)
class Message:
    name: str
    api_key: int | None
    kind: str | None
    valid: Versions
    flexible: Versions
    fields: tuple[Field, ...]

    @classmethod
    def parse(cls, definition: dict[str, Any]) -> Message:
        common = {
            struct["name"]: struct["fields"] for struct in definition.get("commonStructs", [])
        }
        return cls(
            name=definition["name"],
            api_key=definition.get("apiKey"),
            kind=definition.get("kind"),
            valid=Versions.parse(definition["validVersions"]),
            flexible=Versions.parse(definition["flexibleVersions"]),
            fields=tuple(_field(field, common) for field in definition["fields"]),
        )


@dataclass(frozen=True)
class Record:
    """The two messages of a key type."""

    key_type: int
    kind: str
    key: Message
    value: Message


def _field(definition: dict[str, Any], common: dict[str, list[dict[str, Any]]]) -> Field:
    name: str = definition["name"]
    item: str = definition["type"].removeprefix("[]")
    array = definition["type"].startswith("[]")
    inner = definition.get("fields") or common.get(item, [])
    tagged = definition.get("taggedVersions", "none")
    fields = tuple(_field(field, common) for field in inner)
    return Field(
        name=name,
        key=name[0].lower() + name[1:],
        type="struct" if fields else item,
        array=array,
        fields=fields,
        versions=Versions.parse(definition.get("versions", tagged)),
        nullable=Versions.parse(definition.get("nullableVersions", "none")),
        tagged=Versions.parse(tagged),
        tag=definition.get("tag"),
        default=_default(definition.get("default", ""), item, array, fields),
        ignorable=definition.get("ignorable", False),
    )


def _default(written: Any, item: str, array: bool, fields: tuple[Field, ...]) -> Any:
    """The default as a plain value.

    Kafka's generator takes a bare ``null`` for no default at all, and only ``"null"`` for null.
    """
    if written is None:
        written = ""
    if written == "null":
        return None
    if array:
        return []
    if fields:
        return {field.key: field.default for field in fields}
    if item in INTEGERS:
        return int(written or 0)
    return {"string": written, "bytes": b"", "uuid": bytes(16), "bool": False, "float64": 0.0}[item]


@functools.cache
def messages(folder: str) -> dict[str, Message]:
    """The definitions of one folder of ``schemas/``, by name."""
    found = [
        Message.parse(json.loads(path.read_text()))
        for path in sorted((SCHEMAS / folder).glob("[A-Z]*.json"))
    ]
    return {message.name: message for message in found}


@functools.cache
def own_records(folder: str) -> dict[int, Record]:
    """The key types that a dialect's folder defines itself."""
    keys = {m.api_key: m for m in messages(folder).values() if m.name.endswith("Key")}
    values = {m.api_key: m for m in messages(folder).values() if m.name.endswith("Value")}
    assert keys.keys() == values.keys()
    records = {}
    for key_type, key in keys.items():
        assert key_type is not None
        assert key.kind is not None
        records[key_type] = Record(key_type, key.kind, key, values[key_type])
    return dict(sorted(records.items()))


@functools.cache
def records(folder: str = "shipped") -> dict[int, Record]:
    """All key types of a dialect, those of its fallback included."""
    fallback = json.loads((SCHEMAS / folder / "dialect.json").read_text())["fallback"]
    found = own_records(folder)
    if fallback is not None:
        allowed = Versions.parse(fallback["keys"])
        others = own_records(fallback["folder"])
        found = {**{number: others[number] for number in others if number in allowed}, **found}
    return found
