"""Prints timelines of groups. They are readable without colour, and at 80 columns."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from itertools import groupby

from rich.console import Console
from rich.text import Text

from kip848_spark.cli.display import printable
from kip848_spark.insight import timeline as cells
from kip848_spark.insight.member_names import shorten
from kip848_spark.insight.phrases import duration
from kip848_spark.insight.timeline import Timeline

PIPED_WIDTH = 80
"""Columns of a timeline that goes to a file or a pipe."""
_WIDEST = 120
_WIDEST_NAME = 28
_GLYPHS = {
    cells.ABSENT: (" ", " ", ""),
    cells.MEMBER: ("─", "=", "green"),
    cells.WAITING: ("┄", "-", "cyan"),
    cells.REVOKING: ("▓", "#", "bold yellow"),
    cells.JOINED: ("●", "+", "bold green"),
    cells.GONE: ("×", "x", "bold red"),
    cells.RETURNED: ("↻", "o", "bold yellow"),
}
"""For each cell: the character in Unicode, the one in ASCII, and the colour."""


def show_timeline(draw: Callable[[int], Timeline | None], console: Console) -> None:
    """Prints a timeline. ``draw`` returns it with a number of columns."""
    sketch = draw(1)
    if sketch is None or not sketch.rows:
        return
    total = min(console.width, _WIDEST) if console.is_terminal else PIPED_WIDTH
    longest = max(len(_plain(row.name)) for row in sketch.rows)
    name = max(len("epoch"), min(_WIDEST_NAME, longest, total // 3))
    drawn = draw(max(10, total - name - 2))
    assert drawn is not None
    ascii_only = not (console.encoding or "").lower().startswith("utf")
    width = len(drawn.rows[0].cells)
    for label, text in (("UTC", _times(drawn, width)), ("epoch", _marks(drawn, width, ascii_only))):
        console.print(Text(f"{label:<{name}}  {text}".rstrip(), style="dim"), soft_wrap=True)
    for row in drawn.rows:
        console.print(_row(row.name, row.cells, name, ascii_only), soft_wrap=True)
    console.print(_legend(drawn, ascii_only), soft_wrap=not console.is_terminal)
    if drawn.left_out:
        console.print(
            Text(f"and {drawn.left_out:,} other clients, to which less happened", style="dim")
        )


def _plain(name: str) -> str:
    """A name as it appears on the terminal."""
    return Text.from_markup(printable(name)).plain


def _row(name: str, line: str, width: int, ascii_only: bool) -> Text:
    shown = _plain(name)
    if len(shown) > width:
        shown = shorten(shown, width)
        shown = shown.replace("…", "~") if ascii_only else shown
    text = Text(f"{shown:<{width}}  ")
    for cell, run in groupby(line):
        glyph, plain, colour = _GLYPHS[cell]
        text.append((plain if ascii_only else glyph) * len(list(run)), style=colour)
    text.rstrip()
    return text


def _times(drawn: Timeline, width: int) -> str:
    """The times at the beginning, the end and, if there is space, the middle of the axis."""
    days = drawn.start.date() != drawn.end.date()
    form = "%m-%d %H:%M" if days else "%H:%M:%S"
    line = [" "] * width
    first = f"{drawn.start:{form}}"
    places = [(0, first), (width - len(first), f"{drawn.end:{form}}")]
    if width > 4 * len(first):
        middle = drawn.start + (drawn.end - drawn.start) / 2
        places.append(((width - len(first)) // 2, f"{middle:{form}}"))
    for at, text in places:
        line[at : at + len(text)] = text
    return "".join(line)


def _marks(drawn: Timeline, width: int, ascii_only: bool) -> str:
    """The epochs, each where its rebalance starts; without the number where there is no space."""
    line = [" "] * (width + 12)
    free = 0
    for column, epoch in sorted(set(drawn.marks)):
        mark = f"{'|' if ascii_only else '▼'}{epoch}"
        if column < free:
            line[column] = mark[0] if line[column] == " " else line[column]
            continue
        line[column : column + len(mark)] = mark
        free = column + len(mark) + 1
    return "".join(line).rstrip()


def _legend(drawn: Timeline, ascii_only: bool) -> Text:
    used = {cell for row in drawn.rows for cell in row.cells} - {cells.ABSENT}
    text = Text()
    for cell in cells.CELLS:
        if cell in used:
            glyph, plain, colour = _GLYPHS[cell]
            text.append(plain if ascii_only else glyph, style=colour)
            text.append(f" {cells.CELLS[cell]}  ", style="dim")
    one = duration(drawn.column / timedelta(milliseconds=1))
    text.append(f"1 column = {one}", style="dim")
    return text
