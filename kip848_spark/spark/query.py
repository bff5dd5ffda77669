"""Runs a user's SQL over the lake's views. A query that Spark rejects is a usage error."""

from __future__ import annotations

import re
from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from kip848_spark.errors import UsageError
from kip848_spark.spark.collect import collect_rows
from kip848_spark.spark.session_settings import prepared_session

_POSITION = re.compile(r"[;(]?\s*\(?line (\d+),? pos (\d+)\)?;?")
_CLASS = re.compile(r"^\[[A-Z0-9_.]+\]\s*")
_STATE = re.compile(r"\s*SQLSTATE: \w+;?")
_DETAILS = ("== ", "'", "+-")
"""How the lines begin with which Spark's message continues with the query or its plan."""


def query_rows(spark: SparkSession, query: str, most: int | None = None) -> list[dict[str, Any]]:
    """The rows of ``query``, at most ``most`` (all if None). Raises UsageError with Spark's
    reason."""
    try:
        with prepared_session(spark):
            frame = spark.sql(query.rstrip().rstrip(";"))
            return collect_rows(frame if most is None else frame.limit(most))
    except PySparkException as cause:
        raise UsageError(_summarize_error(str(cause))) from None


def _summarize_error(said: str) -> str:
    """Spark's reason for rejecting a query, with the position in the query."""
    lines: list[str] = []
    for line in said.strip().splitlines():
        if lines and line.startswith(_DETAILS):
            break
        lines.append(line.strip())
    reason = _CLASS.sub("", " ".join(filter(None, lines)))
    found = _POSITION.search(reason)
    where = f" (line {found[1]}, position {int(found[2]) + 1})" if found else ""
    reason = _STATE.sub("", _POSITION.sub("", reason)).strip(" ;")
    return f"Spark does not accept the query{where}: {reason or 'it gives no reason'}"
