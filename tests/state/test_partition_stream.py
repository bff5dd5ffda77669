"""Two runs over the parts of a topic, and one run over all of it, give the same rows."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from kip848_spark.state import fold as fold_module
from kip848_spark.state import kinds, partition_fold, partition_stream
from kip848_spark.state.fold import OutOfOrderError
from kip848_spark.state.folded_rows import (
    CONTROL_STATE,
    CONTROL_STATE_FIELDS,
    FOLDED_TABLES,
    ClosedRows,
)
from kip848_spark.state.history import HISTORY_FIELDS, HistoryFold
from kip848_spark.state.partition_fold import CARRY
from kip848_spark.state.partition_stream import fold_partitions
from kip848_spark.wire.control_plans import CONTROL_PLAN
from tests.audit.raw_records import raw_control
from tests.captures import COMMITTED
from tests.conftest import DATA
from tests.state.control_logs import carry_rows

SCHEMA = pa.schema(list(CONTROL_STATE_FIELDS.items()))
MAKERS = {"history": HistoryFold}


@pytest.fixture(scope="module")
def topic() -> pa.Table:
    """The control records of a real topic, as a replay is given them."""
    raw = raw_control(pq.read_table(DATA / "kafka-4.3.1" / COMMITTED))
    count = raw.num_rows
    columns = {name: raw[name] for name in raw.column_names}
    columns["dialect"] = pa.array([CONTROL_PLAN.plan.dialect] * count)
    return pa.table(
        [
            columns[f.name].cast(f.type) if f.name in columns else pa.nulls(count, f.type)
            for f in SCHEMA
        ],
        schema=SCHEMA,
    )


def _batches(table: pa.Table, size: int) -> Iterator[pa.RecordBatch]:
    ordered = table.sort_by([("partition", "ascending"), ("offset", "ascending")])
    yield from ordered.combine_chunks().to_batches(max_chunksize=size)


def _run(table: pa.Table, size: int) -> tuple[dict[str, Counter[str]], list[pa.Table], pa.Table]:
    """The rows of the state tables, the closed and the open rows of history, and
    `control_state`."""
    tables: dict[str, list[pa.Table]] = {name: [] for name in (*FOLDED_TABLES, *HISTORY_FIELDS)}
    closed: list[pa.Table] = []
    for part in fold_partitions(_batches(table, size), MAKERS):
        if isinstance(part, ClosedRows):
            closed += [
                rows.append_column("t", _names(name, rows)) for name, rows in part.tables.items()
            ]
        else:
            for name, found in tables.items():
                found.append(part.rows(name, {}))
    stored = pa.concat_tables(tables.pop(CONTROL_STATE))
    return {name: _counts(pa.concat_tables(rows)) for name, rows in tables.items()}, closed, stored


def _names(name: str, rows: pa.Table) -> pa.Array:
    return pa.array([name] * rows.num_rows)


def _counts(rows: pa.Table) -> Counter[str]:
    return Counter(json.dumps(row, default=str) for row in rows.to_pylist())


def _closed(*tables: list[pa.Table]) -> Counter[str]:
    return sum((_counts(rows) for several in tables for rows in several), Counter())


def _is_record(stored: pa.Table) -> pa.Table:
    return stored.filter(pc.not_equal(stored["kind"], CARRY))


@pytest.mark.parametrize("size", [45, 1_000])
@pytest.mark.parametrize("share", [0.0, 0.5, 1.0])
def test_two_runs_give_the_rows_of_one(
    topic: pa.Table, share: float, size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second run gets no more than what the first one stored in `control_state`."""
    monkeypatch.setattr(fold_module, "MIN_BUFFER", 40)
    monkeypatch.setattr(partition_fold, "MAX_CARRY_BYTES", 900)
    rows, closed, stored = _run(topic, size)
    cut = _offsets_at(topic, share)
    early = pa.array([o <= cut[p] for p, o in zip(*_positions(topic), strict=True)])
    _, first_closed, first_stored = _run(topic.filter(early), size)
    rest = pa.concat_tables([first_stored, topic.filter(pc.invert(early))])
    more_rows, more_closed, more_stored = _run(rest, size)
    assert more_rows == rows
    assert _closed(first_closed, more_closed) == _closed(closed)
    assert _counts(_is_record(more_stored)) == _counts(_is_record(stored))
    assert rows["group_history"]
    assert _closed(closed)


