"""Retention by age between two nights: the next night, the audit, `groups --as-of` within the kept
time, and a replay of everything that is left give what they give without it."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from kip848_spark.errors import LakeError, NotFoundError
from kip848_spark.lake.history import state_at
from kip848_spark.lake.snapshot import LakeSnapshot
from kip848_spark.simulation import plan_cluster, simulate
from kip848_spark.spark.jobs import retention
from kip848_spark.spark.jobs.audit import AuditRequest
from kip848_spark.spark.maintenance import run_maintenance
from kip848_spark.spark.pipeline import run_audit, run_ingest, run_repair
from kip848_spark.spark.storage.opening import open_lake
from kip848_spark.spark.storage.tables import LakeTables
from tests.spark.lakes import assert_same_rows, source

pytestmark = [pytest.mark.long, pytest.mark.timeout(1200)]

STATE = ("groups", "members", "assignments", "offsets", "topics", "control_state")
AS_OF = ("groups", "members", "assignments", "offsets")
HISTORIES = ("group_history", "member_history", "assignment_history", "rebalances")


@pytest.fixture(scope="module")
def nights(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """A simulated log in three parts; each begins where the one before begins."""
    folder = tmp_path_factory.mktemp("nights")
    simulate(plan_cluster("chaos", 9_000, 5, partitions=3), folder / "capture")
    files = sorted((folder / "capture").glob("partition-*.parquet"))
    log = pa.concat_tables(map(pq.read_table, files))
    parts = []
    for number in (1, 2, 3):
        kept = [
            own.slice(0, own.num_rows * number // 3)
            for p in pc.unique(log["partition"])
            if (own := log.filter(pc.equal(log["partition"], p)).sort_by("offset"))
        ]
        parts.append(folder / f"{number}.parquet")
        pq.write_table(pa.concat_tables(kept), parts[-1])
    return parts


@pytest.fixture(scope="module")
def two_nights(
    spark: SparkSession, nights: list[Path], tmp_path_factory: pytest.TempPathFactory
) -> LakeTables:
    """A lake of the first two nights. Tests only read it."""
    return _read(spark, nights[:2], tmp_path_factory.mktemp("two") / "lake")


@pytest.fixture(scope="module")
def untouched(
    spark: SparkSession, nights: list[Path], two_nights: LakeTables, tmp_path_factory: Any
) -> LakeTables:
    """The lake of three nights without retention. Tests only read it."""
    lake = _copy(two_nights, tmp_path_factory.mktemp("three"))
    run_ingest(source(nights[2]), lake, then_replay=True, then_audit=True)
    return lake


def _read(
    spark: SparkSession, parts: list[Path], to: Path, *, by_spark: bool = False
) -> LakeTables:
    lake = open_lake(spark, str(to), by_spark=by_spark)
    for part in parts:
        run_ingest(source(part), lake, then_replay=True, then_audit=True)
    return lake


def _copy(lake: LakeTables, to: Path) -> LakeTables:
    shutil.copytree(str(lake.place.folder), to / "lake")
    return open_lake(lake.spark, str(to / "lake"))


def middle(lake: LakeTables) -> datetime:
    """The median timestamp of the records."""
    times = LakeSnapshot(lake.place).select("records", columns=["timestamp"])["timestamp"]
    ordered = sorted(times.to_pylist())
    found: datetime = ordered[len(ordered) // 2]
    return found.astimezone(UTC)


def expected_places(lake: LakeTables, since: datetime) -> set[tuple[int, int]]:
    """The records that stay: those from the first young record of their partition on, and of the
    others the last value of each key."""
    rows = sorted(LakeSnapshot(lake.place).rows("records"), key=lambda r: r["offset"])
    cut = {}
    for row in rows:
        if row["timestamp"] >= since:
            cut.setdefault(row["partition"], row["offset"])
    last: dict[Any, Any] = {}
    found = set()
    for row in rows:
        if row["offset"] >= cut.get(row["partition"], 1 << 60):
            found.add((row["partition"], row["offset"]))
        elif row["kind"] == "offset_commit":
            key = (row["group_id"], row["topic"], row["topic_partition"])
            last[row["partition"], key] = row
        else:
            last[row["partition"], row["raw_key"]] = row
    return found | {(r["partition"], r["offset"]) for r in last.values() if not r["tombstone"]}


def places(lake: LakeTables, table: str) -> set[tuple[int, int]]:
    rows = LakeSnapshot(lake.place).select(table, columns=["partition", "offset"]).to_pylist()
    assert len({(r["partition"], r["offset"]) for r in rows}) == len(rows)
    return {(row["partition"], row["offset"]) for row in rows}


def oldest_commits_left(two_nights: LakeTables, since: datetime) -> dict[str, dict[str, Any]]:
    """Of each group with nothing but commits: the columns of `groups` that name the oldest of its
    commits that retention leaves."""
    left = expected_places(two_nights, since)
    reader = LakeSnapshot(two_nights.place)
    others = {row["group_id"] for row in reader.rows("group_records")}
    found: dict[str, dict[str, Any]] = {}
    for row in sorted(reader.rows("records"), key=lambda row: row["offset"]):
        is_left = (row["partition"], row["offset"]) in left and not row["tombstone"]
        if is_left and row["kind"] == "offset_commit" and row["group_id"] not in others:
            begin = {"last_offset": row["offset"], "updated_at": row["timestamp"]}
            found.setdefault(row["group_id"], begin)
    return found


def assert_answers_as(
    lake: LakeTables,
    untouched: LakeTables,
    since: datetime,
    begins: Mapping[str, Mapping[str, Any]] | None = None,
) -> None:
    """The state at several times since ``since`` is the same in both lakes. A row of `groups` that
    would begin before the record that ``begins`` has for its group begins there."""
    begins = begins or {}

    def expected(row: dict[str, Any]) -> dict[str, Any]:
        begin = begins.get(row["group_id"])
        return row | begin if begin and row["last_offset"] < begin["last_offset"] else row

    one, other = LakeSnapshot(lake.place), LakeSnapshot(untouched.place)
    newest = max(r["timestamp"] for r in other.select("records", columns=["timestamp"]).to_pylist())
    for part in range(4):
        time = since + (newest.astimezone(UTC) - since) * part / 4
        for table in AS_OF:
            found, rows = (state_at(snapshot, time).rows(table) for snapshot in (one, other))
            wanted = map(expected, rows) if table == "groups" else rows
            assert sorted(map(repr, found)) == sorted(map(repr, wanted)), (table, time)
            assert rows or table == "offsets"


def assert_history_since(lake: LakeTables, untouched: LakeTables, cut: dict[int, int]) -> None:
    """The intervals that reach beyond the cut are the same in both lakes."""
    for table in HISTORIES:
        found, wanted = (
            sorted(
                repr({k: v for k, v in row.items() if k != "cluster_id"})
                for row in LakeSnapshot(one.place).rows(table)
                if row["to_offset"] is None or row["to_offset"] >= cut[row["partition"]]
            )
            for one in (lake, untouched)
        )
        assert found == wanted, table


def test_the_next_night_is_as_without_it(
    spark: SparkSession,
    nights: list[Path],
    two_nights: LakeTables,
    untouched: LakeTables,
    tmp_path: Path,
) -> None:
    lake = _copy(two_nights, tmp_path)
    since = middle(lake)
    wanted = expected_places(lake, since)
    control = places(lake, "group_records") & wanted
    reader = LakeSnapshot(lake.place)
    before = reader.rows("member_history")
    files = {path.name for path in Path(lake.path, "records").glob("*.parquet")}

    done = run_maintenance(lake, 24, keep_since=since)

    assert done.removed["records"] == len(places(two_nights, "records")) - len(wanted) > 1_000
    assert places(lake, "records") == wanted
    assert places(lake, "group_records") == control
    assert reader.rows("member_history") == before, "a reader of the run before is not disturbed"
    assert files <= {path.name for path in Path(lake.path, "records").glob("*.parquet")}
    last = LakeSnapshot(lake.place).run
    assert last.kept_since is not None
    assert last.kept_since.astimezone(UTC) == since
    cut = dict(last.kept_from or {})
    for table in HISTORIES:
        ends = LakeSnapshot(lake.place).select(table, columns=["partition", "to_offset"])
        assert all(
            row["to_offset"] is None or row["to_offset"] >= cut[row["partition"]]
            for row in ends.to_pylist()
        )
        assert done.removed[table] > 0

    again = run_maintenance(lake, 24, keep_since=since)
    assert not any(again.removed.values()), "a second one finds nothing to remove"

    assert run_ingest(source(nights[2]), lake, then_replay=True, then_audit=True).changed
    assert_same_rows(lake, untouched, STATE)
    assert_history_since(lake, untouched, cut)
    assert_answers_as(lake, untouched, since)
    with pytest.raises(NotFoundError, match="Nothing is known of"):
        state_at(LakeSnapshot(lake.place), middle(two_nights).replace(year=2001))

    run_audit(lake, AuditRequest())  # all records that are left, from the first one
    newest = LakeSnapshot(lake.place)
    own = [row for row in newest.rows("agreement") if row["run_id"] == newest.run.run_id]
    assert sum(row["disagreed"] for row in own) == 0
    assert sum(row["verified"] for row in own) > 1_000
    assert (
        newest.table("findings").num_rows
        == LakeSnapshot(untouched.place).table("findings").num_rows
    )


def test_a_replay_of_what_is_left(
    two_nights: LakeTables, nights: list[Path], untouched: LakeTables, tmp_path: Path
) -> None:
    """A repair replays all records of the lake from the first one."""
    lake = _copy(two_nights, tmp_path)
    since = middle(lake)
    run_maintenance(lake, 24, keep_since=since)
    run_ingest(source(nights[2]), lake, then_replay=True, then_audit=True)
    lake.append("records", lake.read("records").limit(1))
    assert run_repair(lake).removed == 1
    assert_same_rows(lake, untouched, STATE)
    # The row of a group with nothing but commits begins at its oldest commit that is left.
    begins = oldest_commits_left(two_nights, since)
    assert begins
    assert_answers_as(lake, untouched, since, begins)


def test_killed_in_the_middle(
    monkeypatch: pytest.MonkeyPatch, two_nights: LakeTables, tmp_path: Path
) -> None:
    lake = _copy(two_nights, tmp_path)
    since = middle(lake)

    def killed(*_: Any) -> dict[str, int]:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(retention, "remove_closed_rows", killed)  # the records are gone already
        with pytest.raises(KeyboardInterrupt):
            run_maintenance(lake, 24, keep_since=since)
    assert LakeSnapshot(lake.place).rows("records") == LakeSnapshot(two_nights.place).rows(
        "records"
    )
    run_maintenance(lake, 24, keep_since=since)
    assert places(lake, "records") == expected_places(two_nights, since)


def test_tables_that_spark_writes(spark: SparkSession, nights: list[Path], tmp_path: Path) -> None:
    lake = _read(spark, nights[:1], tmp_path / "lake", by_spark=True)
    since = middle(lake)
    wanted = expected_places(lake, since)
    run_maintenance(lake, 24, keep_since=since)
    assert places(lake, "records") == wanted
    run_ingest(source(nights[1]), lake, then_replay=True)


def test_a_lake_that_is_not_replayed(
    spark: SparkSession, nights: list[Path], tmp_path: Path
) -> None:
    lake = open_lake(spark, str(tmp_path / "lake"))
    run_ingest(source(nights[0]), lake)
    with pytest.raises(LakeError, match="were replayed") as found:
        run_maintenance(lake, 24, keep_since=datetime.now(UTC))
    assert "kip848 replay" in str(found.value.hint)
