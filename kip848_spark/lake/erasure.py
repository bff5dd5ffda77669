"""Removes every trace of a group, and replaces the names of clients and hosts, in Arrow batches of
a lake's tables.

A name is looked for where a record can hold it: as the name itself, in the id that a broker gives
a classic member (the client id, a hyphen and a UUID), in texts that quote it, and in raw bytes.
Names of groups and topics are not replaced, even if they are equal to an erased name.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kip848_spark.state.partition_fold import CARRY, repack_carry
from kip848_spark.wire.anonymize import rewrite
from kip848_spark.wire.array_types import BoolArray
from kip848_spark.wire.columns import list_offsets
from kip848_spark.wire.control_plans import control_plan
from kip848_spark.wire.layout import LONGEST_STRING

IDENTITIES = frozenset(
    {
        "client_id",
        "client_host",
        "host",
        "member_id",
        "leader",
        "owner",
        "instance_id",
        "group_instance_id",
        "joined",
        "left",
        "trigger_members",
        "blocked_members",
        "slowest_member",
    }
)
"""Columns and fields that hold one name of a client, member or host each."""
TEXTS = frozenset(
    {
        "metadata",
        "explanation",
        "expected",
        "recorded",
        "evidence",
        "details",
        "blockers",
        "warnings",
        "unknowns",
        "notes",
        "saved",
        "likely_client_from",
    }
)
"""Columns that hold texts, which may quote names."""
OTHER_TEXTS = frozenset(
    {
        "agreement.reasons",
        "assumed_topics",
        "assignor",
        "broker_line",
        "caused_by",
        "causes",
        "cause",
        "check",
        "cluster_id",
        "configs",
        "dialect",
        "durations_ms",
        "episode_id",
        "error",
        "errors",
        "finding_id",
        "formats",
        "gap_cause",
        "group_id",
        "key",
        "kind",
        "likely",
        "likely_client",
        "member_state",
        "metadata_kind",
        "name",
        "outcome",
        "process_id",
        "protocol",
        "protocol_type",
        "rack_id",
        "racks",
        "reason",
        "reasons",
        "regular_expression",
        "replayed_through",
        "removed",
        "repartition_sink_topics",
        "risk",
        "role",
        "rules",
        "run_id",
        "server_assignor",
        "severity",
        "source",
        "source_topic_regex",
        "source_topics",
        "state",
        "subscribed_regex",
        "subscribed_topic_names",
        "subscribed_topic_regex",
        "subscribed_topics",
        "subtopology_id",
        "table_versions",
        "topic",
        "topic_id",
        "topic_name",
        "topics",
        "type",
        "unknown_tags",
        "value",
        "verdict",
    }
)
"""Columns and fields with other texts: none of them names a client, member or host."""
_UUID = r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}"


@dataclass(frozen=True)
class Erasure:
    """What to erase. ``groups`` are removed. ``names`` are client ids and hosts, with what replaces
    them. ``dialect`` is that of the lake's records."""

    groups: frozenset[str]
    names: Mapping[str, str]
    dialect: str

    @property
    def wanted(self) -> list[str]:
        """All names to erase."""
        return sorted({*self.groups, *self.names})

    def identity(self, name: str) -> str:
        """The new name of a client, member or host."""
        for old, new in self.names.items():
            if found := re.fullmatch(rf"(/?){re.escape(old)}(-{_UUID})?", name):
                return f"{found[1]}{new}{found[2] or ''}"
        return name

    def text(self, text: str) -> str:
        """A text that quotes no erased name any more."""
        for old, new in {**self.names, **dict.fromkeys(self.groups, "erased")}.items():
            end = rf"(?=(-{_UUID})?(?![\w-]|\.\w))"  # a dot may end a sentence
            text = re.sub(rf"(?<![\w.-]){re.escape(old)}{end}", new, text)
        return text

    def rename(self, category: str, names: pa.Array) -> pa.Array:
        """A `wire.anonymize.Rename` that replaces the erased names only."""
        if category in ("client", "host", "member", "instance"):
            return _map_texts(names, self.identity)
        return _map_texts(names, self.metadata) if category == "metadata" else names

    def metadata(self, text: str) -> str:
        """The metadata of a commit. New names may be longer: what does not fit is cut off."""
        return self.text(text).encode()[:LONGEST_STRING].decode(errors="ignore")


