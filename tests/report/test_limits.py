"""What a report leaves out: because of its size, or because a lake does not have it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kip848_spark.lake.location import locate
from kip848_spark.lake.snapshot import LakeSnapshot
from kip848_spark.report import (
    finding_rows,
    groups,
    history_rows,
    hygiene_rows,
    member_rows,
    overview,
    rebalance_rows,
    stalls,
    timelines,
)
from kip848_spark.report.data import report_data
from tests.insight.story_rows import GROUP, at
from tests.lake.billing_lake import REBALANCES, write_billing_lake
from tests.lake.written_lake import write_lake
from tests.report.audited_lake import REWINDS, write_audited_lake
from tests.report.report_reader import group_names, rows_of

Report = dict[str, Any]


def report_of(path: Path) -> Report:
    return report_data(LakeSnapshot(locate(str(path))))


@pytest.mark.parametrize(
    ("module", "limit", "sentence", "table", "kept"),
    [
        (rebalance_rows, "MOST_REBALANCES", "Rebalances: the last 1 of 2", "rebalances.list", 1),
        (finding_rows, "MOST_FINDINGS", "Findings: 1 of 4", "findings", 1),
        (overview, "MOST_GAPS", "Gaps: the 1 largest of 3", "overview.gap_list", 1),
        (overview, "MOST_RUNS", "Runs: the last 1 of 3", "overview.runs", 1),
        (member_rows, "MOST_MEMBERS", "Members: those of the 1 largest", "members", 1),
        (hygiene_rows, "MOST_ROWS", "Commits that went back: 1 of 2", "hygiene.rewinds", 1),
    ],
)
def test_a_list_that_is_cut_says_so(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    module: Any,
    limit: str,
    sentence: str,
    table: str,
    kept: int,
) -> None:
    monkeypatch.setattr(module, limit, kept)
    second = REWINDS[0] | {"offset": 107, "at": at(30)}
    report = report_of(write_audited_lake(tmp_path / "lake", rewinds=[*REWINDS, second]))
    found: Any = report
    for name in table.split("."):
        found = found[name]
    assert found["length"] == kept
    assert any(one.startswith(sentence) for one in report["left_out"]), report["left_out"]
    # The sums do not depend on what is listed.
    assert report["summary"]["rebalances"] == 2
    assert report["summary"]["findings"] == 4


def test_the_newest_rebalances_are_kept_and_a_finding_points_to_no_row_that_is_cut(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rebalance_rows, "MOST_REBALANCES", 1)
    monkeypatch.setattr(finding_rows, "MOST_FINDINGS", 2)
    report = report_of(write_audited_lake(tmp_path / "lake"))
    assert [row["epoch"] for row in rows_of(report["rebalances"]["list"])] == [43]
    assert all(row["root"] is None for row in rows_of(report["findings"]))
    marks = rows_of(report["timelines"][0]["marks"])
    assert [(mark["epoch"], mark["row"]) for mark in marks] == [(43, 0)]


def test_groups_to_which_something_happened_are_listed_and_then_those_with_members(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(groups, "MOST_GROUPS", 3)
    numbers = {"partition": 3, "last_offset": 1}
    current = [
        {"group_id": f"job-{hour}", "type": "classic", "members": 0, "updated_at": at(hour * 3600)}
        | numbers
        for hour in range(1, 5)
    ]
    joined = current[0] | {"group_id": "joined", "members": 2, "updated_at": at(0)}
    named = current[0] | {"group_id": GROUP, "updated_at": at(-3600)}
    path = tmp_path / "lake"
    write_lake(path, {"groups": [*current, joined, named], "rebalances": REBALANCES})
    report = report_of(path)
    assert group_names(report) == sorted([GROUP, "joined", "job-4"])
    assert report["summary"]["groups"] == 6
    assert report["summary"]["groups_deleted"] == 0
    assert any(one.startswith("Groups: 3 of 6 are listed") for one in report["left_out"])
    listed = report["readiness"]["list"]["columns"]["group"]
    assert sorted(listed) == [0, 1, 2]
    assert sum(row["groups"] for row in rows_of(report["readiness"]["verdicts"])) == 6


def test_few_timelines_of_the_groups_to_which_most_happened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(history_rows, "MOST_TIMELINES", 1)
    report = report_of(write_audited_lake(tmp_path / "lake"))
    assert [one["group"] for one in report["timelines"]] == [group_names(report).index(GROUP)]
    assert any(one.startswith("Timelines: 1 of 4 groups") for one in report["left_out"])


def test_a_timeline_with_too_many_intervals_begins_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(timelines, "MOST_ROWS", 3)
    drawn = report_of(write_audited_lake(tmp_path / "lake"))["timelines"][0]
    after = round(at(38.2).timestamp() * 1000)
    assert {row["from"] for row in rows_of(drawn["owned"])} == {after}
    assert drawn["from"] >= after
    assert drawn["cut"]


def test_all_timelines_together_have_a_limit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The group with most rebalances has 21 intervals, the group `reports` has one."""
    lake = write_audited_lake(tmp_path / "lake")
    assert len(report_of(lake)["timelines"]) == 2
    monkeypatch.setattr(timelines, "MOST_ROWS_IN_ALL", 21)
    report = report_of(lake)
    assert [one["group"] for one in report["timelines"]] == [group_names(report).index(GROUP)]
    assert any(one.startswith("Timelines: 1 of 4 groups") for one in report["left_out"])


def test_history_rows_that_are_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(history_rows, "MOST_ROWS_READ", 30)
    report = report_of(write_audited_lake(tmp_path / "lake"))
    assert any("they begin at 2026-11-20" in one for one in report["left_out"])


def test_commits_of_a_large_lake_are_not_looked_at(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stalls, "MOST_RECORDS", 1)
    report = report_of(write_audited_lake(tmp_path / "lake"))
    assert not report["timelines"][0]["stalls_known"]
    assert any("commits that came to a stop are not marked" in one for one in report["left_out"])


OLD = (
    "group_history", "member_history", "assignment_history", "rebalances", "commit_summaries",
    "offset_activity", "rewinds",
)  # fmt: skip


def test_a_lake_of_an_earlier_version_gets_a_report_that_says_what_is_missing(
    tmp_path: Path,
) -> None:
    report = report_of(write_billing_lake(tmp_path / "lake", without=OLD))
    assert "No run has audited" in report["missing_sections"]["audit"]
    assert report["hygiene"] is None
    assert report["timelines"] == []
    assert report["rebalances"]["list"]["length"] == 0
    assert report["summary"]["groups"] == 2
    assert {"history", "rebalances", "hygiene", "audit", "topics"} <= report[
        "missing_sections"
    ].keys()
    assert "group_history" in report["missing_sections"]["history"]
    assert report["missing_sections"]["hygiene"] in report["missing"]


def test_a_lake_from_before_the_audit(tmp_path: Path) -> None:
    without = (*OLD, "agreement", "findings", "gaps", "group_records")
    report = report_of(write_billing_lake(tmp_path / "lake", without=without))
    assert "agreement, findings" in report["missing_sections"]["audit"]
    assert report["findings"]["length"] == report["overview"]["gaps"]["length"] == 0
    assert report["overview"]["records_by_kind"]["length"] == 0
    assert report["summary"]["groups"] == 2


def test_an_empty_lake(tmp_path: Path) -> None:
    write_lake(tmp_path / "lake", {})
    report = report_of(tmp_path / "lake")
    assert report["summary"]["groups"] == 0
    assert report["period"] == {"from": None, "to": None}
    assert report["rebalances"]["sentence"] == "no rebalances"
