"""The metrics of a run, against text that was written by hand by the OpenMetrics specification."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from kip848_spark.errors import UsageError
from kip848_spark.kafka.topic import OffsetRange, TopicIdentity
from kip848_spark.lake.ledger import DONE, RecordCounts, Run
from kip848_spark.lake.metrics import failed_text, metrics_text, write_failure, write_metrics

RUN = Run(
    run_id="20261123T020000.000000Z-aaaa",
    source="kafka:broker:9092",
    identity=TopicIdentity("__consumer_offsets", 'a"\\b'),
    dialect="shipped",
    ranges=(OffsetRange(0, 0, 12),),
    table_versions={},
    started_at=datetime(2026, 11, 23, 2, tzinfo=UTC),
    outcome=DONE,
    counts=RecordCounts(10, 6, 1, 1, 2, 2, {"cut short": 2}, {"offset_commit": 3}),
    durations_ms={"ingest": 1500},
    open_offsets={0: 4, 1: 5},
)
AGREEMENT = [{"check": "transitions", "verified": 7, "unverifiable": 1, "disagreed": 2}]
EXPECTED = r"""
kip848_run_success 1
kip848_run_exit_code 1
kip848_last_success_timestamp_seconds 1795399200.0
kip848_run_info{run_id="20261123T020000.000000Z-aaaa",cluster_id="a\"\\b",topic="__consumer_offsets",source="kafka:broker:9092"} 1
kip848_records{result="decoded"} 6
kip848_records{result="tombstones"} 1
kip848_records{result="unknown"} 1
kip848_records{result="quarantined"} 2
kip848_quarantined_records{reason="cut short"} 2
kip848_unknown_tags{kind="offset_commit"} 3
kip848_missing_offsets 2
kip848_open_offsets 9
kip848_step_duration_seconds{step="ingest"} 1.5
kip848_agreement{check="transitions",result="verified"} 7
kip848_agreement{check="transitions",result="unverifiable"} 1
kip848_agreement{check="transitions",result="disagreed"} 2
kip848_findings{severity="info"} 0
kip848_findings{severity="warning"} 0
kip848_findings{severity="error"} 2
kip848_findings{severity="critical"} 0
"""  # noqa: E501


def text() -> str:
    return metrics_text(RUN, AGREEMENT, {"error": 2}, 1, 1795399200.0)


def test_each_metric_is_declared_and_the_text_ends() -> None:
    lines = text().splitlines()
    assert [line for line in lines if not line.startswith("#")] == EXPECTED.strip().splitlines()
    assert lines[-1] == "# EOF"
    declared = {line.split()[2] for line in lines if line.startswith("# TYPE")}
    assert {line.partition("{")[0].split()[0] for line in EXPECTED.strip().splitlines()} == declared


def test_a_failed_run_leaves_the_time_of_the_last_good_one() -> None:
    """An alert on the age of the last good run would never fire otherwise."""
    after = failed_text(text(), 3)
    assert "kip848_run_success 0\nkip848" not in text()
    assert "kip848_run_success 0\n" in after
    assert "kip848_run_exit_code 3\n" in after
    assert "kip848_last_success_timestamp_seconds 1795399200.0\n" in after
    assert after.endswith("# EOF\n")
    first = failed_text("", 3)
    assert "kip848_run_success 0\n" in first
    assert "last_success" not in first


def test_the_documented_alert_names_the_series_of_a_first_run_that_failed() -> None:
    """Its file has two series only. A rule about others alone would never fire."""
    page = Path(__file__).parents[2] / "docs" / "operations.md"
    rule = page.read_text().partition("alert: Kip848NoGoodRun")[2].partition("- alert")[0]
    written = [line.split()[0] for line in failed_text("", 3).splitlines() if line[0] != "#"]
    assert written == ["kip848_run_success", "kip848_run_exit_code"]
    assert "or (kip848_run_success == 0 unless kip848_last_success_timestamp_seconds)" in rule
    assert "or absent(kip848_run_success)" in rule


def test_the_file_is_replaced_in_one_step(tmp_path: Path) -> None:
    path = tmp_path / "kip848.prom"
    write_metrics(path, text())
    write_failure(path, 3)
    assert "kip848_run_exit_code 3" in path.read_text()
    assert [file.name for file in tmp_path.iterdir()] == ["kip848.prom"]
    with pytest.raises(UsageError, match="can't be written"):
        write_metrics(tmp_path / "missing" / "kip848.prom", text())


@pytest.mark.parametrize(
    "before",
    [b"\xff\xfe\x00", b"", b"other_metric 1\n# EOF\n", b"kip848_run_success 1\n"],
    ids=["no text", "empty", "of something else", "cut short"],
)
def test_a_failure_is_noted_whatever_the_file_held(tmp_path: Path, before: bytes) -> None:
    path = tmp_path / "kip848.prom"
    path.write_bytes(before)
    write_failure(path, 3)
    lines = [line for line in path.read_text().splitlines() if not line.startswith("#")]
    assert lines == ["kip848_run_success 0", "kip848_run_exit_code 3"]
