"""The night of `tests.lake.billing_lake`, and around it all that a lake can have: two audits, gaps,
commits, a rewind, verdicts of an earlier run, and a group that a stranger named."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

from deltalake import DeltaTable

from kip848_spark.lake import delta_rs
from kip848_spark.lake.arrow_files import WriteTarget
from kip848_spark.lake.tables import TABLES
from tests.insight.story_rows import GROUP, PARTITION, at
from tests.lake.billing_lake import (
    ASSIGNMENTS,
    COMMITS,
    GROUPS,
    MEMBERS,
    REBALANCES,
    current,
)
from tests.lake.written_lake import write_lake

HOSTILE = "</script><script>alert(1)//\x00\x1b[2J\u202e=1+1\u2028"
FIRST, SECOND = "20261121T030000.000000Z-0000", "20261122T030000.000000Z-0000"
DAY = date(2026, 11, 20)
TEXT = "{} is wrong.\nExpected: 1\nRecorded: 2\nMeans: something.\nTo do: look."


def finding(run: str, finding_id: str, **values: Any) -> dict[str, Any]:
    return {
        "run_id": run, "finding_id": finding_id, "check": "epochs", "reason": "r",
        "severity": "warning", "group_id": GROUP, "partition": PARTITION, "offset": 101,
        "timestamp": at(0), "expected": "1", "recorded": "2",
        "explanation": TEXT.format(finding_id),
    } | values  # fmt: skip


FINDINGS = [
    finding(FIRST, "a"),
    finding(FIRST, "b", caused_by="a", severity="error", offset=110),
    finding(FIRST, "c", severity="critical", check="ownership", group_id=HOSTILE),
    finding(SECOND, "a", explanation=TEXT.format("again a")),
    finding(SECOND, "d", explanation="Of an earlier version.", group_id="gone"),
]
AGREEMENT = [
    {"run_id": FIRST, "check": "epochs", "verified": 10, "unverifiable": 3, "disagreed": 2,
     "reasons": {"gap": 2, "end of log": 1}},
    {"run_id": FIRST, "check": "state", "verified": 100, "unverifiable": 0, "disagreed": 0,
     "reasons": {}},
    {"run_id": SECOND, "check": "epochs", "verified": 5, "unverifiable": 4, "disagreed": 1,
     "reasons": {"gap": 4}},
    {"run_id": SECOND, "check": "live", "verified": 1000, "unverifiable": 0, "disagreed": 0,
     "reasons": {}},
]  # fmt: skip
GAPS = [
    {"partition": 3, "first_offset": 10, "last_offset": 19, "cause": "compaction", "run_id": FIRST},
    {"partition": 3, "first_offset": 40, "last_offset": 40, "cause": "transaction",
     "run_id": FIRST},
    {"partition": 4, "first_offset": 0, "last_offset": 4, "cause": "compaction", "run_id": SECOND},
]  # fmt: skip
_COMMITS = {"partition": PARTITION, "group_id": GROUP, "topic": "orders", "day": DAY}
ACTIVITY = [
    _COMMITS | {"topic_partition": 3, "commits": 11, "tombstones": 0, "bytes": 1100,
                "first_offset": 20, "last_offset": 30, "rewinds": 0, "largest_rewind": 0},
    _COMMITS | {"topic_partition": 7, "commits": 2, "tombstones": 1, "bytes": 250,
                "first_offset": 40, "last_offset": 130, "rewinds": 1, "largest_rewind": 60},
]  # fmt: skip
SUMMARIES = [
    {name: value for name, value in row.items() if name != "largest_rewind"}
    | {"rewinds": None, "first_commit_timestamp": at(-94.9), "last_commit_timestamp": at(-44.9)}
    for row in ACTIVITY
]
REWINDS = [
    {"partition": PARTITION, "offset": 105, "group_id": GROUP, "topic": "orders",
     "topic_partition": 7, "from_committed": 570, "to_committed": 510, "at": at(20),
     "owner": "id-of-worker-1", "run_id": FIRST},
]  # fmt: skip
CONTROL = [
    {"partition": PARTITION, "offset": offset, "timestamp": at(seconds), "kind": kind,
     "group_id": GROUP, "tombstone": tombstone}
    for offset, seconds, kind, tombstone in [
        (10, -90_000, "consumer_group_member_metadata", False),
        (100, 0, "consumer_group_member_metadata", True),
        (101, 0, "consumer_group_metadata", False),
        (121, 84, "consumer_group_metadata", False),
    ]
]  # fmt: skip
OFFSETS = [
    {"group_id": name, "topic": topic, "topic_partition": 0, "committed_offset": 5,
     "metadata": HOSTILE, "commit_timestamp": at(-50), "partition": PARTITION, "offset": 31}
    for name, topic in [("reports", "orders"), (HOSTILE, HOSTILE)]
]  # fmt: skip
STRANGER = {
    "group_id": HOSTILE, "type": "classic", "state": "Stable", "protocol_type": "consumer",
    "protocol": HOSTILE, "epoch": 1, "members": 1, "partition": 7, "last_offset": 5,
    "updated_at": at(0),
}  # fmt: skip
STRANGERS_MEMBER = {
    "group_id": HOSTILE, "member_id": f"id {HOSTILE}", "client_id": HOSTILE,
    "client_host": f"/{HOSTILE}", "subscribed_topics": [HOSTILE, "orders"], "is_classic": True,
}  # fmt: skip


def write_audited_lake(path: Path, **tables: Any) -> Path:
    """Writes the lake to ``path``; ``tables`` take the place of those of the same names."""
    rows: dict[str, Any] = {
        "groups": [*current(GROUPS), STRANGER],
        "members": [*current(MEMBERS), STRANGERS_MEMBER],
        "assignments": current(ASSIGNMENTS),
        "group_history": GROUPS,
        "member_history": MEMBERS,
        "assignment_history": ASSIGNMENTS,
        "rebalances": REBALANCES,
        "records": COMMITS,
        "group_records": CONTROL,
        "offsets": OFFSETS,
        "offset_activity": ACTIVITY,
        "commit_summaries": SUMMARIES,
        "rewinds": REWINDS,
        "findings": FINDINGS,
        "agreement": AGREEMENT,
        "gaps": GAPS,
    }
    write_lake(path, rows | tables, finished_at=datetime(2026, 11, 22, 4, tzinfo=UTC))
    _add_audits(path)
    return path


def _add_audits(path: Path) -> None:
    """The runs that audited, before the one that finished last."""
    table = TABLES["runs"]
    runs = delta_rs.read_rows(str(path / "runs"), table)
    (last,) = runs
    earlier = [
        last
        | {
            "run_id": run_id,
            "finished_at": datetime(2026, 11, 21, 4, tzinfo=UTC) + timedelta(days=number),
            "durations_ms": {"ingest": 1000, step: 50},
            "records_read": 300,
            "decoded": 280,
            "tombstones": 17,
            "unknown": 1,
            "quarantined": 2,
            "missing": 8,
            "errors": {"too short": 2},
        }
        for number, (run_id, step) in enumerate([(FIRST, "audit"), (SECOND, "audit_of_a_part")])
    ]
    target = WriteTarget("runs", str(path / "runs"), table.fields, {}, table.stats_columns)
    version = DeltaTable(path / "runs").version()
    delta_rs.commit(str(path / "runs"), version, delta_rs.write_rows(target, earlier))
