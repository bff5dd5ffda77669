"""The names that Spark gives to the columns of a result."""

from __future__ import annotations

from collections.abc import Iterable

from sqlglot import exp

_OPERATORS: dict[type[exp.Expr], str] = {
    exp.Add: "+", exp.Sub: "-", exp.Mul: "*", exp.Div: "/", exp.Mod: "%", exp.EQ: "=",
    exp.GT: ">", exp.GTE: ">=", exp.LT: "<", exp.LTE: "<=", exp.And: "AND", exp.Or: "OR",
    exp.IntDiv: "div", exp.NullSafeEQ: "<=>",
}  # fmt: skip
_CALLS: dict[type[exp.Expr], str] = {
    exp.Sum: "sum", exp.Avg: "avg", exp.Min: "min", exp.Max: "max", exp.CountIf: "count_if",
    exp.Lower: "lower", exp.Upper: "upper", exp.Length: "length", exp.ArraySize: "size",
    exp.ArrayAgg: "collect_list", exp.ArrayUniqueAgg: "collect_set", exp.Abs: "abs",
    exp.Year: "year", exp.Month: "month", exp.Hour: "hour", exp.Minute: "minute",
    exp.Second: "second", exp.ArgMax: "max_by", exp.ArgMin: "min_by", exp.Median: "median",
    exp.MapKeys: "map_keys", exp.Coalesce: "coalesce",
}  # fmt: skip


def result_name(item: exp.Expr) -> str | None:
    """The name of the column that ``item`` of a SELECT list becomes; None if it has one already, or
    stands for several columns."""
    if isinstance(item, exp.Alias | exp.Aliases | exp.Star) or item.is_star:
        return None
    if isinstance(item, exp.Explode):
        return "col"
    return _text(item)


def _text(node: exp.Expr) -> str:
    if type(node) in _OPERATORS:
        sign = _OPERATORS[type(node)]
        return f"({_text(node.args['this'])} {sign} {_text(node.args['expression'])})"
    if type(node) in _CALLS:
        values = [node.args.get("this"), node.args.get("expression"), *node.expressions]
        return f"{_CALLS[type(node)]}({_list(v for v in values if v is not None)})"
    match node:
        case exp.Column() | exp.Dot() | exp.Literal() | exp.Identifier():
            return node.name
        case exp.Paren():
            return _text(node.this)
        case exp.Boolean():
            return str(node.this).lower()
        case exp.Count():
            return f"count({_counted(node.this)})"
        case exp.Cast() | exp.TryCast():
            return _cast(node)
        case exp.Concat():
            return f"concat({_list(node.expressions)})"
        case exp.DPipe():
            return f"concat({_text(node.this)}, {_text(node.expression)})"
        case exp.Bracket():
            return f"{_text(node.this)}[{_list(node.expressions)}]"
    return node.sql("spark")


def _list(nodes: Iterable[exp.Expr]) -> str:
    return ", ".join(map(_text, nodes))


def _counted(node: exp.Expr) -> str:
    if isinstance(node, exp.Distinct):
        return f"DISTINCT {_list(node.expressions)}"
    return "1" if isinstance(node, exp.Star) else _text(node)


def _cast(node: exp.Cast | exp.TryCast) -> str:
    value = node.this
    if not isinstance(value, exp.Literal):
        return f"CAST({_text(value)} AS {node.args['to'].sql('spark')})"
    if not value.is_string:
        return value.name  # 5L
    type_ = "DATE" if node.args["to"].this is exp.DType.DATE else "TIMESTAMP"
    return f"{type_} '{value.name}'"
