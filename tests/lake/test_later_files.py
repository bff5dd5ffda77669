"""The files of a table that may have rows of later runs than a given one."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import DeltaTable, write_deltalake

from kip848_spark.lake import delta_rs
from kip848_spark.lake.arrow_files import WriteTarget
from kip848_spark.lake.tables import TABLES

NIGHTS = tuple(f"2026112{day}T020000.000000Z-ab{day}0" for day in range(1, 5))


def runs_in(paths: list[str]) -> set[str]:
    found: set[str] = set()
    for path in paths:
        found |= set(pq.read_table(path.removeprefix("file:"))["run_id"].to_pylist())
    return found


def write_nights(table: str, folder: Path) -> None:
    """A file for each of `NIGHTS`."""
    delta_rs.create_table(str(folder), TABLES[table])
    for number, night in enumerate(NIGHTS):
        target = WriteTarget(
            table,
            str(folder),
            TABLES[table].fields,
            {"run_id": night, "cluster_id": None},
            TABLES[table].stats_columns,
        )
        rows = [dict.fromkeys(TABLES[table].fields) | {"partition": number}]
        delta_rs.commit(str(folder), number, delta_rs.write_rows(target, rows))


def test_files_of_earlier_runs_are_left_out(tmp_path: Path) -> None:
    """The tables that a night reads by run. A bound that is missing costs only time (delta-rs has
    none of the columns behind the wide structs of `group_records`); one that is wrong would lose
    rows."""
    for table in ("records", "group_records", "gaps", "commit_summaries"):
        folder = tmp_path / table
        write_nights(table, folder)
        assert runs_in(delta_rs.file_paths(str(folder))) == set(NIGHTS)
        later = runs_in(delta_rs.file_paths(str(folder), NIGHTS[1]))
        assert later >= set(NIGHTS[2:]), table
        if table != "group_records":
            assert later == set(NIGHTS[2:]), table
            assert delta_rs.file_paths(str(folder), NIGHTS[-1]) == []
        assert runs_in(delta_rs.file_paths(str(folder), "2026")) == set(NIGHTS)


def test_merged_files_and_files_without_statistics_stay(tmp_path: Path) -> None:
    folder = tmp_path / "gaps"
    write_nights("gaps", folder)
    delta_rs.compact(str(folder))
    assert runs_in(delta_rs.file_paths(str(folder), NIGHTS[2])) == set(NIGHTS)
    assert delta_rs.file_paths(str(folder), NIGHTS[3]) == []

    bare = tmp_path / "bare"
    rows = pa.table({"run_id": [NIGHTS[0]]})
    settings = {"delta.dataSkippingNumIndexedCols": "0"}
    write_deltalake(bare, rows, configuration=settings)
    assert DeltaTable(bare).version() == 0
    assert len(delta_rs.file_paths(str(bare), NIGHTS[3])) == 1
