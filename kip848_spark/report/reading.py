"""Reads tables that lakes of earlier versions may lack."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from kip848_spark.lake.snapshot import LakeSnapshot
from kip848_spark.lake.tables import TABLES


def read_table(snapshot: LakeSnapshot, name: str, columns: Sequence[str]) -> pa.Table:
    """These columns of a table; no rows if the lake lacks it. Raises LakeError."""
    if snapshot.has(name):
        return snapshot.select(name, None, columns)
    return TABLES[name].schema.empty_table().select(list(columns))
