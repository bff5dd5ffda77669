"""Translates a query from Spark's dialect to DuckDB's.

Only what is known to give the same result is translated: every kind of expression is in `_PLAIN`
or has a rule in `rules`. Everything else raises `NotTranslatable`, and Spark answers the query.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from sqlglot import exp

from kip848_spark.lake.sql.names import result_name
from kip848_spark.lake.sql.rules import RULES, NotTranslatable

_QUERY = "with_ from_ joins laterals where group having qualify windows distinct order limit offset"
_BINARY = "this expression"
_PLAIN: Mapping[type[exp.Expr], str] = {
    # Queries
    exp.Select: f"expressions {_QUERY}",
    exp.Union: f"{_BINARY} with_ distinct order limit offset",
    exp.Except: f"{_BINARY} with_ distinct order limit offset",
    exp.Intersect: f"{_BINARY} with_ distinct order limit offset",
    exp.With: "expressions",
    exp.CTE: "this alias",
    exp.Subquery: "this alias order limit with_",
    exp.TableAlias: "this columns",
    exp.From: "this",
    exp.Values: "expressions alias",
    exp.Tuple: "expressions",
    exp.Table: "this alias joins laterals",
    exp.Join: "this on using kind side",
    exp.Lateral: "this view outer alias",
    exp.Where: "this",
    exp.Having: "this",
    exp.Qualify: "this",
    exp.Group: "expressions all",
    exp.Order: "expressions",
    exp.Ordered: "this desc nulls_first",
    exp.Limit: "expression",
    exp.Offset: "expression",
    exp.Distinct: "expressions",
    exp.Star: "except_",
    exp.Alias: "this alias",
    # Names and values
    exp.Identifier: "this quoted",
    exp.Column: "this table db catalog",
    exp.Dot: _BINARY,
    exp.Literal: "this is_string",
    exp.Boolean: "this",
    exp.Null: "",
    exp.Var: "this",
    exp.DataType: "this nested expressions",
    exp.Interval: "this unit",
    exp.Paren: "this",
    exp.Lambda: "this expressions",
    exp.PropertyEQ: _BINARY,
    # Operators
    exp.And: _BINARY,
    exp.Or: _BINARY,
    exp.Not: "this",
    exp.EQ: _BINARY,
    exp.NEQ: _BINARY,
    exp.GT: _BINARY,
    exp.GTE: _BINARY,
    exp.LT: _BINARY,
    exp.LTE: _BINARY,
    exp.NullSafeEQ: _BINARY,
    exp.NullSafeNEQ: _BINARY,
    exp.Is: _BINARY,
    exp.In: "this expressions query",
    exp.Between: "this low high",
    exp.Like: "this expression negate",
    exp.ILike: "this expression negate",
    exp.Add: _BINARY,
    exp.Sub: _BINARY,
    exp.Mul: _BINARY,
    exp.Div: f"{_BINARY} typed safe",
    exp.IntDiv: _BINARY,
    exp.Mod: _BINARY,
    exp.Neg: "this",
    exp.Case: "this ifs default",
    exp.If: "this true false",
    exp.Coalesce: "this expressions",
    exp.Nullif: _BINARY,
    exp.Bracket: "this expressions offset safe",
    exp.Cast: "this to",
    exp.TryCast: "this to",
    # Functions of one row
    exp.Exists: _BINARY,
    exp.Lower: "this",
    exp.Upper: "this",
    exp.Trim: "this position",
    exp.Length: "this",
    exp.Substring: "this start length",
    exp.Left: _BINARY,
    exp.Right: _BINARY,
    exp.Replace: "this expression replacement",
    exp.StrPosition: "this substr",
    exp.StartsWith: _BINARY,
    exp.EndsWith: _BINARY,
    exp.Contains: _BINARY,
    exp.Concat: "expressions safe coalesce",
    exp.ConcatWs: "expressions safe coalesce flatten",
    exp.DPipe: f"{_BINARY} safe",
    exp.RegexpLike: _BINARY,
    exp.RegexpExtract: f"{_BINARY} group null_if_pos_overflow",
    exp.RegexpSplit: _BINARY,
    exp.Hex: "this",
    exp.Greatest: "this expressions ignore_nulls",
    exp.Least: "this expressions ignore_nulls",
    exp.Abs: "this",
    exp.Round: "this decimals",
    exp.Floor: "this",
    exp.Ceil: "this",
    exp.Sqrt: "this",
    exp.Nvl2: "this true false",
    # Times
    exp.TimestampTrunc: "this unit",
    exp.TimestampDiff: f"{_BINARY} unit",
    exp.DateDiff: _BINARY,
    exp.TsOrDsAdd: f"{_BINARY} unit",
    exp.TsOrDsToDate: "this safe",
    exp.TimeStrToTime: "this",
    exp.TimeToStr: "this format",
    exp.StrToUnix: "this format",
    exp.UnixSeconds: "this",
    exp.UnixMillis: "this",
    exp.UnixMicros: "this",
    exp.Extract: _BINARY,
    exp.Year: "this",
    exp.Quarter: "this",
    exp.Month: "this",
    exp.Day: "this",
    exp.DayOfMonth: "this",
    exp.DayOfYear: "this",
    exp.DayOfWeek: "this",
    exp.WeekOfYear: "this",
    exp.Hour: "this",
    exp.Minute: "this",
    exp.Second: "this",
    exp.CurrentTimestamp: "",
    exp.CurrentDate: "",
    # Arrays, maps and structs
    exp.ArraySize: "this",
    exp.ArrayContains: _BINARY,
    exp.ArraySort: "this asc nulls_first",
    exp.ArrayToString: _BINARY,
    exp.ArrayMax: "this",
    exp.ArrayMin: "this",
    exp.ArrayFilter: _BINARY,
    exp.Transform: _BINARY,
    exp.MapKeys: "this",
    exp.Array: "expressions",
    exp.Struct: "expressions",
    exp.Explode: "this",
    exp.Posexplode: "this",
    # Aggregates and windows
    exp.Count: "this big_int",
    exp.CountIf: "this",
    exp.Sum: "this",
    exp.Avg: "this",
    exp.Min: "this",
    exp.Max: "this",
    exp.ArgMax: _BINARY,
    exp.ArgMin: _BINARY,
    exp.AnyValue: "this",
    exp.First: "this",
    exp.Last: "this",
    exp.LogicalOr: "this",
    exp.LogicalAnd: "this",
    exp.ApproxQuantile: "this quantile accuracy",
    exp.Quantile: "this quantile",
    exp.Median: "this",
    exp.ArrayAgg: "this nulls_excluded",
    exp.ArrayUniqueAgg: "this",
    exp.Filter: _BINARY,
    exp.Window: "this partition_by order spec alias over",
    exp.WindowSpec: "kind start start_side end end_side",
    exp.RowNumber: "",
    exp.Rank: "",
    exp.DenseRank: "",
    exp.PercentRank: "",
    exp.CumeDist: "",
    exp.Ntile: "this",
    exp.Lag: "this offset default",
    exp.Lead: "this offset default",
    exp.FirstValue: "this",
    exp.LastValue: "this",
    exp.Anonymous: "this expressions",
}
"""The expressions that are translated, each with the arguments that it may have."""


def translate(text: str, tree: exp.Query) -> exp.Query:
    """The query ``tree``, whose source is ``text``, for DuckDB. Raises NotTranslatable."""
    if "\\" in text:
        raise NotTranslatable("a backslash")
    tree = tree.copy()
    for node in tree.walk():
        _check(node)
    _name_columns(tree)
    for node in reversed(list(tree.walk(bfs=False))):
        rule = RULES.get(type(node))
        if rule is not None:
            found = rule(node)
            if found is not node:
                node.replace(found)
    return tree


def duckdb_text(tree: exp.Expr) -> str:
    """A translated query in DuckDB's dialect."""
    return tree.sql(dialect="duckdb", identify=True)


