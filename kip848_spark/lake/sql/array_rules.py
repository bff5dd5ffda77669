"""How functions of arrays, maps and structs, and aggregates, are written for DuckDB."""

from __future__ import annotations

from collections.abc import Callable

from sqlglot import exp

from kip848_spark.lake.sql.rule import NotTranslatable, call, is_map, rule, whole_number


@rule(exp.ArraySize)
def _size(node: exp.Expr) -> exp.Expr:
    if is_map(node.this):
        return exp.cast(call("cardinality", node.this), "INTEGER", dialect="duckdb")
    return call("len", node.this)


@rule(exp.ArrayContains)
def _array_contains(node: exp.Expr) -> exp.Expr:
    return call("spark_array_contains", node.this, node.expression)


@rule(exp.ArraySort)
def _array_sort(node: exp.Expr) -> exp.Expr:
    flags = [node.args.get(name) for name in ("asc", "nulls_first")]
    if not all(flag is None or isinstance(flag, exp.Boolean) for flag in flags):
        raise NotTranslatable("this order of an array")
    down = flags[0] is not None and not flags[0].this
    first = flags[1] is not None and flags[1].this
    return call(
        "list_sort",
        node.this,
        "DESC" if down else "ASC",
        "NULLS FIRST" if first else "NULLS LAST",
    )


@rule(exp.ArrayToString)
def _array_join(node: exp.Expr) -> exp.Expr:
    return call("spark_array_join", node.this, node.expression)


@rule(exp.ArrayMax, exp.ArrayMin)
def _array_max(node: exp.Expr) -> exp.Expr:
    return call("list_max" if isinstance(node, exp.ArrayMax) else "list_min", node.this)


@rule(exp.Lambda)
def _lambda(node: exp.Expr) -> exp.Expr:
    if len(node.expressions) != 1:
        raise NotTranslatable("a lambda of several arguments")
    return node


@rule(exp.ArrayFilter)
def _filter_array(node: exp.Expr) -> exp.Expr:
    return call("list_filter", node.this, node.expression)


@rule(exp.Transform)
def _transform(node: exp.Expr) -> exp.Expr:
    return call("list_transform", node.this, node.expression)


@rule(exp.Exists)
def _exists(node: exp.Expr) -> exp.Expr:
    test = node.args.get("expression")
    return node if test is None else _quantified(node.this, test, any_=True)


def _quantified(values: exp.Expr, test: exp.Expr, *, any_: bool) -> exp.Expr:
    """`exists` and `forall`: null if no value decides and one is null."""
    if not isinstance(test, exp.Lambda):
        raise NotTranslatable("exists without a lambda")
    found = call("list_transform", values, test)
    decides = exp.convert(any_)
    return exp.Paren(
        this=exp.Case(
            ifs=[
                exp.If(this=exp.Is(this=values.copy(), expression=exp.null()), true=exp.null()),
                exp.If(this=call("list_contains", found, decides), true=decides.copy()),
                exp.If(
                    this=exp.LT(
                        this=call("list_aggregate", found, "count"), expression=call("len", found)
                    ),
                    true=exp.null(),
                ),
            ],
            default=exp.convert(not any_),
        )
    )


@rule(exp.MapKeys)
def _map_keys(node: exp.Expr) -> exp.Expr:
    return call("map_keys", node.this)


@rule(exp.Struct)
def _struct(node: exp.Expr) -> exp.Expr:
    if not all(isinstance(field, exp.PropertyEQ) for field in node.expressions):
        raise NotTranslatable("a struct whose fields have no names")
    return node


@rule(exp.CountIf)
def _count_if(node: exp.Expr) -> exp.Expr:
    one = exp.Case(ifs=[exp.If(this=node.this.copy(), true=exp.convert(1))])
    return exp.Count(this=one)


@rule(exp.ArgMax, exp.ArgMin)
def _max_by(node: exp.Expr) -> exp.Expr:
    name = "arg_max_null" if isinstance(node, exp.ArgMax) else "arg_min_null"
    return call(name, node.this, node.expression)


@rule(exp.AnyValue, exp.First, exp.FirstValue)
def _first(node: exp.Expr) -> exp.Expr:
    return call("first", node.this)


@rule(exp.Last, exp.LastValue)
def _last(node: exp.Expr) -> exp.Expr:
    return call("last", node.this)


@rule(exp.ApproxQuantile)
def _percentile_approx(node: exp.Expr) -> exp.Expr:
    return call("quantile_disc", node.this, _share(node))


@rule(exp.Quantile)
def _percentile(node: exp.Expr) -> exp.Expr:
    return call("quantile_cont", call("spark_double", node.this), _share(node))


@rule(exp.Median)
def _median(node: exp.Expr) -> exp.Expr:
    return call("median", call("spark_double", node.this))


def _share(node: exp.Expr) -> exp.Expr:
    share = node.args.get("quantile")
    if not isinstance(share, exp.Literal) or share.is_string:
        raise NotTranslatable("several percentiles at once")
    return share


@rule(exp.ArrayAgg, exp.ArrayUniqueAgg)
def _collect(node: exp.Expr) -> exp.Expr:
    """Spark leaves out nulls; without a value the array is empty."""
    if isinstance(node.parent, exp.Filter | exp.Window):
        raise NotTranslatable("collect_list with FILTER or OVER")
    distinct = isinstance(node, exp.ArrayUniqueAgg) or isinstance(node.this, exp.Distinct)
    value = node.this.expressions[0] if isinstance(node.this, exp.Distinct) else node.this
    inner = exp.Distinct(expressions=[value.copy()]) if distinct else value.copy()
    present = exp.Not(this=exp.Is(this=value.copy(), expression=exp.null()))
    found = exp.Filter(this=call("list", inner), expression=exp.Where(this=present))
    return call("coalesce", found, exp.Array(expressions=[]))


_NAMED: dict[str, Callable[[list[exp.Expr]], exp.Expr]] = {
    "now": lambda values: call("now", *values),
    "pmod": lambda values: call("spark_pmod", *values),
    "cardinality": lambda values: _size(exp.ArraySize(this=values[0])),
    "map_values": lambda values: call("map_values", *values),
    "map_entries": lambda values: call("map_entries", *values),
    "get": lambda values: call("list_extract", values[0], whole_number(values[1], 0) + 1),
    "forall": lambda values: _quantified(values[0], values[1], any_=False),
    "timestamp_seconds": lambda values: call("spark_from_unix", *values, 1_000_000),
    "timestamp_millis": lambda values: call("spark_from_unix", *values, 1_000),
    "timestamp_micros": lambda values: call("spark_from_unix", *values, 1),
}


@rule(exp.Anonymous)
def _named(node: exp.Expr) -> exp.Expr:
    known = _NAMED.get(node.name.lower())
    if known is None:
        raise NotTranslatable(f"the function {node.name.lower()}")
    try:
        return known(list(node.expressions))
    except IndexError:
        raise NotTranslatable(f"this call of {node.name.lower()}") from None
