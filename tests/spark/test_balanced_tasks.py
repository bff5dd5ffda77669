"""The partitions of a capture are in tasks of about the same size."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from kip848_spark.kafka.admin import OFFSETS_TOPIC
from kip848_spark.kafka.topic import OffsetRange
from kip848_spark.spark.balanced_tasks import assign_tasks
from kip848_spark.spark.sources import CaptureSource

SIZES = {0: 10, 1: 10, 2: 60, 3: 10, 4: 10, 5: 20, 6: 0}
"""Partition 2 has half of all records."""


@given(st.dictionaries(st.integers(0, 10_000), st.integers(0, 2**40)), st.integers(1, 300))
def test_no_task_has_more_than_its_share_and_one_partition(
    sizes: dict[int, int], most: int
) -> None:
    tasks = assign_tasks(sizes, most)
    assert tasks.keys() == sizes.keys()
    loads = Counter[int]()
    for partition, task in tasks.items():
        loads[task] += max(sizes[partition], 1)
    number = min(most, len(sizes))
    assert sorted(loads) == list(range(number))
    assert [loads[task] for task in range(number)] == sorted(loads.values(), reverse=True)
    for task, load in loads.items():
        smallest = min(max(sizes[one], 1) for one in tasks if tasks[one] == task)
        assert (load - smallest) * number <= loads.total()


@pytest.mark.parametrize("tasks", [1, 2, 4, 30])
def test_a_capture_is_read_in_balanced_tasks(
    spark: SparkSession, tmp_path: Path, tasks: int
) -> None:
    rows = [
        (OFFSETS_TOPIC, partition, offset, bytes([offset]), None)
        for partition, size in SIZES.items()
        for offset in range(size)
    ]
    schema = "topic string, partition int, offset long, key binary, value binary"
    frame = spark.createDataFrame(rows, schema).withColumn("timestamp", F.current_timestamp())
    frame.write.parquet(str(tmp_path / "capture"))
    ranges = [OffsetRange(partition, 0, size) for partition, size in SIZES.items()]
    before = spark.conf.get("spark.sql.shuffle.partitions") or "2"
    spark.conf.set("spark.sql.shuffle.partitions", str(tasks))
    try:
        source = CaptureSource(str(tmp_path / "capture"), "parquet", OFFSETS_TOPIC)
        read = source.read(spark, ranges).select("partition", F.spark_partition_id()).collect()
    finally:
        spark.conf.set("spark.sql.shuffle.partitions", before)
    assert Counter(partition for partition, _ in read) == Counter(SIZES)
    tasks_of = {
        partition: {task for one, task in read if one == partition} for partition, _ in read
    }
    assert all(len(found) == 1 for found in tasks_of.values())
    if not hasattr(spark.range(1), "repartitionById"):  # Spark 4.0
        return
    loads = Counter(task for _, task in read)
    assert max(loads.values()) == max(*SIZES.values(), sum(SIZES.values()) // tasks)
    if tasks > 1:
        assert loads[0] == SIZES[2]