def arms(tree: exp.Query) -> Iterator[tuple[str, str]]:
    """Both sides of each UNION, EXCEPT and INTERSECT of a translated query, as queries."""
    with_ = tree.args.get("with_")
    head = f"{duckdb_text(with_)} " if with_ is not None else ""
    for node in tree.find_all(exp.SetOperation):
        left, right = (
            head + duckdb_text(side.unnest() if isinstance(side, exp.Subquery) else side)
            for side in (node.this, node.expression)
        )
        yield left, right


def _check(node: exp.Expr) -> None:
    """Raises NotTranslatable if nothing is known of ``node`` or of one of its arguments."""
    allowed = _PLAIN.get(type(node))
    if allowed is None:
        raise NotTranslatable(_described(node))
    names = allowed.split()
    for name, value in node.args.items():
        if name not in names and value not in (None, False, []):
            raise NotTranslatable(f"{_described(node)} with {name.rstrip('_')}")


def _described(node: exp.Expr) -> str:
    if isinstance(node, exp.Anonymous):
        return f"the function {node.name}"
    if isinstance(node, exp.Func):
        return f"the function {node.sql_name().lower()}"
    return f"{type(node).__name__.upper()}"


def _name_columns(tree: exp.Expr) -> None:
    """Gives each column of a result the name that Spark gives it."""
    for select in list(tree.find_all(exp.Select)):
        for item in list(select.expressions):
            name = result_name(item)
            if name is not None:
                item.replace(exp.alias_(item.copy(), exp.to_identifier(name, quoted=True)))
