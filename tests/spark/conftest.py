"""Lakes that several tests of Spark read, each made once."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from kip848_spark.spark.pipeline import run_ingest
from kip848_spark.spark.storage.opening import open_lake
from kip848_spark.spark.storage.tables import LakeTables
from tests.captures import COMMITTED
from tests.conftest import DATA
from tests.spark.lakes import source

Copy = Callable[[LakeTables], LakeTables]
CAPTURE = DATA / "kafka-4.3.1" / COMMITTED


@pytest.fixture(scope="session")
def capture_lake(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> LakeTables:
    """A lake of the whole 4.3.1 capture, in one run. Tests only read it."""
    lake = open_lake(spark, str(tmp_path_factory.mktemp("capture") / "lake"))
    run_ingest(source(CAPTURE), lake, then_replay=True)
    return lake


@pytest.fixture(scope="session")
def audited_lake(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> LakeTables:
    """As `capture_lake`, with the audit of that run. Tests only read it."""
    lake = open_lake(spark, str(tmp_path_factory.mktemp("audited") / "lake"))
    run_ingest(source(CAPTURE), lake, then_replay=True, then_audit=True)
    return lake


@pytest.fixture(scope="session")
def spark_written_lake(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> LakeTables:
    """As `capture_lake`, but Spark has written the tables. Tests only read it."""
    lake = open_lake(spark, str(tmp_path_factory.mktemp("by-spark") / "lake"), by_spark=True)
    run_ingest(source(CAPTURE), lake, then_replay=True)
    return lake


@pytest.fixture
def copied(spark: SparkSession, tmp_path: Path) -> Copy:
    """Copies a lake to ``tmp_path / "lake"``, for a test that changes it."""

    def copy(lake: LakeTables) -> LakeTables:
        shutil.copytree(str(lake.place.folder), tmp_path / "lake")
        return open_lake(spark, str(tmp_path / "lake"))

    return copy


@pytest.fixture(scope="module", autouse=True)
def forgotten_snapshots() -> Iterator[None]:
    """Removes the snapshots of this file's lakes from Delta's cache, which would hold the last
    10,000 tables in the JVM's heap."""
    yield
    if spark := SparkSession.getActiveSession():
        spark._jvm.org.apache.spark.sql.delta.DeltaLog.clearCache()
