"""Judges the groups of a source by the formal model (docs/model.md)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from pyspark.sql import SparkSession

from kip848_spark.conformance.task import (
    GAP,
    NOT_JUDGED,
    RECORD,
    REPEAT,
    ROW,
    VERDICT,
    control_lines,
    judged,
)
from kip848_spark.spark.capture_errors import translate_capture_errors
from kip848_spark.spark.collect import collect_rows
from kip848_spark.spark.jobs.capture import all_ranges
from kip848_spark.spark.map_in_arrow import map_in_arrow
from kip848_spark.spark.session_settings import in_prepared_session, size_tasks
from kip848_spark.spark.sources import RecordSource

NOT_WHOLE = "records before it may be missing: the log cleaner was there, or one is undecodable"


@in_prepared_session
def conform(
    source: RecordSource,
    spark: SparkSession,
    groups: Sequence[str] | None = None,
    release: str | None = None,
) -> list[dict[str, Any]]:
    """A verdict on each group of ``source`` that has control records, or on those of ``groups``:
    `VERDICT` without its first column, sorted by group. ``release``: the model's; None: any that
    may have written the records.

    Raises SourceError or CaptureError.
    """
    ranges = all_ranges(source, spark)
    if not ranges:
        return []
    size_tasks(spark, sum(r.end - r.start for r in ranges))
    starts = {r.partition: 0 for r in ranges}
    wanted = None if groups is None else frozenset(groups)
    with translate_capture_errors(source.name):
        lines = map_in_arrow(source.read(spark, ranges), control_lines(starts, wanted), ROW)
        by_group = lines.repartition("group_id", "partition")
        ordered = by_group.sortWithinPartitions("group_id", "partition", "kind", "offset")
        rows = collect_rows(map_in_arrow(ordered, judged(release), VERDICT))
    return _only_whole(rows)


def _only_whole(rows: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """The verdicts; a group whose first records may be missing is not judged."""
    verdicts, gaps, repeats = [], dict[int, int](), dict[int, int]()
    for row in rows:
        kind, partition, offset = row.pop("kind"), row["partition"], row["first_offset"]
        if kind == RECORD:
            verdicts.append(row)
        elif kind == GAP:
            gaps[partition] = max(offset, gaps.get(partition, -1))
        elif kind == REPEAT:
            repeats[partition] = min(offset, repeats.get(partition, offset))
    for row in verdicts:
        partition, first = row["partition"], row["first_offset"]
        if partition not in gaps:
            continue
        if first <= gaps[partition] or first < repeats.get(partition, first + 1):
            cleared = dict.fromkeys(("release", "offset", "timestamp", "member_id", "recorded"))
            row |= {**cleared, "verdict": NOT_JUDGED, "reason": NOT_WHOLE, "allowed": []}
    return sorted(verdicts, key=lambda row: (row["group_id"], row["partition"]))
