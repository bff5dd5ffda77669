"""Records whose times are near the ends of Python's calendar, which a damaged clock can write."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from typer.testing import CliRunner

from kip848_spark.cli import app
from tests.insight.story_rows import GROUP, NIGHT, Row
from tests.lake.billing_lake import ASSIGNMENTS, GROUPS, MEMBERS, REBALANCES
from tests.lake.written_lake import write_lake

TIMES = [datetime(1, 1, 1, 0, 55, tzinfo=UTC), datetime(9999, 12, 31, 23, 55, tzinfo=UTC)]
"""All times of the lake are within 50 minutes before and 2 minutes after."""


def moved(rows: list[Row], by: timedelta) -> list[Row]:
    return [
        {name: value + by if isinstance(value, datetime) else value for name, value in row.items()}
        for row in rows
    ]


@pytest.fixture(params=TIMES, ids=["first", "last"])
def lake(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    by = request.param - NIGHT
    groups = [row for row in GROUPS if row["valid_to"] is None]
    columns = ("group_id", "type", "state", "members", "partition")
    state = [{name: row[name] for name in columns} for row in groups]
    tables = {
        "groups": [{**row, "updated_at": request.param} for row in state],
        "group_history": moved(GROUPS, by),
        "member_history": moved(MEMBERS, by),
        "assignment_history": moved(ASSIGNMENTS, by),
        "rebalances": moved(REBALANCES, by),
    }
    write_lake(tmp_path / "lake", tables)
    return str(tmp_path / "lake")


@pytest.mark.parametrize(
    "command",
    [
        ["groups"],
        ["explain", GROUP],
        ["explain", GROUP, "--epoch", "42"],
        ["history", GROUP],
        ["rebalances"],
        ["rebalances", "--top", "2"],
        ["hygiene"],
        ["readiness"],
        ["report", "--out", "page.html"],
    ],
    ids=" ".join,
)
def test_every_command_answers(
    command: list[str], lake: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    result = CliRunner().invoke(app, [*command, "--lake", lake])
    assert result.exit_code == 0, result.output
