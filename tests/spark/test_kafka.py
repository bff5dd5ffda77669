"""The nightly job on a real broker's topic, through Spark's Kafka source."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from kip848_spark.audit.live import NO_NAME
from kip848_spark.errors import SourceError
from kip848_spark.kafka import ClientSettings
from kip848_spark.live import OFFSETS_TOPIC
from kip848_spark.local.broker import Broker
from kip848_spark.local.member import Member
from kip848_spark.local.scenarios import Quiet
from kip848_spark.spark.comparing import compare_live
from kip848_spark.spark.lake import Lake
from kip848_spark.spark.runner import run_ingest
from kip848_spark.spark.sources import KafkaSource
from tests.spark.lakes import as_dicts


def source(broker: Broker) -> KafkaSource:
    return KafkaSource(broker.bootstrap, OFFSETS_TOPIC, ClientSettings())


def test_agrees_with_the_live_broker_night_after_night(
    quiet: Quiet, broker: Broker, spark: SparkSession, tmp_path: Path
) -> None:
    lake = Lake(spark, str(tmp_path / "lake"))
    first = run_ingest(source(broker), lake, then_replay=True)
    assert first.run is not None
    comparison = compare_live(lake, source(broker), first.run)
    assert [str(difference) for difference in comparison.differences] == []
    assert not comparison.unjudged.keys() - {NO_NAME}
    assert comparison.compared["groups"] > 10
    assert first.run.identity.cluster_id == broker.cluster_id
    assert first.run.identity.topic_id

    late = Member(broker.bootstrap, "spark.late", ["foo"], protocol="consumer")
    try:
        late.transact("spark-late", [("foo", 0, 77, "")], commit=True)
        late.transact("spark-late", [("foo", 0, 99, "")], commit=False)
    finally:
        late.close()
    second = run_ingest(source(broker), lake, then_replay=True)
    assert second.changed
    assert second.run is not None
    assert second.run.counts is not None
    assert 0 < second.run.counts.records_read < 30
    late_offsets = [row for row in as_dicts(lake, "offsets") if row["group_id"] == "spark.late"]
    assert [row["committed_offset"] for row in late_offsets] == [77]
    assert [str(d) for d in compare_live(lake, source(broker), second.run).differences] == []
    assert not run_ingest(source(broker), lake, then_replay=True).changed


def test_reading_nothing_is_never_success(
    quiet: Quiet, broker: Broker, spark: SparkSession, tmp_path: Path
) -> None:
    """Without its setting, Spark's Kafka source leaves internal topics out."""
    name = "spark.sql.streaming.kafka.useDeprecatedOffsetFetching"
    spark.conf.set(name, "false")
    lake = Lake(spark, str(tmp_path / "lake"))
    try:
        with pytest.raises(Exception) as caught:  # noqa: PT011 - Spark's own, or ours
            run_ingest(source(broker), lake, then_replay=True)
    finally:
        spark.conf.set(name, "true")
    assert not isinstance(caught.value, AssertionError)
    assert [row["outcome"] for row in as_dicts(lake, "runs")] == ["planned"]
    assert run_ingest(source(broker), lake, then_replay=True).changed


def test_a_topic_that_is_not_there(broker: Broker, spark: SparkSession, tmp_path: Path) -> None:
    missing = KafkaSource(broker.bootstrap, "no-such-topic", ClientSettings())
    with pytest.raises(SourceError, match="no-such-topic"):
        run_ingest(missing, Lake(spark, str(tmp_path / "lake")))
    assert not (tmp_path / "lake").exists()
