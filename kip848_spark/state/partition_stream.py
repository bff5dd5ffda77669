"""Folds the control records of whole partitions. Small partitions are folded together."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kip848_spark.state import kinds
from kip848_spark.state.codes import factorize, factorize_pairs
from kip848_spark.state.fold import (
    MAX_OFFSET,
    ControlChunk,
    Fold,
    OutOfOrderError,
    find_live_records,
)
from kip848_spark.state.folded_rows import (
    CONTROL_STATE_FIELDS,
    DECODED,
    ClosedRows,
    FoldedPartitions,
    decode,
)
from kip848_spark.state.partition_fold import (
    Carry,
    FoldMaker,
    PartitionFold,
    pack_carry,
    unpack_carry,
)
from kip848_spark.wire.array_types import Int64Array
from kip848_spark.wire.batches import Batches

MAX_ROWS, MAX_BYTES = 1 << 15, 1 << 25
"""Partitions that are folded together have at most so much in all."""
PIECE_BYTES = 1 << 24
"""Larger batches are decoded and folded in pieces of about so much."""
_POSITION = "position"
"""The name under which the offset of the last record is stored beside the folds' carry."""
_SCHEMA = pa.schema(list(CONTROL_STATE_FIELDS.items()))
Folded = Iterator[ClosedRows | FoldedPartitions]


def fold_partitions(batches: Batches, makers: Mapping[str, FoldMaker] | None = None) -> Folded:
    """Folds the control records of each partition. Yields closed rows while the records pass, and a
    `FoldedPartitions` at the end of each partition, or later for several small ones together.

    The batches are sorted by partition and offset; they have the columns of `CONTROL_STATE_FIELDS`.
    Rows that an earlier run stored in `control_state` come with the new ones. ``makers`` are the
    folds beside the state, by a name under which their carry is stored. Without them no rows are
    closed, the carry of an earlier run is ignored, and each partition is folded alone. Raises
    OutOfOrderError."""
    current: _Partition | None = None
    small = _SmallPartitions(makers or {})
    for batch in batches:
        partitions = batch.column("partition").to_numpy()
        for part in np.split(np.arange(batch.num_rows), np.flatnonzero(np.diff(partitions)) + 1):
            if not len(part):
                continue
            partition = int(partitions[part[0]])
            if current is None or current.partition != partition:
                if current is not None:
                    yield from small.add(current)
                current = _Partition(partition, makers or {})
            for piece in _pieces(batch.slice(part[0], len(part))):
                yield from current.add(piece)
    if current is not None:
        yield from small.add(current)
    yield from small.fold()


