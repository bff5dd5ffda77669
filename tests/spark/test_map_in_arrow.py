"""What every function that Spark's Python workers apply is wrapped in."""

from __future__ import annotations

import gc
import os

import pyarrow as pa
from pyspark.sql import SparkSession

from kip848_spark.spark.map_in_arrow import map_in_arrow
from kip848_spark.wire.batches import Batches

SEEN = pa.schema(
    {"id": pa.int64(), "worker": pa.int64(), "looked_at": pa.int64(), "left_out": pa.int64()}
)


def _seen(batches: Batches) -> Batches:
    looked_at, left_out = len(gc.get_objects()), gc.get_freeze_count()
    for batch in batches:
        rows = [batch["id"], *([n] * batch.num_rows for n in (os.getpid(), looked_at, left_out))]
        yield pa.record_batch(rows, schema=SEEN)


def test_a_workers_modules_are_left_out_of_what_is_looked_at_after_a_task(
    spark: SparkSession,
) -> None:
    tasks = 8
    rows = map_in_arrow(spark.range(0, tasks, 1, tasks), _seen, SEEN).collect()
    assert [row["id"] for row in rows] == list(range(tasks))
    assert os.getpid() not in {row["worker"] for row in rows}
    assert all(row["left_out"] > 10 * row["looked_at"] for row in rows)
