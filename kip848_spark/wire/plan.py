"""How the records of a dialect are decoded, and the rows that decoding yields."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import pyarrow as pa

from kip848_spark.wire.array_types import BoolArray, Int64Array
from kip848_spark.wire.definitions import Dialect, RecordDefinition, Versions
from kip848_spark.wire.layout import StructNode, message_layout, message_type
from kip848_spark.wire.reader import ProgramTable


@dataclass(frozen=True)
class RecordPlan:
    """How one kind of record is decoded: the layout of its key, and of each version of its value.

    ``value_type`` is the Arrow type that every version decodes to."""

    key_type: int
    kind: str
    key: StructNode
    values: dict[int, StructNode]
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
class DecodePlan:
    """How the records of a dialect are decoded: a `RecordPlan` for each key type. It pickles."""

    dialect: str
    records: dict[int, RecordPlan]

    @classmethod
    def of(cls, dialect: Dialect) -> DecodePlan:
        return cls(
            dialect.name, {key: RecordPlan.of(record) for key, record in dialect.records.items()}
        )

    @cached_property
    def known_formats(self) -> str:
        """The key types and the value versions of each, as text: ``0:0,1 3:0``. A version of this
        program that knows more has another text."""
        return " ".join(
            f"{key_type}:{','.join(map(str, sorted(record.values)))}"
            for key_type, record in sorted(self.records.items())
        )

    @cached_property
    def key_programs(self) -> ProgramTable:
        """The programs for keys, by key type."""
        return ProgramTable([{key_type: record.key for key_type, record in self.records.items()}])

    @cached_property
    def value_programs(self) -> ProgramTable:
        """The programs for values, by version, with a line for each key type."""
        return ProgramTable([record.values for record in self.records.values()])


@dataclass(frozen=True)
class DecodedRows:
    """The decoded rows of one key type and, for values, of one version.

    ``rows``: int64[m], their numbers in the batch. ``fields``: an Arrow array of m values for each
    field of ``struct``, the layout of the key or the value."""

    plan: RecordPlan
    version: int
    rows: Int64Array
    struct: StructNode
    fields: list[pa.Array]

    def field(self, column: str) -> pa.Array:
        """The array of the field that is called ``column``. Raises KeyError if there is none."""
        for slot, array in zip(self.struct.slots, self.fields, strict=True):
            if slot.column == column:
                return array
        raise KeyError(column)

    def has(self, column: str) -> bool:
        """Whether any version of the message has such a field."""
        return any(slot.column == column for slot in self.struct.slots)

    def as_struct(self) -> pa.StructArray:
        """struct[m]: the fields as one array."""
        return pa.StructArray.from_arrays(self.fields, fields=list(self.struct.arrow))

    def without(self, failed: BoolArray) -> DecodedRows:
        """These rows without those for which ``failed`` (bool[m]) is true."""
        keep = ~failed
        if keep.all():
            return self
        mask = pa.array(keep)
        fields = [array.filter(mask) for array in self.fields]
        return DecodedRows(self.plan, self.version, self.rows[keep], self.struct, fields)
