"""What an audit's tasks are given: a group's records, and its rows of the state tables."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import reduce

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from kip848_spark.checks.group_task import IN_BETWEEN, NOW, RECORDS, REPLAYED, UNREADABLE, Row
from kip848_spark.checks.log_entries import KINDS
from kip848_spark.checks.row_packing import PACKED, packed
from kip848_spark.checks.state import ASSIGNMENTS, COMPARED, GROUPS, KEYS, MEMBERS, OFFSETS
from kip848_spark.lake.ledger import Run
from kip848_spark.lake.tables import TABLES
from kip848_spark.spark.jobs.sampling import Sampled
from kip848_spark.spark.map_in_arrow import map_in_arrow
from kip848_spark.spark.schemas import spark_schema
from kip848_spark.spark.storage.tables import LakeTables, TableRow
from kip848_spark.state import kinds

COMMITS_REPLAYED, COMMITS_SAMPLED = 200_000, 5_000
"""A lake of so many records has all its commits replayed by the reference; of a larger one it is
given those of some keys, about so many."""
_KEY_BUCKETS = 1_000_000
_STRUCTS = tuple(kind for kind in KINDS if kind != kinds.COMMIT)


def gathered(
    lake: LakeTables,
    run: Run,
    runs: Sequence[TableRow],
    groups: Sequence[str] | None,
    after: str | None,
    then: DataFrame | None,
) -> DataFrame:
    """Columns of `Row`, in no order: of ``groups`` (all if None), and only of those with records of
    later runs than ``after``. ``runs``: the rows of that table, which need not tell of ``run``;
    ``then``: rows of `PACKED`, the state tables as they were in between."""
    parts = [_control(lake), _commits(lake)]
    unread = [_unread(lake)] if _has_unreadable(run, runs) else []
    parts += map(_unreadable, unread)
    parts += [_state(lake, table) for table in (GROUPS, MEMBERS, ASSIGNMENTS)]
    records = _records(run, runs)
    if after is None or records <= COMMITS_REPLAYED:
        sampled = _sampled(run, records)
        parts += [_replayed(lake, sampled), _state(lake, OFFSETS, sampled)]
    if then is not None:
        parts.append(_packed(then, IN_BETWEEN))
    rows = reduce(DataFrame.union, parts)
    if groups is not None:
        rows = rows.where(F.col("group_id").isin(list(groups)))
    if after is not None:
        rows = rows.join(F.broadcast(_changed(lake, unread, after)), "group_id", "left_semi")
    return rows


_TYPES = {"partition": "int", "offset": "bigint", "millis": "bigint", "last": "int"}


def _shaped(rows: DataFrame, columns: Mapping[str, str]) -> DataFrame:
    """The columns of `Row` as SQL expressions, null those that have none."""
    return rows.selectExpr(
        *(
            f"CAST({columns.get(name, 'NULL')} AS {_TYPES.get(name, 'string')}) AS `{name}`"
            for name in Row._fields
        )
    )


_PLACE = {"group_id": "group_id", "partition": "partition", "offset": "offset"}
_MILLIS = "coalesce(unix_millis(timestamp), 0)"


def _json(value: str) -> str:
    return f"to_json({value}, map('ignoreNullFields', 'false'))"


def _struct(columns: Sequence[str]) -> str:
    return f"struct({', '.join(columns)})"


def _control(lake: LakeTables) -> DataFrame:
    schema = spark_schema(TABLES["group_records"])
    cases = (
        f"WHEN '{kind}' THEN {_json(f'CAST({kind} AS {_as_kafka(schema[kind].dataType)})')}"
        for kind in _STRUCTS
    )
    rows = lake.read("group_records").where(F.col("kind").isin(*_STRUCTS))
    names = ("kind", "member_id", "regular_expression", "dialect")
    return _shaped(
        rows,
        {
            **_PLACE,
            **{name: name for name in names},
            "millis": _MILLIS,
            "value": f"CASE WHEN NOT tombstone THEN CASE kind {' '.join(cases)} END END",
            "last": str(RECORDS),
        },
    )


def _as_kafka(type_: T.DataType) -> str:
    """``type_`` in SQL, with the names of its fields as Kafka has them."""
    if isinstance(type_, T.ArrayType):
        return f"array<{_as_kafka(type_.elementType)}>"
    if isinstance(type_, T.StructType):
        fields = (f"{_camel(field.name)}: {_as_kafka(field.dataType)}" for field in type_.fields)
        return f"struct<{', '.join(fields)}>"
    return type_.simpleString()


def _camel(snake: str) -> str:
    return re.sub(r"_(.)", lambda found: found.group(1).upper(), snake)


def _commits(lake: LakeTables) -> DataFrame:
    """The newest commit of each group that has any: it makes a (simple) group where there is
    none. One from before the group ended, or was replaced, matters no more, and is not carried."""
    return _shaped(
        lake.read("control_state").where(F.col("kind") == kinds.COMMIT),
        {**_PLACE, "kind": f"'{kinds.COMMIT}'", "millis": _MILLIS, "last": str(RECORDS)},
    )


def _records(run: Run, runs: Sequence[TableRow]) -> int:
    """How many the lake has, ``run``'s included."""
    new = 0 if run.counts is None else run.counts.records_read
    return new + sum(row["records_read"] or 0 for row in runs)


