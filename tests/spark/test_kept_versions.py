"""All versions of a lake's tables stay readable, whichever implementation writes them."""

from __future__ import annotations

import os
import shutil
import time
from pathlib import Path

import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from kip848_spark.errors import LakeError
from kip848_spark.lake import delta_rs
from kip848_spark.lake.ledger import Ledger
from kip848_spark.lake.rows_with import COMMITS
from kip848_spark.lake.tables import COMMON_PROPERTIES, KEEP_VERSIONS, STATS, TABLES
from kip848_spark.spark.pipeline import run_ingest
from kip848_spark.spark.storage.opening import open_lake
from kip848_spark.spark.storage.tables import LakeTables
from kip848_spark.spark.storage.worker_written import WorkerWrittenTables
from tests.captures import COMMITTED
from tests.conftest import DATA
from tests.spark.lakes import assert_same_rows, halves, source, write_part

pytestmark = pytest.mark.slow

CAPTURE = DATA / "kafka-4.3.1" / COMMITTED
EXPIRED_S = 60 * 24 * 3600
"""Delta keeps log entries for 30 days by default."""
TOPIC = {"topic": "foo", "topic_id": "id", "partitions": 1, "racks": None}


@pytest.fixture(params=[False, True], ids=["workers", "spark"])
def lake(request: pytest.FixtureRequest, spark: SparkSession, tmp_path: Path) -> LakeTables:
    return open_lake(spark, str(tmp_path / "lake"), by_spark=request.param)


def folder(lake: LakeTables, table: str) -> str:
    return f"{lake.place.folder}/{table}"


def properties(lake: LakeTables, table: str) -> dict[str, str | None]:
    """As delta-rs reads them."""
    return dict(DeltaTable(folder(lake, table)).metadata().configuration)


def make_log_expire(table: str) -> None:
    """Dates the log entries back: Delta goes by the modification times of their files."""
    then = time.time() - EXPIRED_S
    for file in Path(table, "_delta_log").glob("*"):
        os.utime(file, (then, then))


def test_both_writers_set_the_same_properties(lake: LakeTables) -> None:
    lake.create()
    for name, table in TABLES.items():
        assert properties(lake, name) == table.properties == lake.table_properties(name), name
        assert table.properties.items() >= COMMON_PROPERTIES.items()


def test_expired_versions_stay_readable(lake: LakeTables) -> None:
    """A checkpoint is the time at which Delta deletes expired log entries."""
    lake.create()
    place = f"delta.`{lake.location('topics')}`"
    lake.spark.sql(f"ALTER TABLE {place} SET TBLPROPERTIES ('delta.checkpointInterval' = '2')")
    for _ in range(3):
        lake.append_rows("topics", [TOPIC], "run", None)
    make_log_expire(folder(lake, "topics"))
    for _ in range(3):
        lake.append_rows("topics", [TOPIC], "run", None)
    log = Path(folder(lake, "topics"), "_delta_log")
    assert len(list(log.glob("*.checkpoint*.parquet"))) > 1
    assert {int(file.stem) for file in log.glob("*.json")} == set(range(8))
    assert lake.read("topics", 2).count() == 1


def test_readers_need_few_log_entries(lake: LakeTables) -> None:
    lake.create()
    for _ in range(12):
        lake.append_rows("topics", [TOPIC], "run", None)
    log = Path(folder(lake, "topics"), "_delta_log")
    assert {int(file.name[:20]) for file in log.glob("*.checkpoint*.parquet")} & {9, 10}
    assert lake.count("topics") == lake.read("topics").count() == 12
    assert DeltaTable(folder(lake, "topics"), version=4).to_pyarrow_table().num_rows == 4


def test_a_users_interval_of_checkpoints_stays(lake: LakeTables) -> None:
    lake.create()
    name = "delta.checkpointInterval"
    for table in ("topics", "runs"):
        place = f"delta.`{lake.location(table)}`"
        lake.spark.sql(f"ALTER TABLE {place} SET TBLPROPERTIES ('{name}' = '50')")
        lake.spark.sql(f"ALTER TABLE {place} UNSET TBLPROPERTIES ('{next(iter(KEEP_VERSIONS))}')")
    with lake.hold_lease():
        lake.upgrade()
    for table in ("topics", "runs"):
        assert properties(lake, table).items() >= {name: "50", **KEEP_VERSIONS}.items()


