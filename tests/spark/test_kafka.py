"""The nightly job on a real broker's topic, through Spark's Kafka source."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

import pytest
from confluent_kafka import Producer
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from kip848_spark.checks.live_comparison import MOVING, NO_NAME
from kip848_spark.checks.results import LIVE
from kip848_spark.config.client_settings import ClientSettings
from kip848_spark.errors import SourceError
from kip848_spark.kafka.admin import OFFSETS_TOPIC, Cluster
from kip848_spark.kafka.topic import OffsetRange
from kip848_spark.lake.readiness import assess_lake
from kip848_spark.lake.snapshot import LakeSnapshot
from kip848_spark.local.broker import Broker
from kip848_spark.local.consumer_process import ConsumerProcess
from kip848_spark.local.scenarios import IdleConsumers
from kip848_spark.local.testbed import create_topics
from kip848_spark.simulation.encoding import encode_records
from kip848_spark.spark import session_settings
from kip848_spark.spark.jobs.audit import AuditRequest, agreement_rows
from kip848_spark.spark.jobs.live_check import GroupSample, compare_live
from kip848_spark.spark.pipeline import run_audit, run_ingest
from kip848_spark.spark.sources import KafkaSource
from kip848_spark.spark.storage.opening import open_lake
from tests.spark.lakes import as_dicts

ATTEMPTS = 3


def source(broker: Broker) -> KafkaSource:
    return KafkaSource(broker.bootstrap, OFFSETS_TOPIC, ClientSettings())


@pytest.mark.slow
def test_agrees_with_the_live_broker_night_after_night(
    idle_consumers: IdleConsumers, broker: Broker, spark: SparkSession, tmp_path: Path
) -> None:
    lake = open_lake(spark, str(tmp_path / "lake"))
    for _ in range(ATTEMPTS):
        first = run_ingest(source(broker), lake, then_replay=True)
        assert first.run is not None
        comparison = compare_live(lake, source(broker), first.run)
        if MOVING not in comparison.not_compared:  # on a busy machine a session may end just now
            break
    assert [str(difference) for difference in comparison.differences] == []
    assert not comparison.not_compared.keys() - {NO_NAME}
    assert comparison.compared["groups"] > 10
    assert first.run.identity.cluster_id == broker.cluster_id
    assert first.run.identity.topic_id

    late = ConsumerProcess(broker.bootstrap, "spark.late", ["foo"], protocol="consumer")
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
    for _ in range(ATTEMPTS):  # the broker may still write something by itself
        third = run_ingest(source(broker), lake, then_replay=True)
        if not third.changed:
            break
        assert third.run is not None
        assert third.run.counts is not None
        assert third.run.counts.records_read > 0, "a run without new records"
    assert not third.changed


@pytest.mark.slow
def test_a_night_asks_the_brokers_for_the_settings_that_verdicts_depend_on(
    idle_consumers: IdleConsumers, broker: Broker, spark: SparkSession, tmp_path: Path
) -> None:
    """A session of 30 s is short for Kafka's default limits, and not for those of this broker."""
    short = ConsumerProcess(
        broker.bootstrap,
        "spark.short-session",
        ["foo"],
        protocol="classic",
        config={"session.timeout.ms": "30000"},
    )
    try:
        assert short.wait_for_partitions()
        lake = open_lake(spark, str(tmp_path / "lake"))
        run_ingest(source(broker), lake, then_replay=True)
    finally:
        short.close()
    (row,) = (r for r in as_dicts(lake, "readiness") if r["group_id"] == "spark.short-session")
    assert row["cluster_id"] == broker.cluster_id
    assert "assignor-range" in row["warnings"]
    assert "session-timeout-short" not in row["warnings"]
    without = assess_lake(LakeSnapshot(lake.place)).assessment.rows.to_pylist()
    (row,) = (r for r in without if r["group_id"] == "spark.short-session")
    assert "session-timeout-short" in row["warnings"]


