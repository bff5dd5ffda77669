"""A nightly audit that goes on from the audits of earlier nights finds what an audit of all records
of the changed groups finds."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from kip848_spark.checks.saved_audit import rules_id
from kip848_spark.spark.jobs import audit, audit_input
from kip848_spark.spark.jobs.audit import AuditRequest, agreement_rows, findings_rows
from kip848_spark.spark.jobs.erasure import ErasedNames
from kip848_spark.spark.jobs.saved_audits import (
    AUDITED_GROUPS,
    find_saved,
    newest_saved,
    remove_superseded,
    without_checked,
)
from kip848_spark.spark.maintenance import run_maintenance
from kip848_spark.spark.pipeline import run_audit, run_ingest
from kip848_spark.spark.storage.opening import open_lake
from kip848_spark.spark.storage.tables import LakeTables
from tests.captures import COMMITTED
from tests.conftest import DATA
from tests.spark.lakes import source, write_part

CHURN = DATA / "churn-4.3.1" / COMMITTED
NIGHTS = 3
GROUP_EPOCH = b"\0\3"


class Both(NamedTuple):
    """See the fixture `both`."""

    lake: LakeTables
    """The lake whose audits go on from saved ones."""
    give: Callable[[Path], tuple[list[dict[str, Any]], list[dict[str, Any]]]]


@pytest.fixture(autouse=True)
def large_lake(monkeypatch: pytest.MonkeyPatch) -> None:
    """The audits of large lakes are saved, and of groups with more records than those of the
    captures."""
    monkeypatch.setattr(audit, "SAVE_AFTER", 10)
    for module in (audit, audit_input):
        monkeypatch.setattr(module, "COMMITS_REPLAYED", 0)


def parts(capture: Path, folder: Path) -> list[Path]:
    """The capture as each night finds it: a part of each partition, each time a larger one."""
    ends = ends_of(capture)
    return [
        write_part(
            capture, folder / f"{night}.parquet", {p: e * night // NIGHTS for p, e in ends.items()}
        )
        for night in range(1, NIGHTS + 1)
    ]


def ends_of(capture: Path) -> dict[int, int]:
    found = pq.read_table(capture, columns=["partition", "offset"])
    ends = found.group_by("partition").aggregate([("offset", "max")])
    return {row["partition"]: row["offset_max"] + 1 for row in ends.to_pylist()}


def with_wrong_epoch(capture: Path, to: Path) -> Path:
    """The capture with a group epoch that skips some, in its last part."""
    table = pq.read_table(capture).sort_by("timestamp")
    ends, values = ends_of(capture), table["value"].to_pylist()
    rows = zip(*(table[name].to_pylist() for name in ("partition", "offset", "key")), strict=True)
    at = next(
        number
        for number, (partition, offset, key) in enumerate(rows)
        if key[:2] == GROUP_EPOCH and values[number] and offset > ends[partition] * 4 // 5
    )
    version, epoch, rest = values[at][:2], values[at][2:6], values[at][6:]
    values[at] = version + (int.from_bytes(epoch, "big") + 7).to_bytes(4, "big") + rest
    column = table.schema.get_field_index("value")
    changed = pa.array(values, table.schema.field("value").type)
    pq.write_table(table.set_column(column, "value", changed), to)
    return to


def night(lake: LakeTables, capture: Path) -> list[dict[str, Any]]:
    """The agreement and the findings of a night."""
    outcome = run_ingest(source(capture), lake, then_replay=True, then_audit=True)
    assert outcome.run is not None
    run_id = outcome.run.run_id
    rows = [*agreement_rows(lake, run_id), *findings_rows(lake, run_id)]
    return [{name: row[name] for name in row if name != "run_id"} for row in rows]


def saved(lake: LakeTables) -> list[tuple[str, str]]:
    return sorted((row["group_id"], row["run_id"]) for row in lake.rows(AUDITED_GROUPS))


@pytest.fixture
def both(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Both:
    """A function that gives a capture to two lakes, and returns what each of them found: one whose
    audits go on from saved ones, and one whose audits begin at the first record."""
    lakes = [open_lake(spark, str(tmp_path / name)) for name in ("saved", "whole")]

    def give(capture: Path) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
        first = night(lakes[0], capture)
        with monkeypatch.context() as patch:
            patch.setattr(audit, "find_saved", lambda lake, after: None)
            return first, night(lakes[1], capture)

    return Both(lakes[0], give)


@pytest.mark.slow
@pytest.mark.parametrize("capture", ["churn-4.3.1", "upgraded-4.1.2-4.3.1-4.1.2"])
def test_nights_from_saved_audits(both: Both, tmp_path: Path, capture: str) -> None:
    lake = both.lake
    for number, part in enumerate(parts(DATA / capture / COMMITTED, tmp_path)):
        found, wanted = both.give(part)
        assert found == wanted, number
        assert not any("finding_id" in row for row in found)
    last = max(run for _, run in saved(lake))
    control = lake.read("records").where("key_type > 1")
    left = without_checked(control, newest_saved(find_saved(lake, last)))
    assert left.count() < control.count() / 2


@pytest.mark.slow
def test_a_finding_is_that_of_an_audit_of_all_records(both: Both, tmp_path: Path) -> None:
    """With its id, its text, and the finding that it follows from."""
    wrong = with_wrong_epoch(CHURN, tmp_path / "wrong.parquet")
    for part in parts(wrong, tmp_path):
        found, wanted = both.give(part)
        assert found == wanted
    findings = [row for row in found if "finding_id" in row]
    assert any(row["reason"] == "group_epoch" for row in findings)
    group = findings[0]["group_id"]
    newest = max(run for _, run in saved(both.lake))
    assert group not in {of for of, run in saved(both.lake) if run == newest}


@pytest.mark.slow
def test_a_wrong_saved_audit_gives_no_finding(both: Both, tmp_path: Path) -> None:
    *first, last = parts(CHURN, tmp_path)
    for part in first:
        both.give(part)
    rows = both.lake.read(AUDITED_GROUPS)
    wrong = ["{}", "no JSON", '"target_epoch":7', '"releases":["9.9"],"past']
    found = ["^.*$", "^.*$", '"target_epoch":', '"releases":.*"past']
    kind = F.pmod(F.hash("group_id"), F.lit(len(wrong)))
    damaged = F.col("saved")
    for number, (old, new) in enumerate(zip(found, wrong, strict=True)):
        damaged = F.when(kind == number, F.regexp_replace("saved", old, new)).otherwise(damaged)
    changed = rows.withColumn("saved", damaged)
    assert changed.select("saved").distinct().count() > len(wrong)
    both.lake.overwrite(
        AUDITED_GROUPS, both.lake.spark.createDataFrame(changed.collect(), rows.schema)
    )
    given, wanted = both.give(last)
    assert given == wanted


@pytest.mark.slow
def test_what_becomes_of_saved_audits(spark: SparkSession, tmp_path: Path) -> None:
    """An audit of a part saves none; maintenance leaves the newest of each group; erased names are
    in none."""
    lake = open_lake(spark, str(tmp_path / "lake"))
    for part in parts(CHURN, tmp_path):
        night(lake, part)
    before = saved(lake)
    run_audit(lake, AuditRequest(release="4.3"))
    run_audit(lake, AuditRequest(groups=[before[0][0]]))
    assert saved(lake) == before
    run_maintenance(lake, 24)
    assert saved(lake) == sorted(dict(before).items()) != before
    run_maintenance(lake, 24, erased=ErasedNames.parse(["host:192.0.2.1"]))
    assert saved(lake) == []


@pytest.mark.slow
@pytest.mark.parametrize("by_spark", [False, True], ids=["workers", "spark"])
def test_the_newest_by_these_rules_counts(
    spark: SparkSession, tmp_path: Path, by_spark: bool
) -> None:
    """In lakes that executors write and in those that Spark writes."""
    lake = open_lake(spark, str(tmp_path / "lake"), by_spark=by_spark)
    lake.create()
    rows = [
        ("1", "a", 0, 10, rules_id()),
        ("2", "a", 0, 20, rules_id()),
        ("2", "b", 1, 30, rules_id()),
        ("3", "b", 1, 40, "other rules"),
        ("3", "c", 2, 50, "other rules"),
        ("4", "a", 0, 60, rules_id()),
    ]
    for row in rows:
        frame = spark.createDataFrame(
            [row], "run_id string, group_id string, partition int, offset long, rules string"
        )
        lake.append(
            AUDITED_GROUPS,
            frame.selectExpr("*", "timestamp(0) timestamp", "'{}' saved", "'c' cluster_id"),
        )

    def found(after: str) -> list[tuple[str, int, int]]:
        rows = find_saved(lake, after)
        assert rows is not None
        newest = newest_saved(rows).collect()
        return sorted((row["group_id"], row["partition"], row["offset"]) for row in newest)

    assert found("1") == [("a", 0, 10)]
    assert found("3") == [("a", 0, 20), ("b", 1, 30)]
    assert remove_superseded(lake) == 4
    assert remove_superseded(lake) == 0
    assert found("4") == [("a", 0, 60), ("b", 1, 30)]
    assert found("3") == [("b", 1, 30)]
