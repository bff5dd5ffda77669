"""`kip848 hygiene` on a hand-made lake: which rows are read, and what the terminal shows."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import orjson
import pytest
from typer.testing import CliRunner

from kip848_spark.cli import app
from kip848_spark.errors import NotFoundError
from kip848_spark.lake.hygiene import read_hygiene
from kip848_spark.lake.lake import Lake
from kip848_spark.lake.location import locate
from kip848_spark.lake.snapshot import LakeSnapshot
from tests.lake.written_lake import write_lake

NOW = datetime(2026, 3, 8, 12, tzinfo=UTC)
DAY = timedelta(days=1)
EVIL = "evil\x1b[2J[red]"
"""A group name that a terminal must not obey."""


def group(name: str, members: int, updated: datetime) -> dict[str, Any]:
    return {
        "group_id": name, "type": "consumer", "state": "Stable" if members else "Empty",
        "protocol_type": "consumer", "members": members, "partition": 0, "updated_at": updated,
    }  # fmt: skip


def offset(name: str, topic: str, committed: datetime) -> dict[str, Any]:
    return {
        "group_id": name, "topic": topic, "topic_partition": 0, "committed_offset": 5,
        "metadata": "", "commit_timestamp": committed, "partition": 0, "offset": 1,
    }  # fmt: skip


def activity(name: str, day: date, commits: int, seconds: int) -> dict[str, dict[str, Any]]:
    """A row of `offset_activity` and the row of `commit_summaries` that it was made from."""
    start = datetime(day.year, day.month, day.day, tzinfo=UTC)
    shared = {
        "partition": 0, "group_id": name, "topic": "orders", "topic_partition": 0, "day": day,
        "commits": commits, "tombstones": 0, "bytes": 100 * commits, "first_offset": 0,
    }  # fmt: skip
    times = {
        "first_commit_timestamp": start,
        "last_commit_timestamp": start + timedelta(seconds=seconds),
    }
    sums = {"last_offset": 9, "rewinds": 1, "largest_rewind": 4}
    return {"offset_activity": shared | sums, "commit_summaries": shared | times}


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    """A group that commits each second, one that has been silent for ten days, and a rewind."""
    days = [
        activity("busy", NOW.date(), 1001, 1000),
        activity(EVIL, NOW.date(), 10, 3600),
        activity("busy", (NOW - 30 * DAY).date(), 5000, 5000),
    ]
    rewind = {
        "partition": 0, "offset": 7, "group_id": "busy", "topic": "orders", "topic_partition": 0,
        "from_committed": 100, "to_committed": 60, "owner": "member-1",
    }  # fmt: skip
    rewinds = [
        rewind | {"at": NOW - DAY},
        rewind | {"at": NOW - 2 * DAY, "owner": None, "group_id": EVIL},
        rewind | {"at": NOW - 30 * DAY, "offset": 3},
    ]
    tables = {
        "groups": [
            group("busy", 1, NOW), group("silent", 0, NOW - 10 * DAY), group(EVIL, 1, NOW),
        ],
        "members": [{"group_id": "busy", "member_id": "member-1", "subscribed_topics": ["orders"]}],
        "offsets": [
            offset("busy", "orders", NOW),
            offset("busy", "former", NOW - 20 * DAY),
            offset("silent", "orders", NOW - 10 * DAY),
        ],
        "topics": [
            {"topic": "orders", "topic_id": "A", "run_id": "run-2"},
            {"topic": "former", "topic_id": "B", "run_id": "run-1"},
        ],
        "offset_activity": [day["offset_activity"] for day in days],
        "commit_summaries": [day["commit_summaries"] for day in days],
        "rewinds": rewinds,
        "control_state": [
            {"kind": "group_metadata", "offset": 1, "raw_key": b"123", "raw_value": b"4567"}
        ],
    }  # fmt: skip
    write_lake(tmp_path / "lake", tables)
    return tmp_path / "lake"


def snapshot(path: Path) -> LakeSnapshot:
    return LakeSnapshot(locate(str(path)))


def test_only_the_last_days_count(lake: Path) -> None:
    found = read_hygiene(snapshot(lake))
    assert found.as_of == NOW
    assert [(row["group_id"], row["commits"]) for row in found.growth] == [
        ("busy", 1001), (EVIL, 10)
    ]  # fmt: skip
    assert [row["distance"] for row in found.rewinds] == [40, 40]
    assert [row["group_id"] for row in found.dead_groups] == ["silent"]
    whole = read_hygiene(snapshot(lake), days=60)
    assert [row["commits"] for row in whole.growth] == [6001, 10]
    assert len(whole.rewinds) == 3
    assert not whole.dead_groups


def test_growth_and_rewinds_are_of_the_same_days(tmp_path: Path) -> None:
    """A week ends with the newest record's day; a rewind on the day before it has no day to be of,
    however late it was."""
    midnight = NOW.replace(hour=0, minute=0, second=0, microsecond=0)
    times = [midnight - 6 * DAY, midnight - 6 * DAY - timedelta(seconds=1)]
    days = [activity("busy", time.date(), 10 + number, 60) for number, time in enumerate(times)]
    rewind = {
        "partition": 0, "offset": 7, "group_id": "busy", "topic": "orders", "topic_partition": 0,
        "from_committed": 100, "to_committed": 60,
    }  # fmt: skip
    tables = {
        "groups": [group("busy", 1, NOW)],
        "rewinds": [rewind | {"at": time} for time in times],
        **{name: [day[name] for day in days] for name in ("offset_activity", "commit_summaries")},
    }
    write_lake(tmp_path / "lake", tables)
    week, longer = (read_hygiene(snapshot(tmp_path / "lake"), days=days) for days in (7, 8))
    assert [row["at"] for row in week.rewinds] == times[:1]
    assert [row["day"] for row in week.growth_by_day] == [times[0].date()]
    assert [row["commits"] for row in week.growth] == [10]
    assert [row["at"] for row in longer.rewinds] == times
    assert [row["commits"] for row in longer.growth] == [21]


def test_topics_are_those_of_the_last_run_that_asked(lake: Path) -> None:
    found = read_hygiene(snapshot(lake))
    assert [(row["group_id"], row["topic"]) for row in found.deleted_topics or ()] == [
        ("busy", "former")
    ]
    assert [row["topic"] for row in found.no_longer_read] == ["former"]
    assert found.open_transactions is None, "no run asked a cluster"


def test_one_group(lake: Path) -> None:
    found = read_hygiene(snapshot(lake), "silent")
    assert found.as_of == NOW, "the lake's newest record, not the group's"
    assert not found.growth
    assert not found.rewinds
    assert [row["group_id"] for row in found.dead_groups] == ["silent"]
    assert found.size["compacted"]["commits"] == 1


def test_the_same_in_python(lake: Path) -> None:
    found = Lake(lake).hygiene(days=60)
    assert found["growth"] == list(read_hygiene(snapshot(lake), days=60).growth)
    with pytest.raises(NotFoundError, match="silnt"):
        Lake(lake).hygiene("silnt")


def shown(lake: Path, *options: str) -> str:
    result = CliRunner(env={"COLUMNS": "80"}).invoke(
        app, ["hygiene", "--lake", str(lake), *options], catch_exceptions=False
    )
    assert result.exit_code == 0
    return result.stdout


def test_the_terminal(lake: Path, capfd: pytest.CaptureFixture[str]) -> None:
    text = shown(lake) + capfd.readouterr().out
    for heading in (
        "Who makes the topic grow", "Growth by day", "Dead groups",
        "deleted or created again", "no longer reads", "that went back",
    ):  # fmt: skip
        assert heading in text
    assert "Open transactions" not in text, "a section without rows is left out"
    assert "\x1b[2J" not in text
    assert "800 of 1,011 commits" in text


def test_json_has_all_sections(lake: Path, capfd: pytest.CaptureFixture[str]) -> None:
    text = shown(lake, "--json", "--top", "1") + capfd.readouterr().out
    found = orjson.loads(text)
    assert len(found["growth"]) == len(found["rewinds"]) == 2, "--top is for the terminal"
    assert found["assumptions"]["offsets_retention_s"] == 7 * 86_400
    assert found["open_transactions"] is None
    assert found["growth_by_day_and_group"][0]["day"] == "2026-03-08"
