"""A report as `render` gets it, written by hand: a cluster that is made up, of any size.

It follows the documented form of `report.json` and shares no code with what writes or shows it.
"""

from __future__ import annotations

import random
from typing import Any

START = 1_795_000_000_000
HOUR, DAY = 3_600_000, 86_400_000
END = START + 7 * DAY
TOPICS = ["orders", "payments", "clickstream", "inventory", "shipments", "audit-log", "emails"]
TEAMS = ["billing", "checkout", "search", "fraud", "logistics", "growth", "platform"]
JOBS = ["enricher", "joiner", "exporter", "indexer", "notifier", "loader"]
CAUSES = [["member_joined"], ["left_or_expired"], ["left_or_expired", "member_joined"]]
CAUSES += [["topics_changed"], ["static_member_replaced"], ["rebalance_timeout"]]
RULES = [
    (
        "assignment-user-data",
        "blocker",
        "The leader's assignor sends data of its own.",
        "Stop all members first.",
    ),
    (
        "eager-callbacks",
        "warning",
        "Rebalance callbacks only name what changes.",
        "Read the callbacks.",
    ),
    (
        "assignor-range",
        "warning",
        "Clients that name no assignor get uniform.",
        "Set the assignor.",
    ),
    ("subscription-grows", "unknown", "A pattern may be behind this.", "Ask the owner."),
    ("pause-survives", "info", "A paused partition stays paused.", ""),
]


def table(rows: list[dict[str, Any]], dictionaries: str = "") -> dict[str, Any]:
    """Rows as columns. ``dictionaries`` names the columns that have one; lists of strings in them
    become lists of indices, unless the name ends in ``*``: then a list is an entry."""
    names = dict.fromkeys(name for row in rows for name in row)
    columns: dict[str, list[Any]] = {name: [row.get(name) for row in rows] for name in names}
    found: dict[str, list[Any]] = {}
    for word in dictionaries.split():
        name, whole = word.rstrip("*"), word.endswith("*")
        if not rows:
            continue
        entries: list[Any] = []

        def index(value: Any, entries: list[Any] = entries) -> int:
            if value not in entries:
                entries.append(value)
            return entries.index(value)

        columns[name] = [
            None
            if value is None
            else [index(one) for one in value]
            if isinstance(value, list) and not whole
            else index(value)
            for value in columns[name]
        ]
        found[name] = entries
    return {"length": len(rows), "columns": columns, "dictionaries": found}


def timeline(
    rng: random.Random, group: int, topic: str, clients: int, partitions: int
) -> dict[str, Any]:
    """Six hours in which clients of a group are restarted one after the other."""
    begin, end = END - 6 * HOUR, END
    members, owned, states, epochs, marks, unowned = [], [], [], [], [], []
    for client in range(clients):
        about = f"10.0.3.{client}, librdkafka"
        members.append(
            {
                "name": f"worker-{client}",
                "member_id": f"id-{group}-{client}",
                "about": about,
                "client": client,
            }
        )
    since = [begin] * clients
    place_since = [begin] * partitions
    epoch, at = 11, begin
    for turn in range(clients + 2):
        client = turn % clients
        at += rng.randrange(12, 40) * 60_000
        back = at + rng.randrange(3_000, 25_000)
        settled = back + rng.randrange(800, 9_000)
        old = next(row for row in reversed(range(len(members))) if members[row]["client"] == client)
        states.append({"member": old, "from": since[client], "to": at, "state": 0})
        members.append({**members[old], "member_id": f"id-{group}-{client}-{turn}"})
        new = len(members) - 1
        states.append({"member": new, "from": back, "to": settled, "state": 2})
        other = (client + 1) % clients
        holder = next(
            row for row in reversed(range(len(members))) if members[row]["client"] == other
        )
        states += [
            {"member": holder, "from": since[other], "to": back, "state": 0},
            {"member": holder, "from": back, "to": settled, "state": 1},
        ]
        since[other] = since[client] = settled
        for place in range(client, partitions, clients):
            owned.append(
                {"partition": place, "member": old, "from": place_since[place], "to": at, "role": 0}
            )
            unowned.append({"partition": place, "from": at, "to": settled})
            place_since[place] = settled
        for step, when in ((1, at), (2, back)):
            marks.append(
                {
                    "at": when,
                    "epoch": epoch + step,
                    "causes": [("left_or_expired", "member_joined")[step - 1]],
                    "outcome": ("superseded", "converged")[step - 1],
                    "duration_ms": settled - when,
                    "row": None,
                }
            )
        start = epochs[-1]["to"] if epochs else begin
        epochs += [
            {"from": start, "to": at, "epoch": epoch, "state": "Stable", "members": clients},
            {
                "from": at,
                "to": settled,
                "epoch": epoch + 2,
                "state": "Reconciling",
                "members": clients - 1,
            },
        ]
        epoch += 2
    epochs.append(
        {
            "from": epochs[-1]["to"],
            "to": None,
            "epoch": epoch,
            "state": "Stable",
            "members": clients,
        }
    )
    for client in range(clients):
        newest = next(
            row for row in reversed(range(len(members))) if members[row]["client"] == client
        )
        states.append({"member": newest, "from": since[client], "to": None, "state": 0})
        for place in range(client, partitions, clients):
            owned.append(
                {
                    "partition": place,
                    "member": newest,
                    "from": place_since[place],
                    "to": None,
                    "role": 0,
                }
            )
    owned.append({"partition": 0, "member": 1, "from": at - 5_000, "to": at, "role": 1})
    stall = {"partition": 1, "from": END - 2 * HOUR, "to": END - HOUR, "usual_ms": 5_000}
    story = {
        "row": None,
        "epoch": epoch,
        "at": at,
        "headline": f"Epoch {epoch}: worker-1 came back",
        "lines": [
            ["cause", "worker-1 left and joined again"],
            ["waited", "2.1 s for worker-2"],
            ["moved", "2 of 12 partitions"],
        ],
    }
    return {
        "group": group,
        "from": begin,
        "to": end,
        "cut": "Intervals before this time were left out.",
        "members": table(members),
        "partitions": table(
            [{"topic": topic, "partition": one} for one in range(partitions)],
            "topic",
        ),
        "owned": table(owned),
        "unowned": table(unowned),
        "states": table(states),
        "epochs": table(epochs, "state"),
        "marks": table(marks, "causes* outcome"),
        "stalls": table([stall]),
        "stalls_known": True,
        "stories": [story],
    }


