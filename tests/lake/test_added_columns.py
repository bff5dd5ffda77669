"""A table of an earlier version, which lacks columns of the present one, without Spark."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from kip848_spark.lake import delta_rs
from kip848_spark.lake.arrow_files import WriteTarget
from kip848_spark.lake.tables import TABLES, TableDefinition

NOW = TABLES["findings"]
LATER = ("finding_id", "caused_by")
BEFORE = replace(NOW, fields={n: t for n, t in NOW.fields.items() if n not in LATER})


def write(path: Path, table: TableDefinition, version: int, **values: str) -> None:
    """Adds a row with ``values``; the other columns are null."""
    target = WriteTarget(table.name, str(path), table.fields, {}, table.stats_columns)
    row = dict.fromkeys(table.fields) | values
    delta_rs.commit(str(path), version, delta_rs.write_rows(target, [row]))


@pytest.fixture
def old_table(tmp_path: Path) -> Path:
    """A table without the columns, with one row."""
    (tmp_path / "findings").mkdir()
    delta_rs.create_table(str(tmp_path / "findings"), BEFORE)
    write(tmp_path / "findings", BEFORE, 0, group_id="early")
    return tmp_path / "findings"


def test_a_table_that_lacks_columns_is_plain_and_one_with_others_is_not(old_table: Path) -> None:
    """Otherwise a lake of an earlier version would be written by Spark, or an altered one not."""
    assert delta_rs.is_plain(str(old_table), NOW)
    altered = replace(BEFORE, fields={n: t for n, t in BEFORE.fields.items() if n != "check"})
    assert not delta_rs.is_plain(str(old_table), altered)


def test_missing_columns_are_read_as_nulls(old_table: Path) -> None:
    (row,) = delta_rs.read_rows(str(old_table), NOW)
    assert list(row) == list(NOW.fields)
    assert {name: value for name, value in row.items() if value} == {"group_id": "early"}


def test_added_columns_have_their_types_and_comments(old_table: Path) -> None:
    delta_rs.add_columns(str(old_table), NOW, LATER)
    assert delta_rs.column_names(str(old_table)) == [*BEFORE.fields, *LATER]
    fields = {field.name: field for field in DeltaTable(str(old_table)).schema().fields}
    for name in LATER:
        assert fields[name].metadata["comment"] == NOW.comments[name]
        assert str(fields[name].type) == 'PrimitiveType("string")'
        assert fields[name].nullable
    assert delta_rs.is_plain(str(old_table), NOW)


def test_old_and_new_files_are_read_together(old_table: Path) -> None:
    delta_rs.add_columns(str(old_table), NOW, LATER)
    write(old_table, NOW, 2, group_id="late", caused_by="another")
    found = {row["group_id"]: row["caused_by"] for row in delta_rs.read_rows(str(old_table), NOW)}
    assert found == {"early": None, "late": "another"}
    plain = DeltaTable(str(old_table)).to_pyarrow_table().sort_by("group_id")
    assert plain["caused_by"].to_pylist() == [None, "another"]
    assert delta_rs.count_rows(str(old_table)) == 2


def test_wrong_statistics_of_an_old_file_can_be_corrected_before_and_after(old_table: Path) -> None:
    """The file has no statistics of the columns that it lacks, which is no reason to fail."""
    log = old_table / "_delta_log" / f"{1:020}.json"
    text = log.read_text()
    broken = text.replace('\\"maxValues\\": {\\"group_id\\": \\"early\\"}', '\\"maxValues\\": {}')
    assert broken != text
    log.write_text(broken)
    for added in (False, True):
        if added:
            delta_rs.add_columns(str(old_table), NOW, LATER)
        (action,) = delta_rs.statistics_corrections(str(old_table), NOW)
        assert '"maxValues": {"group_id": "early"}' in str(action.stats)


def test_the_columns_of_a_definition_come_first(tmp_path: Path) -> None:
    found = pa.schema([("strange", pa.int64()), ("group_id", pa.large_string())])
    complete = NOW.complete(found)
    assert complete.names == [*NOW.fields, "strange"]
    assert complete.field("group_id").type == pa.large_string()
