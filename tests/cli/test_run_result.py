"""`kip848 run` prints the result of a run that has finished, whatever fails afterwards. The run
itself is replaced: it needs no Spark here."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import nullcontext
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from kip848_spark.cli import jobs
from kip848_spark.cli.options import Invocation
from kip848_spark.errors import LakeError, UsageError
from kip848_spark.kafka.topic import TopicIdentity
from kip848_spark.lake.ledger import DONE, RecordCounts, Run
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
        monkeypatch.setattr(jobs, "result_metrics", lambda *_: "kip848_run_success 1\n")

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
    ended = kip848(*faked.words, "--json", "--report", str(tmp_path / "report.html"))
    assert ended.code == code
    assert json.loads(ended.out)["run_id"] == RUN.run_id
    assert f"{word} The report can't be written." in ended.err
