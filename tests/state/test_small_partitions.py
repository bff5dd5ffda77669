"""Partitions that are folded together have the rows that each of them has alone."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from kip848_spark import decode
from kip848_spark.insight.rebalances import REBALANCES, RebalanceFold
from kip848_spark.state import kinds, partition_stream
from kip848_spark.state.fold import MAX_OFFSET, OutOfOrderError
from kip848_spark.state.folded_rows import (
    CONTROL_STATE,
    CONTROL_STATE_FIELDS,
    FOLDED_TABLES,
    ClosedRows,
)
from kip848_spark.state.history import HISTORY_FIELDS, HistoryFold
from kip848_spark.state.partition_fold import CARRY
from kip848_spark.state.partition_stream import fold_partitions
from tests.conftest import DATA
from tests.state.control_logs import carry_rows

MAKERS = {"history": HistoryFold, REBALANCES: RebalanceFold}
TABLES = (*FOLDED_TABLES, *HISTORY_FIELDS, REBALANCES)
SCHEMA = pa.schema(list(CONTROL_STATE_FIELDS.items()))
ORDER = [("partition", "ascending"), ("offset", "ascending")]
CAPTURES = sorted(path for path in DATA.glob("*/*.parquet") if path.stem != "first")
SOME = ("kafka-4.3.1", "odd-4.1.0", "share-streams-4.2.0")


@dataclass
class Run:
    """What a run makes of its rows: the closed rows of each table, its open ones, and the rows of
    `control_state` for the next run; and how many partitions were folded together."""

    closed: Counter[str] = field(default_factory=Counter)
    rows: dict[str, Counter[str]] = field(default_factory=dict)
    stored: pa.Table = field(default_factory=SCHEMA.empty_table)
    together: int = 0


def read_rows(capture: pa.Table) -> pa.Table:
    """The control records of a capture and its commits that are no tombstones, as a replay is given
    them."""
    raw = capture.sort_by(ORDER).combine_chunks()
    decoded = decode(raw["key"], raw["value"])
    kind = decoded["kind"]
    is_commit = pc.equal(kind, kinds.COMMIT).fill_null(False)
    columns = {
        **{name: raw[name] for name in ("partition", "offset", "timestamp")},
        "kind": kind,
        "group_id": decoded["group_id"],
        "dialect": pc.if_else(is_commit, None, "shipped"),
        "raw_key": pc.if_else(is_commit, None, raw["key"]),
        "raw_value": pc.if_else(is_commit, None, raw["value"]),
    }
    rows = pa.table(
        {name: columns[name].cast(type_) for name, type_ in CONTROL_STATE_FIELDS.items()}
    )
    is_dead = pc.and_(is_commit, pc.is_null(raw["value"]))
    return rows.filter(pc.and_(pc.is_null(decoded["error"]), pc.invert(is_dead))).combine_chunks()


def fold(rows: pa.Table) -> Run:
    """One run over ``rows``."""
    found: dict[str, list[pa.Table]] = {name: [] for name in TABLES}
    run = Run()
    batches = rows.sort_by(ORDER).combine_chunks().to_batches(max_chunksize=700)
    for part in fold_partitions(iter(batches), MAKERS):
        if isinstance(part, ClosedRows):
            for name, table in part.tables.items():
                run.closed += counts(table, name)
        else:
            if len(part.partitions) > 1:
                run.together += len(part.partitions)
            for name in TABLES:
                found[name].append(part.rows(name, {}))
    tables = {name: pa.concat_tables(parts) for name, parts in found.items()}
    run.stored = tables.pop(CONTROL_STATE)
    run.rows = {name: counts(table, name) for name, table in tables.items()}
    return run


def counts(table: pa.Table, name: str) -> Counter[str]:
    """The rows of the table ``name``, as JSON."""
    return Counter(name + json.dumps(row, default=str) for row in table.to_pylist())


def stored_rows(run: Run) -> tuple[Counter[str], dict[int, dict[str, Counter[str]]]]:
    """The records that a run stores, and the tables of its carries by partition."""
    records = run.stored.filter(pc.not_equal(run.stored["kind"], CARRY))
    return counts(records, CONTROL_STATE), carry_rows(run.stored)


def split_runs(rows: pa.Table, rng: np.random.Generator, gaps: float) -> Iterator[pa.Table]:
    """``rows`` in three runs: each partition is cut anywhere, and may have no rows in a run. With
    the probability ``gaps``, the first row of a partition is missing, or the last one of a run, or
    another one."""
    run = np.zeros(rows.num_rows, np.int64)
    lost: set[int] = set()
    partition = rows["partition"].to_numpy()
    for each in np.unique(partition):
        own = np.flatnonzero(partition == each)
        cuts = np.sort(rng.integers(0, len(own) + 1, 2))
        if rng.random() < 0.3:
            cuts[0] = cuts[1]
        run[own] = np.searchsorted(cuts, np.arange(len(own)), side="right")
        for at in (0, *(cuts - 1), rng.integers(0, len(own))):
            if at >= 0 and rng.random() < gaps:
                lost.add(int(own[at]))
    is_lost = np.isin(np.arange(rows.num_rows), list(lost))
    for number in range(3):
        here = run == number
        found = rows.filter(pa.array(here & ~is_lost))
        yield pa.concat_tables([found, gap_rows(rows.filter(pa.array(here & is_lost)))])


def gap_rows(lost: pa.Table) -> pa.Table:
    """The rows that a replay is given in place of the rows ``lost``."""
    count = lost.num_rows
    columns = {
        "partition": lost["partition"],
        "offset": lost["offset"],
        "kind": pa.array([kinds.GAP] * count, pa.string()),
    }
    return pa.table({f.name: columns.get(f.name, pa.nulls(count, f.type)) for f in SCHEMA})


def check_equal(rows: pa.Table, seed: int, gaps: float, monkeypatch: pytest.MonkeyPatch) -> int:
    """Folds some runs with partitions together and alone, and compares them. Returns how many
    partitions were folded together."""
    together, alone = Run(), Run()
    total = 0
    for part in split_runs(rows, np.random.default_rng(seed), gaps):
        together = fold(pa.concat_tables([together.stored, part]))
        with monkeypatch.context() as patch:
            patch.setattr(partition_stream, "MAX_ROWS", -1)
            alone = fold(pa.concat_tables([alone.stored, part]))
        assert alone.together == 0
        assert together.closed == alone.closed
        assert together.rows == alone.rows
        assert stored_rows(together) == stored_rows(alone)
        total += together.together
    return total


@pytest.mark.parametrize("gaps", [0, 0.4])
@pytest.mark.parametrize("capture", SOME)
def test_rows_are_equal(capture: str, gaps: float, monkeypatch: pytest.MonkeyPatch) -> None:
    path = next(path for path in CAPTURES if path.parent.name == capture)
    rows = read_rows(pq.read_table(path))
    assert sum(check_equal(rows, seed, gaps, monkeypatch) for seed in range(3))


@pytest.mark.long
@pytest.mark.parametrize("path", CAPTURES, ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_rows_of_each_capture_are_equal(path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = read_rows(pq.read_table(path))
    for seed, gaps in enumerate((0, 0.4)):
        check_equal(rows, seed, gaps, monkeypatch)


@pytest.fixture(scope="module")
def topic() -> pa.Table:
    return read_rows(pq.read_table(DATA / "churn-4.3.1" / "records-committed.parquet"))


def test_partitions_with_a_group_in_common_are_folded_alone(
    topic: pa.Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After the number of partitions has grown, a group may be in two."""
    rows = topic.filter(pc.equal(topic["partition"], topic["partition"][0]))
    half = rows.num_rows // 2
    moved = rows.set_column(
        0, "partition", pa.array(np.arange(rows.num_rows) >= half).cast("int32")
    )
    assert fold(moved).together == 0
    check_equal(moved, 1, 0, monkeypatch)


def test_offsets_that_do_not_fit_into_order_keys_are_folded_alone(
    topic: pa.Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    high = topic.set_column(1, "offset", pc.add(topic["offset"], MAX_OFFSET))
    assert check_equal(high, 1, 0, monkeypatch) == 0


def test_partitions_together_have_no_more_rows_than_may_wait(
    topic: pa.Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    sizes = topic.group_by("partition").aggregate([("offset", "count")])["offset_count"].to_pylist()
    monkeypatch.setattr(partition_stream, "MAX_ROWS", sum(sizes) - 1)
    assert 1 < fold(topic).together < len(sizes)


def test_rows_out_of_order_are_refused(topic: pa.Table) -> None:
    twice = pa.concat_tables([topic, topic.slice(topic.num_rows // 2, 1)])
    with pytest.raises(OutOfOrderError, match="came after offset"):
        fold(twice)


def test_partitions_out_of_order_are_refused(topic: pa.Table) -> None:
    batches = topic.sort_by([("partition", "descending"), ("offset", "ascending")]).to_batches()
    with pytest.raises(OutOfOrderError, match="came after partition"):
        list(fold_partitions(iter(batches), MAKERS))
