"""The part of a lake's storage that keeps it small: fewer files, and none that nobody needs."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from kip848_spark.lake.tables import TABLES

RowFunction = Callable[[DataFrame], DataFrame]
"""A function from rows of a table to rows."""
AFFECTED = "_affected"
"""A column that is true in rows that a `Rewrite` removes or changes."""
FILE = "_file"
"""A column with the URI of the file that has the row."""


@dataclass(frozen=True)
class Rewrite:
    """Which rows of a table to remove or change.

    ``mark`` adds the column `AFFECTED` to rows, and no row. ``change`` takes and returns rows with
    all columns of the table; it must not change rows that are not affected. Without it, the
    affected rows are removed. With it, the result of ``mark`` is only counted and needs no other
    columns than ``run_id`` and `FILE`, if the rows have them. New files are sorted by the columns
    ``sort``; with ``split_by``, each has one value in that column.
    """

    mark: RowFunction
    change: RowFunction | None = None
    sort: tuple[str, ...] = ()
    split_by: str | None = None

    def apply(self, table: str, rows: DataFrame) -> DataFrame:
        """``rows`` of ``table`` after the change, in the order of the new files."""
        changed = self.change(rows) if self.change else self.mark(rows).where(~F.col(AFFECTED))
        found = changed.select(*TABLES[table].fields)
        if self.split_by is not None:
            return found.repartition(self.split_by).sortWithinPartitions(self.split_by)
        if self.sort:
            return found.repartitionByRange(*self.sort).sortWithinPartitions(*self.sort)
        return found

    def count(self, table: str, rows: DataFrame, *by: str) -> list[tuple[str, ...]]:
        """The number of affected rows: (``by``…, run id, number). The run id is empty for a table
        without one."""
        run = F.coalesce("run_id", F.lit("")) if "run_id" in TABLES[table].fields else F.lit("")
        affected = self.mark(rows).where(F.col(AFFECTED)).withColumn("_run", run)
        return [tuple(row) for row in affected.groupBy(*by, "_run").count().collect()]


class Upkeep(ABC):
    """What maintenance asks of a lake's tables."""

    @abstractmethod
    def compact(self, table: str) -> int:
        """Merges small files of ``table`` into larger ones, in one commit; of a table with open
        rows, at most those files that have none. Returns the number of files that were replaced.
        Raises LakeError."""

    @abstractmethod
    def vacuum(self, table: str, hours: int, keep: Sequence[int]) -> int | None:
        """Deletes the files of ``table`` that no version needs which is younger than ``hours``, and
        none of the versions ``keep``; also files that no commit names. Returns their number, or
        None if it is not known. Raises LakeError."""

    @abstractmethod
    def rewrite(self, table: str, rewrite: Rewrite) -> dict[str, int]:
        """Removes or changes rows of ``table``, in one commit; none if no row is affected. Returns
        the number of affected rows by run id ('' for a table without one). Raises LakeError."""

    @abstractmethod
    def forget_versions(self, table: str) -> None:
        """Makes the newest version of ``table`` complete by itself: deletes all files that it does
        not need, and adds a checkpoint. Then older versions can be read no longer
        than their log entries exist. Raises LakeError."""
