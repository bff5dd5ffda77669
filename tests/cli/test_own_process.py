"""Verbs that end with a Spark session of their own: each in a process, as a shell starts it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from tests.captures import COMMITTED
from tests.conftest import DATA

pytestmark = pytest.mark.slow

CAPTURE = DATA / "kafka-4.3.1" / COMMITTED
SOURCE = f"parquet:{CAPTURE}"


def started(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "kip848_spark", *arguments],
        capture_output=True,
        text=True,
        check=False,
    )


def kip848(*arguments: str) -> str:
    done = started(*arguments)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_dump_prints_every_record() -> None:
    lines = [json.loads(line) for line in kip848("dump", "--source", SOURCE).splitlines()]
    table = pq.read_table(CAPTURE, columns=["partition", "offset"])
    expected = zip(*(column.to_pylist() for column in table.columns), strict=True)
    assert [(line["partition"], line["offset"]) for line in lines] == sorted(expected)


def test_capture_is_read_back_and_asked(tmp_path: Path) -> None:
    copy, lake = str(tmp_path / "copy"), str(tmp_path / "lake")
    kip848("capture", "--source", SOURCE, "--out", copy)
    kip848("run", "--source", f"parquet:{copy}", "--lake", lake)
    query = (
        "select (select count(*) from records) as n, "
        "(select collect_list(group_id) from groups) as names"
    )
    (asked,) = json.loads(kip848("sql", "--lake", lake, "--json", query))
    assert asked["n"] == pq.read_metadata(CAPTURE).num_rows
    shown = kip848("groups", "--all", "--lake", lake, "--json")
    listed = {group["group_id"] for group in json.loads(shown)}
    assert listed == set(asked["names"]) != set()
    wrong = started("sql", "--lake", lake, "select nonsense from records")
    assert wrong.returncode == 2
    assert "There is no column nonsense" in wrong.stderr
    assert len(wrong.stderr) < 500, wrong.stderr
