"""`kip848 readiness` on a lake of groups that strangers named."""

from __future__ import annotations

import csv
import io
import json
import shutil
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from kip848_spark.lake.tables import TABLES
from tests.cli.command import Command
from tests.insight.readiness_lake import state_of_records
from tests.insight.readiness_records import classic, commit, consumer, consumer_member, member
from tests.lake.written_lake import write_lake, write_run

FORMULA = '=HYPERLINK("http://evil","x")'
HOSTILE = (FORMULA, "+1", "-1", "@SUM(A1)", "\t=1", "[red]x[/]", "a\x00b", "`x` **b**", "\u202egpj")
CONTROL = {chr(code) for code in range(32)} - {"\n", "\r"} | {"\x7f", "\u202e"}


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A blocked group, one with warnings, a converted one, one with commits only, and one for each
    hostile name, which is also its client's, its topic's and its assignor's name."""
    state = state_of_records(
        [
            classic(member(assignment_data=b"x"), group="blocked"),
            classic(member(), member("m-2", owned=(1,)), group="ranged", protocol="range"),
            *consumer(
                consumer_member("a", group="half"),
                consumer_member("b", group="half", classic_timeout=45_000),
                group="half",
            ),
            commit("only-commits"),
            *(
                classic(member(client_id=name, topics=(name,)), group=name, protocol=name)
                for name in HOSTILE
            ),
        ]
    )
    path = tmp_path_factory.mktemp("readiness") / "lake"
    tables = {
        name: _with_all_columns(name, getattr(state, name))
        for name in ("groups", "members", "assignments", "control_state", "offsets")
    }
    write_lake(path, tables, finished_at=datetime(2026, 11, 2, tzinfo=UTC))
    return path


def _with_all_columns(name: str, rows: pa.Table) -> pa.Table:
    fields = TABLES[name].fields
    columns = {
        column: rows[column].cast(type_)
        if column in rows.column_names
        else pa.nulls(len(rows), type_)
        for column, type_ in fields.items()
    }
    return pa.table(columns)


