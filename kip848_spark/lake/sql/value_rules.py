"""How values, operators, casts and functions of numbers are written for DuckDB."""

from __future__ import annotations

import re

from sqlglot import exp

from kip848_spark.lake.sql.macros import DATE_TEXT, TIME_TEXT
from kip848_spark.lake.sql.rule import (
    UNITS,
    NotTranslatable,
    call,
    is_map,
    plain_text,
    rule,
    unit_name,
    whole_number,
)

_COMPARISONS = (
    exp.EQ, exp.NEQ, exp.GT, exp.GTE, exp.LT, exp.LTE, exp.Between, exp.ApproxQuantile,
    exp.Quantile,
)  # fmt: skip
_CASTS = {
    exp.DType.TINYINT: "TINYINT", exp.DType.SMALLINT: "SMALLINT", exp.DType.INT: "INTEGER",
    exp.DType.BIGINT: "BIGINT",
}  # fmt: skip
_SCALAR_CASTS = {
    exp.DType.TEXT: "spark_text", exp.DType.VARCHAR: "spark_text",
    exp.DType.DOUBLE: "spark_double", exp.DType.BOOLEAN: "spark_boolean",
    exp.DType.DATE: "spark_date", exp.DType.TIMESTAMP: "spark_time",
    exp.DType.TIMESTAMPTZ: "spark_time",
}  # fmt: skip


@rule(exp.Literal)
def _literal(node: exp.Expr) -> exp.Expr:
    if node.is_string or str(node.this).isdigit():
        return node
    parent = node.parent
    if "e" in str(node.this).lower() or isinstance(parent, _COMPARISONS):
        return node
    if isinstance(parent, exp.Cast | exp.TryCast) and parent.args["to"].this is exp.DType.DOUBLE:
        return node
    raise NotTranslatable("arithmetic with decimal numbers")


@rule(exp.Interval)
def _interval(node: exp.Expr) -> exp.Expr:
    unit = unit_name(node.args.get("unit"), UNITS - {"QUARTER"})
    number = node.this
    if not isinstance(number, exp.Literal) or not re.fullmatch(r"[0-9]{1,9}", str(number.this)):
        raise NotTranslatable("this interval")
    return exp.Interval(this=exp.Literal.string(number.this), unit=exp.var(unit))


@rule(exp.Div)
def _div(node: exp.Expr) -> exp.Expr:
    return call("spark_divide", node.this, node.expression)


@rule(exp.IntDiv)
def _int_div(node: exp.Expr) -> exp.Expr:
    return call("spark_div", node.this, node.expression)


@rule(exp.Mod)
def _mod(node: exp.Expr) -> exp.Expr:
    return call("spark_modulo", node.this.unnest(), node.expression.unnest())


@rule(exp.Sub)
def _sub(node: exp.Expr) -> exp.Expr:
    if isinstance(node.expression, exp.Interval | exp.Literal):
        return node
    return call("spark_minus", node.this, node.expression)


@rule(exp.Cast, exp.TryCast)
def _cast(node: exp.Expr) -> exp.Expr:
    to, value = node.args["to"], node.this
    if node.args.get("safe") or to.expressions:
        raise NotTranslatable("TRY_CAST" if node.args.get("safe") else f"CAST AS {to.sql('spark')}")
    literal = str(value.this) if isinstance(value, exp.Literal) and value.is_string else None
    if to.this in _CASTS:
        return exp.cast(call("spark_whole", value), _CASTS[to.this], dialect="duckdb")
    if to.this is exp.DType.DOUBLE and isinstance(value, exp.Literal) and not value.is_string:
        return exp.cast(value.copy(), "DOUBLE", dialect="duckdb")
    if to.this is exp.DType.DATE and literal is not None and re.fullmatch(DATE_TEXT, literal):
        return exp.cast(value.copy(), "DATE", dialect="duckdb")
    if (
        to.this in (exp.DType.TIMESTAMP, exp.DType.TIMESTAMPTZ)
        and literal is not None
        and re.fullmatch(TIME_TEXT, literal)
    ):
        return exp.cast(value.copy(), "TIMESTAMPTZ", dialect="duckdb")
    if to.this in _SCALAR_CASTS:
        return call(_SCALAR_CASTS[to.this], value)
    raise NotTranslatable(f"CAST AS {to.sql('spark')}")


@rule(exp.Bracket)
def _bracket(node: exp.Expr) -> exp.Expr:
    if len(node.expressions) != 1:
        raise NotTranslatable("this index")
    (key,) = node.expressions
    if (isinstance(key, exp.Literal) and key.is_string) or is_map(node.this):
        return call("map_extract_value", node.this, key)
    if node.args.get("offset"):
        raise NotTranslatable("element_at of an array")
    return call("spark_at", node.this, key)


@rule(exp.Like)
def _like(node: exp.Expr) -> exp.Expr:
    plain_text(node.expression)
    return node


@rule(exp.ILike)
def _ilike(node: exp.Expr) -> exp.Expr:
    pattern = plain_text(node.expression)
    if not pattern.isascii():
        raise NotTranslatable("ILIKE with letters beyond ASCII")
    return exp.Like(
        this=call("spark_lower", node.this),
        expression=exp.Literal.string(pattern.lower()),
        negate=node.args.get("negate"),
    )


@rule(exp.Lower, exp.Upper)
def _case(node: exp.Expr) -> exp.Expr:
    return call("spark_lower" if isinstance(node, exp.Lower) else "spark_upper", node.this)


@rule(exp.Round)
def _round(node: exp.Expr) -> exp.Expr:
    digits = 0 if node.args.get("decimals") is None else whole_number(node.args["decimals"], 0)
    if digits > 9:
        raise NotTranslatable("round to more than nine digits")
    return call("spark_round", node.this, digits)


@rule(exp.Floor, exp.Ceil)
def _floor(node: exp.Expr) -> exp.Expr:
    name = "floor" if isinstance(node, exp.Floor) else "ceil"
    return exp.cast(call(name, node.this), "BIGINT", dialect="duckdb")


@rule(exp.Greatest, exp.Least)
def _greatest(node: exp.Expr) -> exp.Expr:
    name = "greatest" if isinstance(node, exp.Greatest) else "least"
    return call(name, node.this, *node.expressions)
