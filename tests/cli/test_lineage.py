"""`run --openlineage`: a server on loopback gets the events, and they say what the Delta tables and
the capture say."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any
from urllib.parse import urlsplit
from uuid import UUID

import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable

from kip848_spark.errors import UsageError
from kip848_spark.kafka.topic import TopicIdentity
from kip848_spark.lake.ledger import RecordCounts, Run
from kip848_spark.lake.lineage import (
    Lineage,
    LineageEvents,
    dataset_of_source,
    dataset_of_uri,
)
from kip848_spark.lake.location import Location
from tests.captures import COMMITTED
from tests.conftest import DATA
from tests.spark.stores import ended

CAPTURE = DATA / "kafka-4.3.1" / COMMITTED
API_KEY = "Lineage-Secret-Key-848"
PASSWORD = "Quite-Secret-Pass-848"


class Receiver(ThreadingHTTPServer):
    """A server of OpenLineage's HTTP API, which keeps what it gets: path, key and event."""

    def __init__(self) -> None:
        self.received: list[tuple[str, str, dict[str, Any]]] = []
        received = self.received

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                key = self.headers.get("Authorization", "")
                received.append((self.path, key, json.loads(body)))
                self.send_response(201)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *_: object) -> None:
                """Prints nothing."""

        super().__init__(("127.0.0.1", 0), Handler)


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with Receiver() as server:
        thread = Thread(target=server.serve_forever)
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def check(event: dict[str, Any], state: str) -> None:
    """What the specification of OpenLineage 2.0 demands of each event and each facet."""
    assert event["eventType"] == state
    assert datetime.fromisoformat(event["eventTime"]).tzinfo is not None
    assert urlsplit(event["schemaURL"]).fragment == "/$defs/RunEvent"
    assert urlsplit(event["producer"]).scheme
    UUID(event["run"]["runId"])
    assert event["job"]["namespace"]
    assert event["job"]["name"]
    facets = [*event["run"].get("facets", {}).values(), *event["job"]["facets"].values()]
    for dataset in (*event["inputs"], *event["outputs"]):
        assert dataset["namespace"]
        assert dataset["name"]
        for kind in ("facets", "inputFacets", "outputFacets"):
            facets += dataset.get(kind, {}).values()
    for facet in facets:
        assert urlsplit(facet["_producer"]).scheme
        assert urlsplit(facet["_schemaURL"]).path.endswith("Facet.json")


@pytest.mark.slow
def test_a_run_and_a_server_that_is_gone(receiver: Receiver, tmp_path: Path) -> None:
    lake = tmp_path / "lake"
    words = ("run", "--source", f"parquet:{CAPTURE}", "--lake", str(lake), "--openlineage")
    url = f"http://127.0.0.1:{receiver.server_address[1]}"
    done = ended(*words, url, OPENLINEAGE_API_KEY=API_KEY, OPENLINEAGE_NAMESPACE="nights")
    assert done.returncode == 0, done.stderr
    assert [path for path, _, _ in receiver.received] == ["/api/v1/lineage"] * 2
    assert {key for _, key, _ in receiver.received} == {f"Bearer {API_KEY}"}
    start, complete = (event for _, _, event in receiver.received)
    check(start, "START")
    check(complete, "COMPLETE")
    assert start["run"]["runId"] == complete["run"]["runId"]
    assert complete["job"]["namespace"] == "nights"
    assert complete["job"]["name"] == start["job"]["name"] == f"run {lake}"

    number = pq.read_metadata(CAPTURE).num_rows
    (read,) = complete["inputs"]
    assert (read["namespace"], read["name"]) == ("file", str(CAPTURE))
    assert read["inputFacets"]["inputStatistics"]["rowCount"] == number
    written = {output["name"]: output for output in complete["outputs"]}
    folders = [path for path in lake.iterdir() if (path / "_delta_log").exists()]
    tables = {str(path): DeltaTable(str(path)) for path in folders if path.name != "runs"}
    assert written.keys() == tables.keys(), "the first run creates every table"
    for name, output in written.items():
        table = tables[name]
        assert output["facets"]["version"]["datasetVersion"] == str(table.version()), name
        columns = [field["name"] for field in output["facets"]["schema"]["fields"]]
        assert columns == [field.name for field in table.schema().fields], name
    records = written[str(lake / "records")]
    rows = tables[records["name"]].to_pyarrow_table(columns=[]).num_rows
    assert records["outputFacets"]["outputStatistics"]["rowCount"] == rows == number
    tags = {tag["key"]: tag["value"] for tag in complete["run"]["facets"]["tags"]["tags"]}
    assert tags["run_id"] in done.stdout

    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        gone = f"http://127.0.0.1:{closed.getsockname()[1]}"
    again = ended(*words, gone, OPENLINEAGE_API_KEY=API_KEY)
    assert again.returncode == 0, "the night fails because a server is gone"
    assert again.stderr.count("An OpenLineage event was not sent") == 2
    assert API_KEY not in again.stdout + again.stderr
    assert "Traceback" not in again.stderr


