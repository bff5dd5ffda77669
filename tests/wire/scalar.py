"""A record at a time, a byte at a time: the codec that the vectorized one is held to.

It reads ``schemas/`` through ``definitions`` and shares nothing with ``kip848_spark.wire``. Kafka's
own classes have been compared with it (``test_scalar``); where it is stricter than they are, that
is said below.

Plain values
    A message is a dict by lower camel case names: int, bool, float, ``str``, ``bytes``, a uuid as
    16 bytes, a list, a dict, ``None``. Every field is there, those that the version lacks with
    their default. Tags no definition knows are in ``UNKNOWN_TAGS``, a list of (tag, bytes), if
    there are any.

What is accepted, and the reason and position of what is not
    A position is a byte offset in the key or the value (``side``), counted from its first byte.
    Bytes are read from left to right, the first fault is the answer, the key comes before the
    value, and a value whose key is at fault is not looked at.

    key      ``null_key`` if there is none, ``empty_key`` if it has no bytes, both at 0. An int16,
             the key type: ``unknown_key_type`` at 0 if the dialect has none such. Then the
             fields.
    value    None is a tombstone. Else an int16, the version: ``unknown_value_version`` at 0 if it
             is not valid for the key type. Then the fields. No bytes at all is ``empty_value`` at
             0.
    the end  A byte left over is ``trailing_bytes`` there. (Kafka ignores them.)

    integers, uuids, bools, floats
             Fewer bytes left than they need: ``truncated`` at their first byte. This goes for
             lengths, counts and presence bytes too. A bool is any byte, 0 is false.
    varint   Unsigned, 7 bits a byte, low ones first, as many bytes as have their high bit set and
             one more. ``truncated`` at its first byte if the bytes run out; ``bad_varint`` there
             if a fifth byte is over 15, that is if it has a high bit (a sixth byte would follow)
             or the number needs more than 32 bits. More bytes than needed are accepted.
    length of a string or bytes, count of an array
             Not flexible: int16 for a string, else int32; -1 is null. Flexible: a varint, 0 is
             null, else one more than the length. Null where the version does not allow it is
             ``null_not_allowed``. ``bad_length`` if it is under -1, over the number of bytes that
             follow it (an array's item has at least one byte), or over 32767 for a string. All at
             the length's first byte. (Kafka takes any negative length for null.)
    string   UTF-8: ``bad_utf8`` at its length's first byte if it is not strictly so (overlong
             forms, surrogates, beyond U+10FFFF). (Kafka puts U+FFFD in.)
    array    The items one after another, with the reasons and positions of their own.
    struct   The fields of the version in the order of the definition, tagged ones left out; then,
             in a flexible version, the tags. A nullable one begins with its presence: untagged an
             int8, 1 or -1 for null; as a tag's content a varint, 1 or 0 for null. Any other is
             ``bad_presence`` at its first byte. (Kafka takes any number for present that is not
             under 0, or not 0.) Null where not allowed can't happen.
    tags     A varint, their number: ``bad_length`` at its first byte if it is over half the
             number of bytes that follow it (a tag has at least two). For each a varint, the tag:
             ``bad_tag`` at its first byte if it is not over the one before, or over 2^31 - 1. A
             varint, the size: ``bad_length`` at its first byte if it is over the number of bytes
             that follow it. A known tag's field is read like any other and as if the bytes ended
             where the size says; bytes it leaves are ``bad_tag`` at the tag's first byte. An
             unknown tag is skipped and counted. (Kafka checks neither order nor size.)

    Bytes are canonical if encoding what they mean gives them back. Accepted and not canonical
    are: varints longer than needed, and tagged fields that are there with their default.

Embedded consumer metadata (``decode_embedded``)
    An int16 version: under 0 is ``unknown_value_version`` at 0, over the highest is read as the
    highest. Then the fields by the rules above, but Kafka's own rules hold for two things: any
    negative length is null where null is allowed, and U+FFFD is put into a string that is not
    UTF-8. Bytes left over are no fault, because a later version has more fields; they are handed
    back.
"""

from __future__ import annotations

import codecs
import copy
import struct
from dataclasses import dataclass
from typing import Any, NamedTuple

from tests.wire.schema_definitions import Field, Message, Record, messages, records

Plain = dict[str, Any]

UNKNOWN_TAGS = "_unknownTags"
LONGEST_STRING = 32767
HIGHEST_TAG = 2**31 - 1
FORMATS = {
    "int8": ">b",
    "int16": ">h",
    "uint16": ">H",
    "int32": ">i",
    "int64": ">q",
    "bool": ">?",
    "float64": ">d",
    "uuid": ">16s",
}


