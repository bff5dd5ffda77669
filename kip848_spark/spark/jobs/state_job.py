"""The job that folds control records into the state tables, the history, and the rebalances."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame

from kip848_spark.insight.rebalances import REBALANCE_FIELDS, REBALANCES, RebalanceFold
from kip848_spark.lake.arrow_files import TableWriter
from kip848_spark.spark.map_in_arrow import map_in_arrow
from kip848_spark.spark.storage.tables import WriteMode
from kip848_spark.state.history import HistoryFold
from kip848_spark.state.history_fields import HISTORY_FIELDS
from kip848_spark.state.partition_fold import FoldMaker
from kip848_spark.state.partition_stream import (
    CONTROL_STATE,
    FOLDED_TABLES,
    STATE_FIELDS,
    ClosedRows,
    fold_partitions,
    name_topics,
)
from kip848_spark.wire.batches import Batches, BatchFunction

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
        """See `TableJob`. `control_state` is written after the tables that are made from the rows
        that it had before."""
        intervals: WriteMode = "overwrite" if self.from_scratch else "replace_open"
        return {
            **dict.fromkeys(INTERVAL_TABLES if self.folds else (), intervals),
            **dict.fromkeys(FOLDED_TABLES, "overwrite"),
        }

    def write_tables(
        self, batches: Batches, writers: Mapping[str, TableWriter]
    ) -> list[dict[str, Any]]:
        for name, rows in self._rows(batches, list(writers), self.folds):
            writers[name].write(_column_arrays(rows))
        return []

    def yield_tables(
        self, rows: DataFrame, read: Callable[[str], DataFrame]
    ) -> Generator[tuple[str, DataFrame], None, list[dict[str, Any]]]:
        """See `TableJob`. The state tables are derived from `control_state`."""
        for table in self.modes:
            schema = pa.schema(list(_FIELDS[table].items()))
            yield table, map_in_arrow(rows, self._rows_of(table), schema)
            if table == CONTROL_STATE:
                rows = sort_by_offset(read(CONTROL_STATE))
        return []

    def _rows_of(self, table: str) -> BatchFunction:
        folds = self.folds if table in (*INTERVAL_TABLES, CONTROL_STATE) else None

        def run(batches: Batches) -> Batches:
            for _, rows in self._rows(batches, [table], folds):
                yield from rows.to_batches()

        return run

    def _rows(
        self, batches: Batches, tables: Sequence[str], folds: Mapping[str, FoldMaker] | None
    ) -> Iterator[tuple[str, pa.Table]]:
        """Rows of ``tables``, each with the name of its table."""
        for folded in fold_partitions(batches, folds):
            if isinstance(folded, ClosedRows):
                found = {name: folded.tables[name] for name in tables if name in folded.tables}
            else:
                found = {name: folded.rows(name, self.names) for name in tables}
            for name, rows in found.items():
                yield name, name_topics(rows, self.names).select(list(_FIELDS[name]))


def _column_arrays(table: pa.Table) -> dict[str, pa.Array]:
    columns = table.combine_chunks()
    return {
        name: column.chunk(0) if column.num_chunks else pa.array([], column.type)
        for name, column in zip(columns.column_names, columns.columns, strict=True)
    }


def sort_by_offset(rows: DataFrame) -> DataFrame:
    """``rows`` with each partition of the topic in one task, in offset order."""
    return rows.repartition("partition").sortWithinPartitions("partition", "offset")
