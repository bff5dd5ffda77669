"""The engines of `sql`: DuckDB, and Spark for what DuckDB can't answer."""

from __future__ import annotations

from contextlib import ExitStack
from datetime import datetime
from enum import StrEnum
from typing import TYPE_CHECKING

from kip848_spark.cli.display import say, show_steps
from kip848_spark.cli.options import Invocation
from kip848_spark.errors import UsageError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from kip848_spark.lake.sql.engine import DuckDBEngine, Result


class Engine(StrEnum):
    """What answers queries."""

    AUTO = "auto"
    DUCKDB = "duckdb"
    SPARK = "spark"


class Engines:
    """The engines that answer the queries of one call. Each is started when a query needs it; Spark
    runs until ``until_done`` ends."""

    def __init__(
        self,
        invocation: Invocation,
        engine: Engine,
        as_of: datetime | None,
        until_done: ExitStack,
    ) -> None:
        self._invocation = invocation
        self._engine = engine
        self._as_of = as_of
        self._until_done = until_done
        self._duckdb: DuckDBEngine | None = None
        self._spark: SparkSession | None = None

    def run(self, query: str, most: int | None = None) -> Result:
        """The result of ``query``, at most ``most`` rows (all if None). Raises UsageError if the
        query is wrong, or if the requested engine does not answer it."""
        from kip848_spark.lake.snapshot import OnlySparkReads
        from kip848_spark.lake.sql.rules import NotTranslatable

        if self._engine is Engine.SPARK:
            return self._run_spark(query, most)
        try:
            return self.duckdb().run(query, most)
        except NotTranslatable as cause:
            reason = f"DuckDB does not answer {cause} as Spark does."
        except OnlySparkReads as cause:
            reason = cause.message
        if self._engine is Engine.DUCKDB:
            raise UsageError(reason, "Leave out --engine duckdb, and Spark answers the query.")
        if self._spark is None:
            say(f"Spark is started: {reason}", style="dim")
        return self._run_spark(query, most)

    def duckdb(self) -> DuckDBEngine:
        """The engine without a JVM. Raises LakeError if the lake can't be read."""
        from kip848_spark.lake.sql.engine import DuckDBEngine

        if self._duckdb is None:
            self._duckdb = DuckDBEngine(self._invocation.state(self._as_of))
        return self._duckdb

    def _run_spark(self, query: str, most: int | None) -> Result:
        from kip848_spark.lake.sql.engine import Result
        from kip848_spark.lake.sql.statements import check_reading
        from kip848_spark.spark.query import query_table

        check_reading(query)
        if self._spark is None:
            self._spark = self._start_spark()
        rows = query_table(self._spark, query, most)
        return Result(rows.schema, iter(rows.to_batches()))

    def _start_spark(self) -> SparkSession:
        from kip848_spark.spark.views import LakeViews

        with show_steps() as display:
            session = self._until_done.enter_context(self._invocation.session(display))
            display("reading the lake")
            LakeViews(self._invocation.lake(session), self._as_of).register()
        return session
