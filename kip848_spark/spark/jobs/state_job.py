"""The job that folds control records into the state tables, the history, and the rebalances."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from kip848_spark.insight.rebalances import REBALANCE_FIELDS, REBALANCES, RebalanceFold
from kip848_spark.lake.arrow_files import RowWriter
from kip848_spark.spark.storage.table_job import WriteMode
from kip848_spark.state import kinds
from kip848_spark.state.folded_rows import FOLDED_TABLES, STATE_FIELDS, ClosedRows, name_topics
from kip848_spark.state.history import HistoryFold
from kip848_spark.state.history_fields import HISTORY_FIELDS
from kip848_spark.state.partition_fold import FoldMaker
from kip848_spark.state.partition_stream import fold_partitions
from kip848_spark.wire.batches import Batches

FOLDS: Mapping[str, FoldMaker] = {"history": HistoryFold, "rebalances": RebalanceFold}
"""What is made of the control records beside the state."""
INTERVAL_TABLES = (*HISTORY_FIELDS, REBALANCES)
"""The tables that `FOLDS` make. A run replaces their open rows and appends closed ones."""
_FIELDS = {**STATE_FIELDS, **HISTORY_FIELDS, REBALANCES: REBALANCE_FIELDS}


@dataclass(frozen=True)
class StateJob:
    """Rows of `control_state`, sorted by partition and offset, to the tables `FOLDED_TABLES` and
    `INTERVAL_TABLES`: a `TableJob`. Rows that an earlier run stored and new ones come together.

    ``names`` are the names of topics by their ids. ``from_scratch`` says that the rows are all
    records, and that the tables `INTERVAL_TABLES` begin anew. Without ``folds`` these tables are
    not written. Raises OutOfOrderError if rows are not sorted.
    """

    names: Mapping[str, str]
    from_scratch: bool
    folds: Mapping[str, FoldMaker]

    @property
    def modes(self) -> Mapping[str, WriteMode]:
        """See `TableJob`."""
        intervals: WriteMode = "overwrite" if self.from_scratch else "replace_open"
        return {
            **dict.fromkeys(INTERVAL_TABLES if self.folds else (), intervals),
            **dict.fromkeys(FOLDED_TABLES, "overwrite"),
        }

    def write_tables(
        self, batches: Batches, writers: Mapping[str, RowWriter]
    ) -> list[dict[str, Any]]:
        for folded in fold_partitions(batches, self.folds):
            if isinstance(folded, ClosedRows):
                found = folded.tables
            else:
                found = {name: folded.rows(name, self.names) for name in writers}
            for name, rows in found.items():
                named = name_topics(rows, self.names).select(list(_FIELDS[name]))
                writers[name].write(_column_arrays(named))
        return []


def _column_arrays(table: pa.Table) -> dict[str, pa.Array]:
    columns = table.combine_chunks()
    return {
        name: column.chunk(0) if column.num_chunks else pa.array([], column.type)
        for name, column in zip(columns.column_names, columns.columns, strict=True)
    }


def sort_by_offset(rows: DataFrame) -> DataFrame:
    """``rows`` with each partition of the topic in one task, in offset order. A gap follows a
    record at its offset."""
    is_gap = F.col("kind") == kinds.GAP
    return rows.repartition("partition").sortWithinPartitions("partition", "offset", is_gap)
