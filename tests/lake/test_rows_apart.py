"""Offset commits have data files of their own, and who needs the other records skips these."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from datetime import date
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, QueryBuilder
from hypothesis import given
from hypothesis import strategies as st

from kip848_spark.lake import delta_rs, merging, replacement
from kip848_spark.lake.arrow_files import DataFile, TableWriter, WriteTarget, open_writers
from kip848_spark.lake.rows_with import COMMITS, OPEN_ROWS, RowsWith
from kip848_spark.lake.tables import TABLES

RECORDS = TABLES["records"]
COMMIT, GROUP, UNDECODED = "offset_commit", "group_metadata", None
Kinds = Sequence[str | None]


@pytest.fixture
def target(tmp_path: Path) -> WriteTarget:
    folder = str(tmp_path / "records")
    delta_rs.create_table(folder, RECORDS)
    run = {"run_id": "r1", "cluster_id": None}
    return WriteTarget("records", folder, RECORDS.fields, run, RECORDS.stats_columns, apart=COMMITS)


def write_files(
    target: WriteTarget,
    *batches: Kinds,
    encode: bool = False,
    values: Sequence[bytes] | None = None,
) -> list[DataFile]:
    """Rows of `records` with these kinds, raw ``values``, and offsets from 0 on."""
    offset = 0
    with open_writers([target]) as writers:
        for batch in batches:
            kind = pa.array(batch, pa.string())
            offsets = pa.array(range(offset, offset + len(batch)), pa.int64())
            rows = {
                name: pa.nulls(len(batch), type_)
                for name, type_ in target.fields.items()
                if name not in target.constants
            }
            rows |= {"kind": kind.dictionary_encode() if encode else kind, "offset": offsets}
            if values is not None:
                rows["raw_value"] = pa.array(values, pa.binary())
            writers["records"].write(rows)
            offset += len(batch)
        return writers["records"].close()


def write(target: WriteTarget, *batches: Kinds, values: Sequence[bytes] | None = None) -> None:
    files = write_files(target, *batches, values=values)
    delta_rs.commit(target.folder, DeltaTable(target.folder).version(), files)


def read(path: str) -> list[str | None]:
    found: list[str | None] = pq.read_table(path.removeprefix("file:"))["kind"].to_pylist()
    return found


def without_commits(target: WriteTarget) -> list[str | None]:
    """The kinds of all records in the files that are left when commits are not needed."""
    paths = delta_rs.file_paths(target.folder, without=COMMITS)
    found = [kind for path in paths for kind in read(path)]
    assert delta_rs.rows_in_files(target.folder, without=COMMITS) == len(found)
    return found


@given(
    st.lists(st.lists(st.sampled_from([COMMIT, GROUP, UNDECODED]), min_size=1), min_size=1),
    st.booleans(),
)
def test_each_row_is_in_one_file_of_its_kind(
    tmp_path_factory: pytest.TempPathFactory, batches: list[list[str | None]], encode: bool
) -> None:
    folder = tmp_path_factory.mktemp("records")
    target = WriteTarget(
        "records", str(folder), {"kind": pa.string(), "offset": pa.int64()}, {}, ["kind"],
        apart=COMMITS,
    )  # fmt: skip
    files = write_files(target, *batches, encode=encode)
    tables = [pq.read_table(folder / file.name) for file in files]
    for table in tables:
        assert len({kind == COMMIT for kind in table["kind"].to_pylist()}) == 1
        assert table["offset"].to_pylist() == sorted(table["offset"].to_pylist())
    pairs = pa.concat_tables(tables).sort_by("offset") if tables else None
    written = [kind for batch in batches for kind in batch]
    assert pairs is not None
    assert pairs["kind"].to_pylist() == written
    assert pairs["offset"].to_pylist() == list(range(len(written)))


def test_files_of_commits_are_skipped(target: WriteTarget) -> None:
    write(target, [COMMIT, GROUP, COMMIT], [COMMIT])
    write(target, [COMMIT, COMMIT])
    write(target, [UNDECODED, UNDECODED])
    assert len(delta_rs.file_paths(target.folder)) == 4
    assert sorted(without_commits(target), key=str) == [UNDECODED, UNDECODED, GROUP]
    assert delta_rs.rows_in_files(target.folder) == 8


def test_no_file_is_skipped_that_may_have_other_rows(target: WriteTarget) -> None:
    """Of another program, or of an earlier version of this one, which had no statistics of
    ``kind``."""
    together = WriteTarget("records", target.folder, RECORDS.fields, target.constants, ())
    write(together, [COMMIT, COMMIT])
    with_statistics = WriteTarget(
        "records", target.folder, RECORDS.fields, target.constants, ("kind",)
    )
    write(with_statistics, [COMMIT, UNDECODED])
    write(with_statistics, [COMMIT, GROUP])
    write(with_statistics, [GROUP, "streams_metadata"])  # between which a commit would sort
    assert len(without_commits(target)) == 8


def test_files_are_merged_by_kind_of_row(
    target: WriteTarget, monkeypatch: pytest.MonkeyPatch
) -> None:
    together = WriteTarget("records", target.folder, RECORDS.fields, target.constants, ())
    write(together, [COMMIT, GROUP])
    for _ in range(3):
        write(target, [COMMIT, COMMIT, GROUP, UNDECODED])
    assert merge(target) == 7
    assert sorted(map(len, map(read, delta_rs.file_paths(target.folder)))) == [7, 7]
    assert sorted(without_commits(target), key=str) == [UNDECODED] * 3 + [GROUP] * 4
    assert merge(target) == 0

    write(target, [COMMIT])
    assert merge(target) == 2
    assert sorted(map(len, map(read, delta_rs.file_paths(target.folder)))) == [7, 8]

    write(target, [COMMIT])
    monkeypatch.setattr(merging, "FILE_ROWS", 8)
    assert merge(target) == 0
    write(target, [COMMIT])
    assert merge(target) == 2
    assert sorted(map(len, map(read, delta_rs.file_paths(target.folder)))) == [2, 7, 8]


def test_another_reader_finds_all_rows_by_kind(target: WriteTarget) -> None:
    write(target, [COMMIT, GROUP, UNDECODED, COMMIT])
    sql = QueryBuilder().register("records", DeltaTable(target.folder))
    for condition, number in (
        ("kind = 'offset_commit'", 2),
        ("kind <> 'offset_commit'", 1),
        ("kind IS NULL", 1),
        ("kind > 'h'", 2),
    ):
        query = f"SELECT count(*) AS n FROM records WHERE {condition}"
        assert pa.table(sql.execute(query).read_all())["n"].to_pylist() == [number], condition


def test_conditions_in_spark_sql() -> None:
    assert OPEN_ROWS.sql == "to_offset IS NULL"
    assert OPEN_ROWS.other_sql == "to_offset IS NOT NULL"
    assert COMMITS.other_sql == "(kind IS NULL OR NOT kind IN ('offset_commit'))"
    assert RowsWith("day", (date(2026, 11, 1),)).sql == "day IN (DATE'2026-11-01')"
    assert RowsWith("name", ("it's", "b")).sql == "name IN ('it\\'s', 'b')"


def merge(target: WriteTarget) -> int:
    return delta_rs.compact_apart(target, DeltaTable(target.folder).version(), COMMITS)


def test_a_merge_reads_and_writes_large_records_in_small_parts(
    target: WriteTarget, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise the memory of a merge would grow with the size of the records."""
    monkeypatch.setattr(merging, "GROUP_BYTES", 1_500_000)
    monkeypatch.setattr(replacement, "BATCH_BYTES", 500_000)
    sizes: list[int] = []
    write_batch = TableWriter.write

    def spied(writer: TableWriter, columns: Mapping[str, pa.Array]) -> None:
        sizes.append(pa.table(dict(columns)).nbytes)
        write_batch(writer, columns)

    large = [os.urandom(100_000) for _ in range(40)]
    for part in (large[:38], large[38:]):
        write(target, [GROUP] * len(part), values=part)
    monkeypatch.setattr(TableWriter, "write", spied)
    assert merge(target) == 2
    assert max(sizes) < 2_300_000
    (path,) = delta_rs.file_paths(target.folder)
    table = pq.read_table(path.removeprefix("file:"))
    assert table["raw_value"].to_pylist() == large
