"""Summarizes offset commits while they are ingested, so that no later step reads all of them.

A *key* is a group, topic and partition (as Kafka's log cleaner sees it). A row of the summary
covers consecutive records of one key on one UTC day whose topic ids don't differ: the counts of
these records, their first and their last record, and where the committed offset went back between
two of them. A tombstone is the last record of its row. Rows of a key have ranges of offsets that do
not overlap, so rows of several tasks and runs can be combined in the order of their offsets. Where
rows begin may depend on batches and tasks; what they say together does not.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import date
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from kip848_spark.wire.array_types import BoolArray, Int64Array
from kip848_spark.wire.columns import list_offsets
from kip848_spark.wire.tables import RECORD_FIELDS, TIMESTAMP

KEY = ("group_id", "topic", "topic_partition")
"""The columns of a key."""
NEWEST = (
    "committed_offset",
    "leader_epoch",
    "metadata",
    "commit_timestamp",
    "expire_timestamp",
    "topic_id",
)
"""The columns of the last record of a row that the table `offsets` has as well."""

REWIND_TYPE = pa.struct(
    {
        "offset": pa.int64(),
        "at": TIMESTAMP,
        "from_committed": pa.int64(),
        "to_committed": pa.int64(),
    }
)
"""A commit that went back: its offset and timestamp, the committed offset before it and its own."""

COMMIT_SUMMARY_FIELDS: dict[str, pa.DataType] = {
    "partition": pa.int32(),
    **{name: RECORD_FIELDS[name] for name in KEY},
    "day": pa.date32(),
    "commits": pa.int64(),
    "tombstones": pa.int64(),
    "bytes": pa.int64(),
    "first_offset": pa.int64(),
    "first_timestamp": TIMESTAMP,
    "first_committed": pa.int64(),
    "offset": pa.int64(),
    "timestamp": TIMESTAMP,
    "tombstone": pa.bool_(),
    **{name: RECORD_FIELDS[name] for name in NEWEST},
    "first_commit_offset": pa.int64(),
    "first_commit_timestamp": TIMESTAMP,
    "last_commit_offset": pa.int64(),
    "last_commit_timestamp": TIMESTAMP,
    "rewinds": pa.list_(REWIND_TYPE),
}
"""The columns of the table `commit_summaries` and their Arrow types.