def test_large_batches_are_folded_in_pieces(
    topic: pa.Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows, closed, stored = _run(topic, topic.num_rows)
    sizes = []
    decode = partition_stream.decode

    def decode_and_measure(batch: pa.RecordBatch) -> pa.Table:
        sizes.append(batch.nbytes)
        return decode(batch)

    monkeypatch.setattr(partition_stream, "decode", decode_and_measure)
    monkeypatch.setattr(partition_stream, "PIECE_BYTES", 2_000)
    monkeypatch.setattr(partition_stream, "MAX_BYTES", 2_000)
    monkeypatch.setattr(fold_module, "MAX_BYTES", 2_000)
    more_rows, more_closed, more_stored = _run(topic, topic.num_rows)
    assert max(sizes) < 6_000
    assert more_rows == rows
    assert _closed(more_closed) == _closed(closed)
    assert _counts(_is_record(more_stored)) == _counts(_is_record(stored))


def _offsets_at(topic: pa.Table, share: float) -> dict[int, int]:
    """An offset of each partition, with this share of its records up to it."""
    offsets = {
        p: sorted(o for q, o in zip(*_positions(topic), strict=True) if q == p)
        for p in set(topic["partition"].to_pylist())
    }
    return {p: mine[int((len(mine) - 1) * share)] for p, mine in offsets.items()}


@pytest.mark.parametrize("size", [1, 45, 1_000])
def test_a_gap_directly_behind_the_last_record_of_a_run(
    topic: pa.Table, size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its row has the offset of that record, and the next run is given it."""
    monkeypatch.setattr(fold_module, "MIN_BUFFER", 40)
    cut = _offsets_at(topic, 0.5)
    gaps = _gaps(cut.items())
    rows, closed, stored = _run(pa.concat_tables([topic, gaps]), size)
    early = pa.array([o <= cut[p] for p, o in zip(*_positions(topic), strict=True)])
    _, first_closed, first_stored = _run(topic.filter(early), size)
    rest = pa.concat_tables([first_stored, topic.filter(pc.invert(early)), gaps])
    more_rows, more_closed, more_stored = _run(rest, size)
    assert more_rows == rows
    assert _closed(first_closed, more_closed) == _closed(closed)
    assert _counts(_is_record(more_stored)) == _counts(_is_record(stored))
    unseen = [row for row in _closed(closed) if '"known_to": "' in row]
    assert unseen


def _gaps(places: Iterable[tuple[int, int]]) -> pa.Table:
    """Rows of gaps in partitions at offsets."""
    partition, offset = zip(*places, strict=True)
    columns = {"partition": partition, "offset": offset, "kind": [kinds.GAP] * len(offset)}
    return pa.table(
        [
            pa.array(columns[f.name], f.type)
            if f.name in columns
            else pa.nulls(len(offset), f.type)
            for f in SCHEMA
        ],
        schema=SCHEMA,
    )


def _positions(topic: pa.Table) -> tuple[list[int], list[int]]:
    return topic["partition"].to_pylist(), topic["offset"].to_pylist()


def test_a_run_without_new_records_changes_nothing(topic: pa.Table) -> None:
    rows, _, stored = _run(topic, 1_000)
    again, closed, stored_again = _run(stored, 1_000)
    assert again == rows
    assert not closed
    assert _counts(_is_record(stored_again)) == _counts(_is_record(stored))
    assert carry_rows(stored_again) == carry_rows(stored)


def test_a_partition_without_live_records_keeps_its_carry(topic: pa.Table) -> None:
    """A group is deleted; its history goes on when it is created again."""
    classic = topic.filter(pc.equal(topic["raw_key"].cast(pa.binary()), _classic_key(topic)))
    group = classic.slice(0, 1)
    offset = group["offset"][0].as_py()

    def at(row: pa.Table, offset: int, **values: pa.Array) -> pa.Table:
        for name, value in {"offset": pa.array([offset], pa.int64()), **values}.items():
            row = row.set_column(row.column_names.index(name), SCHEMA.field(name), value)
        return row

    dead = at(group, offset + 1, raw_value=pa.nulls(1, pa.binary()))
    rows, closed, stored = _run(pa.concat_tables([group, dead]), 10)
    assert not _is_record(stored).num_rows
    assert stored.num_rows
    assert not rows["group_history"]
    assert _closed(closed)
    rows, closed, _ = _run(pa.concat_tables([stored, at(group, offset + 5)]), 10)
    assert sum(rows["group_history"].values()) == 1
    assert not closed
    assert f'"from_offset": {offset + 5}' in next(iter(rows["group_history"]))


def _classic_key(topic: pa.Table) -> bytes:
    return next(k for k in topic["raw_key"].to_pylist() if k[:2] == b"\x00\x02")


def test_rows_with_the_same_offset_are_refused(topic: pa.Table) -> None:
    twice = pa.concat_tables([topic.slice(0, 1), topic.slice(0, 1)])
    with pytest.raises(OutOfOrderError):
        list(fold_partitions(_batches(twice, 10), MAKERS))


def test_a_gap_is_no_part_of_the_state(topic: pa.Table) -> None:
    partition, offset = topic["partition"][0].as_py(), topic["offset"][0].as_py()
    gap = _gaps([(partition, offset + 1_000_000)])
    rows, _, stored = _run(pa.concat_tables([topic, gap]), 1_000)
    expected, _, without = _run(topic, 1_000)
    assert _counts(_is_record(stored)) == _counts(_is_record(without))
    assert rows["groups"] == expected["groups"]
    assert not any(f'"partition": {partition},' in row for row in rows["group_history"])
    assert any(f'"partition": {partition},' in row for row in expected["group_history"])
