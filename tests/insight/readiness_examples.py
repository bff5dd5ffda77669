"""For each rule of conf/readiness.toml, groups for which it holds and groups for which it does not.

Both differ in what the rule is about and, as far as that is possible, in nothing else."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any

import pyarrow as pa

from kip848_spark.state.history_fields import MEMBER_HISTORY_FIELDS
from tests.insight.readiness_lake import START
from tests.insight.readiness_records import (
    classic,
    commit,
    consumer,
    consumer_member,
    member,
    share,
    streams,
)

STRINGS = pa.list_(pa.string())


@dataclass(frozen=True)
class Example:
    """Records of the group ``g``, what the cluster says, and the tables that not every lake has."""

    records: Sequence[Mapping[str, Any]]
    cluster: Mapping[str, Any] = field(default_factory=dict)
    extra: Mapping[str, Any] = field(default_factory=dict)
    now: datetime = START


def history(*rows: tuple[str | None, str, str, Sequence[str]]) -> pa.Table:
    """`member_history` of the group: instance id, client id, host, topics of each interval."""
    values = [
        {
            "group_id": "g",
            "instance_id": instance_id,
            "client_id": client_id,
            "client_host": host,
            "subscribed_topics": list(topics),
            "is_classic": True,
        }
        for instance_id, client_id, host, topics in rows
    ]
    return pa.Table.from_pylist(values, pa.schema(list(MEMBER_HISTORY_FIELDS.items())))


def holders(*seconds: int) -> pa.Table:
    """`member_history` of the instance id ``i``: at each of these times a new member takes it."""
    rows = history(*[("i", "app", "/h1", ["a"])] * len(seconds))
    begun = [START + timedelta(seconds=at) for at in seconds]
    for name, values in {
        "member_id": [f"m-{number}" for number in range(len(seconds))],
        "valid_from": begun,
    }.items():
        at = rows.schema.get_field_index(name)
        rows = rows.set_column(at, name, pa.array(values, rows.schema.field(at).type))
    return rows


def rebalances(
    *rows: tuple[int, int | None, int | None], joined: Sequence[str] | None = None
) -> pa.Table:
    """`rebalances` of the classic group: members, partitions moved, fewest moves of each."""
    columns = [pa.array([row[n] for row in rows], pa.int32()) for n in range(3)]
    names = ["members", "partitions_moved", "minimal_moves"]
    fixed = {"group_id": ["g"] * len(rows), "type": ["classic"] * len(rows)}
    typed = {name: pa.array(values, pa.string()) for name, values in fixed.items()}
    typed["joined"] = pa.array([joined] * len(rows), pa.list_(pa.string()))
    return pa.table({**typed, **dict(zip(names, columns, strict=True))})


def rates(commits_per_day: int, rebalances_per_day: int) -> dict[str, Any]:
    """`offset_activity` and `rebalances` of ten days."""
    return {
        "offset_activity": pa.table({"group_id": ["g"], "commits": [10 * commits_per_day]}),
        "rebalances": rebalances(*[(2, 0, 0)] * (10 * rebalances_per_day)),
        "days": 10,
    }


TWO = (member("m-1"), member("m-2", owned=(1,)))
PLAIN = Example([classic(*TWO)])
"""A classic group of two members without anything special."""
EMPTY = Example([classic()])
COMMITS = Example([commit()])
SHARE = Example([share()])
STREAMS_APPLICATION = Example([classic(member(), protocol="stream")])
CONVERTED = Example(consumer(consumer_member("a"), consumer_member("b", classic_timeout=45_000)))
RANGE = Example([classic(*TWO, protocol="range")])
VOTES = consumer(consumer_member("a", assignor="uniform"), consumer_member("b", assignor="range"))
SAME_VOTES = consumer(*(consumer_member(name, assignor="range") for name in "ab"))


def on(example: Example, **cluster: Any) -> Example:
    """The example with facts of the cluster."""
    return replace(example, cluster={**example.cluster, **cluster})


def group_of(**kwargs: Any) -> Example:
    """A group of two members, one of them with these properties."""
    return Example([classic(member("m-1"), member("m-2", **{"owned": (1,), **kwargs}))])


def fixed(bad: str, good: str, example: Example = PLAIN) -> tuple[Example, Example]:
    """The same group on a release with a fault and on one without."""
    return on(example, release=bad), on(example, release=good)


MOVED = history((None, "app", "/h1", ["a"]), (None, "app", "/h1", ["a", "b"]))
KEPT = history((None, "app", "/h1", ["a"]), (None, "other", "/h1", ["a", "b"]))
BUSY = Example([classic(*TWO)], {"release": "4.2.2"}, rates(50_000, 20))

EXAMPLES: dict[str, tuple[Example, Example]] = {
    "connect": (Example([classic(member(), protocol_type="connect")]), PLAIN),
    "schema-registry": (Example([classic(member(), protocol_type="sr")]), PLAIN),
    "other-protocol-type": (
        Example([classic(member(), protocol_type="mine")]),
        Example([classic(member(), protocol_type="sr")]),
    ),
    "streams-classic": (STREAMS_APPLICATION, PLAIN),
    "streams-on-simple-group": fixed("4.2.0", "4.2.1", STREAMS_APPLICATION),
    "commits-only": (COMMITS, Example([commit(), classic()])),
    "assign-busy-loop": (COMMITS, Example([commit(), classic(*TWO)])),
    "share-group": (SHARE, PLAIN),
    "streams-group": (Example([streams()]), PLAIN),
    "assignment-user-data": (
        group_of(assignment_data=b"x"),
        group_of(subscription_data=b"x", assignment_data=b""),
    ),
    "unreadable-subscription": (group_of(raw_subscription=b"\x00\x01\x00"), PLAIN),
    "unreadable-assignment": (
        group_of(raw_assignment=b"\xff\xff\x00\x00"),
        group_of(raw_assignment=b""),
    ),
    "shared-partitions": (
        Example([classic(member("m-1", owned=(0, 1)), member("m-2", owned=(1, 2)))]),
        Example([classic(member("m-1", owned=(0, 1)), member("m-2", owned=(2, 3)))]),
    ),
    "too-many-members": (on(PLAIN, max_size=1), on(PLAIN, max_size=2)),
    "at-maximum-size": (on(PLAIN, max_size=2), on(PLAIN, max_size=3)),
    "migration-policy": (
        on(PLAIN, migration_policy="downgrade"),
        on(EMPTY, migration_policy="downgrade"),
    ),
    "group-version": (on(PLAIN, group_version=0), on(PLAIN, group_version=1)),
    "protocol-off": (
        on(PLAIN, rebalance_protocols=["classic"]),
        on(PLAIN, rebalance_protocols=["classic", "consumer"]),
    ),
    "broker-before-4.0": (on(PLAIN, release="3.9.1"), on(PLAIN, release="4.0.0")),
    "records-not-read": (
        replace(PLAIN, extra={"unread": pa.table({"group_id": ["g"], "offset": [9]})}),
        replace(
            Example([commit(), classic(*TWO)]),
            extra={"unread": pa.table({"group_id": ["g"], "offset": [0]})},
        ),
    ),
    "subscription-grows": (
        replace(PLAIN, extra={"member_history": MOVED}),
        replace(PLAIN, extra={"member_history": KEPT}),
    ),
    "assignor-range": (RANGE, PLAIN),
    "assignor-becomes-uniform": (Example([classic(*TWO, protocol="roundrobin")]), RANGE),
    "assignor-custom": (Example([classic(*TWO, protocol="mine")]), PLAIN),
    "subscription-user-data": (
        group_of(subscription_data=b"x"),
        group_of(subscription_data=b""),
    ),
    "racks": (group_of(rack="a"), group_of(rack="")),
    "session-timeout-short": (
        group_of(session_timeout=10_000),
        on(group_of(session_timeout=10_000), session_timeout_min=6_000),
    ),
    "session-timeout-long": (
        group_of(session_timeout=60_001),
        group_of(session_timeout=60_000),
    ),
    "eager-callbacks": (Example([classic(*TWO, protocol="roundrobin")]), PLAIN),
    "pause-survives": (Example([classic(*TWO, protocol="sticky")]), PLAIN),
    "stale-member-epoch": (BUSY, on(BUSY, release="4.3.0")),
    "duplicate-instance-id": (
        replace(
            group_of(instance_id="i"),
            extra={
                "member_history": history(("i", "app", "/h1", ["a"]), ("i", "app", "/h2", ["a"]))
            },
        ),
        replace(
            group_of(instance_id="i"),
            extra={
                "member_history": history(("i", "app", "/h1", ["a"]), ("j", "app", "/h2", ["a"]))
            },
        ),
    ),
    "quick-instance-replacements": (
        replace(group_of(instance_id="i"), extra={"member_history": holders(0, 40, 99)}),
        replace(group_of(instance_id="i"), extra={"member_history": holders(0, 40, 100)}),
    ),
    "static-id-change": fixed("4.3.1", "4.4.0", group_of(instance_id="i")),
    "different-subscriptions": (group_of(topics=("payments",)), PLAIN),
    "library-without-support": (group_of(client_id="kafka-python-2.0.2"), PLAIN),
    "library-opt-in": (group_of(client_id="kgo"), group_of(client_id="kgo-app")),
    "several-libraries": (
        Example(
            [
                classic(
                    member(client_id="rdkafka"), member("m-2", owned=(), client_id="consumer-g-1")
                )
            ]
        ),
        Example(
            [classic(member(client_id="rdkafka"), member("m-2", owned=(), client_id="rdkafka"))]
        ),
    ),
    "empty-group": (EMPTY, PLAIN),
    "abandoned-group": (
        Example([classic(), commit()], now=START + timedelta(days=7)),
        Example([classic(), commit()], now=START + timedelta(days=6, hours=23)),
    ),
    "range-not-configured": (
        on(RANGE, assignors=["uniform"]),
        on(RANGE, assignors=["uniform", "range"]),
    ),
    "no-way-back-size": (on(PLAIN, classic_max_size=1), on(PLAIN, classic_max_size=2)),
    "classic-members-left": (CONVERTED, Example(consumer(consumer_member("a")))),
    "classic-session-timeout": (
        Example(consumer(consumer_member("a"), consumer_member("b", classic_timeout=90_000))),
        CONVERTED,
    ),
    "assignor-votes-tie": fixed("4.4.0", "4.3.1", Example(VOTES)),
    "assignor-votes-differ": (Example(VOTES), Example(SAME_VOTES)),
    "policy-one-way": (
        on(PLAIN, migration_policy="upgrade"),
        on(PLAIN, migration_policy="bidirectional"),
    ),
    "default-assignor": (
        on(PLAIN, default_assignor="range"),
        on(PLAIN, default_assignor="uniform"),
    ),
    "tools-show-dead": (PLAIN, Example(SAME_VOTES)),
    "assignment-interval": (on(PLAIN, release="4.3.0"), on(PLAIN, release="4.2.2")),
    "KAFKA-18687": fixed("4.0.0", "4.0.1"),
    "KAFKA-18688": fixed("4.0.0", "4.1.0"),
    "KAFKA-19546": fixed("4.1.0", "4.1.1"),
    "KAFKA-19862": fixed("4.1.1", "4.1.2"),
    "KAFKA-19720": fixed("4.0.1", "4.0.2"),
    "KAFKA-19449": fixed("4.1.1", "4.2.0"),
    "KAFKA-19233": fixed("4.1.2", "4.2.0"),
    "KAFKA-19891": fixed("4.0.2", "4.2.1"),
    "KAFKA-19899": fixed("4.0.2", "4.1.2"),
    "KAFKA-20431": fixed("4.2.2", "4.3.0"),
    "KAFKA-20640": fixed("4.3.0", "4.2.2"),
    "KAFKA-20434": fixed("4.3.1", "4.4.0"),
    "KAFKA-20662": fixed("4.3.1", "4.2.2"),
    "client-release": (PLAIN, SHARE),
    "leftover-settings": (PLAIN, SHARE),
    "enforce-rebalance": (PLAIN, SHARE),
    "callbacks": (PLAIN, COMMITS),
    "manual-commits": (PLAIN, STREAMS_APPLICATION),
    "pattern-subscription": (PLAIN, COMMITS),
    "topic-acls": (EMPTY, CONVERTED),
    "instance-ids": (group_of(instance_id="i"), PLAIN),
    "monitoring": (PLAIN, Example(SAME_VOTES)),
    "way-back": (PLAIN, Example(SAME_VOTES)),
    "java-below-4.2.1": (PLAIN, Example([classic(member(client_id="rdkafka"))])),
    "librdkafka-below-2.15": (PLAIN, Example([classic(member(client_id="consumer-g-1"))])),
}
"""By rule: an example for which it holds, and one for which it does not."""
