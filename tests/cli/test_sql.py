"""`sql` with DuckDB: what a query may do, what it prints, and its files. No Spark."""

from __future__ import annotations

import csv
import io
import json
from datetime import UTC, datetime
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from kip848_spark import Lake
from kip848_spark.errors import UsageError
from kip848_spark.lake.location import locate
from kip848_spark.lake.snapshot import LakeSnapshot
from kip848_spark.lake.sql.engine import DuckDBEngine
from kip848_spark.lake.sql.patterns import re2_pattern
from kip848_spark.lake.sql.rules import NotTranslatable
from kip848_spark.lake.tables import TABLES
from tests.cli.command import Command
from tests.lake.written_lake import write_lake

HOSTILE = "evil\x1b[2J\x00[red]'; DROP\u202e\"name`"
"""A group id with a terminal's command, a NUL, markup, quotes and a bidirectional override."""
TIME = datetime(2026, 11, 20, 2, 14, 7, 123456, tzinfo=UTC)


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three groups, one with a hostile name, and a table that the lake does not have."""
    path = tmp_path_factory.mktemp("sql") / "lake"
    groups = [
        {"group_id": name, "type": "consumer", "epoch": epoch, "updated_at": TIME}
        for name, epoch in (("orders", 7), (HOSTILE, None), ('a "b", c', -1))
    ]
    records = [
        {"partition": 0, "offset": number, "raw_key": b"\x00\xff", "metadata": ""}
        for number in range(2_500)
    ]
    activity = [{"group_id": "orders", "day": TIME.date(), "commits": 3}]
    tables = {"groups": groups, "records": records, "offset_activity": activity}
    write_lake(path, tables, without=["rewinds"])
    return path


@pytest.fixture
def engine(lake: Path) -> DuckDBEngine:
    return DuckDBEngine(LakeSnapshot(locate(str(lake))))


@pytest.mark.parametrize(
    "query",
    [
        "SELECT * FROM read_csv('{file}')",
        "SELECT * FROM read_text('{file}')",
        "SELECT * FROM glob('/*')",
        "SELECT * FROM '{file}'",
        "SELECT * FROM `{file}`",
        "SELECT * FROM csv.`{file}`",
        "SELECT content FROM read_blob('{file}')",
        "SELECT getenv('HOME')",
        "SELECT current_setting('memory_limit')",
        "SELECT * FROM duckdb_settings()",
        "SELECT * FROM information_schema.tables",
        "SELECT spark_text(group_id) FROM groups",
        "COPY groups TO '{file}.copy'",
        "EXPORT DATABASE '{file}.copy'",
        "ATTACH '{file}.copy'",
        "INSTALL httpfs",
        "LOAD httpfs",
        "PRAGMA version",
        "SET memory_limit = '1TB'",
        "CREATE TABLE x AS SELECT 1",
        "DELETE FROM groups",
        "SELECT 1; DROP TABLE groups",
        "WITH x AS (SELECT 1) DELETE FROM groups",
        "EXPLAIN ANALYZE SELECT * FROM read_csv('{file}')",
        "DESCRIBE '{file}'",
    ],
)
def test_a_query_reads_nothing_but_the_lake(
    query: str, engine: DuckDBEngine, tmp_path: Path
) -> None:
    file = tmp_path / "secret.csv"
    file.write_text("secret\n1\n")
    with pytest.raises((UsageError, NotTranslatable)) as raised:
        engine.run(query.format(file=file)).table()
    assert "secret\n" not in str(raised.value)
    assert list(tmp_path.iterdir()) == [file]


def test_duckdb_itself_has_no_access(engine: DuckDBEngine, tmp_path: Path) -> None:
    """What would happen if a query got past the translation."""
    file = tmp_path / "secret.csv"
    file.write_text("secret\n1\n")
    for text in (
        f"SELECT * FROM read_csv('{file}')",
        f"COPY (SELECT 1) TO '{file}.copy'",
        f"ATTACH '{file}.copy'",
        "INSTALL httpfs",
        "SET enable_external_access = true",
        "SELECT * FROM file",
    ):
        with pytest.raises(duckdb.Error):
            engine._connection.execute(text).fetchall()
    assert list(tmp_path.iterdir()) == [file]


def test_hostile_names_are_values_and_are_printed_escaped(kip848: Command, lake: Path) -> None:
    query = "SELECT group_id FROM groups WHERE epoch IS NULL"
    (found,) = Lake(str(lake)).sql(query).to_pylist()
    assert found == {"group_id": HOSTILE}
    shown = kip848("sql", "--lake", str(lake), query)
    assert shown.code == 0
    assert r"evil\x1b[2J\x00[red]'; DROP\u202e" in shown.out
    assert not {"\x1b", "\x00", "\u202e"} & set(shown.out)
    wrong = kip848("sql", "--lake", str(lake), "SELECT `\x1b[2J` FROM groups")
    assert wrong.code == 2
    assert "\x1b" not in wrong.err
    assert r"\x1b" in wrong.err


def test_a_column_named_by_the_query_cannot_leave_its_quotes(engine: DuckDBEngine) -> None:
    query = "SELECT epoch AS `x\" FROM read_csv('/etc/passwd') --` FROM groups ORDER BY 1"
    assert engine.run(query).table().column(0).to_pylist() == [None, -1, 7]


def test_csv_is_rfc_4180(kip848: Command, lake: Path, tmp_path: Path) -> None:
    file = tmp_path / "groups.csv"
    query = (
        "SELECT group_id, epoch, updated_at, epoch > 0 AS up, array(epoch, 1) AS list "
        "FROM groups ORDER BY epoch"
    )
    done = kip848("sql", "--lake", str(lake), query, "--out", str(file))
    assert done.code == 0, done
    assert done.out == ""
    text = file.read_bytes().decode()
    assert text.count("\r\n") == 4
    header, *rows = csv.reader(io.StringIO(text, newline=""))
    assert header == ["group_id", "epoch", "updated_at", "up", "list"]
    assert [row[0] for row in rows] == [HOSTILE, 'a "b", c', "orders"]
    assert rows[0][1:] == ["", "2026-11-20T02:14:07.123456+00:00", "", "[null,1]"]
    assert rows[2][1:] == ["7", "2026-11-20T02:14:07.123456+00:00", "true", "[7,1]"]
    assert list(tmp_path.iterdir()) == [file], "nothing else stays"


def test_all_rows_as_json_and_parquet_and_a_thousand_as_a_table(
    kip848: Command, lake: Path, tmp_path: Path
) -> None:
    query = "SELECT offset, raw_key FROM records ORDER BY offset"
    piped = kip848("sql", "--lake", str(lake), query, "--json")
    rows = json.loads(piped.out)
    assert [row["offset"] for row in rows] == list(range(2_500))
    assert rows[0]["raw_key"] == "AP8="
    for name in ("rows.json", "rows.parquet"):
        assert kip848("sql", "--lake", str(lake), query, "--out", str(tmp_path / name)).code == 0
    assert json.loads((tmp_path / "rows.json").read_text()) == rows
    table = pq.read_table(tmp_path / "rows.parquet")
    assert table["offset"].to_pylist() == list(range(2_500))
    assert table["raw_key"][0].as_py() == b"\x00\xff"
    shown = kip848("sql", "--lake", str(lake), query)
    assert "the first 1,000 rows" in shown.err
    assert len(shown.out.splitlines()) == 1_001


def test_an_empty_result_has_its_columns(kip848: Command, lake: Path, tmp_path: Path) -> None:
    query = "SELECT group_id, epoch FROM groups WHERE false"
    assert kip848("sql", "--lake", str(lake), query, "--json").out == "[]\n"
    assert kip848("sql", "--lake", str(lake), query, "--format", "csv").out == "group_id,epoch\r\n"
    assert "group_id  epoch" in kip848("sql", "--lake", str(lake), query).out
    kip848("sql", "--lake", str(lake), query, "--out", str(tmp_path / "x.parquet"))
    assert pq.read_table(tmp_path / "x.parquet").schema.names == ["group_id", "epoch"]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--format", "parquet"], "--out"),
        (["--out", "rows.txt"], "--format"),
        (["--json", "--format", "csv"], "--json and --format csv"),
        (["--format", "table", "--out", "x.csv"], "terminal"),
        (["--out", "/no/such/folder/x.csv"], "/no/such/folder/x.csv can't be written"),
    ],
)
def test_options_that_contradict_each_other(
    options: list[str], words: str, kip848: Command, lake: Path
) -> None:
    ended = kip848("sql", "--lake", str(lake), "SELECT 1 AS x", *options)
    assert ended.code == 2
    assert words in ended.err


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ("SELEC 1", "SELECT"),
        ("SELECT group_id FROM groups WHERE )", "at ')' (line 1, column 35)"),
        ("SELECT group_id\nFROM groups g g2 g3", "(line 2, column 15)"),
        ("SELECT 'open", "no closing quote"),
        ("", "The query is empty."),
        ("/* nothing */;", "The query is empty."),
        ("SELECT " + "1 + " * 5_000 + "1", "The query is nested too deeply."),
        (
            "SELECT grop_id FROM groups",
            "no column grop_id (line 1, column 8). Did you mean group_id",
        ),
        ("SELECT g.stat FROM groups g", "Did you mean state"),
        ("SELECT key FROM records", "no column key (line 1, column 8). Did you mean raw_key"),
        ("SELECT nonsense FROM topics", "`DESCRIBE TABLE topics` lists its columns"),
        ("SELECT gg.state FROM groups g", "no table or alias gg"),
        ("SELECT * FROM (SELECT epoc FROM groups)", "Did you mean epoch"),
        ("WITH a AS (SELECT epoch AS era FROM groups) SELECT eras FROM a", "Did you mean era"),
        ("SELECT * FROM grops", "no table grops (line 1, column 15). Did you mean groups"),
        ("DESCRIBE grops", "Did you mean groups"),
        ("SELECT 1 / epoch FROM (SELECT 0 AS epoch)", "division by zero"),
    ],
)
def test_errors_say_where_and_what_was_meant(
    query: str, words: str, kip848: Command, lake: Path
) -> None:
    ended = kip848("sql", "--lake", str(lake), query)
    assert ended.code == 2
    assert words in ended.err
    assert "Traceback" not in ended.err
    assert "Spark is started" not in ended.err


def test_duckdb_alone_names_what_it_does_not_answer(kip848: Command, lake: Path) -> None:
    query = "SELECT array_distinct(array(1)) AS x"
    ended = kip848("sql", "--lake", str(lake), query, "--engine", "duckdb")
    assert ended.code == 2
    assert "the function array_distinct" in ended.err
    with pytest.raises(UsageError, match="array_distinct"):
        Lake(str(lake)).sql(query)


def test_a_table_of_a_later_version_is_not_listed(kip848: Command, lake: Path) -> None:
    listed = json.loads(kip848("sql", "--lake", str(lake), "SHOW TABLES", "--json").out)
    names = {row["tableName"] for row in listed}
    assert "rewinds" not in names
    assert {"groups", "offset_activity", "runs"} <= names
    missing = kip848("sql", "--lake", str(lake), "SELECT * FROM rewinds")
    assert missing.code == 3
    assert "had no table rewinds" in missing.err


def test_filters_reach_the_scan(engine: DuckDBEngine) -> None:
    (row,) = (
        engine.run("EXPLAIN SELECT metadata FROM records WHERE offset = 77").table().to_pylist()
    )
    assert "ARROW_SCAN" in row["plan"].upper().replace(" ", "_")
    assert "offset" in row["plan"]
    assert "FILTER " not in row["plan"], "a filter above the scan"


def test_results_come_in_batches(lake: Path, tmp_path: Path) -> None:
    path = tmp_path / "large"
    offsets = pa.table(
        {name: pa.array([None] * 30_000 if name != "offset" else range(30_000), type_)
         for name, type_ in TABLES["records"].fields.items()}
    )  # fmt: skip
    write_lake(path, {"records": offsets})
    result = DuckDBEngine(LakeSnapshot(locate(str(path)))).run("SELECT offset FROM records")
    sizes = [batch.num_rows for batch in result.batches]
    assert sum(sizes) == 30_000
    assert max(sizes) <= 20_000


@pytest.mark.parametrize(
    ("java", "re2"),
    [
        ("orders-[0-9]+", "orders-[0-9]+"),
        ("a++", None),
        ("(?i)a", None),
        ("a\\d", None),
        ("a{2}", None),
        ("(a", None),
        ("[[:alpha:]]", None),
    ],
)
def test_patterns_that_mean_the_same(java: str, re2: str | None) -> None:
    assert re2_pattern(java) == re2