@pytest.mark.slow
def test_a_run_that_fails(tmp_path: Path) -> None:
    """It can't reach the cluster. One event names the reason, no event has a secret."""
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        bootstrap = f"127.0.0.1:{closed.getsockname()[1]}"
    config, events = tmp_path / "kip848.toml", tmp_path / "events.jsonl"
    config.write_text(
        '[kafka]\n"security.protocol" = "SASL_PLAINTEXT"\n"sasl.mechanism" = "PLAIN"\n'
        '"sasl.username" = "nightly"\n"sasl.password" = "${KAFKA_PASSWORD}"\n'
    )
    words = ("run", "--source", f"kafka:{bootstrap}", "--lake", str(tmp_path / "lake"))
    words += ("--config", str(config), "--openlineage", str(events))
    done = ended(*words, KAFKA_PASSWORD=PASSWORD)
    assert done.returncode == 3, done.stderr
    start, fail = (json.loads(line) for line in events.read_text().splitlines())
    check(start, "START")
    check(fail, "FAIL")
    for event in (start, fail):
        (topic,) = event["inputs"]
        assert topic["namespace"] == f"kafka://{bootstrap}"
        assert topic["name"] == "__consumer_offsets"
    message = fail["run"]["facets"]["errorMessage"]["message"]
    assert message
    assert "".join(message.split()) in "".join(done.stderr.split())
    assert PASSWORD not in events.read_text()


def test_later_runs(tmp_path: Path) -> None:
    """A run that wrote one table, one that found nothing new, and one of an empty lake and an empty
    topic. An attempt ends once."""
    identity = TopicIdentity("__consumer_offsets", "cluster", None)
    began = datetime(2026, 1, 1, tzinfo=UTC)
    first = Run("1", "kafka:one:9092", identity, "shipped", (), {"records": 3, "gaps": 1}, began)
    counts = RecordCounts(records_read=7)
    second = replace(first, run_id="2", table_versions={"records": 4, "gaps": 1}, counts=counts)
    place, file = Location.local("lake", tmp_path / "lake"), tmp_path / "events.jsonl"
    for changed in (True, False):
        events = LineageEvents(Lineage.to(str(file)), "lake", first.source, identity.topic)
        second = replace(second, started_at=datetime.now(UTC))
        events.complete(second, [first, second], place, changed=changed)
        events.fail("after the end")
        events.abort()
    events = LineageEvents(Lineage.to(str(file)), "lake", first.source, identity.topic)
    events.complete(None, [], place, changed=False)
    wrote, idle, empty = (json.loads(line) for line in file.read_text().splitlines())
    for event in (wrote, idle, empty):
        check(event, "COMPLETE")
    (output,) = wrote["outputs"]
    assert output["name"] == str(tmp_path / "lake" / "records")
    assert output["facets"]["version"]["datasetVersion"] == "4"
    assert output["outputFacets"]["outputStatistics"]["rowCount"] == 7
    assert idle["outputs"] == []
    assert not idle["inputs"][0]["inputFacets"], "it read no record"


@pytest.mark.parametrize(
    ("uri", "dataset"),
    [
        ("file:/data/lake/records", ("file", "/data/lake/records")),
        ("s3a://bucket/lake/records", ("s3://bucket", "lake/records")),
        ("gs://bucket/lake/records", ("gs://bucket", "lake/records")),
        ("hdfs://name:8020/lake/records", ("hdfs://name:8020", "/lake/records")),
        (
            "abfss://lakes@account.dfs.core.windows.net/lake",
            ("abfss://lakes@account.dfs.core.windows.net", "/lake"),
        ),
        ("s3a://KEY:SECRET@bucket/lake", ("s3://bucket", "lake")),
        ("file:/data/a#b?c%20", ("file", "/data/a#b?c%20")),
    ],
)
def test_the_names_of_datasets(uri: str, dataset: tuple[str, str]) -> None:
    """As OpenLineage's page "Naming Conventions" has them."""
    assert dataset_of_uri(uri) == dataset


def test_the_name_of_a_topic() -> None:
    found = dataset_of_source("kafka:one:9092,two:9092", "__consumer_offsets")
    assert found == ("kafka://one:9092", "__consumer_offsets")
    assert dataset_of_source("parquet:/capture", "__consumer_offsets") == ("file", "/capture")


@pytest.mark.parametrize("target", ["https://user:pass@lineage", "/nowhere/events.jsonl"])
def test_a_target_that_can_not_be_used(target: str) -> None:
    with pytest.raises(UsageError) as caught:
        Lineage.to(target)
    assert "pass@" not in str(caught.value)
