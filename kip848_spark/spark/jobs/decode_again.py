"""Decodes records again that an earlier version of this program did not know.

Such a record has its raw bytes in `records`, and the ledger has the formats that each run knew.
When a later version knows more, its next run first decodes the unknown records of the lake again,
in a run of its own: it replaces their rows in `records`, adds those of `group_records` and
`commit_summaries`, and rebuilds the state and the history, because the records belong between
others that were replayed long ago.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column, DataFrame, Row
from pyspark.sql import functions as F

from kip848_spark.lake.ledger import DECODE_AGAIN, ERASURE, Ledger, RecordCounts, Run
from kip848_spark.lake.tables import TABLES
from kip848_spark.spark.jobs.commit_summaries import SUMMARIES, summaries_of
from kip848_spark.spark.jobs.ingest import control_records
from kip848_spark.spark.jobs.repair import replay_from_scratch
from kip848_spark.spark.jobs.retention import SORTED
from kip848_spark.spark.map_in_arrow import map_in_arrow
from kip848_spark.spark.plans import finish_run, known_formats, offset_count, plan_lake_run
from kip848_spark.spark.session_settings import size_tasks
from kip848_spark.spark.steps import Steps
from kip848_spark.spark.storage.tables import LakeTables
from kip848_spark.spark.storage.upkeep import AFFECTED, Rewrite
from kip848_spark.state import kinds
from kip848_spark.wire.batches import Batches
from kip848_spark.wire.control_plans import control_plan
from kip848_spark.wire.decode import DecodePlan, decode
from kip848_spark.wire.faults import UNKNOWN_REASONS
from kip848_spark.wire.tables import record_columns

_FIELDS = TABLES["records"].fields
_BEFORE, _ERASED = "_before", "_erased"
"""Columns of `DecodeAgain`: the error that the row had, and whether its group was erased."""
_SCHEMA = pa.schema([*_FIELDS.items(), (_BEFORE, pa.string()), (_ERASED, pa.bool_())])
_UNKNOWN = [reason.text for reason in UNKNOWN_REASONS]
_ZERO = "\x00"


def decode_unknown_records(lake: LakeTables, last: Run | None, steps: Steps) -> Run | None:
    """Decodes the unknown records of finished runs that knew fewer formats than this program.

    Needs the lease, and no unfinished run. ``last`` is the last finished run; returns the one that
    is the last afterwards. Killed at any moment, it is undone by the next run. Raises LakeError.
    """
    ledger = Ledger(lake)
    runs = [run for run in ledger.finished() if _knew_less(run)]
    if last is None or not runs:
        return last
    records = lake.read("records", lake.versions()["records"])  # a later write does not change it
    again = _decoded_again(lake, records, runs).persist()
    try:
        found = _count(again)
        if any(row[_ERASED] or row["before"] != row["reason"] for row in found):
            return _decode(lake, last, runs, again, found, Steps(steps.progress))
    finally:
        again.unpersist()
    ledger.write(*(replace(run, formats=known_formats(run.dialect)) for run in runs))
    return last


def _knew_less(run: Run) -> bool:
    unknown = run.counts.unknown if run.counts else 0
    return unknown > 0 and run.formats != known_formats(run.dialect)


def _decode(
    lake: LakeTables,
    last: Run,
    runs: Sequence[Run],
    again: DataFrame,
    found: Sequence[Row],
    steps: Steps,
) -> Run:
    """A run after ``last`` that writes the rows ``again``, which are counted in ``found``."""
    ledger = Ledger(lake)
    plan = plan_lake_run(last, lake)
    size_tasks(lake.spark, offset_count(plan))
    ledger.write(plan)
    steps.run_started(plan.run_id)
    known = sum(
        row["records"] for row in found if row["reason"] not in _UNKNOWN and not row[_ERASED]
    )
    words = f"decoding {known:,} records that an earlier version did not know"
    with steps.step(DECODE_AGAIN, words):
        _replace(lake, runs, again)
        if last.replayed_through is not None:
            replay_from_scratch(lake, plan)
    removed: Counter[str] = Counter()
    for row in found:
        if row[_ERASED]:
            removed[row["run_id"]] += row["records"]
    plan = replace(
        plan,
        counts=RecordCounts(),
        replayed_through=plan.run_id if last.replayed_through is not None else None,
        open_offsets=last.open_offsets,
        removed=removed,
    )
    corrected = [
        replace(
            run,
            formats=known_formats(run.dialect),
            counts=correct_counts(
                run.counts or RecordCounts(),
                [row.asDict() for row in found if row["run_id"] == run.run_id and not row[_ERASED]],
            ),
        )
        for run in runs
    ]
    return finish_run(ledger, plan, steps, corrected)


# Decoding


def _decoded_again(lake: LakeTables, records: DataFrame, runs: Sequence[Run]) -> DataFrame:
    """The unknown rows of ``runs`` among ``records``, decoded by the dialect of their run, with the
    columns `_BEFORE` and `_ERASED`."""
    erasures = (row["run_id"] for row in lake.rows("runs") if ERASURE in row["durations_ms"])
    erased_until = max(erasures, default="")
    with_bytes = (F.col("kind") == kinds.COMMIT) & F.col("raw_key").isNotNull()
    raw = not records.where(with_bytes & F.col("error").isNull()).isEmpty()
    return reduce(
        DataFrame.unionByName,
        (
            map_in_arrow(
                records.where(_is_unknown(own)).select(*_FIELDS),
                DecodeAgain(control_plan(dialect).plan, erased_until, raw),
                _SCHEMA,
            )
            for dialect, own in _by_dialect(runs).items()
        ),
    )


def _by_dialect(runs: Sequence[Run]) -> Mapping[str, Sequence[Run]]:
    return {
        dialect: [run for run in runs if run.dialect == dialect]
        for dialect in sorted({run.dialect for run in runs})
    }


@dataclass(frozen=True)
class DecodeAgain:
    """A function from rows of `records` to the same rows, decoded from their raw bytes, with the
    columns `_BEFORE` and `_ERASED`.

    An erasure has put zeros in place of a name in records that it could not decode. The rows of the
    runs before ``erased_until`` (a run id) may have them. If a group's whole name is zeros, the
    group was erased. If a part of it is, or the name of a topic has zeros, the record can't be
    assigned to its group any more: the row stays as it was. ``keep_commits_raw``: see
    `record_columns`."""

    plan: DecodePlan
    erased_until: str = ""
    keep_commits_raw: bool = False

    def __call__(self, batches: Batches) -> Batches:
        for batch in batches:
            if batch.num_rows:
                yield self._decode(batch)

    def _decode(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        before = {name: batch.column(name).cast(type_) for name, type_ in _FIELDS.items()}
        keys, values = before["raw_key"], before["raw_value"]
        decoded = decode(self.plan, keys, values)
        found = before | record_columns(self.plan, decoded, keys, values, self.keep_commits_raw)
        with_zeros = pc.and_(
            pc.less(before["run_id"], self.erased_until).fill_null(False),
            pc.or_(_has_zeros(found["group_id"]), _has_zeros(found["topic"])),
        )
        only_zeros = pc.match_substring_regex(found["group_id"], rf"^{_ZERO}+$").fill_null(False)
        erased = pc.and_(with_zeros, only_zeros)
        if pc.any(stays := pc.and_not(with_zeros, only_zeros)).as_py():
            found = {name: pc.if_else(stays, before[name], found[name]) for name in _FIELDS}
        columns = [*(found[name] for name in _FIELDS), before["error"], erased]
        return pa.RecordBatch.from_arrays(
            [column.cast(field.type) for column, field in zip(columns, _SCHEMA, strict=True)],
            schema=_SCHEMA,
        )


def _has_zeros(texts: pa.Array) -> pa.Array:
    return pc.match_substring(texts, _ZERO).fill_null(False)


def _is_unknown(runs: Sequence[Run]) -> Column:
    """True for rows of `records` that ``runs`` have read and not known."""
    of_runs = F.col("run_id").isin([run.run_id for run in runs])
    return of_runs & F.coalesce(_reason("error").isin(_UNKNOWN), F.lit(False))


def _reason(column: str) -> Column:
    """The reason in an error, which goes on with the place: ``unknown_key_type at key byte 0``."""
    return F.substring_index(column, " ", 1)


# Writing


def _replace(lake: LakeTables, runs: Sequence[Run], again: DataFrame) -> None:
    """Replaces the unknown rows of ``runs`` in `records` by ``again``, and adds what follows from
    those that are decoded now to `group_records` and `commit_summaries`."""
    left = again.where(~F.col(_ERASED))
    lake.rewrite(
        "records",
        Rewrite(
            lambda rows: rows.withColumn(AFFECTED, _is_unknown(runs)),
            lambda rows: (
                rows.where(~_is_unknown(runs)).select(*_FIELDS).unionByName(left.select(*_FIELDS))
            ),
            sort=SORTED["records"],
        ),
    )
    known = left.where(F.col("error").isNull())
    for dialect, own in _by_dialect(runs).items():
        rows = known.where(F.col("run_id").isin([run.run_id for run in own]))
        of_run = rows.select("partition", "offset", "run_id", "cluster_id")
        control = control_records(rows, control_plan(dialect)).join(of_run, ["partition", "offset"])
        lake.append("group_records", control.select(*TABLES["group_records"].fields))
    commits = known.where(F.col("kind") == kinds.COMMIT).select("run_id").distinct().collect()
    if ids := sorted(row["run_id"] for row in commits):
        records = lake.read("records").where(F.col("run_id").isin(ids))
        summaries = summaries_of(records).select(*TABLES[SUMMARIES].fields)
        lake.replace_values(SUMMARIES, summaries, "run_id", ids)


# Counting


def _count(again: DataFrame) -> list[Row]:
    """The number of ``records`` and of their unknown ``tags``, by run, kind, the reason ``before``,
    the present ``reason``, ``tombstone`` and `_ERASED`."""
    before, reason = _reason(_BEFORE).alias("before"), _reason("error").alias("reason")
    counted = again.groupBy("run_id", "kind", before, reason, "tombstone", _ERASED)
    return counted.agg(
        F.count(F.lit(1)).alias("records"), F.sum("unknown_tags").alias("tags")
    ).collect()


def correct_counts(before: RecordCounts, found: Iterable[Mapping[str, Any]]) -> RecordCounts:
    """The counts of a run after some of its unknown records were decoded again. ``found``: see
    `_count`. Records that maintenance has removed stay counted as they were."""
    sums = Counter(
        decoded=before.decoded,
        tombstones=before.tombstones,
        unknown=before.unknown,
        quarantined=before.quarantined,
    )
    errors, tags = Counter(before.errors), Counter(before.unknown_tags)
    for row in found:
        number, reason = row["records"], row["reason"]
        sums["unknown"] -= number
        errors[row["before"]] -= number
        if reason is None:
            sums["tombstones" if row["tombstone"] else "decoded"] += number
        else:
            sums["unknown" if reason in _UNKNOWN else "quarantined"] += number
            errors[reason] += number
        tags[row["kind"]] += row["tags"] or 0
    return replace(before, **sums, errors=dict(+errors), unknown_tags=dict(+tags))
