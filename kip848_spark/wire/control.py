"""Decoded control records as the columns of `group_records`: a struct column for each kind."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kip848_spark.wire.columns import constant, scatter
from kip848_spark.wire.decode import DecodedRows, DecodePlan, decode
from kip848_spark.wire.embedded import CONSUMER, Embedded, metadata_kind
from kip848_spark.wire.tables import (
    OFFSET_COMMIT,
    key_column,
    kind_column,
    row_types,
    table_column,
    table_type,
)

CLASSIC_GROUP = "group_metadata"


@dataclass(frozen=True)
class ControlPlan:
    """How control records become columns: the plan for the records, and the embedded metadata."""

    plan: DecodePlan
    subscription: Embedded
    assignment: Embedded

    @classmethod
    def of(cls, plan: DecodePlan) -> ControlPlan:
        return cls(
            plan,
            Embedded.of("ConsumerProtocolSubscription"),
            Embedded.of("ConsumerProtocolAssignment"),
        )

    def fields(self) -> dict[str, pa.DataType]:
        """The columns that `control_columns` returns, in this order, and their Arrow types."""
        structs = {
            record.kind: table_type(self._expanded_type(record.kind, record.value_type))
            for record in self.plan.records.values()
            if record.kind != OFFSET_COMMIT
        }
        return {
            "kind": pa.string(),
            "dialect": pa.string(),
            "group_id": pa.string(),
            "member_id": pa.string(),
            "regular_expression": pa.string(),
            "tombstone": pa.bool_(),
        } | structs

    def _expanded_type(self, kind: str, type_: pa.StructType) -> pa.StructType:
        if kind == CLASSIC_GROUP:
            members = type_.field("members").type.value_type
            added = [
                pa.field("consumer_subscription", self.subscription.arrow),
                pa.field("consumer_assignment", self.assignment.arrow),
                pa.field("metadata_kind", pa.string()),
            ]
            return _replace_field(type_, "members", pa.list_(pa.struct([*members, *added])))
        if kind == "consumer_group_member_metadata" and "classic_member_metadata" in type_.names:
            classic = type_.field("classic_member_metadata").type
            protocol = classic.field("supported_protocols").type.value_type
            added = [
                pa.field("consumer_subscription", self.subscription.arrow),
                pa.field("metadata_kind", pa.string()),
            ]
            protocols = pa.list_(pa.struct([*protocol, *added]))
            return _replace_field(
                type_,
                "classic_member_metadata",
                _replace_field(classic, "supported_protocols", protocols),
            )
        return type_

    def expand(self, part: DecodedRows) -> pa.StructArray:
        """struct[m]: the values of ``part``, with the embedded consumer metadata decoded beside its
        bytes."""
        array = part.as_struct()
        type_ = self._expanded_type(part.plan.kind, array.type)
        if type_ == array.type:
            return array
        if part.plan.kind == CLASSIC_GROUP:
            return self._with_members(array, type_)
        return self._with_protocols(array, type_)

    def _with_members(self, array: pa.StructArray, type_: pa.StructType) -> pa.StructArray:
        members = array.field("members")
        group = pc.list_parent_indices(members)
        protocol_type = array.field("protocol_type").take(group)
        consumer = pc.equal(protocol_type, CONSUMER)
        structs = members.values
        nothing = pa.scalar(None, pa.binary())
        blobs = [structs.field("subscription"), structs.field("assignment")]
        subscription, assignment = (
            embedded.decode(pc.if_else(consumer, blob, nothing))
            for embedded, blob in zip((self.subscription, self.assignment), blobs, strict=True)
        )
        kind = metadata_kind(
            protocol_type,
            array.field("protocol").take(group),
            pc.or_(*(_has_bytes(blob) for blob in blobs)),
            pc.or_(subscription.is_valid(), assignment.is_valid()),
        )
        return _with_elements(array, "members", [subscription, assignment, kind], type_)

    def _with_protocols(self, array: pa.StructArray, type_: pa.StructType) -> pa.StructArray:
        classic = array.field("classic_member_metadata")
        protocols = classic.field("supported_protocols")
        blob = protocols.values.field("metadata")
        subscription = self.subscription.decode(blob)
        kind = metadata_kind(
            constant(CONSUMER, len(blob), pa.string()),
            protocols.values.field("name"),
            _has_bytes(blob),
            subscription.is_valid(),
        )
        inner = type_.field("classic_member_metadata").type
        return _with_field(
            array,
            "classic_member_metadata",
            _with_elements(classic, "supported_protocols", [subscription, kind], inner),
            type_,
        )


def _has_bytes(blobs: pa.Array) -> pa.Array:
    return pc.greater(pc.binary_length(blobs), 0).fill_null(False)


def control_columns(
    plan: ControlPlan, fields: Mapping[str, pa.DataType], keys: pa.Array, values: pa.Array
) -> dict[str, pa.Array]:
    """The columns ``fields`` of control records, ``keys`` and ``values`` (binary[n]), that can be
    decoded.

    ``fields`` are the `ControlPlan.fields` of the shipped dialect, which are the table's columns. A
    field that only another dialect has is in the raw bytes alone."""
    decoded = decode(plan.plan, keys, values)
    columns: dict[str, pa.Array] = {
        "kind": kind_column(plan.plan, row_types(decoded)),
        "dialect": pa.array(np.full(decoded.count, plan.plan.dialect, dtype=object), pa.string()),
        "group_id": key_column(decoded, None, pa.string()),
        "member_id": key_column(decoded, "member_id", pa.string()),
        "regular_expression": key_column(decoded, "regular_expression", pa.string()),
        "tombstone": pa.array(decoded.tombstone),
    }
    for kind, type_ in fields.items():
        if kind in columns:
            continue
        parts = [
            (part.rows, conform(table_column(plan.expand(part)), type_))
            for part in decoded.values
            if part.plan.kind == kind
        ]
        columns[kind] = scatter(parts, decoded.count, type_)
    return columns


def conform(array: pa.Array, type_: pa.DataType) -> pa.Array:
    """``array`` with exactly the fields of ``type_``, matched by name: missing fields are null,
    others are dropped."""
    if array.type == type_:
        return array
    mask = array.is_null() if array.null_count else None
    if pa.types.is_list(type_):
        elements = conform(array.values, type_.value_type)
        return pa.ListArray.from_arrays(array.offsets, elements, type=type_, mask=mask)
    if pa.types.is_struct(type_):
        children = [
            conform(array.field(f.name), f.type)
            if f.name in array.type.names
            else pa.nulls(len(array), f.type)
            for f in type_
        ]
        return pa.StructArray.from_arrays(children, fields=list(type_), mask=mask)
    return array.cast(type_)


def _replace_field(type_: pa.StructType, name: str, field_type: pa.DataType) -> pa.StructType:
    return pa.struct([pa.field(f.name, field_type if f.name == name else f.type) for f in type_])


def _with_field(
    array: pa.StructArray, name: str, field: pa.Array, type_: pa.StructType
) -> pa.StructArray:
    """``array`` with its field ``name`` replaced."""
    children = [field if f.name == name else array.field(f.name) for f in array.type]
    mask = array.is_null() if array.null_count else None
    return pa.StructArray.from_arrays(children, fields=list(type_), mask=mask)


def _with_elements(
    array: pa.StructArray, name: str, added: Sequence[pa.Array], type_: pa.StructType
) -> pa.StructArray:
    """``array`` with the fields ``added`` in the structs of its list ``name``."""
    old = array.field(name)
    list_type = type_.field(name).type
    structs = old.values
    children = [structs.field(i) for i in range(structs.type.num_fields)]
    elements = pa.StructArray.from_arrays([*children, *added], fields=list(list_type.value_type))
    mask = old.is_null() if old.null_count else None
    lists = pa.ListArray.from_arrays(old.offsets, elements, type=list_type, mask=mask)
    return _with_field(array, name, lists, type_)
