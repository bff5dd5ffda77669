"""The data of a report, against what the rows of a lake made by hand say."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from kip848_spark.lake.location import locate
from kip848_spark.lake.snapshot import LakeSnapshot
from kip848_spark.report.data import ReportOptions, report_data
from tests.insight.story_rows import GROUP, NIGHT, at
from tests.report.audited_lake import FIRST, HOSTILE, SECOND, write_audited_lake
from tests.report.report_reader import group_names, rows_of, tables_of

Report = dict[str, Any]


def ms(seconds: float) -> int:
    """The time so many seconds after the beginning of the night, as the report writes it."""
    return round(at(seconds).timestamp() * 1000)


def report_of(path: Path, since: datetime | None = None) -> Report:
    return report_data(LakeSnapshot(locate(str(path))), ReportOptions(since))


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_audited_lake(tmp_path_factory.mktemp("report") / "lake")


@pytest.fixture(scope="module")
def report(lake: Path) -> Report:
    return report_of(lake)


def test_every_column_has_the_length_of_its_table_and_every_number_points_somewhere(
    report: Report,
) -> None:
    """Columns that are sorted or cut apart from each other would show the wrong values."""
    paths = []
    for path, table in tables_of(report):
        paths.append(path)
        for name, column in table["columns"].items():
            assert len(column) == table["length"], f"{path}.{name}"
            entries = table["dictionaries"].get(name)
            if entries is not None:
                flat = [n for v in column for n in (v if isinstance(v, list) else [v])]
                assert all(n is None or 0 <= n < len(entries) for n in flat), f"{path}.{name}"
            if name == "group":
                known = range(len(group_names(report)))
                assert all(n is None or n in known for n in column), f"{path}.{name}"
        assert table["dictionaries"].keys() <= table["columns"].keys(), path
    assert len(set(paths)) > 40


def test_the_figures_at_the_top(report: Report) -> None:
    expected = {
        "groups": 3, "groups_deleted": 1, "members": 4, "topics": 2, "partitions": 3,
        "records": 600, "records_missing": 16, "quarantined": 4, "unknown": 2,
        "rebalances": 2, "rebalances_open": 0, "unowned_ms": 114_400, "longest_ms": 38_200,
        "findings": 4, "findings_roots": 3, "findings_worst": "critical",
        "verified": 115, "unverifiable": 7, "disagreed": 3, "dead_groups": 0, "rewinds": 1,
        "newest_record": ms(84.5),
        "last_run_at": round(datetime(2026, 11, 22, 4, tzinfo=UTC).timestamp() * 1000),
    }  # fmt: skip
    assert {name: report["summary"][name] for name in expected} == expected


def test_records_are_counted_by_kind_and_day(report: Report) -> None:
    kinds = {row["kind"]: row for row in rows_of(report["overview"]["records_by_kind"])}
    assert {kind: (row["records"], row["tombstones"]) for kind, row in kinds.items()} == {
        "offset_commit": (14, 1),
        "consumer_group_member_metadata": (2, 1),
        "consumer_group_metadata": (2, 0),
    }
    day = round(datetime(2026, 11, 20, tzinfo=UTC).timestamp() * 1000)
    by_day = rows_of(report["overview"]["records_by_day"])
    assert {(row["day"], row["kind"]): row["records"] for row in by_day} == {
        (day - 86_400_000, "consumer_group_member_metadata"): 1,
        (day, "consumer_group_member_metadata"): 1,
        (day, "consumer_group_metadata"): 2,
        (day, "offset_commit"): 14,
    }


def test_the_audits_are_added_up_by_check(report: Report) -> None:
    rows = rows_of(report["overview"]["agreement"])
    counts = [(r["check"], r["verified"], r["unverifiable"], r["disagreed"]) for r in rows]
    assert counts == [("state", 100, 0, 0), ("epochs", 15, 7, 3), ("live", 1000, 0, 0)]
    assert all(row["about"] for row in rows)
    reasons = rows_of(report["overview"]["not_judged"])
    assert reasons == [
        {"check": "epochs", "reason": "gap", "count": 6},
        {"check": "epochs", "reason": "end of log", "count": 1},
    ]


def test_gaps_and_runs(report: Report) -> None:
    sums = {r["cause"]: (r["ranges"], r["offsets"]) for r in rows_of(report["overview"]["gaps"])}
    assert sums == {"compaction": (2, 15), "transaction": (1, 1)}
    largest = rows_of(report["overview"]["gap_list"])[0]
    assert (largest["partition"], largest["first_offset"], largest["offsets"]) == (3, 10, 10)
    runs = rows_of(report["overview"]["runs"])
    assert [(r["run_id"], r["audit"], r["records"]) for r in runs[1:]] == [
        (SECOND, "partial", 300),
        (FIRST, "complete", 300),
    ]
    assert runs[2]["steps"] == [["ingest", 1000], ["audit", 50]]
    assert rows_of(report["overview"]["errors"]) == [{"reason": "too short", "records": 4}]


def test_each_finding_is_there_once_with_those_that_follow_from_it(report: Report) -> None:
    """Two runs found `a`: the newer text counts. `b` follows from `a`, also across runs."""
    rows = rows_of(report["findings"])
    assert [row["id"] for row in rows] == ["c", "d", "a", "b"]
    by_id = {row["id"]: (number, row) for number, row in enumerate(rows)}
    assert by_id["b"][1]["root"] == by_id["a"][0]
    assert (by_id["a"][1]["root"], by_id["a"][1]["followers"]) == (None, 1)
    assert by_id["a"][1]["title"] == "again a is wrong."
    assert by_id["a"][1]["run_id"] == SECOND
    assert by_id["a"][1]["lines"] == [
        "Expected: 1", "Recorded: 2", "Means: something.", "To do: look."
    ]  # fmt: skip
    assert by_id["d"][1]["lines"] == ["Expected: 1", "Recorded: 2"]
    names = group_names(report)
    assert names[by_id["c"][1]["group"]] == HOSTILE
    assert names[by_id["d"][1]["group"]] == "gone"


def test_groups_have_what_all_tables_say_of_them(report: Report) -> None:
    groups = {row["group_id"]: row for row in rows_of(report["groups"])}
    assert list(groups) == [HOSTILE, GROUP, "reports", "gone"]
    billing = groups[GROUP]
    expected = {
        "type": "consumer", "state": "Stable", "epoch": 43, "members": 3, "topics": ["orders"],
        "assigned_partitions": 3, "committed_partitions": 0, "commits": 13, "bytes": 1350,
        "rebalances": 2, "unowned_ms": 114_400, "moved": 3, "longest_ms": 38_200,
        "slowest_ms": 38_100, "last_rebalance": ms(84), "findings": 2, "severity": "error",
        "verdict": "already_migrated", "last_commit": None,
    }  # fmt: skip
    assert {name: billing[name] for name in expected} == expected
    assert billing["cause"] == "left_or_expired"  # one each; the first by name
    assert (groups["reports"]["rebalances"], groups["reports"]["cause"]) == (0, None)
    assert groups["reports"]["last_commit"] == ms(-50)
    assert groups[HOSTILE]["topics"] == [HOSTILE, "orders"]
    assert (groups["gone"]["state"], groups["gone"]["verdict"]) == ("Dead", None)


def test_rebalances_are_listed_and_added_up(report: Report) -> None:
    section = report["rebalances"]
    first, second = rows_of(section["list"])
    expected = {
        "epoch": 42, "started_at": ms(0), "duration_ms": 38_200, "causes": ["left_or_expired"],
        "joined": 0, "left": 1, "moved": 3, "minimal": 1, "blocked": 1, "slowest": "worker-1",
        "slowest_ms": 38_100, "unowned_ms": 114_400, "outcome": "converged", "complete": 1,
        "trigger": "worker-3",
    }  # fmt: skip
    names = group_names(report)
    assert names[first["group"]] == GROUP
    # Reading the causes as a list of lists would give one letter.
    first["causes"] = section["list"]["dictionaries"]["causes"][
        section["list"]["columns"]["causes"][0]
    ]
    assert {name: first[name] for name in expected} == expected
    assert (second["epoch"], second["started_at"]) == (43, ms(84))
    assert {r["cause"]: (r["rebalances"], r["groups"]) for r in rows_of(section["causes"])} == {
        "left_or_expired": (1, 1),
        "member_joined": (1, 1),
    }
    hour = round(datetime(2026, 11, 20, 2, tzinfo=UTC).timestamp() * 1000)
    assert rows_of(section["by_hour"]) == [
        {"hour": hour, "rebalances": 2, "groups": 1, "unowned_ms": 114_400, "longest_ms": 38_200}
    ]
    histogram = {r["from_ms"]: r["rebalances"] for r in rows_of(section["durations"])}
    assert {start: n for start, n in histogram.items() if n} == {500: 1, 30_000: 1}


def test_since_leaves_out_what_began_earlier(lake: Path) -> None:
    later = report_of(lake, NIGHT + timedelta(seconds=60))
    assert [row["epoch"] for row in rows_of(later["rebalances"]["list"])] == [43]
    assert later["summary"]["rebalances"] == 1
    assert later["period"]["from"] == ms(60)
    none = report_of(lake, NIGHT + timedelta(days=1))
    assert none["rebalances"]["list"]["length"] == 0
    assert none["summary"]["rebalances"] == 0
    assert none["summary"]["groups"] == later["summary"]["groups"]


def test_the_timeline_says_who_owned_what_when(report: Report) -> None:
    """The night of `tests.lake.billing_lake`. Two member ids of worker-3 are one client."""
    number = group_names(report).index(GROUP)
    (drawn,) = (one for one in report["timelines"] if one["group"] == number)
    members, partitions = rows_of(drawn["members"]), rows_of(drawn["partitions"])
    assert [(m["name"], m["client"]) for m in members] == [
        ("worker-1", 0), ("worker-2", 1), ("worker-3", 2), ("worker-3", 2)
    ]  # fmt: skip

    def place(row: dict[str, Any]) -> str:
        where = partitions[row["partition"]]
        return f"{where['topic']}-{where['partition']}"

    owned = {
        (place(r), members[r["member"]]["name"], r["role"], r["from"], r["to"])
        for r in rows_of(drawn["owned"])
    }
    before, revoking_at, free = ms(-3000), ms(0.1), ms(38.2)
    assert owned == {
        ("orders-3", "worker-3", 0, before, ms(0)),
        ("orders-3", "worker-1", 0, free, None),
        *(
            row
            for name in ("orders-7", "orders-9")
            for row in (
                (name, "worker-1", 0, before, revoking_at),
                (name, "worker-1", 1, revoking_at, free),
                (name, "worker-2", 0, free, None),
            )
        ),
    }
    unowned = [(place(r), r["from"], r["to"]) for r in rows_of(drawn["unowned"])]
    assert unowned == [("orders-3", ms(0), free)]
    waiting = [(members[r["member"]]["name"], r["from"], r["to"], r["state"])
               for r in rows_of(drawn["states"]) if r["state"]]  # fmt: skip
    assert waiting == [("worker-1", revoking_at, free, 1), ("worker-2", ms(0.3), free, 2)]
    epochs = [(r["epoch"], r["state"], r["from"], r["to"]) for r in rows_of(drawn["epochs"])]
    assert epochs == [
        (41, "Stable", before, ms(0)),
        (42, "Reconciling", ms(0), free),
        (42, "Stable", free, ms(84)),
        (43, "Stable", ms(84), None),
    ]
    assert [(r["at"], r["epoch"], r["row"]) for r in rows_of(drawn["marks"])] == [
        (ms(0), 42, 0),
        (ms(84), 43, 1),
    ]
    assert (drawn["from"], drawn["to"]) == (before, ms(84.5))


def test_the_last_rebalances_are_explained(report: Report) -> None:
    drawn = report["timelines"][0]
    (story,) = drawn["stories"]
    assert (story["epoch"], story["at"]) == (43, ms(84))
    assert ["cause", "worker-3 (10.0.4.17) joined"] in story["lines"]


def test_members_now(report: Report) -> None:
    rows = rows_of(report["members"])
    names = group_names(report)
    listed = {(names[r["group"]], r["name"]): r for r in rows}
    assert {name for group, name in listed if group == GROUP} == {
        "worker-1", "worker-2", "worker-3"
    }  # fmt: skip
    first = listed[GROUP, "worker-1"]
    assert (first["host"], first["partitions"], first["epoch"]) == ("10.0.4.1", 1, 43)
    assert first["since"] == ms(-3000)
    assert listed[GROUP, "worker-3"]["since"] == ms(84)
    (stranger,) = (r for r in rows if names[r["group"]] == HOSTILE)
    at_ = [r["member_id"] for r in rows].index(stranger["member_id"])
    entry = report["members"]["columns"]["topics"][at_]
    assert report["members"]["dictionaries"]["topics"][entry] == [HOSTILE, "orders"]


def test_readiness(report: Report) -> None:
    section = report["readiness"]
    names = group_names(report)
    verdicts = {names[r["group"]]: r["verdict"] for r in rows_of(section["list"])}
    assert verdicts[GROUP] == "already_migrated"
    assert verdicts["reports"] == "not_applicable"
    assert "gone" not in verdicts
    counts = {r["verdict"]: r["groups"] for r in rows_of(section["verdicts"])}
    assert sum(counts.values()) == 3
    rules = rows_of(section["rules"])
    for row in rows_of(section["list"]):
        for rule in (*row["blockers"], *row["warnings"], *row["unknowns"], *row["notes"]):
            assert rules[rule]["means"]
            assert rules[rule]["groups"] >= 1


def test_verdicts_of_earlier_runs_show_the_progress(tmp_path: Path) -> None:
    verdicts = {FIRST: ["blocked", "blocked", "ready"], SECOND: ["ready", "ready", "blocked"]}
    rows = [
        {"run_id": run_id, "group_id": f"group {number}", "verdict": verdict}
        for run_id, found in verdicts.items()
        for number, verdict in enumerate(found)
    ]
    report = report_of(write_audited_lake(tmp_path / "lake", readiness=rows))
    days = [round(datetime(2026, 11, day, 4, tzinfo=UTC).timestamp() * 1000) for day in (21, 22)]
    progress = rows_of(report["readiness"]["progress"])
    assert [(r["run_id"], r["at"], r["verdict"], r["groups"]) for r in progress] == [
        (FIRST, days[0], "ready", 1),
        (FIRST, days[0], "blocked", 2),
        (SECOND, days[1], "ready", 2),
        (SECOND, days[1], "blocked", 1),
    ]


def test_hygiene(report: Report) -> None:
    section = report["hygiene"]
    names = group_names(report)
    (growth,) = rows_of(section["growth"])
    assert (names[growth["group"]], growth["topic"]) == (GROUP, "orders")
    assert (growth["commits"], growth["tombstones"], growth["bytes"]) == (13, 1, 1350)
    (rewind,) = rows_of(section["rewinds"])
    assert (rewind["distance"], rewind["owner"], rewind["at"]) == (60, "worker-1", ms(20))
    assert section["deleted_topics"] is None
    assert section["open_transactions"] is None
