"""What a fold beside the state has to offer, and how its carry is stored.

A fold turns the control records of one partition into rows, batch after batch. What it has to
remember from one run to the next is its carry: a few Arrow tables. The carry is stored in the table
`control_state`, so that the next run needs no other table."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping
from typing import Protocol

import numpy as np
import pyarrow as pa

from kip848_spark.state.fold import ControlChunk

CARRY = "history"
"""The kind of rows of `control_state` that are no records but the carry of folds."""
MAX_CARRY_BYTES = 1 << 20
"""A row holds about this many bytes of a carry, before compression."""
_SMALL_BYTES = 1 << 16
"""A table of up to this many bytes is not compressed."""

RowsByTable = Mapping[str, pa.Table]
"""Rows by the name of their table."""
Carry = Mapping[str, pa.Table]
"""What a fold remembers, by names of its own."""


class PartitionFold(Protocol):
    """Turns the control records of one partition into rows of tables; or those of several
    partitions, if they have the same `joint_key` and come in one chunk."""

    def __init__(self, carries: Mapping[int, Carry]) -> None:
        """``carries`` are the carries of the run before by partition; a carry is empty in the first
        run."""

    @staticmethod
    def joint_key(carry: Carry) -> Hashable:
        """Partitions whose keys are equal can be folded together, as far as they have no markers;
        None if this one can't be folded with others."""

    def add(self, chunk: ControlChunk) -> RowsByTable:
        """Takes the next new rows, and the control state before them. Returns the rows that no
        later record can change."""

    def finish(self, live: pa.Table | None) -> RowsByTable:
        """The rows that later records may still change (``to_offset`` is null). ``live`` is the
        control state after the last chunk; None if there is no record."""

    def carries(self) -> dict[int, Carry]:
        """What another fold needs to go on after the last chunk, by partition."""


FoldMaker = type[PartitionFold]


def pack_carry(carries: Mapping[str, Carry], schema: pa.Schema, partition: int) -> pa.Table:
    """Rows of `control_state` (``schema``) with the carries of a partition's folds, by fold. The
    offsets are negative, so that the rows come before all records."""
    names: list[bytes] = []
    slices: list[bytes] = []
    for fold, tables in carries.items():
        for name, table in tables.items():
            for part in _slices(table):
                names.append(f"{fold}/{name}".encode())
                slices.append(_to_bytes(part))
    count = len(names)
    columns = {
        "partition": pa.array(np.full(count, partition, np.int32)),
        "offset": pa.array(np.arange(-count, 0)),
        "kind": pa.array([CARRY] * count, pa.string()),
        "raw_key": pa.array(names, pa.binary()),
        "raw_value": pa.array(slices, pa.binary()),
    }
    arrays = [
        columns[field.name].cast(field.type)
        if field.name in columns
        else pa.nulls(count, field.type)
        for field in schema
    ]
    return pa.Table.from_arrays(arrays, schema=schema)


def unpack_carry(rows: pa.Table) -> dict[str, dict[str, pa.Table]]:
    """The carries by fold, from rows that `pack_carry` made, in offset order."""
    parts: dict[str, dict[str, list[pa.Table]]] = {}
    for key, value in zip(rows["raw_key"].to_pylist(), rows["raw_value"], strict=True):
        fold, name = key.decode().split("/", 1)
        table = pa.ipc.open_stream(value.as_buffer()).read_all()
        parts.setdefault(fold, {}).setdefault(name, []).append(table)
    return {
        fold: {name: pa.concat_tables(tables) for name, tables in of_fold.items()}
        for fold, of_fold in parts.items()
    }


def repack_carry(value: bytes | pa.Buffer, change: Callable[[pa.Table], pa.Table]) -> bytes | None:
    """The ``raw_value`` of a row that `pack_carry` made, after ``change``; None if nothing has
    changed."""
    before = pa.ipc.open_stream(value).read_all()
    after = change(before)
    return None if after.equals(before) else _to_bytes(after)


def _slices(table: pa.Table) -> Iterator[pa.Table]:
    """The table in slices of about `MAX_CARRY_BYTES`; one slice if it is empty."""
    rows = max(1, table.num_rows * MAX_CARRY_BYTES // max(1, table.nbytes))
    for start in range(0, max(1, table.num_rows), rows):
        yield table.slice(start, rows)


def _to_bytes(table: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    # Each buffer is compressed on its own, which takes ten times as long as to write a small one.
    compression = "zstd" if table.nbytes > _SMALL_BYTES else None
    options = pa.ipc.IpcWriteOptions(compression=compression)
    with pa.ipc.new_stream(sink, table.schema, options=options) as writer:
        writer.write_table(table)
    return bytes(sink.getvalue())
