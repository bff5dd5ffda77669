"""A broker that goes away in the middle of an ingest, and an offsets topic that is not what it was:
the user gets a sentence, and the lake stays as it was."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import NewPartitions
from deltalake import DeltaTable

from kip848_spark.kafka.admin import OFFSETS_TOPIC, Cluster, admin_client
from kip848_spark.lake.location import locate
from kip848_spark.lake.snapshot import LakeSnapshot
from kip848_spark.lake.tables import TABLES
from kip848_spark.local.broker import Broker
from kip848_spark.local.consumer_process import ConsumerProcess
from kip848_spark.local.testbed import create_topics
from kip848_spark.simulation import plan_cluster, simulate

pytestmark = [pytest.mark.long, pytest.mark.timeout(1800)]

COPY = "copy-of-offsets"
PARTITIONS = 4


def start(*arguments: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "kip848_spark", *arguments]
    return subprocess.Popen(
        command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, env=os.environ
    )


def kip848(*arguments: str) -> tuple[int, str]:
    """Runs a command; returns its exit code and what it wrote to standard error."""
    process = start(*arguments)
    _, error = process.communicate()
    return process.returncode, error


def versions(lake: Path) -> dict[str, int]:
    return {name: DeltaTable(str(lake / name)).version() for name in TABLES}


def outcomes(lake: Path) -> list[str]:
    """The outcomes of a lake's runs; none if it has no tables yet."""
    if not DeltaTable.is_deltatable(str(lake / "runs")):
        return []
    return sorted(DeltaTable(str(lake / "runs")).to_pyarrow_table()["outcome"].to_pylist())


def seen_by_readers(lake: Path) -> tuple[str, int]:
    """The last finished run, and the number of its records."""
    snapshot = LakeSnapshot(locate(str(lake)))
    return snapshot.run.run_id, snapshot.select("records", columns=["offset"]).num_rows


def records_of(lake: Path) -> pa.Table:
    table = DeltaTable(str(lake / "records")).to_pyarrow_table()
    names = [name for name in table.column_names if name not in ("run_id", "cluster_id")]
    return table.select(names).sort_by([("partition", "ascending"), ("offset", "ascending")])


def send(bootstrap: str, records: pa.Table) -> None:
    """Sends records to the same partitions of the topic `COPY`."""
    failed: list[object] = []
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 20})
    for row in records.to_pylist():
        while True:
            try:
                producer.produce(
                    COPY, row["value"], row["key"], row["partition"],
                    timestamp=int(row["timestamp"].timestamp() * 1000),
                    on_delivery=lambda error, _: failed.append(error) if error else None,
                )  # fmt: skip
                break
            except BufferError:
                producer.poll(0.1)
    assert producer.flush(60) == 0
    assert not failed


@pytest.fixture
def own_broker() -> Iterator[Broker]:
    with Broker() as running:
        yield running


@pytest.mark.parametrize("comes_back", [True, False], ids=["restarted", "gone"])
def test_a_broker_that_goes_away_in_the_middle_of_an_ingest(
    comes_back: bool, own_broker: Broker, tmp_path: Path
) -> None:
    """It is killed as soon as the run has stored its plan. If it comes back at once, the run may
    finish."""
    broker = own_broker
    plan = plan_cluster("churn", 60_000, 7, partitions=PARTITIONS)
    simulate(plan, tmp_path / "capture")
    files = sorted((tmp_path / "capture").glob("partition-*.parquet"))
    log = pa.concat_tables(map(pq.read_table, files)).sort_by("timestamp")
    create_topics(Cluster(broker.bootstrap), {COPY: PARTITIONS})
    lake = tmp_path / "lake"
    ingest = ("ingest", "--source", f"kafka:{broker.bootstrap}", "--topic", COPY, "--lake")
    send(broker.bootstrap, log.slice(0, 10_000))
    assert kip848(*ingest, str(lake))[0] == 0
    send(broker.bootstrap, log.slice(10_000))
    before = seen_by_readers(lake)
    assert before[1] == 10_000

    process = start(*ingest, str(lake))
    while process.poll() is None and "planned" not in outcomes(lake):
        time.sleep(0.02)
    os.kill(broker.pid, signal.SIGKILL)
    broker.stop()
    if comes_back:
        broker.start()
    _, error = process.communicate()

    assert "Traceback" not in error
    if process.returncode:
        assert process.returncode == 3, error
        assert "error: " in error
        assert "brokers run" in error
        assert seen_by_readers(lake) == before
    else:
        assert comes_back
    broker.start()
    assert kip848(*ingest, str(lake))[0] == 0
    assert kip848(*ingest, str(tmp_path / "undisturbed"))[0] == 0
    assert outcomes(lake) == ["done", "done"]
    found = records_of(lake)
    assert found.num_rows == 60_000
    assert found.equals(records_of(tmp_path / "undisturbed"))


def commit(broker: Broker, groups: list[str]) -> None:
    for group in groups:
        member = ConsumerProcess(broker.bootstrap, group, ["foo"], protocol="consumer")
        try:
            assert member.wait_for_partitions()
            member.commit([("foo", 0, 5, "")])
        finally:
            member.close()


def test_an_offsets_topic_that_is_not_what_it_was(own_broker: Broker, tmp_path: Path) -> None:
    """It gets more partitions, which are read, and is then deleted and created again by the
    broker, which is refused."""
    broker, lake, groups = own_broker, tmp_path / "lake", ["one", "two", "three"]
    admin = admin_client(broker.bootstrap)
    create_topics(Cluster(broker.bootstrap), {"foo": 2})
    commit(broker, groups)
    night = ("run", "--source", f"kafka:{broker.bootstrap}", "--lake")
    code, error = kip848(*night, str(lake))
    assert code == 0, error
    before = versions(lake)
    reader = seen_by_readers(lake)
    old = Cluster(broker.bootstrap).topics([OFFSETS_TOPIC])[OFFSETS_TOPIC]

    def refused(expected: int, *words: str) -> None:
        code, error = kip848(*night, str(lake))
        assert code == expected, error
        assert "Traceback" not in error
        for word in words:
            assert word in error, error
        assert versions(lake) == before
        assert seen_by_readers(lake) == reader

    grown = old.partitions + 4
    admin.create_partitions([NewPartitions(OFFSETS_TOPIC, grown)])[OFFSETS_TOPIC].result(30)
    broker.restart()
    commit(broker, [f"later-{digit}" for digit in range(10)])  # in ten successive partitions
    code, error = kip848(*night, str(lake))
    assert code in (0, 1), error
    assert f"{grown - old.partitions} new partitions" in error
    stored = LakeSnapshot(locate(str(lake))).select("records", columns=["partition"])
    assert max(stored["partition"].to_pylist()) >= old.partitions
    code, error = kip848(*night, str(lake))
    assert code in (0, 1), error
    assert "new partitions" not in error
    before, reader = versions(lake), seen_by_readers(lake)

    admin.delete_topics([OFFSETS_TOPIC])[OFFSETS_TOPIC].result(30)
    refused(3, f"The topic {OFFSETS_TOPIC} can't be described")
    broker.restart()
    commit(broker, groups)
    new = Cluster(broker.bootstrap).topics([OFFSETS_TOPIC])[OFFSETS_TOPIC]
    assert new.topic_id != old.topic_id
    again = "was deleted and created again"
    refused(2, again, str(old.topic_id), str(new.topic_id), "a new lake")
    code, error = kip848(*night, str(tmp_path / "new"))
    assert code == 0, error
