"""Two programs that write to one lake at a time: one of them wins, and nothing is doubled."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import orjson
import pytest
from pyspark.sql import SparkSession

from kip848_spark.errors import LakeError
from kip848_spark.lake import lease
from kip848_spark.lake.folders import LEASES
from kip848_spark.lake.ledger import Ledger
from kip848_spark.spark.pipeline import run_ingest
from kip848_spark.spark.storage.opening import open_lake
from kip848_spark.spark.storage.spark_written import SparkWrittenTables
from kip848_spark.spark.storage.tables import LakeTables
from tests.captures import COMMITTED
from tests.conftest import DATA
from tests.spark.lakes import assert_same_rows, source

pytestmark = pytest.mark.slow

CAPTURE = DATA / "kafka-4.3.1" / COMMITTED
STEPS = ("creating the lake's tables", "reading and decoding", "replaying control records")


@pytest.fixture(scope="module")
def empty_lake(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> LakeTables:
    """The tables as Spark creates them, which takes seconds. Tests only copy it."""
    lake = open_lake(spark, str(tmp_path_factory.mktemp("empty") / "lake"), by_spark=True)
    lake.create()
    return lake


@pytest.fixture(
    params=[
        pytest.param(False, id="files"),
        pytest.param(True, id="spark", marks=pytest.mark.long),  # runs through Spark take minutes
    ]
)
def lake(request: pytest.FixtureRequest, spark: SparkSession, tmp_path: Path) -> LakeTables:
    """A new lake that the workers write, and one that Spark writes. A run creates its tables only
    where that is the step that a test disturbs."""
    by_spark = request.param
    if by_spark and "creating" not in request.node.name:
        shutil.copytree(request.getfixturevalue("empty_lake").path, tmp_path / "lake")
    return open_lake(spark, str(tmp_path / "lake"), by_spark=by_spark)


def reopened(lake: LakeTables) -> LakeTables:
    """The same lake as another process opens it."""
    return open_lake(lake.spark, lake.path, by_spark=isinstance(lake, SparkWrittenTables))


def during(step: str, act: Callable[[], None]) -> Callable[[str], None]:
    """A listener to a run's progress that acts once, as ``step`` begins."""
    steps = [step]

    def progress(words: str) -> None:
        if steps and words.startswith(steps[0]):
            steps.clear()
            act()

    return progress


@pytest.mark.parametrize("step", STEPS)
def test_a_second_run_leaves_and_the_first_one_ends_well(
    lake: LakeTables, capture_lake: LakeTables, step: str
) -> None:
    output: list[str] = []

    def second() -> None:
        with pytest.raises(LakeError, match="Another run is writing to the lake") as refused:
            run_ingest(source(CAPTURE), reopened(lake))
        output.append(refused.value.message)

    run_ingest(source(CAPTURE), lake, during(step, second), then_replay=True)
    assert output
    assert_same_rows(lake, capture_lake)


@pytest.mark.parametrize("step", STEPS[1:])
def test_a_run_that_was_suspended_writes_nothing_more(
    lake: LakeTables, capture_lake: LakeTables, step: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another run takes over its lease, repeats its plan and ends; then it wakes."""
    monkeypatch.setattr(lease, "OBSERVATION_S", 0.0)
    ended: list[bool] = []

    def other() -> None:
        newest = max((Path(str(lake.place.folder)) / LEASES).glob("*.json"))
        record = orjson.loads(newest.read_bytes())
        newest.write_bytes(orjson.dumps(record | {"heartbeat": 0.0}))
        second = reopened(lake)
        outcome = run_ingest(source(CAPTURE), second, then_replay=True)
        ended.append(bool(outcome.recovered))

    with pytest.raises(LakeError, match="no longer holds the lease"):
        run_ingest(source(CAPTURE), lake, during(step, other), then_replay=True)
    assert ended == [True]
    assert Ledger(lake).unfinished() is None
    assert_same_rows(lake, capture_lake)
    assert not run_ingest(source(CAPTURE), lake, then_replay=True).changed


def test_an_erasure_that_was_suspended_deletes_nothing_more(lake: LakeTables) -> None:
    """Another run has taken over the lease, and has written a file that it will commit."""
    if not lake.exists():
        lake.create()
    folder = Path(str(lake.place.folder))
    file = folder / "records" / "part-of-the-other-run.parquet"
    with lake.hold_lease():
        newest = max((folder / LEASES).glob("*.json"))
        record = orjson.loads(newest.read_bytes())
        record["owner"]["token"] = "other"
        (folder / LEASES / f"{int(newest.stem) + 1:020}.json").write_bytes(orjson.dumps(record))
        file.write_bytes(b"rows")
        for delete in (lake.forget_versions, lambda table: lake.vacuum(table, 24, [])):
            with pytest.raises(LakeError, match="no longer holds the lease"):
                delete("records")
    assert file.exists()


@pytest.mark.parametrize("table", ["records", "runs"])
def test_a_write_finds_a_foreign_commit_and_stops(
    lake: LakeTables, capture_lake: LakeTables, table: str
) -> None:
    def foreign() -> None:
        place = f"delta.`{lake.location(table)}`"
        lake.spark.sql(f"ALTER TABLE {place} SET TBLPROPERTIES ('note' = 'foreign')")

    step = STEPS[1] if table == "records" else STEPS[2]
    with pytest.raises(LakeError, match=f"Another program wrote to the table {table}"):
        run_ingest(source(CAPTURE), lake, during(step, foreign), then_replay=True)
    run_ingest(source(CAPTURE), lake, then_replay=True)
    assert_same_rows(lake, capture_lake)


@pytest.mark.parametrize("lake", [False], ids=["files"], indirect=True)
def test_a_plan_that_is_killed_twice_names_the_same_versions(
    lake: LakeTables, capture_lake: LakeTables, monkeypatch: pytest.MonkeyPatch
) -> None:
    def killed(*_: object) -> None:
        raise KeyboardInterrupt

    plans = []
    with monkeypatch.context() as broken:
        broken.setattr("kip848_spark.spark.jobs.replay.topic_names", killed)
        for _ in range(3):
            with pytest.raises(KeyboardInterrupt):
                run_ingest(source(CAPTURE), lake, then_replay=True)
            plan = Ledger(lake).unfinished()
            assert plan is not None
            plans.append((plan.run_id, dict(plan.table_versions)))
    assert plans[0] == plans[1] == plans[2]
    run_ingest(source(CAPTURE), lake, then_replay=True)
    assert_same_rows(lake, capture_lake)