@pytest.mark.slow
def test_what_moved_since_the_run_is_not_judged(
    idle_consumers: IdleConsumers, broker: Broker, spark: SparkSession, tmp_path: Path
) -> None:
    lake = open_lake(spark, str(tmp_path / "lake"))
    at_rest = ConsumerProcess(broker.bootstrap, "spark.at-rest", ["foo"], protocol="consumer")
    commits = ConsumerProcess(broker.bootstrap, "spark.commits", ["foo"], protocol="consumer")
    joined = ConsumerProcess(broker.bootstrap, "spark.joined", ["foo"], protocol="consumer")
    try:
        commits.commit([("foo", 0, 5, ""), ("foo", 1, 6, "")])
        outcome = run_ingest(source(broker), lake, then_replay=True, then_audit=True)
        assert outcome.run is not None
        assert outcome.live is not None
        assert outcome.live.differences == []
        (told,) = (row for row in agreement_rows(lake, outcome.run.run_id) if row["check"] == LIVE)
        assert told["verified"] == outcome.live.same > 100
        assert told["disagreed"] == 0

        asked = AuditRequest(groups=["spark.at-rest"])
        one = run_audit(lake, asked, source=source(broker)).live
        assert one is not None
        assert one.differences == []
        assert one.compared["groups"] == 1

        commits.commit([("foo", 0, 55, "")])
        again = ConsumerProcess(broker.bootstrap, "spark.joined", ["foo"], protocol="consumer")
        born = ConsumerProcess(broker.bootstrap, "spark.born", ["foo"], protocol="consumer")
        try:
            after = compare_live(lake, source(broker), outcome.run)
        finally:
            again.close()
            born.close()
        assert [str(d) for d in after.differences] == []
        assert {"spark.joined", "spark.born"} <= set(after.moving)
        assert "spark.commits" not in after.moving
        assert after.not_compared[MOVING] == len(after.moving) + 1

        # A commit that the lake knows nothing of, and no record explains: the state is wrong.
        wrong = lake.read("offsets").withColumn("committed_offset", F.col("committed_offset") + 1)
        lake.overwrite("offsets", wrong)
        found = compare_live(lake, source(broker), outcome.run, ["spark.commits"])
        assert [(d.group_id, d.what) for d in found.differences] == [
            ("spark.commits", "committed offset of foo-1")
        ]
    finally:
        for member in (at_rest, commits, joined):
            member.close()


