"""Arrow tables as the report holds them: columns of plain values, and dictionaries of texts.

A `ReportTable` is ``{"length": n, "columns": {name: values}, "dictionaries": {name: entries}}``. A
column that has a dictionary holds indices into it. docs/report.md lists the tables."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

ReportTable = dict[str, Any]
"""``length``, ``columns`` and ``dictionaries``: see the head of this module."""
_SEPARATOR = "\0\n"
"""Between the elements of a list while it is encoded as a text."""


def report_table(
    table: pa.Table, encoded: Iterable[str] = (), columns: Sequence[str] | None = None
) -> ReportTable:
    """``table`` for the report, with these ``columns`` (all if None). Columns in ``encoded`` get a
    dictionary: texts, or lists of texts. Times become milliseconds, flags 0 and 1."""
    wanted = set(encoded)
    found: dict[str, list[Any]] = {}
    dictionaries: dict[str, list[Any]] = {}
    for name in columns or table.column_names:
        column = table[name]
        if name in wanted:
            found[name], dictionaries[name] = encode(column)
        else:
            found[name] = values(column)
    return {"length": table.num_rows, "columns": found, "dictionaries": dictionaries}


def rows_table(
    rows: Sequence[Mapping[str, Any]],
    fields: Mapping[str, pa.DataType],
    encoded: Iterable[str] = (),
) -> ReportTable:
    """Few plain rows for the report: the columns ``fields``; see `report_table`."""
    arrays = {
        name: pa.array([row.get(name) for row in rows], type_) for name, type_ in fields.items()
    }
    return report_table(pa.table(arrays), encoded)


def plain_table(length: int, columns: dict[str, list[Any]], **dictionaries: Any) -> ReportTable:
    """A table of plain columns that are ready."""
    return {"length": length, "columns": columns, "dictionaries": dictionaries}


def values(column: pa.ChunkedArray | pa.Array) -> list[Any]:
    """A column as plain values: times in milliseconds, flags as 0 and 1, null as None."""
    array = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    type_ = array.type
    if pa.types.is_timestamp(type_):
        array = milliseconds(array)
    elif pa.types.is_date(type_):
        array = pc.multiply(array.cast(pa.int32()).cast(pa.int64()), 86_400_000)
    elif pa.types.is_boolean(type_):
        array = array.cast(pa.int8())
    elif not (pa.types.is_integer(type_) or pa.types.is_floating(type_)):
        return list(array.to_pylist())
    if not array.null_count:
        return list(array.to_numpy(zero_copy_only=False).tolist())
    plain = array.fill_null(0).to_numpy(zero_copy_only=False).astype(object)
    plain[array.is_null().to_numpy(zero_copy_only=False)] = None
    return list(plain.tolist())


def milliseconds(times: pa.Array | pa.ChunkedArray) -> pa.Array:
    """int64: the milliseconds since 1970 of timestamps in microseconds."""
    array = times.combine_chunks() if isinstance(times, pa.ChunkedArray) else times
    ticks = array.cast(pa.timestamp("us", "UTC")).cast(pa.int64())
    # Division truncates towards zero; times before 1970 do not need to be exact.
    return pc.divide(ticks, 1000)


def encode(column: pa.ChunkedArray | pa.Array) -> tuple[list[Any], list[Any]]:
    """The indices and the dictionary of a column of texts, or of lists of texts."""
    array = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    if pa.types.is_list(array.type):
        return _encode_lists(array)
    if pa.types.is_null(array.type):
        return [None] * len(array), []
    coded = array.dictionary_encode()
    return values(coded.indices), coded.dictionary.to_pylist()


def _encode_lists(array: pa.ListArray) -> tuple[list[Any], list[Any]]:
    flat = pc.list_flatten(array)
    if pc.any(pc.match_substring(flat, _SEPARATOR)).as_py():  # a name made to deceive
        numbers: dict[tuple[str, ...], int] = {}
        indices = [
            None if one is None else numbers.setdefault(tuple(one), len(numbers))
            for one in array.to_pylist()
        ]
        return indices, [list(entry) for entry in numbers]
    # The number of elements tells no element from one that is empty.
    joined = pc.binary_join_element_wise(
        pc.list_value_length(array).cast(pa.string()), pc.binary_join(array, _SEPARATOR), _SEPARATOR
    )
    indices, entries = encode(joined)
    split = (entry.split(_SEPARATOR) for entry in entries)
    return indices, [names if count != "0" else [] for count, *names in split]


class Names:
    """Gives numbers to texts, in the order in which they come: a dictionary that is being made."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}

    def number(self, name: str) -> int:
        """The number of ``name``."""
        return self._numbers.setdefault(name, len(self._numbers))

    @property
    def entries(self) -> list[str]:
        """The texts by number."""
        return list(self._numbers)


