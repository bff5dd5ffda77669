"""The section `rebalances` of the report: the list, causes, hours, patterns, clients."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kip848_spark.insight import rebalance_fields as fields
from kip848_spark.insight.member_names import MemberNames
from kip848_spark.insight.patterns import PATTERN_FIELDS, find_patterns
from kip848_spark.insight.ranking import flapping_clients, summary
from kip848_spark.insight.story import cause_words
from kip848_spark.lake.rebalances import (
    MOST_WITH_PATTERNS,
    read_members,
    read_rebalances,
    rebalance_timeouts,
)
from kip848_spark.lake.snapshot import LakeSnapshot
from kip848_spark.lake.tables import TABLES
from kip848_spark.report.columns import (
    GroupNumbers,
    LeftOut,
    ReportTable,
    encode,
    report_table,
    rows_table,
    values,
)
from kip848_spark.wire.columns import list_offsets

MOST_REBALANCES = 200_000
MOST_PATTERNS = 2_000
MOST_CLIENTS = 100
MOST_TRIGGERS = 3
"""The largest number of members that are named as those that triggered a rebalance."""

OUTCOMES_IN_WORDS = {
    fields.CONVERGED: "the group became stable",
    fields.SUPERSEDED: "another rebalance began before the group was stable",
    fields.GROUP_DELETED: "the group was deleted before it was stable",
    fields.OPEN: "the group was not stable by the last record that was read",
    fields.CUT_BY_GAP: "missing records hide how it ended",
}
"""What each outcome of a rebalance means (docs/rebalances.md)."""

_DURATIONS = (
    0, 100, 200, 500, 1_000, 2_000, 5_000, 10_000, 20_000, 30_000, 60_000, 120_000, 300_000,
    600_000, 3_600_000,
)  # fmt: skip
"""The beginnings of the histogram's bins, in ms."""
_NUMBERS = {
    "epoch": "epoch", "duration_ms": "duration_ms", "members": "members",
    "partitions_moved": "moved", "minimal_moves": "minimal", "revoked": "revoked",
    "slowest_ms": "slowest_ms", "unowned_ms": "unowned_ms", "complete": "complete",
}  # fmt: skip
"""Columns of the table that go into the list as they are, and their names there."""


def read_period(snapshot: LakeSnapshot, since: datetime | None) -> pa.Table:
    """The rebalances since a time (UTC), in the order of their start; no rows if the lake does not
    have the table."""
    if not snapshot.has("rebalances"):
        return TABLES["rebalances"].schema.empty_table()
    return read_rebalances(snapshot, None, since)


class ListedRebalances(NamedTuple):
    """The rows of `rebalances` that the report lists, and all patterns that were found in the last
    ones of them (`PATTERN_FIELDS`)."""

    rows: pa.Table
    patterns: pa.Table


def rebalances_section(
    snapshot: LakeSnapshot,
    rebalances: pa.Table,
    numbers: GroupNumbers,
    left_out: LeftOut,
) -> tuple[dict[str, Any], ListedRebalances]:
    """The section `rebalances` (docs/report.md), and what it lists."""
    listed = rebalances.slice(max(0, rebalances.num_rows - MOST_REBALANCES))
    if listed.num_rows < rebalances.num_rows:
        left_out.add(
            f"Rebalances: the last {listed.num_rows:,} of {rebalances.num_rows:,} are listed; the "
            "sums, the charts by hour and the groups count all of them."
        )
    recent = rebalances.slice(max(0, rebalances.num_rows - MOST_WITH_PATTERNS))
    if recent.num_rows < rebalances.num_rows:
        left_out.add(
            f"Patterns and clients that come and go: looked for in the last {recent.num_rows:,} "
            f"of {rebalances.num_rows:,} rebalances."
        )
    members = read_members(snapshot, recent, ("joined", "left", "trigger_members"))
    patterns = _find_patterns(snapshot, recent, members)
    section = {
        "list": _list(listed, numbers, _labels(snapshot, listed)),
        "causes": _causes(rebalances),
        "outcomes": _outcomes(rebalances),
        "by_hour": _by_hour(rebalances),
        "by_hour_and_cause": _by_hour_and_cause(rebalances),
        "patterns": _patterns(patterns, numbers, left_out),
        "clients": _clients(recent, members, numbers),
        "durations": _durations(rebalances),
        "sentence": summary(rebalances),
    }
    return section, ListedRebalances(listed, patterns)


