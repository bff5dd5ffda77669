"""Control records of captures that are kept as bytes only, as this program decodes them."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from kip848_spark.audit.entries import Entry, from_row
from kip848_spark.audit.topics import KnownTopics
from kip848_spark.coordinator.topics import Topic
from kip848_spark.spark.decoding import control_decoder
from kip848_spark.spark.tables import CONTROL_FIELDS, CONTROL_PLAN
from tests.captures import read_live


def control_rows(path: Path) -> pa.Table:
    """The rows of `group_records` that the codec makes of a capture's file."""
    table = pq.read_table(path).sort_by([("partition", "ascending"), ("offset", "ascending")])
    kinds = [int.from_bytes(key[:2], "big") for key in table["key"].to_pylist()]
    table = table.filter(pa.array([kind not in (0, 1) for kind in kinds]))
    raw = table.select(["partition", "offset", "timestamp", "key", "value"])
    raw = raw.rename_columns(["partition", "offset", "timestamp", "raw_key", "raw_value"])
    return pa.Table.from_batches(
        list(control_decoder(CONTROL_PLAN, CONTROL_FIELDS)(iter(raw.to_batches())))
    )


def entries_of(path: Path) -> list[Entry]:
    """The entries that an audit of a capture's file would judge."""
    found = (
        from_row(row, round(row["timestamp"].timestamp() * 1000))
        for row in control_rows(path).to_pylist()
    )
    return [item for item in found if item is not None]


def topics_of(path: Path) -> KnownTopics:
    """The topics that the broker listed at the end of a capture."""
    live = read_live(path)
    return KnownTopics.of(
        Topic(t.name, t.topic_id.replace("+", "-").replace("/", "_"), t.partitions)
        for t in live.topics.values()
    )
