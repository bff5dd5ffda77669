"""The timelines of real logs: at any moment, they show what `groups --as-of` answers. And commits
that came to a stop."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from kip848_spark.errors import NotFoundError
from kip848_spark.lake.lake import Lake
from kip848_spark.lake.location import locate
from kip848_spark.lake.snapshot import LakeSnapshot
from kip848_spark.report.data import ReportOptions, report_data
from tests.captures import COMMITTED
from tests.conftest import DATA
from tests.insight.story_rows import GROUP, at, group, member, part
from tests.lake.billing_lake import commit
from tests.lake.replayed_lake import control_bytes, write_replayed_lake
from tests.lake.written_lake import write_lake
from tests.report.audited_lake import write_audited_lake
from tests.report.report_reader import group_names, rows_of

MOMENTS = 40
Report = dict[str, Any]


@pytest.fixture(scope="module")
def churn(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A lake of real groups whose members came and went all the time."""
    path = tmp_path_factory.mktemp("churn") / "lake"
    write_replayed_lake(path, control_bytes(DATA / "churn-4.3.1" / COMMITTED))
    return path


def test_owners_at_any_moment(churn: Path) -> None:
    since = datetime(1970, 1, 1, tzinfo=UTC)
    report = report_data(LakeSnapshot(locate(str(churn))), ReportOptions(since))
    names = group_names(report)
    assert len(report["timelines"]) > 20
    period = report["period"]
    compared = 0
    for number in range(1, MOMENTS):
        moment = report["summary"]["newest_record"] - number * _step(report)
        assert moment <= period["to"]
        # A moment between two records: those of one operation have one time.
        time = datetime.fromtimestamp(moment / 1000, UTC) + timedelta(microseconds=500)
        try:
            rows = Lake(churn).assignments(as_of=time).to_pylist()
        except NotFoundError:  # before everything that the lake knows
            continue
        expected: dict[str, set[tuple[Any, ...]]] = {}
        for row in rows:
            if row["role"] != "target":
                place = (row["topic"] or row["topic_id"], row["topic_partition"])
                key = (*place, row["member_id"], row["role"])
                expected.setdefault(row["group_id"], set()).add(key)
        for drawn in report["timelines"]:
            if drawn["from"] <= moment:
                found = _owned_at(drawn, moment)
                assert found == expected.get(names[drawn["group"]], set())
                compared += len(found)
    assert compared > 500


def _step(report: Report) -> int:
    first = min(drawn["from"] for drawn in report["timelines"])
    return int((report["period"]["to"] - first) // MOMENTS)


def _owned_at(drawn: Report, moment: int) -> set[tuple[Any, ...]]:
    members, partitions = rows_of(drawn["members"]), rows_of(drawn["partitions"])
    return {
        (
            partitions[row["partition"]]["topic"],
            partitions[row["partition"]]["partition"],
            members[row["member"]]["member_id"],
            "pending_revocation" if row["role"] else "assigned",
        )
        for row in rows_of(drawn["owned"])
        if row["from"] <= moment and (row["to"] is None or row["to"] > moment)
    }


def test_the_rebalances_of_a_group_are_its_marks(churn: Path) -> None:
    since = datetime(1970, 1, 1, tzinfo=UTC)
    report = report_data(LakeSnapshot(locate(str(churn))), ReportOptions(since))
    names = group_names(report)
    counts: dict[str, int] = {}
    for row in Lake(churn).rebalances().to_pylist():
        counts[row["group_id"]] = counts.get(row["group_id"], 0) + 1
    listed = {row["group_id"]: row["rebalances"] for row in rows_of(report["groups"])}
    assert {name: n for name, n in listed.items() if n} == counts
    for drawn in report["timelines"]:
        assert drawn["marks"]["length"] == counts.get(names[drawn["group"]], 0)


def test_commits_that_came_to_a_stop(tmp_path: Path) -> None:
    """Partition 7 was committed each 5 s until 30 s after the beginning of the night, then not for
    ten minutes, though worker-2 owned it from 38.2 s on. Partition 9 was committed to the end, and
    partition 5 has no owner."""
    commits = [
        *(commit(20 + n, -300 + 5 * n, 7, 100 + n) for n in range(67)),
        commit(200, 630, 7, 900),
        *(commit(300 + n, 5 * n, 9, 100 + n) for n in range(130)),
        *(commit(500 + n, -300 + 5 * n, 5, 100 + n) for n in range(20)),
    ]
    later = {
        "group_id": GROUP, "partition": 12, "type": "consumer", "state": "Stable", "epoch": 43,
        "protocol_type": "consumer", "members": 3, "last_offset": 999, "updated_at": at(645),
    }  # fmt: skip
    lake = write_audited_lake(tmp_path / "lake", records=commits, groups=[later])
    report = report_data(LakeSnapshot(locate(str(lake))))
    number = group_names(report).index(GROUP)
    (drawn,) = (one for one in report["timelines"] if one["group"] == number)
    partitions = rows_of(drawn["partitions"])
    stalls = [
        (partitions[r["partition"]]["partition"], r["from"], r["to"], r["usual_ms"])
        for r in rows_of(drawn["stalls"])
    ]
    owned_from = round(at(38.2).timestamp() * 1000)
    assert stalls == [(7, owned_from, round(at(630).timestamp() * 1000), 5000)]


def test_a_partition_is_not_without_owner_where_records_are_missing(tmp_path: Path) -> None:
    """Records are missing after 60 s. The state is known again from 100 s on, then without an owner
    of partition 1, and the owner of partition 0 leaves at 200 s. Partition 2 lost its owner at
    30 s and gets the next one at 110 s."""
    unseen = {"known_to": at(60)}
    histories = {
        "group_history": [
            group(1, 0, 60, (0, 40)) | unseen,
            group(2, 100, None, (90, None)) | {"known_from": at(100)},
        ],
        "member_history": [member("worker-1", 0, 60, (0, 40)) | unseen],
        "assignment_history": [
            *(part("worker-1", n, "assigned", 0, 60, (0, 40)) | unseen for n in (0, 1)),
            part("worker-2", 0, "assigned", 100, 200, (90, 120)) | {"known_from": at(100)},
            part("worker-2", 0, "assigned", 230, None, (130, None)),
            part("worker-1", 2, "assigned", 0, 30, (0, 20)),
            part("worker-2", 2, "assigned", 110, None, (100, None)),
        ],
    }
    present = [
        {**row, "last_offset": 130, "updated_at": at(230)}
        for row in [group(2, 100, None, (90, None))]
    ]
    write_lake(tmp_path / "lake", {**histories, "groups": present})
    report = report_data(LakeSnapshot(locate(str(tmp_path / "lake"))), ReportOptions(at(-60)))
    (drawn,) = report["timelines"]
    partitions = rows_of(drawn["partitions"])
    unowned = [
        (partitions[row["partition"]]["partition"], row["from"], row["to"])
        for row in rows_of(drawn["unowned"])
    ]
    expected = [(0, 200, 230), (2, 30, 60), (2, 100, 110)]
    assert unowned == [
        (number, round(at(start).timestamp() * 1000), round(at(end).timestamp() * 1000))
        for number, start, end in expected
    ]
