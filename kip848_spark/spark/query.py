"""Runs a user's SQL over the lake's views. A query that Spark rejects is a usage error."""

from __future__ import annotations

import re
from collections.abc import Iterable

import pyarrow as pa
from py4j.java_gateway import JavaObject, is_instance_of
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from kip848_spark.errors import UsageError
from kip848_spark.lake.sql.statements import JAVA_CALLS, check_reading
from kip848_spark.lake.sql.unknown import column_error, unknown_table
from kip848_spark.lake.tables import TABLES
from kip848_spark.spark.session_settings import prepared_session

_POSITION = re.compile(r"[;(]?\s*\(?line (\d+),? pos (\d+)\)?;?")
_CLASS = re.compile(r"^\[[A-Z0-9_.]+\]\s*")
_STATE = re.compile(r"\s*SQLSTATE: \w+;?")
_DETAILS = ("== ", "'", "+-")
"""How the lines begin with which Spark's message continues with the query or its plan."""
_SETTINGS = {"spark.sql.runSQLOnFiles": "false"}
"""A query reads the lake's tables, and no files."""
_LOGICAL = "org.apache.spark.sql.catalyst.plans.logical."
_WRITING = tuple(
    f"{_LOGICAL}{name}" for name in ("Command", "InsertIntoStatement", "ScriptTransformation")
)
_READING_COMMANDS = {
    "DescribeRelation", "DescribeColumn", "DescribeQueryCommand", "DescribeFunction",
    "ExplainCommand", "ShowTables", "ShowViews", "ShowViewsCommand", "ShowColumns",
    "ShowFunctions", "ShowTablesCommand", "DescribeTableCommand",
}  # fmt: skip


def query_table(spark: SparkSession, query: str, most: int | None = None) -> pa.Table:
    """The rows of ``query``, at most ``most`` (all if None), with times in UTC. Raises UsageError
    with Spark's reason, or if the query does more than read."""
    query = query.strip().rstrip("; \n\t")
    check_reading(query)
    try:
        with prepared_session(spark, extra=_SETTINGS):
            _check_plan(spark, query)
            frame = spark.sql(query)
            return (frame if most is None else frame.limit(most)).toArrow()
    except PySparkException as cause:
        raise _error(spark, cause, query) from None


def _check_plan(spark: SparkSession, query: str) -> None:
    """Raises UsageError if the plan of ``query`` has a step that writes or starts a program, or
    calls a method of Java. Spark runs such statements as soon as it gets them. `check_reading` has
    another parser, which may take for a string what Spark reads."""
    waiting: list[JavaObject] = [spark._jsparkSession.sessionState().sqlParser().parsePlan(query)]
    gateway = spark.sparkContext._gateway
    while waiting:
        node = waiting.pop()
        name = node.getClass().getSimpleName()
        if name not in _READING_COMMANDS and any(
            is_instance_of(gateway, node, kind) for kind in _WRITING
        ):
            raise UsageError("`sql` only reads, and this statement does more.")
        _check_calls(node.expressions())
        waiting += [*_items(node.children()), *_items(node.innerChildren())]
        waiting += [node.logicalPlan()] if name == "ExplainCommand" else []


def _check_calls(expressions: JavaObject) -> None:
    """Raises UsageError if one of ``expressions`` of a plan calls a method of Java, or has a name
    that is an expression."""
    waiting = _items(expressions)
    while waiting:
        node = waiting.pop()
        name = node.getClass().getSimpleName()
        if name == "UnresolvedFunction" and node.nameParts().last().lower() in JAVA_CALLS:
            raise UsageError("`sql` does not call methods of Java.")
        if name == "ExpressionWithUnresolvedIdentifier":  # it may be the name of any function
            raise UsageError(
                "`sql` needs the names of functions and columns as they are.",
                "Write the name in place of IDENTIFIER(…).",
            )
        waiting += _items(node.children())


def _items(sequence: JavaObject) -> list[JavaObject]:
    """The elements of a sequence of Scala."""
    return [sequence.apply(place) for place in range(sequence.size())]


def _error(spark: SparkSession, cause: PySparkException, query: str) -> UsageError:
    kind = cause.getCondition() or ""
    parts = cause.getMessageParameters() or {}
    named = next((parts[k] for k in ("objectName", "fieldName", "relationName") if k in parts), "")
    name = named.replace("`", "").rpartition(".")[2]
    if kind.startswith(("UNRESOLVED_COLUMN", "FIELD_NOT_FOUND")) and name:
        tables = _tables_in(query)
        return column_error(name, _known_names(spark, tables), tables, _place(str(cause)))
    if kind.startswith("TABLE_OR_VIEW_NOT_FOUND") and name:
        return unknown_table(name, None, _place(str(cause)))
    return UsageError(_summarize_error(str(cause)))


def _tables_in(query: str) -> list[str]:
    """The tables whose names are in ``query``, in order."""
    words = (word.lower() for word in re.findall(r"\w+", query))
    return [word for word in dict.fromkeys(words) if word in TABLES]


def _known_names(spark: SparkSession, tables: Iterable[str]) -> set[str]:
    """The columns and fields of ``tables``."""
    names = {word for table in tables for word in re.findall(r"(\w+)", _columns(spark, table))}
    return names - {"struct", "array", "map", "string", "int", "bigint", "boolean", "timestamp"}


def _columns(spark: SparkSession, table: str) -> str:
    return f"{spark.table(table).schema.simpleString()} {' '.join(spark.table(table).columns)}"


def _place(message: str) -> str:
    found = _POSITION.search(message)
    return f" (line {found[1]}, column {int(found[2]) + 1})" if found else ""


def _summarize_error(message: str) -> str:
    """Spark's reason for rejecting a query, with the position in the query."""
    lines: list[str] = []
    for line in message.strip().splitlines():
        if lines and line.startswith(_DETAILS):
            break
        lines.append(line.strip())
    reason = _CLASS.sub("", " ".join(filter(None, lines)))
    found = _POSITION.search(reason)
    where = f" (line {found[1]}, column {int(found[2]) + 1})" if found else ""
    reason = _STATE.sub("", _POSITION.sub("", reason)).strip(" ;")
    return f"Spark does not accept the query{where}: {reason or 'it gives no reason'}"
