"""How the clauses of a query, and tables of arrays, are written for DuckDB."""

from __future__ import annotations

from sqlglot import exp

from kip848_spark.lake.sql.rule import NotTranslatable, call, is_map, rule, whole_number


@rule(exp.Select)
def _select(node: exp.Expr) -> exp.Expr:
    joins = node.args.get("joins") or []
    stars = any(isinstance(item, exp.Star) for item in node.expressions)
    if stars and any(join.args.get("using") for join in joins):
        raise NotTranslatable("SELECT * over JOIN USING")
    for lateral in node.args.pop("laterals", None) or []:
        node.append("joins", _lateral_view(lateral))
    generators = [item for item in node.expressions if item.find(exp.Unnest)]
    if len(generators) > 1 or (generators and node.args.get("group")):
        raise NotTranslatable("explode beside another generator or GROUP BY")
    return node


def _lateral_view(node: exp.Lateral) -> exp.Join:
    alias = node.args.get("alias")
    columns = [column.name for column in alias.columns] if alias else []
    table = (alias.name if alias else "") or f"lateral{id(node)}"
    generator = node.this
    if not isinstance(generator, exp.Unnest | exp.Posexplode):
        raise NotTranslatable("this LATERAL VIEW")
    values = generator.expressions[0] if isinstance(generator, exp.Unnest) else generator.this
    inner = exp.Select()
    if isinstance(generator, exp.Posexplode):
        position, name = columns if len(columns) == 2 else ("pos", "col")
        if len(columns) not in (0, 2):
            raise NotTranslatable("this LATERAL VIEW")
        place = exp.Sub(this=call("generate_subscripts", values, 1), expression=exp.convert(1))
        inner = inner.select(exp.alias_(place, position, quoted=True))
        inner = inner.select(exp.alias_(_unnest(values), name, quoted=True))
    elif len(columns) == 2 or (not columns and is_map(values)):
        key, value = columns or ("key", "value")
        entry = exp.column("entry", table="entries")
        entries = exp.select(exp.alias_(_unnest(call("map_entries", values)), "entry"))
        inner = inner.from_(entries.subquery("entries"))
        inner = inner.select(
            exp.alias_(exp.Dot(this=entry, expression=exp.to_identifier("key")), key, quoted=True),
            exp.alias_(
                exp.Dot(this=entry.copy(), expression=exp.to_identifier("value")),
                value,
                quoted=True,
            ),
        )
    elif len(columns) <= 1:
        name = columns[0] if columns else "col"
        inner = inner.select(exp.alias_(_unnest(values), name, quoted=True))
    else:
        raise NotTranslatable("this LATERAL VIEW")
    lateral = exp.Lateral(
        this=exp.Subquery(this=inner), alias=exp.TableAlias(this=exp.to_identifier(table))
    )
    if node.args.get("outer"):
        return exp.Join(this=lateral, side="LEFT", on=exp.true())
    return exp.Join(this=lateral, kind="CROSS")


def _unnest(values: exp.Expr) -> exp.Unnest:
    return exp.Unnest(expressions=[values.copy()])


@rule(exp.Explode)
def _explode(node: exp.Expr) -> exp.Expr:
    above = node.parent.parent if isinstance(node.parent, exp.Alias) else node.parent
    if not isinstance(above, exp.Select | exp.Lateral):
        raise NotTranslatable("explode inside an expression")
    return _unnest(node.this)


@rule(exp.Posexplode)
def _posexplode(node: exp.Expr) -> exp.Expr:
    if not isinstance(node.parent, exp.Lateral):
        raise NotTranslatable("posexplode outside of LATERAL VIEW")
    return node


@rule(exp.Table)
def _table(node: exp.Expr) -> exp.Expr:
    if not isinstance(node.this, exp.Identifier):
        raise NotTranslatable("a table function")
    return node


@rule(exp.Tuple)
def _tuple(node: exp.Expr) -> exp.Expr:
    if not isinstance(node.parent, exp.Values):
        raise NotTranslatable("a list in parentheses")
    return node


@rule(exp.Limit, exp.Offset)
def _limit(node: exp.Expr) -> exp.Expr:
    whole_number(node.args.get("expression"), 0)
    return node


@rule(exp.Distinct)
def _distinct(node: exp.Expr) -> exp.Expr:
    if len(node.expressions) > 1:
        raise NotTranslatable("DISTINCT of several values")
    return node
