"""Functions that Spark's Python workers apply: Arrow batches in, Arrow batches out."""

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
    """What ``function`` gives for the batches of each partition of ``rows``, by ``schema``."""
    type_ = schema if isinstance(schema, T.StructType) else from_arrow_schema(schema)
    return rows.mapInArrow(_with_frozen_heap(function), type_)


def _with_frozen_heap(function: BatchFunction) -> BatchFunction:
    def run(batches: Batches) -> Batches:
        # After a task PySpark looks for cycles among all that there is in a worker, most of it
        # modules, which takes longer than a small task. What is there by now is left out of it.
        gc.freeze()
        yield from function(batches)

    return run
