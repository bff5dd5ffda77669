"""Parquet encodings of the lake's data files, as the files' footers name them."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable

from kip848_spark.lake import delta_rs
from kip848_spark.lake.arrow_files import TableWriter, WriteTarget
from kip848_spark.lake.tables import TABLES

TABLE = TABLES["commit_summaries"]
ROWS = 300
TIMES = [datetime.fromtimestamp(1_790_000_000 + row, UTC) for row in range(ROWS)]
REWIND = {"offset": 7, "at": TIMES[0], "from_committed": 9, "to_committed": 8}


@pytest.fixture
def target(tmp_path: Path) -> WriteTarget:
    delta_rs.create_table(str(tmp_path), TABLE)
    return WriteTarget(TABLE.name, str(tmp_path), TABLE.fields, {}, TABLE.stats_columns)


def write(target: WriteTarget, first: int) -> None:
    """Appends a file of `ROWS` summaries from offset ``first`` on."""
    columns = {name: pa.nulls(ROWS, type_) for name, type_ in TABLE.fields.items()}
    columns |= {
        "offset": pa.array(range(first, first + ROWS), pa.int64()),
        "timestamp": pa.array(TIMES, TABLE.fields["timestamp"]),
        "group_id": pa.array(["billing"] * ROWS),
        "partition": pa.array([3] * ROWS, pa.int32()),
        "rewinds": pa.array([[REWIND]] * ROWS, TABLE.fields["rewinds"]),
    }
    writer = TableWriter(target)
    writer.write(columns)
    delta_rs.commit(target.folder, DeltaTable(str(target.folder)).version(), writer.close())


def encodings(target: WriteTarget) -> dict[str, set[str]]:
    """The encodings of each Parquet column in the table's one file."""
    [file] = DeltaTable(str(target.folder)).file_uris()
    group = pq.read_metadata(file).row_group(0)
    columns = (group.column(index) for index in range(group.num_columns))
    return {column.path_in_schema: set(column.encodings) for column in columns}


@pytest.mark.parametrize("merged", [False, True], ids=["written", "merged"])
def test_large_numbers_are_differences_and_the_rest_has_dictionaries(
    target: WriteTarget, merged: bool
) -> None:
    write(target, 0)
    if merged:
        write(target, ROWS)
        assert delta_rs.compact(target.folder) == 2
    found = encodings(target)
    for name in ("offset", "timestamp"):
        assert "DELTA_BINARY_PACKED" in found[name]
        assert "RLE_DICTIONARY" not in found[name]
    for name in ("group_id", "partition", "rewinds.list.element.from_committed"):
        assert "RLE_DICTIONARY" in found[name]
    rows = DeltaTable(str(target.folder)).to_pyarrow_table().sort_by("offset")
    assert rows["offset"].to_pylist() == list(range(ROWS * (1 + merged)))
    assert rows["timestamp"].to_pylist() == TIMES * (1 + merged)
    assert rows["rewinds"][0].as_py() == [REWIND]
