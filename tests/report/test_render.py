"""The page as a text, without a browser: its data, its policy, its size."""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
import re
from html.parser import HTMLParser
from typing import Any

import pytest

from kip848_spark.report.page import as_json, render, visible
from tests.report.example import report


class Elements(HTMLParser):
    """The elements of a page: tag, attributes, text of scripts and styles."""

    def __init__(self, page: str) -> None:
        super().__init__(convert_charrefs=True)
        self.found: list[tuple[str, dict[str, str | None], str]] = []
        self._is_open = False
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs), ""))
        self._is_open = True

    def handle_endtag(self, tag: str) -> None:
        self._is_open = False

    def handle_data(self, data: str) -> None:
        if self._is_open:
            tag, attributes, text = self.found[-1]
            self.found[-1] = (tag, attributes, text + data)


def data_of(page: str) -> dict[str, Any]:
    """The data of a page by the id of its block."""
    found = {}
    for tag, attributes, text in Elements(page).found:
        kind = attributes.get("type") if tag == "script" else None
        if kind == "application/gzip+base64":
            found[str(attributes["id"])] = json.loads(gzip.decompress(base64.b64decode(text)))
        elif kind == "application/json":
            found[str(attributes["id"])] = json.loads(text)
    return found


def test_the_page_has_all_data_of_the_report() -> None:
    given = report()
    found = data_of(render(given))
    timelines = [found.pop(f"timeline-{number}") for number in range(len(given["timelines"]))]
    rebalances = {**found.pop("rebalances"), "list": found.pop("rebalance-list")}
    rest = found.pop("report")
    assert {**rest, **found, "rebalances": rebalances, "timelines": timelines} == given


@pytest.mark.parametrize(
    "text",
    [
        "</script><script>alert(1)</script>",
        "<!--<script>",
        "]]>&lt;&amp;",
        "\u2028\u2029\x00\x1b[31m\u202e",
        "\\u003c",
        "'\"`${1}{{1}}{% raw %}",
    ],
)
def test_no_text_leaves_its_block(text: str) -> None:
    written = str(as_json({text: [text]}))
    assert not re.search("[<>&\u2028\u2029]", written)
    assert json.loads(written) == {text: [text]}
    given = report(groups=9, rebalances=5)
    given["lake"]["cluster_id"] = given["groups"]["columns"]["group_id"][0] = text
    page = render(given)
    plain = Elements(render(report(groups=9, rebalances=5)))
    assert [tag for tag, _, _ in Elements(page).found] == [tag for tag, _, _ in plain.found]
    assert data_of(page)["groups"]["columns"]["group_id"][0] == text


def test_the_policy_permits_the_scripts_and_styles_of_the_page_and_nothing_else() -> None:
    elements = Elements(render(report(groups=9, rebalances=5))).found
    policy = next(
        str(attributes["content"])
        for tag, attributes, _ in elements
        if attributes.get("http-equiv") == "Content-Security-Policy"
    )
    rules = {words[0]: words[1:] for rule in policy.split(";") if (words := rule.split())}

    def hashes(wanted: str) -> list[str]:
        return [
            f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
            for tag, attributes, text in elements
            if tag == wanted and "type" not in attributes
        ]

    assert rules["script-src"] == hashes("script")
    assert rules["style-src"] == hashes("style")
    assert rules["default-src"] == ["'none'"]
    assert "connect-src" not in rules
    for _, attributes, _ in elements:
        assert not [name for name in attributes if name.startswith("on") or name == "style"]
        assert str(attributes.get("href", "#"))[:1] in ("#", "d")
        assert "src" not in attributes


def test_the_program_is_below_two_megabytes() -> None:
    given = report()
    data = sum(len(str(as_json(value)).encode()) for value in given.values())
    assert len(render(given).encode()) - data < 2_000_000


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("orders-1 é 日本", "orders-1 é 日本"),
        ("a\x00b\x1b[0m", "a\\x00b\\x1b[0m"),
        ("a\u202eb\u2028c\u200bd\ufeff", "a\\u202eb\\u2028c\\u200bd\\ufeff"),
        ("tab\tline\n", "tab\\x09line\\x0a"),
    ],
)
def test_characters_without_a_shape_are_escaped(text: str, shown: str) -> None:
    assert visible(text) == shown
