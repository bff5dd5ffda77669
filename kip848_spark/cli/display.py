"""What the command line shows: the steps of a job, tables, counts. Results go to standard output,
everything else to standard error."""

from __future__ import annotations

import base64
import os
import sys
import threading
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any

import orjson
from rich.cells import cell_len
from rich.console import Console, RenderableType
from rich.markup import escape  # noqa: TID251
from rich.progress import (
    BarColumn,
    Progress,
    ProgressColumn,
    SpinnerColumn,
    Task,
    TaskID,
    TextColumn,
)
from rich.table import Column, Table
from rich.text import Text

PIPED_WIDTH = 240
"""Columns of a table that goes to a file or a pipe; a terminal says its own."""

_BAR_WIDTH = 30
LOG_FORMAT = "KIP848_LOG_FORMAT"
"""The environment variable for the form of what goes to standard error: ``json``."""

out = Console(highlight=False, width=None if sys.stdout.isatty() else PIPED_WIDTH)
err = Console(stderr=True, highlight=False)


class StepDisplay:
    """Prints a line for each step that is done, with the time it took. May be called from any
    thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._current: str | None = None
        self._started = time.monotonic()

    def __call__(self, words: str) -> None:
        """A new step begins, and so the one before is done."""
        with self._lock:
            self._finish()
            self._current, self._started = words, time.monotonic()
        self.detail(words)

    def detail(self, words: str) -> None:
        """What the current step is doing. Only a terminal shows it."""

    def done(self, words: str) -> None:
        """A part of the current step is done."""
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


class JsonStepDisplay(StepDisplay):
    """Prints a line of JSON for each step that begins or is done, with the run's id."""

    def __init__(self) -> None:
        super().__init__()
        self._run_id: str | None = None

    def run_started(self, run_id: str) -> None:
        """The following steps are those of a run."""
        with self._lock:
            self._run_id = run_id
        log_line("info", "the run is planned", run_id=run_id)

    def detail(self, words: str) -> None:
        log_line("info", words, run_id=self._run_id, event="begins")

    def done(self, words: str) -> None:
        log_line("info", words, run_id=self._run_id, event="part done")

    def _finish(self) -> None:
        if self._current is not None:
            took = round(time.monotonic() - self._started, 3)
            log_line("info", self._current, run_id=self._run_id, event="done", seconds=took)
        self._current = None


def log_as_json() -> bool:
    """True if `LOG_FORMAT` asks for JSON on standard error."""
    return os.environ.get(LOG_FORMAT, "") == "json"


def log_line(level: str, message: str, **fields: Any) -> None:
    """Prints a log line as JSON on standard error. Fields that are None are left out."""
    known = {name: value for name, value in fields.items() if value is not None}
    line = {"time": datetime.now(UTC), "level": level, "message": message, **known}
    err.file.write(json_text(line) + "\n")
    err.file.flush()


class TerminalStepDisplay(StepDisplay):
    """Shows the current step below those that are done: a spinner, and a bar in a long step."""

    def __init__(self, bar: Progress) -> None:
        super().__init__()
        self._bar = bar
        self._task: TaskID | None = None

    def detail(self, words: str) -> None:
        with self._lock:
            if self._task is not None:
                self._bar.remove_task(self._task)
            self._task = self._bar.add_task(printable(words), total=None)

    def records(self, done: int, planned: int | None, unit: str) -> None:
        """``done`` of ``planned`` records (or what ``unit`` says) of the current step are done."""
        with self._lock:
            if done and planned and self._task is not None:
                total = max(planned, done)
                self._bar.update(self._task, completed=done, total=total, unit=unit)


class _Numbers(ProgressColumn):
    """A bar's numbers: done of planned, how many a second, and the time left."""

    def render(self, task: Task) -> Text:
        if task.total is None:
            return Text()
        parts = [f"{_short(task.completed)}/{_short(task.total)} {task.fields['unit']}"]
        if task.speed:
            parts.append(f"{_short(task.speed)}/s")
        if task.time_remaining:
            minutes, seconds = divmod(round(task.time_remaining), 60)
            parts.append(f"{minutes}:{seconds:02} left")
        return Text(" ".join(parts))


