"""The lake as its readers see it: every table at the version of one finished run."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from kip848_spark.errors import LakeError
from kip848_spark.spark.collecting import collected
from kip848_spark.spark.lake import Lake
from kip848_spark.spark.ledger import DONE, Ledger, Run
from kip848_spark.spark.session_settings import prepared
from kip848_spark.spark.tables import TABLES


class Views:
    """Tables of ``lake`` as of the last finished run, or the last one done by ``as_of`` (UTC)."""

    def __init__(self, lake: Lake, as_of: datetime | None = None) -> None:
        lake.must_exist()
        self.lake = lake
        with prepared(lake.spark):
            self.run = _run(lake, as_of)

    def table(self, name: str) -> DataFrame:
        """The table ``name``. `runs` itself is read whole, without unfinished ones."""
        if name == "runs":
            return self.lake.read("runs").where(
                (F.col("outcome") == DONE) & (F.col("run_id") <= self.run.run_id)
            )
        versions: Mapping[str, int] = self.run.table_versions
        return self.lake.read(name, versions[name])

    def register(self) -> None:
        """Makes every table a temporary view under its name, for SQL."""
        for name in TABLES:
            self.table(name).createOrReplaceTempView(name)


def _run(lake: Lake, as_of: datetime | None) -> Run:
    if as_of is None:
        last = Ledger(lake).last()
        if last is None:
            raise LakeError(f"No run of the lake {lake.path} has finished yet.", "`kip848 run`.")
        return last
    done = lake.read("runs").where((F.col("outcome") == DONE) & (F.col("finished_at") <= as_of))
    found = collected(done.orderBy(F.desc("run_id")).limit(1))
    if not found:
        raise LakeError(f"No run of the lake {lake.path} had finished by {as_of:%Y-%m-%d %H:%M}.")
    return Run.of(found[0])
