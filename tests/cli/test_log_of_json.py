"""`KIP848_LOG_FORMAT=json`: all that a command says on standard error is JSON, an object a line."""

from __future__ import annotations

import io
import json
import re
import sys
from pathlib import Path
from typing import Any

import pytest

import kip848_spark
from kip848_spark.cli.display import note, say, warn
from kip848_spark.errors import INTERRUPTED
from tests.cli.command import Command, Ended
from tests.insight.story_rows import GROUP
from tests.report.audited_lake import SECOND, write_audited_lake

PACKAGE = Path(kip848_spark.__file__).parent


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(write_audited_lake(tmp_path_factory.mktemp("log") / "lake"))


@pytest.fixture
def json_log(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KIP848_LOG_FORMAT", "json")


def logged(ended: Ended) -> list[dict[str, Any]]:
    """The log lines without their times."""
    lines = [json.loads(line) for line in ended.err_lines]
    for line in lines:
        assert line.pop("time").endswith("+00:00")
    return lines


def said(level: str, message: str, **fields: Any) -> dict[str, Any]:
    return {"level": level, "message": message, **fields}


@pytest.mark.usefixtures("json_log")
def test_what_commands_say(kip848: Command, lake: str, tmp_path: Path) -> None:
    """Each of these sentences was printed as text once, in the middle of the log."""
    (noted,) = logged(kip848("findings", "--lake", lake))
    assert noted["level"] == "info"
    assert noted["message"].startswith(f"The last audit (run {SECOND}) was only of a part of")
    at_a_time = ("groups", "--lake", lake, "--as-of", "2026-11-20T02:14:30")
    assert logged(kip848(*at_a_time)) == [said("info", "State at 2026-11-20 02:14:30 UTC")]
    script = tmp_path / "empty"
    script.touch()
    ended = kip848("coordinate", "--script", str(script), "--release", "4.2")
    assert logged(ended) == [said("info", "Release 4.2 means 4.2.2 here.")]
    newest = kip848("readiness", "--lake", lake, "--release", "99.0.0")
    (warned,) = logged(newest)
    assert warned["level"] == "warning"
    assert warned["message"].startswith("Release 99.0.0 is newer than ")
    rows = kip848("sql", "--lake", lake, f"SELECT group_id FROM groups WHERE group_id = '{GROUP}'")
    assert logged(rows) == [said("info", "1 row")]


@pytest.mark.usefixtures("json_log")
def test_errors_at_the_prompt(kip848: Command, lake: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO("SELECT * FROM finding\n"))
    (line,) = logged(kip848("sql", "--lake", lake))
    hint = "Did you mean findings?"
    message = "There is no table finding (line 1, column 15)."
    assert line == said("error", message, hint=hint)


@pytest.mark.usefixtures("json_log")
def test_the_end_of_a_command(kip848: Command, lake: str, monkeypatch: pytest.MonkeyPatch) -> None:
    (line,) = logged(kip848("findings", "--lake", lake, "--run", "none"))
    assert (line["level"], line["exit_code"]) == ("error", 2)
    assert line["hint"].startswith("The last one that did is")

    def stopped() -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("kip848_spark.cli.app", stopped)
    ended = kip848()
    assert ended.code == INTERRUPTED
    assert logged(ended) == [said("error", "interrupted", exit_code=INTERRUPTED)]


@pytest.mark.parametrize("log_format", ["text", "json"])
def test_names_in_sentences(
    log_format: str, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """In a text, markup has no meaning and control characters are escaped. JSON escapes itself."""
    monkeypatch.setenv("KIP848_LOG_FORMAT", log_format)
    name = "[bold]evil[/]\x1b[0m"
    note(name)
    warn(name, lead="Two groups:", hint="kip848 groups")
    say(name, style="dim", level="error", exit_code=7)
    lines = capfd.readouterr().err.splitlines()
    if log_format == "text":
        shown = r"[bold]evil[/]\x1b[0m"
        assert lines == [
            f"note {shown}",
            f" warning  Two groups: {shown}",
            "    kip848 groups",
            shown,
        ]
        return
    assert logged(Ended(0, "", "", tuple(lines))) == [
        said("info", name),
        said("warning", f"Two groups: {name}", hint="kip848 groups"),
        said("error", name, exit_code=7),
    ]


def test_a_text_is_folded_only_if_asked(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("kip848_spark.cli.display.err._width", 20)
    say("ten letters and more of them")
    say("ten letters and more of them", wrap=True)
    assert capfd.readouterr().err.splitlines() == [
        "ten letters and more of them",
        "ten letters and more",
        "of them",
    ]


def test_only_one_module_prints_on_standard_error() -> None:
    """ruff refuses the import of `display.err` elsewhere. This is about other ways."""
    way = re.compile(r"stderr=True|file=sys\.stderr|stderr\.write|err=True|print_exc\(")
    found = {
        str(path.relative_to(PACKAGE))
        for path in PACKAGE.rglob("*.py")
        if way.search(path.read_text())
    }
    assert found == {"cli/display.py"}
