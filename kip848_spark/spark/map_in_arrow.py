"""Applies functions of Arrow batches in Spark's Python workers."""

from __future__ import annotations

import gc

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import types as T
from pyspark.sql.pandas.types import from_arrow_schema

from kip848_spark.wire.batches import Batches, BatchFunction


def map_in_arrow(
    rows: DataFrame, function: BatchFunction, schema: pa.Schema | T.StructType
) -> DataFrame:
    """Applies ``function`` to the Arrow batches of each partition of ``rows``; its batches have the
    columns of ``schema``."""
    type_ = schema if isinstance(schema, T.StructType) else from_arrow_schema(schema)
    return rows.mapInArrow(_with_frozen_heap(function), type_)


def _with_frozen_heap(function: BatchFunction) -> BatchFunction:
    def run(batches: Batches) -> Batches:
        # After each task, PySpark runs the garbage collector over all objects of the worker, most
        # of them modules. That takes longer than a small task. Freezing excludes these objects.
        gc.freeze()
        yield from function(batches)

    return run
