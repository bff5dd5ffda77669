"""Files written without Spark, their statistics, and the Delta commits that make them count."""

from __future__ import annotations

import json
import resource
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable
from deltalake.exceptions import CommitFailedError

from kip848_spark.lake import arrow_files, delta_rs
from kip848_spark.lake.arrow_files import TableWriter, WriteTarget, open_writers
from kip848_spark.lake.tables import TABLES
from kip848_spark.wire.tables import TIMESTAMP

FIELDS = {"n": pa.int64(), "at": TIMESTAMP, "text": pa.string(), "raw": pa.binary()}


def _target(folder: Path, fields: dict[str, pa.DataType] = FIELDS) -> WriteTarget:
    return WriteTarget("some", str(folder), {**fields, "run_id": pa.string()}, {"run_id": "r1"},
                  [*fields, "run_id"])  # fmt: skip


def _columns(numbers: list[int]) -> dict[str, pa.Array]:
    times = [datetime(2026, 11, 21, tzinfo=UTC) + timedelta(microseconds=n) for n in numbers]
    return {
        "n": pa.array(numbers),
        "at": pa.array(times, TIMESTAMP),
        "text": pa.array(["x" * 40 if n % 2 else None for n in numbers], pa.string()),
        "raw": pa.array([b"\0"] * len(numbers)),
    }


def test_a_file_holds_what_was_written_and_says_so(tmp_path: Path) -> None:
    writer = TableWriter(_target(tmp_path))
    writer.write(_columns([5, 6]))
    writer.write(_columns([]))
    writer.write(_columns([1]))
    (file,) = writer.close()
    table = pq.read_table(tmp_path / file.name)
    assert table["n"].to_pylist() == [5, 6, 1]
    assert table["run_id"].to_pylist() == ["r1"] * 3
    assert file.rows == 3
    assert file.size == (tmp_path / file.name).stat().st_size
    assert json.loads(file.stats) == {
        "numRecords": 3,
        # Bounds only get wider: times to the millisecond, a text to its beginning, and a greatest
        # text to a larger one.
        "minValues": {
            "n": 1, "at": "2026-11-21T00:00:00.000Z", "text": "x" * 32, "run_id": "r1",
        },
        "maxValues": {
            "n": 6, "at": "2026-11-21T00:00:00.001Z", "text": "x" * 31 + "y", "run_id": "r1",
        },
        "nullCount": {"n": 0, "at": 0, "text": 1, "raw": 0, "run_id": 0},
    }  # fmt: skip


def test_long_files_are_split(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(arrow_files, "FILE_ROWS", 2)
    writer = TableWriter(_target(tmp_path))
    for number in range(5):
        writer.write(_columns([number]))
    assert [file.rows for file in writer.close()] == [2, 2, 1]


def test_a_column_of_another_type_is_refused(tmp_path: Path) -> None:
    columns = _columns([1]) | {"n": pa.array([1], pa.int32())}
    with pytest.raises(TypeError, match=r"some\.n is int32, not int64"):
        TableWriter(_target(tmp_path)).write(columns)


def test_nothing_is_left_of_what_failed(tmp_path: Path) -> None:
    def fails() -> None:
        with open_writers([_target(tmp_path)]) as made:
            made["some"].write(_columns([1]))
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fails()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_file_that_can_not_be_finished(tmp_path: Path) -> None:
    """The error says why, such as a full disk, and the other files are deleted as well."""

    def fails() -> None:
        targets = [_target(tmp_path), replace(_target(tmp_path), table="other")]
        with open_writers(targets) as made:
            for writer in made.values():
                writer.write(_columns([1]))
            resource.setrlimit(resource.RLIMIT_FSIZE, (16, unlimited))
            made["some"].close()

    limit, unlimited = resource.getrlimit(resource.RLIMIT_FSIZE)
    try:
        with pytest.raises(OSError, match="File too large"):
            fails()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, unlimited))
    assert list(tmp_path.iterdir()) == []


def test_commits_add_and_replace(tmp_path: Path) -> None:
    gaps = TABLES["gaps"]
    path = str(tmp_path / "a b%ü" / "gaps")
    delta_rs.create_table(path, gaps)
    assert delta_rs.is_plain(path, gaps)
    target = WriteTarget("gaps", path, gaps.fields, {"run_id": "r", "cluster_id": None},
                    gaps.stats_columns)  # fmt: skip
    row = {"partition": 1, "first_offset": 2, "last_offset": 3, "cause": "transaction"}
    delta_rs.commit(path, 0, delta_rs.write_rows(target, [row]))
    delta_rs.commit(path, 1, delta_rs.write_rows(target, [row | {"partition": 4}]))
    assert sorted(found["partition"] for found in delta_rs.read_rows(path, gaps)) == [1, 4]
    delta_rs.commit(path, 2, delta_rs.write_rows(target, [row | {"partition": 7}]), "overwrite")
    assert delta_rs.read_rows(path, gaps) == [
        row | {"partition": 7, "run_id": "r", "cluster_id": None}
    ]
    delta_rs.commit(path, 3, [], "overwrite")
    assert delta_rs.read_rows(path, gaps) == []
    with pytest.raises(CommitFailedError):  # version 3 was followed by another commit
        delta_rs.commit(path, 3, delta_rs.write_rows(target, [row]))
    assert delta_rs.read_rows(path, gaps) == []
    assert DeltaTable(path, version=2).to_pyarrow_table().num_rows == 2


def test_an_altered_table_is_left_to_spark(tmp_path: Path) -> None:
    path = str(tmp_path / "gaps")
    delta_rs.create_table(path, TABLES["gaps"])
    DeltaTable(path).alter.set_table_properties({"delta.enableChangeDataFeed": "true"})
    assert not delta_rs.is_plain(path, TABLES["gaps"])


def test_every_table_can_be_made(tmp_path: Path) -> None:
    for name, table in TABLES.items():
        delta_rs.create_table(str(tmp_path / name), table)
        assert delta_rs.is_plain(str(tmp_path / name), table)
    fields = DeltaTable(str(tmp_path / "records")).schema().fields
    assert [field.name for field in fields] == list(TABLES["records"].fields)
    assert all(field.metadata["comment"] for field in fields)
