"""Findings in a terminal: those that follow from another one are counted with it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from kip848_spark.cli.display import out, printable
from kip848_spark.insight.severities import SEVERITIES

if TYPE_CHECKING:
    from kip848_spark.wire.tables import Row

_COLOURS = {"critical": "bold red", "error": "red", "warning": "yellow", "info": "cyan"}


@dataclass
class Root:
    """A finding, and those that follow from it."""

    row: Row
    followers: list[Row] = field(default_factory=list)


def roots_of(rows: Iterable[Row]) -> list[Root]:
    """The findings that follow from none of ``rows``, in their order, each with its followers. Rows
    of several runs may have one id: a finding follows from that of its own run, if it is there."""
    rows = list(rows)
    places = {(row["run_id"], row["finding_id"]) for row in rows if row["finding_id"] is not None}
    roots = []
    of_id: dict[tuple[Any, Any], Root] = {}
    for row in rows:
        if (row["run_id"], row["caused_by"]) not in places:
            root = Root(row)
            roots.append(root)
            of_id.setdefault((row["run_id"], row["finding_id"]), root)
    for row in rows:
        found = of_id.get((row["run_id"], row["caused_by"]))
        if found is not None and row["caused_by"] is not None:
            found.followers.append(row)
    return roots


def show_roots(roots: Sequence[Root], *, follow: bool = False) -> None:
    """Prints findings, and how many follow from each; with ``follow`` also those."""
    for root in roots:
        _show(root.row)
        number = len(root.followers)
        if not number:
            continue
        verb = "follows" if number == 1 else "follow"
        colon = ":" if follow else ""
        out.print(f"    [dim]and {number:,} that {verb}{_worse(root)}{colon}[/]")
        if follow:
            for row in root.followers:
                _show_follower(row)


def _worse(root: Root) -> str:
    """How many followers are more severe than the finding itself."""
    own = SEVERITIES.index(root.row["severity"])
    found = Counter(row["severity"] for row in root.followers)
    worse = [(name, found[name]) for name in SEVERITIES[:own:-1] if found[name]]
    return "".join(f", {number:,} of severity {name}" for name, number in worse)


def _show(row: Row) -> None:
    colour = _COLOURS[row["severity"]]
    since = "" if row["timestamp"] is None else f" since {row['timestamp']:%Y-%m-%d %H:%M:%S} UTC"
    summary, *rest = _lines(row)
    out.print(
        f"[{colour}]{row['severity']}[/] {printable(row['group_id'])}{_place(row)}{since} "
        f"({row['check']}): {printable(summary)}",
        soft_wrap=True,
    )
    for line in rest:
        out.print(f"    {printable(line)}", soft_wrap=True)


def _show_follower(row: Row) -> None:
    summary, *sides = _lines(row)
    out.print(
        f"      [dim]{row['severity']}{_place(row)} ({row['check']}):[/] {printable(summary)}",
        soft_wrap=True,
    )
    for line in sides[:2]:
        out.print(f"        {printable(line)}", soft_wrap=True)


def _place(row: Row) -> str:
    return "" if row["offset"] is None else f" at {row['partition']}/{row['offset']}"


def _lines(row: Row) -> list[str]:
    """The lines of the explanation. That of an earlier version of this program is one line, and
    the values are shown as they are stored."""
    lines = str(row["explanation"]).split("\n")
    if len(lines) == 1:
        lines += [f"Expected: {row['expected']}", f"Recorded: {row['recorded']}"]
    return lines