def test_the_table_fits_80_columns(
    kip848: Command, lake: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from kip848_spark.cli.display import out

    monkeypatch.setattr(out, "width", 80)
    ended = kip848("readiness", "--lake", str(lake), "--release", "4.0.0")
    assert ended.code == 0
    assert max(map(len, ended.out.splitlines())) <= 80
    assert ended.out.count("KAFKA-19862") == 1
    assert f"{4 + len(HOSTILE)} groups" in ended.out


def test_names_from_strangers_print_as_they_are_written_and_do_nothing(
    kip848: Command, lake: Path
) -> None:
    """Fails for markup, control characters and NULs that reach the terminal."""
    for arguments in ((), ("--", *HOSTILE), ("--checklist", HOSTILE[5])):
        ended = kip848("readiness", "--lake", str(lake), *arguments)
        assert ended.code == 0
        assert not CONTROL & set(ended.out)
        assert "[red]x[/]" in ended.out


@pytest.mark.parametrize("name", HOSTILE)
def test_a_checklist_quotes_the_names_of_strangers(kip848: Command, lake: Path, name: str) -> None:
    said = kip848("readiness", "--lake", str(lake), "--checklist", name).out
    assert not CONTROL & set(said)
    assert "- [ ] **client-release**" in said
    first = said.splitlines()[0]
    if "`" in name:
        assert f"`` {name} ``" in first
    assert "assignor-custom" in said


def test_no_cell_of_the_csv_is_a_formula(kip848: Command, lake: Path) -> None:
    said = kip848("readiness", "--lake", str(lake), "--csv").out
    rows = list(csv.DictReader(io.StringIO(said)))
    assert len(rows) == 4 + len(HOSTILE)
    for row in rows:
        for value in row.values():
            assert not value.lstrip().startswith(("=", "+", "-", "@"))
            assert not (CONTROL | {"\n", "\r"}) & set(value)
    assert f"'{FORMULA}" in {row["group_id"] for row in rows}


def test_json_has_every_group_as_it_is(kip848: Command, lake: Path) -> None:
    report = json.loads(kip848("readiness", "--lake", str(lake), "--json").out)
    rows = {row["group_id"]: row for row in report["groups"]}
    assert set(HOSTILE) < set(rows)
    assert rows["blocked"]["blockers"] == ["assignment-user-data"]
    assert rows["blocked"]["details"]["assignment-user-data"].startswith("1 of 1 members")
    assert rows["half"]["verdict"] == "migrating"
    assert rows["half"]["classic_members"] == 1
    assert report["cluster"]["group_version"] == 1  # proven by the converted group
    assert {note["severity"] for note in report["notes"]} >= {"warning", "unknown"}


def test_a_named_group_is_simulated_in_full(kip848: Command, lake: Path) -> None:
    said = kip848("readiness", "ranged", "--lake", str(lake), "--json").out
    (row,) = json.loads(said)["groups"]
    simulated = row["simulated"]["uniform"]["assignment"]
    assert sorted(simulated) == ["m-1", "m-2"]


def test_filters(kip848: Command, lake: Path) -> None:
    def groups(*arguments: str) -> set[str]:
        said = kip848("readiness", "--lake", str(lake), "--json", *arguments).out
        return {row["group_id"] for row in json.loads(said)["groups"]}

    assert groups("--verdict", "blocked") == {"blocked"}
    assert groups("--topic", "orders") == {"blocked", "ranged", "half", "only-commits"}
    assert groups("--topic", FORMULA) == {FORMULA}
    assert groups("--topic", "orders", "--verdict", "migrating") == {"half"}
    assert groups("ranged", "half") == {"ranged", "half"}
    assert groups("--topic", "nobody's") == set()


def test_explaining_a_group_says_what_to_do(kip848: Command, lake: Path) -> None:
    said = " ".join(kip848("readiness", "blocked", "--lake", str(lake)).out.split())
    assert "Stop all members, start them again with the new protocol" in said
    assert "KAFKA-18134" in said
    assert "Evidence: partition 0, offset 0." in said


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (("--verdict", "redy"), 2, "There is no verdict redy. Did you mean ready"),
        (("--release", "new"), 2, "'new' is not a release of Kafka"),
        (("--diff", "last", "--release", "4.3.1"), 2, "--diff compares what two runs wrote"),
        (("--json", "--csv"), 2, "exclude each other"),
        (("rangd",), 1, "The lake has no group rangd. Did you mean ranged?"),
        (("--checklist", "rangd"), 1, "The lake has no group rangd."),
    ],
)
def test_mistakes(
    kip848: Command, lake: Path, arguments: tuple[str, ...], code: int, words: str
) -> None:
    ended = kip848("readiness", "--lake", str(lake), *arguments)
    assert ended.code == code
    assert words in ended.err


def test_a_release_beyond_the_rules_is_said(kip848: Command, lake: Path) -> None:
    ended = kip848("readiness", "--lake", str(lake), "--release", "9.9.0")
    assert ended.code == 0
    assert "Release 9.9.0 is newer than 4." in ended.err
    known = kip848("readiness", "--lake", str(lake), "--release", "4.3.1")
    assert "newer" not in known.err


def test_a_cluster_that_does_not_answer_is_not_known(kip848: Command, lake: Path) -> None:
    """The verdicts do not need the cluster."""
    ended = kip848("readiness", "--lake", str(lake), "--source", "kafka:127.0.0.1:1")
    assert ended.code == 0
    assert "The cluster's settings are not known" in ended.err
    assert "group.consumer.migration.policy" in ended.out


