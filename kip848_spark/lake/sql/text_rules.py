"""How functions of texts are written for DuckDB."""

from __future__ import annotations

import re

from sqlglot import exp

from kip848_spark.lake.sql.patterns import re2_pattern
from kip848_spark.lake.sql.rule import (
    BINARY_COLUMNS,
    NotTranslatable,
    call,
    plain_text,
    rule,
    whole_number,
)


@rule(exp.Trim)
def _trim(node: exp.Expr) -> exp.Expr:
    side = str(node.args.get("position") or "")
    return call({"LEADING": "ltrim", "TRAILING": "rtrim"}.get(side, "trim"), node.this)


@rule(exp.Length)
def _length(node: exp.Expr) -> exp.Expr:
    value = node.this
    if isinstance(value, exp.Column) and value.name.lower() in BINARY_COLUMNS:
        return call("octet_length", value)
    return call("length", value)


@rule(exp.Substring)
def _substring(node: exp.Expr) -> exp.Expr:
    whole_number(node.args.get("start"), 1)
    if node.args.get("length") is not None:
        whole_number(node.args["length"], 0)
    return node


@rule(exp.Left, exp.Right)
def _side(node: exp.Expr) -> exp.Expr:
    whole_number(node.expression, 0)
    return node


@rule(exp.Replace)
def _replace(node: exp.Expr) -> exp.Expr:
    if not plain_text(node.expression):
        raise NotTranslatable("replace of an empty text")
    return node


@rule(exp.Concat, exp.DPipe)
def _concat(node: exp.Expr) -> exp.Expr:
    parts = node.expressions if isinstance(node, exp.Concat) else [node.this, node.expression]
    if isinstance(node.parent, exp.ConcatWs):
        raise NotTranslatable("concat_ws of concat")
    texts = [p if _is_text(p) else call("spark_text", p) for p in parts]
    found = texts[0].copy()
    for part in texts[1:]:
        found = exp.DPipe(this=found, expression=part.copy(), safe=False)
    return exp.Paren(this=found)


@rule(exp.ConcatWs)
def _concat_ws(node: exp.Expr) -> exp.Expr:
    separator, *parts = node.expressions
    return call("concat_ws", separator, *(call("spark_text", part) for part in parts))


def _is_text(node: exp.Expr) -> bool:
    return isinstance(node, exp.Literal) and node.is_string


@rule(exp.RegexpLike)
def _regexp_like(node: exp.Expr) -> exp.Expr:
    return call("regexp_matches", node.this, _pattern(node.expression))


@rule(exp.RegexpExtract)
def _regexp_extract(node: exp.Expr) -> exp.Expr:
    group = whole_number(node.args.get("group"), 0)
    return call("regexp_extract", node.this, _pattern(node.expression), group)


def _pattern(node: exp.Expr) -> str:
    found = re2_pattern(plain_text(node))
    if found is None:
        raise NotTranslatable("this regular expression")
    return found


@rule(exp.RegexpSplit)
def _split(node: exp.Expr) -> exp.Expr:
    if not re.fullmatch(r"[A-Za-z0-9 _,;:/@=#-]+", plain_text(node.expression)):
        raise NotTranslatable("split at a regular expression")
    return call("string_split", node.this, node.expression)
