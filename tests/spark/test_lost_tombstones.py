"""Tombstones that the log cleaner removed between two runs are inferred."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from unittest.mock import Mock

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import NewTopic
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from kip848_spark.kafka.admin import OFFSETS_TOPIC, admin_client
from kip848_spark.local.broker import Broker
from kip848_spark.local.consumer_process import ConsumerProcess
from kip848_spark.simulation import plan_cluster, simulate
from kip848_spark.spark import pipeline
from kip848_spark.spark.jobs import lost_tombstones
from kip848_spark.spark.jobs.lost_tombstones import Survey
from kip848_spark.spark.pipeline import run_ingest, run_replay
from kip848_spark.spark.sources import KafkaSource
from kip848_spark.spark.storage.opening import open_lake
from kip848_spark.spark.storage.tables import LakeTables
from tests.spark.lakes import TABLES_OF_RECORDS, assert_same_rows, rows, source

pytestmark = pytest.mark.slow

STATE = ("groups", "members", "assignments", "offsets")


def clean(log: pa.Table, upto: int) -> pa.Table:
    """What the log cleaner leaves of the records up to an offset once it may remove tombstones: the
    newest record of each key unless it is a tombstone; and all later records."""
    records = log.to_pylist()
    newest = {(r["partition"], r["key"]): r["offset"] for r in records if r["offset"] <= upto}
    left = [
        r
        for r in records
        if r["offset"] > upto
        or (newest[r["partition"], r["key"]] == r["offset"] and r["value"] is not None)
    ]
    return pa.Table.from_pylist(left, log.schema)


def lost_deletions(log: pa.Table, read: int, cleaned: int) -> int:
    """The number of keys that had a value at the offset ``read``, and whose newest record in
    ``log`` is a tombstone up to the offset ``cleaned``."""
    before: dict[tuple[int, bytes], bool] = {}
    newest: dict[tuple[int, bytes], tuple[int, bool]] = {}
    for row in log.to_pylist():
        key = row["partition"], row["key"]
        newest[key] = row["offset"], row["value"] is None
        if row["offset"] <= read:
            before[key] = row["value"] is not None
    return sum(
        deleted and offset <= cleaned and before.get(key, False)
        for key, (offset, deleted) in newest.items()
    )


def survey_of(
    spark: SparkSession, capture: Path, read: int
) -> Callable[..., AbstractContextManager[Survey]]:
    """`survey_if_late` of a cluster whose topic is ``capture``; the lake has read the offsets up to
    ``read``."""

    @contextmanager
    def survey(*_: object) -> Iterator[Survey]:
        places = spark.read.parquet(str(capture)).select("partition", "offset")
        first = {row["partition"]: 0 for row in places.select("partition").distinct().collect()}
        yield Survey(datetime.now(UTC), places.where(F.col("offset") <= read), first)

    return survey


@pytest.mark.parametrize(
    ("profile", "seed", "by_spark"),
    [
        ("chaos", 1, False),
        ("migration", 6, False),
        ("types", 1, False),
        pytest.param("chaos", 6, False, marks=pytest.mark.long),
        pytest.param("churn", 1, False, marks=pytest.mark.long),
        pytest.param("types", 6, True, marks=pytest.mark.long),
    ],
)
def test_the_state_is_that_of_the_whole_log(
    profile: str,
    seed: int,
    by_spark: bool,
    spark: SparkSession,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    simulate(plan_cluster(profile, 6_000, seed, partitions=3), tmp_path / "capture")
    files = sorted((tmp_path / "capture").glob("partition-*.parquet"))
    log = pa.concat_tables(map(pq.read_table, files))
    ends = (int(np.quantile(log["offset"].to_numpy(), part)) for part in (0.4, 0.8, 0.9))
    read, cleaned, late = ends
    then, left = log.filter(pc.less_equal(log["offset"], late)), clean(log, cleaned)
    parts = {
        "first": log.filter(pc.less_equal(log["offset"], read)),
        "second": left.filter(pc.less_equal(left["offset"], late)),
        "third": left,
        "whole": log,
    }
    for name, table in parts.items():
        pq.write_table(table, tmp_path / f"{name}.parquet")
    first, second, third, whole = (tmp_path / f"{name}.parquet" for name in parts)

    truth = open_lake(spark, str(tmp_path / "truth"))
    run_ingest(source(whole), truth, then_replay=True)
    lake = open_lake(spark, str(tmp_path / "lake"), by_spark=by_spark)
    run_ingest(source(first), lake, then_replay=True)
    with monkeypatch.context() as patched:
        patched.setattr(pipeline, "survey_if_late", survey_of(spark, second, read))
        night = partial(run_ingest, source(second), lake, then_replay=True, then_audit=True)
        with pytest.MonkeyPatch.context() as killed:
            killed.setattr(pipeline, "replay", Mock(side_effect=KeyboardInterrupt))
            with pytest.raises(KeyboardInterrupt):
                night()
        done = night()
    assert done.missed_since is None
    assert done.run is not None
    assert done.run.counts is not None
    inferred = lake.read("records").where("inferred").toArrow()
    assert len(inferred) == done.run.counts.inferred == lost_deletions(then, read, cleaned) > 0

    next_night = run_ingest(source(third), lake, then_replay=True, then_audit=True)
    assert next_night.run is not None
    assert next_night.run.counts is not None
    assert next_night.run.counts.inferred == 0
    assert_same_rows(lake, truth, tables=STATE)
    assert rows(lake, "findings") == []
    read_again = {(row["partition"], row["offset"]) for row in left.to_pylist()}
    for row in inferred.to_pylist():
        place = row["partition"], row["offset"]
        assert place not in read_again
        assert read < row["offset"] <= cleaned
        assert row["tombstone"]

    assert_what_ended_was_gone(lake, truth)
    assert_from_scratch_is_the_same(lake)


def assert_what_ended_was_gone(lake: LakeTables, truth: LakeTables) -> None:
    """What has ended in the history of ``lake`` did not exist at that time, by that of the whole
    log; unless the history says that its end was not seen."""
    for table, key in (
        ("group_history", ["group_id"]),
        ("member_history", ["group_id", "member_id"]),
    ):
        history, whole = (one.read(table).toPandas() for one in (lake, truth))
        places = history[["partition", "from_offset", *key]].itertuples(index=False)
        begun = set(map(tuple, places))
        ended = history[history["to_offset"].notna()]
        assert ended["known_to"].notna().any()
        assert (ended["known_to"].isna() | (ended["known_to"] == ended["valid_to"])).all()
        for row in ended[ended["known_to"].isna()].to_dict("records"):
            if (row["partition"], row["to_offset"], *(row[k] for k in key)) in begun:
                continue
            same = whole[(whole[key] == [row[k] for k in key]).all(axis="columns")]
            there = same[(same["valid_from"] < row["valid_to"])]
            there = there[there["valid_to"].isna() | (there["valid_to"] > row["valid_to"])]
            assert there.empty, (row, there)


def assert_from_scratch_is_the_same(lake: LakeTables) -> None:
    before = {table: rows(lake, table) for table in TABLES_OF_RECORDS}
    run_replay(lake, from_scratch=True)
    for table, expected in before.items():
        assert rows(lake, table) == expected, table


CLEANED = {
    "log.cleaner.enable": "true",
    "log.roll.ms": "1000",  # the cleaner leaves the newest segment alone
    "log.cleaner.min.cleanable.ratio": "0.01",
    "log.cleaner.backoff.ms": "200",
    "log.cleaner.delete.retention.ms": "100",
}
TOPIC = "orders"


def consumer(stack: ExitStack, broker: Broker, group: str, protocol: str) -> ConsumerProcess:
    """A member of ``group`` that has committed an offset of each of its partitions."""
    started = ConsumerProcess(broker.bootstrap, group, [TOPIC], protocol=protocol)
    stack.callback(started.close)
    started.commit((topic, number, 5, "") for topic, number in started.wait_for_partitions())
    return started


def tombstones_from(bootstrap: str, start: int) -> int:
    """How many tombstones the topic of offsets, of one partition, has from an offset on."""
    settings = {"bootstrap.servers": bootstrap, "group.id": "none", "enable.auto.commit": False}
    reader = Consumer(settings | {"enable.partition.eof": True})
    reader.assign([TopicPartition(OFFSETS_TOPIC, 0, start)])
    found = 0
    while (message := reader.poll(10)) is not None and message.error() is None:
        found += message.value() is None
    reader.close()
    assert message is not None
    return found


def test_a_real_log_cleaner(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Groups of both protocols end, a member leaves, and the cleaner removes all tombstones."""
    with Broker(settings=CLEANED, offsets_partitions=1) as broker, ExitStack() as stack:
        admin = admin_client(broker.bootstrap)
        admin.create_topics([NewTopic(TOPIC, 4, 1)])[TOPIC].result(30)
        consumer(stack, broker, "stays", "consumer")
        consumer(stack, broker, "shrinks", "consumer")
        leaves = consumer(stack, broker, "shrinks", "consumer")
        ended = [
            consumer(stack, broker, "ended", "consumer"),
            consumer(stack, broker, "ended-classic", "classic"),
        ]
        busy = ConsumerProcess(broker.bootstrap, "busy")
        stack.callback(busy.close)
        busy.assign([(TOPIC, 0)])
        busy.commit([(TOPIC, 0, 0, "")])

        lake = open_lake(spark, str(tmp_path / "lake"))
        cluster = KafkaSource(broker.bootstrap)
        first = run_ingest(cluster, lake, then_replay=True)
        assert first.run is not None
        (read,) = first.run.ranges
        shutil.copytree(tmp_path / "lake", tmp_path / "in-time")
        for one in (leaves, *ended):
            one.close()
        for future in admin.delete_consumer_groups([one.group for one in ended]).values():
            future.result(30)
        assert tombstones_from(broker.bootstrap, read.end) > 0
        deadline = time.monotonic() + 120
        while tombstones_from(broker.bootstrap, read.end):
            assert time.monotonic() < deadline
            busy.commit([(TOPIC, 0, int(time.time()), "")])
            time.sleep(0.5)

        night = partial(run_ingest, cluster, then_replay=True, then_audit=True)
        in_time = night(open_lake(spark, str(tmp_path / "in-time")))
        monkeypatch.setattr(lost_tombstones, "RETENTION", timedelta(0))
        monkeypatch.setattr(lost_tombstones, "LATE", timedelta(0))
        late = night(lake)
        new = open_lake(spark, str(tmp_path / "new"))
        run_ingest(cluster, new, then_replay=True)
    assert in_time.live is not None
    assert {one.group_id for one in in_time.live.differences} >= {"ended", "ended-classic"}
    assert late.live is not None
    assert late.live.differences == []
    assert late.live.same > 10
    assert late.missed_since is None
    assert_same_rows(lake, new, tables=STATE)
    assert rows(lake, "findings") == []
    assert_from_scratch_is_the_same(lake)
