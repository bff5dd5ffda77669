"""Writes the result of a query: as a table, CSV, JSON or Parquet."""

from __future__ import annotations

import base64
import csv
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import date, datetime
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kip848_spark.cli.display import json_text, out, print_rows, say
from kip848_spark.errors import UsageError
from kip848_spark.insight.phrases import count
from kip848_spark.runtime.replacing import replacing

if TYPE_CHECKING:
    from kip848_spark.lake.sql.engine import Result

MOST_ROWS = 1000
"""The largest number of rows in a table on the terminal. The other formats have no limit."""


class Format(StrEnum):
    """The form of a result."""

    TABLE = "table"
    CSV = "csv"
    JSON = "json"
    PARQUET = "parquet"


def chosen_format(format_: Format | None, json_option: bool, out_file: Path | None) -> Format:
    """The form that the options ask for. Raises UsageError if they contradict each other."""
    if json_option and format_ not in (None, Format.JSON):
        raise UsageError(f"--json and --format {format_} contradict each other.", "Give one.")
    if json_option:
        format_ = Format.JSON
    if format_ is None and out_file is not None:
        suffix = out_file.suffix.removeprefix(".").lower()
        if suffix not in (Format.CSV, Format.JSON, Format.PARQUET):
            raise UsageError(
                f"The name {out_file} does not say which format the file should have.",
                "Add --format csv, json or parquet.",
            )
        format_ = Format(suffix)
    if format_ is Format.PARQUET and out_file is None:
        raise UsageError("Parquet is not written to the terminal.", "Add --out FILE.")
    if format_ is Format.TABLE and out_file is not None:
        raise UsageError("A table is only for the terminal.", "Add --format csv, json or parquet.")
    return format_ or Format.TABLE


def write(result: Result, format_: Format, out_file: Path | None) -> None:
    """Writes ``result`` to ``out_file``, or to standard output. A file appears once it is complete.
    Raises UsageError if the file can't be written."""
    if format_ is Format.TABLE:
        _print_table(result)
    elif out_file is None:
        _write_text(result, format_, out.file, escape=sys.stdout.isatty())
    else:
        with _new_file(out_file) as path:
            if format_ is Format.PARQUET:
                rows = _write_parquet(result, path)
            else:
                with path.open("w", encoding="utf-8", newline="") as file:
                    rows = _write_text(result, format_, file)
        say(f"{rows:,} rows are in {out_file}.", style="dim")


def _print_table(result: Result) -> None:
    rows: list[dict[str, Any]] = []
    for batch in _rows(result):
        rows += batch
    more = len(rows) > MOST_ROWS
    print_rows(rows[:MOST_ROWS], list(dict.fromkeys(result.schema.names)))
    shown = f"the first {MOST_ROWS:,} rows" if more else count(len(rows), "row")
    say(shown, style="dim", wrap=True)


def _write_text(result: Result, format_: Format, file: Any, escape: bool = False) -> int:
    """Writes the rows as CSV or JSON, and gives their number. With ``escape``, control characters
    are written as in Python: CSV has no way to escape them, and a terminal obeys them."""
    count = 0
    if format_ is Format.CSV:
        writer = csv.writer(file, lineterminator="\r\n")
        names = result.schema.names
        writer.writerow([_csv_value(name, escape) for name in names])
        for rows in _rows(result):
            writer.writerows([_csv_value(row[n], escape) for n in names] for row in rows)
            count += len(rows)
    else:
        file.write("[")
        for rows in _rows(result):
            text = json_text(rows)[1:-1]
            file.write(f",{text}" if count and rows else text)
            count += len(rows)
        file.write("]\n")
    file.flush()
    return count


def _rows(result: Result) -> Iterator[list[dict[str, Any]]]:
    for batch in result.batches:
        yield batch.to_pylist(maps_as_pydicts="strict")


def _csv_value(value: Any, escape: bool) -> str | int | float | None:
    match value:
        case bool():
            return str(value).lower()
        case None | int() | float():
            return value
        case datetime() | date():
            return value.isoformat()
        case bytes():
            return base64.b64encode(value).decode()
        case str():
            text = value
        case _:
            text = json_text(value)
    return _without_control(text) if escape else text


def _without_control(text: str) -> str:
    return "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)


def _write_parquet(result: Result, path: Path) -> int:
    import pyarrow.parquet as pq

    count = 0
    with pq.ParquetWriter(path, result.schema) as writer:
        for batch in result.batches:
            writer.write_batch(batch)
            count += batch.num_rows
    return count


@contextmanager
def _new_file(path: Path) -> Iterator[Path]:
    """As `replacing`. Raises UsageError."""
    try:
        with replacing(path) as new:
            yield new
    except OSError as cause:
        raise UsageError(f"{path} can't be written: {cause.strerror or cause}.") from None
