"""Spark's Kafka source asks brokers that are gone: its wait ends with a sentence."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator
from types import SimpleNamespace
from typing import TYPE_CHECKING, cast

import pytest
from pyspark.sql import SparkSession

from kip848_spark.errors import SourceError
from kip848_spark.kafka.topic import OffsetRange
from kip848_spark.spark import offset_reader
from kip848_spark.spark.jobs import live_check
from kip848_spark.spark.offset_reader import bounded_offset_reader
from kip848_spark.spark.session_settings import prepared_session
from kip848_spark.spark.sources import KafkaSource

if TYPE_CHECKING:
    from kip848_spark.lake.ledger import Run
    from kip848_spark.spark.storage.tables import LakeTables


@pytest.fixture
def nobody() -> Iterator[str]:
    """The address of a port of this machine on which nothing listens."""
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        yield f"127.0.0.1:{bound.getsockname()[1]}"


@pytest.fixture
def short_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(offset_reader, "LIMIT_S", 1.0)
    monkeypatch.setattr(offset_reader, "_INTERVAL_S", 0.2)


def test_the_wait_for_brokers_that_are_gone_is_bounded(
    spark: SparkSession, nobody: str, short_limit: None
) -> None:
    source = KafkaSource(nobody)
    with (
        pytest.raises(SourceError) as raised,
        prepared_session(spark),
        bounded_offset_reader(spark, source.client),
    ):
        source.read(spark, [OffsetRange(0, 0, 10)]).collect()
    assert raised.value.exit_code == 3
    assert f"The Kafka cluster at {nobody} did not answer for 1 s" in raised.value.message
    assert "brokers run" in (raised.value.hint or "")
    assert spark.range(10).count() == 10  # the session goes on


def test_a_live_check_whose_brokers_are_gone_compares_nothing(
    spark: SparkSession, nobody: str, short_limit: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They have answered the admin client, and are gone when Spark reads the newest records."""
    source = KafkaSource(nobody)

    def read(*_: object) -> None:
        source.read(spark, [OffsetRange(0, 0, 10)]).collect()

    monkeypatch.setattr(live_check, "compare_live", read)
    lake = cast("LakeTables", SimpleNamespace(spark=spark))
    with prepared_session(spark):
        comparison = live_check.try_live(lake, source, cast("Run", None))
    (reason,) = comparison.not_compared
    assert f"no answer: The Kafka cluster at {nobody} did not answer" in reason


def test_nothing_else_is_interrupted(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    """A job that runs for longer than the limit, and does not wait for brokers."""
    monkeypatch.setattr(offset_reader, "LIMIT_S", 0.2)
    monkeypatch.setattr(offset_reader, "_INTERVAL_S", 0.1)
    client = KafkaSource("127.0.0.1:1").client
    with bounded_offset_reader(spark, client):
        slow = spark.sparkContext.parallelize([1], 1).map(lambda _: time.sleep(1.0))
        assert slow.count() == 1