def _list(rebalances: pa.Table, numbers: GroupNumbers, label: pa.Table) -> ReportTable:
    columns: dict[str, list[Any]] = {"group": values(numbers.column(rebalances["group_id"]))}
    dictionaries: dict[str, list[Any]] = {}
    columns["epoch"] = values(rebalances["epoch"])
    columns["started_at"] = values(rebalances["started_at"])
    for name, named in _NUMBERS.items():
        columns[named] = values(rebalances[name])
    for name, named in (("joined", "joined"), ("left", "left"), ("blocked_members", "blocked")):
        columns[named] = values(pc.list_value_length(rebalances[name]))
    for name in ("causes", "likely", "outcome"):
        columns[name], dictionaries[name] = encode(rebalances[name])
    for name, array in (("slowest", "slowest_member"), ("trigger", "trigger_members")):
        columns[name], dictionaries[name] = encode(_named(rebalances[array], label))
    order = (
        "group", "epoch", "started_at", "duration_ms", "causes", "likely", "members", "joined",
        "left", "moved", "minimal", "revoked", "blocked", "slowest", "slowest_ms", "unowned_ms",
        "outcome", "complete", "trigger",
    )  # fmt: skip
    return {
        "length": rebalances.num_rows,
        "columns": {name: columns[name] for name in order},
        "dictionaries": dictionaries,
    }


def _labels(snapshot: LakeSnapshot, rebalances: pa.Table) -> pa.Table:
    """member_id, label: how the list names the members of ``rebalances``. The groups' pages have
    the names that `explain` uses; those need the rows of a group one by one."""
    found = read_members(snapshot, rebalances, ("slowest_member", "trigger_members"))
    hosts = found.group_by(["group_id", "client_id"]).aggregate([("client_host", "count_distinct")])
    single = hosts.filter(pc.equal(hosts["client_host_count_distinct"], 1))
    ids = [
        pc.binary_join_element_wise(rows["group_id"], rows["client_id"], "\0")
        for rows in (found, single)
    ]
    alone = pc.is_in(ids[0], value_set=ids[1].combine_chunks())
    at_host = pc.binary_join_element_wise(
        found["client_id"], pc.utf8_ltrim(found["client_host"], "/"), "@"
    )
    client = pc.if_else(alone, found["client_id"], at_host)
    label = pc.coalesce(found["instance_id"], client, found["client_id"], found["member_id"])
    rows = pa.table({"member_id": found["member_id"], "label": label})
    return rows.group_by("member_id", use_threads=False).aggregate([("label", "first")])


def _named(members: pa.ChunkedArray, label: pa.Table) -> pa.Array:
    """string: the label of each member, or of the first members of each list; null for none."""
    array = members.combine_chunks()
    ids = label["member_id"].combine_chunks()
    labels = label["label_first"].combine_chunks()
    if not pa.types.is_list(array.type):
        return pc.coalesce(labels.take(pc.index_in(array, value_set=ids)), array)
    few = pc.list_slice(array, 0, MOST_TRIGGERS, return_fixed_size_list=False)
    flat = pc.list_flatten(few)
    named = pc.coalesce(labels.take(pc.index_in(flat, value_set=ids)), flat)
    lists = pa.ListArray.from_arrays(_offsets(few), named)
    more = pc.greater(pc.list_value_length(array), MOST_TRIGGERS)
    text = pc.binary_join(lists, ", ")
    text = pc.if_else(more, pc.binary_join_element_wise(text, "…", ", "), text)
    return pc.if_else(pc.equal(pc.list_value_length(array), 0), pa.scalar(None, pa.string()), text)


def _offsets(lists: pa.ListArray) -> pa.Array:
    """int32: the offsets of ``lists`` in their flattened values; a null list is empty."""
    lengths = pc.fill_null(pc.list_value_length(lists), 0)
    return list_offsets(lengths.to_numpy(zero_copy_only=False))


def _by_cause(rebalances: pa.Table, further: Mapping[str, pa.Array]) -> pa.Table:
    """cause, and ``further`` columns, of each cause of each rebalance."""
    lists = rebalances["causes"].combine_chunks()
    parents = pc.list_parent_indices(lists)
    found = {name: array.take(parents) for name, array in further.items()}
    return pa.table({"cause": pc.list_flatten(lists), **found})


