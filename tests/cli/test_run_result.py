"""`kip848 run` prints the result of a run that has finished, whatever fails afterwards. The run
itself is replaced: it needs no Spark here."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Callable
from contextlib import nullcontext
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from kip848_spark.cli import jobs, metrics
from kip848_spark.cli.options import Invocation
from kip848_spark.cli.standard_output import ClosedOutput
from kip848_spark.errors import LakeError, OutputError, UsageError
from kip848_spark.kafka.topic import TopicIdentity
from kip848_spark.lake.ledger import DONE, RecordCounts, Run
from kip848_spark.lake.metrics import metrics_text
from kip848_spark.spark import pipeline
from kip848_spark.spark.jobs import audit
from kip848_spark.spark.pipeline import RunOutcome
from tests.cli.command import Command

RUN = Run(
    run_id="20261129T020000.000000Z-aaaa",
    source="parquet:/capture",
    identity=TopicIdentity("__consumer_offsets", None),
    dialect="shipped",
    ranges=(),
    table_versions={},
    started_at=datetime(2026, 11, 29, 2, tzinfo=UTC),
    outcome=DONE,
    counts=RecordCounts(records_read=3, decoded=3),
)
FINDING = {
    "check_name": "epochs",
    "severity": "error",
    "message": "an epoch decreased",
    "group_id": "billing",
}


class FakedRun:
    """Makes `run` do ``then`` and finish, with ``findings``."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
        self.findings: list[dict[str, Any]] = []
        self.then: Callable[[], None] = lambda: None
        self.words = ("run", "--source", f"parquet:{folder}", "--lake", str(folder / "lake"))
        session = nullcontext((None, lambda _: None))
        monkeypatch.setattr(Invocation, "spark", lambda *_, **__: session)
        monkeypatch.setattr(Invocation, "lake", lambda *_: None)
        monkeypatch.setattr(pipeline, "run_ingest", self._run)
        monkeypatch.setattr(audit, "agreement_rows", lambda *_: [])
        monkeypatch.setattr(audit, "findings_rows", lambda *_: self.findings)
        monkeypatch.setattr(jobs, "show_agreement", lambda *_: None)
        monkeypatch.setattr(metrics, "run_metrics", self._metrics)

    def _metrics(self, _lake: object, run: Run, exit_code: int) -> str:
        return metrics_text(run, [], {}, exit_code, 1_800_000_000)

    def _run(self, *_: object, **__: object) -> RunOutcome:
        self.then()
        return RunOutcome(RUN, changed=True)