``first_committed`` is null if the first record of the row is a tombstone; ``offset``,
``timestamp``, ``tombstone`` and `NEWEST` are those of the last record, but ``topic_id`` is that of
all commits: it tells the topic's name. The four columns ``first_commit_…`` and ``last_commit_…``
are those of the first and last record that is no tombstone, and null if there is none. ``rewinds``
is null if there is none."""

COMMIT_FIELDS: dict[str, pa.DataType] = {
    "partition": pa.int32(),
    "offset": pa.int64(),
    "timestamp": TIMESTAMP,
    "tombstone": pa.bool_(),
    **{name: RECORD_FIELDS[name] for name in (*KEY, *NEWEST)},
    "size": pa.int32(),
}
"""The columns of `records` that a summary is made from, and their Arrow types."""

MAX_ROWS = 200_000
"""A summary with more rows is emitted, and a new one begins."""
_MIN_PENDING = 1 << 16
_EPOCH = date(1970, 1, 1).toordinal()
_DAY_US = 86_400_000_000
_DATES = (date.min.toordinal() - _EPOCH, date.max.toordinal() - _EPOCH)
"""The first and the last date, in days since 1970."""
_LAST_COLUMNS = ("partition", *KEY, "offset", "timestamp", "tombstone", *NEWEST)

_Numbers = dict[str, npt.NDArray[Any]]
_SUMS = ("records", "tombstones", "bytes")
_FIRST = ("first_offset", "first_timestamp", "first_committed", "first_is_commit")
_LAST = ("last_committed", "last_is_commit")
_COMMIT = ("commit_offset", "commit_timestamp")
_REWIND = ("offset", "at", "from_committed", "to_committed")
_NOTHING: Int64Array = np.zeros(0, np.int64)
_NO_COMMIT = -1
"""In place of the offset of a commit: there is none."""


@dataclass(frozen=True)
class _Rows:
    """Rows of a summary, n of them, or records, each of which is a row of its own.

    ``numbers`` are integer[n] by name: `_SUMS`, `_FIRST`, `_LAST`, and `_COMMIT` with the prefixes
    ``first_`` and ``last_``; ``records`` is left out where it is 1. ``last`` has the columns
    `_LAST_COLUMNS` of each row's last record, but ``topic_id`` of its last commit. ``rewinds`` are
    int64[m] by the names `_REWIND`; ``rewind_row`` (int64[m]) is the row of each."""

    numbers: _Numbers
    last: dict[str, pa.Array]
    rewinds: _Numbers
    rewind_row: Int64Array

    @property
    def count(self) -> int:
        return len(self.last["offset"])


class CommitSummary:
    """Summarizes the commits of one task, batch after batch.

    The records of a partition come in offset order, and none of its offsets in between may come
    in another task. The memory grows with the number of keys and is bounded by `MAX_ROWS`: beyond
    that, ``emit`` gets the rows so far.
    """

    def __init__(
        self, emit: Callable[[dict[str, pa.Array]], None], max_rows: int = MAX_ROWS
    ) -> None:
        """``emit`` gets the columns `COMMIT_SUMMARY_FIELDS` of the summary's rows."""
        self._emit = emit
        self._max_rows = max_rows
        self._parts: list[_Rows] = []
        self._merged = self._pending = 0

    def add(
        self,
        columns: Mapping[str, pa.Array],
        rows: Int64Array | None = None,
        key: npt.NDArray[np.integer] | None = None,
    ) -> None:
        """Adds records that were decoded as commits, or as their tombstones: the ``rows``
        (int64[m], ascending; None for all) of ``columns``, which have the columns `COMMIT_FIELDS`.

        ``key`` (int[m]), if it is given, numbers the distinct keys of these records, from 0 on."""
        rows = np.arange(len(columns["offset"])) if rows is None else rows
        if not len(rows):
            return
        if key is None:
            taken = pa.array(rows)
            key = _number_keys({name: columns[name].take(taken) for name in ("partition", *KEY)})
        elif len(pc.unique(columns["partition"])) > 1:
            key = _number_pairs(_integers(columns["partition"])[rows], key)
        self._parts.append(_condense(_of_records(columns), rows, key))
        self._pending += self._parts[-1].count
        if self._pending > min(max(_MIN_PENDING, self._merged), self._max_rows):
            self._merge()
            if self._merged > self._max_rows:
                self._flush()

    def finish(self) -> None:
        """Emits the remaining rows."""
        self._merge()
        self._flush()

    def _merge(self) -> None:
        if len(self._parts) > 1:
            joined = _concatenate(self._parts)
            key = _number_keys({name: joined.last[name] for name in ("partition", *KEY)})
            self._parts = [_condense(joined, np.arange(joined.count), key)]
        self._merged, self._pending = sum(part.count for part in self._parts), 0

    def _flush(self) -> None:
        for part in self._parts:
            self._emit(_summary_columns(part))
        self._parts, self._merged = [], 0


def _of_records(columns: Mapping[str, pa.Array]) -> _Rows:
    offset, timestamp = _integers(columns["offset"]), _integers(columns["timestamp"])
    committed = _integers(columns["committed_offset"])
    tombstone = np.asarray(columns["tombstone"].to_numpy(zero_copy_only=False), bool)
    is_commit = (~tombstone).view(np.int8)
    with_commit = np.where(tombstone, _NO_COMMIT, offset) if tombstone.any() else offset
    numbers: _Numbers = {
        "tombstones": tombstone.view(np.int8),
        "bytes": _integers(columns["size"]),
        "first_offset": offset,
        "first_timestamp": timestamp,
        "first_committed": committed,
        "first_is_commit": is_commit,
        "last_committed": committed,
        "last_is_commit": is_commit,
        "first_commit_offset": with_commit,
        "first_commit_timestamp": timestamp,
        "last_commit_offset": with_commit,
        "last_commit_timestamp": timestamp,
    }
    last = {name: columns[name] for name in _LAST_COLUMNS}
    return _Rows(numbers, last, dict.fromkeys(_REWIND, _NOTHING), _NOTHING)


