"""Names in a query that the lake does not have, with the nearest ones that it has."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping

import pyarrow as pa
from sqlglot import exp

from kip848_spark.errors import UsageError, near
from kip848_spark.lake.sql.rules import NotTranslatable
from kip848_spark.lake.tables import TABLES

_COLUMN = (
    re.compile(r'Referenced column "(?P<name>.+?)" (not found|was not found)'),
    re.compile(r'(?P<table>".+?") does not have a column named "(?P<name>.+?)"'),
    re.compile(r'Could not find key "(?P<name>.+?)" in struct'),
    re.compile(r'column "(?P<name>.+?)" in EXCLUDE list', re.I),
    re.compile(r'Column "(?P<name>.+?)" referenced that exists in the SELECT clause'),
)
_TABLE = re.compile(r'Referenced table "(?P<name>.+?)" not found')
_GENERATED = {"col", "key", "value", "pos"}
"""Names that Spark gives to the columns of `_GENERATORS`."""
_GENERATORS = (exp.UDTF, exp.Explode, exp.Posexplode, exp.Inline, exp.Stack, exp.Anonymous)


def check_tables(tree: exp.Expr) -> list[str]:
    """The lake's tables that the query names. Raises UsageError, with similar names, if there is no
    such table."""
    own = {cte.alias.lower() for cte in tree.find_all(exp.CTE)}
    used: dict[str, None] = {}
    for table in tree.find_all(exp.Table):
        name = table.name.lower()
        if not isinstance(table.this, exp.Identifier):
            continue
        if table.args.get("db"):
            raise UsageError(
                f"There is no table {'.'.join(part.name for part in table.parts)}{_at(table)}.",
                f"The lake's tables are {', '.join(TABLES)}.",
            )
        if name in TABLES:
            used[name] = None
        elif name not in own:
            raise unknown_table(table.name, own, _at(table))
    return list(used)


def unknown_table(name: str, others: set[str] | None = None, where: str = "") -> UsageError:
    """The error for a table that does not exist."""
    return UsageError(
        f"There is no table {name}{where}.",
        near(name.lower(), [*TABLES, *(others or ())], f"The tables are {', '.join(TABLES)}."),
    )


def unknown_column(
    message: str, tree: exp.Expr, tables: Mapping[str, pa.Schema]
) -> UsageError | None:
    """The error for DuckDB's message ``said`` if it is about a name that the query's tables do not
    have; None if it is about anything else. Raises NotTranslatable if the name may exist in Spark.
    """
    if found := _TABLE.search(message):
        return _unknown_qualifier(found["name"], tree)
    name = next((m["name"] for pattern in _COLUMN if (m := pattern.search(message))), None)
    if name is None:
        return None
    known = known_columns(tree, tables)
    generated = _GENERATED if tree.find(*_GENERATORS) else set()
    if name.lower() in {one.lower() for one in known} | generated:
        raise NotTranslatable(f"the column {name} at this place")
    return column_error(name, known, check_tables(tree), _place(name, tree))


def column_error(name: str, known: set[str], tables: Iterable[str], where: str = "") -> UsageError:
    """The error for a column that does not exist, with similar names among ``known``, the columns
    of ``tables``."""
    table = next(iter(tables), "groups")
    return UsageError(
        f"There is no column {name}{where}.",
        near(
            name.lower(),
            sorted(known),
            f"`DESCRIBE TABLE {table}` lists its columns.",
        ),
    )


def known_columns(tree: exp.Expr, tables: Mapping[str, pa.Schema]) -> set[str]:
    """The names that the query can use: columns and fields of its tables, and its own names."""
    used = {table.name.lower() for table in tree.find_all(exp.Table)}
    names: set[str] = set()
    for table in used:
        if table in TABLES:
            for field in tables.get(table) or TABLES[table].schema:
                names.update(_field_names(field))
    names.update(alias.alias for alias in tree.find_all(exp.Alias))
    for alias in tree.find_all(exp.TableAlias):
        names.update(column.name for column in alias.columns)
    return names


def _unknown_qualifier(name: str, tree: exp.Expr) -> UsageError:
    known = {table.alias_or_name for table in tree.find_all(exp.Table, exp.Subquery, exp.CTE)}
    known |= {alias.name for alias in tree.find_all(exp.TableAlias)}
    return UsageError(
        f"The query has no table or alias {name}{_place(name, tree)}.",
        near(name, sorted(filter(None, known)), "Name it in FROM."),
    )


def _field_names(field: pa.Field) -> Iterator[str]:
    yield field.name
    type_ = field.type
    while pa.types.is_list(type_):
        type_ = type_.value_type
    if pa.types.is_struct(type_):
        for inner in type_:
            yield from _field_names(inner)


def _place(name: str, tree: exp.Expr) -> str:
    for found in tree.find_all(exp.Identifier):
        if found.name.lower() == name.lower():
            return _at(found)
    return ""


def _at(node: exp.Expr) -> str:
    """`` (line 1, column 8)``, if the parser knows it."""
    meta = node.meta or (node.this.meta if isinstance(node.this, exp.Expr) else {})
    if "line" not in meta:
        return ""
    width = int(meta["end"]) - int(meta["start"])
    return f" (line {meta['line']}, column {int(meta['col']) - width})"
