"""Functions of Spark SQL as macros of DuckDB, for all whose results differ between the two.

Spark runs in ANSI mode: a division by zero or an index beyond an array is an error. A macro that
does not know the type of its argument raises an error with the word `UNTRANSLATED`, so that Spark
can answer the query. DuckDB replaces ``typeof(column)`` by a constant before it runs a query:
these checks cost nothing a row.
"""

from __future__ import annotations

UNTRANSLATED = "not translated: "
"""What errors contain that are raised for types whose treatment is not the same in Spark."""
FAILED = "the query fails: "
"""What errors contain that Spark raises as well."""

_WHOLE = "'TINYINT', 'SMALLINT', 'INTEGER', 'BIGINT', 'HUGEINT', 'INTEGER_LITERAL', '\"NULL\"'"
_NUMBER = f"{_WHOLE}, 'DOUBLE', 'FLOAT'"
_TEXT = f"{_WHOLE}, 'VARCHAR', 'STRING_LITERAL', 'BOOLEAN', 'DATE'"
_TIME = "'TIMESTAMP WITH TIME ZONE'"

TIME_TEXT = (
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}"
    r"([ T][0-9]{2}:[0-9]{2}(:[0-9]{2}([.][0-9]{1,6})?)?(Z|[+-][0-9]{2}:[0-9]{2})?)?"
)
"""Texts that both engines read as the same time."""
DATE_TEXT = r"[0-9]{4}-[0-9]{2}-[0-9]{2}"
_WHOLE_TEXT = r"[+-]?[0-9]{1,30}"
_NUMBER_TEXT = r"[+-]?[0-9]+([.][0-9]*)?([eE][+-]?[0-9]{1,3})?"


def _no(what: str) -> str:
    return _error(UNTRANSLATED + what)


def _fails(why: str) -> str:
    return _error(FAILED + why)


def _error(text: str) -> str:
    """An expression of any type that raises an error with ``text`` in its message. DuckDB's own
    function ``error`` counts as a side effect, which keeps an alias from being used in QUALIFY."""
    return f"list_extract([NULL], CAST('{text}' AS INTEGER))"


def _text_check(pattern: str, what: str, then: str) -> str:
    """``then``, unless ``x`` is a text that does not match ``pattern`` as a whole."""
    return (
        f"CASE WHEN typeof(x) IN ('VARCHAR', 'STRING_LITERAL') "
        f"AND NOT regexp_full_match(CAST(x AS VARCHAR), '{pattern}') "
        f"THEN {_no(what)} ELSE {then} END"
    )


def _numbers(types: str, what: str, then: str) -> str:
    """``then`` for two numbers ``a`` and ``b`` of one of the ``types``, unless ``b`` is zero."""
    return (
        f"CASE WHEN typeof(a) NOT IN ({types}) OR typeof(b) NOT IN ({types}) THEN {_no(what)} "
        f"WHEN b = 0 THEN {_fails('division by zero')} ELSE {then} END"
    )


def _ascii(then: str) -> str:
    """``then``, unless the text ``x`` has other characters than ASCII's."""
    no = _no("upper and lower case of letters beyond ASCII")
    return f"CASE WHEN strlen(x) <> length(x) THEN {no} ELSE {then} END"


