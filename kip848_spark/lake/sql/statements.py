"""Parses a user's statement of Spark SQL and says what it asks for. Only statements that read are
accepted."""

from __future__ import annotations

import logging
import re
from dataclasses import dataclass
from itertools import pairwise, zip_longest
from typing import Literal

import sqlglot
from sqlglot import exp
from sqlglot.dialects.dialect import Dialect
from sqlglot.errors import ParseError, TokenError
from sqlglot.tokenizer_core import Token, TokenType

from kip848_spark.errors import UsageError, near

logging.getLogger("sqlglot").addHandler(logging.NullHandler())
logging.getLogger("sqlglot").propagate = False

_READING = "SELECT, WITH, DESCRIBE, SHOW TABLES and EXPLAIN"
_FIRST_WORDS = {
    "SELECT", "WITH", "FROM", "VALUES", "TABLE", "(", "DESCRIBE", "DESC", "SHOW", "EXPLAIN",
}  # fmt: skip
_OTHER_ENGINE = "If Spark accepts the query, add --engine spark."
JAVA_CALLS = {"reflect", "java_method", "try_reflect"}
"""Spark's functions that call any method of Java."""


@dataclass(frozen=True)
class Statement:
    """A statement: a query (``tree``), or one about tables. ``name`` is the table to describe."""

    kind: Literal["query", "explain", "describe", "show tables", "show columns", "other"]
    text: str
    tree: exp.Query | None = None
    name: str | None = None


def parse(text: str) -> Statement:
    """The statement ``text``. Raises UsageError if it is not one that reads, or if its syntax is
    wrong."""
    text = text.strip().rstrip("; \n\t")
    check_reading(text)
    words = text.split()
    upper = [word.upper() for word in words]
    match upper:
        case ["SHOW", "TABLES" | "VIEWS"]:
            return Statement("show tables", text, name=upper[1].lower())
        case ["SHOW", "COLUMNS", "IN" | "FROM", _]:
            return Statement("show columns", text, name=words[3].strip("`"))
        case ["DESCRIBE" | "DESC", "TABLE", _] | ["DESCRIBE" | "DESC", _]:
            return Statement("describe", text, name=words[-1].strip("`"))
        case ["SHOW" | "DESCRIBE" | "DESC", *_]:
            return Statement("other", text)
        case ["EXPLAIN", "EXTENDED" | "CODEGEN" | "COST" | "FORMATTED", *_]:
            return Statement("other", text)
        case ["EXPLAIN", *_]:
            return Statement("explain", text, _query(text, len("EXPLAIN")))
        case ["TABLE", _]:
            tree = exp.select("*").from_(exp.to_table(words[1].strip("`"), dialect="spark"))
            return Statement("query", text, tree)
    return Statement("query", text, _query(text))


def check_reading(text: str) -> None:
    """Raises UsageError unless ``text`` is one statement that reads, and that starts no program and
    calls no method of Java."""
    tokens = _tokens(text)
    if not tokens:
        raise UsageError("The query is empty.", f"It begins with one of {_READING}.")
    first = tokens[0].text.upper()
    if first not in _FIRST_WORDS:
        raise UsageError(
            f"A query can't begin with {tokens[0].text}{_at(tokens[0])}: `sql` only reads.",
            near(first, sorted(_FIRST_WORDS), f"Use {_READING}."),
        )
    if first in ("EXPLAIN", "DESCRIBE", "DESC", "SHOW"):  # the parser takes the rest as one text
        tokens = _tokens(_blank(text, len(first)))
    for token, following in pairwise(tokens):
        if token.token_type is TokenType.SEMICOLON:
            raise UsageError(f"This is more than one statement{_at(following)}.", "Run each alone.")
        if token.text.lower() in JAVA_CALLS and following.token_type is TokenType.L_PAREN:
            raise UsageError(f"`sql` does not call methods of Java{_at(token)}.")
        if token.token_type is TokenType.USING and following.token_type is TokenType.STRING:
            raise UsageError(f"`sql` does not start other programs{_at(token)}.")


def too_deep() -> UsageError:
    """The error about a query whose tree Python can't walk through."""
    return UsageError("The query is nested too deeply.")


def _tokens(text: str) -> list[Token]:
    try:
        tokens = list(sqlglot.tokenize(text, read="spark"))
    except TokenError:
        raise UsageError("A text or a name in the query has no closing quote.") from None
    for token, following in zip_longest(tokens, tokens[1:]):
        # `offset` is a column of most tables. It only begins a clause before a number.
        is_clause = following is not None and following.token_type is TokenType.NUMBER
        if token.token_type is TokenType.OFFSET and not is_clause:
            token.token_type = TokenType.VAR
    return tokens


def _blank(text: str, end: int) -> str:
    """``text`` with blanks up to ``end``, so that lines and columns stay."""
    return re.sub(r"[^\n]", " ", text[:end]) + text[end:]


def _query(text: str, start: int = 0) -> exp.Query:
    """The query that begins at ``start``. Raises UsageError."""
    text = _blank(text, start)
    try:
        trees = Dialect.get_or_raise("spark").parser().parse(_tokens(text), text)
    except (ParseError, TokenError) as cause:
        raise _syntax_error(cause) from None
    except RecursionError:
        raise too_deep() from None
    tree = trees[0] if trees else None
    if not isinstance(tree, exp.Query) or tree.find(exp.Insert, exp.Create) is not None:
        raise UsageError("`sql` only reads, and this statement does more.", f"Use {_READING}.")
    return tree


def _syntax_error(cause: ParseError | TokenError) -> UsageError:
    errors = getattr(cause, "errors", [])
    if not errors:
        return UsageError("The syntax of the query is wrong.", _OTHER_ENGINE)
    found = errors[0]
    word = str(found.get("highlight") or "")
    column = int(found["col"]) - max(len(word), 1) + 1
    what = str(found.get("description") or "")
    reason = f": {what}" if what.startswith("Expecting") else ""
    return UsageError(
        f"The syntax of the query is wrong at {word!r} (line {found['line']}, column {column})"
        f"{reason}.",
        _OTHER_ENGINE,
    )


def _at(token: Token) -> str:
    return f" (line {token.line}, column {token.col - len(token.text) + 1})"