def _condense(before: _Rows, rows: Int64Array, key: npt.NDArray[np.integer]) -> _Rows:
    """Combines neighbouring ``rows`` of a key and topic id on the same day, and finds the rewinds
    between them. A rewind between two rows that are not combined is found when all rows are read.

    The rows of a key are in offset order; ``key`` (int[len(rows)]) numbers the keys."""
    numbers = before.numbers
    small = key.astype(np.uint16) if key.max() < 1 << 16 else key  # NumPy sorts it by radix
    by_key = np.argsort(small, kind="stable")
    order, key = rows[by_key], small[by_key]
    joined = key[1:] == key[:-1]
    if not (is_commit := numbers["last_is_commit"] != 0).all():
        joined &= is_commit[order[:-1]]
    times = numbers["first_timestamp"]
    if times.min() // _DAY_US != times.max() // _DAY_US:
        day = _days(times[order])
        joined &= day[1:] == day[:-1]
    joined &= ~_other_topic(before, order)
    start = np.concatenate([[0], np.flatnonzero(~joined) + 1])
    end = np.append(start[1:], len(order)) - 1
    first, last = order[start], order[end]
    found = {name: _sum(numbers.get(name), order, start) for name in _SUMS}
    found |= {name: numbers[name][first] for name in _FIRST}
    found |= {name: numbers[name][last] for name in _LAST}
    first_commit, last_commit = _first_and_last_commits(numbers, order, start, end)
    for name in _COMMIT:
        found[f"first_{name}"] = numbers[f"first_{name}"][first_commit]
        found[f"last_{name}"] = numbers[f"last_{name}"][last_commit]
    at = pa.array(last)
    rewinds, rewind_row = _find_rewinds(before, order, joined, start)
    taken = {name: column.take(at) for name, column in before.last.items()}
    if not np.array_equal(last_commit, last):
        taken["topic_id"] = before.last["topic_id"].take(pa.array(last_commit))
    return _Rows(found, taken, rewinds, rewind_row)


def _other_topic(before: _Rows, order: Int64Array) -> BoolArray:
    """bool[n - 1]: after each of the n rows in ``order`` except the last: whether the next one has
    commits of another topic id. When a topic was deleted and created again, only the old commits
    tell the name of the old id."""
    ids = pc.dictionary_encode(before.last["topic_id"], null_encoding="encode")
    if len(ids.dictionary) < 2:
        return np.zeros(max(len(order) - 1, 0), bool)
    code = np.asarray(ids.indices)[order]
    is_commit = before.numbers["first_is_commit"][order] != 0
    found: BoolArray = is_commit[1:] & (code[1:] != code[:-1])
    return found


def _sum(numbers: Int64Array | None, order: Int64Array, start: Int64Array) -> Int64Array:
    """The sum of ``numbers`` (1 each if None) in ``order`` from each ``start`` to the next one."""
    if numbers is None:
        return np.diff(start, append=len(order))
    if numbers.dtype == np.int8 and not numbers.any():
        return np.zeros(len(start), np.int64)
    return np.add.reduceat(numbers[order], start, dtype=np.int64)


def _first_and_last_commits(
    numbers: _Numbers, order: Int64Array, start: Int64Array, end: Int64Array
) -> tuple[Int64Array, Int64Array]:
    """The rows with the first and the last commit of each combined row."""
    present = numbers["last_commit_offset"] != _NO_COMMIT
    if not present.all():
        present, place = present[order], np.arange(len(order))
        low = np.minimum.reduceat(np.where(present, place, len(order)), start)
        high = np.maximum.reduceat(np.where(present, place, -1), start)
        # Without a commit, any record of the row will do: each of them has `_NO_COMMIT`.
        start, end = np.where(high < 0, start, low), np.where(high < 0, start, high)
    return order[start], order[end]


def _find_rewinds(
    before: _Rows, order: Int64Array, joined: BoolArray, start: Int64Array
) -> tuple[_Numbers, Int64Array]:
    """The rewinds of the rows that are combined and those between them, and the new row of each. A
    row that begins with a lower commit than that at the end of the row before it is a rewind,
    unless one of them is a tombstone."""
    numbers = before.numbers
    left, right = numbers["last_committed"][order], numbers["first_committed"]
    right = left if right is numbers["last_committed"] else right[order]
    place = np.flatnonzero((right[1:] < left[:-1]) & joined) + 1
    both = numbers["last_is_commit"][order[place - 1]] & numbers["first_is_commit"][order[place]]
    place = place[both != 0]
    here, row = order[place], np.searchsorted(start, place, side="right") - 1
    found = {
        "offset": numbers["first_offset"][here],
        "at": numbers["first_timestamp"][here],
        "from_committed": left[place - 1],
        "to_committed": numbers["first_committed"][here],
    }
    if not len(before.rewind_row):
        return found, row
    position = np.empty(before.count, np.int64)
    position[order] = np.arange(len(order))
    old = np.searchsorted(start, position[before.rewind_row], side="right") - 1
    found = {name: np.concatenate([before.rewinds[name], found[name]]) for name in _REWIND}
    return found, np.concatenate([old, row])


