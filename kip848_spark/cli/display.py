"""What the command line shows: steps under way, tables, counts. Results go to standard output,
everything else to standard error."""

from __future__ import annotations

import base64
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from typing import Any

import orjson
from rich.console import Console
from rich.markup import escape  # noqa: TID251
from rich.status import Status
from rich.table import Table

PIPED_WIDTH = 240
"""Columns of a table that goes to a file or a pipe; a terminal says its own."""

out = Console(highlight=False, width=None if sys.stdout.isatty() else PIPED_WIDTH)
err = Console(stderr=True, highlight=False)

Say = Callable[[str], None]


class Steps:
    """Shows steps under way: called with each one as it begins, from any thread."""

    def __init__(self, status: Status) -> None:
        self._status = status
        self._lock = threading.Lock()
        self._current: str | None = None
        self._started = time.monotonic()

    def __call__(self, words: str) -> None:
        """A new step begins: the one before is done."""
        with self._lock:
            self._finish()
            self._current, self._started = words, time.monotonic()
        self.within(words)

    def within(self, words: str) -> None:
        """What the step is at right now."""
        if err.is_terminal:
            self._status.update(f"{printable(words)} …")

    def done(self, words: str) -> None:
        """A part of the step is done."""
        with self._lock:
            err.print(f"    [green]✓[/] {printable(words)}", soft_wrap=True)

    def end(self) -> None:
        """The last step is done."""
        with self._lock:
            self._finish()

    def _finish(self) -> None:
        if self._current is not None:
            took = time.monotonic() - self._started
            err.print(
                f"  [green]✓[/] {printable(self._current)} [dim]{took:.1f} s[/]", soft_wrap=True
            )
        self._current = None


@contextmanager
def steps() -> Iterator[Steps]:
    """A display of steps: a spinner beside the one under way, a mark and its time beside those
    that are done. Without a terminal, a line a step."""
    with err.status("") as status:
        shown = Steps(status)
        yield shown
        shown.end()


def printable(text: str, *, lines: bool = False) -> str:
    """``text`` as it may go to a terminal, for `Console.print`: markup has no meaning in it, and
    what does not print (control characters, line ends, bidirectional overrides) is written as in
    Python, such as ``\\x00``. With ``lines``, line ends and tabs stay.

    Names and metadata are what any client of the cluster chose: they go through this function.
    """
    kept = "\n\t" if lines else ""
    if not text.isprintable():
        text = "".join(c if c.isprintable() or c in kept else repr(c)[1:-1] for c in text)
    return escape(text)


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
    """A table of ``rows``; their own columns if none are named. Times are in UTC. The only value
    of a table, such as Spark's plan of a query, keeps its lines."""
    rows = list(rows)
    names = list(columns or (rows[0].keys() if rows else ()))
    table = Table(box=None, header_style="bold", pad_edge=False)
    for name in names:
        values = [row.get(name) for row in rows]
        numeric = any(isinstance(value, int | float) for value in values)
        timed = any(isinstance(value, datetime) for value in values)
        table.add_column(
            printable(f"{name} (UTC)" if timed else name),
            justify="right" if numeric else "left",
            overflow="fold",
        )
    single = len(rows) == len(names) == 1
    for row in rows:
        table.add_row(*(printable(cell(row.get(name)), lines=single) for name in names))
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
