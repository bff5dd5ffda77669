"""What the command line shows: steps under way, tables, counts. Results go to standard output,
everything else to standard error."""

from __future__ import annotations

import base64
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from typing import Any

import orjson
from rich.console import Console
from rich.markup import escape
from rich.table import Table

out = Console(highlight=False)
err = Console(stderr=True, highlight=False)

Say = Callable[[str], None]


@contextmanager
def steps() -> Iterator[Say]:
    """A function that is told each step: a spinner stands beside the one under way, and a mark
    and its time beside those that are done. Without a terminal, a line a step."""
    started = time.monotonic()
    current: list[str] = []

    def done() -> None:
        if current:
            took = time.monotonic() - started
            err.print(f"  [green]✓[/] {escape(current[0])} [dim]{took:.1f} s[/]")

    with err.status("") as status:

        def say(words: str) -> None:
            nonlocal started
            done()
            started = time.monotonic()
            current[:] = [words]
            if err.is_terminal:
                status.update(f"{escape(words)} …")

        yield say
        done()


def print_json(value: Any) -> None:
    """``value`` as JSON on one line; times as ISO 8601, bytes as base64."""
    out.file.write(
        orjson.dumps(value, default=_plain, option=orjson.OPT_NON_STR_KEYS).decode() + "\n"
    )


def _plain(value: Any) -> Any:
    if isinstance(value, bytes | bytearray):
        return base64.b64encode(value).decode()
    return str(value)


def print_rows(rows: Iterable[Mapping[str, Any]], columns: Sequence[str] | None = None) -> None:
    """A table of ``rows``; their own columns if none are named."""
    rows = list(rows)
    names = list(columns or (rows[0].keys() if rows else ()))
    table = Table(box=None, header_style="bold", pad_edge=False)
    for name in names:
        numeric = any(isinstance(row.get(name), int | float) for row in rows)
        table.add_column(name, justify="right" if numeric else "left", overflow="fold")
    for row in rows:
        table.add_row(*(escape(cell(row.get(name))) for name in names))
    out.print(table)


def cell(value: Any) -> str:
    """A value as a table shows it: ``-`` for null, lists with commas, times to the second."""
    match value:
        case None:
            return "-"
        case bool():
            return "yes" if value else "no"
        case datetime():
            return f"{value:%Y-%m-%d %H:%M:%S}"
        case list() | tuple():
            return ", ".join(cell(item) for item in value) or "-"
        case dict():
            return ", ".join(f"{key}={cell(item)}" for key, item in value.items()) or "-"
        case bytes() | bytearray():
            return value.hex()
    return str(value)
