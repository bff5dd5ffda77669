"""Writes a lake from given rows, through delta-rs and without Spark or a run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
from deltalake import DeltaTable, write_deltalake

from kip848_spark.kafka.topic import TopicIdentity
from kip848_spark.lake.delta_rs import create_table
from kip848_spark.lake.ledger import DONE, RecordCounts, Run
from kip848_spark.lake.tables import TABLES

Rows = Sequence[Mapping[str, Any]] | pa.Table

FIRST_RUN = datetime(2026, 11, 22, 4, tzinfo=UTC)


def write_lake(
    path: Path,
    tables: Mapping[str, Rows],
    *,
    finished_at: datetime = FIRST_RUN,
    without: Sequence[str] = (),
    run: Mapping[str, Any] | None = None,
) -> None:
    """A lake at ``path`` with the rows ``tables``, as if one run had written them. Columns that are
    not given are null, tables that are not given are empty. ``without`` names tables that the lake
    does not have. ``run``: see `write_run`."""
    for name, table in TABLES.items():
        if name not in without:
            create_table(str(path / name), table)
    write_run(path, tables, finished_at=finished_at, run=run)


def write_run(
    path: Path,
    tables: Mapping[str, Rows],
    *,
    finished_at: datetime,
    mode: str = "append",
    source: str = "parquet:hand-made",
    run: Mapping[str, Any] | None = None,
) -> None:
    """Writes ``tables`` to the lake at ``path`` and adds a finished run that read ``source``.
    ``run`` are other values of `Run`."""
    for name, rows in tables.items():
        _write(path, name, rows, mode)
    there = [name for name in TABLES if (path / name).exists()]
    run_id = f"{finished_at:%Y%m%dT%H%M%S.%f}Z-0000"
    done = Run(
        run_id=run_id,
        source=source,
        identity=TopicIdentity("__consumer_offsets", None, None),
        dialect="shipped",
        ranges=(),
        table_versions={name: DeltaTable(path / name).version() for name in there},
        started_at=finished_at,
        outcome=DONE,
        replayed_through=run_id,
        counts=RecordCounts(),
        finished_at=finished_at,
    )
    _write(path, "runs", [replace(done, **(run or {})).row()], "append")


def _write(path: Path, name: str, rows: Rows, mode: str) -> None:
    fields = TABLES[name].fields
    if not isinstance(rows, pa.Table):
        columns = {
            column: pa.array([_value(row.get(column), type_) for row in rows], type_)
            for column, type_ in fields.items()
        }
        rows = pa.table(columns)
    write_deltalake(path / name, rows, mode=mode)  # type: ignore[call-overload]


def _value(value: Any, type_: pa.DataType) -> Any:
    return list(value.items()) if value is not None and pa.types.is_map(type_) else value
