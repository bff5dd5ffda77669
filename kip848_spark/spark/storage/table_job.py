"""A job that makes rows for several tables of a lake at once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

from kip848_spark.lake.arrow_files import RowWriter
from kip848_spark.wire.batches import Batches

WriteMode = Literal["append", "overwrite", "replace_open"]
"""Whether a job's rows are added, replace all rows of the table, or replace its open rows (see
`lake.replacement`)."""


class TableJob(Protocol):
    """Turns the rows of a DataFrame into rows of several tables.

    Rows lack the columns ``run_id`` and ``cluster_id``, which the implementation of `LakeTables`
    adds.
    """

    @property
    def modes(self) -> Mapping[str, WriteMode]:
        """The tables that are written, in this order, and how."""

    def write_tables(
        self, batches: Batches, writers: Mapping[str, RowWriter]
    ) -> list[dict[str, Any]]:
        """Turns ``batches`` into rows and writes them with ``writers`` (by table). Returns a report
        of JSON-compatible rows. Runs in a Python worker, once for each partition of the
        DataFrame."""


@dataclass(frozen=True)
class TableJobResult:
    """The reports of a job, and the number of rows written by table, if it is known."""

    reports: list[dict[str, Any]]
    rows: Mapping[str, int] = field(default_factory=dict)
