"""The report of a lake whose last records, or all of them, were not replayed."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from kip848_spark import Lake, write_report
from tests.insight.story_rows import GROUP
from tests.lake.billing_lake import write_billing_lake
from tests.lake.written_lake import write_lake
from tests.report.audited_lake import CONTROL
from tests.report.conftest import Opened

Show = Callable[..., Opened]
SENTENCE = "The last records of the lake were not replayed. Run `kip848 replay` first."
ON_THE_PAGE = SENTENCE.replace("`", "")


def report_of(lake: Path) -> dict[str, Any]:
    return dict(write_report(Lake(str(lake)), lake.parent / "report.html"))


def test_a_lake_without_a_replay_makes_no_claim_about_groups(show: Show, tmp_path: Path) -> None:
    write_lake(tmp_path / "lake", {"group_records": CONTROL}, run={"replayed_through": None})
    report = report_of(tmp_path / "lake")
    assert report["missing"][0].startswith(SENTENCE)
    assert report["missing_sections"]["replay"] == report["missing"][0]
    opened = show(report)
    text = opened.text()
    assert "The groups of this lake are not known yet" in text
    assert "no consumer groups" not in text
    assert "no groups" not in text
    assert "Commits among the records that were not replayed are not counted." in text
    tiles = opened.page.locator(".tile dt").all_inner_texts()
    assert [tile.lower() for tile in tiles] == ["findings", "records read"]
    for view in ("", "rebalances", "readiness", "hygiene", "findings", "groups"):
        opened.go(view)
        assert ON_THE_PAGE in opened.page.locator(".note").first.inner_text(), view
    opened.go("groups")
    assert opened.text().split("\n")[0] == "Groups"
    assert "no groups" not in opened.text()
    assert opened.complaints == []


def test_a_lake_whose_replay_lags_behind_says_so(show: Show, tmp_path: Path) -> None:
    lake = write_billing_lake(tmp_path / "lake", run={"replayed_through": "20261121T040000"})
    report = report_of(lake)
    assert report["missing"][0].startswith(SENTENCE)
    opened = show(report)
    assert ON_THE_PAGE in opened.text()
    assert "not known yet" not in opened.text()
    opened.go("groups")
    assert ON_THE_PAGE in opened.text()
    assert GROUP in opened.text()
    opened.go("group/" + GROUP)
    assert ON_THE_PAGE in opened.text()


def test_a_lake_that_was_replayed_has_no_such_sentence(tmp_path: Path) -> None:
    report = report_of(write_billing_lake(tmp_path / "lake"))
    assert "replay" not in report["missing_sections"]
