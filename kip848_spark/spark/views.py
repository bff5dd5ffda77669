"""Reads a lake through Spark: every table at the version that one finished run left."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from kip848_spark.errors import LakeError
from kip848_spark.lake.ledger import DONE, Run
from kip848_spark.lake.snapshot import finished_run
from kip848_spark.lake.tables import TABLES
from kip848_spark.spark.session_settings import prepared_session
from kip848_spark.spark.storage.tables import LakeTables


class LakeViews:
    """The tables of ``lake`` as the last finished run left them, or the last run that had finished
    by ``as_of`` (UTC). Raises LakeError if there is no lake or no such run."""

    def __init__(self, lake: LakeTables, as_of: datetime | None = None) -> None:
        lake.require()
        self.lake = lake
        with prepared_session(lake.spark):
            self.run = Run.from_row(finished_run(lake.path, lake.rows("runs"), as_of))

    def table(self, name: str) -> DataFrame:
        """The table ``name`` as a DataFrame; for `runs`, the runs that had finished by then."""
        if name == "runs":
            return self.lake.read("runs").where(
                (F.col("outcome") == DONE) & (F.col("run_id") <= self.run.run_id)
            )
        versions: Mapping[str, int] = self.run.table_versions
        if name not in versions:
            raise LakeError(
                f"The lake {self.lake.path} had no table {name} at run {self.run.run_id}.",
                "An earlier version of this program wrote it; a new run adds the table.",
            )
        with prepared_session(self.lake.spark):  # the version is resolved here
            return self.lake.read(name, versions[name])

    def group_ids(self, name: str) -> set[str]:
        """The ids of all groups in the table ``name``."""
        rows = self.table(name).select("group_id").where("group_id IS NOT NULL").distinct()
        return {row.group_id for row in rows.collect()}

    def register(self) -> None:
        """Registers every table that the lake has as a temporary view under its name, for SQL."""
        for name in TABLES:
            if name != "runs" and name not in self.run.table_versions:
                continue  # an earlier version of this program wrote the lake
            self.table(name).createOrReplaceTempView(name)
