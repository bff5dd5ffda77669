"""The audit of a lake: every group's control records judged, and its state compared.

One job: the tasks get whole groups, for nothing that a group's verdict needs lies outside of it but
where records are missing and what the topics are called, and both are small.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T
from pyspark.sql.pandas.types import from_arrow_schema

from kip848_spark.audit.coverage import Coverage
from kip848_spark.audit.entries import KINDS
from kip848_spark.audit.results import CHECKS, Tally
from kip848_spark.audit.settings import Settings
from kip848_spark.audit.state import ASSIGNMENTS, COMPARED, GROUPS, KEYS, MEMBERS, OFFSETS
from kip848_spark.audit.topics import KnownTopics
from kip848_spark.coordinator.topics import Topic
from kip848_spark.replay import kinds
from kip848_spark.spark.gaps import TRANSACTION
from kip848_spark.spark.in_between import cuts_of, share_of, state_then
from kip848_spark.spark.judging import (
    DISAGREED,
    FINDING,
    IN_BETWEEN,
    NOTE,
    NOW,
    RECORDS,
    REPLAYED,
    UNREADABLE,
    UNVERIFIABLE,
    VERDICT,
    VERIFIED,
    Row,
    judge,
)
from kip848_spark.spark.lake import Lake, with_run
from kip848_spark.spark.ledger import DONE, Run
from kip848_spark.spark.replaying import topic_names
from kip848_spark.spark.sampling import some_partitions

COMMITS_REPLAYED, COMMITS_SAMPLED = 200_000, 20_000
"""A lake of so many records has all its commits replayed by the reference; of a larger one it is
given those of some keys, about so many."""
_COLLECTED = 10_000
"""Findings up to which they are written by the driver, without another job."""
_KEY_BUCKETS = 1_000_000


@dataclass(frozen=True)
class Asked:
    """What an audit is asked for: groups (all if None), verdicts since a time, the release.

    ``after``: only groups with records of later runs than this one are judged, and only verdicts
    on those records are counted; then ``offsets`` are where these records begin.
    """

    groups: Sequence[str] | None = None
    since: datetime | None = None
    release: str | None = None
    after: str | None = None
    offsets: Mapping[int, int] = field(default_factory=dict)

    @property
    def is_whole(self) -> bool:
        """Whether all is judged that was not before."""
        return self.groups is None and self.since is None and self.release is None


def audit(lake: Lake, run: Run, asked: Asked) -> None:
    """Judges what the lake holds, and adds the rows of ``run`` to `agreement` and `findings`."""
    cuts = cuts_of(run) if asked.after is None else {}
    settings = Settings(
        coverage(lake, run),
        known_topics(lake),
        asked.release,
        None if asked.since is None else round(asked.since.timestamp() * 1000),
        asked.offsets,
        cuts,
        share_of(lake, run) if cuts else 0,
    )
    rows = (
        _rows(lake, run, asked, settings)
        .repartition("group_id")
        .sortWithinPartitions("group_id", *_ORDER)
    )
    verdicts = rows.mapInArrow(judge(settings), from_arrow_schema(VERDICT)).persist()
    try:
        tally = _tally(verdicts)
        cluster_id = run.identity.cluster_id
        lake.append_rows("agreement", tally.rows(), run.run_id, cluster_id)
        found = _findings(verdicts)
        told = found.limit(_COLLECTED + 1).collect()
        if len(told) <= _COLLECTED:
            few = [row.asDict() for row in told]
            lake.append_rows("findings", few, run.run_id, cluster_id)
        else:
            lake.append("findings", with_run(found, run.run_id, cluster_id))
    finally:
        verdicts.unpersist()


# What the tasks get

_ORDER = ("last", "partition", "offset")


def _rows(lake: Lake, run: Run, asked: Asked, settings: Settings) -> DataFrame:
    """Records and rows of the state tables, of the groups that are asked for."""
    rows = _shaped(_control(lake)).unionByName(_shaped(_commits(lake)))
    if _has_unreadable(lake, run):
        rows = rows.unionByName(_shaped(_unreadable(lake)))
    for table in (GROUPS, MEMBERS, ASSIGNMENTS):
        rows = rows.unionByName(_shaped(_state(lake, table)))
    size = sum(row["records_read"] or 0 for row in lake.rows("runs"))
    if asked.after is None or size <= COMMITS_REPLAYED:
        sampled = _sampled(run, size)
        replayed = _replayed(lake).where(sampled)
        rows = rows.unionByName(_shaped(replayed))
        rows = rows.unionByName(_shaped(_state(lake, OFFSETS).where(sampled)))
    if settings.cuts:
        then = state_then(lake, run, settings.cuts, settings.share)
        rows = rows.unionByName(_shaped(then.withColumn("last", F.lit(IN_BETWEEN))))
    if asked.groups is not None:
        rows = rows.where(F.col("group_id").isin(list(asked.groups)))
    if asked.after is not None:
        changed = _changed(lake, run, asked.after)
        rows = rows.join(F.broadcast(changed), "group_id", "left_semi")
    return rows


def _shaped(rows: DataFrame) -> DataFrame:
    """``rows`` in the columns of `Row`, null where they have no such column."""
    there = set(rows.columns)
    types = {"partition": "int", "offset": "bigint", "millis": "bigint", "last": "int"}
    return rows.select(
        *(
            F.col(name)
            if name in there
            else F.lit(None).cast(types.get(name, "string")).alias(name)
            for name in Row._fields
        )
    )


def _json(value: Column) -> Column:
    return F.to_json(value, {"ignoreNullFields": "false"})


def _control(lake: Lake) -> DataFrame:
    rows = lake.read("group_records")
    values = (
        F.when(F.col("kind") == k, _json(F.col(k).cast(_as_kafka(rows.schema[k].dataType))))
        for k in _STRUCTS
    )
    return rows.where(F.col("kind").isin(*_STRUCTS)).withColumns(
        {
            "millis": F.unix_millis("timestamp"),
            "value": F.when(~F.col("tombstone"), F.coalesce(*values)),
            "last": F.lit(RECORDS),
        }
    )


_STRUCTS = tuple(kind for kind in KINDS if kind != kinds.COMMIT)


def _as_kafka(type_: T.DataType) -> T.DataType:
    """``type_`` with the names of its fields as Kafka has them."""
    if isinstance(type_, T.ArrayType):
        return T.ArrayType(_as_kafka(type_.elementType), type_.containsNull)
    if isinstance(type_, T.StructType):
        return T.StructType(
            [T.StructField(_camel(f.name), _as_kafka(f.dataType), f.nullable) for f in type_.fields]
        )
    return type_


def _camel(snake: str) -> str:
    return re.sub(r"_(.)", lambda found: found.group(1).upper(), snake)


def _commits(lake: Lake) -> DataFrame:
    """A commit of each group that has any: it makes a (simple) group where there is none."""
    carried = lake.read("control_state").where(F.col("kind") == kinds.COMMIT)
    held = lake.read("offsets").groupBy("group_id", "partition")
    newest = held.agg(F.max("offset").alias("offset"), F.max("commit_timestamp").alias("timestamp"))
    columns = ["group_id", "partition", "offset", "timestamp"]
    rows = carried.select(columns).unionByName(newest.select(columns))
    return rows.withColumns(
        {
            "kind": F.lit(kinds.COMMIT),
            "millis": F.coalesce(F.unix_millis("timestamp"), F.lit(0)),
            "last": F.lit(RECORDS),
        }
    )


def _has_unreadable(lake: Lake, run: Run) -> bool:
    """Whether any record of the lake could not be read, ``run``'s included: the ledger knows."""
    counts = [(row["quarantined"], row["unknown"]) for row in lake.rows("runs")]
    if run.counts is not None:
        counts.append((run.counts.quarantined, run.counts.unknown))
    return any(number for pair in counts for number in pair)


