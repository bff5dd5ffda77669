"""Spark types of a lake's tables, and columns that all rows of a run share."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T
from pyspark.sql.pandas.types import from_arrow_schema

from kip848_spark.lake.tables import TABLES, TableDefinition


def spark_schema(table: TableDefinition) -> T.StructType:
    """The Spark type of a row of ``table``; the metadata of each field has its comment."""
    comments = table.comments
    schema = T.StructType()
    for field in from_arrow_schema(table.schema).fields:
        schema.add(field.name, field.dataType, True, {"comment": comments[field.name]})
    return schema


def with_constants(table: str, rows: DataFrame, run_id: str, cluster_id: str | None) -> DataFrame:
    """``rows`` with the columns ``run_id`` and ``cluster_id``, as far as ``table`` has them."""
    constants = {"run_id": run_id, "cluster_id": cluster_id}
    return rows.withColumns(
        {
            name: F.lit(value).cast("string")
            for name, value in constants.items()
            if name in TABLES[table].fields
        }
    )
