"""`decode`: shows the fields of one record."""

from __future__ import annotations

import re
from typing import Annotated

import typer
from rich.table import Table

from kip848_spark.cli.display import out, print_json, printable
from kip848_spark.cli.options import JsonOption
from kip848_spark.errors import UsageError
from kip848_spark.wire.decode import DecodePlan
from kip848_spark.wire.definitions import dialects, load_dialect
from kip848_spark.wire.explain import Explained, explain_key, explain_value


def register(app: typer.Typer) -> None:
    app.command()(decode)


def decode(
    key: Annotated[str, typer.Argument(metavar="KEY_HEX", help="The bytes of the key.")],
    value: Annotated[
        str | None,
        typer.Argument(metavar="VALUE_HEX", help="The bytes of the value; omit for a tombstone."),
    ] = None,
    dialect: Annotated[
        str, typer.Option("--dialect", help="The dialect of the record layouts.", metavar="D")
    ] = "shipped",
    json: JsonOption = False,
) -> None:
    """Show the fields of one record with their byte ranges.

    The exit code is 1 if the record can't be decoded.
    """
    if dialect not in dialects():
        raise UsageError(
            f"There is no dialect {dialect}.", f"Choose one of {', '.join(dialects())}."
        )
    raw_key = _bytes(key)
    raw_value = None if value is None else _bytes(value)
    best: list[tuple[str, Explained]] = []
    for variant in load_dialect(dialect):
        plan = DecodePlan.of(variant)
        halves = [("key", explain_key(plan, raw_key))]
        if raw_value is not None and halves[0][1].fault is None:
            halves.append(("value", explain_value(plan, raw_key, raw_value)))
        if not best or not any(half.fault for _, half in halves):
            best = halves
    if json:
        print_json({name: _json(half) for name, half in best})
    else:
        for name, half in best:
            _show(name, half)
        if raw_value is None and not best[0][1].fault:
            out.print("no value: a tombstone")
    raise typer.Exit(1 if any(half.fault for _, half in best) else 0)


def _bytes(text: str) -> bytes:
    cleaned = re.sub(r"^0x|[\s:_]", "", text)
    try:
        return bytes.fromhex(cleaned)
    except ValueError:
        raise UsageError(
            f"{text!r} is not hexadecimal.",
            "Write two digits a byte; blanks and colons are allowed.",
        ) from None


def _show(name: str, half: Explained) -> None:
    table = Table(box=None, header_style="bold", pad_edge=False)
    table.add_column("bytes", justify="right")
    table.add_column(name)
    table.add_column("")
    for item in half.items:
        where = f"{item.first}-{item.end - 1}" if item.end > item.first else ""
        table.add_row(where, "  " * item.depth + printable(item.name), printable(item.text))
    out.print(table)
    if half.fault is not None:
        out.print(f"[bold red]{half.fault.reason.text} at {name} byte {half.fault.at}[/]")


def _json(half: Explained) -> dict[str, object]:
    shown: dict[str, object] = {
        "items": [
            {"depth": i.depth, "name": i.name, "value": i.text, "first": i.first, "end": i.end}
            for i in half.items
        ]
    }
    if half.fault is not None:
        shown["error"] = {"reason": half.fault.reason.text, "byte": half.fault.at}
    return shown