def erase_rows(batch: pa.RecordBatch, erasure: Erasure) -> tuple[pa.RecordBatch, BoolArray]:
    """``batch`` without the erased names, and bool[n]: its rows that have changed. Rows of erased
    groups are among these and are in the result; see `of_groups`."""
    changed = np.zeros(batch.num_rows, bool)
    columns = {name: batch.column(name) for name in batch.schema.names}
    if columns.keys() >= CARRY_COLUMNS:
        columns, rows = _erase_raw(columns, erasure)
        changed |= rows
    for name, array in columns.items():
        if name.startswith("raw_"):
            continue
        rows = _rows_with(array, erasure.wanted)
        if name != "group_id" and rows.any():
            some = array.take(pa.array(np.flatnonzero(rows)))
            erased = _erase(some, name, erasure)
            columns[name] = _put(array, rows, erased)
            changed[rows] |= ~_equal(some, erased)
    return pa.RecordBatch.from_pydict(columns), changed | of_groups(batch, erasure)


CARRY_COLUMNS = frozenset({"raw_key", "raw_value", "kind"})
"""The columns of tables with raw bytes."""


def of_groups(batch: pa.RecordBatch, erasure: Erasure) -> BoolArray:
    """bool[n]: the rows of erased groups, which are to be removed."""
    if "group_id" not in batch.schema.names or not erasure.groups:
        return np.zeros(batch.num_rows, bool)
    names = pa.array(sorted(erasure.groups), pa.string())
    found: BoolArray = np.asarray(
        pc.is_in(batch.column("group_id").cast(pa.string()), value_set=names)
    )
    return found


def _erase(array: pa.Array, name: str, erasure: Erasure) -> pa.Array:
    """A column or field without the erased names."""
    type_ = array.type
    mask = array.is_null() if array.null_count else None
    if pa.types.is_string(type_):
        if name in IDENTITIES:
            return _map_texts(array, erasure.identity)
        return _map_texts(array, erasure.text) if name in TEXTS else array
    if pa.types.is_binary(type_):
        return _zero(array, sorted(erasure.names), topics=True)
    if pa.types.is_map(type_):
        keys, items = array.keys, _erase(array.items, name, erasure)
        return pa.MapArray.from_arrays(array.offsets, keys, items, type=type_)
    if pa.types.is_list(type_):
        flat = _erase(array.flatten(), name, erasure)
        sizes = pc.list_value_length(array).fill_null(0).to_numpy()
        return pa.ListArray.from_arrays(list_offsets(sizes), flat, type=type_, mask=mask)
    if pa.types.is_struct(type_):
        fields = [_erase(pc.struct_field(array, f.name), f.name, erasure) for f in type_]
        return pa.StructArray.from_arrays(fields, fields=list(type_), mask=mask)
    return array


def _erase_raw(
    columns: dict[str, pa.Array], erasure: Erasure
) -> tuple[dict[str, pa.Array], BoolArray]:
    """The columns with raw bytes: records are decoded, renamed and encoded again; those that can't
    be decoded get zeros in place of the names. Also bool[n]: the changed rows."""
    keys, values = columns["raw_key"], columns["raw_value"]
    carry = np.asarray(pc.fill_null(pc.equal(columns["kind"], CARRY), False))
    rows = (_rows_with(keys, erasure.wanted) | _rows_with(values, erasure.wanted)) & ~carry
    if erasure.groups and "group_id" in columns:  # those rows go, their bytes need no change
        names = pa.array(sorted(erasure.groups), pa.string())
        rows &= ~np.asarray(pc.is_in(columns["group_id"].cast(pa.string()), value_set=names))
    if rows.any():
        at = pa.array(np.flatnonzero(rows))
        old_keys, old_values = keys.take(at), values.take(at)
        new_keys, new_values = _rewrite_records(old_keys, old_values, erasure)
        keys, values = _put(keys, rows, new_keys), _put(values, rows, new_values)
        rows[rows] = ~(_equal(old_keys, new_keys) & _equal(old_values, new_values))
    if carry.any():

        def erase_table(table: pa.Table) -> pa.Table:
            erased = [
                found.filter(pa.array(~of_groups(part, erasure)))
                for part in table.combine_chunks().to_batches()
                for found in [erase_rows(part, erasure)[0]]
            ]
            return pa.Table.from_batches(erased, table.schema)

        packed = [repack_carry(value.as_buffer(), erase_table) for value in values.filter(carry)]
        changed = np.zeros(len(carry), bool)
        changed[np.flatnonzero(carry)] = [one is not None for one in packed]
        new = pa.array([one for one in packed if one is not None], pa.binary())
        values = _put(values, changed, new)
        rows |= changed
    return {**columns, "raw_key": keys, "raw_value": values}, rows


