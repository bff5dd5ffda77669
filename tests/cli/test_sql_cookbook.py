"""Every query of docs/sql.md, and queries that try what the engines treat differently: DuckDB's and
Spark's results are equal, row for row."""

from __future__ import annotations

import re
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from kip848_spark.errors import UsageError
from kip848_spark.lake.location import locate
from kip848_spark.lake.snapshot import LakeSnapshot
from kip848_spark.lake.sql.engine import DuckDBEngine
from kip848_spark.lake.sql.rules import NotTranslatable
from kip848_spark.lake.sql.statements import check_reading
from kip848_spark.simulation import plan_cluster, simulate
from kip848_spark.spark.pipeline import run_ingest
from kip848_spark.spark.query import query_table
from kip848_spark.spark.storage.opening import open_lake
from kip848_spark.spark.views import LakeViews
from tests.cli.sql_queries import EQUAL, FAILING, ONLY_SPARK
from tests.documentation import blocks
from tests.spark.lakes import source

COOKBOOK = [block.text for block in blocks("docs/sql.md") if block.language == "sql"]


@pytest.fixture(scope="module")
def engine(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> DuckDBEngine:
    """The engine of a lake of a simulated cluster. Its tables are views of the session too."""
    folder = tmp_path_factory.mktemp("cookbook")
    simulate(plan_cluster("chaos", 8_000, 7), folder / "capture")
    lake = open_lake(spark, str(folder / "lake"))
    run_ingest(source(folder / "capture"), lake, then_replay=True, then_audit=True)
    LakeViews(lake).register()
    return DuckDBEngine(LakeSnapshot(locate(str(folder / "lake"))))


def rows(table: pa.Table, query: str) -> list[str]:
    """The rows as text; sorted, unless the query itself ends with an order."""
    found = [repr(tuple(row.values())) for row in table.to_pylist()]
    ordered = re.search(r"\bORDER BY [^()]*$", query) is not None
    return found if ordered else sorted(found)


def test_the_cookbook_has_many_queries() -> None:
    assert len(COOKBOOK) >= 25


@pytest.mark.slow
@pytest.mark.parametrize("query", [*COOKBOOK, *EQUAL])
def test_both_engines_give_the_same_rows(
    query: str, engine: DuckDBEngine, spark: SparkSession
) -> None:
    found, expected = engine.run(query).table(), query_table(spark, query)
    assert found.schema.names == expected.schema.names
    assert rows(found, query) == rows(expected, query)


def test_the_cookbook_finds_something(engine: DuckDBEngine) -> None:
    """Equal results say nothing if all of them are empty."""
    empty = [query for query in COOKBOOK if engine.run(query).table().num_rows == 0]
    assert len(empty) <= len(COOKBOOK) // 3, "\n\n".join(empty)


@pytest.mark.slow
@pytest.mark.parametrize("query", ONLY_SPARK)
def test_what_may_differ_is_left_to_spark(
    query: str, engine: DuckDBEngine, spark: SparkSession
) -> None:
    with pytest.raises(NotTranslatable):
        engine.run(query).table()
    assert query_table(spark, query).num_columns >= 1


@pytest.mark.parametrize("query", FAILING)
def test_what_fails_in_spark_fails(query: str, engine: DuckDBEngine, spark: SparkSession) -> None:
    with pytest.raises(UsageError):
        engine.run(query).table()
    with pytest.raises(UsageError):
        query_table(spark, query)


@pytest.mark.parametrize(
    ("query", "near"),
    [
        ("SELECT * FROM recods", "records"),
        ("SELECT grop_id FROM groups", "group_id"),
        ("SELECT x.grop_id FROM (SELECT * FROM groups) x", "group_id"),
        ("SELECT group_id FROM groups WHERE stat = 'Empty'", "state"),
        ("SELECT consumer_group_metadata.epoc FROM group_records", "epoch"),
    ],
)
def test_both_engines_name_what_was_meant(
    query: str, near: str, engine: DuckDBEngine, spark: SparkSession
) -> None:
    for run in (engine.run, lambda text: query_table(spark, text)):
        with pytest.raises(UsageError) as raised:
            run(query)
        assert raised.value.message.startswith("There is no")
        assert "line 1, column " in raised.value.message
        assert near in (raised.value.hint or "")


@pytest.mark.parametrize(
    "query",
    [
        "SELECT * FROM parquet.`{lake}/groups`",
        "SELECT * FROM delta.`{lake}/groups`",
        "SELECT * FROM text.`/etc/hostname`",
        "SELECT reflect('java.lang.System', 'lineSeparator')",
        "SELECT `java_method`('java.lang.System', 'lineSeparator')",
        "SELECT TRANSFORM(group_id) USING 'cat' FROM groups",
        "WITH x AS (SELECT 1 AS a) INSERT INTO groups SELECT * FROM x",
        "FROM groups INSERT OVERWRITE DIRECTORY '{lake}/out' SELECT group_id",
        "INSERT OVERWRITE DIRECTORY '{lake}/out' USING csv SELECT 1",
        "CREATE TABLE x AS SELECT 1",
        "DROP VIEW groups",
        "SET spark.sql.runSQLOnFiles = true",
        "EXPLAIN SELECT reflect('java.lang.System', 'lineSeparator')",
    ],
)
def test_spark_only_reads_the_lake(query: str, engine: DuckDBEngine, spark: SparkSession) -> None:
    lake = engine.snapshot.path
    with pytest.raises(UsageError):
        query_table(spark, query.format(lake=lake))
    assert not Path(lake, "out").exists()
    assert spark.conf.get("spark.sql.runSQLOnFiles") == "true", "the session has its own setting"


_HIDDEN = "-- \\\n'\n{} -- '"
"""A text that Spark reads, and this program's parser takes for a string: in Spark's dialect, a
backslash continues a comment in the next line."""


@pytest.mark.parametrize(
    "query",
    [
        "SELECT IDENTIFIER('reflect')('java.lang.System', 'lineSeparator')",
        "SELECT 1 IN (SELECT IDENTIFIER(concat('java_', 'method'))('java.lang.System', 'exit'))",
        "EXPLAIN SELECT IDENTIFIER('system.builtin.reflect')('java.lang.System', 'exit')",
        "SELECT 1 " + _HIDDEN.format(", reflect('java.lang.System', 'lineSeparator')"),
        "EXPLAIN SELECT 1 " + _HIDDEN.format(", 1 + reflect('java.lang.System', 'exit')"),
        "WITH x AS (SELECT 1 " + _HIDDEN.format(", try_reflect('a', 'b')") + "\n) SELECT 1",
        "WITH x AS (SELECT 1) " + _HIDDEN.format(
            ", y AS (SELECT TRANSFORM(1) USING 'cat')"
        ) + "\nSELECT 1",
    ],
)  # fmt: skip
def test_what_is_hidden_from_the_first_parser_is_refused(query: str, spark: SparkSession) -> None:
    check_reading(query)
    with pytest.raises(UsageError, match=r"does not call|names of functions|does more"):
        query_table(spark, query)


@pytest.mark.parametrize(
    "query",
    [
        "WITH x AS (SELECT 1 AS a) SELECT a FROM x WHERE a IN (SELECT 1) " + _HIDDEN.format(""),
        "SELECT max(a) AS a FROM IDENTIFIER('x1') WHERE a = (SELECT 1)",
    ],
)
def test_queries_that_are_not_refused(query: str, spark: SparkSession) -> None:
    spark.sql("SELECT 1 AS a").createOrReplaceTempView("x1")
    assert query_table(spark, query).to_pylist() == [{"a": 1}]


def test_spark_shows_its_plan(spark: SparkSession, engine: DuckDBEngine) -> None:
    (row,) = query_table(spark, "EXPLAIN SELECT group_id FROM groups").to_pylist()
    assert "Physical Plan" in row["plan"]
