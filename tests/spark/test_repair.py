"""A lake that two runs of an earlier version wrote to at once: noticed, and repaired."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from kip848_spark.errors import LakeError
from kip848_spark.lake.ledger import PLANNED, Ledger
from kip848_spark.spark.doctor import check_lake
from kip848_spark.spark.pipeline import run_ingest, run_repair
from kip848_spark.spark.storage.opening import open_lake
from kip848_spark.spark.storage.tables import LakeTables
from tests.captures import COMMITTED
from tests.conftest import DATA
from tests.spark.lakes import assert_same_rows, halves, source, write_part

pytestmark = pytest.mark.slow

CAPTURE = DATA / "kafka-4.3.1" / COMMITTED


@pytest.fixture(scope="module")
def undamaged(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> LakeTables:
    """A lake of the capture in two runs. Tests only read it."""
    folder = tmp_path_factory.mktemp("undamaged")
    half = write_part(CAPTURE, folder / "half.parquet", halves(CAPTURE))
    lake = open_lake(spark, str(folder / "lake"))
    for part in (half, CAPTURE):
        run_ingest(source(part), lake, then_replay=True, then_audit=True)
    return lake


@pytest.fixture
def lake(request: pytest.FixtureRequest, undamaged: LakeTables, tmp_path: Path) -> LakeTables:
    """A copy of that lake, to be damaged; if asked for, one that Spark writes."""
    shutil.copytree(str(undamaged.place.folder), tmp_path / "lake")
    by_spark = getattr(request, "param", False)
    return open_lake(undamaged.spark, str(tmp_path / "lake"), by_spark=by_spark)


def double(lake: LakeTables, *tables: str) -> None:
    """Adds the rows of the last run once more, as a second run with its plan did."""
    last = Ledger(lake).last()
    assert last is not None
    for table in tables:
        lake.append(table, lake.read(table).where(F.col("run_id") == last.run_id))


def assert_is_found(lake: LakeTables, words: str) -> None:
    before = lake.versions()
    with pytest.raises(LakeError, match="damaged") as found:
        check_lake(lake)
    assert words in found.value.message
    assert "kip848 repair" in str(found.value.hint)
    assert lake.versions() == before


def assert_is_repaired(lake: LakeTables, undamaged: LakeTables) -> None:
    assert run_repair(lake).damage
    assert_same_rows(lake, undamaged, leave_out=())
    assert not run_ingest(source(CAPTURE), lake, then_replay=True).changed
    versions = lake.versions()
    assert run_repair(lake).damage == ()
    assert lake.versions() == versions, "a second repair changes nothing"


@pytest.mark.parametrize(
    "lake",
    [pytest.param(False, id="files"), pytest.param(True, id="spark", marks=pytest.mark.long)],
    indirect=True,
)
def test_rows_that_are_there_twice(lake: LakeTables, undamaged: LakeTables) -> None:
    double(lake, "records", "group_records", "gaps", "agreement")
    assert_is_found(lake, "rows of records are duplicates")
    with pytest.raises(LakeError, match="finished runs have written"):
        run_ingest(source(CAPTURE), lake, then_replay=True)
    assert_is_repaired(lake, undamaged)


def test_control_records_that_are_there_twice(lake: LakeTables, undamaged: LakeTables) -> None:
    double(lake, "group_records")
    assert_is_found(lake, "rows of group_records are duplicates")
    assert_is_repaired(lake, undamaged)


def test_a_plan_that_would_restore_the_damage(lake: LakeTables, undamaged: LakeTables) -> None:
    """The second run stored the plan again, with the versions after the first one's writes."""
    double(lake, "records")
    last = Ledger(lake).last()
    assert last is not None
    plan = replace(
        last, run_id=f"{last.run_id}-again", outcome=PLANNED, counts=None,
        table_versions=lake.versions(),
    )  # fmt: skip
    Ledger(lake).write(plan)
    assert_is_found(lake, "finished runs have written")
    with pytest.raises(LakeError, match="finished runs have written"):
        run_ingest(source(CAPTURE), lake, then_replay=True)
    assert_is_repaired(lake, undamaged)


def test_two_finished_runs_of_the_same_offsets(lake: LakeTables, undamaged: LakeTables) -> None:
    last = Ledger(lake).last()
    assert last is not None
    other = f"{last.run_id}-other"
    mine = lake.read("records").where(F.col("run_id") == last.run_id)
    lake.append("records", mine.withColumn("run_id", F.lit(other)))
    Ledger(lake).write(replace(last, run_id=other))
    assert_is_found(lake, "rows of records are duplicates")
    assert_is_repaired(lake, undamaged)
    assert [row["run_id"] for row in lake.rows("runs") if row["run_id"] == other] == []


def test_lost_rows_are_not_made_up(lake: LakeTables) -> None:
    some = lake.read("records").where(F.col("offset") != 0)
    lake.overwrite("records", some)
    assert_is_found(lake, "finished runs have written")
    before = lake.versions()
    with pytest.raises(LakeError, match="are lost"):
        run_repair(lake)
    changed = {name for name, version in lake.versions().items() if version != before[name]}
    assert changed <= {"runs"}
