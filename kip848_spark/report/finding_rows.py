"""The report's table `findings`: what the audits of a lake found."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kip848_spark.insight.severities import SEVERITIES
from kip848_spark.lake.snapshot import LakeSnapshot
from kip848_spark.report.columns import (
    GroupNumbers,
    LeftOut,
    ReportTable,
    encode,
    values,
)
from kip848_spark.report.reading import read_table

MOST_FINDINGS = 2_000
_WORST_FIRST = pa.array(list(reversed(SEVERITIES)))
_COLUMNS = [
    "run_id", "finding_id", "caused_by", "check", "severity", "group_id", "member_id", "partition",
    "offset", "timestamp", "expected", "recorded", "explanation",
]  # fmt: skip


def read_distinct_findings(snapshot: LakeSnapshot) -> pa.Table:
    """The findings of all audits, each once: as the last run that found it wrote it. Findings that
    follow from none (`root` is null) come first, then the most severe, then by their place. The
    column ``root`` is the row number of the finding from which a row follows."""
    found = read_table(snapshot, "findings", _COLUMNS)
    order = [("run_id", "descending"), ("partition", "ascending"), ("offset", "ascending")]
    found = found.sort_by([*order, ("group_id", "ascending"), ("check", "ascending")])
    found = found.take(pa.array(_first_of_each(found["finding_id"].combine_chunks())))
    root = pc.index_in(found["caused_by"].combine_chunks(), found["finding_id"].combine_chunks())
    root = pc.if_else(found["caused_by"].is_null(), pa.scalar(None, pa.int32()), root)
    root = root.combine_chunks() if isinstance(root, pa.ChunkedArray) else root
    rank = pc.index_in(found["severity"], value_set=_WORST_FIRST).to_numpy()
    follows = root.is_valid().to_numpy(zero_copy_only=False)
    at = np.lexsort((np.arange(found.num_rows), rank, follows))
    position = np.empty(found.num_rows, np.int64)
    position[at] = np.arange(found.num_rows)
    moved = pa.array(position).take(root).take(pa.array(at))
    return found.take(pa.array(at)).append_column("root", moved)


def _first_of_each(ids: pa.Array) -> np.ndarray[Any, np.dtype[np.int64]]:
    """int64: the rows with the first occurrence of each id, and all rows without an id."""
    coded = ids.dictionary_encode().indices
    known = coded.is_valid().to_numpy(zero_copy_only=False)
    rows = np.flatnonzero(known)
    first = np.unique(coded.drop_null().to_numpy(), return_index=True)[1]
    return np.sort(np.concatenate([rows[first], np.flatnonzero(~known)]))


def findings_table(found: pa.Table, numbers: GroupNumbers, left_out: LeftOut) -> ReportTable:
    """The table `findings` (docs/report.md)."""
    followers = Counter(root for root in found["root"].to_pylist() if root is not None)
    shown = left_out.cut(
        found,
        MOST_FINDINGS,
        lambda most, all_: (
            f"Findings: {most:,} of {all_:,} are listed, those that follow from no other one and "
            "the most severe ones first. `kip848 findings --run all` lists all."
        ),
    )
    columns: dict[str, list[Any]] = {
        "id": values(shown["finding_id"]),
        "root": [
            None if root is None or root >= shown.num_rows else root
            for root in shown["root"].to_pylist()
        ],
        "followers": [followers.get(row, 0) for row in range(shown.num_rows)],
    }
    dictionaries: dict[str, list[Any]] = {}
    for name in ("check", "severity"):
        columns[name], dictionaries[name] = encode(shown[name])
    columns["group"] = values(numbers.column(shown["group_id"]))
    columns["member"] = values(shown["member_id"])
    for name in ("partition", "offset"):
        columns[name] = values(shown[name])
    columns["at"] = values(shown["timestamp"])
    columns["run_id"], dictionaries["run_id"] = encode(shown["run_id"])
    texts = [
        _lines(*texts)
        for texts in zip(
            *(shown[name].to_pylist() for name in ("explanation", "expected", "recorded")),
            strict=True,
        )
    ]
    columns["title"] = [lines[0] for lines in texts]
    columns["lines"] = [lines[1:] for lines in texts]
    return {"length": shown.num_rows, "columns": columns, "dictionaries": dictionaries}


def _lines(explanation: str | None, expected: str | None, recorded: str | None) -> list[str]:
    """The lines of a finding's text. That of an earlier version of this program is one line, and
    the values are shown as they are stored."""
    lines = str(explanation).split("\n")
    if len(lines) == 1:
        lines += [f"Expected: {expected}", f"Recorded: {recorded}"]
    return lines


def findings_of_groups(found: pa.Table, numbers: GroupNumbers) -> dict[str, pa.Array]:
    """``findings`` and ``severity`` in the order of the groups: how many findings a group has, and
    its worst one."""
    rank = pc.index_in(found["severity"], value_set=_WORST_FIRST)
    rows = found.select(["group_id"]).append_column("rank", rank)
    sums = rows.group_by("group_id").aggregate([([], "count_all"), ("rank", "min")])
    aligned = numbers.aligned(sums, ["count_all", "rank_min"], {"count_all": 0})
    return {
        "findings": aligned["count_all"],
        "severity": _WORST_FIRST.take(aligned["rank_min"]),
    }
