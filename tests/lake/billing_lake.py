"""A lake in which one group rebalanced during a night, as `tests.insight.story_rows` tells it.

`orders-billing` had the members worker-1, worker-2 and worker-3. At 02:14:07, worker-3 expired;
worker-1 took 38.1 s to give up two partitions; worker-3 came back at 02:15:31. The group
`reports` commits offsets only, and `old-group` was deleted at 02:00.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.insight.story_rows import GROUP, PARTITION, Row, at, group, member, part, rebalance
from tests.lake.written_lake import write_lake

BACK = "id-after-the-restart"
HOST = {"host": "10.0.4.17"}

GROUPS = [
    group(41, -3000, 0, (13, 101)),
    group(42, 0, 38.2, (101, 111), state="Reconciling", members=2),
    group(42, 38.2, 84, (111, 121), members=2),
    group(43, 84, None, (121, None)),
    group(5, -3000, -847, (1, 5)) | {"group_id": "old-group"},
    group(0, -2000, None, (3, None), type="classic", members=0, state="Empty", protocol_type="")
    | {"group_id": "reports"},
]
MEMBERS = [
    member("worker-1", -3000, 0.1, (10, 102), member_epoch=41),
    member("worker-1", 0.1, 38.2, (102, 110), member_state="unrevoked_partitions"),
    member("worker-1", 38.2, None, (110, None), member_epoch=43),
    member("worker-2", -3000, 0.3, (11, 103), member_epoch=41),
    member("worker-2", 0.3, 38.2, (103, 111), member_state="unreleased_partitions"),
    member("worker-2", 38.2, None, (111, None), member_epoch=43),
    member("worker-3", -3000, 0, (12, 100), **HOST),
    member("worker-3", 84, None, (120, None), member_id=BACK, **HOST),
]
ASSIGNMENTS = [
    *(
        row
        for number in (7, 9)
        for row in (
            part("worker-1", number, "assigned", -3000, 0.1, (10, 102)),
            part("worker-1", number, "pending_revocation", 0.1, 38.2, (102, 110)),
            part("worker-2", number, "assigned", 38.2, None, (111, None)),
        )
    ),
    part("worker-3", 3, "assigned", -3000, 0, (12, 99)),
    part("worker-1", 3, "assigned", 38.2, None, (110, None)),
    *(part("worker-1", number, "target", -3000, None, (9, None)) for number in range(24)),
]
REBALANCES = [
    rebalance(
        42, ["left_or_expired"], 0, 38.2, 101, left=["worker-3"], trigger_members=["worker-3"],
        partitions_moved=3, minimal_moves=1, slowest_member="worker-1", slowest_ms=38_100,
        blocked_members=["worker-2"], evidence=[100, 101, 111], unowned_ms=114_400,
    ),
    rebalance(43, ["member_joined"], 84, 84.5, 121)
    | {"joined": [BACK], "trigger_members": [BACK], "evidence": [120, 121]},
]  # fmt: skip


def commit(offset: int, seconds: float, number: int, committed: int | None, **columns: Any) -> Row:
    """A row of `records`: a commit, or its tombstone if ``committed`` is None."""
    return {
        "partition": PARTITION,
        "offset": offset,
        "timestamp": at(seconds),
        "kind": "offset_commit",
        "tombstone": committed is None,
        "group_id": GROUP,
        "topic": "orders",
        "topic_partition": number,
        "committed_offset": committed,
        "run_id": "run",
    } | columns


COMMITS = [
    *(commit(20 + n, -94.9 + 5 * n, 3, 1000 + n) for n in range(11)),  # the last one at -44.9 s
    commit(40, -10, 7, 500),
    commit(105, 20, 7, 510),
    commit(106, 15, 9, 77),  # its clock was behind: time never goes backwards, so this is of 20 s
    commit(130, 90, 7, None),
    commit(31, -50, 0, 9, group_id="reports"),
]


def current(rows: list[Row]) -> list[Row]:
    """The rows of the state table: those that are still true."""
    return [
        row | {"last_offset": row["from_offset"], "updated_at": row["valid_from"]}
        for row in rows
        if row["to_offset"] is None
    ]


def write_billing_lake(path: Path, **options: Any) -> Path:
    """Writes the lake to ``path``; ``options`` are those of `write_lake`."""
    tables = {
        "groups": current(GROUPS),
        "members": current(MEMBERS),
        "assignments": current(ASSIGNMENTS),
        "group_history": GROUPS,
        "member_history": MEMBERS,
        "assignment_history": ASSIGNMENTS,
        "rebalances": REBALANCES,
        "records": COMMITS,
    }
    missing = options.get("without", ())
    write_lake(path, {n: rows for n, rows in tables.items() if n not in missing}, **options)
    return path
