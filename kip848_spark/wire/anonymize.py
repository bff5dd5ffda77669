"""Replaces the names in records consistently: decode, rename, encode.

The path of a field tells what a string is. A string at an unknown path is replaced too, so that a
field of a later release leaks nothing. Unchanged are topic ids, numbers, names that Kafka defines,
and random ids (see `unchanged_names`): the order in which a coordinator assigns partitions depends
on them."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kip848_spark.wire.array_types import BoolArray, Int64Array, UInt8Array
from kip848_spark.wire.columns import list_offsets, scatter
from kip848_spark.wire.control import CLASSIC_GROUP, ControlPlan
from kip848_spark.wire.decode import DecodedRows, decode
from kip848_spark.wire.embedded import CONSUMER, Embedded
from kip848_spark.wire.encode import EncodeError, encode_keys, encode_message, encode_values
from kip848_spark.wire.faults import Reason
from kip848_spark.wire.layout import StructNode
from kip848_spark.wire.pseudonyms import new_group, replaced_hash
from kip848_spark.wire.unchanged_names import (
    ASSIGNOR,
    CLIENT,
    CONFIG_KEY,
    CONFIG_VALUE,
    MEMBER,
    PROCESS,
    PROTOCOL_TYPE,
    SUBTOPOLOGY,
    stays,
)

Rename = Callable[[str, pa.Array], pa.Array]
"""A function from a category and the names (string[n]) to new names (string[n]). In the
category `HASH` both are hashes of names (int64[n])."""

HASH = "metadata_hash"
TEXT = "text"
GROUP = "group"
REGEX = "regex"
MATCH_ALL = "|.*"
CATEGORIES: dict[str, str] = {
    "group": GROUP,
    "group_id": GROUP,
    "member_id": MEMBER,
    "leader": MEMBER,
    "instance_id": "instance",
    "group_instance_id": "instance",
    "rack_id": "rack",
    "racks": "rack",
    "client_id": CLIENT,
    "client_host": "host",
    "host": "host",
    "topic": "topic",
    "topic_name": "topic",
    "topics": "topic",
    "subscribed_topic_names": "topic",
    "source_topics": "topic",
    "repartition_sink_topics": "topic",
    "repartition_source_topics.name": "topic",
    "state_changelog_topics.name": "topic",
    "subscribed_topic_regex": REGEX,
    "source_topic_regex": REGEX,
    "regular_expression": REGEX,
    "metadata": "metadata",
    "process_id": PROCESS,
    "protocol_type": PROTOCOL_TYPE,
    "protocol": ASSIGNOR,
    "assignor": ASSIGNOR,
    "server_assignor": ASSIGNOR,
    "supported_protocols.name": ASSIGNOR,
    "subtopology_id": SUBTOPOLOGY,
    "topic_configs.key": CONFIG_KEY,
    "topic_configs.value": CONFIG_VALUE,
    "last_assignment_configs.value": CONFIG_VALUE,
    "client_tags.key": "tag",
    "client_tags.value": "tag",
}
"""The category of a string field, by its name or by the last two parts of its path."""

UNCHANGED = frozenset({"last_assignment_configs.key"})
"""String fields whose content Kafka defines, not the user."""

USER_DATA = "user_data"
"""Bytes inside embedded metadata whose layout only the client knows: they become zeros."""

_DIGITS = 6
"""The digits of a new name, unless there are more names: as many for all, so that they sort."""


@dataclass(frozen=True)
class Pseudonyms:
    """A `Rename` to new names. ``ordinals`` maps the old names of a category to new ones that sort
    in the same order. A name that it lacks becomes a keyed hash (BLAKE2b with ``secret``)."""

    ordinals: Mapping[str, Mapping[str, str]]
    secret: bytes

    @classmethod
    def of(cls, names: Mapping[str, set[str]], secret: bytes) -> Pseudonyms:
        ordinals = {
            # Kafka's assignors sort as Java does: by UTF-16 units.
            category: {
                name: _new_name(category, f"{number:0{max(_DIGITS, len(str(len(some))))}d}")
                for number, name in enumerate(sorted(some, key=lambda n: n.encode("utf-16-be")))
            }
            for category, some in names.items()
        }
        return cls(ordinals, secret)

    def __call__(self, category: str, names: pa.Array) -> pa.Array:
        encoded = pc.dictionary_encode(names)
        old = encoded.dictionary.to_pylist()
        if category == HASH:
            new = [replaced_hash(one, self.secret) for one in old]
            return pa.array(new, pa.int64()).take(encoded.indices)
        return pa.array([self._new(category, n) for n in old], pa.string()).take(encoded.indices)

    def _new(self, category: str, name: str) -> str:
        if stays(category, name):
            return name
        known = self.ordinals.get(category, {}).get(name)
        if known is not None:
            return known
        digest = hashlib.blake2b(name.encode(), key=self.secret, digest_size=8).hexdigest()
        return _new_name(category, digest)


def _new_name(category: str, mark: str) -> str:
    """A new name. A new regular expression matches every topic, so it matches those the old one
    did."""
    if category == GROUP:
        return new_group(mark)
    return f"{category}-{mark}" + (MATCH_ALL if category == REGEX else "")


HASHED_CATEGORIES = frozenset({"metadata", TEXT, PROCESS, "tag", HASH})
"""Categories whose names need not keep their order, and of which there may be very many."""


class NameCollector:
    """A `Rename` that changes nothing and collects the distinct names of each category whose order
    matters, in ``found``."""

    def __init__(self) -> None:
        self.found: dict[str, set[str]] = {}

    def __call__(self, category: str, names: pa.Array) -> pa.Array:
        if category not in HASHED_CATEGORIES:
            some = pc.unique(names).drop_null().to_pylist()
            found = self.found.setdefault(category, set())
            found.update(name for name in some if not stays(category, name))
        return names


def rewrite(
    plan: ControlPlan, keys: pa.Array, values: pa.Array, rename: Rename
) -> tuple[pa.Array, pa.Array, BoolArray]:
    """``keys`` and ``values`` (binary[n]) with every name replaced, and bool[n]: the rows that
    could be decoded. A key that could not is null, and its record must not be published. A value
    that could not is replaced by one that can't be decoded either, see `_unreadable_values`."""
    decoded = decode(plan.plan, keys, values)
    new_keys: list[tuple[Int64Array, pa.Array]] = []
    for part in decoded.keys:
        new_keys.append((part.rows, encode_keys(part.plan, _rename_columns(plan, part, rename))))
    per_key = scatter(new_keys, decoded.distinct, pa.binary())
    absent = decoded.key_of < 0
    keys = per_key.take(pa.array(decoded.key_of, mask=absent if absent.any() else None))
    new_values: list[tuple[Int64Array, pa.Array]] = []
    for part in decoded.values:
        columns = _rename_columns(plan, part, rename)
        new_values.append((part.rows, encode_values(part.plan, part.version, columns)))
    bad = np.flatnonzero((decoded.reason != 0) & ~decoded.in_key)
    new_values.append((bad, _unreadable_values(decoded.reason[bad])))
    return keys, scatter(new_values, decoded.count, pa.binary()), decoded.reason == 0