def _causes(rebalances: pa.Table) -> ReportTable:
    rows = _by_cause(rebalances, {"group_id": rebalances["group_id"].combine_chunks()})
    sums = rows.group_by("cause").aggregate([([], "count_all"), ("group_id", "count_distinct")])
    sums = sums.rename_columns(["cause", "rebalances", "groups"])
    sums = sums.sort_by([("rebalances", "descending"), ("cause", "ascending")])
    words = [cause_words(cause) for cause in sums["cause"].to_pylist()]
    sums = sums.add_column(1, "words", pa.array(words, pa.string()))
    return report_table(sums, ["cause"])


def _outcomes(rebalances: pa.Table) -> ReportTable:
    sums = rebalances.group_by("outcome").aggregate([([], "count_all")])
    sums = sums.rename_columns(["outcome", "rebalances"])
    sums = sums.sort_by([("rebalances", "descending"), ("outcome", "ascending")])
    words = [OUTCOMES_IN_WORDS.get(outcome) for outcome in sums["outcome"].to_pylist()]
    return report_table(sums.append_column("words", pa.array(words, pa.string())), ["outcome"])


def _hours(rebalances: pa.Table) -> pa.Array:
    return pc.floor_temporal(rebalances["started_at"].combine_chunks(), unit="hour")


def _by_hour(rebalances: pa.Table) -> ReportTable:
    rows = rebalances.select(["group_id", "unowned_ms", "duration_ms"])
    rows = rows.append_column("hour", _hours(rebalances))
    sums = rows.group_by("hour").aggregate(
        [
            ([], "count_all"),
            ("group_id", "count_distinct"),
            ("unowned_ms", "sum"),
            ("duration_ms", "max"),
        ]
    )
    named = sums.rename_columns(["hour", "rebalances", "groups", "unowned_ms", "longest_ms"])
    filled = named.set_column(3, "unowned_ms", pc.fill_null(named["unowned_ms"], 0))
    return report_table(filled.sort_by("hour"))


def _by_hour_and_cause(rebalances: pa.Table) -> ReportTable:
    rows = _by_cause(rebalances, {"hour": _hours(rebalances)}).select(["hour", "cause"])
    sums = rows.group_by(["hour", "cause"]).aggregate([([], "count_all")])
    named = sums.rename_columns(["hour", "cause", "rebalances"])
    return report_table(named.sort_by([("hour", "ascending"), ("cause", "ascending")]), ["cause"])


def _find_patterns(snapshot: LakeSnapshot, rebalances: pa.Table, members: pa.Table) -> pa.Table:
    if not rebalances.num_rows:
        return pa.schema(list(PATTERN_FIELDS.items())).empty_table()
    return find_patterns(rebalances, members, rebalance_timeouts(snapshot, rebalances))


def _patterns(found: pa.Table, numbers: GroupNumbers, left_out: LeftOut) -> ReportTable:
    if found.num_rows > MOST_PATTERNS:
        left_out.add(f"Patterns: the last {MOST_PATTERNS:,} of {found.num_rows:,} are listed.")
    shown = found.slice(max(0, found.num_rows - MOST_PATTERNS))
    columns = ["pattern", "group", "partition", "since", "until", "count", "explanation"]
    return report_table(numbers.replace(shown), ["pattern"], columns)


def _clients(rebalances: pa.Table, members: pa.Table, numbers: GroupNumbers) -> ReportTable:
    def names_of(groups: Sequence[str]) -> dict[str, MemberNames]:
        theirs = members.filter(pc.is_in(members["group_id"], pa.array(groups, pa.string())))
        by_group: dict[str, list[dict[str, Any]]] = {}
        for row in theirs.to_pylist():
            by_group.setdefault(row["group_id"], []).append(row)
        return {group: MemberNames(rows) for group, rows in by_group.items()}

    rows = flapping_clients(rebalances, names_of, MOST_CLIENTS)
    counts = dict.fromkeys(("joined", "left", "member_ids"), pa.int64())
    text = pa.string()
    found = rows_table(rows, {"group_id": text, "client": text, "about": text, **counts})
    ids = found["columns"].pop("group_id")
    group = values(numbers.column(pa.array(ids, text)))
    found["columns"] = {"group": group, **found["columns"]}
    return found


def _durations(rebalances: pa.Table) -> ReportTable:
    took = rebalances["duration_ms"].drop_null().to_numpy()
    counts = np.histogram(took, [*_DURATIONS, np.inf])[0].tolist()
    return {
        "length": len(_DURATIONS),
        "columns": {
            "from_ms": list(_DURATIONS),
            "to_ms": [*_DURATIONS[1:], None],
            "rebalances": counts,
        },
        "dictionaries": {},
    }