def _concatenate(parts: list[_Rows]) -> _Rows:
    base = np.cumsum([0, *(part.count for part in parts[:-1])])
    return _Rows(
        _joined([part.numbers for part in parts]),
        {name: pa.concat_arrays([part.last[name] for part in parts]) for name in _LAST_COLUMNS},
        _joined([part.rewinds for part in parts]),
        np.concatenate([part.rewind_row + at for part, at in zip(parts, base, strict=True)]),
    )


def _joined(parts: list[_Numbers]) -> _Numbers:
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}


def _summary_columns(part: _Rows) -> dict[str, pa.Array]:
    numbers = part.numbers
    no_commit = numbers["last_commit_offset"] == _NO_COMMIT
    found = {name: pa.array(numbers[name]) for name in ("tombstones", "bytes", "first_offset")}
    found["commits"] = pa.array(numbers["records"] - numbers["tombstones"])
    days = _days(numbers["first_timestamp"])
    found["day"] = pa.array(days.astype(np.int32)).view(pa.date32())
    found["first_timestamp"] = pa.array(numbers["first_timestamp"]).view(TIMESTAMP)
    found["first_committed"] = pa.array(
        numbers["first_committed"], mask=numbers["first_is_commit"] == 0
    )
    for side in ("first", "last"):
        found[f"{side}_commit_offset"] = pa.array(numbers[f"{side}_commit_offset"], mask=no_commit)
        times = pa.array(numbers[f"{side}_commit_timestamp"], mask=no_commit)
        found[f"{side}_commit_timestamp"] = times.view(TIMESTAMP)
    found["rewinds"] = _rewind_lists(part)
    found |= part.last
    return {name: found[name] for name in COMMIT_SUMMARY_FIELDS}


def _days(timestamps: Int64Array) -> Int64Array:
    """The days since 1970 of times in microseconds; times outside the years 1 to 9999, which have
    no date, count as the first or last day."""
    days: Int64Array = np.clip(timestamps // _DAY_US, *_DATES)
    return days


def _rewind_lists(part: _Rows) -> pa.Array:
    """list[n] of the rewinds of each row in offset order; null where there is none."""
    order = np.lexsort((part.rewinds["offset"], part.rewind_row))
    counts = np.bincount(part.rewind_row, minlength=part.count)
    values = [pa.array(part.rewinds[field.name][order]).cast(field.type) for field in REWIND_TYPE]
    return pa.ListArray.from_arrays(
        list_offsets(counts),
        pa.StructArray.from_arrays(values, fields=list(REWIND_TYPE)),
        type=COMMIT_SUMMARY_FIELDS["rewinds"],
        mask=pa.array(counts == 0),
    )


def _number_keys(columns: Mapping[str, pa.Array]) -> Int64Array:
    """int64[n]: the number of each distinct partition and key."""
    code = _factorize(columns["group_id"])
    for name in ("topic", "topic_partition", "partition"):
        code = _number_pairs(code, _factorize(columns[name]))
    return code


def _number_pairs(left: npt.NDArray[np.integer], right: npt.NDArray[np.integer]) -> Int64Array:
    pairs = left.astype(np.int64) * (int(right.max()) + 1) + right
    return _factorize(pa.array(pairs))


def _factorize(column: pa.Array) -> Int64Array:
    encoded = pc.dictionary_encode(column, null_encoding="encode")
    return np.asarray(encoded.indices.to_numpy(zero_copy_only=False), np.int64)


def _integers(column: pa.Array) -> Int64Array:
    """The values of a column of integers or timestamps as integers; 0 for null."""
    if pa.types.is_timestamp(column.type):
        column = column.view(pa.int64())
    return np.asarray((column.fill_null(0) if column.null_count else column).to_numpy())
