"""Runs Spark SQL with DuckDB over the Arrow datasets of a lake's snapshot, without a JVM."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import duckdb
import pyarrow as pa
from sqlglot import exp

from kip848_spark.errors import LakeError, UsageError
from kip848_spark.lake.snapshot import LakeSnapshot
from kip848_spark.lake.sql.macros import FAILED, UNTRANSLATED, definitions
from kip848_spark.lake.sql.rules import NotTranslatable
from kip848_spark.lake.sql.statements import Statement, parse, too_deep
from kip848_spark.lake.sql.translate import arms, duckdb_text, translate
from kip848_spark.lake.sql.types import as_spark, spark_name, spark_schema
from kip848_spark.lake.sql.unknown import check_tables, unknown_column, unknown_table
from kip848_spark.lake.tables import TABLES

BATCH_ROWS = 10_000
"""Rows of a batch of a result."""
_MEMORY = "2GB"
_CONFIG = {
    "temp_directory": "",  # a query that needs more memory fails here, and Spark answers it
    # A query may come from somebody else: it sees the lake's tables, and nothing of this machine.
    "enable_external_access": "false",
    "autoload_known_extensions": "false",
    "autoinstall_known_extensions": "false",
    "allow_community_extensions": "false",
    "memory_limit": _MEMORY,
    "TimeZone": "UTC",
    "python_enable_replacements": "false",
    # Arrow's scans refuse the filters that a join would push into them.
    "disabled_optimizers": "join_filter_pushdown",
}
_FAILED = re.compile(rf"Could not convert string '{FAILED}(.*?)'")
_UNTRANSLATED = re.compile(rf"Could not convert string '{UNTRANSLATED}(.*?)'")
_UNREADABLE = re.compile(r"arrow_scan: get_next failed\(\): (IOError: .*|\w+: Could not open .*)")
"""What DuckDB says if Arrow can't read a file of a table."""


@dataclass(frozen=True)
class Result:
    """The result of a query: its columns, and its rows in batches, which are read once."""

    schema: pa.Schema
    batches: Iterator[pa.RecordBatch]

    def table(self) -> pa.Table:
        """All rows."""
        return pa.Table.from_batches(list(self.batches), self.schema)


