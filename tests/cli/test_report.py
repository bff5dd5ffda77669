"""`kip848 report`: the files that it writes, and what it refuses."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from kip848_spark import Lake, write_report
from kip848_spark.errors import UsageError
from kip848_spark.report import files
from tests.cli.command import Command
from tests.lake.written_lake import write_lake
from tests.report.audited_lake import HOSTILE, write_audited_lake
from tests.report.report_reader import group_names


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(write_audited_lake(tmp_path_factory.mktemp("report") / "lake"))


def test_the_page_and_its_data(kip848: Command, lake: str, tmp_path: Path) -> None:
    page = tmp_path / "night.html"
    ended = kip848("report", "--lake", lake, "--out", str(page))
    assert ended.code == 0, ended
    assert str(page) in ended.out
    assert str(tmp_path / "night.json") in ended.out
    assert sorted(path.name for path in tmp_path.iterdir()) == ["night.html", "night.json"]
    report = json.loads((tmp_path / "night.json").read_text())
    assert report["format"] == 1
    assert HOSTILE in group_names(report)
    html = page.read_text()
    assert html.lstrip().lower().startswith("<!doctype html>")
    assert "<script>alert(1)" not in html
    assert "\x00" not in html
    assert "\x1b" not in html
    # The names are in the page's data, where "<" is an escape of 6 bytes.
    data = (tmp_path / "night.json").stat().st_size
    assert page.stat().st_size - 6 * data < 2_000_000


def test_json_says_where_the_files_are(kip848: Command, lake: str, tmp_path: Path) -> None:
    page = tmp_path / "report.html"
    ended = kip848("report", "--lake", lake, "--out", str(page), "--json")
    printed = json.loads(ended.out)
    assert (printed["page"], printed["data"]) == (str(page), str(tmp_path / "report.json"))
    assert printed["page_bytes"] == page.stat().st_size
    assert printed["summary"]["groups"] == 3


def test_the_function_of_the_api_returns_what_the_file_has(lake: str, tmp_path: Path) -> None:
    page = tmp_path / "report.html"
    report = write_report(Lake(lake), page, since="2026-11-20T02:15")
    assert json.loads(page.with_suffix(".json").read_text()) == report
    assert report["summary"]["rebalances"] == 1
    with pytest.raises(UsageError, match="is not a time"):
        write_report(Lake(lake), page, since="lately")


def test_since_and_release(kip848: Command, lake: str, tmp_path: Path) -> None:
    page = tmp_path / "report.html"
    options = ("--since", "2026-11-20T02:15", "--release", "4.0.0")
    assert kip848("report", "--lake", lake, "--out", str(page), *options).code == 0
    report = json.loads(page.with_suffix(".json").read_text())
    assert report["summary"]["rebalances"] == 1
    assert report["readiness"]["release"].startswith("4.0.0")


def test_an_earlier_report_stays_if_the_new_one_fails(
    kip848: Command, lake: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = tmp_path / "report.html"
    for path in (page, page.with_suffix(".json")):
        path.write_text("of yesterday")

    def fail(report: Any) -> str:
        raise RuntimeError

    monkeypatch.setattr(files, "render", fail)
    assert kip848("report", "--lake", lake, "--out", str(page)).code == 70
    assert [path.read_text() for path in sorted(tmp_path.iterdir())] == ["of yesterday"] * 2


@pytest.mark.parametrize("json_too", [False, True])
def test_a_file_name_that_is_no_unicode(
    kip848: Command, lake: str, tmp_path: Path, json_too: bool
) -> None:
    """A file name may have any bytes; Python keeps those that are no UTF-8 as lone surrogates."""
    page = tmp_path / os.fsdecode(b"report-\xff.html")
    ended = kip848("report", "--lake", lake, "--out", str(page), *(["--json"] if json_too else []))
    assert ended.code == 0, ended
    assert page.is_file()
    assert "report-" in ended.out


def test_texts_that_are_no_unicode_are_written() -> None:
    report = {"lake": {"path": "a\udcff\U0001f600"}, "\ud800": ["x", 1, None]}
    assert files.valid_texts(report) == {
        "lake": {"path": "a\ufffd\U0001f600"},
        "\ufffd": ["x", 1, None],
    }


@pytest.mark.parametrize(
    ("options", "code", "message"),
    [
        ((), 2, "No page is named. Add --out report.html."),
        (("--out", "report.pdf"), 2, "report.pdf does not end with .html."),
        (("--out", "nowhere/report.html"), 2, "There is no folder"),
        (("--out", "folder.html"), 2, "folder.html is a folder."),
        (("--out", "report.html", "--release", "four"), 2, "--release 4.3.1"),
        (("--out", "report.html", "--since", "lately"), 2, "--since"),
        (("--out", "report.html", "--lake", "nowhere"), 3, "There is no lake at nowhere."),
    ],
)
def test_what_is_refused(
    kip848: Command,
    lake: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    options: tuple[str, ...],
    code: int,
    message: str,
) -> None:
    (tmp_path / "folder.html").mkdir()
    monkeypatch.chdir(tmp_path)
    ended = kip848("report", "--lake", lake, *options)
    assert ended.code == code, ended
    assert message in ended.err
    assert "Traceback" not in ended.err
    assert [path.name for path in tmp_path.iterdir()] == ["folder.html"]


def test_a_lake_without_a_finished_run(kip848: Command, tmp_path: Path) -> None:
    write_lake(tmp_path / "lake", {})
    for file in (tmp_path / "lake" / "runs" / "_delta_log").glob("*[1-9].json"):
        file.unlink()
    ended = kip848(
        "report", "--lake", str(tmp_path / "lake"), "--out", str(tmp_path / "report.html")
    )
    assert ended.code == 3
    assert "No run of the lake" in ended.err