class MalformedError(Exception):
    """Bytes that are not what they should be: machine-readable reason, byte position."""

    def __init__(self, reason: str, position: int, side: str = "value") -> None:
        super().__init__(f"{reason} at byte {position} of the {side}")
        self.reason = reason
        self.position = position
        self.side = side


@dataclass
class Decoded:
    """What a record's bytes say; with an ``error``, whatever had been read before it."""

    key_type: int | None = None
    kind: str | None = None
    key: Plain | None = None
    tombstone: bool = False
    version: int | None = None
    value: Plain | None = None
    unknown_tags: int = 0
    error: MalformedError | None = None


class Embedded(NamedTuple):
    version: int
    value: Plain
    rest: bytes


# --- decoding --------------------------------------------------------------------------------


def decode(key: bytes | None, value: bytes | None, folder: str = "shipped") -> Decoded:
    """Read one record in the dialect of a folder of ``schemas/``."""
    decoded = Decoded()
    try:
        record = _decode_key(key, folder, decoded)
    except MalformedError as fault:
        fault.side = "key"
        decoded.error = fault
        return decoded
    decoded.tombstone = value is None
    if value is not None:
        try:
            _decode_value(value, record, decoded)
        except MalformedError as fault:
            decoded.error = fault
    return decoded


def _decode_key(key: bytes | None, folder: str, decoded: Decoded) -> Record:
    if key is None:
        raise MalformedError("null_key", 0)
    if not key:
        raise MalformedError("empty_key", 0)
    reader = Reader(key)
    decoded.key_type = reader.fixed("int16")
    record = records(folder).get(decoded.key_type)
    if record is None:
        raise MalformedError("unknown_key_type", 0)
    decoded.kind = record.kind
    fields = reader.message(record.key, version=0)
    reader.expect_end()
    decoded.key = fields
    return record


def _decode_value(value: bytes, record: Record, decoded: Decoded) -> None:
    if not value:
        raise MalformedError("empty_value", 0)
    reader = Reader(value)
    decoded.version = reader.fixed("int16")
    if decoded.version not in record.value.valid:
        raise MalformedError("unknown_value_version", 0)
    fields = reader.message(record.value, decoded.version)
    reader.expect_end()
    decoded.value = fields
    decoded.unknown_tags = reader.unknown_tags


def decode_embedded(name: str, data: bytes) -> Embedded:
    """Read a ``ConsumerProtocolSubscription`` or ``ConsumerProtocolAssignment``."""
    message = messages("consumer_protocol")[name]
    reader = JavaReader(data)
    version = reader.fixed("int16")
    if version < 0:
        raise MalformedError("unknown_value_version", 0)
    value = reader.message(message, min(version, message.valid.last))
    return Embedded(version, value, data[reader.at :])