class DuckDBEngine:
    """Answers queries about ``snapshot``. A table is opened when a query first names it."""

    def __init__(self, snapshot: LakeSnapshot) -> None:
        self.snapshot = snapshot
        self._connection = duckdb.connect(":memory:")
        for name, value in _CONFIG.items():
            self._connection.execute(f"SET {name} = '{value}'")
        self._connection.execute(definitions())
        self._connection.execute("SET lock_configuration = true")
        self._open: dict[str, pa.Schema] = {}

    def run(self, text: str, most: int | None = None) -> Result:
        """The result of the statement ``text``, at most ``most`` rows of it (all if None).

        Raises UsageError if the statement is wrong or does more than read, NotTranslatable if
        DuckDB would not give Spark's result, and LakeError if a table can't be read.
        """
        return self.run_statement(parse(text), most)

    def run_statement(self, statement: Statement, most: int | None = None) -> Result:
        """As `run`, for a statement that is parsed."""
        match statement.kind:
            case "show tables":
                column = "viewName" if statement.name == "views" else "tableName"
                rows = [{"namespace": "", column: n, "isTemporary": True} for n in self._names()]
                return _rows(rows, most)
            case "show columns":
                fields = self.schema(statement.name or "")
                return _rows([{"col_name": field.name} for field in fields], most)
            case "describe":
                return _rows(describe(self.schema(statement.name or "")), most)
        if statement.tree is None:
            raise NotTranslatable("this statement")
        used = check_tables(statement.tree)
        for name in used:
            self._require(name)
        try:
            translated = translate(statement.text, statement.tree)
            self._check_arms(statement, translated)
            sql = duckdb_text(translated)
        except RecursionError:
            raise too_deep() from None
        if statement.kind == "explain":
            return self._explain(statement, sql)
        return self._run(statement, sql, most)

    def schema(self, table: str) -> pa.Schema:
        """The columns of a table, with comments. Raises UsageError if there is no such table."""
        return self._require(table.lower())

    def tables(self) -> dict[str, pa.Schema]:
        """The schemas of the tables that queries have used so far."""
        return dict(self._open)

    def _names(self) -> list[str]:
        return sorted(filter(self.snapshot.has, TABLES))

    def _require(self, name: str) -> pa.Schema:
        if name not in TABLES:
            raise unknown_table(name)
        if name not in self._open:
            dataset = self.snapshot.dataset(name)
            self._connection.register(name, dataset)
            self._open[name] = dataset.schema
        return self._open[name]

    def _check_arms(self, statement: Statement, translated: exp.Query) -> None:
        """Raises NotTranslatable if a UNION mixes texts with other values: Spark converts the
        texts, and DuckDB the other values."""
        for sides in arms(translated):
            with self._translate_errors(statement):
                left, right = (self._connection.sql(side).types for side in sides)
            for one, other in zip(left, right, strict=False):
                if "VARCHAR" in (str(one), str(other)) and str(one) != str(other):
                    raise NotTranslatable("a UNION of texts and other values")

    def _explain(self, statement: Statement, sql: str) -> Result:
        with self._translate_errors(statement):
            found = self._connection.execute(f"EXPLAIN {sql}").fetchall()
        return _rows([{"plan": "\n".join(plan for _, plan in found)}])

    def _run(self, statement: Statement, sql: str, most: int | None) -> Result:
        assert statement.tree is not None
        if most is not None and statement.tree.args.get("limit") is None:
            sql = f"{sql} LIMIT {most}"
        with self._translate_errors(statement):
            reader = self._connection.sql(sql).to_arrow_reader(BATCH_ROWS)
            schema = spark_schema(reader.schema)
            first = next(reader, None)
        return Result(schema, self._batches(statement, reader, first, schema, most))

    def _batches(
        self,
        statement: Statement,
        reader: pa.RecordBatchReader,
        first: pa.RecordBatch | None,
        schema: pa.Schema,
        most: int | None,
    ) -> Iterator[pa.RecordBatch]:
        batch, left = first, most
        while batch is not None and (left is None or left > 0):
            batch = batch if left is None else batch.slice(0, left)
            left = None if left is None else left - batch.num_rows
            with self._translate_errors(statement):
                found = as_spark(batch, schema)
            yield found
            with self._translate_errors(statement):
                batch = next(reader, None)

    @contextmanager
    def _translate_errors(self, statement: Statement) -> Iterator[None]:
        try:
            yield
        except RuntimeError as cause:
            if isinstance(cause.__cause__, KeyboardInterrupt):  # DuckDB wraps it
                raise KeyboardInterrupt from None
            raise
        except duckdb.Error as cause:
            raise self._error(cause, statement) from None
        except pa.ArrowInvalid:
            raise UsageError("The query fails: a sum is too large for a bigint.") from None
        except OSError as cause:
            raise self._unreadable(str(cause)) from None

    def _error(self, cause: duckdb.Error, statement: Statement) -> Exception:
        """The error for DuckDB's ``cause``."""
        message = str(cause).splitlines()[0]  # the lines that follow repeat the query
        if found := _FAILED.search(message):
            return UsageError(f"The query fails: {found[1]}.")
        if found := _UNTRANSLATED.search(message):
            return NotTranslatable(found[1])
        if found := _UNREADABLE.search(message):
            return self._unreadable(found[1])
        assert statement.tree is not None
        if isinstance(cause, duckdb.BinderException) and (
            error := unknown_column(message, statement.tree, self._open)
        ):
            return error
        return NotTranslatable(f"this query ({message})")

    def _unreadable(self, message: str) -> LakeError:
        return self.snapshot.unreadable(f"the lake {self.snapshot.path}", message)


def describe(schema: pa.Schema) -> list[dict[str, Any]]:
    """The columns of ``schema`` as Spark's DESCRIBE lists them."""
    return [
        {
            "col_name": field.name,
            "data_type": spark_name(field.type),
            "comment": (field.metadata or {}).get(b"comment", b"").decode() or None,
        }
        for field in schema
    ]


def _rows(rows: list[dict[str, Any]], most: int | None = None) -> Result:
    table = pa.Table.from_pylist(rows[:most])
    return Result(table.schema, iter(table.to_batches()))
