"""Opens a lake, and chooses the implementation that reads and writes it. No other code does."""

from __future__ import annotations

from pathlib import Path

from deltalake.exceptions import DeltaError
from pyspark.sql import SparkSession

from kip848_spark.lake import delta_rs
from kip848_spark.lake.location import Location
from kip848_spark.lake.tables import TABLES
from kip848_spark.spark.hadoop import location_of
from kip848_spark.spark.storage.spark_written import SparkWrittenTables
from kip848_spark.spark.storage.tables import LakeTables
from kip848_spark.spark.storage.worker_written import WorkerWrittenTables


def open_lake(spark: SparkSession, path: str, *, by_spark: bool = False) -> LakeTables:
    """The tables of the lake at ``path`` (a folder or a URI), which need not exist yet.

    The Python workers write the tables if they run on this machine, the lake is a local folder, and
    the tables are as this program creates them. Otherwise, or with ``by_spark``, Spark writes them.
    Raises UsageError if ``path`` names no location, and LakeError if Spark has no file system for
    it.
    """
    place = location_of(spark, path)
    local = (spark.sparkContext.master or "").startswith("local")
    if local and not by_spark and _suits_delta_rs(place):
        return WorkerWrittenTables(spark, place)
    return SparkWrittenTables(spark, place)


def _suits_delta_rs(place: Location) -> bool:
    if place.folder is None or not place.suits_delta_rs:
        return False
    return all(_is_plain(place.folder / name, name) for name in TABLES)


def _is_plain(folder: Path, name: str) -> bool:
    """False if the table exists and has been altered. A table that can't be read counts as plain:
    the error is raised where it is read."""
    try:
        if not (folder / "_delta_log").is_dir():
            return True
        return delta_rs.is_plain(str(folder), TABLES[name])
    except (DeltaError, OSError):
        return True
