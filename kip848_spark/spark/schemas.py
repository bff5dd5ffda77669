"""Spark types of a lake's tables."""

from __future__ import annotations

from pyspark.sql import types as T
from pyspark.sql.pandas.types import from_arrow_schema

from kip848_spark.lake.tables import TableDefinition


def spark_schema(table: TableDefinition) -> T.StructType:
    """The Spark type of a row of ``table``; the metadata of each field has its comment."""
    comments = table.comments
    schema = T.StructType()
    for field in from_arrow_schema(table.schema).fields:
        schema.add(field.name, field.dataType, True, {"comment": comments[field.name]})
    return schema
