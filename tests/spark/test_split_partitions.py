"""A large partition is read by several tasks, several small ones by one task, and the tables are
those of a task for each partition."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from confluent_kafka import Producer
from deltalake import DeltaTable
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from kip848_spark.kafka.admin import Cluster
from kip848_spark.kafka.topic import OffsetRange
from kip848_spark.local.broker import Broker
from kip848_spark.local.testbed import create_topics
from kip848_spark.simulation import plan_cluster, simulate
from kip848_spark.spark import split_partitions
from kip848_spark.spark.jobs import ingest
from kip848_spark.spark.pipeline import run_ingest
from kip848_spark.spark.sources import KafkaSource
from kip848_spark.spark.split_partitions import plan_splits, split_ranges
from kip848_spark.spark.storage.opening import open_lake
from kip848_spark.wire.offset_gaps import GapFinder
from tests.spark.lakes import OF_THE_RUN, TABLES_OF_RECORDS, assert_same_rows

PARTITIONS = 2
MILLION = 1_000_000


@pytest.fixture
def small_ranges(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lets partitions of a few thousand records be split."""
    monkeypatch.setattr(split_partitions, "MIN_OFFSETS", 300)
    monkeypatch.setattr(split_partitions, "_WINDOW", 200)
    monkeypatch.setattr(split_partitions, "_RANGES_PER_CORE", 4)
    monkeypatch.setattr(split_partitions, "_TOLERATED", 0.1)


def fill(broker: Broker, topic: str, records: pa.Table, partitions: int = PARTITIONS) -> None:
    """Sends keys and values to ``topic``: most plainly, every 20th in a transaction of its own, of
    which every fourth is aborted."""
    create_topics(Cluster(broker.bootstrap), {topic: partitions})
    plain = Producer({"bootstrap.servers": broker.bootstrap, "linger.ms": 5})
    settings = {"bootstrap.servers": broker.bootstrap, "transactional.id": f"{topic}-test"}
    transactional = Producer(settings)
    transactional.init_transactions(30)
    for number, row in enumerate(records.to_pylist()):
        key, value, partition = row["key"], row["value"], row["partition"]
        if number % 20:
            plain.produce(topic, value, key, partition)
            continue
        assert plain.flush(30) == 0
        transactional.begin_transaction()
        transactional.produce(topic, value, key, partition)
        assert transactional.flush(30) == 0
        if number % 80:
            transactional.commit_transaction(30)
        else:
            transactional.abort_transaction(30)
    assert plain.flush(30) == 0


