"""The topics of the cluster, as runs have listed them."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from kip848_spark.lake.conditions import Condition, TableReader


def latest_topics(tables: TableReader) -> pa.Table | None:
    """The topics as the last run that asked a cluster listed them; None if no run did."""
    if not tables.has("topics"):
        return None
    last = pc.max(tables.read("topics", ("run_id",))["run_id"]).as_py()
    if last is None:
        return None
    columns = ("topic", "topic_id", "partitions")
    return tables.read("topics", columns, Condition("run_id", "equals", last))
