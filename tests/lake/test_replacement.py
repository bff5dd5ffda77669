"""Commits that replace some rows of a table and leave the others, read back by delta-rs."""

from __future__ import annotations

from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable

from kip848_spark.lake import delta_rs, merging
from kip848_spark.lake.arrow_files import WriteTarget, open_writers
from kip848_spark.lake.rows_with import OPEN_ROWS, RowsWith
from kip848_spark.lake.tables import TableDefinition

FIELDS = {"key": pa.string(), "day": pa.date32(), "to_offset": pa.int64()}
TABLE = TableDefinition("findings", FIELDS)  # a name that has comments
Row = tuple[str, int, int | None]


@pytest.fixture
def target(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> WriteTarget:
    folder = str(tmp_path / "table")
    monkeypatch.setattr(TableDefinition, "comments", dict.fromkeys([*FIELDS, "added"], "a comment"))
    delta_rs.create_table(folder, TABLE)
    return WriteTarget("findings", folder, FIELDS, {}, TABLE.stats_columns, apart=OPEN_ROWS)


def write(target: WriteTarget, rows: list[Row], replaced: RowsWith | None = None) -> None:
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
    bare = replace(target, stats=("key",))
    write(bare, [("a", 1, 5), ("b", 1, None)])
    write(target, [("c", 2, None)], OPEN_ROWS)
    assert read(target) == [("a", 1, 5), ("c", 2, None)]


def test_rows_of_some_days_are_replaced(target: WriteTarget) -> None:
    write(target, [("a", 1, 1)])
    write(target, [("b", 2, 1)])
    write(target, [("c", 1, 1), ("d", 3, 1)])  # a file of two days
    days = RowsWith("day", (date(2026, 11, 1), date(2026, 11, 2)))
    write(target, [("e", 1, 1)], days)
    assert read(target) == [("d", 3, 1), ("e", 1, 1)]


def test_files_of_closed_rows_are_merged(target: WriteTarget) -> None:
    """A run replaces the open rows of the run before and adds closed ones."""
    write(target, [("a", 1, 5), ("b", 1, None)])
    write(target, [("b", 1, 9), ("c", 2, None)], OPEN_ROWS)
    write(target, [("c", 2, 12), ("d", 3, None)], OPEN_ROWS)
    before = names(target)
    assert len(before) == 4

    assert merge(target) == 3

    assert read(target) == [("a", 1, 5), ("b", 1, 9), ("c", 2, 12), ("d", 3, None)]
    assert len(names(target)) == 2
    assert len(before & names(target)) == 1  # that of the open row
    log = sorted(Path(str(target.folder), "_delta_log").glob("*.json"))[-1].read_text()
    assert log.count('"dataChange":false') == 4
    assert '"dataChange":true' not in log

    write(target, [("d", 3, 15), ("e", 4, None)], OPEN_ROWS)
    assert read(target) == [("a", 1, 5), ("b", 1, 9), ("c", 2, 12), ("d", 3, 15), ("e", 4, None)]
    assert len(names(target)) == 3


def test_nothing_is_merged_that_is_large_mixed_or_alone(
    target: WriteTarget, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(target, [("a", 1, 5), ("b", 1, None)])
    version = DeltaTable(target.folder).version()
    assert merge(target) == 0
    write(target, [("c", 1, 6), ("d", 1, None)])
    DeltaTable(target.folder).optimize.compact()  # one file with closed and open rows
    write(target, [("e", 1, 7)])
    assert merge(target) == 0
    write(target, [("f", 1, 8)])
    monkeypatch.setattr(merging, "MERGED_BYTES", 10)
    assert merge(target) == 0
    assert DeltaTable(target.folder).version() == version + 4


def test_merged_files_have_few_row_groups_and_the_columns_that_were_added(
    target: WriteTarget, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(merging, "GROUP_ROWS", 3)
    for number in range(5):
        write(target, [(f"a{number}", 1, number), (f"b{number}", 1, number)])
    later = {**FIELDS, "added": pa.list_(pa.string())}
    delta_rs.add_columns(target.folder, TableDefinition("findings", later), ["added"])
    assert merge(replace(target, fields=later)) == 5
    found = DeltaTable(target.folder).to_pyarrow_table()
    assert found["key"].to_pylist() == [f"{name}{n}" for n in range(5) for name in "ab"]
    assert found["added"].null_count == 10
    [name] = names(target)
    assert pq.ParquetFile(name.removeprefix("file:")).num_row_groups == 3


def merge(target: WriteTarget) -> int:
    return delta_rs.compact_apart(target, DeltaTable(target.folder).version(), OPEN_ROWS)
