"""What the rules that write Spark's SQL for DuckDB share: their registry, and how they read the
arguments of an expression."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa
from sqlglot import exp

from kip848_spark.lake.tables import TABLES


class NotTranslatable(Exception):
    """A query has a part whose translation to DuckDB is not known to give Spark's result.
    ``str()`` names the part."""


Rule = Callable[[exp.Expr], exp.Expr]
RULES: dict[type[exp.Expr], Rule] = {}
"""The rule of each kind of expression. A rule gets an expression whose parts are translated."""

MICROS = {
    "MICROSECOND": 1, "MILLISECOND": 1_000, "SECOND": 1_000_000, "MINUTE": 60_000_000,
    "HOUR": 3_600_000_000, "DAY": 86_400_000_000, "WEEK": 604_800_000_000,
}  # fmt: skip
UNITS = {*MICROS, "MONTH", "QUARTER", "YEAR"}
MAP_COLUMNS = {
    name
    for table in TABLES.values()
    for name, type_ in table.fields.items()
    if pa.types.is_map(type_)
}
BINARY_COLUMNS = {
    name
    for table in TABLES.values()
    for name, type_ in table.fields.items()
    if pa.types.is_binary(type_)
}
"""Names of columns that hold maps, and bytes: functions of arrays and texts are others for them."""


def call(name: str, *values: exp.Expr | str | int) -> exp.Anonymous:
    wrapped = [exp.convert(v) if isinstance(v, str | int) else v.copy() for v in values]
    return exp.Anonymous(this=name, expressions=wrapped)


def rule(*kinds: type[exp.Expr]) -> Callable[[Rule], Rule]:
    def add(function: Rule) -> Rule:
        for kind in kinds:
            RULES[kind] = function
        return function

    return add


def whole_number(node: exp.Expr | None, least: int) -> int:
    """The whole number that ``node`` is written as. Raises NotTranslatable for all else."""
    if isinstance(node, exp.Literal) and not node.is_string and node.this.isdigit():
        number = int(node.this)
        if number >= least:
            return number
    raise NotTranslatable("a position or length that is not a plain number")


def plain_text(node: exp.Expr | None) -> str:
    if isinstance(node, exp.Literal) and node.is_string:
        return str(node.this)
    raise NotTranslatable("a pattern that is not a plain text")


def unit_name(node: exp.Expr | None, known: set[str] | dict[str, int]) -> str:
    name = node.name.upper().removesuffix("S") if node is not None else ""
    if name not in known:
        raise NotTranslatable(f"the unit {name.lower()}")
    return name


def is_map(node: exp.Expr) -> bool:
    return isinstance(node, exp.Column) and node.name.lower() in MAP_COLUMNS
