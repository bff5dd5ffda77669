"""`dump` against Kafka's own reading of the same log, record by record."""

from __future__ import annotations

import json
from pathlib import Path

from pyspark.sql import SparkSession

from kip848_spark.spark.dumping import dump_files
from tests.captures import RECORDS, read_dump
from tests.spark.lakes import source


def test_dump_is_what_kafkas_tool_prints(
    capture: Path, spark: SparkSession, tmp_path: Path
) -> None:
    ours = [
        json.loads(line)
        for file in dump_files(source(capture / RECORDS), spark, tmp_path)
        for line in file.read_text(encoding="utf-8").splitlines()
    ]
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
    assert len(theirs) > 400
    assert {line["key"]["type"] for line in theirs} >= {"1", "2", "3", "5", "6", "7", "8", "16"}
    assert ours == theirs
