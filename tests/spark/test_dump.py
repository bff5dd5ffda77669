"""`dump` against Kafka's own reading of the same log, record by record."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from kip848_spark.spark.jobs.dump import dump_files
from kip848_spark.wire.definitions import SHIPPED
from kip848_spark.wire.dialects import AUTO
from tests.captures import RECORDS, read_dump
from tests.conftest import DATA
from tests.kafka_oracle import Oracle
from tests.spark.lakes import source

CONSUMER = {"1", "2", "3", "5", "6", "7", "8", "16"}
SHARE = {"10", "11", "12", "13", "14", "15"}
STREAMS = {"17", "19", "20", "21", "22", "23"}


@pytest.mark.parametrize(
    ("folder", "types"),
    [
        ("kafka-4.3.1", CONSUMER),
        ("kafka-4.0.2", CONSUMER),
        ("share-streams-4.3.1", SHARE | STREAMS),
        ("share-streams-4.2.0", SHARE | STREAMS),
        ("clients-4.3.1", {"2", *SHARE, *STREAMS}),  # Connect and Streams' classic groups too
    ],
)
def test_dump_is_what_kafkas_tool_prints(
    folder: str, types: set[str], spark: SparkSession, tmp_path: Path
) -> None:
    capture = DATA / folder
    ours = dumped(capture, spark, tmp_path)
    theirs = [
        {
            "partition": line["partition"],
            "offset": line["offset"],
            "timestamp": line["timestamp"],
            "key": line["key"],
            "value": line["payload"],
        }
        for line in read_dump(capture / "dump.jsonl.gz")
        if "key" in line
    ]
    assert len(theirs) > 50
    assert {line["key"]["type"] for line in theirs} >= types
    assert ours == theirs


def test_dump_of_an_early_access_log_is_what_its_classes_read(
    spark: SparkSession, tmp_path: Path
) -> None:
    """No tool prints all of a 3.7 broker's records, but the classes that wrote them read them."""
    ours = dumped(DATA / "early-3.7.2", spark, tmp_path, AUTO)
    raw = pq.read_table(DATA / "early-3.7.2" / RECORDS).select(["key", "value"]).to_pylist()
    theirs = Oracle("3.7.2").decode([(row["key"], row["value"]) for row in raw])
    assert {record["type"] for record in theirs} >= {3, 4, 5, 6, 7, 8}
    for line, record in zip(ours, theirs, strict=True):
        assert line["key"] == {"type": str(record["type"]), "data": record["key"]}
        assert (line["value"] and line["value"]["data"]) == record["value"]


def dumped(
    capture: Path, spark: SparkSession, folder: Path, dialect: str = SHIPPED
) -> list[dict[str, Any]]:
    return [
        json.loads(line)
        for file in dump_files(source(capture / RECORDS), spark, folder, dialect=dialect)
        for line in file.read_text(encoding="utf-8").splitlines()
    ]
