"""Migration readiness of a finished lake: reads the tables and applies the rules, without a JVM."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from kip848_spark.insight.readiness import Assessment, assess
from kip848_spark.insight.readiness_cluster import Cluster, known_cluster
from kip848_spark.insight.readiness_facts import CONTROL_KINDS, Sources, count_assigned, group_facts
from kip848_spark.insight.readiness_rules import load_rules
from kip848_spark.insight.readiness_simulation import (
    group_members,
    known_sizes,
    simulate_group,
    simulate_groups,
    topic_sizes,
)
from kip848_spark.lake.snapshot import LakeSnapshot
from kip848_spark.lake.tables import TABLES
from kip848_spark.state import kinds
from kip848_spark.wire.tables import TIMESTAMP

DAYS = 30
"""The days before the run that rates are about."""
MOST_SIMULATED = 20_000
"""The assigned partitions up to which a whole lake is simulated; smaller groups first."""


@dataclass(frozen=True)
class LakeReadiness:
    """The verdicts of a lake: the facts of all groups, what is known of the cluster, the rows and
    notes. ``missing`` are the tables that this lake lacks, without which some rules never hold."""

    facts: pa.Table
    cluster: Cluster
    assessment: Assessment
    missing: tuple[str, ...]


def assess_lake(
    snapshot: LakeSnapshot,
    answered: Mapping[str, Any] | None = None,
    simulate: Sequence[str] | None = None,
) -> LakeReadiness:
    """Applies the rules to all groups of the lake.

    ``answered`` are facts of the cluster (`readiness_cluster.CLUSTER_FACTS`) and its ``release``.
    ``simulate`` are the groups to simulate; None: those with members, the smaller ones first, up to
    `MOST_SIMULATED` partitions. Raises LakeError if a table can't be read, ValueError for a release
    that is none."""
    groups = snapshot.table("groups")
    members = snapshot.table("members")
    ended = snapshot.run.finished_at or datetime.now(UTC)
    missing = [
        name
        for name in ("member_history", "offset_activity", "rebalances")
        if not has_table(snapshot, name)
    ]
    sources = Sources(
        groups=groups,
        members=members,
        control_state=_control_state(snapshot),
        assigned=_assigned(snapshot),
        commits=_commits(snapshot),
        now=ended.astimezone(UTC),
        unread=_unread(snapshot),
        member_history=_optional(
            snapshot, "member_history", None,
            ["group_id", "client_id", "client_host", "instance_id", "subscribed_topics",
             "is_classic"],
        ),
        offset_activity=_optional(
            snapshot, "offset_activity", pc.field("day") > (ended - timedelta(days=DAYS)).date(),
            ["group_id", "commits"],
        ),
        rebalances=_optional(
            snapshot, "rebalances",
            pc.field("started_at") > pa.scalar(ended - timedelta(days=DAYS), TIMESTAMP),
            ["group_id", "type", "members", "partitions_moved", "minimal_moves"],
        ),
        days=DAYS,
        guesses=load_rules().guesses,
    )  # fmt: skip
    facts = group_facts(sources)
    cluster = known_cluster(
        groups, answered, has_assignment_epochs=_has_assignment_epochs(snapshot)
    )
    chosen = _small_groups(facts) if simulate is None else list(simulate)
    simulated = simulate_groups(chosen, members, _owned(snapshot, chosen), latest_topics(snapshot))
    return LakeReadiness(facts, cluster, assess(facts, cluster, simulated), tuple(missing))


def has_table(snapshot: LakeSnapshot, name: str) -> bool:
    """Whether the lake had this table at the end of the run."""
    return name in TABLES and name in snapshot.run.table_versions


def latest_topics(snapshot: LakeSnapshot) -> pa.Table | None:
    """The topics as the last run that asked a cluster listed them; None if no run did."""
    if not has_table(snapshot, "topics"):
        return None
    topics = snapshot.table("topics")
    if not topics.num_rows:
        return None
    last = pc.max(topics["run_id"])
    return topics.filter(pc.equal(topics["run_id"], last))


def _control_state(snapshot: LakeSnapshot) -> pa.Table:
    columns = ["offset", "dialect", "raw_key", "raw_value"]
    wanted = pc.field("kind").isin(list(CONTROL_KINDS))
    return snapshot.table("control_state", columns=columns, where=wanted)


def _assigned(snapshot: LakeSnapshot) -> pa.Table:
    columns = ["group_id", "topic", "topic_id", "topic_partition"]
    wanted = pc.field("role") == "assigned"
    return count_assigned(snapshot.table("assignments", columns=columns, where=wanted))


def _owned(snapshot: LakeSnapshot, group_ids: Sequence[str]) -> pa.Table:
    return snapshot.table("assignments", group_ids, where=pc.field("role") == "assigned")


def _commits(snapshot: LakeSnapshot) -> pa.Table:
    """group_id, partitions, newest: of the committed offsets of each group."""
    rows = snapshot.table("offsets", columns=["group_id", "commit_timestamp"])
    found = rows.group_by("group_id").aggregate([([], "count_all"), ("commit_timestamp", "max")])
    return found.rename_columns(["group_id", "partitions", "newest"])


def _unread(snapshot: LakeSnapshot) -> pa.Table | None:
    """group_id, offset of the control records that could not be decoded. The large table `records`
    is only read if a run counted any."""
    runs = snapshot.table("runs", columns=["quarantined"])
    if not pc.sum(runs["quarantined"]).as_py():
        return None
    bad = pc.field("error").is_valid() & pc.field("group_id").is_valid()
    control = pc.field("kind").is_null() | (pc.field("kind") != kinds.COMMIT)
    return snapshot.table("records", columns=["group_id", "offset"], where=bad & control)


def _optional(
    snapshot: LakeSnapshot, name: str, where: pc.Expression | None, columns: Sequence[str]
) -> pa.Table | None:
    if not has_table(snapshot, name):
        return None
    return snapshot.table(name, columns=columns, where=where)


def _has_assignment_epochs(snapshot: LakeSnapshot) -> bool:
    found = snapshot.dataset("assignments").scanner(
        columns=["assignment_epoch"], filter=pc.field("assignment_epoch").is_valid()
    )
    return bool(found.head(1).num_rows)


def _small_groups(facts: pa.Table) -> list[str]:
    """Classic groups of consumers with members, the smaller ones first, up to `MOST_SIMULATED`
    assigned partitions in total."""
    consumers = pc.and_(
        pc.and_(pc.equal(facts["type"], "classic"), pc.equal(facts["protocol_type"], "consumer")),
        pc.greater(facts["members"], 0),
    )
    rows = facts.select(["group_id", "assigned_partitions"]).filter(consumers)
    rows = rows.sort_by([("assigned_partitions", "ascending"), ("group_id", "ascending")])
    total = pc.cumulative_sum(pc.max_element_wise(rows["assigned_partitions"], 1))
    chosen: list[str] = rows.filter(pc.less_equal(total, MOST_SIMULATED))["group_id"].to_pylist()
    return chosen


def groups_of_topic(snapshot: LakeSnapshot, topic: str) -> set[str]:
    """The groups that have a member that subscribes to ``topic``, or commits on it."""
    members = snapshot.table("members", columns=["group_id", "subscribed_topics"])
    topics = members["subscribed_topics"].combine_chunks()
    rows = pc.list_parent_indices(topics).filter(pc.equal(pc.list_flatten(topics), topic))
    found: set[str] = set(members["group_id"].take(rows).to_pylist())
    commits = snapshot.table("offsets", columns=["group_id"], where=pc.field("topic") == topic)
    return found | set(commits["group_id"].to_pylist())


def simulated_assignments(
    snapshot: LakeSnapshot, group_ids: Sequence[str]
) -> dict[str, dict[str, Any]]:
    """By group and assignor: the assignment that the group would get (member, topic, partitions),
    the partitions that would move, and the heartbeats until it is Stable. Groups without members
    are left out."""
    members = snapshot.table("members", group_ids)
    owned = _owned(snapshot, group_ids)
    known = known_sizes(latest_topics(snapshot))
    found: dict[str, dict[str, Any]] = {}
    for group_id, its_members in group_members(group_ids, members, owned):
        sizes = topic_sizes(its_members, known)
        results = (simulate_group(its_members, sizes, name) for name in ("uniform", "range"))
        found[group_id] = {
            one.assignor: {"assignment": one.assignment, "moves": one.moves, "rounds": one.rounds}
            for one in results
        }
    return found
