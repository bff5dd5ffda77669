"""Parquet encodings of the columns in a lake's data files.

By default, Parquet builds a dictionary for every column. Offsets and times hardly ever repeat:
their dictionary is as large as the column, and takes a third of the time of writing a file. They
change little from row to row, so the file has their differences instead: a third of the time and a
fifth of the bytes. Every other column keeps its dictionary.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import pyarrow as pa

DIFFERENCES: Final = "DELTA_BINARY_PACKED"
"""The encoding of columns of large numbers."""


def pyarrow_options(schema: pa.Schema) -> dict[str, Any]:
    """The arguments of `pyarrow.parquet.ParquetWriter` for the encodings of ``schema``."""
    numbers = columns_of_large_numbers(schema)
    others = [path for path in _leaf_paths(schema) if path not in numbers]
    return {"use_dictionary": others, "column_encoding": dict.fromkeys(numbers, DIFFERENCES)}


def columns_of_large_numbers(schema: pa.Schema) -> list[str]:
    """The columns of 64-bit integers and times, without those inside of lists and structs."""
    return [f.name for f in schema if pa.types.is_int64(f.type) or pa.types.is_timestamp(f.type)]


def _leaf_paths(fields: pa.Schema | pa.StructType, before: str = "") -> Iterator[str]:
    """The paths of the columns that a Parquet file has for ``fields``."""
    for field in fields:
        yield from _leaves(before + field.name, field.type)


def _leaves(path: str, type_: pa.DataType) -> Iterator[str]:
    if pa.types.is_struct(type_):
        yield from _leaf_paths(type_, f"{path}.")
    elif pa.types.is_map(type_):
        yield from _leaves(f"{path}.key_value.key", type_.key_type)
        yield from _leaves(f"{path}.key_value.value", type_.item_type)
    elif pa.types.is_list(type_):
        yield from _leaves(f"{path}.list.element", type_.value_type)
    else:
        yield path
