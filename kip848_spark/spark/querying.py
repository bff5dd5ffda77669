"""SQL over the lake's views, for people: what Spark does not accept is their mistake, not ours."""

from __future__ import annotations

from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from kip848_spark.errors import UsageError
from kip848_spark.spark.collecting import collected
from kip848_spark.spark.session_settings import prepared


def query_rows(spark: SparkSession, query: str, most: int | None = None) -> list[dict[str, Any]]:
    """The rows that ``query`` gives, at most ``most``. Raises UsageError with Spark's reason."""
    try:
        with prepared(spark):
            frame = spark.sql(query.rstrip().rstrip(";"))
            return collected(frame if most is None else frame.limit(most))
    except PySparkException as cause:
        first = str(cause).splitlines()[0]
        raise UsageError(f"Spark does not accept the query: {first}") from None