@pytest.mark.slow
def test_commits_that_the_log_cleaner_removed_during_the_comparison(
    broker: Broker, spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The commit that the cluster reports is gone before it is read: there is a newer one."""
    lake, topic = open_lake(spark, str(tmp_path / "lake")), "spark.cleaned"
    create_topics(Cluster(broker.bootstrap), {topic: 1})
    member = ConsumerProcess(broker.bootstrap, "spark.cleaned", [topic], protocol="consumer")
    try:
        assert member.wait_for_partitions()
        member.commit([(topic, 0, 5, "")])
        run = run_ingest(source(broker), lake, then_replay=True).run
        assert run is not None
        member.commit([(topic, 0, 6, "")])
        cleaned = source(broker)
        read = cleaned.read

        def read_cleaned(
            spark: SparkSession, ranges: Sequence[OffsetRange], *, committed: bool = True
        ) -> DataFrame:
            monkeypatch.setattr(cleaned, "read", read)
            member.commit([(topic, 0, 7, "")])
            return read(spark, [], committed=committed)

        monkeypatch.setattr(cleaned, "read", read_cleaned)
        found = compare_live(lake, cleaned, run, ["spark.cleaned"])
        assert [str(d) for d in found.differences] == []
        assert found.not_compared[MOVING] == 1
    finally:
        member.close()


def test_a_sample_is_the_same_in_spark_and_here(spark: SparkSession) -> None:
    names = [f"group-{n}" for n in range(2000)] + ["", "grüße", "群"]
    rows = spark.createDataFrame([(name,) for name in names], "group_id string")
    sample = GroupSample.of(20_000, None)
    there = {row[0] for row in rows.where(sample.rows()).collect()}
    assert there == {name for name in names if sample.has(name)}
    assert 400 < len(there) < 600


def test_reading_nothing_is_never_success(
    idle_consumers: IdleConsumers,
    broker: Broker,
    spark: SparkSession,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Without its setting, Spark's Kafka source leaves internal topics out."""
    name = "spark.sql.streaming.kafka.useDeprecatedOffsetFetching"
    spark.conf.set(name, "false")
    lake = open_lake(spark, str(tmp_path / "lake"))
    try:
        with monkeypatch.context() as unprepared:
            unprepared.delitem(session_settings.RUNTIME_SETTINGS, name)
            with pytest.raises(Exception) as caught:  # noqa: PT011 - Spark's own, or ours
                run_ingest(source(broker), lake, then_replay=True)
        assert not isinstance(caught.value, AssertionError)
        assert [row["outcome"] for row in as_dicts(lake, "runs")] == ["planned"]
        assert run_ingest(source(broker), lake, then_replay=True).changed
        assert spark.conf.get(name) == "false"
    finally:
        spark.conf.set(name, "true")


@pytest.mark.slow
@pytest.mark.parametrize("committed", [True, False], ids=["committed", "aborted"])
def test_a_transaction_that_is_open_between_two_nights(
    committed: bool, broker: Broker, spark: SparkSession, tmp_path: Path
) -> None:
    """The offsets without a record are known to be the transaction's, although no key occurs
    twice. An audit in between does not ask the cluster."""
    topic, inside = f"open-{committed}", 15
    create_topics(Cluster(broker.bootstrap), {topic: 1})
    keys, values = encode_records([commit(f"group-{number}") for number in range(inside + 12)])
    pairs = list(zip(keys.to_pylist(), values.to_pylist(), strict=True))
    plain = Producer({"bootstrap.servers": broker.bootstrap})
    transaction = Producer({"bootstrap.servers": broker.bootstrap, "transactional.id": topic})
    transaction.init_transactions(30)
    lake, records = open_lake(spark, str(tmp_path / "lake")), KafkaSource(broker.bootstrap, topic)
    send(plain, topic, pairs[:1])
    transaction.begin_transaction()
    send(transaction, topic, pairs[1 : inside + 1])
    first = run_ingest(records, lake, then_replay=True).run
    assert first is not None
    assert first.open_offsets == {0: inside}
    run_audit(lake, AuditRequest())
    if committed:
        transaction.commit_transaction(30)
    else:
        transaction.abort_transaction(30)
    deadline = time.monotonic() + 30
    while records.extents(spark)[0].open:  # until the broker has written the marker
        assert time.monotonic() < deadline
        time.sleep(0.1)
    send(plain, topic, pairs[inside + 1 :])
    run_ingest(records, lake, then_replay=True)
    columns = ("first_offset", "last_offset", "cause")
    marker = 1 + inside
    assert [tuple(row[name] for name in columns) for row in as_dicts(lake, "gaps")] == [
        (marker if committed else 1, marker, "transaction")
    ]


def commit(group: str) -> dict[str, Any]:
    """An offset commit of a group, as `encode_records` takes it."""
    value = {"offset": 1, "metadata": "", "commitTimestamp": 0}
    return {
        "key": {"type": "1", "data": {"group": group, "topic": "foo", "partition": 0}},
        "value": {"version": "0", "data": value},
    }


def send(producer: Producer, topic: str, pairs: Sequence[tuple[bytes, bytes]]) -> None:
    for key, value in pairs:
        producer.produce(topic, value, key, partition=0)
    assert producer.flush(30) == 0


def test_a_poll_takes_thousands_of_records(broker: Broker, spark: SparkSession) -> None:
    """After each poll, Spark's source sends two requests for the ends of the partition. A poll
    takes 500 records by default, which would make 120 requests here."""
    topic, records = "records-of-a-poll", 30_000
    create_topics(Cluster(broker.bootstrap), {topic: 1})
    producer = Producer({"bootstrap.servers": broker.bootstrap, "linger.ms": 20})
    for number in range(records):
        producer.produce(topic, bytes(80), number.to_bytes(60, "big"), partition=0)
    assert producer.flush(30) == 0
    settings = ClientSettings({"java.client.id": topic})
    part = KafkaSource(broker.bootstrap, topic, settings).read(spark, [OffsetRange(0, 0, records)])
    assert part.count() == records
    assert 6 < requests_of(spark, topic) < 60


def requests_of(spark: SparkSession, client_id: str) -> float:
    """The requests that a consumer of Spark's source has sent, by its own metrics."""
    jvm = cast(Any, spark._jvm)
    name = f"kafka.consumer:type=consumer-metrics,client-id={client_id}"
    gauge = jvm.com.codahale.metrics.jvm.JmxAttributeGauge
    return float(gauge(jvm.javax.management.ObjectName(name), "request-total").getValue())


def test_a_topic_that_is_not_there(broker: Broker, spark: SparkSession, tmp_path: Path) -> None:
    missing = KafkaSource(broker.bootstrap, "no-such-topic", ClientSettings())
    with pytest.raises(SourceError, match="no-such-topic"):
        run_ingest(missing, open_lake(spark, str(tmp_path / "lake")))
    assert not (tmp_path / "lake").exists()
