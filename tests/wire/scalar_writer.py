"""The other half of the scalar codec: a message as its canonical bytes, and as Kafka's JSON.

Plain values are as in ``scalar``.
"""

from __future__ import annotations

import base64
import struct
from typing import Any

from tests.wire.scalar import FORMATS, LONGEST_STRING, UNKNOWN_TAGS, Plain
from tests.wire.schema_definitions import Field, Message, Record, messages


def encode_key(record: Record, key: Plain) -> bytes:
    return _fixed("int16", record.key_type) + encode_message(record.key, 0, key)


def encode_value(record: Record, version: int, value: Plain) -> bytes:
    return _fixed("int16", version) + encode_message(record.value, version, value)


def encode_embedded(name: str, version: int, value: Plain) -> bytes:
    message = messages("consumer_protocol")[name]
    return _fixed("int16", version) + encode_message(message, version, value)


def encode_message(message: Message, version: int, value: Plain) -> bytes:
    """The canonical bytes of a message; absent fields are written with their default.

    A value for a field that the version lacks is an error, unless it is the default or the
    field is ``ignorable``.
    """
    if version not in message.valid:
        raise ValueError(f"{message.name} has no version {version}")
    return _struct(message.fields, version, value, flexible=version in message.flexible)


def _struct(fields: tuple[Field, ...], version: int, value: Plain, *, flexible: bool) -> bytes:
    unknown = value.keys() - {field.key for field in fields} - {UNKNOWN_TAGS}
    if unknown:
        raise ValueError(f"no such fields: {sorted(unknown)}")
    parts = []
    tags: list[tuple[int, bytes]] = list(value.get(UNKNOWN_TAGS, []))
    for field in fields:
        item = value.get(field.key, field.default)
        if version not in field.versions:
            if item != field.default and not field.ignorable:
                raise ValueError(f"version {version} has no {field.name}")
        elif not field.is_tagged(version):
            parts.append(_field(field, version, item, flexible=flexible))
        elif item != field.default:
            assert field.tag is not None
            tags.append((field.tag, _field(field, version, item, flexible=True)))
    if flexible:
        tags.sort()
        if len({tag for tag, _ in tags}) < len(tags):
            raise ValueError("a tag is there twice")
        parts.append(varint(len(tags)))
        parts += [varint(tag) + varint(len(data)) + data for tag, data in tags]
    elif tags:
        raise ValueError(f"version {version} has no tags")
    return b"".join(parts)


def _field(field: Field, version: int, value: Any, *, flexible: bool) -> bytes:
    if value is None and not field.is_nullable(version):
        raise ValueError(f"{field.name} can't be null")
    if field.array:
        count = _length("array", value, flexible=flexible)
        items = value or []
        return count + b"".join(_item(field, version, item, flexible=flexible) for item in items)
    if field.type == "struct" and field.is_nullable(version):
        present = value is not None
        if field.is_tagged(version):
            presence = varint(1 if present else 0)
        else:
            presence = _fixed("int8", 1 if present else -1)
        return presence + (_item(field, version, value, flexible=flexible) if present else b"")
    return _item(field, version, value, flexible=flexible)


def _item(field: Field, version: int, value: Any, *, flexible: bool) -> bytes:
    if field.type == "struct":
        return _struct(field.fields, version, value, flexible=flexible)
    if field.type == "string":
        data = None if value is None else value.encode()
        if data is not None and len(data) > LONGEST_STRING:
            raise ValueError(f"{field.name} is longer than {LONGEST_STRING} bytes")
        return _length("string", data, flexible=flexible) + (data or b"")
    if field.type == "bytes":
        return _length("bytes", value, flexible=flexible) + (value or b"")
    return _fixed(field.type, value)


def _length(type_: str, value: Any, *, flexible: bool) -> bytes:
    length = -1 if value is None else len(value)
    if flexible:
        return varint(length + 1)
    return _fixed("int16" if type_ == "string" else "int32", length)


def _fixed(type_: str, value: Any) -> bytes:
    return struct.pack(FORMATS[type_], value)


def varint(value: int) -> bytes:
    data = bytearray()
    while value > 127:
        data.append(value & 127 | 128)
        value >>= 7
    data.append(value)
    return bytes(data)


# --- Kafka's JSON ----------------------------------------------------------------------------


def to_kafka_json(message: Message, version: int, value: Plain) -> dict[str, Any]:
    """A plain value as Kafka's ``*JsonConverter`` classes print it.

    Bytes in base64, uuids in base64 for URLs without padding; fields that the version lacks, and
    tagged ones at their default, are left out.
    """
    return _json_struct(message.fields, version, value)


def _json_struct(fields: tuple[Field, ...], version: int, value: Plain) -> dict[str, Any]:
    json = {}
    for field in fields:
        item = value.get(field.key, field.default)
        if version not in field.versions:
            continue
        if field.is_tagged(version) and item == field.default:
            continue
        if item is not None and field.array:
            json[field.key] = [_json(field, version, each) for each in item]
        else:
            json[field.key] = _json(field, version, item)
    return json


def _json(field: Field, version: int, value: Any) -> Any:
    if value is None:
        return None
    if field.type == "struct":
        return _json_struct(field.fields, version, value)
    if field.type == "uuid":
        return base64.urlsafe_b64encode(value).rstrip(b"=").decode()
    if field.type == "bytes":
        return base64.b64encode(value).decode()
    return value
