"""Rows as CSV for spreadsheets.

Group ids and client ids are what any client of the cluster chose. A cell that a spreadsheet would
take for a formula gets an apostrophe in front, and control characters are written as in Python."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from kip848_spark.cli.display import cell

_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n", "\uff1d", "\uff0b", "\uff0d", "\uff20")
"""The first characters of a formula, also as full-width characters."""


def csv_text(rows: Iterable[Mapping[str, Any]], columns: Sequence[str]) -> str:
    """The header and the rows, lines ended by CR LF. Null is an empty cell, a list has spaces
    between its elements."""
    out = io.StringIO()
    writer = csv.writer(out, quoting=csv.QUOTE_ALL)
    writer.writerow(columns)
    for row in rows:
        writer.writerow([_safe(row.get(name)) for name in columns])
    return out.getvalue()


def _safe(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, int | float) and not isinstance(value, bool):
        return str(value)
    if isinstance(value, list | tuple):
        text = " ".join(cell(item) for item in value)
    elif isinstance(value, dict):
        text = "; ".join(f"{name}: {cell(item)}" for name, item in value.items())
    else:
        text = cell(value)
    formula = text.lstrip(" ").startswith(_FORMULA)
    shown = "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)
    return f"'{shown}" if formula else shown
