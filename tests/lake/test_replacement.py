"""Commits that replace some rows of a table and leave the others, read back by delta-rs."""

from __future__ import annotations

from datetime import date
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from kip848_spark.lake import delta_rs
from kip848_spark.lake.arrow_files import WriteTarget, open_writers
from kip848_spark.lake.replacement import OPEN_ROWS, ReplacedRows
from kip848_spark.lake.tables import TableDefinition

FIELDS = {"key": pa.string(), "day": pa.date32(), "to_offset": pa.int64()}
TABLE = TableDefinition("findings", FIELDS)  # a name that has comments
Row = tuple[str, int, int | None]


@pytest.fixture
def target(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> WriteTarget:
    folder = str(tmp_path / "table")
    monkeypatch.setattr(TableDefinition, "comments", dict.fromkeys(FIELDS, "a comment"))
    delta_rs.create_table(folder, TABLE)
    return WriteTarget("findings", folder, FIELDS, {}, TABLE.stats_columns)


def write(target: WriteTarget, rows: list[Row], replaced: ReplacedRows | None = None) -> None:
    columns: dict[str, Any] = {
        "key": pa.array([row[0] for row in rows], pa.string()),
        "day": pa.array([date(2026, 11, row[1]) for row in rows], pa.date32()),
        "to_offset": pa.array([row[2] for row in rows], pa.int64()),
    }
    with open_writers([target]) as writers:
        writers[target.table].write(columns)
        files = writers[target.table].close()
    version = DeltaTable(target.folder).version()
    if replaced is None:
        delta_rs.commit(target.folder, version, files)
    else:
        delta_rs.commit_replacement(target, version, files, replaced)


def read(target: WriteTarget) -> list[Row]:
    found = DeltaTable(target.folder).to_pyarrow_table().to_pylist()
    return sorted(((r["key"], r["day"].day, r["to_offset"]) for r in found), key=repr)


def names(target: WriteTarget) -> set[str]:
    return set(delta_rs.file_paths(target.folder))


def test_open_rows_are_replaced_and_closed_ones_stay_in_their_files(target: WriteTarget) -> None:
    write(target, [("a", 1, 5), ("b", 1, None), ("c", 1, None)])
    before = names(target)
    assert len(before) == 2
    write(target, [("b", 1, 9), ("d", 2, None)], OPEN_ROWS)
    assert read(target) == [("a", 1, 5), ("b", 1, 9), ("d", 2, None)]
    assert len(before & names(target)) == 1


def test_a_file_that_was_merged_loses_only_its_open_rows(target: WriteTarget) -> None:
    """`OPTIMIZE` of another program puts open and closed rows into one file."""
    write(target, [("a", 1, 5), ("b", 1, None)])
    write(target, [("c", 1, 6), ("d", 1, None)])
    DeltaTable(target.folder).optimize.compact()
    assert len(names(target)) == 1
    write(target, [("e", 2, None)], OPEN_ROWS)
    assert read(target) == [("a", 1, 5), ("c", 1, 6), ("e", 2, None)]


def test_files_without_statistics_lose_only_open_rows(
    target: WriteTarget, monkeypatch: pytest.MonkeyPatch
) -> None:
    bare = WriteTarget(target.table, target.folder, FIELDS, {}, ("key",))
    write(bare, [("a", 1, 5), ("b", 1, None)])
    write(target, [("c", 2, None)], OPEN_ROWS)
    assert read(target) == [("a", 1, 5), ("c", 2, None)]


def test_rows_of_some_days_are_replaced(target: WriteTarget) -> None:
    write(target, [("a", 1, 1)])
    write(target, [("b", 2, 1)])
    write(target, [("c", 1, 1), ("d", 3, 1)])  # a file of two days
    days = ReplacedRows("day", (date(2026, 11, 1), date(2026, 11, 2)))
    write(target, [("e", 1, 1)], days)
    assert read(target) == [("d", 3, 1), ("e", 1, 1)]


def test_conditions_in_spark_sql() -> None:
    assert OPEN_ROWS.sql == "to_offset IS NULL"
    assert ReplacedRows("day", (date(2026, 11, 1),)).sql == "day IN (DATE'2026-11-01')"
    assert ReplacedRows("name", ("it's", "b")).sql == "name IN ('it\\'s', 'b')"
