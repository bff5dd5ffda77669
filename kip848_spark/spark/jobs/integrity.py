"""Compares a lake's tables with its ledger: every record is there exactly once."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from kip848_spark.errors import LakeError
from kip848_spark.lake.ledger import DONE, Run, removed_records, written_records
from kip848_spark.spark.storage.tables import LakeTables
from kip848_spark.state import kinds

REPAIR = "`kip848 repair` removes duplicate rows and rebuilds the state tables from the records."


def check_counts(lake: LakeTables, unfinished: Run | None = None) -> None:
    """Raises LakeError if the number of rows in `records`, or in the version that ``unfinished``
    was planned on, differs from the number of records that the finished runs have read. Reads only
    the ledger and the statistics of files."""
    if words := count_mismatch(lake, unfinished):
        raise LakeError(f"The lake {lake.path} is damaged: {words}.", REPAIR)


def count_mismatch(lake: LakeTables, unfinished: Run | None = None) -> str | None:
    """Describes the difference that `check_counts` raises; None if there is none."""
    runs = lake.rows("runs")
    expected = written_records(runs)
    removed = removed_records(runs).total()
    expected -= removed
    if unfinished is None:
        found = lake.count("records")
    else:
        found = lake.read("records", unfinished.table_versions["records"]).count()
    if found == expected:
        return None
    less = f", of which maintenance has removed {removed:,}" if removed else ""
    read = expected + removed
    return f"its finished runs have written {read:,} records{less}, but records has {found:,} rows"


def find_damage(lake: LakeTables) -> list[str]:
    """Describes the damage to the tables of a lake without an unfinished run; empty if there is
    none. Reads the partitions and offsets of all records."""
    found = []
    windows = finished_ranges(lake)
    records = lake.read("records").select("partition", "offset", "raw_key", "error", "kind")
    control = records.where(is_control_record())
    for name, rows in (("records", records), ("group_records", lake.read("group_records"))):
        counted = rows.groupBy("partition", "offset").count()
        twice = counted.agg(F.sum(F.col("count") - 1)).head()
        if twice is not None and twice[0]:
            found.append(f"{twice[0]:,} rows of {name} are duplicates")
    outside = records.join(F.broadcast(windows), in_finished_range(), "left_anti").count()
    if outside:
        found.append(f"{outside:,} rows of records belong to no finished run")
    if not found and (words := count_mismatch(lake)):
        found.append(words)
    expected, there = control.count(), lake.count("group_records")
    if expected != there and not found:
        found.append(f"group_records has {there:,} rows for {expected:,} control records")
    return found


def is_control_record() -> Column:
    """True for a row of `records` that is a decoded control record."""
    decoded = F.col("raw_key").isNotNull() & F.col("error").isNull()
    return decoded & (F.col("kind") != kinds.COMMIT)


def split_finished_runs(lake: LakeTables) -> tuple[list[Run], list[Run]]:
    """The finished runs whose ranges follow one another, and the others. Those read offsets that an
    earlier run had read, because two programs wrote to the lake at once."""
    done = sorted(
        (Run.from_row(row) for row in lake.rows("runs") if row["outcome"] == DONE),
        key=lambda run: run.run_id,
    )
    follows: list[Run] = []
    others: list[Run] = []
    ends: dict[int, int] = {}
    for run in done:
        if all(r.start == ends.get(r.partition, 0) for r in run.ranges):
            follows.append(run)
            ends |= {r.partition: r.end for r in run.ranges}
        else:
            others.append(run)
    return follows, others


def finished_ranges(lake: LakeTables) -> DataFrame:
    """``owner`` (a run's id), ``of``, ``first`` and ``end``: the offsets of each partition that
    each finished run has read, from ``first`` to before ``end``."""
    rows = [
        (run.run_id, r.partition, r.start, r.end)
        for run in split_finished_runs(lake)[0]
        for r in run.ranges
        if r.end > r.start
    ]
    return lake.spark.createDataFrame(rows, "owner string, of int, first long, end long")


def in_finished_range(offset: str = "offset") -> Column:
    """True for a row whose ``partition`` and ``offset`` are in a row of `finished_ranges`."""
    place = F.col(offset)
    return (F.col("partition") == F.col("of")) & (place >= F.col("first")) & (place < F.col("end"))
