"""The report's table `members`: who is in which group now."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from kip848_spark.insight.member_names import MemberNames
from kip848_spark.lake.snapshot import LakeSnapshot
from kip848_spark.report.columns import (
    GroupNumbers,
    LeftOut,
    ReportTable,
    encode,
    group_rows,
    values,
)
from kip848_spark.state.history_fields import MEMBER_HISTORY

MOST_MEMBERS = 20_000
MOST_TOPICS = 20
"""The largest number of topics that are listed of a member's subscription."""
_IDENTITY = ("member_id", "instance_id", "client_id", "client_host")


def members_table(
    snapshot: LakeSnapshot,
    members: pa.Table,
    assignments: pa.Table,
    numbers: GroupNumbers,
    left_out: LeftOut,
) -> ReportTable:
    """The table `members` (docs/report.md). ``assignments`` are the assigned partitions."""
    shown = _chosen(numbers.replace(members), left_out)
    columns: dict[str, list[Any]] = {"group": values(shown["group"])}
    dictionaries: dict[str, list[Any]] = {}
    columns["member_id"] = values(shown["member_id"])
    columns["name"] = _names(shown)
    columns["instance_id"] = values(shown["instance_id"])
    encoded = {
        "client_id": shown["client_id"],
        "host": pc.utf8_ltrim(shown["client_host"], "/"),
        "rack": shown["rack_id"],
        "topics": pc.list_slice(
            shown["subscribed_topics"].combine_chunks(), 0, MOST_TOPICS,
            return_fixed_size_list=False,
        ),
        "regex": shown["subscribed_regex"],
        "assignor": shown["assignor"],
        "state": shown["member_state"],
    }  # fmt: skip
    for name, column in encoded.items():
        columns[name], dictionaries[name] = encode(column)
    columns["epoch"] = values(shown["member_epoch"])
    columns["classic"] = values(shown["is_classic"])
    columns |= _of_members(snapshot, shown, assignments, numbers)
    return {"length": shown.num_rows, "columns": columns, "dictionaries": dictionaries}


def _chosen(members: pa.Table, left_out: LeftOut) -> pa.Table:
    """The members by group. If there are too many, whole groups are left out, the largest first."""
    members = members.filter(members["group"].is_valid())
    if members.num_rows > MOST_MEMBERS:
        sizes = members.group_by("group").aggregate([([], "count_all")])
        sizes = sizes.sort_by([("count_all", "ascending"), ("group", "ascending")])
        fits = pc.less_equal(pc.cumulative_sum(sizes["count_all"]), MOST_MEMBERS)
        kept = members.filter(
            pc.is_in(members["group"], value_set=sizes["group"].filter(fits).combine_chunks())
        )
        groups = sizes.num_rows - pc.sum(fits).as_py()
        left_out.add(
            f"Members: those of the {groups:,} largest groups are left out, "
            f"{members.num_rows - kept.num_rows:,} of {members.num_rows:,}. "
            "`kip848 groups --describe GROUP --members` lists them."
        )
        members = kept
    return members.sort_by([("group", "ascending"), ("member_id", "ascending")]).combine_chunks()


def _names(members: pa.Table) -> list[str]:
    """The names by which people know the members, unique within a group."""
    found: list[str] = []
    _, spans = group_rows(members["group"].combine_chunks())
    identity = members.select(list(_IDENTITY))
    for start, end in spans:
        rows = identity.slice(start, end - start).to_pylist()
        names = MemberNames(rows)
        found += [names.name(row["member_id"]) for row in rows]
    return found


def _of_members(
    snapshot: LakeSnapshot, members: pa.Table, assignments: pa.Table, numbers: GroupNumbers
) -> Mapping[str, list[Any]]:
    """``partitions`` and ``since`` of each member."""
    key = _key(members)
    owned = _key(numbers.replace(assignments.select(["group_id", "member_id"])))
    counted = pc.value_counts(owned.combine_chunks())
    partitions = pc.fill_null(
        counted.field("counts").take(pc.index_in(key, value_set=counted.field("values"))), 0
    )
    since = [None] * members.num_rows
    if snapshot.has(MEMBER_HISTORY):
        still = pc.field("to_offset").is_null()
        ids = pc.unique(members["member_id"].combine_chunks())
        # Rows that have ended tell when a member joined, as long as it had no break.
        rows = snapshot.select(
            MEMBER_HISTORY,
            still | pc.field("member_id").isin(ids),
            ["group_id", "member_id", "valid_from", "known_from"],
        )
        rows = numbers.replace(rows)
        spans = pa.table(
            {"key": _key(rows), "from": rows["valid_from"], "known": rows["known_from"]}
        )
        first = spans.group_by("key").aggregate([("from", "min"), ("known", "min")])
        # The true beginning of a row that is known from a time on was not seen.
        unseen = pc.fill_null(pc.equal(first["from_min"], first["known_min"]), False)
        begin = pc.if_else(unseen, pa.scalar(None, first["from_min"].type), first["from_min"])
        at = pc.index_in(key, value_set=first["key"].combine_chunks())
        since = values(begin.combine_chunks().take(at))
    return {"partitions": values(partitions), "since": since}


def _key(rows: pa.Table) -> pa.ChunkedArray:
    """A text for the group and the member of each row."""
    return pc.binary_join_element_wise(
        pc.fill_null(rows["group"].cast(pa.string()), "-"), rows["member_id"], " "
    )