def _unreadable(lake: Lake) -> DataFrame:
    """Control records of a group that could not be decoded, or are newer than this program."""
    return (
        lake.read("records")
        .where(F.col("error").isNotNull() & F.col("group_id").isNotNull() & (F.col("key_type") > 1))
        .select(
            "group_id",
            "partition",
            "offset",
            F.coalesce(F.unix_millis("timestamp"), F.lit(0)).alias("millis"),
            F.lit(UNREADABLE).alias("kind"),
            F.lit(RECORDS).alias("last"),
            "run_id",
        )
    )


def _state(lake: Lake, table: str) -> DataFrame:
    """Rows of a state table, as JSON."""
    columns = [*KEYS[table], *COMPARED[table]]
    partition = F.col("partition") if table in (GROUPS, OFFSETS) else F.lit(0)
    return lake.read(table).select(
        "group_id",
        partition.alias("partition"),
        F.lit(table).alias("kind"),
        _json(F.struct(*columns)).alias("value"),
        F.lit(NOW).alias("last"),
    )


def _replayed(lake: Lake) -> DataFrame:
    """Commits and their tombstones, as they are on record."""
    told = ["topic", "topic_partition", "tombstone", "committed_offset", "leader_epoch"]
    told += ["metadata", "topic_id"]
    return (
        lake.read("records")
        .where((F.col("kind") == kinds.COMMIT) & F.col("error").isNull())
        .select(
            "group_id",
            "partition",
            "offset",
            F.unix_millis("timestamp").alias("millis"),
            F.lit(REPLAYED).alias("kind"),
            _json(F.struct(*told)).alias("value"),
            F.lit(RECORDS).alias("last"),
        )
    )


