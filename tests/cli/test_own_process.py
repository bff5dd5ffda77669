"""Verbs that end with a Spark session of their own: each in a process, as a shell starts it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pyarrow.parquet as pq
import pytest

from tests.captures import COMMITTED
from tests.conftest import DATA
from tests.lake.written_lake import write_lake

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


def test_the_report_of_share_groups(tmp_path: Path) -> None:
    """Its stories need columns that those of other groups don't need."""
    capture, page = f"parquet:{DATA / 'shares-4.1.2' / COMMITTED}", tmp_path / "page.html"
    lake = str(tmp_path / "lake")
    done = started("run", "--source", capture, "--lake", lake, "--report", str(page))
    assert done.returncode == 0, done.stderr
    data = json.loads(page.with_suffix(".json").read_bytes())
    texts = [
        text
        for timeline in data["timelines"]
        for story in timeline["stories"]
        for _, text in story["lines"]
    ]
    assert any("the share state of" in text for text in texts)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_verb_that_is_told_to_stop(number: signal.Signals, tmp_path: Path) -> None:
    """Also one that is no nightly job, while it starts Spark: its JVM ends too."""
    lake = tmp_path / "lake"
    write_lake(lake, {})
    words = [sys.executable, "-m", "kip848_spark", "maintain", "--lake", str(lake)]
    with subprocess.Popen(words, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        verb, jvms = psutil.Process(process.pid), list[psutil.Process]()
        end = time.monotonic() + 60
        while not jvms and time.monotonic() < end:
            time.sleep(0.02)
            jvms = [one for one in verb.children(recursive=True) if one.name() == "java"]
        process.send_signal(number)
        error = process.stderr.read()
    terminated = number == signal.SIGTERM
    assert process.returncode == (143 if terminated else 130)
    assert error.split()[-1] == ("terminated" if terminated else "interrupted")
    assert "Traceback" not in error
    assert psutil.wait_procs(jvms, 60)[1] == [] != jvms


def test_ctrl_c_during_the_imports(tmp_path: Path) -> None:
    """The module that is imported first waits for it."""
    (tmp_path / "typer.py").write_text("print('begun', flush=True)\nwhile True: pass\n")
    words = [sys.executable, "-m", "kip848_spark", "groups"]
    path = {**os.environ, "PYTHONPATH": str(tmp_path)}
    pipe = subprocess.PIPE
    with subprocess.Popen(words, env=path, stdout=pipe, stderr=pipe, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "begun\n"
        process.send_signal(signal.SIGINT)
        _, error = process.communicate(timeout=30)
    assert (process.returncode, error) == (-signal.SIGINT, "")