class Reader:
    """Bytes and a place in them."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.at = 0
        self.end = len(data)
        self.unknown_tags = 0

    @property
    def left(self) -> int:
        return self.end - self.at

    def expect_end(self) -> None:
        if self.left:
            raise MalformedError("trailing_bytes", self.at)

    def message(self, message: Message, version: int) -> Plain:
        return self.struct(message.fields, version, flexible=version in message.flexible)

    def struct(self, fields: tuple[Field, ...], version: int, *, flexible: bool) -> Plain:
        value: Plain = {field.key: fresh(field.default) for field in fields}
        tagged = {}
        for field in fields:
            if field.is_tagged(version):
                tagged[field.tag] = field
            elif version in field.versions:
                value[field.key] = self.field(field, version, flexible=flexible)
        if flexible:
            self.tags(value, tagged, version)
        return value

    def field(self, field: Field, version: int, *, flexible: bool) -> Any:
        nullable = field.is_nullable(version)
        if field.array:
            count = self.length("array", nullable=nullable, flexible=flexible)
            if count is None:
                return None
            return [self.item(field, version, flexible=flexible) for _ in range(count)]
        if field.type == "struct" and nullable and not self.presence(field, version):
            return None
        if field.type in ("string", "bytes"):
            return self.text_or_bytes(field.type, nullable=nullable, flexible=flexible)
        return self.item(field, version, flexible=flexible)

    def item(self, field: Field, version: int, *, flexible: bool) -> Any:
        """A value that is not null: an array's items can't be."""
        if field.type == "struct":
            return self.struct(field.fields, version, flexible=flexible)
        if field.type in ("string", "bytes"):
            return self.text_or_bytes(field.type, nullable=False, flexible=flexible)
        return self.fixed(field.type)

    def fixed(self, type_: str) -> Any:
        form = FORMATS[type_]
        size = struct.calcsize(form)
        if self.left < size:
            raise MalformedError("truncated", self.at)
        (value,) = struct.unpack_from(form, self.data, self.at)
        self.at += size
        return value

    def varint(self) -> int:
        start = self.at
        value = 0
        for shift in (0, 7, 14, 21, 28):
            if not self.left:
                raise MalformedError("truncated", start)
            byte = self.data[self.at]
            self.at += 1
            if shift == 28 and byte > 15:
                raise MalformedError("bad_varint", start)
            value |= (byte & 127) << shift
            if byte < 128:
                break
        return value

    def length(self, type_: str, *, nullable: bool, flexible: bool) -> int | None:
        """Of a string or bytes, or an array's count."""
        start = self.at
        if flexible:
            length = self.varint() - 1
        else:
            length = self.fixed("int16" if type_ == "string" else "int32")
        if length == -1:
            if not nullable:
                raise MalformedError("null_not_allowed", start)
            return None
        too_long = type_ == "string" and length > LONGEST_STRING
        if length < 0 or length > self.left or too_long:
            raise MalformedError("bad_length", start)
        return length

    def text_or_bytes(self, type_: str, *, nullable: bool, flexible: bool) -> str | bytes | None:
        start = self.at
        length = self.length(type_, nullable=nullable, flexible=flexible)
        if length is None:
            return None
        data = self.data[self.at : self.at + length]
        self.at += length
        if type_ == "bytes":
            return data
        return self.text(data, start)

    def text(self, data: bytes, start: int) -> str:
        try:
            return data.decode("utf-8", "strict")
        except UnicodeDecodeError:
            raise MalformedError("bad_utf8", start) from None

    def presence(self, field: Field, version: int) -> bool:
        start = self.at
        if field.is_tagged(version):
            present = {1: True, 0: False}.get(self.varint())
        else:
            present = {1: True, -1: False}.get(self.fixed("int8"))
        if present is None:
            raise MalformedError("bad_presence", start)
        return present

    def tags(self, value: Plain, known: dict[int | None, Field], version: int) -> None:
        start = self.at
        count = self.varint()
        if 2 * count > self.left:
            raise MalformedError("bad_length", start)
        previous = -1
        for _ in range(count):
            start = self.at
            tag = self.varint()
            if tag <= previous or tag > HIGHEST_TAG:
                raise MalformedError("bad_tag", start)
            previous = tag
            size_at = self.at
            size = self.varint()
            if size > self.left:
                raise MalformedError("bad_length", size_at)
            end = self.at + size
            if tag in known:
                self.end, outer = end, self.end
                value[known[tag].key] = self.field(known[tag], version, flexible=True)
                if self.left:
                    raise MalformedError("bad_tag", start)
                self.end = outer
            else:
                value.setdefault(UNKNOWN_TAGS, []).append((tag, self.data[self.at : end]))
                self.unknown_tags += 1
                self.at = end


class JavaReader(Reader):
    """Reads what is not flexible as Kafka's classes do."""

    def length(self, type_: str, *, nullable: bool, flexible: bool) -> int | None:
        start = self.at
        try:
            return super().length(type_, nullable=nullable, flexible=flexible)
        except MalformedError:
            size = 2 if type_ == "string" else 4
            if nullable and self.at == start + size and self.data[start] & 0x80:
                return None
            raise

    def text(self, data: bytes, start: int) -> str:
        return data.decode("utf-8", "java")


def _replace_as_java(fault: UnicodeError) -> tuple[str, int]:
    """An error handler for decoding: where Python stops at the first byte of a surrogate, Java
    takes in all of its bytes."""
    assert isinstance(fault, UnicodeDecodeError)
    rest = fault.object[fault.start :]
    if rest[0] == 0xED and len(rest) > 1 and 0xA0 <= rest[1] <= 0xBF:
        return "\ufffd", fault.start + (3 if rest[2:] and rest[2] & 0xC0 == 0x80 else 2)
    return "\ufffd", fault.end


codecs.register_error("java", _replace_as_java)


def fresh(default: Any) -> Any:
    """A default that may be changed without changing it for others."""
    return copy.deepcopy(default) if isinstance(default, (dict, list)) else default