def _pieces(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    count = -(-batch.num_rows // (batch.nbytes // PIECE_BYTES + 1))
    for start in range(0, batch.num_rows, count):
        yield batch.slice(start, count)


class _Partition:
    """The folds of one partition. Its rows wait as long as it is small."""

    def __init__(self, partition: int, makers: Mapping[str, FoldMaker]) -> None:
        self.partition = partition
        self.is_small = bool(makers)
        self.waiting = _SCHEMA.empty_table()
        self.last = -1
        """The offset of the last row that was folded."""
        self._makers = makers
        self._stored: list[pa.Table] = []
        self._carried: list[pa.Table] = []
        self._fold: Fold | None = None
        self._folds: dict[str, PartitionFold] = {}
        self._carries: dict[str, dict[str, pa.Table]] = {}

    def add(self, batch: pa.RecordBatch) -> Folded:
        """Takes the next rows: stored carry, then stored control state, then new records."""
        if self._fold is None:
            stored = int(np.searchsorted(batch.column("offset").to_numpy(), 0))
            if stored:
                self._stored.append(pa.table(batch.slice(0, stored)))
                batch = batch.slice(stored)
            if not batch.num_rows:
                return
        if not self.is_small:
            yield from self._take(batch)
            return
        rows = pa.table(batch).select(_SCHEMA.names).cast(_SCHEMA)
        self.waiting = pa.concat_tables([self.waiting, rows])
        if self.waiting.num_rows > MAX_ROWS or self.waiting.nbytes > MAX_BYTES:
            yield from self._take_waiting()

    def joint_key(self) -> tuple[object, ...] | None:
        """Small partitions with equal keys can be folded together, if they have no group in common;
        None if this one can't be folded with others."""
        self._unpack()
        rows = self.waiting
        if not rows.num_rows or pc.max(rows["offset"]).as_py() >= MAX_OFFSET:
            return None
        if pc.any(pc.is_in(rows["kind"], value_set=pa.array(kinds.MARKERS))).as_py():
            return None
        keys = [make.joint_key(self.carry(name)) for name, make in self._makers.items()]
        return None if None in keys else tuple(keys)

    def carry(self, name: str) -> Carry:
        """The carry of the fold ``name``."""
        return self._carries.get(name, {})

    def finish(self) -> Folded:
        """The rows of the last chunk, and the state of the partition."""
        yield from self._take_waiting()
        self._unpack()
        fold = self._fold or self._start()
        yield from self._closed(fold.settle())
        carried = fold.carried()
        if carried is None:
            carried = DECODED.empty_table()
        yield _folded({self.partition: self.last}, carried, self._folds)

    def _take_waiting(self) -> Folded:
        batches, self.waiting = self.waiting.to_batches(), _SCHEMA.empty_table()
        self.is_small = False
        for batch in batches:
            if batch.num_rows:
                yield from self._take(batch)

    def _take(self, batch: pa.RecordBatch) -> Folded:
        if self._fold is None:
            self._unpack()
            offsets = batch.column("offset").to_numpy()
            rows = decode(batch)  # carried and new ones at once: each call has a fixed cost
            carried = int(np.searchsorted(offsets, self.last, side="right"))
            if carried and rows["kind"][carried - 1].as_py() == kinds.GAP:
                carried -= 1  # a new gap, directly behind the last record
            if carried:
                self._carried.append(rows.slice(0, carried))
                rows = rows.slice(carried)
            if not rows.num_rows:
                return
            fold = self._start()
        else:
            fold, rows = self._fold, decode(batch)
        self.last = rows["offset"][-1].as_py()
        yield from self._closed(fold.add(rows))

    def _unpack(self) -> None:
        if self._stored and self._makers:
            self._carries = unpack_carry(pa.concat_tables(self._stored))
            position = self._carries.get(_POSITION)
            self.last = position[_POSITION]["offset"][0].as_py() if position else -1
        self._stored = []

    def _start(self) -> Fold:
        carried = pa.concat_tables(self._carried).combine_chunks() if self._carried else None
        self._carried = []
        self._fold = Fold(carried, self.last)
        self._folds = {
            name: make({self.partition: self.carry(name)}) for name, make in self._makers.items()
        }
        return self._fold

    def _closed(self, chunk: ControlChunk | None) -> Iterator[ClosedRows]:
        if chunk is not None:
            yield from _closed_rows(self._folds, chunk)


class _SmallPartitions:
    """Small partitions that wait to be folded together: a fold takes thousands of calls of Arrow
    and NumPy, however few the rows are."""

    def __init__(self, makers: Mapping[str, FoldMaker]) -> None:
        self._makers = makers
        self._waiting: list[_Partition] = []

    def add(self, partition: _Partition) -> Folded:
        """Takes a partition after its last row. One that is not small is folded now."""
        if not partition.is_small:
            yield from partition.finish()
            return
        if self._waiting and partition.partition <= (before := self._waiting[-1].partition):
            raise OutOfOrderError(f"partition {partition.partition} came after partition {before}")
        rows = [each.waiting for each in (*self._waiting, partition)]
        if sum(map(len, rows)) > MAX_ROWS or sum(each.nbytes for each in rows) > MAX_BYTES:
            yield from self.fold()
        self._waiting.append(partition)

    def fold(self) -> Folded:
        """Folds the partitions that wait."""
        by_key: dict[tuple[object, ...] | None, list[_Partition]] = {}
        for partition in self._waiting:
            by_key.setdefault(partition.joint_key(), []).append(partition)
        self._waiting = []
        for key, partitions in by_key.items():
            if key is not None and len(partitions) > 1 and _have_own_groups(partitions):
                yield from self._fold_together(partitions)
            else:
                for partition in partitions:
                    yield from partition.finish()

    def _fold_together(self, partitions: list[_Partition]) -> Folded:
        waiting = pa.concat_tables([each.waiting for each in partitions]).combine_chunks()
        rows = decode(waiting.to_batches()[0])
        sizes = [each.waiting.num_rows for each in partitions]
        offset = rows["offset"].to_numpy()
        _check_order(np.repeat(np.arange(len(sizes)), sizes), offset)
        is_new = offset > np.repeat([each.last for each in partitions], sizes)
        state, new = rows.filter(pa.array(~is_new)), rows.filter(pa.array(is_new))
        table = pa.concat_tables([state, new]).combine_chunks()
        chunk = ControlChunk(table, state.num_rows, [each.partition for each in partitions])
        folds = {
            name: make({each.partition: each.carry(name) for each in partitions})
            for name, make in self._makers.items()
        }
        yield from _closed_rows(folds, chunk)
        carried = table.filter(pa.array(find_live_records(table))).combine_chunks()
        ends = offset[np.cumsum(sizes) - 1].tolist()
        last = {
            each.partition: max(each.last, end) for each, end in zip(partitions, ends, strict=True)
        }
        yield _folded(last, carried, folds)


def _have_own_groups(partitions: list[_Partition]) -> bool:
    """Whether no group is in two partitions. After the number of partitions has grown, one may
    be."""
    rows = pa.concat_tables([each.waiting.select(["partition", "group_id"]) for each in partitions])
    group = factorize(rows["group_id"])
    pair = factorize_pairs(group, rows["partition"].to_numpy().astype(np.int64))
    return bool(group.max() == pair.max())


def _check_order(part: Int64Array, offset: Int64Array) -> None:
    """Raises OutOfOrderError if the offsets of a partition do not ascend."""
    wrong = np.flatnonzero((np.diff(offset) <= 0) & (np.diff(part) == 0))
    if len(wrong):
        at = int(wrong[0])
        raise OutOfOrderError(f"offset {offset[at + 1]} came after offset {offset[at]}")


def _closed_rows(folds: Mapping[str, PartitionFold], chunk: ControlChunk) -> Iterator[ClosedRows]:
    for fold in folds.values():
        if tables := {name: rows for name, rows in fold.add(chunk).items() if rows.num_rows}:
            yield ClosedRows(tables)


def _folded(
    last: Mapping[int, int], carried: pa.Table, folds: Mapping[str, PartitionFold]
) -> FoldedPartitions:
    """The state of the partitions of ``last``, the offsets of their last rows."""
    if not folds:
        return FoldedPartitions(list(last), carried)
    open_rows: dict[str, pa.Table] = {}
    carries: dict[int, dict[str, Carry]] = {
        partition: {_POSITION: {_POSITION: pa.table({"offset": [offset]})}}
        for partition, offset in last.items()
    }
    for name, each in folds.items():
        open_rows |= each.finish(carried)
        for partition, carry in each.carries().items():
            carries[partition][name] = carry
    packed = [pack_carry(parts, _SCHEMA, partition) for partition, parts in carries.items()]
    return FoldedPartitions(list(last), carried, open_rows, pa.concat_tables(packed))