MACROS: dict[str, str] = {
    "spark_text(x)": (
        f"CASE WHEN typeof(x) = {_TIME} THEN regexp_replace(CAST(x AS VARCHAR), '[+]00$', '') "
        f"WHEN typeof(x) IN ({_TEXT}) THEN CAST(x AS VARCHAR) "
        f"ELSE {_no('a text of a value of this type')} END"
    ),
    "spark_whole(x)": (
        "CASE WHEN typeof(x) IN ('DOUBLE', 'FLOAT') "
        "THEN CAST(trunc(TRY_CAST(x AS DOUBLE)) AS HUGEINT) ELSE "
        + _text_check(_WHOLE_TEXT, "a number of a text", "CAST(x AS HUGEINT)")
        + " END"
    ),
    "spark_double(x)": _text_check(_NUMBER_TEXT, "a number of a text", "CAST(x AS DOUBLE)"),
    "spark_boolean(x)": (
        f"CASE WHEN typeof(x) IN ({_NUMBER}, 'BOOLEAN') THEN CAST(x AS BOOLEAN) "
        f"ELSE {_no('a truth value of a text')} END"
    ),
    "spark_date(x)": _text_check(DATE_TEXT, "a date of a text", "CAST(x AS DATE)"),
    "spark_time(x)": _text_check(TIME_TEXT, "a time of a text", "CAST(x AS TIMESTAMPTZ)"),
    # The two have other rules for letters such as the German ß.
    "spark_upper(x)": _ascii("upper(x)"),
    "spark_lower(x)": _ascii("lower(x)"),
    "spark_divide(a, b)": _numbers(_NUMBER, "a division", "CAST(a AS DOUBLE) / b"),
    "spark_div(a, b)": _numbers(_WHOLE, "a division", "CAST(a // b AS BIGINT)"),
    "spark_modulo(a, b)": _numbers(_NUMBER, "a division", "a % b"),
    "spark_pmod(a, b)": _numbers(
        _WHOLE, "a division", "CASE WHEN a % b < 0 THEN (a % b + b) % b ELSE a % b END"
    ),
    "spark_minus(a, b)": (
        "CASE WHEN typeof(a) = 'DATE' AND typeof(b) = 'DATE' "
        f"THEN {_no('a difference of dates')} ELSE a - b END"
    ),
    # Spark rounds the decimal digits that a number is written with, not the binary fraction.
    "spark_round(x, digits)": (
        f"CASE WHEN typeof(x) <> 'DOUBLE' THEN {_no('round of a whole number')} "
        "ELSE CAST(CASE "
        + " ".join(
            f"WHEN digits = {n} THEN CAST(CAST(CAST(x AS VARCHAR) AS DECIMAL(38, {n})) AS DOUBLE)"
            for n in range(10)
        )
        + " END AS DOUBLE) END"
    ),
    "spark_at(list, place)": (
        "CASE WHEN place < 0 OR place >= len(list) "
        f"THEN {_fails('an index is not inside its array')} "
        "ELSE list_extract(list, place + 1) END"
    ),
    "spark_array_contains(list, x)": (
        "CASE WHEN list IS NULL OR x IS NULL THEN NULL WHEN list_contains(list, x) THEN TRUE "
        "WHEN list_aggregate(list, 'count') < len(list) THEN NULL ELSE FALSE END"
    ),
    "spark_array_join(list, separator)": (
        "CASE WHEN typeof(list) = 'VARCHAR[]' THEN array_to_string(list, separator) "
        f"ELSE {_no('array_join of values that are not texts')} END"
    ),
    "spark_elapsed(t, u, micros)": (
        "(epoch_us(spark_time(u)) - epoch_us(spark_time(t))) // micros"
    ),
    "spark_unix(t, micros)": (
        f"CASE WHEN typeof(t) NOT IN ({_TIME}, 'DATE', '\"NULL\"') THEN {_no('a time of a text')} "
        "ELSE (epoch_us(CAST(t AS TIMESTAMPTZ)) - "
        "((epoch_us(CAST(t AS TIMESTAMPTZ)) % micros + micros) % micros)) // micros END"
    ),
    "spark_unix_seconds(t)": (
        f"CASE WHEN typeof(t) NOT IN ({_TIME}, 'DATE', '\"NULL\"') THEN {_no('a time of a text')} "
        "ELSE epoch_us(CAST(t AS TIMESTAMPTZ)) // 1000000 END"
    ),
    "spark_from_unix(x, micros)": "make_timestamptz(CAST(spark_whole(x) * micros AS BIGINT))",
}


def definitions() -> str:
    """The statements that define all macros."""
    return ";".join(f"CREATE MACRO {head} AS {body}" for head, body in MACROS.items())
