"""Writes a capture that repeats another one: the same groups several times, each under new
names."""

from __future__ import annotations

import struct
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

_LENGTH = struct.Struct(">h")
"""A key begins with its type (int16) and the group's name: its length (int16) and its bytes."""


def replicate(capture: Path, out: Path, times: int) -> None:
    """Writes ``capture`` (one Parquet file for each partition) ``times`` times to the new folder
    ``out``.

    The copies follow each other in each partition, with their groups renamed. The times of their
    records stay those of the original, as the times in their values do."""
    out.mkdir()
    for path in sorted(capture.glob("*.parquet")):
        table = pq.read_table(path).sort_by("offset")
        keys = table["key"].combine_chunks().dictionary_encode()
        span = table["offset"][-1].as_py() + 1
        with pq.ParquetWriter(out / path.name, table.schema, compression="zstd") as writer:
            for number in range(times):
                suffix = f".{number}".encode()
                names = pa.array(
                    [_rename(key, suffix) for key in keys.dictionary.to_pylist()], pa.binary()
                )
                columns = {name: table[name] for name in table.column_names} | {
                    "key": names.take(keys.indices),
                    "offset": pc.add(table["offset"], number * span),
                }
                writer.write_table(pa.table(columns, table.schema))


def _rename(key: bytes, suffix: bytes) -> bytes:
    (length,) = _LENGTH.unpack_from(key, 2)
    end = 4 + length
    return key[:2] + _LENGTH.pack(length + len(suffix)) + key[4:end] + suffix + key[end:]
