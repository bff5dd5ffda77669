"""The verdicts of each run in the table `readiness`, by both ways to write tables."""

from __future__ import annotations

import shutil
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from kip848_spark.lake.ledger import DONE, Run
from kip848_spark.lake.snapshot import LakeSnapshot
from kip848_spark.lake.tables import TABLES
from kip848_spark.spark import pipeline
from kip848_spark.spark.pipeline import run_ingest, run_replay
from kip848_spark.spark.storage.opening import open_lake
from kip848_spark.spark.storage.tables import LakeTables
from tests.captures import COMMITTED, LIVE, read_live
from tests.conftest import DATA
from tests.spark.lakes import as_dicts, halves, source, write_part

pytestmark = pytest.mark.slow

CAPTURE = DATA / "kafka-4.3.1"
KNOWN = {
    "demo.classic-range": "ready_with_warnings",
    "demo.emptied-classic": "ready",
    "demo.half-migrated": "migrating",
    "demo.manual": "not_applicable",
    "demo.three": "already_migrated",
    "demo.classic-sticky": "blocked",
}
"""From how the groups were made (kip848_spark/local/scenarios.py)."""


@pytest.fixture(params=["capture_lake", "spark_written_lake"], ids=["workers", "spark"])
def lake(request: pytest.FixtureRequest) -> LakeTables:
    """The lake of one run over the whole capture."""
    found: LakeTables = request.getfixturevalue(request.param)
    return found


def test_a_run_writes_a_verdict_for_each_group(lake: LakeTables) -> None:
    rows = as_dicts(lake, "readiness")
    assert {row["group_id"] for row in rows} == set(read_live(CAPTURE / LIVE).groups)
    assert len(rows) == len({row["group_id"] for row in rows})
    (run,) = (row for row in as_dicts(lake, "runs") if row["outcome"] == DONE)
    assert {row["run_id"] for row in rows} == {run["run_id"]}
    assert "readiness" in run["durations_ms"]
    verdicts = {row["group_id"]: row["verdict"] for row in rows}
    assert verdicts.items() >= KNOWN.items()


def test_a_row_names_the_records_behind_it(lake: LakeTables) -> None:
    """Fails if offsets of one group are another's, or if lists and maps are lost in writing."""
    records = {(row["partition"], row["offset"]): row for row in as_dicts(lake, "records")}
    rows = {row["group_id"]: row for row in as_dicts(lake, "readiness")}
    for name, row in rows.items():
        assert row["evidence"], name
        for offset in row["evidence"]:
            assert records[row["partition"], int(offset)]["group_id"] == name
    sticky = rows["demo.classic-sticky"]
    assert sticky["blockers"] == ["assignment-user-data"]
    assert "members" in sticky["details"]["assignment-user-data"]
    assert sticky["cluster_id"] is None  # a capture alone does not know it


def test_both_ways_to_write_give_the_same_rows(
    capture_lake: LakeTables, spark_written_lake: LakeTables
) -> None:
    def rows(lake: LakeTables) -> dict[str, dict[str, Any]]:
        found = {row.pop("group_id"): row for row in as_dicts(lake, "readiness")}
        for row in found.values():
            row.pop("run_id")
        return found

    assert rows(capture_lake) == rows(spark_written_lake)


@pytest.mark.parametrize(
    "by_spark",
    [
        pytest.param(False, id="workers"),
        pytest.param(True, id="spark", marks=pytest.mark.long),  # four runs through Spark
    ],
)
def test_each_night_adds_its_verdicts_once(
    by_spark: bool, spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two nights, the second killed after it has written its verdicts, then repeated; a third one
    without news."""
    first = write_part(CAPTURE / COMMITTED, tmp_path / "half.parquet", halves(CAPTURE / COMMITTED))
    lake = open_lake(spark, str(tmp_path / "lake"), by_spark=by_spark)
    run_ingest(source(first), lake, then_replay=True)
    early = Counter(row["run_id"] for row in as_dicts(lake, "readiness"))

    def killed(*_: object) -> Run:
        raise KeyboardInterrupt

    with monkeypatch.context() as broken:
        broken.setattr(pipeline, "finish_run", killed)
        with pytest.raises(KeyboardInterrupt):
            run_ingest(source(CAPTURE / COMMITTED), lake, then_replay=True)
    assert len({row["run_id"] for row in as_dicts(lake, "readiness")}) == 2
    assert run_ingest(source(CAPTURE / COMMITTED), lake, then_replay=True).recovered
    runs = Counter(row["run_id"] for row in as_dicts(lake, "readiness"))
    ((_, count),) = (runs - early).items()
    assert runs & early == early
    assert count == len(as_dicts(lake, "groups"))

    version = lake.versions()["readiness"]
    assert not run_ingest(source(CAPTURE / COMMITTED), lake, then_replay=True).changed
    assert lake.versions()["readiness"] == version


def test_ingest_alone_judges_nothing_and_replay_does(spark: SparkSession, tmp_path: Path) -> None:
    lake = open_lake(spark, str(tmp_path / "lake"))
    run_ingest(source(CAPTURE / COMMITTED), lake)
    assert as_dicts(lake, "readiness") == []
    replayed = run_replay(lake).run
    assert replayed is not None
    assert {row["run_id"] for row in as_dicts(lake, "readiness")} == {replayed.run_id}


def test_a_lake_of_an_earlier_version_gets_the_table(
    capture_lake: LakeTables, spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = write_part(CAPTURE / COMMITTED, tmp_path / "half.parquet", halves(CAPTURE / COMMITTED))
    with monkeypatch.context() as earlier:
        earlier.delitem(TABLES, "readiness")
        earlier.setattr(pipeline, "judge_readiness", lambda *_: None)
        old = open_lake(spark, str(tmp_path / "lake"))
        run_ingest(source(first), old, then_replay=True)
    shutil.rmtree(tmp_path / "lake" / "readiness", ignore_errors=True)
    lake = open_lake(spark, str(tmp_path / "lake"))
    run_ingest(source(CAPTURE / COMMITTED), lake, then_replay=True)
    wanted = {row["group_id"]: row["verdict"] for row in as_dicts(capture_lake, "readiness")}
    assert {r["group_id"]: r["verdict"] for r in as_dicts(lake, "readiness")} == wanted
    assert LakeSnapshot(lake.place).table("readiness").num_rows == len(wanted)
