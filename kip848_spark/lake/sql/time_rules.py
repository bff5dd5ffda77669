"""How functions of times are written for DuckDB."""

from __future__ import annotations

import re

from sqlglot import exp

from kip848_spark.lake.sql.rule import (
    MICROS,
    UNITS,
    NotTranslatable,
    call,
    plain_text,
    rule,
    unit_name,
)


@rule(exp.TimestampTrunc)
def _date_trunc(node: exp.Expr) -> exp.Expr:
    unit = unit_name(node.args.get("unit"), UNITS)
    return call("date_trunc", unit.lower(), call("spark_time", node.this))


@rule(exp.TimestampDiff)
def _timestampdiff(node: exp.Expr) -> exp.Expr:
    unit = unit_name(node.args.get("unit"), MICROS)
    return call("spark_elapsed", node.expression, node.this, MICROS[unit])


@rule(exp.TsOrDsToDate)
def _to_date(node: exp.Expr) -> exp.Expr:
    return call("spark_date", node.this)


@rule(exp.DateDiff)
def _datediff(node: exp.Expr) -> exp.Expr:
    return call("date_diff", "day", node.expression, node.this)


@rule(exp.TsOrDsAdd)
def _date_add(node: exp.Expr) -> exp.Expr:
    unit_name(node.args.get("unit"), {"DAY"})
    days = exp.cast(call("spark_whole", node.expression), "INTEGER", dialect="duckdb")
    return exp.Paren(this=exp.Add(this=call("spark_date", node.this), expression=days))


@rule(exp.TimeStrToTime)
def _time(node: exp.Expr) -> exp.Expr:
    return call("spark_time", node.this)


@rule(exp.TimeToStr)
def _date_format(node: exp.Expr) -> exp.Expr:
    pattern = plain_text(node.args.get("format"))
    # sqlglot marks the parts that have two digits, such as MM, as strict.
    if re.search(r"[A-Za-z%]", re.sub(r"%Y|%[mdHMS]strict", "", pattern)):
        raise NotTranslatable("this pattern of date_format")
    return call("strftime", node.this, pattern.replace("strict", ""))


@rule(exp.StrToUnix)
def _unix_timestamp(node: exp.Expr) -> exp.Expr:
    return call("spark_unix_seconds", node.this)


@rule(exp.UnixSeconds)
def _unix_seconds(node: exp.Expr) -> exp.Expr:
    return call("spark_unix", node.this, 1_000_000)


@rule(exp.UnixMillis)
def _unix_millis(node: exp.Expr) -> exp.Expr:
    return call("spark_unix", node.this, 1_000)


@rule(exp.UnixMicros)
def _unix_micros(node: exp.Expr) -> exp.Expr:
    return call("spark_unix", node.this, 1)


@rule(exp.Extract)
def _extract(node: exp.Expr) -> exp.Expr:
    return _part(unit_name(node.this, {"YEAR", "QUARTER", "MONTH", "DAY", "HOUR", "MINUTE"}), node)


@rule(
    exp.Year, exp.Quarter, exp.Month, exp.Day, exp.DayOfMonth, exp.DayOfYear, exp.WeekOfYear,
    exp.Hour, exp.Minute, exp.Second,
)  # fmt: skip
def _time_part(node: exp.Expr) -> exp.Expr:
    return _part(type(node).__name__, node)


def _part(name: str, node: exp.Expr) -> exp.Expr:
    value = node.expression if isinstance(node, exp.Extract) else node.this
    return call(name.lower(), call("spark_time", value))


@rule(exp.DayOfWeek)
def _dayofweek(node: exp.Expr) -> exp.Expr:
    day = call("dayofweek", call("spark_time", node.this))
    return exp.Paren(this=exp.Add(this=day, expression=exp.convert(1)))


@rule(exp.CurrentTimestamp)
def _now(node: exp.Expr) -> exp.Expr:
    return call("now")


@rule(exp.CurrentDate)
def _today(node: exp.Expr) -> exp.Expr:
    return exp.cast(call("now"), "DATE", dialect="duckdb")
