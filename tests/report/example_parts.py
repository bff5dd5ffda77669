"""The parts of the example beside groups and rebalances."""

from __future__ import annotations

import itertools
import random
from collections import Counter
from typing import Any

from tests.report.example import DAY, END, HOUR, START, TOPICS, table, timeline
from tests.report.example_readiness import hygiene, readiness

Row = dict[str, Any]


def parts(rng: random.Random, groups: list[Row], events: list[Row], healthy: bool) -> Row:
    """The whole report."""
    findings = [] if healthy else _findings(groups)
    timelines = []
    for number in range(min(6, len(groups))):
        groups[number]["timeline"] = number
        timelines.append(timeline(rng, number, groups[number]["topics"][0], 3 + number, 12))
    verdicts = Counter(row["verdict"] for row in groups)
    return {
        "format": 1,
        "program": {"name": "kip848-spark", "version": "0.1.0"},
        "made_at": END + HOUR,
        "lake": {
            "path": "/data/lake",
            "source": "kafka:broker-1:9092",
            "cluster_id": "Nk018hRAQFytWskYqtQduw",
            "topic": "__consumer_offsets",
            "run_id": "20261123T030000",
        },
        "period": {"from": START, "to": END},
        "left_out": []
        if healthy
        else ["Timelines of 54 groups with fewer rebalances were left out."],
        "missing": [],
        "missing_sections": {},
        "summary": {
            "groups": len(groups),
            "groups_deleted": 0,
            "members": sum(row["members"] for row in groups),
            "topics": len(TOPICS),
            "partitions": sum(row["assigned_partitions"] for row in groups),
            "records": 2_104_233,
            "records_missing": 1_204,
            "quarantined": 0,
            "unknown": 0,
            "rebalances": len(events),
            "rebalances_open": 0,
            "unowned_ms": sum(row["unowned_ms"] for row in events),
            "longest_ms": max((row["duration_ms"] for row in events), default=None),
            "findings": len(findings),
            "findings_roots": sum(row["root"] is None for row in findings),
            "findings_worst": findings[0]["severity"] if findings else None,
            "verified": 88_123,
            "unverifiable": 41,
            "disagreed": len(findings),
            "verdicts": dict(verdicts),
            "dead_groups": 2,
            "rewinds": 0 if healthy else 3,
            "newest_record": END,
            "oldest_record": START,
            "last_run_at": END + HOUR,
        },
        "overview": _overview(rng, groups, findings),
        "groups": table(
            groups,
            "type state protocol_type protocol assignor topics cause severity verdict",
        ),
        "rebalances": _rebalance_tables(groups, events, healthy),
        "readiness": readiness(groups, verdicts),
        "hygiene": hygiene(rng, groups, healthy),
        "findings": table(
            findings,
            "check severity run_id",
        ),
        "members": _members(groups),
        "timelines": timelines,
    }


def _findings(groups: list[Row]) -> list[Row]:
    common = {
        "id": "f1",
        "followers": 0,
        "member": None,
        "partition": 3,
        "offset": 1234,
        "at": END - DAY,
        "run_id": "20261123T030000",
    }
    rows = [
        {
            **common,
            "root": None,
            "followers": 1,
            "check": "transitions",
            "severity": "error",
            "group": 1,
            "title": "A member owns a partition that another one has not given up",
            "lines": [
                "Expected: orders(3-5)",
                "Recorded: orders(3-4)",
                "Means: two members may have read orders-4.",
                "To do: compare the release.",
            ],
        },
        {
            **common,
            "root": 0,
            "check": "state",
            "severity": "error",
            "group": 1,
            "title": "The state has one partition too many",
            "lines": [],
        },
        {
            **common,
            "root": None,
            "check": "epochs",
            "severity": "warning",
            "group": 4,
            "title": "An epoch was skipped",
            "lines": ["Expected: 17", "Recorded: 18"],
        },
    ]
    for row in rows:
        group = groups[row["group"]]
        group["findings"] += 1
        group["severity"] = group["severity"] or row["severity"]
    return rows