def test_rules_about_the_past_use_history_activity_and_rebalances(
    kip848: Command, tmp_path: Path
) -> None:
    """A group that rebalances 20 times a day with 20,000 commits, whose one instance id was used on
    two hosts. What is older than 30 days does not count."""
    state = state_of_records([classic(member(instance_id="i", session_timeout=45_000), group="g")])
    now = datetime(2026, 11, 2, tzinfo=UTC)
    interval = {"group_id": "g", "client_id": "app", "subscribed_topics": [], "is_classic": True}
    tables: dict[str, Any] = {
        name: _with_all_columns(name, getattr(state, name))
        for name in ("groups", "members", "assignments", "control_state", "offsets")
    }
    tables["member_history"] = [
        interval | {"instance_id": "i", "client_host": host} for host in ("/h1", "/h2")
    ]
    days = [(now - timedelta(days=n)).date() for n in (1, 2, 40)]
    tables["offset_activity"] = [{"group_id": "g", "day": d, "commits": 300_000} for d in days]
    starts = [now - timedelta(days=n) for n in (*[1] * 600, *[31] * 9000)]
    tables["rebalances"] = [{"group_id": "g", "started_at": at} for at in starts]
    write_lake(tmp_path / "lake", tables, finished_at=now)
    ended = kip848("readiness", "--lake", str(tmp_path / "lake"), "--json", "--release", "4.2.2")
    report = json.loads(ended.out)
    (row,) = report["groups"]
    assert row["warnings"] == ["duplicate-instance-id", "stale-member-epoch"]
    assert row["details"]["stale-member-epoch"] == "20 rebalances and 20000 commits a day"
    assert report["missing_tables"] == []


def test_a_group_with_a_record_that_was_not_decoded_is_unknown(
    kip848: Command, tmp_path: Path
) -> None:
    """Only a control record after the newest decoded one counts, and not a commit."""
    path = tmp_path / "lake"
    state = state_of_records([classic(member(), group=name) for name in ("g", "h", "i")])
    tables: dict[str, Any] = {
        name: _with_all_columns(name, getattr(state, name))
        for name in ("groups", "members", "assignments", "control_state", "offsets")
    }
    bad = {"error": "truncated at value byte 3", "kind": "group_metadata"}
    tables["records"] = [
        {"group_id": "g", "offset": 9, **bad},
        {"group_id": "h", "offset": 0, **bad},  # its newest record has offset 1
        {"group_id": "i", "offset": 9, **bad, "kind": "offset_commit"},
    ]
    write_lake(path, tables)
    runs = DeltaTable(path / "runs").to_pyarrow_table()
    column = runs.column_names.index("quarantined")
    runs = runs.set_column(column, "quarantined", pa.array([3], pa.int64()))
    write_deltalake(path / "runs", runs, mode="overwrite")
    said = kip848("readiness", "--lake", str(path), "--json").out
    rows = {row["group_id"]: row["verdict"] for row in json.loads(said)["groups"]}
    assert rows == {"g": "unknown", "h": "ready", "i": "ready"}


def _verdict(run_id: str, group_id: str, verdict: str, *blockers: str) -> dict[str, Any]:
    row = {"run_id": run_id, "group_id": group_id, "verdict": verdict, "blockers": list(blockers)}
    notes = ["a-note"] if verdict == "already_migrated" else []
    return {**row, "warnings": [], "unknowns": [], "notes": notes}


FIRST, SECOND, THIRD = (f"202611{day}T040000.000000Z-0000" for day in ("01", "08", "15"))
_MOVED = {
    "group_id": FORMULA,
    "before": "ready",
    "after": "already_migrated",
    "new": ["a-note"],
    "gone": [],
}
_FREED = {
    "group_id": "blocked",
    "before": "blocked",
    "after": "ready",
    "new": [],
    "gone": ["assignment-user-data"],
}


