"""A lake that an earlier version of this program wrote: readers show it, and runs continue it."""

from __future__ import annotations

import tarfile
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from kip848_spark.errors import LakeError
from kip848_spark.lake.lake import Lake
from kip848_spark.lake.location import locate
from kip848_spark.lake.snapshot import LakeSnapshot
from kip848_spark.lake.tables import TABLES
from kip848_spark.spark.maintenance import run_maintenance
from kip848_spark.spark.pipeline import run_ingest
from kip848_spark.spark.storage.opening import open_lake
from kip848_spark.spark.storage.tables import LakeTables
from tests.conftest import DATA
from tests.keep_lake import CAPTURE, first_half
from tests.lake.replayed_lake import control_bytes, state_after
from tests.spark.lakes import TABLES_OF_RECORDS, assert_same_rows, source

KEPT = sorted(DATA.glob("lake-*.tar.xz"))
_OF_READERS = ("run_id", "cluster_id", "cause", "gap_cause")
_OF_REBALANCES = ("causes", "evidence", "unowned_ms")
"""What later versions find out in another way (docs/rebalances.md)."""


@pytest.fixture(params=KEPT, ids=lambda path: path.name.removesuffix(".tar.xz"))
def kept(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    with tarfile.open(request.param) as packed:
        packed.extractall(tmp_path, filter="data")
    return tmp_path / "lake"


def test_readers_show_it(kept: Path, tmp_path: Path) -> None:
    """The state is the one that a replay of the same records gives, without Spark or a lake."""
    snapshot = LakeSnapshot(locate(str(kept)))
    expected = state_after(control_bytes(first_half(tmp_path)))
    for name in ("members", "assignments"):  # `groups` also has groups of commits alone
        # The names of topics come from commits, and the replay gets none.
        columns = [column for column in expected[name].column_names if column != "topic"]
        wanted = sorted(map(repr, expected[name].select(columns).to_pylist()))
        assert sorted(map(repr, snapshot.select(name, columns=columns).to_pylist())) == wanted, name
    groups = {(row["group_id"], row["type"], row["epoch"]) for row in snapshot.rows("groups")}
    control = expected["groups"].to_pylist()
    assert {(row["group_id"], row["type"], row["epoch"]) for row in control} <= groups
    assert snapshot.run.audited
    for name in TABLES:
        if name in snapshot.run.table_versions or name == "runs":
            snapshot.table(name)
        else:  # a table that was added since
            with pytest.raises(LakeError, match=f"had no table {name} at run"):
                snapshot.table(name)
    assert Lake(str(kept)).groups()


@pytest.mark.slow
def test_runs_continue_it(kept: Path, spark: SparkSession, audited_lake: LakeTables) -> None:
    lake = open_lake(spark, str(kept))
    run_maintenance(lake, 24)
    run_ingest(source(CAPTURE), lake, then_replay=True, then_audit=True)
    tables = [name for name in TABLES_OF_RECORDS if name not in ("agreement", "findings")]
    assert_same_rows(lake, audited_lake, tables, leave_out=(*_OF_READERS, *_OF_REBALANCES))