def _overview(rng: random.Random, groups: list[Row], findings: list[Row]) -> Row:
    kinds = {
        "offset_commit": 1_990_000,
        "consumer_group_current_member_assignment": 61_000,
        "consumer_group_metadata": 24_000,
        "consumer_group_target_assignment_member": 20_000,
        "group_metadata": 9_000,
    }
    states = Counter((row["type"], row["state"]) for row in groups)
    days = [
        {
            "day": START - START % DAY + day * DAY,
            "kind": kind,
            "records": int(count / 7 * rng.uniform(0.7, 1.2)),
        }
        for day in range(8)
        for kind, count in kinds.items()
    ]
    checks = Counter((row["check"], row["severity"]) for row in findings)
    run = {
        "run_id": "20261123T030000",
        "started_at": END,
        "finished_at": END + 64_000,
        "records": 300_604,
        "decoded": 300_000,
        "tombstones": 604,
        "unknown": 0,
        "quarantined": 0,
        "missing": 12,
        "audit": "complete",
        "source": "kafka:broker-1:9092",
        "steps": [["ingest", 30_000], ["replay", 11_000]],
    }
    gap = {
        "partition": 7,
        "first_offset": 100,
        "last_offset": 1_299,
        "offsets": 1_200,
        "cause": "compaction",
        "run_id": "r",
    }
    return {
        "groups": table(
            [{"type": a, "state": b, "groups": n} for (a, b), n in sorted(states.items())],
            "type state",
        ),
        "records_by_kind": table(
            [{"kind": a, "records": n, "tombstones": n // 90} for a, n in kinds.items()],
            "kind",
        ),
        "records_by_day": table(days, "kind"),
        "agreement": table(
            [
                {
                    "check": "transitions",
                    "verified": 60_000,
                    "unverifiable": 40,
                    "disagreed": len(findings),
                    "about": "Each operation is one that the coordinator may do.",
                },
                {
                    "check": "state",
                    "verified": 28_123,
                    "unverifiable": 1,
                    "disagreed": 0,
                    "about": "The tables equal a second replay.",
                },
            ],
            "check",
        ),
        "not_judged": table(
            [
                {
                    "check": "transitions",
                    "reason": "the topic's partitions are not known",
                    "count": 41,
                }
            ],
            "check reason",
        ),
        "findings_by_check": table(
            [{"check": a, "severity": b, "findings": n} for (a, b), n in checks.items()],
            "check severity",
        ),
        "gaps": table(
            [
                {
                    "cause": "compaction",
                    "ranges": 1,
                    "offsets": 1_200,
                    "about": "The log cleaner removed them.",
                },
                {"cause": "transaction", "ranges": 4, "offsets": 4, "about": "Markers."},
            ],
            "cause",
        ),
        "gap_list": table([gap], "cause run_id"),
        "runs": table(
            [
                {**run, "started_at": END - day * DAY, "finished_at": END - day * DAY + 64_000}
                for day in range(6)
            ],
            "audit source",
        ),
        "errors": table([]),
    }


def _rebalance_tables(groups: list[Row], events: list[Row], healthy: bool) -> Row:
    causes = Counter(cause for row in events for cause in row["causes"])
    hours: dict[int, list[Row]] = {}
    for row in events:
        hours.setdefault(row["started_at"] - row["started_at"] % HOUR, []).append(row)
    groups_seen = len({row["group"] for row in events})
    by_cause = Counter(
        (hour, cause) for hour, rows in hours.items() for row in rows for cause in row["causes"]
    )
    patterns = (
        []
        if healthy
        else [
            {
                "pattern": "restart_loop",
                "group": 2,
                "partition": 2,
                "since": END - 2 * HOUR,
                "until": END - HOUR,
                "count": 6,
                "explanation": "worker-3 on 10.0.3.7 came back 6 times in 54 minutes",
            },
            {
                "pattern": "rolling_restart",
                "group": 0,
                "partition": 0,
                "since": END - 5 * HOUR,
                "until": END - 4 * HOUR,
                "count": 5,
                "explanation": "5 of 5 members were replaced one after the other",
            },
        ]
    )
    bounds = [0, 1_000, 5_000, 30_000, 60_000, 300_000, None]
    durations = (
        [
            {
                "from_ms": low,
                "to_ms": high,
                "rebalances": sum(
                    low <= row["duration_ms"] and (high is None or row["duration_ms"] < high)
                    for row in events
                ),
            }
            for low, high in itertools.pairwise(bounds)
        ]
        if events
        else []
    )
    return {
        "list": table(events, "causes* likely slowest outcome trigger"),
        "causes": table(
            [
                {"cause": a, "words": a.replace("_", " "), "rebalances": n, "groups": 9}
                for a, n in causes.most_common()
            ],
            "cause",
        ),
        "outcomes": table(
            [
                {"outcome": a, "rebalances": n, "words": a}
                for a, n in Counter(row["outcome"] for row in events).items()
            ],
            "outcome",
        ),
        "by_hour": table(
            [
                {
                    "hour": hour,
                    "rebalances": len(rows),
                    "groups": len({row["group"] for row in rows}),
                    "unowned_ms": 5,
                    "longest_ms": max(row["duration_ms"] for row in rows),
                }
                for hour, rows in sorted(hours.items())
            ],
        ),
        "by_hour_and_cause": table(
            [{"hour": a, "cause": b, "rebalances": n} for (a, b), n in sorted(by_cause.items())],
            "cause",
        ),
        "patterns": table(patterns, "pattern"),
        "clients": table(
            []
            if healthy
            else [
                {
                    "group": 2,
                    "client": "worker-3",
                    "about": "10.0.3.7, librdkafka",
                    "joined": 6,
                    "left": 6,
                    "member_ids": 6,
                }
            ],
        ),
        "durations": table(durations),
        "sentence": f"{len(events):,} rebalances of {groups_seen:,} groups.",
    }


def _members(groups: list[Row]) -> Row:
    rows = [
        {
            "group": number,
            "member_id": f"worker-{one}-0b0fd9c8",
            "name": f"worker-{one}",
            "instance_id": None,
            "client_id": f"worker-{one}",
            "host": f"/10.0.3.{one}",
            "rack": None,
            "topics": group["topics"],
            "regex": "^orders.*" if one == 0 else None,
            "assignor": None,
            "epoch": group["epoch"],
            "state": "stable",
            "classic": 0,
            "partitions": 4,
            "since": END - DAY,
        }
        for number, group in enumerate(groups)
        for one in range(group["members"])
    ]
    return table(
        rows,
        "instance_id client_id host rack topics* regex assignor state",
    )