def _has_unreadable(run: Run, runs: Sequence[TableRow]) -> bool:
    """Whether any record of the lake could not be read, ``run``'s included: the ledger knows."""
    counts = [(row["quarantined"], row["unknown"]) for row in runs]
    if run.counts is not None:
        counts.append((run.counts.quarantined, run.counts.unknown))
    return any(number for pair in counts for number in pair)


def _unread(lake: LakeTables) -> DataFrame:
    """Control records of a group that could not be decoded, or are newer than this program."""
    return lake.read("records").where(
        F.col("error").isNotNull() & F.col("group_id").isNotNull() & (F.col("key_type") > 1)
    )


def _unreadable(unread: DataFrame) -> DataFrame:
    columns = {**_PLACE, "kind": f"'{UNREADABLE}'", "millis": _MILLIS, "last": str(RECORDS)}
    return _shaped(unread, columns)


def _state(lake: LakeTables, table: str, which: str = "true") -> DataFrame:
    """Rows of a state table for which ``which`` holds."""
    told = lake.read(table).where(which).select("group_id", *KEYS[table], *COMPARED[table])
    return _packed(map_in_arrow(told, packed(table), PACKED), NOW)


def _packed(rows: DataFrame, last: int) -> DataFrame:
    return _shaped(rows, {**{name: name for name in PACKED.names}, "last": str(last)})


def _replayed(lake: LakeTables, which: str) -> DataFrame:
    """Commits and their tombstones for which ``which`` holds, as they are on record."""
    told = ["topic", "topic_partition", "tombstone", "committed_offset", "leader_epoch"]
    told += ["metadata", "topic_id"]
    return _shaped(
        lake.read("records").where(f"kind = '{kinds.COMMIT}' AND error IS NULL AND {which}"),
        {
            **_PLACE,
            "millis": _MILLIS,
            "kind": f"'{REPLAYED}'",
            "value": _json(_struct(told)),
            "last": str(RECORDS),
        },
    )


def _sampled(run: Run, records: int) -> str:
    """Which keys' commits are replayed: all if there are few ``records``. A sample of keys, not of
    groups: one group may have half of all commits."""
    if records <= COMMITS_REPLAYED:
        return "true"
    looked_at = Sampled.of(run)
    share = _KEY_BUCKETS * COMMITS_SAMPLED // max(looked_at.records, COMMITS_SAMPLED)
    key = "xxhash64(group_id, topic, topic_partition)"
    return f"({looked_at.sql}) AND pmod({key}, {_KEY_BUCKETS}) < {share}"


def _changed(lake: LakeTables, unread: Sequence[DataFrame], after: str) -> DataFrame:
    """Groups with new control records, read or ``unread``, and those that have none at all."""
    new = lake.read("group_records").select("group_id", "run_id")
    for rows in unread:
        new = new.union(rows.select("group_id", "run_id"))
    new = new.where(F.col("run_id") > after).select("group_id")
    simple = lake.read(GROUPS).where(F.coalesce("protocol_type", F.lit("")) == "")
    return new.union(simple.where(F.col("type") == "classic").select("group_id")).distinct()
