"""The input of the audit tasks: the records of each group, and its rows of the state tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema

from kip848_spark.checks.audit_rows import (
    AUDIT_ROWS,
    CURRENT_STATE,
    FULL_COMMIT,
    GROUP_RECORDS,
    SAVED_AUDIT,
    STATE_AT_POINT_IN_TIME,
    UNREADABLE_RECORD,
)
from kip848_spark.checks.log_entries import KINDS
from kip848_spark.checks.row_packing import PACKED_ROWS, packer
from kip848_spark.checks.state import ASSIGNMENTS, COMPARED, GROUPS, KEYS, MEMBERS, OFFSETS
from kip848_spark.lake.ledger import Run
from kip848_spark.lake.rows_with import COMMITS
from kip848_spark.spark.jobs.replay import control_bytes
from kip848_spark.spark.jobs.sampling import PartitionSample
from kip848_spark.spark.jobs.saved_audits import newest_saved, without_checked
from kip848_spark.spark.map_in_arrow import map_in_arrow
from kip848_spark.spark.storage.tables import LakeTables, TableRow
from kip848_spark.state import kinds

COMMITS_REPLAYED, COMMITS_SAMPLED = 200_000, 5_000
"""The reference replays all offset commits of a lake of up to `COMMITS_REPLAYED` records; of a
larger one, those of a sample of keys, about `COMMITS_SAMPLED` commits."""
_KEY_BUCKETS = 1_000_000
_CONTROL_KINDS = tuple(kind for kind in KINDS if kind != kinds.COMMIT)


def audit_input(
    lake: LakeTables,
    run: Run,
    runs: Sequence[TableRow],
    groups: Sequence[str] | None,
    after: str | None,
    state_at_point: DataFrame | None = None,
    saved: DataFrame | None = None,
    changed: DataFrame | None = None,
) -> DataFrame:
    """Columns `AUDIT_ROWS`, in no order.

    ``groups``: only these groups; all if None. ``after``: only groups with records of later runs
    than this one. ``runs``: the rows of the table `runs`, of which one may be of ``run``.
    ``state_at_point``: rows of `PACKED_ROWS`, the state tables at a point in time. ``saved``: the
    audits from which this one goes on (`saved_audits`). ``changed``: only the groups in its column
    ``group_id``, instead of those with records of later runs.
    """
    if changed is None and after is not None:
        changed = _changed_groups(lake, after)
    of_groups = None if changed is None else F.broadcast(changed)

    def wanted(rows: DataFrame) -> DataFrame:
        """The rows of the groups to audit, before anything is made of them."""
        if groups is not None:
            rows = rows.where(F.col("group_id").isin(list(groups)))
        return rows if of_groups is None else rows.join(of_groups, "group_id", "left_semi")

    control = wanted(lake.read_later("records", None, COMMITS))
    parts = []
    if saved is not None:
        newest = newest_saved(wanted(saved))
        control = without_checked(control, newest)
        parts.append(_saved_audits(saved, newest))
    parts += [
        _control_records(control_bytes(run, runs, control.where(F.col("error").isNull()))),
        _newest_commits(wanted(lake.read("control_state"))),
    ]
    if _has_unreadable(run, runs):
        parts.append(_unreadable(control))
    state = [GROUPS, MEMBERS, ASSIGNMENTS]
    parts += [_state_table(table, wanted(lake.read(table))) for table in state]
    number = record_count(run, runs)
    if after is None or number <= COMMITS_REPLAYED:
        keys = _sampled_keys(run, number)
        parts.append(_full_commits(wanted(lake.read("records").where(keys))))
        parts.append(_state_table(OFFSETS, wanted(lake.read(OFFSETS).where(keys))))
    if state_at_point is not None:
        parts.append(_packed_rows(wanted(state_at_point), STATE_AT_POINT_IN_TIME))
    return reduce(DataFrame.union, parts)


def _audit_rows(rows: DataFrame, columns: Mapping[str, str]) -> DataFrame:
    """The columns `AUDIT_ROWS`. ``columns`` has SQL expressions; the other columns are null."""
    return rows.selectExpr(
        *(
            f"CAST({columns.get(field.name, 'NULL')} AS {field.dataType.simpleString()})"
            f" AS `{field.name}`"
            for field in from_arrow_schema(AUDIT_ROWS)
        )
    )


_PLACE = {"group_id": "group_id", "partition": "partition", "offset": "offset"}
_MILLIS = "coalesce(unix_millis(timestamp), 0)"


def _control_records(control: DataFrame) -> DataFrame:
    """``control`` has the columns of `control_state`. The tasks decode the bytes: to make JSON of
    wide structs would take Spark longer."""
    return _audit_rows(
        control.where(F.col("kind").isin(*_CONTROL_KINDS)),
        {
            **_PLACE,
            "kind": "kind",
            "dialect": "dialect",
            "millis": _MILLIS,
            "key": "raw_key",
            "value": "raw_value",
            "stage": str(GROUP_RECORDS),
        },
    )


def _newest_commits(control_state: DataFrame) -> DataFrame:
    """The newest commit of each group that has any: it creates a simple classic group where there
    is no group. `control_state` has no commits from before a group ended or was replaced."""
    return _audit_rows(
        control_state.where(F.col("kind") == kinds.COMMIT),
        {**_PLACE, "kind": f"'{kinds.COMMIT}'", "millis": _MILLIS, "stage": str(GROUP_RECORDS)},
    )


def record_count(run: Run, runs: Sequence[TableRow]) -> int:
    """The number of records in the lake, including those of ``run``."""
    new = 0 if run.counts is None else run.counts.records_read
    return new + sum(row["records_read"] or 0 for row in runs)


def _has_unreadable(run: Run, runs: Sequence[TableRow]) -> bool:
    """Whether the ledger counts any record of the lake, or of ``run``, that was not decoded."""
    counts = [(row["quarantined"], row["unknown"]) for row in runs]
    if run.counts is not None:
        counts.append((run.counts.quarantined, run.counts.unknown))
    return any(number for pair in counts for number in pair)


def _of_groups(records: DataFrame) -> DataFrame:
    """The control records with a group id, among them those that could not be decoded."""
    return records.where(F.col("group_id").isNotNull() & (F.col("key_type") > 1))


def _unreadable(records: DataFrame) -> DataFrame:
    """Control records with a group id that could not be decoded, or are of an unknown version."""
    columns = {
        **_PLACE,
        "kind": f"'{UNREADABLE_RECORD}'",
        "millis": _MILLIS,
        "stage": str(GROUP_RECORDS),
    }
    return _audit_rows(_of_groups(records).where(F.col("error").isNotNull()), columns)


def _saved_audits(saved: DataFrame, newest: DataFrame) -> DataFrame:
    key = ["group_id", "run_id"]
    rows = saved.join(F.broadcast(newest.select(*key)), key, "left_semi")
    return _audit_rows(rows, {**_PLACE, "value": "saved", "stage": str(SAVED_AUDIT)})


def _state_table(table: str, rows: DataFrame) -> DataFrame:
    """``rows`` of a state table, packed."""
    columns = rows.select("group_id", *KEYS[table], *COMPARED[table])
    return _packed_rows(map_in_arrow(columns, packer(table), PACKED_ROWS), CURRENT_STATE)


def _packed_rows(rows: DataFrame, stage: int) -> DataFrame:
    return _audit_rows(rows, {**{name: name for name in PACKED_ROWS.names}, "stage": str(stage)})


def _full_commits(records: DataFrame) -> DataFrame:
    """Offset commits and their tombstones, with values."""
    columns = ["topic", "topic_partition", "tombstone", "committed_offset", "leader_epoch"]
    columns += ["metadata", "topic_id", "value_version"]
    columns += [f"unix_millis({name}_timestamp) AS {name}_millis" for name in ("commit", "expire")]
    return _audit_rows(
        records.where(f"kind = '{kinds.COMMIT}' AND error IS NULL"),
        {
            **_PLACE,
            "millis": _MILLIS,
            "kind": f"'{FULL_COMMIT}'",
            "value": f"to_json(struct({', '.join(columns)}), map('ignoreNullFields', 'false'))",
            "stage": str(GROUP_RECORDS),
        },
    )


def _sampled_keys(run: Run, records: int) -> str:
    """A SQL condition: the commits of this row's key are replayed. All are if there are few
    ``records``. It samples keys, not groups, since one group may have half of all commits."""
    if records <= COMMITS_REPLAYED:
        return "true"
    sample = PartitionSample.of(run)
    share = _KEY_BUCKETS * COMMITS_SAMPLED // max(sample.offsets, COMMITS_SAMPLED)
    key = "xxhash64(group_id, topic, topic_partition)"
    return f"({sample.sql}) AND pmod({key}, {_KEY_BUCKETS}) < {share}"


def _changed_groups(lake: LakeTables, after: str) -> DataFrame:
    """Ids of groups with control records of later runs than ``after``, and of simple groups, which
    have no control records."""
    new = _of_groups(lake.read_later("records", after, COMMITS)).select("group_id")
    simple = lake.read(GROUPS).where(F.coalesce("protocol_type", F.lit("")) == "")
    return new.union(simple.where(F.col("type") == "classic").select("group_id")).distinct()
