"""The HTML page of a report: one file that needs no network.

The page is a fixed program (HTML, CSS, JavaScript) with the report's data beside it. The data are
JSON in `<script type="application/json">` elements, which browsers don't run, and the program
writes them as text only. The page's content security policy permits exactly these scripts and
styles, by their hashes, and no connection. So a name in the data cannot run a script, even if the
program has a fault.
"""

from __future__ import annotations

import base64
import gzip
import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

import orjson
from jinja2 import Environment, FunctionLoader, StrictUndefined
from markupsafe import Markup

from kip848_spark.errors import EnvironmentFault

LIBRARIES = ("echarts.min.js", "tabulator.min.js")
"""Vendored scripts, in the order in which they run; `assets/vendor.toml` says where from."""
LIBRARY_STYLES = ("tabulator.min.css",)
SCRIPTS = (
    "dom.js",
    "format.js",
    "data.js",
    "charts.js",
    "tables.js",
    "timeline.js",
    "overview.js",
    "rebalances.js",
    "readiness.js",
    "hygiene.js",
    "groups.js",
    "findings.js",
    "group.js",
    "main.js",
)
"""Our own scripts, in the order in which they run. They share one scope."""
STYLES = ("page.css", "tables.css")

COMPRESSED = "application/gzip+base64"
COMPRESS_FROM = 32_768
"""Blocks with fewer characters are not compressed."""
_LEVEL = 4
_FIRST = ("report", "groups", "findings", "rebalances", "readiness", "hygiene")
_LARGE = ("groups", "findings", "members", "rebalances", "readiness", "hygiene")
_ROOT = files("kip848_spark.report")
_OPTIONS = orjson.OPT_NON_STR_KEYS | orjson.OPT_NAIVE_UTC | orjson.OPT_UTC_Z
_ESCAPES = (
    ("<", "\\u003c"),
    (">", "\\u003e"),
    ("&", "\\u0026"),
    ("\u2028", "\\u2028"),
    ("\u2029", "\\u2029"),
)


@dataclass(frozen=True)
class Inline:
    """A script or a style that is part of the page, and the hash that permits it."""

    text: Markup
    source: str
    """The hash as a source expression of a content security policy, as ``'sha256-…'``."""

    @classmethod
    def of(cls, text: str) -> Inline:
        """``text`` must not end its element."""
        digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        return cls(Markup(text), f"'sha256-{digest}'")


@dataclass(frozen=True)
class Block:
    """A part of the data, which the page parses when a view first needs it."""

    name: str
    text: Markup
    encoding: str
    """The type of the script element: JSON, or `COMPRESSED`."""

    @classmethod
    def of(cls, name: str, value: object) -> Block:
        """Large parts that the first view does not need are compressed."""
        text = as_json(value)
        if name in _FIRST or len(text) < COMPRESS_FROM:
            return cls(name, text, "application/json")
        packed = gzip.compress(text.encode(), _LEVEL, mtime=0)
        return cls(name, Markup(base64.b64encode(packed).decode()), COMPRESSED)


def render(report: Mapping[str, Any]) -> str:
    """The page of a report, complete with its data.

    ``report`` is what `report.json` has: plain values, lists and dictionaries. Strings may have any
    characters; times are milliseconds since 1970 in UTC.

    Raises EnvironmentFault if a file of the program is missing.
    """
    styles = [_inline(LIBRARY_STYLES, "assets"), _inline(STYLES, "page")]
    scripts = [*(_inline([name], "assets") for name in LIBRARIES), _program()]
    policy = [
        "default-src 'none'",
        "script-src " + " ".join(script.source for script in scripts),
        "style-src " + " ".join(style.source for style in styles),
        "img-src data:",
        "base-uri 'none'",
        "form-action 'none'",
        "require-trusted-types-for 'script'",
        "trusted-types default",
    ]
    page: str = _template().render(
        report=report,
        policy="; ".join(policy),
        styles=styles,
        scripts=scripts,
        blocks=list(_blocks(report)),
    )
    return page


def visible(text: object) -> str:
    """``text`` with control and formatting characters written as escapes, as ``\\x00``.

    Such characters have no shape of their own, and some change the order of the others."""
    shown = []
    for one in str(text):
        code = ord(one)
        if code < 0x20 or 0x7F <= code <= 0x9F:
            shown.append(f"\\x{code:02x}")
        elif one in _INVISIBLE or 0xD800 <= code <= 0xDFFF:
            shown.append(f"\\u{code:04x}")
        else:
            shown.append(one)
    return "".join(shown)


_INVISIBLE = frozenset(
    [chr(code) for code in (0xAD, 0x61C, 0x180E, 0xFEFF)]
    + [chr(code) for code in range(0x200B, 0x2010)]
    + [chr(code) for code in range(0x2028, 0x202F)]
    + [chr(code) for code in range(0x2060, 0x2070)]
)


def as_json(value: object) -> Markup:
    """``value`` as JSON that may stand in a script element: no character of it ends the element,
    begins a comment, or is an entity."""
    text = orjson.dumps(value, option=_OPTIONS).decode()
    for character, escape in _ESCAPES:
        text = text.replace(character, escape)
    return Markup(text)


def _blocks(report: Mapping[str, Any]) -> Iterator[Block]:
    """Small parts together, large ones and each timeline alone."""
    rest = {name: value for name, value in report.items() if name not in (*_LARGE, "timelines")}
    yield Block.of("report", rest)
    for name in _LARGE:
        value = report[name]
        if name == "rebalances":
            yield Block.of("rebalance-list", value["list"])
            value = {key: one for key, one in value.items() if key != "list"}
        yield Block.of(name, value)
    for index, timeline in enumerate(report["timelines"]):
        yield Block.of(f"timeline-{index}", timeline)


@cache
def _program() -> Inline:
    parts = "\n".join(_read(f"page/{name}") for name in SCRIPTS)
    return Inline.of(f'(() => {{\n"use strict";\n{parts}}})();\n')


def _inline(names: list[str] | tuple[str, ...], folder: str) -> Inline:
    return Inline.of("\n".join(_read(f"{folder}/{name}") for name in names))


@cache
def _read(name: str) -> str:
    """A file of this package. Raises EnvironmentFault if it is missing."""
    try:
        return _ROOT.joinpath(*name.split("/")).read_text(encoding="utf-8")
    except FileNotFoundError as error:
        raise EnvironmentFault(
            f"The report's own file {name} is missing from this installation.",
            hint="Install the package again.",
        ) from error


@cache
def _template() -> Any:
    environment = Environment(
        loader=FunctionLoader(lambda name: _read(f"templates/{name}")),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["visible"] = visible
    return environment.get_template("page.html")
