"""The audit of a lake: every group's control records judged, and its state compared.

The tasks get whole groups: nothing that a group's verdict needs lies outside of it but where
records are missing and what the topics are called, and both are small.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema

from kip848_spark.audit.coverage import Coverage
from kip848_spark.audit.entries import KINDS
from kip848_spark.audit.results import CHECKS, ERROR, STATE
from kip848_spark.audit.settings import Settings
from kip848_spark.audit.state import COMPARED, GROUPS, JUDGED_TYPES, KEYS
from kip848_spark.audit.topics import KnownTopics
from kip848_spark.coordinator.topics import Topic
from kip848_spark.replay import kinds
from kip848_spark.spark.gaps import TRANSACTION
from kip848_spark.spark.judging import (
    DISAGREED,
    FINDING,
    NOTE,
    REFUSED,
    ROW,
    STATE_ROW,
    UNVERIFIABLE,
    VERDICT,
    VERIFIED,
    judge,
    state_rows,
)
from kip848_spark.spark.lake import Lake, with_run
from kip848_spark.spark.ledger import DONE, Run
from kip848_spark.spark.replaying import topic_names

STATE_EXPLANATION = (
    "The table {} and the reference's replay of the same records do not say the same of this row: "
    "one of the two programs is wrong; please report it with these records."
)
NOT_LOADED = "a broker would not load the group"
OTHER_DIALECT = "records of a release before 4.0: not replayed by the reference"
OTHER_TYPE = "a share or streams group: not replayed by the reference"


@dataclass(frozen=True)
class Asked:
    """What an audit is asked for: groups (all if None), verdicts since a time, the release."""

    groups: Sequence[str] | None = None
    since: datetime | None = None
    release: str | None = None


def audit(lake: Lake, run: Run, asked: Asked) -> None:
    """Judges what the lake holds, and adds the rows of ``run`` to `agreement` and `findings`."""
    settings = Settings(
        coverage(lake), known_topics(lake), asked.release,
        None if asked.since is None else round(asked.since.timestamp() * 1000),
    )  # fmt: skip
    verdicts = _control(lake, asked).mapInArrow(judge(settings), from_arrow_schema(VERDICT))
    verdicts = verdicts.persist()
    compared = _compared(lake, verdicts, asked).persist()
    try:
        agreement = _agreement(verdicts, compared)
        lake.append("agreement", with_run(agreement, run.run_id, run.identity.cluster_id))
        findings = _findings(verdicts, compared)
        lake.append("findings", with_run(findings, run.run_id, run.identity.cluster_id))
    finally:
        compared.unpersist()
        verdicts.unpersist()


def _of(groups: Sequence[str] | None) -> Column:
    return F.lit(True) if groups is None else F.col("group_id").isin(list(groups))


def _shipped() -> Column:
    """Records in the layouts of Kafka 4.0 and later: the reference knows no others."""
    return F.col("dialect") == "shipped"


def _control(lake: Lake, asked: Asked) -> DataFrame:
    """Control records and each group's last commit, sorted by group and offset."""
    columns = ["partition", "offset", "timestamp", "kind", "group_id", "member_id"]
    columns += ["regular_expression", "tombstone", *(k for k in KINDS if k != kinds.COMMIT)]
    control = lake.read("group_records").where(_of(asked.groups) & _shipped()).select(columns)
    commits = (
        lake.read("records")
        .where(_of(asked.groups) & (F.col("kind") == kinds.COMMIT))
        .where(F.col("error").isNull() & ~F.col("tombstone"))
        .groupBy("group_id", "partition")
        .agg(F.max("offset").alias("offset"), F.max_by("timestamp", "offset").alias("timestamp"))
        .withColumns({"kind": F.lit(kinds.COMMIT), "tombstone": F.lit(False)})
    )
    rows = control.unionByName(commits, allowMissingColumns=True)
    return rows.repartition("group_id").sortWithinPartitions("group_id", "partition", "offset")


def coverage(lake: Lake) -> Coverage:
    """Where control records of the lake's topic may be missing: holes that no transaction left."""
    holes = (
        lake.read("gaps")
        .where(F.col("cause") != TRANSACTION)
        .groupBy("partition", "run_id")
        .agg(F.max("last_offset").alias("last"))
        .collect()
    )
    done = lake.read("runs").where(F.col("outcome") == DONE)
    runs = done.select("from_offsets", "to_offsets").collect()
    ends: dict[int, int] = {}
    restarts: set[tuple[int, int]] = set()
    for run in runs:
        for partition, end in run["to_offsets"].items():
            first = run["from_offsets"][partition]
            ends[partition] = max(ends.get(partition, -1), end - 1)
            if 0 < first < end:
                restarts.add((partition, first))
    return Coverage.of(((r["partition"], r["last"]) for r in holes), ends, restarts)


def known_topics(lake: Lake) -> KnownTopics:
    """The cluster's topics when they were listed last, and every id the records name."""
    table = lake.read("topics")
    newest = table.agg(F.max("run_id")).collect()[0][0]
    listed = table.where(F.col("run_id") == newest).collect() if newest is not None else []
    pairs = topic_names(lake).where(F.col("topic").isNotNull()).collect()
    return KnownTopics.of(
        (
            Topic(
                row["topic"],
                row["topic_id"],
                row["partitions"],
                tuple(tuple(racks) for racks in row["racks"] or ()),
            )
            for row in listed
        ),
        ((row["topic_id"], row["topic"]) for row in pairs),
    )


