"""How a dialect is read, and what reading gives: plain data, made once and handed around."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import pyarrow as pa

from kip848_spark.wire.definitions import Dialect, RecordDefinition, Versions
from kip848_spark.wire.faults import Mask, Rows
from kip848_spark.wire.layout import Struct, message_layout, message_type
from kip848_spark.wire.reader import Programs


@dataclass(frozen=True)
class RecordPlan:
    """How one kind of record is read: the layout of its key, and of each version of its value."""

    key_type: int
    kind: str
    key: Struct
    values: dict[int, Struct]
    value_type: pa.StructType

    @classmethod
    def of(cls, record: RecordDefinition) -> RecordPlan:
        valid: Versions = record.value.valid
        return cls(
            key_type=record.key_type,
            kind=record.kind,
            key=message_layout(record.key, record.key.valid.low),
            values={version: message_layout(record.value, version) for version in valid},
            value_type=message_type(record.value),
        )


@dataclass(frozen=True)
class Plan:
    """How a dialect is read. Plain data: it pickles."""

    dialect: str
    records: dict[int, RecordPlan]

    @classmethod
    def of(cls, dialect: Dialect) -> Plan:
        return cls(
            dialect.name, {key: RecordPlan.of(record) for key, record in dialect.records.items()}
        )

    @cached_property
    def key_programs(self) -> Programs:
        """How keys are read, by key type."""
        return Programs([{key_type: record.key for key_type, record in self.records.items()}])

    @cached_property
    def value_programs(self) -> Programs:
        """How values are read: a line a record, by version."""
        return Programs([record.values for record in self.records.values()])


@dataclass(frozen=True)
class Part:
    """Rows of one key type and, for values, one version. ``fields`` has ``len(rows)`` rows."""

    plan: RecordPlan
    version: int
    rows: Rows
    struct: Struct
    fields: list[pa.Array]

    def field(self, column: str) -> pa.Array:
        """The column of that name. Raises KeyError if the message has no such field."""
        for slot, array in zip(self.struct.slots, self.fields, strict=True):
            if slot.column == column:
                return array
        raise KeyError(column)

    def has(self, column: str) -> bool:
        """True if the message has such a field, in whatever version."""
        return any(slot.column == column for slot in self.struct.slots)

    def as_struct(self) -> pa.StructArray:
        return pa.StructArray.from_arrays(self.fields, fields=list(self.struct.arrow))

    def without(self, failed: Mask) -> Part:
        """This part without those of its rows that failed."""
        keep = ~failed
        if keep.all():
            return self
        mask = pa.array(keep)
        fields = [array.filter(mask) for array in self.fields]
        return Part(self.plan, self.version, self.rows[keep], self.struct, fields)
