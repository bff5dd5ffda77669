"""Opens a lake, and chooses the implementation that reads and writes it. No other code does."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

from deltalake.exceptions import DeltaError
from pyspark.sql import SparkSession

from kip848_spark.config.storage import StorageSettings
from kip848_spark.lake import delta_rs
from kip848_spark.lake.delta_folder import STORES, DeltaFolder
from kip848_spark.lake.folders import Folder, check_commits
from kip848_spark.lake.location import Location, scheme_of
from kip848_spark.lake.tables import TABLES
from kip848_spark.spark.catalog import find_schema
from kip848_spark.spark.hadoop import location_of, store_options
from kip848_spark.spark.storage.spark_written import SparkWrittenTables
from kip848_spark.spark.storage.tables import LakeTables
from kip848_spark.spark.storage.worker_written import WorkerWrittenTables

WRITER = "spark.kip848.writer"
"""A Spark setting: ``spark`` makes Spark write the tables of all lakes."""


def open_lake(
    spark: SparkSession,
    path: str,
    *,
    storage: StorageSettings | None = None,
    by_spark: bool = False,
) -> LakeTables:
    """The tables of the lake at ``path`` (a folder, a URI, or a schema of a catalog), which need
    not exist yet.

    The Python workers write the tables if the lake is in a folder or on an object store, and the
    tables are as this program creates them. Otherwise, with ``by_spark`` or with the setting
    `WRITER`, Spark writes them. ``storage`` has settings of the object store beside those of the
    session. Raises UsageError if ``path`` names no location, and LakeError if Spark has no file
    system for it, or if there is no such schema.
    """
    schema = find_schema(spark, path)
    if schema is None:
        return _open_place(spark, location_of(spark, path), storage, by_spark=by_spark)
    place = replace(location_of(spark, schema.folder(spark)), text=path)
    tables = _open_place(spark, place, storage, by_spark=by_spark)
    tables.schema = schema
    return tables


def _open_place(
    spark: SparkSession, place: Location, storage: StorageSettings | None, *, by_spark: bool
) -> LakeTables:
    if place.folder is not None:
        check_commits(place.folder, TABLES)
    by_spark = by_spark or spark.conf.get(WRITER, "") == "spark"
    if by_spark or not _suits_delta_rs(place):
        return SparkWrittenTables(spark, place)
    options = {} if place.folder else store_options(spark, place.uri)
    if storage is not None and place.folder is None:
        options |= storage.delta({})
    tables = WorkerWrittenTables(spark, place, options)
    with ThreadPoolExecutor(8) as pool:  # a store takes a while to answer
        plain = pool.map(lambda name: _is_plain(tables.files, place, name, options), TABLES)
        return tables if all(plain) else SparkWrittenTables(spark, place)


def _suits_delta_rs(place: Location) -> bool:
    on_store = scheme_of(place.uri) in STORES
    return place.suits_delta_rs and (place.folder is not None or on_store)


def _is_plain(files: Folder, place: Location, name: str, options: dict[str, str]) -> bool:
    """False if the table exists and has been altered. A table that can't be read counts as plain:
    the error is raised where it is read."""
    try:
        if not files.names(f"{name}/_delta_log"):
            return True
        return delta_rs.is_plain(DeltaFolder.of(place, name, options), TABLES[name])
    except (DeltaError, OSError):
        return True
