"""Folds the control records of captures into rebalances, without Spark."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kip848_spark.insight.rebalances import REBALANCE_FIELDS, REBALANCES, RebalanceFold
from kip848_spark.state.fold import ControlChunk, find_live_records
from kip848_spark.wire.control import control_columns
from kip848_spark.wire.tables import kind_column, row_types
from tests.simulation.read_capture import FIELDS, PLAN, decoded, partitions

Row = dict[str, Any]


def control_records(table: pa.Table) -> pa.Table:
    """The decoded control records among raw records of one partition."""
    table = table.combine_chunks()
    types = row_types(decoded(table))
    kind = kind_column(PLAN.plan, types)
    control = pc.not_equal(kind, "offset_commit")
    keys, values = (table[name].chunk(0).filter(control) for name in ("key", "value"))
    place = {name: table[name].filter(control) for name in ("partition", "offset", "timestamp")}
    return pa.table({**place, **control_columns(PLAN, FIELDS, keys, values)})


def read_control(capture: Path) -> Iterator[tuple[int, pa.Table]]:
    """The control records of each partition of a capture."""
    for number, table in partitions(capture).items():
        yield number, control_records(table)


def fold(records: pa.Table, cuts: Iterable[int] = (), runs: Iterable[int] = ()) -> pa.Table:
    """The rows of `rebalances`, sorted by offset. The records are split into chunks at ``cuts``,
    and a new run begins at ``runs``."""
    runs = set(runs)
    bounds = sorted({0, len(records), *cuts, *runs})
    state = records.slice(0, 0)
    rebalances = RebalanceFold({0: {}})
    closed = []
    rows = pa.schema(list(REBALANCE_FIELDS.items())).empty_table()
    for start, end in itertools.pairwise(bounds):
        if start in runs:
            rebalances.finish(state)
            rebalances = RebalanceFold(rebalances.carries())
        both = pa.concat_tables([state, records.slice(start, end - start)]).combine_chunks()
        closed.append(rebalances.add(ControlChunk(both, len(state)))[REBALANCES])
        state = both.filter(pa.array(find_live_records(both)))
    rows = pa.concat_tables([rows, *closed, rebalances.finish(state)[REBALANCES]])
    return rows.sort_by([("from_offset", "ascending"), ("type", "ascending")]).combine_chunks()


def milliseconds(rows: pa.Table, column: str) -> list[int | None]:
    """A column of timestamps in ms."""
    times = rows[column].cast(pa.int64()).combine_chunks()
    return pc.divide(times, 1000).to_pylist()


def random_cuts(count: int, pieces: int, seed: int) -> list[int]:
    """Places to split ``count`` rows at."""
    return np.random.default_rng(seed).integers(0, count + 1, pieces).tolist()