def _unreadable_values(reasons: UInt8Array) -> pa.Array:
    """Values without content that are faulty in the same way: empty, of an unknown version, or
    damaged (they end inside the version)."""
    bare = {Reason.EMPTY_VALUE: b"", Reason.UNKNOWN_VALUE_VERSION: b"\x7f\xff"}
    return pa.array([bare.get(Reason(reason), b"\x00") for reason in reasons], pa.binary())


def _rename_columns(plan: ControlPlan, part: DecodedRows, rename: Rename) -> dict[str, pa.Array]:
    columns = {
        slot.column: array
        for slot, array in zip(part.struct.slots, part.fields, strict=True)
        if slot.node is not None
    }
    consumer = None
    if part.plan.kind == CLASSIC_GROUP and "protocol_type" in columns:
        consumer = pc.equal(columns["protocol_type"], CONSUMER)
    return {
        name: _rename_array(plan, array, name, rename, consumer) for name, array in columns.items()
    }


def _rename_array(
    plan: ControlPlan, array: pa.Array, path: str, rename: Rename, consumer: pa.Array | None
) -> pa.Array:
    """``array`` with all strings and embedded metadata replaced. ``consumer`` (bool[n]): the rows
    whose embedded metadata is that of consumers; None for all rows."""
    type_ = array.type
    mask = array.is_null() if array.null_count else None
    if pa.types.is_string(type_):
        category = _category(path)
        return array if category is None else rename(category, array)
    if pa.types.is_list(type_):
        below = None if consumer is None else consumer.take(pc.list_parent_indices(array))
        elements = _rename_array(plan, array.flatten(), path, rename, below)
        sizes = pc.list_value_length(array).fill_null(0).to_numpy()
        return pa.ListArray.from_arrays(list_offsets(sizes), elements, type=type_, mask=mask)
    if pa.types.is_struct(type_):
        children = [
            _rename_array(
                plan, pc.struct_field(array, f.name), f"{path}.{f.name}", rename, consumer
            )
            for f in type_
        ]
        return pa.StructArray.from_arrays(children, fields=list(type_), mask=mask)
    if path == HASH:
        return rename(HASH, array)
    if path.endswith(USER_DATA):
        return _fill(array, b"\x00")
    if pa.types.is_binary(type_):
        embedded = plan.assignment if path.endswith("assignment") else plan.subscription
        return _rename_embedded(plan, embedded, array, path, rename, consumer)
    return array