@pytest.fixture(scope="module")
def weeks(lake: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same lake with the verdicts of three runs."""
    path = tmp_path_factory.mktemp("weeks") / "lake"
    shutil.copytree(lake, path)
    verdicts = [
        _verdict(FIRST, "blocked", "blocked", "assignment-user-data"),
        _verdict(FIRST, FORMULA, "ready"),
        _verdict(SECOND, "blocked", "ready"),
        _verdict(SECOND, FORMULA, "ready"),
        _verdict(THIRD, "blocked", "ready"),
        _verdict(THIRD, FORMULA, "already_migrated"),
        _verdict(THIRD, "ranged", "blocked", "too-many-members"),
    ]
    write_run(path, {"readiness": verdicts}, finished_at=datetime(2026, 11, 15, tzinfo=UTC))
    return path


def test_what_changed_since_a_run(kip848: Command, weeks: Path) -> None:
    """Fails if the verdicts of today are compared, or those of a run in between."""
    report = json.loads(kip848("readiness", "--lake", str(weeks), "--diff", FIRST, "--json").out)
    assert (report["before"], report["after"]) == (FIRST, THIRD)
    new = {"group_id": "ranged", "before": None, "after": "blocked", "new": ["too-many-members"]}
    assert report["changes"] == [_MOVED, _FREED, {**new, "gone": []}]
    assert report["verdicts"] == {
        "before": {"blocked": 1, "ready": 1},
        "after": {"blocked": 1, "ready": 1, "already_migrated": 1},
    }


def test_last_is_the_run_before_the_newest(kip848: Command, weeks: Path) -> None:
    report = json.loads(kip848("readiness", "--lake", str(weeks), "--diff", "last", "--json").out)
    assert (report["before"], report["after"]) == (SECOND, THIRD)
    assert [change["group_id"] for change in report["changes"]] == [FORMULA, "ranged"]


@pytest.mark.parametrize(
    ("arguments", "groups"),
    [
        (("--verdict", "blocked"), {"blocked", "ranged"}),
        (("--verdict", "ready"), {"blocked", FORMULA}),
        (("--topic", FORMULA), {FORMULA}),
        (("ranged",), {"ranged"}),
        (("half",), set()),
    ],
)
def test_filters_of_changes(
    kip848: Command, weeks: Path, arguments: tuple[str, ...], groups: set[str]
) -> None:
    """Fails if the filters leave a group out of one of the two runs: it would look new or gone."""
    said = kip848("readiness", "--lake", str(weeks), "--diff", FIRST, "--json", *arguments).out
    changes = json.loads(said)["changes"]
    assert {change["group_id"] for change in changes} == groups
    assert all(change in changes for change in (_FREED, _MOVED) if change["group_id"] in groups)


def test_changes_on_the_terminal_and_as_csv(kip848: Command, weeks: Path) -> None:
    said = " ".join(kip848("readiness", "--lake", str(weeks), "--diff", FIRST).out.split())
    assert f"3 groups changed from run {FIRST} to run {THIRD}." in said
    assert "ready: 1; blocked: 1; already_migrated: 0 before, 1 now" in said
    said = kip848("readiness", "--lake", str(weeks), "--diff", THIRD).out
    assert "Nothing has changed" in said
    rows = list(
        csv.DictReader(
            io.StringIO(kip848("readiness", "--lake", str(weeks), "--diff", FIRST, "--csv").out)
        )
    )
    assert [row["group_id"] for row in rows] == [f"'{FORMULA}", "blocked", "ranged"]


def test_changes_need_verdicts_of_earlier_runs(
    kip848: Command, lake: Path, weeks: Path, tmp_path: Path
) -> None:
    """A lake without rows, one without the table, one with a single run, and no such run."""
    ended = kip848("readiness", "--lake", str(lake), "--diff", "last")
    assert (ended.code, "no verdicts of earlier runs" in ended.err) == (3, True)
    write_lake(tmp_path / "old", {}, without=["readiness"])
    ended = kip848("readiness", "--lake", str(tmp_path / "old"), "--diff", FIRST)
    assert (ended.code, "no verdicts of earlier runs" in ended.err) == (3, True)
    write_lake(tmp_path / "one", {"readiness": [_verdict(FIRST, "g", "ready")]})
    ended = kip848("readiness", "--lake", str(tmp_path / "one"), "--diff", "last")
    assert (ended.code, "Only one run" in ended.err) == (1, True)
    ended = kip848("readiness", "--lake", str(weeks), "--diff", FIRST[:-1] + "1")
    assert (ended.code, "has no run" in ended.err) == (1, True)
    assert FIRST in ended.err
