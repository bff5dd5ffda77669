"""`repair` and `doctor` on a damaged lake, as a shell sees them."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from kip848_spark.spark.storage.opening import open_lake
from tests.captures import COMMITTED
from tests.cli.command import Command
from tests.conftest import DATA

pytestmark = pytest.mark.slow

CAPTURE = DATA / "kafka-4.3.1" / COMMITTED


def test_a_damaged_lake_is_named_and_repaired(
    kip848: Command, spark: SparkSession, tmp_path: Path
) -> None:
    path = str(tmp_path / "lake")
    run = ("run", "--source", f"parquet:{CAPTURE}", "--lake", path)
    assert kip848(*run).code == 0
    lake = open_lake(spark, path)
    lake.append("records", lake.read("records"))

    ended = kip848(*run)
    assert ended.code == 3
    assert "is damaged" in ended.err
    assert "kip848 repair" in ended.err
    ended = kip848("doctor", "--lake", path)
    assert ended.code == 3
    assert "rows of records are duplicates" in ended.out
    ended = kip848("repair", "--lake", path)
    assert ended.code == 0
    assert "rows of records were removed" in ended.out
    ended = kip848("repair", "--lake", path)
    assert ended.code == 0
    assert "not damaged" in ended.out
    assert kip848(*run).code == 0
