"""Delta's statistics of a data file: the number of rows, and the bounds of each column.

Readers skip a file if its bounds exclude the values they look for, so a wrong bound loses rows. If
a column has a lower bound and no upper bound, Spark assumes that there is no upper limit, and
delta-rs assumes that no value is larger. A column therefore has both bounds or neither.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import UTC, date, datetime, timedelta
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import DeltaTable
from deltalake.transaction import AddAction

MAX_TEXT_LENGTH = 32
"""The number of characters in a text bound, the same as in Spark's statistics."""
_LAST_CODE_POINT = 0x10FFFF
_SURROGATES = range(0xD800, 0xE000)


def file_statistics(footer: pq.FileMetaData, names: Sequence[str]) -> str:
    """Delta's statistics (JSON text) of the columns ``names``, from the footer of a Parquet
    file. A column that the file lacks has none, nor has one with times that Python can't show."""
    groups = [footer.row_group(number) for number in range(footer.num_row_groups)]
    place = {groups[0].column(n).path_in_schema: n for n in range(groups[0].num_columns)}
    least: dict[str, Any] = {}
    greatest: dict[str, Any] = {}
    nulls: dict[str, int] = {}
    for name in filter(place.__contains__, names):
        found = [group.column(place[name]).statistics for group in groups]
        nulls[name] = sum(one.null_count for one in found)
        filled = [one for one in found if one.num_values]
        if not filled or not all(one.has_min_max for one in filled):
            continue
        try:
            low, high = _bounds(min(one.min for one in filled), max(one.max for one in filled))
        except OverflowError:  # a time that Python can't show, or whose upper bound it can't
            continue
        if low is not None and high is not None:
            least[name], greatest[name] = low, high
    return json.dumps(
        {
            "numRecords": footer.num_rows,
            "minValues": least,
            "maxValues": greatest,
            "nullCount": nulls,
        }
    )


def _bounds(low: Any, high: Any) -> tuple[Any, Any]:
    """Both bounds in the form and length of Delta's statistics; None for no bound."""
    match low:
        case bool() | bytes():
            return None, None
        case datetime():  # in milliseconds: the lower bound is rounded down, the upper one up
            if high.microsecond % 1000:
                high += timedelta(milliseconds=1)
            return _time(low), _time(high)
        case date():
            return low.isoformat(), high.isoformat()
        case str():
            return low[:MAX_TEXT_LENGTH], upper_bound(high)
    return low, high


def _time(value: datetime) -> str:
    return value.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def upper_bound(text: str) -> str | None:
    """``text``, or if it is too long a shorter text that sorts after it (by code points, which is
    also the order of UTF-8 bytes).

    None if there is no such text: all characters up to the limit are the last code point.
    """
    if len(text) <= MAX_TEXT_LENGTH:
        return text
    for length in range(MAX_TEXT_LENGTH, 0, -1):
        code = ord(text[length - 1])
        if code < _LAST_CODE_POINT:
            after = _SURROGATES.stop if code + 1 in _SURROGATES else code + 1
            return text[: length - 1] + chr(after)
    return None


def statistics_corrections(table: DeltaTable, names: Sequence[str]) -> list[AddAction]:
    """Delta actions after which every file of ``table`` has both bounds of a column or neither.

    Earlier versions of this program left out the upper bound of a long text. Each action names a
    file of the table and changes its statistics, not its data.
    """
    files = pa.table(table.get_add_actions(flatten=True))
    wrong = np.zeros(files.num_rows, bool)
    for name in names:
        low, high = (_lacks_bound(files, f"{side}.{name}") for side in ("min", "max"))
        wrong |= low != high
    filesystem = table.to_pyarrow_dataset().filesystem if wrong.any() else None
    actions = []
    for row in files.filter(pa.array(wrong)).to_pylist():
        footer = pq.read_metadata(row["path"], filesystem=filesystem)
        stats = file_statistics(footer, names)
        modified_ms = row["modification_time"]
        actions.append(AddAction(row["path"], row["size_bytes"], {}, modified_ms, False, stats))
    return actions


def _lacks_bound(files: pa.Table, column: str) -> npt.NDArray[np.bool_]:
    """A mask of the files without this bound."""
    if column not in files.column_names:
        return np.ones(files.num_rows, bool)
    return np.asarray(files[column].is_null())
