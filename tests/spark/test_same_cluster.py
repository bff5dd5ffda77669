"""Captures of a running broker and the broker itself in one lake."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from kip848_spark.config.client_settings import ClientSettings
from kip848_spark.errors import UsageError
from kip848_spark.kafka.admin import OFFSETS_TOPIC
from kip848_spark.kafka.capture_origin import ORIGIN, Origin
from kip848_spark.local.broker import Broker
from kip848_spark.local.consumer_process import ConsumerProcess
from kip848_spark.local.scenarios import IdleConsumers
from kip848_spark.spark.jobs.audit import AuditRequest
from kip848_spark.spark.jobs.capture import write_capture
from kip848_spark.spark.pipeline import run_audit, run_ingest
from kip848_spark.spark.sources import KafkaSource
from kip848_spark.spark.storage.opening import open_lake
from kip848_spark.spark.storage.tables import LakeTables
from tests.captures import COMMITTED
from tests.conftest import DATA
from tests.spark.lakes import as_dicts, source

pytestmark = pytest.mark.slow

STRANGER = DATA / "kafka-4.0.2" / COMMITTED
OTHER = "is not the topic that this lake holds"


def live(broker: Broker) -> KafkaSource:
    return KafkaSource(broker.bootstrap, OFFSETS_TOPIC, ClientSettings())


def origin(capture: Path) -> dict[str, Any]:
    output: dict[str, Any] = json.loads((capture / "_origin.json").read_text())
    return output


def commit(broker: Broker, group: str) -> None:
    """A few records more."""
    member = ConsumerProcess(broker.bootstrap, group, ["foo"], protocol="consumer")
    try:
        member.commit([("foo", 0, 7, "")])
    finally:
        member.close()


def cluster_ids(lake: LakeTables) -> list[str | None]:
    """The cluster id of each run, in order."""
    rows = sorted(as_dicts(lake, "runs"), key=lambda row: str(row["run_id"]))
    return [row["cluster_id"] for row in rows]


@pytest.fixture(params=["with its origin", "without"])
def taken(
    request: pytest.FixtureRequest,
    idle_consumers: IdleConsumers,
    broker: Broker,
    spark: SparkSession,
    tmp_path: Path,
) -> Path:
    """A capture of the broker."""
    path = tmp_path / "capture"
    write_capture(live(broker), spark, str(path))
    if request.param == "without":
        (path / "_origin.json").unlink(missing_ok=True)
    return path


def test_a_capture_and_then_its_broker(
    taken: Path, broker: Broker, spark: SparkSession, tmp_path: Path
) -> None:
    lake = open_lake(spark, str(tmp_path / "lake"))
    first = run_ingest(source(taken), lake, then_replay=True)
    assert first.run is not None
    with_origin = (taken / "_origin.json").exists()
    assert first.run.identity.cluster_id == (broker.cluster_id if with_origin else None)
    again = run_ingest(live(broker), lake, then_replay=True)
    if again.changed:  # the newest offset of a partition may be a transaction's marker
        assert again.run is not None
        assert again.run.counts is not None
        assert again.run.counts.records_read == 0
    assert lake.read("records").count() == pq.read_table(taken).num_rows
    assert (
        run_audit(lake, AuditRequest(groups=["demo.three"]), source=live(broker)).live is not None
    )

    commit(broker, f"origin.{with_origin}")
    assert run_ingest(live(broker), lake, then_replay=True).changed
    assert cluster_ids(lake)[-1] == broker.cluster_id
    topics = {row["topic_id"] for row in as_dicts(lake, "runs")}
    assert len(topics - {None}) == 1


def test_a_capture_says_where_its_source_ended(spark: SparkSession, tmp_path: Path) -> None:
    """The last offset of a partition may be the marker of a transaction, which is no record."""
    folder = tmp_path / "capture"
    folder.mkdir()
    table = pq.read_table(STRANGER)
    partition = table["partition"][0].as_py()
    of_partition = pc.equal(table["partition"], partition)
    last = pc.max(table.filter(of_partition)["offset"]).as_py()
    ends = {partition: last + 1}
    old = Origin(
        topic=OFFSETS_TOPIC, cluster_id="cluster", topic_id="topic", captured_at=datetime.now(UTC)
    )
    new = old.model_copy(update={"ends": ends})
    lake = open_lake(spark, str(tmp_path / "lake"))
    (folder / ORIGIN).write_bytes(new.to_json())
    pq.write_table(table, folder / "some.parquet")
    assert run_ingest(source(folder), lake).changed
    shorter = table.filter(pc.invert(pc.and_(of_partition, pc.equal(table["offset"], last))))
    pq.write_table(shorter, folder / "some.parquet")
    assert not run_ingest(source(folder), lake).changed
    (folder / ORIGIN).write_bytes(old.to_json())
    with pytest.raises(UsageError, match=f"this lake has read it up to offset {last + 1}"):
        run_ingest(source(folder), lake)
    # A part of a capture with the origin of the whole: the rest is read later.
    rest = open_lake(spark, str(tmp_path / "rest"))
    (folder / ORIGIN).write_bytes(new.to_json())
    assert run_ingest(source(folder), rest).changed
    pq.write_table(table, folder / "some.parquet")
    assert run_ingest(source(folder), rest).changed
    assert rest.read("records").count() == len(table)


def test_a_broker_and_then_its_capture(
    taken: Path, broker: Broker, spark: SparkSession, tmp_path: Path
) -> None:
    lake = open_lake(spark, str(tmp_path / "lake"))
    assert run_ingest(live(broker), lake).changed
    later = tmp_path / "later"
    commit(broker, f"origin.later.{(taken / '_origin.json').exists()}")
    write_capture(live(broker), spark, str(later))
    if not (taken / "_origin.json").exists():
        (later / "_origin.json").unlink()
    assert run_ingest(source(later), lake).changed
    assert cluster_ids(lake) == [broker.cluster_id] * 2


def test_a_broker_and_a_capture_of_another(
    idle_consumers: IdleConsumers, broker: Broker, spark: SparkSession, tmp_path: Path
) -> None:
    own, others = (open_lake(spark, str(tmp_path / name)) for name in ("own", "others"))
    run_ingest(live(broker), own, then_replay=True)
    run_ingest(source(STRANGER), others, then_replay=True)
    before = own.versions(), others.versions()
    with pytest.raises(UsageError, match=OTHER):
        run_ingest(source(STRANGER), own, then_replay=True)
    with pytest.raises(UsageError, match=OTHER):
        run_ingest(live(broker), others, then_replay=True)
    with pytest.raises(UsageError, match=OTHER):
        run_audit(others, AuditRequest(), source=live(broker))
    assert (own.versions(), others.versions()) == before


def test_what_a_capture_says_of_its_origin(
    idle_consumers: IdleConsumers, broker: Broker, spark: SparkSession, tmp_path: Path
) -> None:
    first, copy = tmp_path / "first", tmp_path / "copy"
    write_capture(live(broker), spark, str(first))
    write_capture(source(first), spark, str(copy))
    for path in (first, copy):
        output = origin(path)
        assert output["format"] == 1
        assert output["topic"] == OFFSETS_TOPIC
        assert output["cluster_id"] == broker.cluster_id
        assert output["topic_id"] == live(broker).identity().topic_id
        assert pq.read_table(path).num_rows == spark.read.parquet(str(path)).count() > 100

    names = ("anonymous", "anonymous-again", "of-a-file", "of-a-file-again")
    hidden = [tmp_path / name for name in names]
    for path in hidden[:2]:
        write_capture(source(first), spark, str(path), anonymous=True)
    for path in hidden[2:]:
        write_capture(source(STRANGER), spark, str(path), anonymous=True)
    ids = [origin(path)[name] for path in [first, *hidden] for name in ("cluster_id", "topic_id")]
    assert len(set(ids)) == len(ids) == 10
    assert None not in ids
    for path in hidden[:2]:
        text = (path / "_origin.json").read_text()
        assert broker.cluster_id not in text
        assert origin(first)["topic_id"] not in text
    lake = open_lake(spark, str(tmp_path / "lake"))
    run_ingest(source(hidden[0]), lake)
    for path in (hidden[1], first):
        with pytest.raises(UsageError, match="of cluster"):
            run_ingest(source(path), lake)
