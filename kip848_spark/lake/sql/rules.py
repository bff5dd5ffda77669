"""How the parts of a query that Spark and DuckDB treat differently are written for DuckDB."""

from __future__ import annotations

# Each module adds its rules to `RULES`.
from kip848_spark.lake.sql import array_rules, query_rules, text_rules, time_rules, value_rules
from kip848_spark.lake.sql.rule import RULES, NotTranslatable

__all__ = [
    "RULES",
    "NotTranslatable",
    "array_rules",
    "query_rules",
    "text_rules",
    "time_rules",
    "value_rules",
]
