"""Types of a query's result: their names in Spark, and DuckDB's types as Spark's."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from kip848_spark.lake.sql.rules import NotTranslatable

_NAMES = {
    pa.int8(): "tinyint",
    pa.int16(): "smallint",
    pa.int32(): "int",
    pa.int64(): "bigint",
    pa.float32(): "float",
    pa.float64(): "double",
    pa.bool_(): "boolean",
    pa.date32(): "date",
    pa.null(): "void",
}
_HUGE = pa.decimal128(38, 0)
"""The Arrow type of DuckDB's sums of whole numbers. Spark's are bigint."""


def spark_name(type_: pa.DataType) -> str:
    """The name of an Arrow type in Spark SQL: ``array<struct<topic:string>>``."""
    if pa.types.is_list(type_) or pa.types.is_large_list(type_):
        return f"array<{spark_name(type_.value_type)}>"
    if pa.types.is_map(type_):
        return f"map<{spark_name(type_.key_type)},{spark_name(type_.item_type)}>"
    if pa.types.is_struct(type_):
        fields = (f"{field.name}:{spark_name(field.type)}" for field in type_)
        return f"struct<{','.join(fields)}>"
    if pa.types.is_timestamp(type_):
        return "timestamp" if type_.tz else "timestamp_ntz"
    if pa.types.is_decimal(type_):
        return f"decimal({type_.precision},{type_.scale})"
    if pa.types.is_string(type_) or pa.types.is_large_string(type_):
        return "string"
    if pa.types.is_binary(type_) or pa.types.is_large_binary(type_):
        return "binary"
    return _NAMES.get(type_, str(type_))


def spark_schema(schema: pa.Schema) -> pa.Schema:
    """The schema of a result as Spark has it. Raises NotTranslatable if a column is of a type that
    only DuckDB has, or that it does not treat as Spark does."""
    return pa.schema([pa.field(field.name, _spark_type(field.type)) for field in schema])


def as_spark(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """``batch`` with the types of `spark_schema`. Raises ArrowInvalid if a sum is too large."""
    columns = [
        column if column.type == field.type else pc.cast(column, field.type)
        for column, field in zip(batch.columns, schema, strict=True)
    ]
    return pa.record_batch(columns, schema=schema)


def _spark_type(type_: pa.DataType) -> pa.DataType:
    if type_ == _HUGE:
        return pa.int64()
    if pa.types.is_list(type_):
        return pa.list_(_spark_type(type_.value_type))
    if pa.types.is_map(type_):
        return pa.map_(_spark_type(type_.key_type), _spark_type(type_.item_type))
    if pa.types.is_struct(type_):
        return pa.struct([pa.field(field.name, _spark_type(field.type)) for field in type_])
    if pa.types.is_timestamp(type_):
        if type_.tz:
            return pa.timestamp("us", "UTC")
    elif type_ in _NAMES or pa.types.is_string(type_) or pa.types.is_binary(type_):
        return type_
    raise NotTranslatable(f"a result of the type {spark_name(type_)}")