def test_files_of_an_earlier_versions_lake_tell_their_kinds_of_records(lake: LakeTables) -> None:
    """delta-rs ignores the statistics of a column that the table's property does not name. Then no
    file of offset commits could be skipped, and each maintenance would separate them again."""
    lake.create()
    place = f"delta.`{lake.location('records')}`"
    before = "partition,offset,timestamp,run_id,group_id"  # a user's own column is among them
    lake.spark.sql(f"ALTER TABLE {place} SET TBLPROPERTIES ('{STATS}' = '{before}')")
    with lake.hold_lease():
        lake.upgrade()
    assert properties(lake, "records")[STATS] == f"{before},kind"
    version = lake.versions()["records"]
    with lake.hold_lease():
        lake.upgrade()
    assert lake.versions()["records"] == version
    if isinstance(lake, WorkerWrittenTables):
        rows = [
            dict.fromkeys(TABLES["records"].fields) | {"kind": kind, "offset": offset}
            for offset, kind in enumerate(("offset_commit", "group_metadata", None))
        ]
        lake.append_rows("records", rows, "run", None)
        assert lake.rows_to_read("records", None) == 3
        assert lake.rows_to_read("records", None, COMMITS) == 2
        assert lake.compact("records") == 0


def test_a_run_sets_the_properties_in_a_lake_of_an_earlier_version(
    spark: SparkSession, tmp_path: Path
) -> None:
    lake = open_lake(spark, str(tmp_path / "lake"))
    assert isinstance(lake, WorkerWrittenTables)
    run_ingest(source(CAPTURE), lake)
    for name in ("gaps", "runs"):
        place = f"delta.`{lake.location(name)}`"
        names = ", ".join(f"'{name}'" for name in COMMON_PROPERTIES)
        spark.sql(f"ALTER TABLE {place} UNSET TBLPROPERTIES ({names})")
        assert not properties(lake, name)
    before = lake.versions()

    assert isinstance(open_lake(spark, lake.path), WorkerWrittenTables)
    assert not run_ingest(source(CAPTURE), lake).changed
    for name, table in TABLES.items():
        assert properties(lake, name) == table.properties, name
    after = lake.versions()
    assert {name for name in TABLES if after[name] != before[name]} == {"gaps", "runs"}
    assert isinstance(open_lake(spark, lake.path), WorkerWrittenTables)
    assert not run_ingest(source(CAPTURE), lake).changed
    assert lake.versions() == after


def test_a_restored_table_keeps_the_property(lake: LakeTables) -> None:
    """A version from before the property was set is restored without it."""
    lake.create()
    name, value = next(iter(KEEP_VERSIONS.items()))
    place = f"delta.`{lake.location('topics')}`"
    lake.spark.sql(f"ALTER TABLE {place} UNSET TBLPROPERTIES ('{name}')")
    version = lake.versions()["topics"]
    lake.append_rows("topics", [TOPIC], "run", None)
    with lake.hold_lease():
        lake.upgrade()
        lake.restore({"topics": version})
    assert lake.count("topics") == 0
    assert properties(lake, "topics")[name] == value
    assert Ledger(lake).last() is None


@pytest.mark.parametrize("table", ["records", "offsets", "member_history"])
def test_a_run_whose_checkpoint_fails_is_repeated(
    spark: SparkSession, tmp_path: Path, table: str
) -> None:
    """delta-rs writes the checkpoint after the commit, so the commit stays."""
    half = write_part(CAPTURE, tmp_path / "half.parquet", halves(CAPTURE))
    lakes = [open_lake(spark, str(tmp_path / name)) for name in ("disturbed", "expected")]
    for lake in lakes:
        run_ingest(source(half), lake, then_replay=True)
    disturbed, expected = lakes
    delta_rs.set_properties(folder(disturbed, table), {"delta.checkpointInterval": "1"})
    before = disturbed.versions()[table]
    log = Path(folder(disturbed, table), "_delta_log")
    blocks = [log / f"{before + n:020}.checkpoint.parquet" for n in range(1, 9)]
    for block in blocks:
        (block / "in the way").mkdir(parents=True)

    with pytest.raises(LakeError):
        run_ingest(source(CAPTURE), disturbed, then_replay=True)

    assert disturbed.versions()[table] > before
    for block in blocks:
        shutil.rmtree(block)
    assert run_ingest(source(CAPTURE), disturbed, then_replay=True).recovered
    run_ingest(source(CAPTURE), expected, then_replay=True)
    assert_same_rows(disturbed, expected)
