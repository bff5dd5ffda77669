"""`findings`: the list of what audits found, and its exit code. The lake is made without Spark."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from kip848_spark.kafka.topic import TopicIdentity
from kip848_spark.lake import delta_rs
from kip848_spark.lake.arrow_files import WriteTarget
from kip848_spark.lake.ledger import AUDIT, DONE, PARTIAL_AUDIT, Run
from kip848_spark.lake.tables import TABLES
from tests.cli.command import Command

START = datetime(2026, 11, 20, 2, 14, tzinfo=UTC)
TEXT = "Line one.\nExpected: a\nRecorded: b\nMeans: c.\nTo do: d."
FIRST, SECOND, THIRD, FOURTH = "run-1", "run-2", "run-3", "run-4"
"""A run with findings, one without, one that audited a part, and one that did not audit."""


def finding(run: str, finding_id: str, severity: str = "error", **values: Any) -> dict[str, Any]:
    row = dict.fromkeys(TABLES["findings"].fields)
    row |= {"run_id": run, "finding_id": finding_id, "severity": severity, "check": "epochs"}
    row |= {"group_id": "billing", "partition": 46, "offset": 10, "timestamp": START}
    return row | {"expected": "1", "recorded": "2", "explanation": TEXT} | values


ROWS = [
    finding(FIRST, "a", "warning"),
    finding(FIRST, "b", caused_by="a", offset=11, check="transitions"),
    finding(FIRST, "c", "critical", group_id="shipping", explanation="Two owners.\n1\n2\n3\n4"),
    finding(THIRD, "d", caused_by="b", group_id="[bold]evil[/]\x1b[0m"),
    finding(THIRD, "a", explanation="Of an earlier version."),
    finding(THIRD, "e", caused_by="a", offset=12),
]


@pytest.fixture
def lake(tmp_path: Path) -> str:
    """A lake with these findings, and four finished runs."""
    for table in TABLES.values():
        (tmp_path / table.name).mkdir()
        delta_rs.create_table(str(tmp_path / table.name), table)
    append(tmp_path, "findings", ROWS)
    groups = dict.fromkeys(TABLES["groups"].fields)
    append(tmp_path, "groups", [groups | {"group_id": name} for name in ("billing", "shipping")])
    versions = {name: len(list((tmp_path / name).glob("_delta_log/*.json"))) - 1 for name in TABLES}
    identity = TopicIdentity("__consumer_offsets", None, None)
    run = Run(FIRST, "test", identity, "shipped", (), versions, START, DONE)
    steps = {FIRST: AUDIT, SECOND: AUDIT, THIRD: PARTIAL_AUDIT, FOURTH: "ingest"}
    runs = [
        replace(
            run,
            run_id=run_id,
            finished_at=START + timedelta(days=day),
            durations_ms={step: 1},
        ).row()
        for day, (run_id, step) in enumerate(steps.items())
    ]
    append(tmp_path, "runs", runs)
    return str(tmp_path)


def append(lake: Path, name: str, rows: Sequence[Mapping[str, Any]]) -> None:
    table = TABLES[name]
    target = WriteTarget(name, str(lake / name), table.fields, {}, table.stats_columns)
    delta_rs.commit(str(lake / name), 0, delta_rs.write_rows(target, rows))


def listed(kip848: Command, lake: str, *options: str) -> tuple[int, list[str]]:
    """The exit code, and the ids of the findings that are listed."""
    ended = kip848("findings", "--lake", lake, "--json", *options)
    return ended.code, [row["finding_id"] for row in json.loads(ended.out)]


def test_the_last_run_that_audited(kip848: Command, lake: str) -> None:
    """Not the last run, which only read records."""
    assert listed(kip848, lake) == (1, ["d", "a"])
    assert listed(kip848, lake, "--follow") == (1, ["d", "a", "e"])


def test_the_last_audit_may_be_one_of_a_part(kip848: Command, lake: str) -> None:
    note = f"The last audit (run {THIRD}) was only of a part of the lake. "
    ended = kip848("findings", "--lake", lake, "--group", "shipping")
    assert ended.code == 0
    assert f"{note}For the last complete audit, add --run {SECOND}." in ended.err
    assert "a part of the lake" not in kip848("findings", "--lake", lake, "--run", "all").err


def test_a_run_without_findings_ends_with_0(kip848: Command, lake: str) -> None:
    assert listed(kip848, lake, "--run", SECOND) == (0, [])
    ended = kip848("findings", "--lake", lake, "--run", SECOND)
    assert ended.code == 0
    assert "No findings (run run-2)." in ended.out


@pytest.mark.parametrize(
    ("options", "ids"),
    [
        ((), ["c", "a"]),
        (("--severity", "warning"), ["c", "a"]),
        (("--severity", "error"), ["c", "b"]),
        (("--severity", "critical"), ["c"]),
        (("--group", "billing"), ["a"]),
        (("--group", "billing", "--severity", "critical"), []),
        (("--check", "transitions"), ["b"]),
        (("--check", "transitions", "--check", "epochs"), ["c", "a"]),
        (("--follow",), ["c", "b", "a"]),
    ],
)
def test_what_is_selected(
    kip848: Command, lake: str, options: Sequence[str], ids: list[str]
) -> None:
    """A finding whose root is not selected is listed itself, so that a gate does not miss it."""
    assert listed(kip848, lake, "--run", FIRST, *options) == (int(bool(ids)), ids)


def test_all_runs_the_newest_first(kip848: Command, lake: str) -> None:
    """Two runs have a finding with the id a: each has its own followers."""
    assert listed(kip848, lake, "--run", "all") == (1, ["d", "a", "c", "a"])
    ended = kip848("findings", "--lake", lake, "--run", "all", "--json")
    assert [row["followers"] for row in json.loads(ended.out)] == [0, 1, 0, 1]


def test_the_terminal_shows_roots_and_counts_the_others(kip848: Command, lake: str) -> None:
    ended = kip848("findings", "--lake", lake, "--run", FIRST)
    assert ended.out.splitlines() == [
        "critical shipping at 46/10 since 2026-11-20 02:14:00 UTC (epochs): Two owners.",
        *(f"    {number}" for number in range(1, 5)),
        "warning billing at 46/10 since 2026-11-20 02:14:00 UTC (epochs): Line one.",
        *(f"    {line}" for line in TEXT.split("\n")[1:]),
        "    and 1 that follows, 1 of severity error",
    ]
    followed = kip848("findings", "--lake", lake, "--run", FIRST, "--follow").out.splitlines()
    assert followed[-4:] == [
        "    and 1 that follows, 1 of severity error:",
        "      error at 46/11 (transitions): Line one.",
        "        Expected: a",
        "        Recorded: b",
    ]


def test_names_and_old_findings_are_printed_as_they_are(kip848: Command, lake: str) -> None:
    out = kip848("findings", "--lake", lake).out
    assert "[bold]evil[/]\\x1b[0m" in out
    assert "Of an earlier version.\n    Expected: 1\n    Recorded: 2" in out


@pytest.mark.parametrize(
    ("options", "output"),
    [
        (("--severity", "eror"), "Choose from info, warning, error, critical."),
        (("--check", "epoch"), "Did you mean epochs?"),
        (("--run", "run-9"), "No run run-9 of the lake"),
        (("--group", "biling"), "Did you mean billing"),
    ],
)
def test_what_is_not_there(kip848: Command, lake: str, options: Sequence[str], output: str) -> None:
    """Never exit code 0 or 1: a gate must not pass or alarm because of a typing error."""
    ended = kip848("findings", "--lake", lake, *options)
    assert ended.code == 2
    assert output in ended.err


def test_a_bug_is_no_finding(kip848: Command, lake: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Python's exit code for an exception is 1."""

    def raises(*_: object) -> None:
        raise ZeroDivisionError("what nobody expected")

    monkeypatch.setattr("kip848_spark.cli.findings.roots_of", raises)
    ended = kip848("findings", "--lake", lake)
    assert ended.code == 70
    assert "This is a bug in kip848-spark" in ended.err
    assert "ZeroDivisionError: what nobody expected" in ended.err


def test_a_lake_that_was_never_audited(kip848: Command, lake: str) -> None:
    runs = delta_rs.read_rows(f"{lake}/runs", TABLES["runs"])
    only = [row for row in runs if row["run_id"] == FOURTH]
    table = TABLES["runs"]
    target = WriteTarget("runs", f"{lake}/runs", table.fields, {}, table.stats_columns)
    delta_rs.commit(f"{lake}/runs", 1, delta_rs.write_rows(target, only), "overwrite")
    ended = kip848("findings", "--lake", lake)
    assert ended.code == 3
    assert "has audited it" in ended.err


def test_a_missing_file(kip848: Command, lake: str) -> None:
    """It is not a bug of the program, which ends with 70."""
    for file in Path(lake, "findings").glob("*.parquet"):
        file.unlink()
    ended = kip848("findings", "--lake", lake)
    assert ended.code == 3
    assert "The table findings of the lake" in ended.err
