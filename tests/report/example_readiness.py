"""The parts of the example about readiness and hygiene."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

from tests.report.example import DAY, END, HOUR, RULES, START, table

Row = dict[str, Any]


def readiness(groups: list[Row], verdicts: Counter[str]) -> Row:
    rows = []
    for number, group in enumerate(groups):
        blocked, warned = (
            group["verdict"] == "blocked",
            group["verdict"] in ("blocked", "ready_with_warnings"),
        )
        rows.append(
            {
                "group": number,
                "verdict": group["verdict"],
                "wave": number % 4 + 1 if group["verdict"].startswith("ready") else None,
                "risk": ("high", "medium", "low")[number % 3],
                "blockers": [0] if blocked else [],
                "warnings": [1, 2] if warned else [],
                "unknowns": [3] if warned and number % 5 == 0 else [],
                "notes": [4],
                "details": [[0, "worker-1 sends 12 bytes"]] if blocked else None,
                "likely_client": "librdkafka",
                "likely_client_from": "its client ids",
                "members": group["members"],
                "classic_members": group["members"],
                "uniform_moves": 3,
                "uniform_rounds": 2,
                "range_moves": 5,
                "range_rounds": 2,
                "cheaper_rebalances": 4,
            }
        )
    counts = Counter(
        rule
        for row in rows
        for name in ("blockers", "warnings", "unknowns", "notes")
        for rule in row[name]
    )
    rules = [
        {
            "rule": a,
            "severity": b,
            "means": c,
            "todo": d,
            "source": ["KIP-848"],
            "groups": counts[number],
        }
        for number, (a, b, c, d) in enumerate(RULES)
    ]
    waves = Counter(row["wave"] for row in rows if row["wave"] is not None)
    return {
        "verdicts": table(
            [{"verdict": a, "groups": n, "about": a} for a, n in verdicts.items()],
            "verdict",
        ),
        "waves": table([{"wave": a, "groups": n} for a, n in sorted(waves.items())]),
        "rules": table(rules, "severity"),
        "list": table(
            rows,
            "verdict risk likely_client likely_client_from",
        ),
        "notes": table(
            [
                {
                    "severity": "unknown",
                    "text": "The migration policy is not known.",
                    "todo": "Name the cluster.",
                    "source": [],
                    "groups": 9,
                    "rules": [],
                }
            ],
            "severity",
        ),
        "release": "at least 4.1",
        "settings": [["group.consumer.max.size", "200"]],
        "progress": table(
            [
                {
                    "run_id": str(day),
                    "at": START + day * DAY,
                    "verdict": "ready",
                    "groups": 10 + day,
                }
                for day in range(4)
            ],
            "verdict",
        ),
    }


def hygiene(rng: random.Random, groups: list[Row], healthy: bool) -> Row:
    numbers = range(min(40, len(groups)))
    growth = [
        {
            "group": one,
            "topic": groups[one]["topics"][0],
            "partitions": 12,
            "commits": 90_000 // (one + 1),
            "tombstones": 2,
            "bytes": 9_000_000 // (one + 1),
            "share": 0.3 / (one + 1),
            "interval_s": 0.4 * (one + 1),
            "saved": 60_000,
            "saved_bytes": 6_000_000 // (one + 1),
        }
        for one in numbers
    ]
    rewinds = (
        []
        if healthy
        else [
            {
                "at": END - HOUR * (3 - one),
                "group": 3,
                "topic": "orders",
                "topic_partition": one,
                "from_committed": 91_000,
                "to_committed": 80_500 - one,
                "distance": 10_500 + one,
                "owner": None if one else "worker-1",
                "partition": 3,
                "offset": 812,
            }
            for one in range(3)
        ]
    )
    dead = (
        []
        if healthy
        else [
            {"group": one, "last_activity": START, "last_commit": START, "offsets": 12, "topics": 1}
            for one in (5, 6)
        ]
    )
    return {
        "as_of": END,
        "days": 7,
        "assumptions": {
            "offsets_retention_s": 604_800,
            "commit_interval_s": 5,
            "expires_within_s": 172_800,
        },
        "growth": table(
            growth,
            "topic",
        ),
        "growth_by_day": table(
            [
                {
                    "day": START - START % DAY + day * DAY,
                    "commits": 250_000,
                    "tombstones": 12,
                    "bytes": int(rng.uniform(2e7, 4e7)),
                    "rewinds": 0,
                }
                for day in range(8)
            ],
        ),
        "dead_groups": table(dead),
        "deleted_topics": None,
        "no_longer_read": table([], "topic"),
        "expiring": table([]),
        "open_transactions": table([]),
        "rewinds": table(
            rewinds,
            "topic",
        ),
        "size": {
            "records_read": 2_104_233,
            "tombstones_read": 9_000,
            "commits_read": 1_990_000,
            "commit_tombstones_read": 400,
            "commit_bytes_read": 190_000_000,
            "compacted": {
                "commits": 8_000,
                "commit_bytes": 800_000,
                "control_records": 900,
                "control_bytes": 120_000,
            },
        },
    }
