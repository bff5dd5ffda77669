"""Lakes and captures by every way to write a path: one place, and nothing elsewhere."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from kip848_spark.errors import Kip848Error, LakeError
from kip848_spark.lake.location import locate
from kip848_spark.lake.snapshot import LakeSnapshot
from kip848_spark.spark.jobs.capture import write_capture
from kip848_spark.spark.pipeline import run_ingest
from kip848_spark.spark.storage.opening import open_lake
from tests.captures import COMMITTED
from tests.conftest import DATA
from tests.spark.lakes import TABLES_OF_RECORDS, rows, source

pytestmark = pytest.mark.slow

CAPTURE = DATA / "kafka-4.0.2" / COMMITTED


@pytest.mark.parametrize("name", ["a b", "a%20b"])
def test_a_file_uri_is_the_folder(spark: SparkSession, tmp_path: Path, name: str) -> None:
    by_path = open_lake(spark, str(tmp_path / name))
    run_ingest(source(CAPTURE), by_path, then_replay=True)
    for text in (f"file:{tmp_path}/{name}", f"file://{tmp_path}/{name}/"):
        by_uri = open_lake(spark, text)
        assert not run_ingest(source(CAPTURE), by_uri, then_replay=True).changed
        if name == "a b":
            assert (
                LakeSnapshot(locate(text)).run.run_id
                == LakeSnapshot(locate(by_path.path)).run.run_id
            )
        else:  # delta-rs would read the folder "a b"
            with pytest.raises(LakeError, match="only be read through Spark"):
                LakeSnapshot(locate(text))
    assert [entry.name for entry in tmp_path.iterdir()] == [name]


@pytest.mark.parametrize("text", ["dbfs:/lake", "nosuch://bucket/lake", "file:lake"])
def test_what_can_not_be_served_is_refused(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(Kip848Error, match=f"{text.partition(':')[0]}"):
        run_ingest(source(CAPTURE), open_lake(spark, text))
    with pytest.raises(Kip848Error):
        LakeSnapshot(locate(text))
    with pytest.raises(Kip848Error):
        write_capture(source(CAPTURE), spark, text)
    assert list(tmp_path.iterdir()) == []


OTHER_DEFAULT = """
import sys
from kip848_spark.errors import Kip848Error
from kip848_spark.kafka.admin import OFFSETS_TOPIC
from kip848_spark.spark.storage.opening import open_lake
from kip848_spark.spark.pipeline import run_ingest
from kip848_spark.spark.session import local_session
from kip848_spark.spark.sources import CaptureSource
folder, capture = sys.argv[1:]
spark = local_session({"spark.hadoop.fs.defaultFS": f"viewfs://cluster/",
                       "spark.hadoop.fs.viewfs.mounttable.cluster.link./data": f"file:{folder}"})
run_ingest(CaptureSource(f"file:{capture}", "parquet", OFFSETS_TOPIC),
           open_lake(spark, "/data/lake"), then_replay=True, then_audit=True)
run_ingest(CaptureSource("/data/capture", "parquet", OFFSETS_TOPIC),
           open_lake(spark, f"file:{folder}/local"), then_replay=True)
spark.stop()
"""


@pytest.mark.long  # a session of its own, and runs through Spark
def test_another_default_file_system(spark: SparkSession, tmp_path: Path) -> None:
    """A path without a scheme is Hadoop's: tables, ledger and rows are all there."""
    shared = tmp_path / "shared"
    (shared / "capture").mkdir(parents=True)
    (shared / "capture" / CAPTURE.name).write_bytes(CAPTURE.read_bytes())
    subprocess.run(
        [sys.executable, "-c", OTHER_DEFAULT, str(shared), str(CAPTURE)],
        check=True, cwd=tmp_path,
    )  # fmt: skip
    expected = open_lake(spark, str(tmp_path / "expected"))
    run_ingest(source(CAPTURE), expected, then_replay=True)
    for path in (shared / "lake", shared / "local"):
        lake = open_lake(spark, str(path))
        for table in TABLES_OF_RECORDS:
            if table != "agreement":
                assert rows(lake, table) == rows(expected, table), (path, table)
    assert open_lake(spark, str(shared / "lake")).rows("agreement")
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["expected", "shared"]


def test_a_lake_that_only_spark_reaches_says_so() -> None:
    with pytest.raises(LakeError, match="only be read through Spark"):
        LakeSnapshot(locate("viewfs://cluster/data/lake"))
