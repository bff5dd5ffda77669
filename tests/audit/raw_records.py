"""Control records of captures that are kept as bytes only, as this program decodes them."""

from __future__ import annotations

import base64
import re
from collections.abc import Iterable, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from kip848_spark.checks.log_entries import LogEntry, control_entry
from kip848_spark.checks.topics import KnownTopics
from kip848_spark.coordinator.topics import Topic
from kip848_spark.wire.control_plans import CONTROL_FIELDS, CONTROL_PLAN
from kip848_spark.wire.offset_gaps import TRANSACTION
from kip848_spark.wire.record_stream import control_decoder, decode_batches
from tests.captures import read_live


def control_rows(path: Path) -> pa.Table:
    """The rows of `group_records` that the codec makes of a capture's file."""
    return _control(pq.read_table(path))


def _control(capture: pa.Table) -> pa.Table:
    batches = iter(raw_control(capture).to_batches())
    decoded = list(control_decoder(CONTROL_PLAN, CONTROL_FIELDS)(batches))
    return pa.Table.from_batches(decoded) if decoded else pa.table({})


def rows_of(raw: pa.Table) -> list[dict[str, Any]]:
    """The rows of `group_records` of what `raw_control` gives."""
    batches = control_decoder(CONTROL_PLAN, CONTROL_FIELDS)(iter(raw.to_batches()))
    return [row for batch in batches for row in batch.to_pylist()]


def raw_control(capture: pa.Table) -> pa.Table:
    """partition, offset, timestamp, raw_key, raw_value of the control records of a capture."""
    table = capture.sort_by([("partition", "ascending"), ("offset", "ascending")])
    kinds = [int.from_bytes(key[:2], "big") for key in table["key"].to_pylist()]
    table = table.filter(pa.array([kind not in (0, 1) for kind in kinds]))
    raw = table.select(["partition", "offset", "timestamp", "key", "value"])
    return raw.rename_columns(["partition", "offset", "timestamp", "raw_key", "raw_value"])


def entries_of(path: Path) -> list[LogEntry]:
    """The entries that an audit of a capture's file would judge."""
    return entries_in(pq.read_table(path))


def entries_in(capture: pa.Table) -> list[LogEntry]:
    """The entries that an audit of a capture would judge."""
    found = (entry_of(row) for row in _control(capture).to_pylist())
    return [item for item in found if item is not None]


def entry_of(row: Mapping[str, Any]) -> LogEntry | None:
    """The entry of a row of `group_records`."""
    millis = round(row["timestamp"].timestamp() * 1000)
    value = None if row["tombstone"] else _camel(row[row["kind"]])
    place = row["partition"], row["offset"], millis
    names = row["group_id"], row["member_id"], row["regular_expression"]
    return control_entry(place, row["kind"], *names, value)


def _camel(value: Any) -> Any:
    """A value of `group_records` under Kafka's names, bytes as base64."""
    if isinstance(value, Mapping):
        return {_name(k): _camel(v) for k, v in value.items() if k not in _DERIVED}
    if isinstance(value, bytes | bytearray):
        return base64.b64encode(value).decode()
    if isinstance(value, str) or not isinstance(value, Iterable):
        return value
    return [_camel(item) for item in value]


@lru_cache(maxsize=512)
def _name(snake: str) -> str:
    return re.sub(r"_(.)", lambda found: found.group(1).upper(), snake)


_DERIVED = ("consumer_subscription", "consumer_assignment", "metadata_kind")


def holes_of(
    capture: pa.Table, starts: Mapping[int, int] | None = None
) -> tuple[list[tuple[int, int]], dict[int, int]]:
    """(partition, last offset) of the gaps in which an ingest would say that control records may be
    missing, and each partition's last offset. Read from ``starts`` on, or from 0."""
    holes: list[tuple[int, int]] = []
    ends: dict[int, int] = {}
    table = capture.sort_by([("partition", "ascending"), ("offset", "ascending")])
    partitions = set(table["partition"].to_pylist())
    begin = {partition: (starts or {}).get(partition, 0) for partition in partitions}
    batches = iter(table.combine_chunks().to_batches())
    for _, columns in decode_batches(CONTROL_PLAN.plan, begin, False, batches):
        causes = columns["gap_cause"].to_pylist()
        places = zip(columns["partition"].to_pylist(), columns["offset"].to_pylist(), strict=True)
        for (partition, offset), cause in zip(places, causes, strict=True):
            ends[partition] = offset
            if cause not in (None, TRANSACTION):
                holes.append((partition, offset - 1))
    return holes, ends


def topics_of(path: Path) -> KnownTopics:
    """The topics that the broker listed at the end of a capture."""
    live = read_live(path)
    return KnownTopics.of(
        Topic(t.name, t.topic_id.replace("+", "-").replace("/", "_"), t.partitions, t.racks)
        for t in live.topics.values()
    )
