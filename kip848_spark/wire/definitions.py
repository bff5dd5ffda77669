"""Message definitions: the content of `schemas/` as objects.

The JSON files in `schemas/` are the only place that states a record layout. This module reads them;
`layout` turns one version of a message into a tree that can be walked."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib.resources.abc import Traversable
from typing import Any

from kip848_spark.runtime.resources import resource

SHIPPED = "shipped"
"""The dialect of Kafka 4.0 and later."""


@dataclass(frozen=True)
class Versions:
    """An inclusive range of versions, as definitions write it: ``0-4``, ``3+``, ``none``."""

    low: int
    high: int

    @classmethod
    def parse(cls, text: str | None) -> Versions:
        if text is None or text == "none":
            return cls(0, -1)
        if text.endswith("+"):
            return cls(int(text[:-1]), 32767)
        low, _, high = text.partition("-")
        return cls(int(low), int(high or low))

    def __contains__(self, version: object) -> bool:
        return isinstance(version, int) and self.low <= version <= self.high

    def __iter__(self) -> Any:
        return iter(range(self.low, self.high + 1))


@dataclass(frozen=True)
class FieldDefinition:
    """One field of a message, or of a struct in it.

    ``json_name`` is the name in the output of Kafka's JSON converters (lower camel case),
    ``column`` the name in the tables (snake case). ``tag`` is None for a field that every record
    has. ``default`` is the value of a tagged field that a record leaves out, as a plain Python
    value: a number, text, bytes, an empty list, a dict by column, or None for null. An
    ``ignorable`` field may have any value when it is encoded in a version that lacks it."""

    name: str
    type: str
    versions: Versions
    nullable: Versions
    tag: int | None
    tagged: Versions
    default: Any = field(hash=False)
    ignorable: bool
    fields: tuple[FieldDefinition, ...]
    about: str

    @property
    def json_name(self) -> str:
        return self.name[0].lower() + self.name[1:]

    @property
    def column(self) -> str:
        return snake_case(self.name)

    @property
    def is_array(self) -> bool:
        return self.type.startswith("[]")

    @property
    def element_type(self) -> str:
        return self.type.removeprefix("[]")


@dataclass(frozen=True)
class MessageDefinition:
    """A key or a value of one key type, or embedded metadata (``api_key`` None)."""

    name: str
    api_key: int | None
    valid: Versions
    flexible: Versions
    fields: tuple[FieldDefinition, ...]
    kind: str
    about: str


@dataclass(frozen=True)
class RecordDefinition:
    """The definitions of the key and the value of one kind of record."""

    key_type: int
    kind: str
    key: MessageDefinition
    value: MessageDefinition


@dataclass(frozen=True)
class Dialect:
    """All records of one variant of a dialect, by key type. ``name`` is the folder of the
    variant."""

    name: str
    records: Mapping[int, RecordDefinition] = field(hash=False)

    def kinds(self) -> dict[str, RecordDefinition]:
        """The definition of each kind. If two key types are of one kind, the higher key type is
        taken."""
        return {record.kind: record for _, record in sorted(self.records.items())}


def snake_case(name: str) -> str:
    """``MemberEpoch`` and ``memberEpoch`` become ``member_epoch``."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()


def load_message(path: Traversable) -> MessageDefinition:
    """Reads one definition file."""
    raw = json.loads(path.read_text(encoding="utf-8"))
    common = {struct["name"]: struct for struct in raw.get("commonStructs", [])}
    return MessageDefinition(
        name=raw["name"],
        api_key=raw.get("apiKey"),
        valid=Versions.parse(raw["validVersions"]),
        flexible=Versions.parse(raw["flexibleVersions"]),
        fields=tuple(_field(entry, common) for entry in raw["fields"]),
        kind=raw.get("kind", ""),
        about=raw.get("about", ""),
    )


def _field(raw: Mapping[str, Any], common: Mapping[str, Any]) -> FieldDefinition:
    element = raw["type"].removeprefix("[]")
    children = raw.get("fields") or common.get(element, {}).get("fields", [])
    fields = tuple(_field(child, common) for child in children)
    return FieldDefinition(
        name=raw["name"],
        type=raw["type"],
        versions=Versions.parse(raw["versions"]),
        nullable=Versions.parse(raw.get("nullableVersions")),
        tag=raw.get("tag"),
        tagged=Versions.parse(raw.get("taggedVersions")),
        default=_default(raw["type"], raw.get("default"), fields),
        ignorable=raw.get("ignorable", False),
        fields=fields,
        about=raw.get("about", ""),
    )


def _default(kind: str, written: Any, fields: tuple[FieldDefinition, ...]) -> Any:
    """The plain Python value of a default. It is null only where the definition says so."""
    if written == "null":
        return None
    if kind.startswith("[]"):
        return []
    if fields:
        return {child.column: child.default for child in fields}
    match kind:
        case "string":
            value: Any = written or ""
        case "bytes" | "uuid":
            value = bytes(16 if kind == "uuid" else 0)
        case "bool":
            value = written in (True, "true")
        case "float64":
            value = float(written or 0)
        case _:
            value = int(str(written or 0), 0)
    return value


def dialects() -> list[str]:
    """The names of all dialects."""
    return sorted({about["dialect"] for about in _dialect_folders().values()})


def load_dialect(name: str = SHIPPED) -> list[Dialect]:
    """The variants of the dialect ``name``: more than one if layouts differ under the same version
    number.

    Raises KeyError if there is no such dialect."""
    variants = []
    for folder, about in _dialect_folders().items():
        if about["dialect"] != name:
            continue
        records = _load_records(folder)
        if fallback := about["fallback"]:
            shared = _load_records(fallback["folder"])
            inherited = Versions.parse(fallback["keys"])
            records |= {key: record for key, record in shared.items() if key in inherited}
        variants.append(Dialect(folder, dict(sorted(records.items()))))
    if not variants:
        raise KeyError(name)
    return variants


def load_shipped() -> Dialect:
    """The dialect of Kafka 4.0 and later."""
    (shipped,) = load_dialect(SHIPPED)
    return shipped


def _dialect_folders() -> dict[str, dict[str, Any]]:
    """The folders of `schemas/` that hold a dialect, sorted, and the content of their
    dialect.json."""
    folders = sorted(resource("schemas").iterdir(), key=lambda folder: folder.name)
    abouts = {folder.name: folder.joinpath("dialect.json") for folder in folders}
    return {
        name: json.loads(file.read_text(encoding="utf-8"))
        for name, file in abouts.items()
        if file.is_file()
    }


def _load_records(folder: str) -> dict[int, RecordDefinition]:
    files = sorted(resource(f"schemas/{folder}").iterdir(), key=lambda file: file.name)
    paths = [file for file in files if file.name.endswith(("Key.json", "Value.json"))]
    messages = [load_message(path) for path in paths]
    keys = {m.api_key: m for m in messages if m.name.endswith("Key")}
    values = {m.api_key: m for m in messages if m.name.endswith("Value")}
    return {
        key_type: RecordDefinition(key_type, keys[key_type].kind, keys[key_type], values[key_type])
        for key_type in sorted(k for k in keys if k is not None)
    }


def load_embedded(name: str) -> MessageDefinition:
    """A definition of the consumer protocol, such as ``ConsumerProtocolSubscription``."""
    return load_message(resource(f"schemas/consumer_protocol/{name}.json"))