def _short(number: float) -> str:
    """``number`` with three digits: ``850``, ``12.3k``, ``1.25M``, ``10.0M``."""
    for unit, size in (("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if number >= size:
            value = number / size
            return f"{value:.{2 if value < 10 else 1 if value < 100 else 0}f}{unit}"
    return f"{number:.0f}"


class _Bar(BarColumn):
    """A bar that appears as soon as there are numbers."""

    def render(self, task: Task) -> RenderableType:  # type: ignore[override]
        return Text("…") if task.total is None else super().render(task)


@contextmanager
def show_steps() -> Iterator[StepDisplay]:
    """A display of steps: on a terminal with a spinner or a bar for the current one, elsewhere a
    line a step. `LOG_FORMAT` makes these lines JSON."""
    if log_as_json():
        log = JsonStepDisplay()
        yield log
        log.end()
        return
    if not err.is_terminal:
        display = StepDisplay()
        yield display
        display.end()
        return
    whole = Column(no_wrap=True)
    columns = (
        SpinnerColumn(finished_text="…"),
        TextColumn("{task.description}", table_column=whole),
        _Bar(bar_width=None, table_column=Column(max_width=_BAR_WIDTH)),
        _Numbers(table_column=whole),
    )
    with Progress(*columns, console=err, transient=True) as bar:
        terminal = TerminalStepDisplay(bar)
        yield terminal
        terminal.end()


def printable(text: str, *, lines: bool = False) -> str:
    """``text`` as it may go to a terminal, for `Console.print`: markup has no meaning in it, and
    what does not print (control characters, line ends, bidirectional overrides) is written as in
    Python, such as ``\\x00``. With ``lines``, line ends and tabs stay.

    Names and metadata are what any client of the cluster chose: they go through this function.
    """
    return escape(_visible(text, lines))


def _visible(text: str, lines: bool = False) -> str:
    kept = "\n\t" if lines else ""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() or c in kept else repr(c)[1:-1] for c in text)


def say(
    text: str,
    *,
    level: str = "info",
    label: str | None = None,
    lead: str | None = None,
    style: str | None = None,
    hint: str | None = None,
    hint_line: str = "    {}",
    wrap: bool = False,
    highlight: bool = False,
    **fields: Any,
) -> None:
    """Prints a sentence on standard error: as a log line with ``fields`` if `LOG_FORMAT` asks for
    one, else for people. All sentences on standard error go through this function.

    The sentence begins with ``lead``. ``style`` is that of the ``lead``, or of all without one.
    ``label`` and ``hint_line`` are markup for people only: what is before the sentence, and the
    line below it, with ``{}`` for the ``hint``. ``wrap`` breaks lines between words at the
    terminal's width, and ``highlight`` colours numbers and paths.
    """
    if log_as_json():
        log_line(level, text if lead is None else f"{lead} {text}", hint=hint, **fields)
        return
    parts = [printable(part) for part in (lead, text) if part is not None]
    if style is not None:
        parts[0] = f"[{style}]{parts[0]}[/]"
    if label is not None:
        parts.insert(0, label)
    err.print(" ".join(parts), soft_wrap=not wrap, highlight=highlight)
    if hint:
        line = hint_line.format(printable(hint))
        err.print(line, soft_wrap=not wrap, highlight=highlight)


def note(text: str, *, wrap: bool = False) -> None:
    """Prints a sentence about the output to stderr. ``wrap`` is that of `say`."""
    say(text, label="[yellow]note[/]", wrap=wrap)


def warn(text: str, *, lead: str | None = None, hint: str | None = None) -> None:
    """Prints a sentence to stderr about something that went wrong and does not end the command.
    ``lead`` and ``hint`` are those of `say`."""
    style = None if lead is None else "yellow"
    badge = "[bold black on yellow] warning [/]"
    say(text, level="warning", label=badge, lead=lead, style=style, hint=hint)


def progress_bar(*columns: ProgressColumn) -> Progress:
    """A bar on standard error, which disappears when it ends. There is none in a log of JSON."""
    return Progress(*columns, console=err, transient=True, disable=log_as_json())


def print_json(value: Any) -> None:
    """Prints ``value`` as JSON on one line; times as ISO 8601, bytes as base64."""
    out.file.write(json_text(value) + "\n")


def json_text(value: Any) -> str:
    """``value`` as JSON, as `print_json` prints it."""
    return orjson.dumps(value, default=_plain, option=orjson.OPT_NON_STR_KEYS).decode()


def _plain(value: Any) -> Any:
    if isinstance(value, bytes | bytearray):
        return base64.b64encode(value).decode()
    return str(value)


def print_rows(
    rows: Iterable[Mapping[str, Any]],
    columns: Sequence[str] | None = None,
    *,
    folded: bool = True,
) -> None:
    """A table of ``rows``; their own columns if none are named. Times are in UTC. The only value
    of a table, such as Spark's plan of a query, keeps its lines. If it is not ``folded``, each row
    is one line."""
    rows = list(rows)
    names = list(columns or (rows[0].keys() if rows else ()))
    values = {name: [row.get(name) for row in rows] for name in names}
    timed = {name: any(isinstance(one, datetime) for one in values[name]) for name in names}
    numeric = {name: any(isinstance(one, int | float) for one in values[name]) for name in names}
    heads = [_visible(f"{name} (UTC)" if timed[name] else name) for name in names]
    single = len(rows) == len(names) == 1
    cells = [[_visible(cell(one), single) for one in values[name]] for name in names]
    if not folded or len(rows) > MOST_FOLDED:
        _print_long(heads, cells, list(numeric.values()))
        return
    table = Table(box=None, header_style="bold", pad_edge=False)
    for head, right in zip(heads, numeric.values(), strict=True):
        table.add_column(escape(head), justify="right" if right else "left", overflow="fold")
    for row in zip(*cells, strict=True):
        table.add_row(*map(escape, row))
    out.print(table)


MOST_FOLDED = 500
"""The rows of a table whose long values are folded. In a longer one each row is one line: rich
needs 0.4 ms to lay out a row."""


def _print_long(heads: Sequence[str], cells: Sequence[Sequence[str]], numeric: list[bool]) -> None:
    """Prints a table in columns as wide as their longest value. The texts are printable."""
    columns = []
    for head, values, right in zip(heads, cells, numeric, strict=True):
        widths = [cell_len(text) for text in (head, *values)]
        widest = max(widths)
        pads = (" " * (widest - width) for width in widths)
        pairs = zip(pads, (head, *values), strict=True)
        columns.append([pad + text if right else text + pad for pad, text in pairs])
    first, *lines = ("  ".join(row).rstrip() for row in zip(*columns, strict=True))
    out.print(Text(first, style="bold"), soft_wrap=True)
    out.file.write("".join(f"{line}\n" for line in lines))


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
