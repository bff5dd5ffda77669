"""Every view and control of the page in a real browser, against the data that it was given."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import quote
from zoneinfo import ZoneInfo

import pytest
from playwright.sync_api import Locator

from tests.report.conftest import Opened
from tests.report.example import END, report

Show = Callable[..., Opened]
VIEWS = ("", "rebalances", "readiness", "hygiene", "findings", "groups")
AXE = Path(__file__).parent / "vendor" / "axe.min.js"


def group_ids(given: dict[str, Any]) -> list[str]:
    found: list[str] = given["groups"]["columns"]["group_id"]
    return found


def values(table: dict[str, Any], name: str) -> list[Any]:
    """A column with the entries of its dictionary."""
    column, entries = table["columns"][name], table["dictionaries"].get(name)
    return column if entries is None else [None if one is None else entries[one] for one in column]


def shown_ids(opened: Opened) -> list[str]:
    """The first cells of the rows in view."""
    return opened.page.locator(".tabulator-row .tabulator-cell:first-child").all_inner_texts()


def control(opened: Opened, name: str) -> Locator:
    """A list to choose from."""
    return opened.page.get_by_role("combobox", name=name, exact=True)


def addresses(given: dict[str, Any]) -> list[str]:
    """Every view, a group with a timeline and one without."""
    ids = group_ids(given)
    return [*VIEWS, *(f"group/{quote(ids[one], safe='')}" for one in (1, -1))]


def test_the_page_asks_for_nothing_and_has_no_complaints(show: Show) -> None:
    given = report()
    opened = show(given)
    for view in addresses(given):
        opened.go(view)
        opened.page.mouse.wheel(0, 20_000)
        opened.settle()
    assert (opened.complaints, opened.requests) == ([], [])


def test_search_and_filters_of_groups(show: Show) -> None:
    given = report(groups=200)
    ids, kinds = group_ids(given), values(given["groups"], "type")
    opened = show(given)
    opened.go("groups")
    opened.page.get_by_label("Search: Groups").fill("BILLING")
    opened.settle()
    wanted = {one for one in ids if "billing" in one}
    assert f"{len(wanted)} of 200 groups" in opened.text()
    assert set(shown_ids(opened)) <= wanted
    control(opened, "Type").select_option("classic")
    opened.settle()
    both = sum("billing" in one and kind == "classic" for one, kind in zip(ids, kinds, strict=True))
    assert f"{both} of 200 groups" in opened.text()
    # The address has the search, so it can be sent to somebody.
    address = opened.page.evaluate("location.hash")
    opened.go("")
    opened.page.evaluate("hash => { location.hash = hash }", address)
    opened.settle()
    assert f"{both} of 200 groups" in opened.text()


def test_filters_of_readiness(show: Show) -> None:
    given = report(groups=80)
    listed = given["readiness"]["list"]
    verdicts = values(listed, "verdict")
    ids, topics = group_ids(given), given["groups"]["dictionaries"]["topics"]
    of_group = [{topics[one] for one in row} for row in given["groups"]["columns"]["topics"]]
    opened = show(given)
    opened.go("readiness?verdict=blocked")
    blocked = {number for number, verdict in enumerate(verdicts) if verdict == "blocked"}
    assert f"{len(blocked)} of 80 groups" in opened.text()
    control(opened, "Topic").select_option("orders")
    opened.settle()
    both = {number for number in blocked if "orders" in of_group[number]}
    assert f"{len(both)} of 80 groups" in opened.text()
    control(opened, "Verdict").select_option("")
    control(opened, "Topic").select_option("")
    opened.page.get_by_label("Id begins with").fill("fraud-")
    opened.settle()
    assert f"{sum(one.startswith('fraud-') for one in ids)} of 80 groups" in opened.text()
    opened.page.get_by_label("Id begins with").fill("")
    control(opened, "Wave").select_option("2")
    opened.settle()
    assert f"{values(listed, 'wave').count(2)} of 80 groups" in opened.text()
    control(opened, "Rule").select_option("assignment-user-data")
    opened.settle()
    assert "0 of 80 groups" in opened.text()


def test_a_large_table_has_few_rows_in_the_document_and_says_how_many_there_are(show: Show) -> None:
    given = report(groups=400, rebalances=6000)
    opened = show(given)
    opened.go("rebalances")
    grid = opened.page.get_by_role("grid", name="Rebalances", exact=True)
    assert grid.get_attribute("aria-rowcount") == "6001"
    assert 0 < grid.get_by_role("row").count() < 100
    newest = max(given["rebalances"]["list"]["columns"]["started_at"])
    first = grid.locator(".tabulator-row").first
    assert first.locator("time").get_attribute("datetime", timeout=1000) == iso(newest)
    assert first.get_attribute("aria-rowindex") == "2"
    control(opened, "Cause").select_option("topics_changed")
    opened.settle()
    wanted = sum("topics_changed" in one for one in values(given["rebalances"]["list"], "causes"))
    assert grid.get_attribute("aria-rowcount") == str(wanted + 1)


def iso(ms: int) -> str:
    at = datetime.fromtimestamp(ms / 1000, UTC)
    return at.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def test_the_keyboard_reaches_everything_and_sorts(show: Show) -> None:
    given = report()
    opened = show(given)
    opened.page.keyboard.press("Tab")
    assert opened.page.evaluate("document.activeElement.textContent") == "Skip to the content"
    opened.page.keyboard.press("Enter")
    assert opened.page.evaluate("document.activeElement.id") == "main"
    opened.go("groups")
    header = opened.page.get_by_role("columnheader", name="Rebalances")
    header.focus()
    opened.page.keyboard.press("Enter")
    opened.settle()
    assert header.get_attribute("aria-sort") == "descending"
    counts = given["groups"]["columns"]["rebalances"]
    most = max(range(len(counts)), key=counts.__getitem__)
    assert shown_ids(opened)[0] == group_ids(given)[most]
    opened.page.keyboard.press("Enter")
    opened.settle()
    assert header.get_attribute("aria-sort") == "ascending"


def test_going_to_a_group_by_its_id(show: Show) -> None:
    given = report()
    wanted = group_ids(given)[7]
    opened = show(given)
    opened.page.get_by_label("Go to a group").fill(wanted)
    opened.page.keyboard.press("Enter")
    opened.settle()
    assert opened.page.locator("h1").inner_text() == wanted
    opened.page.get_by_label("Go to a group").fill("enricher")
    opened.page.keyboard.press("Enter")
    opened.settle()
    assert f"{sum('enricher' in one for one in group_ids(given))} of 60 groups" in opened.text()
    opened.go("group/no-such-group")
    assert "No such group" in opened.text()


def test_each_chart_has_a_table_of_its_values(show: Show) -> None:
    given = report()
    opened = show(given)
    opened.go("rebalances")
    opened.page.get_by_text("Show as a table").first.click()
    rows = opened.page.locator("figure table").first.locator("tbody tr")
    rows.first.wait_for()
    hours = given["rebalances"]["by_hour"]
    assert rows.count() == hours["length"]
    cells = rows.first.locator("td").all_inner_texts()
    assert cells[:2] == [str(hours["columns"][name][-1]) for name in ("rebalances", "groups")]
    opened.go("")
    labels = opened.page.locator("[role=img].canvas").evaluate_all(
        "all => all.map(one => one.ariaLabel)"
    )
    assert len(labels) == 2
    assert all(labels)


def test_rebalances_of_one_hour_are_counted_in_shorter_steps(show: Show) -> None:
    given = report()
    times = given["rebalances"]["list"]["columns"]["started_at"]
    hour = END - END % 3_600_000
    step = 20 * 60_000 // len(times)
    times[:] = [hour + number * step for number in range(len(times))]
    hours = given["rebalances"]["by_hour"]
    hours["length"] = 1
    hours["columns"] = {name: column[:1] for name, column in hours["columns"].items()}
    opened = show(given)
    opened.go("rebalances")
    opened.page.get_by_text("Show as a table").first.click()
    rows = opened.page.locator("figure table").first.locator("tbody tr")
    rows.first.wait_for()
    counts = [int(one) for one in rows.locator("td:last-child").all_inner_texts()]
    causes = values(given["rebalances"]["list"], "causes")
    assert sum(counts) == sum(len(one) for one in causes)
    assert len(counts) > 20


def test_a_chart_does_not_hide_what_lanes_have_in_common(show: Show) -> None:
    """Long names lose what all of them begin with, and no two lanes get the same label."""
    given = report()
    line = given["timelines"][2]
    names = line["members"]["columns"]["name"]
    names[:] = ["a-service-with-a-long-name-in-production-" + name for name in names]
    opened = show(given, viewport={"width": 400, "height": 900})
    opened.go(f"group/{quote(group_ids(given)[line['group']], safe='')}")
    card = opened.page.get_by_role("region", name="Timeline")
    card.scroll_into_view_if_needed()
    opened.settle()
    read = "() => echarts.getInstanceByDom(document.querySelector('[role=img].canvas')).getOption()"
    format_ = f"() => {{ const y = ({read})().yAxis[1]; return y.data.map(y.axisLabel.formatter) }}"
    clients = len(set(line["members"]["columns"]["client"]))
    assert opened.page.evaluate(format_) == [f"…-worker-{one}" for one in range(clients)]


def test_the_timeline_and_its_tables(show: Show) -> None:
    given = report()
    line = given["timelines"][2]
    opened = show(given)
    opened.go(f"group/{quote(group_ids(given)[line['group']], safe='')}")
    card = opened.page.get_by_role("region", name="Timeline")
    card.scroll_into_view_if_needed()
    opened.settle()
    assert card.locator("canvas").count() == 1
    before = card.locator("canvas").screenshot()
    card.get_by_label("Zoom to a rebalance").select_option(index=2)
    opened.settle()
    zoomed = card.locator("canvas").screenshot()
    assert zoomed != before
    for name in ("Zoom in", "Zoom out"):
        card.get_by_role("button", name=name).click()
    card.get_by_role("button", name="By partition").click()
    opened.settle()
    assert card.get_by_role("button", name="By partition").get_attribute("aria-pressed") == "true"
    assert "12 lanes" in str(card.locator("[role=img]").get_attribute("aria-label"))
    assert card.locator("canvas").screenshot() != zoomed
    card.get_by_text("Show as tables").click()
    opened.settle()
    grids = card.get_by_role("grid")
    parts = [("owned",), ("states",), ("unowned", "stalls")]
    for number, names in enumerate(parts):
        count = sum(line[name]["length"] for name in names)
        assert grids.nth(number).get_attribute("aria-rowcount") == str(count + 1)
    assert "worker-1 left and joined again" in opened.text()
    assert opened.complaints == []


def test_a_group_without_a_timeline_names_the_command(show: Show) -> None:
    given = report()
    given["groups"]["columns"]["group_id"][-1] = "o'brien group"
    opened = show(given)
    opened.go("group/" + quote("o'brien group"))
    assert "kip848 history 'o'\\''brien group'" in opened.text()


def test_times_are_utc_and_local_on_hover(show: Show) -> None:
    given = report()
    opened = show(given, timezone_id="Asia/Tokyo", locale="en-GB")
    at = datetime.fromtimestamp(END / 1000, UTC)
    element = opened.page.locator(".status time").first
    assert element.inner_text() == at.strftime("%Y-%m-%d %H:%M:%S")
    there = at.astimezone(ZoneInfo("Asia/Tokyo"))
    assert there.strftime("%H:%M:%S") in str(element.get_attribute("title"))
    assert there.strftime("%H:%M:%S") not in element.inner_text()


def test_the_theme_follows_the_system_until_somebody_chooses(show: Show) -> None:
    def background(opened: Opened) -> str:
        found: str = opened.page.evaluate("getComputedStyle(document.body).backgroundColor")
        return found

    light, dark = show(report(), color_scheme="light"), show(report(), color_scheme="dark")
    assert background(light) != background(dark)
    button = light.page.get_by_role("button", name="Theme")
    button.click()
    assert button.inner_text() == "Theme: light"
    button.click()
    assert background(light) == background(dark)
    light.page.reload()
    light.page.wait_for_selector("html[data-ready]", state="attached")
    assert background(light) == background(dark)


def test_print_has_plain_tables_in_light_colours(show: Show) -> None:
    given = report()
    opened = show(given, color_scheme="dark")
    opened.go("groups")
    opened.page.emulate_media(media="print")
    opened.page.evaluate("window.dispatchEvent(new Event('beforeprint'))")
    assert not opened.page.locator(".tabulator").is_visible()
    rows = opened.page.locator(".print-table tbody tr")
    assert rows.count() == given["groups"]["length"]
    assert opened.page.evaluate("getComputedStyle(document.body).color") == "rgb(27, 31, 35)"
    opened.page.evaluate("window.dispatchEvent(new Event('afterprint'))")
    opened.page.emulate_media(media="screen")
    assert opened.page.locator(".tabulator").is_visible()
    assert rows.count() == 0


def test_a_search_without_matches_is_a_row_after_each_drawing(show: Show) -> None:
    opened = show(report())
    opened.go("groups?search=nothing-is-called-like-this")
    for width in (1280, 700, 1000):
        opened.page.set_viewport_size({"width": width, "height": 900})
        opened.page.wait_for_timeout(200)
        cell = (
            opened.page.get_by_role("grid")
            .get_by_role("rowgroup")
            .get_by_role("row")
            .get_by_role("gridcell")
        )
        assert cell.all_inner_texts() == ["No group matches the search and the filters."]


@pytest.mark.slow
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 400])
def test_views_fit_and_are_accessible(show: Show, tmp_path: Path, scheme: str, width: int) -> None:
    given = report()
    size = {"width": width, "height": 900}
    opened = show(given, color_scheme=scheme, viewport=size, bypass_csp=True)
    opened.page.evaluate(AXE.read_text())
    for view in [*addresses(given), "groups?search=nothing-is-called-like-this"]:
        opened.go(view)
        name = view.replace("?", "/").split("/")[0] or "overview"
        path = tmp_path / f"{name}-{width}-{scheme}.png"
        opened.page.screenshot(path=path, full_page=True)
        assert opened.page.evaluate("document.documentElement.scrollWidth") <= width, view
        found = opened.page.evaluate("async () => (await axe.run()).violations")
        bad = [
            (one["id"], one["nodes"][0]["html"], one["nodes"][0]["failureSummary"])
            for one in found
            if one["impact"] in ("serious", "critical")
        ]
        assert bad == [], view
