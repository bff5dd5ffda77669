"""Bits of real records flipped, in any byte of key or value: the audit ends, and fails on none."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from kip848_spark.checks.audit_rows import AUDIT_ROWS, GROUP_RECORDS, UNREADABLE_RECORD
from kip848_spark.checks.context import AuditContext
from kip848_spark.checks.coverage import Coverage
from kip848_spark.checks.group_task import AUDIT_FAILED, VERIFIED, audit_groups
from kip848_spark.checks.results import WARNING
from kip848_spark.checks.topics import KnownTopics
from kip848_spark.wire.control_plans import CONTROL_FIELDS, CONTROL_PLAN
from kip848_spark.wire.definitions import SHIPPED
from kip848_spark.wire.record_stream import control_decoder, decode_batches
from tests.audit.memory import bounded_memory
from tests.audit.raw_records import entry_of
from tests.captures import COMMITTED
from tests.conftest import DATA

Row = dict[str, Any]
CAPTURES = sorted(path.parent.name for path in DATA.glob(f"*/{COMMITTED}"))


def flipped(capture: str, seed: int) -> pa.Table:
    """The records of a capture, some bits of one in twenty of its control records wrong."""
    table = pq.read_table(DATA / capture / COMMITTED)
    table = table.sort_by([("partition", "ascending"), ("offset", "ascending")])
    columns = {name: table[name].to_pylist() for name in ("key", "value")}
    rng = random.Random(f"{capture} {seed}")
    for at, key in enumerate(columns["key"]):
        if key[1] in (0, 1) or rng.random() > 0.05:
            continue
        name = rng.choice(("key", "value"))
        damaged = bytearray(columns[name][at] or b"")
        for _ in range(rng.choice((1, 1, 1, 2, 8)) if damaged else 0):
            damaged[rng.randrange(len(damaged))] ^= 1 << rng.randrange(8)
        columns[name][at] = bytes(damaged) if damaged else None
    for name, column in columns.items():
        changed = pa.array(column, pa.binary())
        table = table.set_column(table.column_names.index(name), name, changed)
    return table.combine_chunks()


def rows_for_a_task(table: pa.Table) -> list[Row]:
    """What a task would get of these records."""
    starts = dict.fromkeys(table["partition"].to_pylist(), 0)
    rows = list(_rows(table, starts))
    return sorted(rows, key=lambda row: (row["group_id"], row["partition"], row["offset"]))


def _rows(table: pa.Table, starts: dict[int, int]) -> Iterator[Row]:
    for _, columns in decode_batches(CONTROL_PLAN.plan, starts, False, iter(table.to_batches())):
        decoded = pa.table(columns)
        for row in decoded.to_pylist():
            if row["error"] is not None and row["group_id"] is not None:
                yield {**_row(row), "kind": UNREADABLE_RECORD}
        good = [
            error is None and key is not None
            for error, key in zip(
                *(columns[n].to_pylist() for n in ("error", "raw_key")), strict=True
            )
        ]
        places = ["partition", "offset", "timestamp", "raw_key", "raw_value"]
        control = decoded.select(places).filter(pa.array(good)).combine_chunks()
        raw = {
            (row["partition"], row["offset"]): (row["raw_key"], row["raw_value"])
            for row in control.to_pylist()
        }
        for batch in control_decoder(CONTROL_PLAN, CONTROL_FIELDS)(iter(control.to_batches())):
            for row in batch.to_pylist():
                if row["kind"] != "offset_commit" and entry_of(row) is not None:
                    key, value = raw[row["partition"], row["offset"]]
                    yield {**_row(row), "dialect": SHIPPED, "key": key, "value": value}


def _row(row: Mapping[str, Any]) -> Row:
    millis = round(row["timestamp"].timestamp() * 1000)
    place = {name: row[name] for name in ("group_id", "partition", "offset", "kind")}
    return {**place, "millis": millis, "stage": GROUP_RECORDS}


def judged(capture: str, seed: int) -> None:
    rows = rows_for_a_task(flipped(capture, seed))
    task = audit_groups(AuditContext(Coverage(), KnownTopics()))
    batches = iter([pa.RecordBatch.from_pylist(rows, AUDIT_ROWS)])
    with bounded_memory():
        lines = [line for batch in task(batches) for line in batch.to_pylist()]
    failed = [line["recorded"] for line in lines if line["severity"] == WARNING]
    broken = [text for text in failed if "Error" in text]
    assert not broken, broken
    assert not any(line["reason"] == AUDIT_FAILED for line in lines)
    assert any(line["verdict"] == VERIFIED for line in lines)


@pytest.mark.slow
@pytest.mark.parametrize("capture", CAPTURES)
def test_flipped_bits(capture: str) -> None:
    judged(capture, 0)


@pytest.mark.long
@pytest.mark.parametrize("capture", CAPTURES)
def test_more_flipped_bits(capture: str) -> None:
    for seed in range(1, 25):
        judged(capture, seed)