def _sampled(run: Run, commits: int) -> Column:
    """The keys of which all commits are replayed: all if ``commits`` are few. A sample of keys, not
    of groups: one group may have half of all commits."""
    if commits <= COMMITS_REPLAYED:
        return F.lit(True)
    partitions = some_partitions(run)
    share = _KEY_BUCKETS * COMMITS_SAMPLED // max(sum(partitions.values()), COMMITS_SAMPLED)
    key = F.xxhash64("group_id", "topic", "topic_partition")
    return F.col("partition").isin(*partitions) & (F.pmod(key, F.lit(_KEY_BUCKETS)) < share)


def _changed(lake: Lake, run: Run, after: str) -> DataFrame:
    """Groups with new control records, read or not, and those that have none at all."""
    new = lake.read("group_records").select("group_id", "run_id")
    if _has_unreadable(lake, run):
        new = new.unionByName(_unreadable(lake).select("group_id", "run_id"))
    new = new.where(F.col("run_id") > after).select("group_id")
    simple = lake.read(GROUPS).where(F.coalesce("protocol_type", F.lit("")) == "")
    return new.unionByName(simple.where(F.col("type") == "classic").select("group_id")).distinct()


# What is known beside the records


def coverage(lake: Lake, run: Run) -> Coverage:
    """Where control records of the lake's topic may be missing: holes that no transaction left.
    ``run`` may not be done yet."""
    holes = lake.newest_of("gaps", "last_offset", ("partition", "run_id"), "cause", TRANSACTION)
    ends: dict[int, int] = {}
    restarts: set[tuple[int, int]] = set()
    done = [Run.of(row) for row in lake.rows("runs") if row["outcome"] == DONE]
    for one in [*done, run]:
        for part in one.ranges:
            ends[part.partition] = max(ends.get(part.partition, -1), part.end - 1)
            if 0 < part.start < part.end:
                restarts.add((part.partition, part.start))
    return Coverage.of(((key[0], last) for key, last in holes.items()), ends, restarts)


def known_topics(lake: Lake) -> KnownTopics:
    """The cluster's topics when they were listed last, and every id the records name."""
    table = lake.rows("topics")
    newest = max((row["run_id"] for row in table), default=None)
    pairs = topic_names(lake).where(F.col("topic").isNotNull()).collect()
    return KnownTopics.of(
        (
            Topic(
                row["topic"],
                row["topic_id"],
                row["partitions"],
                tuple(tuple(racks) for racks in row["racks"] or ()),
            )
            for row in table
            if row["run_id"] == newest
        ),
        ((row["topic_id"], row["topic"]) for row in pairs),
    )


# What is written


def _tally(verdicts: DataFrame) -> Tally:
    """The counts of all tasks."""
    tally = Tally()
    counted = verdicts.where(F.col("verdict") != FINDING)
    for row in counted.select("verdict", "check", "reason", "number").collect():
        check, number = row["check"], row["number"]
        if row["verdict"] == VERIFIED:
            tally.verified[check] += number
        elif row["verdict"] == DISAGREED:
            tally.disagreed[check] += number
        elif row["verdict"] == UNVERIFIABLE:
            tally.unverifiable[check, row["reason"]] += number
        elif row["verdict"] == NOTE:
            tally.notes[check, row["reason"]] += number
    return tally


def _findings(verdicts: DataFrame) -> DataFrame:
    """The rows of `findings`."""
    return verdicts.where(F.col("verdict") == FINDING).select(
        "check", "severity", "group_id", "member_id", "partition", "offset", "timestamp",
        "expected", "recorded", "explanation",
    )  # fmt: skip


def agreement_rows(lake: Lake, run_id: str) -> list[dict[str, Any]]:
    """What the audit of a run came to, a row a check, in the order of `CHECKS`."""
    found = [dict(row) for row in lake.rows("agreement") if row["run_id"] == run_id]
    return sorted(found, key=lambda row: CHECKS.index(row["check"]))


def findings_rows(lake: Lake, run_id: str, most: int | None = None) -> list[dict[str, Any]]:
    """What the audit of a run found, the worst first."""
    order = F.array_position(
        F.array(*(F.lit(name) for name in ("critical", "error", "warning", "info"))),
        F.col("severity"),
    )
    rows = lake.read("findings").where(F.col("run_id") == run_id)
    rows = rows.orderBy(order, "partition", "offset", "group_id")
    if most is not None:
        rows = rows.limit(most)
    return [row.asDict(recursive=True) for row in rows.collect()]
