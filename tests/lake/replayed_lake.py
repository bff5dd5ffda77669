"""Makes a lake from a capture without Spark: the folds of a run, in this process."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from kip848_spark import decode
from kip848_spark.insight.rebalances import REBALANCES, RebalanceFold
from kip848_spark.state.folded_rows import CONTROL_STATE_FIELDS, ClosedRows, derive_rows
from kip848_spark.state.history import HistoryFold
from kip848_spark.state.history_fields import HISTORY_FIELDS
from kip848_spark.state.partition_stream import fold_partitions
from tests.lake.written_lake import write_lake

STATE = ("groups", "members", "assignments")
FOLDS = {"history": HistoryFold, REBALANCES: RebalanceFold}


def control_bytes(capture: Path) -> pa.Table:
    """The control records of a capture, with the columns of `control_state`, in offset order."""
    raw = pq.read_table(capture).sort_by([("partition", "ascending"), ("offset", "ascending")])
    raw = raw.combine_chunks()
    decoded = decode(raw["key"], raw["value"])
    columns = {
        "partition": raw["partition"],
        "offset": raw["offset"],
        "timestamp": raw["timestamp"],
        "kind": decoded["kind"],
        "group_id": decoded["group_id"],
        "dialect": pa.array(["shipped"] * len(raw)),
        "raw_key": raw["key"],
        "raw_value": raw["value"],
    }
    found = pa.table(
        {name: columns[name].cast(type_) for name, type_ in CONTROL_STATE_FIELDS.items()}
    )
    known = pc.and_(decoded["error"].is_null(), pc.not_equal(decoded["kind"], "offset_commit"))
    return found.filter(known).combine_chunks()


def state_after(records: pa.Table) -> dict[str, pa.Table]:
    """The rows of the state tables after ``records`` (from `control_bytes`)."""
    found: dict[str, list[pa.Table]] = {name: [] for name in STATE}
    for folded in fold_partitions(records.combine_chunks().to_batches()):
        if not isinstance(folded, ClosedRows):
            for name in STATE:
                found[name].append(derive_rows(name, folded.carried, {}))
    return {name: pa.concat_tables(parts) for name, parts in found.items() if parts}


def replayed_tables(records: pa.Table) -> dict[str, pa.Table]:
    """The history tables and the rebalances of ``records`` (from `control_bytes`)."""
    names = (*HISTORY_FIELDS, REBALANCES)
    found: dict[str, list[pa.Table]] = {name: [] for name in names}
    for folded in fold_partitions(records.to_batches(), FOLDS):
        rows = folded.tables if isinstance(folded, ClosedRows) else folded.open_rows
        for name in names:
            if name in rows:
                found[name].append(rows[name])
    return {name: pa.concat_tables(parts) for name, parts in found.items() if parts}


def write_replayed_lake(path: Path, records: pa.Table) -> None:
    """A lake at ``path`` with the state, the history and the rebalances of ``records``."""
    tables = {name: table.to_pylist() for name, table in replayed_tables(records).items()}
    state = {name: table.to_pylist() for name, table in state_after(records).items()}
    write_lake(path, {**tables, **state})
