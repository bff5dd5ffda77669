"""The report's table `groups`: one row a group, with what the other tables say about it."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kip848_spark.lake.snapshot import LakeSnapshot
from kip848_spark.report.columns import GroupNumbers, LeftOut, ReportTable, encode, values
from kip848_spark.wire.columns import list_offsets
from kip848_spark.wire.tables import TIMESTAMP

DEAD = "Dead"
"""The state of a group that no longer exists."""
MOST_GROUPS = 50_000
"""The largest number of groups that are listed, unless other lists name more of them."""
MOST_TOPICS = 20
"""The largest number of topics that are listed for a group."""

_OF_GROUPS = (
    "type", "state", "protocol_type", "protocol", "assignor", "epoch", "members", "partition",
    "updated_at",
)  # fmt: skip
_ENCODED = ("type", "state", "protocol_type", "protocol", "assignor")


@dataclass(frozen=True)
class GroupSources:
    """What the table is made of. ``groups`` are the rows of that table, sorted by id;
    ``rebalances`` those of the period; ``further`` are the group ids that other tables name."""

    groups: pa.Table
    members: pa.Table
    assignments: pa.Table
    offsets: pa.Table
    rebalances: pa.Table | None
    activity: pa.Table | None
    further: pa.Array


def read_sources(
    snapshot: LakeSnapshot,
    rebalances: pa.Table | None,
    activity: pa.Table | None,
    further: pa.Array,
) -> GroupSources:
    """Reads the state tables. Raises LakeError."""
    assigned = pc.field("role") == "assigned"
    return GroupSources(
        groups=snapshot.select("groups", None).sort_by("group_id"),
        members=snapshot.select("members", None),
        assignments=snapshot.select(
            "assignments", assigned,
            ["group_id", "member_id", "topic", "topic_id", "topic_partition"],
        ),
        offsets=snapshot.select(
            "offsets", None, ["group_id", "topic", "topic_id", "commit_timestamp"]
        ),
        rebalances=rebalances,
        activity=activity,
        further=further,
    )  # fmt: skip


def number_groups(sources: GroupSources, left_out: LeftOut) -> GroupNumbers:
    """The groups in the order of the report: the current ones by id, then those that only other
    tables name, by id."""
    current = sources.groups["group_id"].combine_chunks()
    others = [sources.further]
    if sources.rebalances is not None:
        others.append(pc.unique(sources.rebalances["group_id"].combine_chunks()))
    named = pc.unique(pa.concat_arrays(others)).drop_null()
    deleted = named.filter(pc.invert(pc.is_in(named, value_set=current)))
    deleted = deleted.take(pc.sort_indices(deleted))
    if len(current) > MOST_GROUPS:
        current = _listed(sources.groups, named, left_out)
    return GroupNumbers(pa.concat_arrays([current, deleted]), len(deleted))


def _listed(groups: pa.Table, named: pa.Array, left_out: LeftOut) -> pa.Array:
    """The ids of the first `MOST_GROUPS` groups, sorted: those that other tables name (all of
    them), then those with members, then those with the newest records."""
    rank = pa.table(
        {
            "named": pc.is_in(groups["group_id"], value_set=named).cast(pa.int8()),
            "joined": pc.greater(pc.fill_null(groups["members"], 0), 0).cast(pa.int8()),
            "updated_at": groups["updated_at"],
        }
    )
    most = max(MOST_GROUPS, pc.sum(rank["named"]).as_py())
    order = pc.sort_indices(rank, [(name, "descending") for name in rank.column_names])
    rows = np.sort(order.to_numpy()[:most])
    left_out.add(
        f"Groups: {len(rows):,} of {groups.num_rows:,} are listed: those with rebalances, "
        "findings or rows of hygiene, then those with members, then those with the newest "
        "records. `kip848 groups` lists all."
    )
    return groups["group_id"].combine_chunks().take(pa.array(rows))


def topic_names(sources: GroupSources, topics: pa.Table | None) -> Mapping[str, str]:
    """The names of topics by id, as far as the lake knows them."""
    known = [sources.offsets.select(["topic_id", "topic"])]
    known += [topics.select(["topic_id", "topic"])] if topics is not None else []
    pairs = pa.concat_tables(known).group_by(["topic_id", "topic"]).aggregate([])
    pairs = pairs.filter(pc.and_(pairs["topic_id"].is_valid(), pairs["topic"].is_valid()))
    return dict(zip(pairs["topic_id"].to_pylist(), pairs["topic"].to_pylist(), strict=True))


def named(table: pa.Table, names: Mapping[str, str]) -> pa.Array:
    """string: the topic of each row of `assignments` or its history. A topic whose name is not
    known is shown by its id."""
    topic, id_ = table["topic"].combine_chunks(), table["topic_id"].combine_chunks()
    coded = id_.dictionary_encode()
    known = pa.array([names.get(one, one) for one in coded.dictionary.to_pylist()], pa.string())
    found = known.take(coded.indices) if len(known) else pa.nulls(len(topic), pa.string())
    return pc.coalesce(topic, found, pa.scalar("?"))


def group_table(
    sources: GroupSources,
    numbers: GroupNumbers,
    names: Mapping[str, str],
    further: Mapping[str, pa.Array],
) -> ReportTable:
    """The table `groups`. ``further`` are columns in the order of the groups that other parts of
    the report give: verdict, findings, severity, timeline."""
    count = len(numbers.group_ids)
    arrays: dict[str, pa.Array] = {"group_id": numbers.group_ids}
    arrays |= numbers.aligned(sources.groups, _OF_GROUPS)
    arrays["type"] = pc.coalesce(arrays["type"], _types_of_deleted(sources, numbers))
    arrays["state"] = pc.fill_null(arrays["state"], DEAD)
    topics = _topics(sources, numbers, names)
    lists, dictionary = encode_lists_of_topics(topics)
    arrays["topic_count"] = pc.list_value_length(topics)
    arrays["assigned_partitions"] = _count(sources.assignments, numbers)
    arrays |= _commits(sources, numbers)
    arrays |= rebalances_of_groups(sources, numbers)
    arrays |= further
    columns: dict[str, list[Any]] = {}
    dictionaries: dict[str, list[Any]] = {"topics": dictionary}
    for name, array in arrays.items():
        if name in (*_ENCODED, "cause", "verdict", "severity"):
            columns[name], dictionaries[name] = encode(array)
        else:
            columns[name] = values(array)
        if name == "updated_at":
            columns["topics"] = lists
    return {"length": count, "columns": columns, "dictionaries": dictionaries}


def _types_of_deleted(sources: GroupSources, numbers: GroupNumbers) -> pa.Array:
    if sources.rebalances is None or not sources.rebalances.num_rows:
        return pa.nulls(len(numbers.group_ids), pa.string())
    found = sources.rebalances.group_by("group_id", use_threads=False).aggregate([("type", "last")])
    return numbers.aligned(found, ["type_last"])["type_last"]


def _topics(sources: GroupSources, numbers: GroupNumbers, names: Mapping[str, str]) -> pa.ListArray:
    """list<string>[groups]: the topics that a group subscribes to, has partitions of, or commits
    on, sorted."""
    pairs = _pairs(sources, names)
    pairs = pairs.set_column(0, "group", numbers.column(pairs["group"]))
    pairs = pairs.group_by(["group", "topic"]).aggregate([])
    pairs = pairs.filter(pc.and_(pairs["group"].is_valid(), pairs["topic"].is_valid()))
    pairs = pairs.sort_by([("group", "ascending"), ("topic", "ascending")])
    sizes = np.bincount(pairs["group"].to_numpy(), minlength=len(numbers.group_ids))
    return pa.ListArray.from_arrays(list_offsets(sizes), pairs["topic"].combine_chunks())


def count_topics(sources: GroupSources, names: Mapping[str, str]) -> int:
    """The number of topics that groups subscribe to, have partitions of, or commit on."""
    return len(pc.unique(_pairs(sources, names)["topic"].combine_chunks()).drop_null())


def _pairs(sources: GroupSources, names: Mapping[str, str]) -> pa.Table:
    """Rows of ``group`` (its id) and ``topic``, some of them several times, some null."""
    lists = sources.members["subscribed_topics"].combine_chunks()
    of_list = sources.members["group_id"].combine_chunks().take(pc.list_parent_indices(lists))
    return pa.concat_tables(
        [
            pa.table({"group": of_list, "topic": pc.list_flatten(lists)}),
            pa.table(
                {
                    "group": sources.assignments["group_id"].combine_chunks(),
                    "topic": named(sources.assignments, names),
                }
            ),
            pa.table(
                {
                    "group": sources.offsets["group_id"].combine_chunks(),
                    "topic": sources.offsets["topic"].combine_chunks(),
                }
            ),
        ]
    )


def encode_lists_of_topics(topics: pa.ListArray) -> tuple[list[list[int]], list[str]]:
    """The first `MOST_TOPICS` topics of each list as numbers, and the topics by number."""
    coded = topics.flatten().dictionary_encode()
    numbers = coded.indices.to_numpy().tolist()
    starts = topics.offsets.to_numpy().tolist()
    lists = [
        numbers[start : min(end, start + MOST_TOPICS)] for start, end in itertools.pairwise(starts)
    ]
    return lists, coded.dictionary.to_pylist()


def _count(rows: pa.Table, numbers: GroupNumbers) -> pa.Array:
    """int64[groups]: the number of rows of each group."""
    found = rows.group_by("group_id").aggregate([([], "count_all")])
    return numbers.aligned(found, ["count_all"], {"count_all": 0})["count_all"]


def _commits(sources: GroupSources, numbers: GroupNumbers) -> dict[str, pa.Array]:
    last = sources.offsets.group_by("group_id").aggregate([("commit_timestamp", "max")])
    found = {
        "committed_partitions": _count(sources.offsets, numbers),
        "last_commit": numbers.aligned(last, ["commit_timestamp_max"])["commit_timestamp_max"],
    }
    if sources.activity is None:
        nothing = pa.nulls(len(numbers.group_ids), pa.int64())
        return {**found, "commits": nothing, "bytes": nothing}
    sums = sources.activity.group_by("group_id").aggregate([("commits", "sum"), ("bytes", "sum")])
    sums = sums.rename_columns(
        {"group_id": "group_id", "commits_sum": "commits", "bytes_sum": "bytes"}
    )
    return found | numbers.aligned(sums, ["commits", "bytes"], {"commits": 0, "bytes": 0})


def rebalances_of_groups(sources: GroupSources, numbers: GroupNumbers) -> dict[str, pa.Array]:
    """What the rebalances of the period say of each group, in the order of the groups; null without
    the table."""
    columns = {
        "rebalances": ("epoch", "count", 0),
        "unowned_ms": ("unowned_ms", "sum", 0),
        "moved": ("partitions_moved", "sum", 0),
        "longest_ms": ("duration_ms", "max", None),
        "slowest_ms": ("slowest_ms", "max", None),
        "last_rebalance": ("started_at", "max", None),
    }
    count = len(numbers.group_ids)
    if sources.rebalances is None:
        found = {
            name: pa.nulls(count, TIMESTAMP if name == "last_rebalance" else pa.int64())
            for name in columns
        }
        return found | {"cause": pa.nulls(count, pa.string())}
    sums = sources.rebalances.group_by("group_id").aggregate(
        [(column, how) for column, how, _ in columns.values()]
    )
    sums = sums.rename_columns(
        {f"{column}_{how}": name for name, (column, how, _) in columns.items()}
        | {"group_id": "group_id"}
    )
    fill = {name: value for name, (_, _, value) in columns.items() if value is not None}
    found = numbers.aligned(sums, list(columns), fill)
    # A group of which no row has a number has no sum either.
    found = {name: found[name] for name in columns}
    return found | {"cause": _most_frequent_cause(sources.rebalances, numbers)}


def _most_frequent_cause(rebalances: pa.Table, numbers: GroupNumbers) -> pa.Array:
    """string[groups]: the cause of most rebalances of a group; of equals, the first by name."""
    lists = rebalances["causes"].combine_chunks()
    of_group = rebalances["group_id"].combine_chunks().take(pc.list_parent_indices(lists))
    pairs = pa.table({"group_id": of_group, "cause": pc.list_flatten(lists)})
    counted = pairs.group_by(["group_id", "cause"]).aggregate([([], "count_all")])
    counted = counted.sort_by(
        [("group_id", "ascending"), ("count_all", "descending"), ("cause", "ascending")]
    )
    first = counted.group_by("group_id", use_threads=False).aggregate([("cause", "first")])
    return numbers.aligned(first, ["cause_first"])["cause_first"]
