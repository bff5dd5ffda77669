"""Commits of files that are already in a table's folder, by Delta's own transactions in the JVM.

PySpark's API of Delta can only commit rows that Spark writes. These are classes of Delta's Scala
library, from Delta 4.0 on; the actions are given as JSON, as in Delta's log.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from urllib.parse import quote

import orjson
from pyspark.sql import SparkSession

from kip848_spark.lake.arrow_files import DataFile
from kip848_spark.lake.tables import TableDefinition

_PLAIN = (1, 2)
"""The protocol versions (reader, writer) of a table without special features."""


class DeltaTransactions:
    """The table at ``location``, a URI."""

    def __init__(self, spark: SparkSession, location: str) -> None:
        jvm = spark._jvm
        assert jvm is not None
        self._jvm: Any = jvm
        self._delta: Any = jvm.org.apache.spark.sql.delta
        path = jvm.org.apache.hadoop.fs.Path(location)
        self._log: Any = self._delta.DeltaLog.forTable(spark._jsparkSession, path)

    def is_plain(self, table: TableDefinition) -> bool:
        """True if the table's files are as this program writes them: it has no other columns, no
        partitions, and no feature that a writer would have to support."""
        snapshot = self._log.startTransaction().snapshot()
        protocol, metadata = snapshot.protocol(), snapshot.metadata()
        return (
            protocol.minReaderVersion() <= _PLAIN[0]
            and protocol.minWriterVersion() <= _PLAIN[1]
            and metadata.partitionColumns().isEmpty()
            and set(metadata.schema().fieldNames()) <= table.fields.keys()
        )

    def commit(self, files: Sequence[DataFile], *, overwrite: bool) -> None:
        """Adds ``files``, or replaces all files by them, in one commit. Commits nothing if nothing
        changes."""
        transaction = self._log.startTransaction()
        actions = self._jvm.java.util.ArrayList()
        if overwrite:
            present = self._jvm.scala.jdk.javaapi.CollectionConverters.asJava(
                transaction.filterFiles()
            )
            for file in present:
                actions.add(file.remove())
        for file in files:
            actions.add(self._delta.actions.Action.fromJson(_add_action(file)))
        if not actions.isEmpty():
            operation = getattr(self._delta, "DeltaOperations$ManualUpdate$")
            sequence = self._jvm.scala.jdk.javaapi.CollectionConverters.asScala(actions)
            transaction.commit(sequence.toList(), getattr(operation, "MODULE$"))


def _add_action(file: DataFile) -> str:
    action = {
        "path": quote(file.name),
        "partitionValues": {},
        "size": file.size,
        "modificationTime": file.modified_ms,
        "dataChange": True,
        "stats": file.stats,
    }
    return orjson.dumps({"add": action}).decode()