# Check 1: the state tables against the reference's replay


def _compared(lake: Lake, verdicts: DataFrame, asked: Asked) -> DataFrame:
    """table, group_id, key, ours, theirs: each row of a state table that either side has, and
    ``reason`` where it can't be judged."""
    key = ["table", "group_id", "key"]
    judged = lake.read(GROUPS).where(_of(asked.groups))
    types = judged.select("group_id", "type")
    schema = from_arrow_schema(STATE_ROW)
    ours: DataFrame | None = None
    for table in COMPARED:
        columns = ["group_id", *KEYS[table], *COMPARED[table]]
        rows = lake.read(table).where(_of(asked.groups)).select(columns)
        rows = rows.mapInArrow(state_rows(table), schema)
        ours = rows if ours is None else ours.unionByName(rows)
    assert ours is not None
    theirs = verdicts.where(F.col("verdict") == ROW).select(
        F.col("check").alias("table"),
        "group_id",
        F.col("expected").alias("key"),
        F.col("recorded").alias("theirs"),
    )
    early = lake.read("group_records").where(_of(asked.groups) & ~_shipped())
    refused = (
        verdicts.where(F.col("verdict") == REFUSED)
        .select("group_id", F.lit(NOT_LOADED).alias("refused"))
        .unionByName(early.select("group_id", F.lit(OTHER_DIALECT).alias("refused")))
        .groupBy("group_id")
        .agg(F.max("refused").alias("refused"))
    )
    other = ~F.coalesce(F.col("type").isin(*JUDGED_TYPES), F.lit(True))
    return (
        ours.withColumnRenamed("row", "ours")
        .join(theirs, key, "full_outer")
        .join(F.broadcast(refused), "group_id", "left")
        .join(types, "group_id", "left")
        .withColumn("reason", F.coalesce("refused", F.when(other, F.lit(OTHER_TYPE))))
        .select(*key, "ours", "theirs", "reason")
    )


def _same() -> Column:
    return F.col("ours").eqNullSafe(F.col("theirs"))


# What is written


def _agreement(verdicts: DataFrame, compared: DataFrame) -> DataFrame:
    """The rows of `agreement`; a check that came to no verdict has none."""
    said = verdicts.where(F.col("verdict").isin(VERIFIED, UNVERIFIABLE, DISAGREED, NOTE))
    said = said.groupBy("check", "verdict", "reason").agg(F.sum("number").alias("number"))
    state = (
        compared.select(
            F.lit(STATE).alias("check"),
            F.when(F.col("reason").isNotNull(), F.lit(UNVERIFIABLE))
            .when(_same(), F.lit(VERIFIED))
            .otherwise(F.lit(DISAGREED))
            .alias("verdict"),
            "reason",
        )
        .groupBy("check", "verdict", "reason")
        .agg(F.count(F.lit(1)).alias("number"))
    )

    def total(verdict: str) -> Column:
        of = F.sum(F.when(F.col("verdict") == verdict, F.col("number")))
        return F.coalesce(of, F.lit(0)).alias(verdict)

    reason = F.when(F.col("reason").isNotNull(), F.struct("reason", "number"))
    return (
        said.unionByName(state)
        .where(F.col("check").isin(*CHECKS))
        .groupBy("check")
        .agg(
            total(VERIFIED),
            total(UNVERIFIABLE),
            total(DISAGREED),
            F.map_from_entries(F.sort_array(F.collect_list(reason))).alias("reasons"),
        )
        .coalesce(1)
    )


def _findings(verdicts: DataFrame, compared: DataFrame) -> DataFrame:
    """The rows of `findings`."""
    columns = [
        "check", "severity", "group_id", "member_id", "partition", "offset", "timestamp",
        "expected", "recorded", "explanation",
    ]  # fmt: skip
    judged = verdicts.where(F.col("verdict") == FINDING).select(columns)
    told = F.lit(STATE_EXPLANATION)
    state = compared.where(F.col("reason").isNull() & ~_same()).select(
        F.lit(STATE).alias("check"),
        F.lit(ERROR).alias("severity"),
        "group_id",
        F.get_json_object("key", "$.member_id").alias("member_id"),
        F.lit(None).cast("int").alias("partition"),
        F.lit(None).cast("bigint").alias("offset"),
        F.lit(None).cast("timestamp").alias("timestamp"),
        _keyed("theirs").alias("expected"),
        _keyed("ours").alias("recorded"),
        F.replace(told, F.lit("{}"), F.col("table")).alias("explanation"),
    )
    return judged.unionByName(state).coalesce(1)


def _keyed(side: str) -> Column:
    """A row of a state table, or its absence, as JSON."""
    row = F.coalesce(F.col(side), F.lit("null"))
    return F.concat(F.lit('{"key": '), F.col("key"), F.lit(', "row": '), row, F.lit("}"))


def agreement_rows(lake: Lake, run_id: str) -> list[dict[str, Any]]:
    """What the audit of a run came to, a row a check, in the order of `CHECKS`."""
    rows = lake.read("agreement").where(F.col("run_id") == run_id).collect()
    found = [row.asDict(recursive=True) for row in rows]
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