class GroupNumbers:
    """The row numbers of groups in the report's table `groups`, by group id. The last ``deleted``
    of them no longer exist."""

    def __init__(self, group_ids: pa.Array, deleted: int = 0) -> None:
        self.group_ids = group_ids
        self.deleted = deleted

    def column(self, group_ids: pa.ChunkedArray | pa.Array) -> pa.Array:
        """int32: the row number of each group; null for a group that the report lacks."""
        array = group_ids.combine_chunks() if isinstance(group_ids, pa.ChunkedArray) else group_ids
        return pc.index_in(array.cast(pa.string()), value_set=self.group_ids)

    def replace(self, table: pa.Table, name: str = "group_id") -> pa.Table:
        """``table`` with the column `group`, row numbers, in place of the column ``name``."""
        place = table.column_names.index(name)
        return table.set_column(place, "group", self.column(table[name]))

    def aligned(
        self, rows: pa.Table, columns: Sequence[str], fill: Mapping[str, Any] | None = None
    ) -> dict[str, pa.Array]:
        """``columns`` of ``rows`` (at most one row a group, with `group_id`) in the order of the
        groups; groups without a row get ``fill``, or null."""
        ids = rows["group_id"].combine_chunks()
        at = pc.index_in(self.group_ids, value_set=ids)
        found = {}
        for name in columns:
            array = rows[name].combine_chunks().take(at)
            if fill and name in fill:
                array = array.fill_null(fill[name])
            found[name] = array
        return found


class LeftOut:
    """Collects sentences about what the report leaves out because of its size."""

    def __init__(self) -> None:
        self.sentences: list[str] = []

    def cut(self, table: pa.Table, most: int, sentence: Callable[[int, int], str]) -> pa.Table:
        """The first ``most`` rows of ``table``. If there are more, ``sentence`` gets the number of
        rows that are shown and of all rows."""
        if table.num_rows > most:
            self.sentences.append(sentence(most, table.num_rows))
        return table.slice(0, most)

    def cut_rows(
        self, rows: Sequence[Any], most: int, sentence: Callable[[int, int], str]
    ) -> Sequence[Any]:
        """As `cut`, for plain rows."""
        if len(rows) > most:
            self.sentences.append(sentence(most, len(rows)))
        return rows[:most]

    def add(self, sentence: str) -> None:
        """Adds a sentence."""
        self.sentences.append(sentence)


def group_rows(group: pa.Array) -> tuple[list[int], list[tuple[int, int]]]:
    """The distinct values of ``group`` (int, sorted, no nulls), and the first and the last row + 1
    of each."""
    numbers = group.to_numpy(zero_copy_only=False)
    if not len(numbers):
        return [], []
    starts = np.flatnonzero(np.concatenate([[True], numbers[1:] != numbers[:-1]]))
    ends = np.concatenate([starts[1:], [len(numbers)]])
    return numbers[starts].tolist(), list(zip(starts.tolist(), ends.tolist(), strict=True))
