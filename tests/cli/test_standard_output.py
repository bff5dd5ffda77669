"""Verbs whose standard output is full, or whose reader has closed it: each in a process."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import IO

import pytest

from tests.insight.story_rows import GROUP
from tests.report.audited_lake import write_audited_lake

VERBS = [
    ["groups"],
    ["groups", "--json"],
    ["explain", GROUP],
    ["readiness"],
    ["sql", "SELECT * FROM groups"],
    ["sql", "--format", "csv", "SELECT * FROM group_records"],
]


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_audited_lake(tmp_path_factory.mktemp("output") / "lake")


def ended(lake: Path, arguments: list[str], stdout: IO[bytes] | int) -> tuple[int, list[str]]:
    """The exit code, and the lines of standard error that are no notes and counts."""
    done = subprocess.run(
        [sys.executable, "-m", "kip848_spark", *arguments, "--lake", str(lake)],
        stdout=stdout,
        stderr=subprocess.PIPE,
        text=True,
        check=False,
    )
    lines = done.stderr.splitlines()
    return done.returncode, [line for line in lines if "error" in line or "Traceback" in line]


@pytest.mark.parametrize("arguments", VERBS, ids=" ".join)
def test_a_full_output_is_an_error_in_a_sentence(lake: Path, arguments: list[str]) -> None:
    with Path("/dev/full").open("wb") as full:
        code, lines = ended(lake, arguments, full)
    assert lines == ["error: Standard output can't be written: No space left on device."]
    assert code == 3


def test_a_report_is_written_even_if_nobody_can_be_told(lake: Path, tmp_path: Path) -> None:
    page = tmp_path / "report.html"
    with Path("/dev/full").open("wb") as full:
        code, lines = ended(lake, ["report", "--out", str(page)], full)
    assert lines == ["error: Standard output can't be written: No space left on device."]
    assert code == 3
    assert page.is_file()


@pytest.mark.parametrize("arguments", VERBS, ids=" ".join)
def test_a_reader_that_has_enough_is_no_error(lake: Path, arguments: list[str]) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    try:
        assert ended(lake, arguments, writer) == (0, [])
    finally:
        os.close(writer)