def _rewrite_records(
    keys: pa.Array, values: pa.Array, erasure: Erasure
) -> tuple[pa.Array, pa.Array]:
    """Keys and values that contain a name to erase, without it. Those in which it is the name of
    something else, such as a topic, stay as they are."""
    plan = control_plan(erasure.dialect)
    *renamed, good = rewrite(plan, keys, values, erasure.rename)
    *encoded, _ = rewrite(plan, keys, values, lambda _, names: names)
    names = sorted(erasure.names)
    # What can't be decoded is overwritten when a record is encoded again: user data with zeros,
    # the metadata of a member that is not a consumer's, such as Connect's, with bytes 0xFF.
    inside = _rows_with(keys, names) | _rows_with(values, names)
    outside = _rows_with(encoded[0], names) | _rows_with(encoded[1], names)
    differs = inside & ~outside
    for one, other in zip(renamed, encoded, strict=True):
        differs |= ~np.asarray(pc.fill_null(pc.equal(one, other), True))
    found = []
    for new, old in zip(renamed, (keys, values), strict=True):
        zeros = _zero(old, erasure.wanted)
        decodable = pc.if_else(pa.array(differs), new, old)
        found.append(pc.if_else(pa.array(good), decodable, zeros))
    return found[0], found[1]


def _rows_with(array: pa.Array, names: list[str]) -> BoolArray:
    """bool[n]: the rows that have one of ``names`` anywhere in a text or in bytes."""
    found = np.zeros(len(array), bool)
    type_ = array.type
    if pa.types.is_string(type_) or pa.types.is_binary(type_):
        for name in names:
            pattern = name if pa.types.is_string(type_) else name.encode()
            hit = pc.fill_null(pc.match_substring(array, pattern), False)
            found |= np.asarray(hit)
    elif pa.types.is_dictionary(type_):
        return _rows_with(array.dictionary_decode(), names)
    elif pa.types.is_map(type_):
        hit = _rows_with(array.items, names)
        sizes = np.diff(array.offsets.to_numpy())
        np.logical_or.at(found, np.repeat(np.arange(len(array)), sizes), hit[: sizes.sum()])
    elif pa.types.is_list(type_):
        hit = _rows_with(array.flatten(), names)
        np.logical_or.at(found, pc.list_parent_indices(array).to_numpy(), hit)
    elif pa.types.is_struct(type_):
        for field in type_:
            found |= _rows_with(pc.struct_field(array, field.name), names)
    return found


def _put(array: pa.Array, rows: BoolArray, new: pa.Array) -> pa.Array:
    """``array`` with the values ``new`` in ``rows``."""
    if not rows.any():
        return array
    if rows.all():
        return new
    both = pa.concat_arrays([array, new])
    index = np.arange(len(array))
    index[rows] = len(array) + np.arange(len(new))
    return both.take(pa.array(index))


def _equal(left: pa.Array, right: pa.Array) -> BoolArray:
    if pa.types.is_nested(left.type):
        return np.array([a == b for a, b in zip(left, right, strict=True)], bool)
    return np.asarray(pc.fill_null(pc.equal(left, right), True))


def _map_texts(array: pa.Array, change: Callable[[str], str]) -> pa.Array:
    encoded = pc.dictionary_encode(array)
    names = encoded.dictionary.to_pylist()
    return pa.array([change(name) for name in names], pa.string()).take(encoded.indices)


def _zero(array: pa.Array, names: list[str], *, topics: bool = False) -> pa.Array:
    """Bytes in which zeros replace every occurrence of ``names``. With ``topics``, an occurrence
    that is a whole text of consumer metadata, with its length before it, stays: it is a topic."""
    found = array.to_pylist()
    for name in names:
        old = name.encode()
        size = len(old).to_bytes(2, "big")
        topic = rb"(?<!\x00\x00" + re.escape(size) + rb")(?<=" + re.escape(size) + rb")"
        pattern = re.compile((rb"(?!" + topic + rb")" if topics else b"") + re.escape(old))
        found = [one if one is None else pattern.sub(bytes(len(old)), one) for one in found]
    return pa.array(found, pa.binary())
