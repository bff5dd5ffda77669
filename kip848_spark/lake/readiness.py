"""Migration readiness of a finished lake: reads the tables and applies the rules, without a JVM."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from kip848_spark.insight.readiness import Assessment, assess
from kip848_spark.insight.readiness_cluster import KnownCluster, known_cluster
from kip848_spark.insight.readiness_facts import CONTROL_KINDS, Sources, count_assigned, group_facts
from kip848_spark.insight.readiness_rules import load_rules
from kip848_spark.insight.readiness_simulation import (
    MOST_PARTITIONS,
    known_sizes,
    simulate_group,
    simulate_groups,
    simulated_groups,
)
from kip848_spark.lake.conditions import Condition, TableReader
from kip848_spark.lake.ledger import quarantined_records
from kip848_spark.lake.snapshot import LakeSnapshot
from kip848_spark.lake.topics import latest_topics
from kip848_spark.state import kinds
from kip848_spark.state.groups import GROUP_FIELDS
from kip848_spark.state.members import MEMBER_FIELDS

DAYS = 30
"""The days before the run that rates are about."""
MOST_SIMULATED = 20_000
"""The partitions up to which a whole lake is simulated; smaller groups first."""


@dataclass(frozen=True)
class LakeReadiness:
    """The verdicts of a lake: the facts of all groups, what is known of the cluster, the rows and
    notes. ``missing`` are the tables that this lake lacks, without which some rules never hold."""

    facts: pa.Table
    cluster: KnownCluster
    assessment: Assessment
    missing: tuple[str, ...]


def assess_lake(
    snapshot: LakeSnapshot,
    answered: Mapping[str, Any] | None = None,
    simulate: Sequence[str] | None = None,
) -> LakeReadiness:
    """Applies the rules to all groups of the lake, as of the start of its run.

    Arguments and errors as in `assess_tables`."""
    runs = snapshot.select("runs", columns=["outcome", "quarantined"]).to_pylist()
    return assess_tables(
        snapshot,
        snapshot.run.started_at,
        answered,
        simulate,
        all_decoded=not quarantined_records(runs),
    )


def assess_tables(
    tables: TableReader,
    at: datetime,
    answered: Mapping[str, Any] | None = None,
    simulate: Sequence[str] | None = None,
    *,
    all_decoded: bool,
) -> LakeReadiness:
    """Applies the rules to all groups. ``at`` (with a time zone) is the time that idle times and
    the last `DAYS` days refer to.

    ``answered`` are facts of the cluster (`readiness_cluster.CLUSTER_FACTS`) and its ``release``.
    ``simulate`` are the groups to simulate, up to `MOST_PARTITIONS` partitions; None: those with
    members, the smaller ones first, up to `MOST_SIMULATED`. ``all_decoded``: no run has quarantined
    a record, so that the large table `records` need not be read. Raises LakeError if a table can't
    be read, ValueError for a release that is none."""
    now = at.astimezone(UTC)
    groups = tables.read("groups", tuple(GROUP_FIELDS))
    members = tables.read("members", tuple(MEMBER_FIELDS))
    assigned = tables.read("assignments", (*_PLACE, "assignment_epoch"), _ASSIGNED)
    missing = [name for name in _OF_THE_PAST if not tables.has(name)]
    sources = Sources(
        groups=groups,
        members=members,
        control_state=tables.read(
            "control_state",
            ("offset", "dialect", "raw_key", "raw_value"),
            Condition("kind", "among", CONTROL_KINDS),
        ),
        assigned=count_assigned(assigned),
        commits=_commits(tables),
        now=now,
        unread=None if all_decoded else _unread(tables),
        member_history=_optional(tables, "member_history"),
        offset_activity=_optional(
            tables,
            "offset_activity",
            Condition("day", "above", (now - timedelta(days=DAYS)).date()),
        ),
        rebalances=_optional(
            tables, "rebalances", Condition("started_at", "above", now - timedelta(days=DAYS))
        ),
        days=DAYS,
        guesses=load_rules().guesses,
    )
    facts = group_facts(sources)
    has_epochs = bool(pc.any(pc.is_valid(assigned["assignment_epoch"])).as_py())
    cluster = known_cluster(groups, answered, has_assignment_epochs=has_epochs)
    chosen = _small_groups(facts) if simulate is None else list(simulate)
    most = MOST_SIMULATED if simulate is None else MOST_PARTITIONS
    owned, topics = _owned(tables, chosen), latest_topics(tables)
    simulated = simulate_groups(chosen, members, owned, topics, most)
    return LakeReadiness(facts, cluster, assess(facts, cluster, simulated), tuple(missing))


_PLACE = ("group_id", "topic", "topic_id", "topic_partition")
_ASSIGNED = Condition("role", "equals", "assigned")
_OF_THE_PAST = {
    "member_history": (
        "group_id", "member_id", "client_id", "client_host", "instance_id", "subscribed_topics",
        "is_classic", "valid_from",
    ),
    "offset_activity": ("group_id", "commits"),
    "rebalances": (
        "group_id", "type", "members", "joined", "partitions_moved", "minimal_moves",
    ),
}  # fmt: skip
"""The tables that not every lake has, and the columns that facts need."""


def _optional(tables: TableReader, name: str, *conditions: Condition) -> pa.Table | None:
    return tables.read(name, _OF_THE_PAST[name], *conditions) if tables.has(name) else None


def _owned(tables: TableReader, group_ids: Sequence[str]) -> pa.Table:
    of_groups = Condition("group_id", "among", group_ids)
    return tables.read("assignments", (*_PLACE, "member_id", "role"), _ASSIGNED, of_groups)


def _commits(tables: TableReader) -> pa.Table:
    """group_id, partitions, newest: of the committed offsets of each group."""
    rows = tables.read("offsets", ("group_id", "commit_timestamp"))
    found = rows.group_by("group_id").aggregate([([], "count_all"), ("commit_timestamp", "max")])
    return found.rename_columns(["group_id", "partitions", "newest"])


def _unread(tables: TableReader) -> pa.Table:
    """group_id, offset of the control records that could not be decoded."""
    bad = (Condition("error", "known"), Condition("group_id", "known"))
    rows = tables.read("records", ("group_id", "offset", "kind"), *bad)
    return rows.filter(pc.fill_null(pc.not_equal(rows["kind"], kinds.COMMIT), True))


def _small_groups(facts: pa.Table) -> list[str]:
    """Classic groups of consumers with members, the smaller ones first, up to `MOST_SIMULATED`
    assigned partitions in total. More groups need not be read: `simulated_groups` has the same
    limit, and counts all partitions of their topics."""
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
    members = snapshot.select("members", columns=["group_id", "subscribed_topics"])
    topics = members["subscribed_topics"].combine_chunks()
    rows = pc.list_parent_indices(topics).filter(pc.equal(pc.list_flatten(topics), topic))
    found: set[str] = set(members["group_id"].take(rows).to_pylist())
    commits = snapshot.select("offsets", pc.field("topic") == topic, ["group_id"])
    return found | set(commits["group_id"].to_pylist())


def simulated_assignments(
    snapshot: LakeSnapshot, group_ids: Sequence[str]
) -> dict[str, dict[str, Any]]:
    """By group and assignor: the assignment that the group would get (member, topic, partitions),
    the partitions that would move, and the heartbeats until it is Stable. For groups that
    can be simulated (`simulated_groups`)."""
    members = snapshot.table("members", group_ids)
    owned = _owned(snapshot, group_ids)
    known = known_sizes(latest_topics(snapshot))
    found: dict[str, dict[str, Any]] = {}
    for group_id, its_members, sizes in simulated_groups(group_ids, members, owned, known):
        results = (simulate_group(its_members, sizes, name) for name in ("uniform", "range"))
        found[group_id] = {
            one.assignor: {"assignment": one.assignment, "moves": one.moves, "rounds": one.rounds}
            for one in results
        }
    return found