@pytest.mark.slow
def test_a_split_topic_gives_the_tables_of_one_that_is_read_whole(
    broker: Broker, spark: SparkSession, tmp_path: Path, small_ranges: None
) -> None:
    simulate(plan_cluster("chaos", 6_000, 5, partitions=PARTITIONS), tmp_path / "capture")
    files = sorted((tmp_path / "capture").glob("partition-*.parquet"))
    fill(broker, "split", pa.concat_tables(map(pq.read_table, files)))
    source = KafkaSource(broker.bootstrap, "split")
    ranges = [OffsetRange(p, e.first, e.end) for p, e in source.extents(spark).items()]
    splits = split_partitions.split_partitions(source, spark, ranges)
    planned = plan_splits(ranges, spark.sparkContext.defaultParallelism)
    further = {partition: len(starts) for partition, starts in planned.items()}
    assert len(further) == PARTITIONS
    assert {partition: len(starts) for partition, starts in splits.items()} == further
    tasks = source.read(spark, split_ranges(ranges, splits)).rdd.getNumPartitions()
    assert tasks == PARTITIONS + sum(further.values())
    split = open_lake(spark, str(tmp_path / "split"))
    read = run_ingest(source, split, then_replay=True).run
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(split_partitions, "MIN_OFFSETS", MILLION)
        whole = open_lake(spark, str(tmp_path / "whole"))
        expected = run_ingest(source, whole, then_replay=True).run
    assert read is not None
    assert expected is not None
    assert read.counts == expected.counts
    assert_same_rows(split, whole, tables=[t for t in TABLES_OF_RECORDS if t != "topics"])

    # If the cleaner removes the record that a range begins after, the gap before it is still there.
    rows = whole.read("gaps").where("partition = 0").orderBy("first_offset").collect()
    removed = rows[len(rows) // 2]
    cut = open_lake(spark, str(tmp_path / "cut"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ingest, "split_partitions", lambda *_: {0: [removed["last_offset"] + 1]})
        run_ingest(source, cut)
    assert_same_rows(cut, whole, tables=["gaps"], leave_out=(*OF_THE_RUN, "cause"))
    found = cut.read("gaps").where(f"partition = 0 AND first_offset = {removed['first_offset']}")
    assert [row["cause"] for row in found.collect()] == ["compaction"]


@pytest.mark.slow
def test_small_partitions_share_a_task_and_its_files(
    broker: Broker, spark: SparkSession, tmp_path: Path
) -> None:
    simulate(plan_cluster("chaos", 3_000, 6, partitions=4), tmp_path / "capture")
    files = sorted((tmp_path / "capture").glob("partition-*.parquet"))
    records = pa.concat_tables(map(pq.read_table, files))
    fill(broker, "small", records, partitions=4)
    source = KafkaSource(broker.bootstrap, "small")
    shared = open_lake(spark, str(tmp_path / "shared"))
    read = run_ingest(source, shared, then_replay=True).run
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ingest, "OFFSETS_PER_TASK", 1)
        apart = open_lake(spark, str(tmp_path / "apart"))
        expected = run_ingest(source, apart, then_replay=True).run
    assert read is not None
    assert expected is not None
    assert read.counts == expected.counts
    assert_same_rows(shared, apart, tables=[t for t in TABLES_OF_RECORDS if t != "topics"])
    partitions = pc.count_distinct(records["partition"]).as_py()
    assert partitions > 1
    # Offset commits are in files of their own.
    for table, kinds in {"records": 2, "group_records": 1, "commit_summaries": 1}.items():
        counts = [len(DeltaTable(f"{lake.path}/{table}").file_uris()) for lake in (shared, apart)]
        assert counts == [kinds, kinds * partitions], table


@pytest.mark.slow
def test_a_partition_is_not_split_before_a_key_occurs_twice(
    broker: Broker, spark: SparkSession, small_ranges: None
) -> None:
    """The causes of gaps depend on all records before them."""
    keys = [b"%d" % (number if number < 2_000 else number % 50) for number in range(4_000)]
    fill(broker, "cleaned", pa.table({"partition": [0] * len(keys), "key": keys, "value": keys}))
    source = KafkaSource(broker.bootstrap, "cleaned")
    ranges = [OffsetRange(p, e.first, e.end) for p, e in source.extents(spark).items()]
    (planned,) = plan_splits(ranges, spark.sparkContext.defaultParallelism).values()
    (splits,) = split_partitions.split_partitions(source, spark, ranges).values()
    second_half = ranges[0].end // 2
    assert any(start < second_half - 200 for start in planned)
    assert splits
    assert all(start > second_half for start in splits)


@given(st.dictionaries(st.integers(0, 49), st.integers(0, 2**36), min_size=1), st.integers(1, 256))
def test_ranges_keep_all_cores_busy(sizes: dict[int, int], cores: int) -> None:
    ranges = [OffsetRange(partition, 7, 7 + size) for partition, size in sizes.items()]
    planned = plan_splits(ranges, cores)
    parts = split_ranges(ranges, planned)
    share = max(sum(sizes.values()) / cores, MILLION)
    for r in ranges:
        own = [part for part in parts if part.partition == r.partition]
        assert own[0].start == r.start
        assert own[-1].end == r.end
        assert all(one.end == other.start for one, other in pairwise(own))
        lengths = [part.end - part.start for part in own]
        if len(own) > 1:
            assert min(lengths) >= 0.75 * MILLION
        if len(own) < split_partitions._MOST_RANGES:
            assert max(lengths) <= share * 2


def test_small_topics_and_equal_partitions_are_not_split() -> None:
    equal = [OffsetRange(number, 0, 10 * MILLION) for number in range(50)]
    assert plan_splits(equal, 16) == {}
    assert plan_splits([OffsetRange(0, 0, MILLION)], 16) == {}
    whole = [OffsetRange(0, 0, 100 * MILLION)]
    assert plan_splits(whole, 2) == {}
    assert plan_splits(whole, 4) == {0: [number * 12_500_000 for number in range(1, 8)]}
    hot = [*equal, OffsetRange(50, 0, 500 * MILLION)]
    assert plan_splits(hot, 2) == {}
    assert {number: len(starts) for number, starts in plan_splits(hot, 16).items()} == {50: 15}


@given(st.data())
def test_gaps_of_a_split_partition_are_those_of_the_whole_one(data: st.DataObject) -> None:
    """A range begins after a record that comes after the second record of some key."""
    offsets = sorted(data.draw(st.sets(st.integers(2, 80), min_size=3)))
    keys = [data.draw(st.integers(0, 3)) for _ in offsets]
    keys[1] = keys[0]
    places = sorted(data.draw(st.sets(st.integers(2, len(offsets) - 1), max_size=3)))
    splits = {5: [offsets[place - 1] + 1 for place in places]}

    def find(first: int, end: int, of: GapFinder) -> list[tuple[object, object]]:
        partition = np.full(end - first, 5, np.int32)
        offset, key = np.array(offsets[first:end]), np.array(keys[first:end], np.int32)
        missing, cause = of.find(partition, offset, key)
        return list(zip(missing.to_pylist(), cause.to_pylist(), strict=True))

    whole = find(0, len(offsets), GapFinder({5: 0}))
    found = [
        row
        for first, end in pairwise([0, *places, len(offsets)])
        for row in find(first, end, GapFinder({5: 0}, splits))
    ]
    assert found == whole