@pytest.fixture
def faked(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> FakedRun:
    return FakedRun(monkeypatch, tmp_path)


@pytest.mark.parametrize(("findings", "code"), [([], 0), ([FINDING], 1)])
def test_metrics_that_can_not_be_written_hide_no_result(
    kip848: Command, faked: FakedRun, tmp_path: Path, findings: list[dict[str, Any]], code: int
) -> None:
    folder = tmp_path / "metrics"
    folder.mkdir()
    faked.findings, faked.then = findings, folder.rmdir
    ended = kip848(*faked.words, "--json", "--metrics", str(folder / "m.prom"))
    assert ended.code == code
    assert json.loads(ended.out)["run_id"] == RUN.run_id
    assert "warning The metrics can't be written to" in ended.err
    assert "error:" not in ended.err


@pytest.mark.parametrize("output", ["closed", "full"])
@pytest.mark.parametrize("findings", [[], [FINDING]])
def test_an_output_that_can_not_be_written_makes_no_failure_of_a_run(
    kip848: Command,
    faked: FakedRun,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    output: str,
    findings: list[dict[str, Any]],
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise ClosedOutput(0) if output == "closed" else OutputError("The disk is full.")

    monkeypatch.setattr(jobs, "show_outcome", fail)
    monkeypatch.setattr(jobs, "send_result", lambda *_: None)
    faked.findings = findings
    metrics, events = tmp_path / "m.prom", tmp_path / "events.jsonl"
    ended = kip848(*faked.words, "--metrics", str(metrics), "--openlineage", str(events))
    assert ended.code == (1 if findings else 0 if output == "closed" else 3)
    assert "kip848_run_success 1" in metrics.read_text()
    assert f"kip848_run_exit_code {len(findings)}" in metrics.read_text()
    types = [json.loads(line)["eventType"] for line in events.read_text().splitlines()]
    assert types == ["START"], "no FAIL follows"
    assert ("The disk is full." in ended.err) == (output == "full")


@pytest.mark.parametrize("name", ["nowhere/m.prom", "folder"])
def test_a_file_that_can_not_be_written_is_refused_before_the_run(
    kip848: Command, faked: FakedRun, tmp_path: Path, name: str
) -> None:
    def never() -> None:
        raise AssertionError("the run has begun")

    (tmp_path / "folder").mkdir()
    faked.then = never
    ended = kip848(*faked.words, "--metrics", str(tmp_path / name))
    assert ended.code == 2
    assert "error: The metrics can't be written to" in ended.err


def test_a_failure_that_can_not_be_noted_hides_no_error(
    kip848: Command, faked: FakedRun, tmp_path: Path
) -> None:
    folder = tmp_path / "metrics"
    folder.mkdir()

    def fail() -> None:
        folder.rmdir()
        raise LakeError("The lake is gone.")

    faked.then = fail
    ended = kip848(*faked.words, "--metrics", str(folder / "m.prom"))
    assert ended.code == 3
    assert "warning The metrics can't be written to" in ended.err
    assert ended.err.endswith("error: The lake is gone.")


@pytest.mark.parametrize(
    ("findings", "code", "word"), [([], 2, "error:"), ([FINDING], 1, "warning")]
)
def test_a_report_that_can_not_be_written_hides_no_findings(
    kip848: Command,
    faked: FakedRun,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    findings: list[dict[str, Any]],
    code: int,
    word: str,
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise UsageError("The report can't be written.")

    monkeypatch.setattr(jobs, "write_after_run", fail)
    faked.findings = findings
    report, metrics = str(tmp_path / "report.html"), tmp_path / "m.prom"
    ended = kip848(*faked.words, "--json", "--report", report, "--metrics", str(metrics))
    assert ended.code == code
    assert f"kip848_run_exit_code {code}" in metrics.read_text()
    assert "kip848_run_success 1" in metrics.read_text()
    assert "kip848_last_success_timestamp_seconds" in metrics.read_text()
    assert json.loads(ended.out)["run_id"] == RUN.run_id
    assert f"{word} The report can't be written." in ended.err


@pytest.mark.parametrize(
    "options",
    [("--config", "missing.toml"), ("--report", "/nowhere/report.html"), ("--dialect", "none")],
)
def test_wrong_settings_are_noted_in_the_metrics(
    kip848: Command, faked: FakedRun, tmp_path: Path, options: tuple[str, str]
) -> None:
    metrics = tmp_path / "m.prom"
    metrics.write_text("kip848_run_success 1\nkip848_run_exit_code 0\n# EOF\n")
    assert kip848(*faked.words, *options, "--metrics", str(metrics)).code == 2
    assert metrics.read_text() == "kip848_run_success 0\nkip848_run_exit_code 2\n# EOF\n"


@pytest.mark.parametrize(
    ("number", "code", "word"),
    [(signal.SIGTERM, 143, "terminated"), (signal.SIGINT, 130, "interrupted")],
)
@pytest.mark.parametrize("log_format", ["", "json"])
def test_a_run_that_is_told_to_stop(
    kip848: Command,
    faked: FakedRun,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    number: signal.Signals,
    code: int,
    word: str,
    log_format: str,
) -> None:
    """The metrics and OpenLineage get the end, and so does a log of JSON."""

    def stop() -> None:
        assert signal.getsignal(number) != signal.SIG_DFL, "the signal would end the tests"
        os.kill(os.getpid(), number)

    faked.then = stop
    monkeypatch.setenv("KIP848_LOG_FORMAT", log_format)
    metrics, events = tmp_path / "m.prom", tmp_path / "events.jsonl"
    ended = kip848(*faked.words, "--metrics", str(metrics), "--openlineage", str(events))
    assert ended.code == code
    assert ended.out == ""
    assert "kip848_run_success 0\n" in metrics.read_text()
    assert f"kip848_run_exit_code {code}\n" in metrics.read_text()
    states = [json.loads(line)["eventType"] for line in events.read_text().splitlines()]
    assert states == ["START", "ABORT"]
    if log_format == "json":
        line = json.loads(ended.err)
        assert (line["level"], line["message"], line["exit_code"]) == ("error", word, code)
    else:
        assert ended.err == word
    assert signal.getsignal(signal.SIGTERM) == signal.SIG_DFL


def test_a_run_that_is_told_to_stop_leaves_no_process(kip848: Command, faked: FakedRun) -> None:
    """PySpark's JVM ends with this process, unless it was stopped while the JVM started."""
    started: list[subprocess.Popen[bytes]] = []

    def stop() -> None:
        started.append(subprocess.Popen(["sleep", "60"]))
        os.kill(os.getpid(), signal.SIGTERM)

    faked.then = stop
    earlier = subprocess.Popen(["sleep", "60"])
    try:
        assert kip848(*faked.words).code == 143
        assert started[0].wait(10) == -signal.SIGTERM
        assert earlier.poll() is None
    finally:
        for process in (earlier, *started):
            process.kill()
            process.wait()
