"""The demo as a shell runs it: it agrees with the broker, and it leaves nothing behind."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest

from tests.documentation import blocks

pytestmark = pytest.mark.slow

LEAVING_SECONDS = 30
OTHER_CLUSTER = """
source = "kafka:127.0.0.1:1"
topic = "offsets_of_another_cluster"
[kafka]
"security.protocol" = "SASL_SSL"
"sasl.password" = "${NOT_SET}"
"""


@contextmanager
def demo(lake: Path) -> Iterator[subprocess.Popen[str]]:
    """The demo in a session of its own, so that Ctrl-C can be sent to all of it. The settings file
    in the working folder is for another cluster."""
    (lake.parent / "kip848.toml").write_text(OTHER_CLUSTER)
    process = subprocess.Popen(
        [sys.executable, "-m", "kip848_spark", "demo", "--lake", str(lake)],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
        cwd=lake.parent,
    )
    try:
        yield process
    finally:
        for left in family(process):
            left.kill()
        process.wait()


def family(process: subprocess.Popen[str]) -> list[psutil.Process]:
    """The process and all that came of it, as far as they live."""
    try:
        parent = psutil.Process(process.pid)
        return [parent, *parent.children(recursive=True)]
    except psutil.NoSuchProcess:
        return []


def gone(processes: list[psutil.Process]) -> bool:
    _, alive = psutil.wait_procs(processes, LEAVING_SECONDS)
    return not [p for p in alive if p.is_running() and p.status() != psutil.STATUS_ZOMBIE]


def numberless(text: str) -> str:
    return re.sub(r"[\d,]+", "N", text)


def shown_in_the_readme() -> list[str]:
    """The lines of the demo's output that README shows and that every demo prints, but for the
    numbers."""
    outputs = (b.text for b in blocks("README.md") if b.language == "text")
    (shown,) = (text for text in outputs if "Against the live broker" in text)
    always = ("Ledger", "Audit", "Against", "0 differences")
    return [numberless(line) for line in shown.splitlines() if line.startswith(always)]


@pytest.mark.timeout(900)
def test_the_demo_agrees_with_the_broker(tmp_path: Path) -> None:
    with demo(tmp_path / "lake") as process:
        seen: dict[int, psutil.Process] = {}
        assert process.stdout is not None
        lines = []
        for line in process.stdout:
            lines.append(line)
            seen |= {p.pid: p for p in family(process)}
        assert process.wait(LEAVING_SECONDS) == 0, "".join(lines)
        text = "".join(lines)
        assert "\n0 differences\n" in text
        page = tmp_path / "lake-report.html"
        assert str(page) in text.splitlines()[-1]
        report = json.loads(page.with_suffix(".json").read_text())
        assert report["readiness"]["release"].startswith("4.3.1")
        assert report["hygiene"]["deleted_topics"] is not None  # the broker was asked
        assert report["summary"]["rebalances"] > 10
        assert report["summary"]["findings"] == 0
        assert page.stat().st_size < 3_000_000
        assert "WARN" not in text
        assert "Traceback" not in text
        for line in shown_in_the_readme():
            assert line in numberless(text), line
        assert len(seen) > 5  # the broker, Spark and the consumers were real
        assert gone(list(seen.values()))


@pytest.mark.parametrize("moment", ["running consumers", "reading and decoding"])
@pytest.mark.timeout(600)
def test_ctrl_c_leaves_no_process_behind(tmp_path: Path, moment: str) -> None:
    # A step's line appears when it is done, so this waits for the end of the one before.
    before = {"running consumers": "starting a Kafka", "reading and decoding": "creating the lake"}
    with demo(tmp_path / "lake") as process:
        assert process.stdout is not None
        for line in process.stdout:
            if before[moment] in line:
                break
        time.sleep(2)
        started = family(process)
        assert len(started) > 2
        os.killpg(process.pid, signal.SIGINT)
        rest = process.stdout.read()
        assert process.wait(LEAVING_SECONDS) == 130, rest
        assert "Traceback" not in rest
        assert gone(started)