def _groups(rng: random.Random, count: int) -> list[dict[str, Any]]:
    rows = []
    for number in range(count):
        classic = rng.random() < 0.55
        members = rng.choice([0, 1, 2, 3, 5, 8])
        verdict = (
            rng.choice(["ready", "ready_with_warnings", "blocked", "not_applicable"])
            if classic
            else "already_migrated"
        )
        rows.append(
            {
                "group_id": f"{rng.choice(TEAMS)}-{rng.choice(JOBS)}-{number:04}",
                "type": "classic" if classic else "consumer",
                "state": "Stable" if members else "Empty",
                "protocol_type": "consumer",
                "protocol": "range" if classic else None,
                "assignor": None if classic else "uniform",
                "epoch": rng.randrange(1, 90),
                "members": members,
                "partition": number % 50,
                "updated_at": END - rng.randrange(5 * DAY),
                "topics": rng.sample(TOPICS, rng.choice([1, 1, 2])),
                "topic_count": 2,
                "assigned_partitions": members * 4,
                "committed_partitions": 12,
                "last_commit": END - rng.randrange(DAY),
                "commits": 1200,
                "bytes": 99_000,
                "rebalances": 0,
                "unowned_ms": 0,
                "moved": 0,
                "longest_ms": None,
                "slowest_ms": None,
                "cause": None,
                "last_rebalance": None,
                "findings": 0,
                "severity": None,
                "verdict": verdict,
                "timeline": None,
            }
        )
    return rows


def _rebalances(
    rng: random.Random, groups: list[dict[str, Any]], count: int
) -> list[dict[str, Any]]:
    rows = []
    for _ in range(count):
        number = min(int(rng.expovariate(1 / max(4, len(groups) / 12))), len(groups) - 1)
        took = int(rng.lognormvariate(8, 1.3))
        group = groups[number]
        row = {
            "group": number,
            "epoch": group["rebalances"] + 2,
            "started_at": START + rng.randrange(7 * DAY),
            "duration_ms": took,
            "causes": rng.choice(CAUSES),
            "likely": rng.choice([None, "left", "expired"]),
            "members": 4,
            "joined": 1,
            "left": 1,
            "moved": 6,
            "minimal": 4,
            "revoked": 2,
            "blocked": 1,
            "slowest": f"worker-{rng.randrange(6)}",
            "slowest_ms": took // 2,
            "unowned_ms": took * 3,
            "outcome": rng.choice(["converged"] * 8 + ["superseded"]),
            "complete": 1,
            "trigger": "worker-1",
        }
        rows.append(row)
        group["rebalances"] += 1
        group["unowned_ms"] += row["unowned_ms"]
        group["longest_ms"] = max(group["longest_ms"] or 0, took)
        group["cause"] = row["causes"][0]
        group["last_rebalance"] = max(group["last_rebalance"] or 0, row["started_at"])
    return sorted(rows, key=lambda row: row["started_at"])


def report(
    groups: int = 60, rebalances: int = 400, seed: int = 7, healthy: bool = False
) -> dict[str, Any]:
    """A report of so many groups and rebalances. A healthy one has no findings and no loops."""
    from tests.report.example_parts import parts

    rng = random.Random(seed)
    rows = _groups(rng, groups)
    events = _rebalances(rng, rows, 0 if healthy else rebalances)
    return parts(rng, rows, events, healthy)
