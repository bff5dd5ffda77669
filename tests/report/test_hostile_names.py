"""Names in the data come from strangers: they are shown, and never run."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any
from urllib.parse import quote

import pytest
from playwright.sync_api import Error

from tests.report.conftest import Opened
from tests.report.example import report
from tests.report.test_views import VIEWS

Show = Callable[..., Opened]
MARK = "window.reached = 1"
MARKUP = "".join(
    [
        f"<img src=x onerror='{MARK}'>",
        f"</script><script>{MARK}</script>",
        f"\"><svg onload='{MARK}'>",
        f"' onfocus='{MARK}' autofocus='",
    ]
)
ATTACKS = {
    "markup": MARKUP,
    "script address": f"javascript:{MARK}//",
    "templates": f"{{a|b}}{{{{constructor.constructor('{MARK}')()}}}}${{{MARK}}}",
    "controls": "\x00\x1b[31m\u202egnp.exe\u2028\ufeff%00%0a<!--",
}
MADE = "img, svg, iframe, main script, [onerror], [onload], [onfocus], [autofocus]"
"""Elements that only an attack makes."""


def poisoned(value: Any, attack: str) -> Any:
    """The report with an attack behind every text in it, whatever the text is."""
    if isinstance(value, str):
        return value + attack
    if isinstance(value, list):
        return [poisoned(one, attack) for one in value]
    if isinstance(value, dict):
        return {key: poisoned(one, attack) for key, one in value.items()}
    return value


def visit(opened: Opened, given: dict[str, Any]) -> None:
    """Every view, the pages of two groups, and everything that unfolds."""
    ids = given["groups"]["columns"]["group_id"]
    for view in [*VIEWS, *(f"group/{quote(ids[one], safe='')}" for one in (1, -1))]:
        opened.go(view)
        opened.page.evaluate("document.querySelectorAll('details').forEach(d => { d.open = true })")
        opened.page.evaluate("window.dispatchEvent(new Event('beforeprint'))")
        opened.page.evaluate("window.dispatchEvent(new Event('afterprint'))")


@pytest.mark.slow
@pytest.mark.parametrize("attack", ATTACKS.values(), ids=ATTACKS.keys())
def test_no_text_of_the_data_becomes_markup_or_runs(show: Show, attack: str) -> None:
    given = poisoned(report(groups=12, rebalances=20), attack)
    opened = show(given)
    visit(opened, given)
    assert opened.page.evaluate("window.reached") is None
    assert opened.page.locator(MADE).count() == 0
    for link in opened.page.locator("a").all():
        assert str(link.get_attribute("href")).startswith("#")
    assert (opened.complaints, opened.requests) == ([], [])


def test_nothing_runs_even_if_the_policy_were_off(show: Show) -> None:
    given = poisoned(report(groups=12, rebalances=20), MARKUP)
    opened = show(given, bypass_csp=True)
    visit(opened, given)
    assert opened.page.evaluate("window.reached") is None
    assert opened.page.locator(MADE).count() == 0


def test_names_are_shown_with_visible_escapes(show: Show) -> None:
    given = report()
    name = "pay\x00ments\u202e\x1b[2J<b>"
    given["groups"]["columns"]["group_id"][1] = name
    opened = show(given)
    assert "pay\\x00ments\\u202e\\x1b[2J<b>" in opened.text()
    opened.go("group/" + quote(name, safe=""))
    assert opened.page.locator("h1").inner_text() == "pay\\x00ments\\u202e\\x1b[2J<b>"
    assert "\u202e" not in opened.page.title()


def test_the_policy_stops_what_slips_through(show: Show) -> None:
    opened = show(report(groups=9, rebalances=9))
    opened.page.evaluate(
        """mark => {
            const element = document.createElement("div");
            document.body.append(element);
            element.innerHTML = `<img src=x onerror="${mark}">`;
        }""",
        MARK,
    )
    assert opened.page.locator("img").count() == 0
    for attempt in (
        "mark => { document.body.setAttribute('onclick', mark); document.body.click(); }",
        "mark => { const one = document.createElement('script'); one.text = mark; "
        "document.body.append(one); }",
    ):
        with suppress(Error):  # the browser may answer with an error
            opened.page.evaluate(attempt, MARK)
    opened.settle()
    assert opened.page.evaluate("window.reached") is None
    assert any("Trusted" in one for one in opened.complaints)
    answer = "() => fetch('https://example.org/').then(() => 'sent', () => 'stopped')"
    assert opened.page.evaluate(answer) == "stopped"
