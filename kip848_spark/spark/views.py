"""The lake as its readers see it: every table at the version of one finished run."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from kip848_spark.lake.ledger import DONE, Run
from kip848_spark.lake.snapshot import finished_run
from kip848_spark.lake.tables import TABLES
from kip848_spark.spark.session_settings import prepared_session
from kip848_spark.spark.storage.tables import LakeTables


class LakeViews:
    """Tables of ``lake`` as of the last finished run, or the last one done by ``as_of`` (UTC)."""

    def __init__(self, lake: LakeTables, as_of: datetime | None = None) -> None:
        lake.require()
        self.lake = lake
        with prepared_session(lake.spark):
            self.run = Run.from_row(finished_run(lake.path, lake.rows("runs"), as_of))

    def table(self, name: str) -> DataFrame:
        """The table ``name``. `runs` itself is read whole, without unfinished ones."""
        if name == "runs":
            return self.lake.read("runs").where(
                (F.col("outcome") == DONE) & (F.col("run_id") <= self.run.run_id)
            )
        versions: Mapping[str, int] = self.run.table_versions
        return self.lake.read(name, versions[name])

    def group_ids(self, name: str) -> set[str]:
        """The groups that the table ``name`` names."""
        rows = self.table(name).select("group_id").where("group_id IS NOT NULL").distinct()
        return {row.group_id for row in rows.collect()}

    def register(self) -> None:
        """Makes every table a temporary view under its name, for SQL."""
        for name in TABLES:
            self.table(name).createOrReplaceTempView(name)