def _category(path: str) -> str | None:
    """The category of the string at ``path``; None if it stays unchanged."""
    parts = path.split(".")
    for end in (".".join(parts[-2:]), parts[-1]):
        if end in UNCHANGED:
            return None
        if end in CATEGORIES:
            return CATEGORIES[end]
    return TEXT


def _rename_embedded(
    plan: ControlPlan,
    embedded: Embedded,
    blobs: pa.Array,
    path: str,
    rename: Rename,
    consumer: pa.Array | None,
) -> pa.Array:
    """Embedded metadata of consumers with new names. Other bytes become as many bytes 0xFF: the
    version is negative, so that neither this program nor Kafka takes them for metadata. So does
    metadata with a text that is too long now: U+FFFD has three bytes, what it stands for may have
    one. New names are short, so this is only metadata that keeps such a text."""
    own = blobs if consumer is None else pc.if_else(consumer, blobs, pa.scalar(None, pa.binary()))
    metadata = embedded.decode(own)
    encoded: list[tuple[Int64Array, pa.Array]] = []
    version = pc.struct_field(metadata, "version").fill_null(-1).to_numpy()
    for number in np.unique(version[version >= 0]):
        rows = np.flatnonzero(version == number)
        layout = embedded.layouts[min(int(number), len(embedded.layouts) - 1)]
        some = metadata.take(pa.array(rows))
        columns = {
            slot.column: _rename_array(
                plan, pc.struct_field(some, slot.column), f"{path}.{slot.column}", rename, None
            )
            for slot in layout.slots
            if slot.node is not None
        }
        encoded.append((rows, _encode_fitting(layout, int(number), columns, len(rows))))
    found = scatter(encoded, len(blobs), pa.binary())
    return pc.if_else(found.is_valid(), found, _fill(blobs, b"\xff"))


def _encode_fitting(
    layout: StructNode, number: int, columns: Mapping[str, pa.Array], count: int
) -> pa.Array:
    """binary[n]: the messages; null where one has a text that is too long."""
    try:
        return encode_message(layout, number, columns)
    except EncodeError:
        if count == 1:
            return pa.nulls(1, pa.binary())
    half = count // 2
    parts = []
    for start, end in ((0, half), (half, count)):
        some = {name: array.slice(start, end - start) for name, array in columns.items()}
        parts.append(_encode_fitting(layout, number, some, end - start))
    return pa.concat_arrays(parts)


def _fill(blobs: pa.Array, byte: bytes) -> pa.Array:
    """The same number of bytes, each of them ``byte``; null stays null."""
    encoded = pc.dictionary_encode(pc.binary_length(blobs))
    filled = pa.array([byte * size for size in encoded.dictionary.to_pylist()], pa.binary())
    return filled.take(encoded.indices)
