"""The first view of the page: whether anything is wrong, in which groups, and why."""

from __future__ import annotations

from collections.abc import Callable

from tests.report.conftest import Opened
from tests.report.example import report
from tests.report.test_views import VIEWS, group_ids

Show = Callable[..., Opened]


def test_the_first_view_names_the_groups_in_trouble_and_why(show: Show) -> None:
    given = report()
    ids = group_ids(given)
    opened = show(given)
    text = opened.text()
    assert "Something is wrong in 1 group" in text
    worries = opened.page.locator(".worries > li").all_inner_texts()
    assert [worry.split("\n")[0].strip() for worry in worries] == [ids[1], ids[2], ids[4], ids[3]]
    assert "A member owns a partition that another one has not given up" in worries[0]
    assert "Restart loop: worker-3 on 10.0.3.7 came back 6 times" in worries[1]
    assert "3 committed offsets went back, by up to 10,502" in worries[3]
    opened.page.locator(".worries a").first.click()
    opened.settle()
    assert opened.page.locator("h1").inner_text() == ids[1]


def test_the_first_view_names_the_worst_of_several_loops(show: Show) -> None:
    """Each restart loop is that of another client of the group."""
    given = report()
    rows = given["rebalances"]["patterns"]
    counts = (4, 6, 3)
    rows["columns"] = {
        **{name: [column[0]] * 3 for name, column in rows["columns"].items()},
        "count": list(counts),
        "explanation": [f"worker-{count} left and came back {count} times" for count in counts],
    }
    rows["length"] = 3
    worry = show(given).page.locator(".worries > li").nth(1).inner_text()
    assert group_ids(given)[2] in worry
    assert (
        "Restart loop: worker-6 left and came back 6 times "
        "(the worst of 3 restart loops of this group)"
    ) in worry
    assert worry.count("Restart loop") == 1


def test_a_healthy_cluster_says_so(show: Show) -> None:
    opened = show(report(healthy=True))
    assert "Nothing is wrong" in opened.text()
    opened.go("findings")
    assert "No findings" in opened.text()
    opened.go("rebalances")
    assert "No group rebalanced" in opened.text()


def test_an_empty_lake_says_so(show: Show) -> None:
    opened = show(report(groups=0, healthy=True))
    assert "This lake has no consumer groups" in opened.text()
    for view in VIEWS:
        opened.go(view)
    assert opened.complaints == []


def test_a_lake_without_an_audit_is_not_called_right(show: Show) -> None:
    given = report(healthy=True)
    given["missing_sections"]["audit"] = "No run has audited this lake. `kip848 audit` does."
    given["summary"].update(verified=0, unverifiable=0)
    opened = show(given)
    assert "Nothing is wrong" not in opened.text()
    assert "No run has audited this lake. kip848 audit does." in opened.text()


def test_an_audit_of_a_lake_without_records_is_an_audit(show: Show) -> None:
    given = report(groups=0, healthy=True)
    given["summary"].update(verified=0, unverifiable=0, disagreed=0, records=0)
    agreement = given["overview"]["agreement"]
    agreement["length"] = 0
    agreement["columns"] = {name: [] for name in agreement["columns"]}
    opened = show(given)
    text = opened.text()
    assert "The audit found nothing to check." in text
    for wrong in ("No run has audited", "not audited", "No audit has run"):
        assert wrong not in text
    opened.go("findings")
    assert "The audit found nothing to check." in opened.text()
    assert "No audit has run" not in opened.text()
