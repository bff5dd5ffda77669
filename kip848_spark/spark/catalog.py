"""Lakes that are a schema of a Spark catalog (``--lake CATALOG.SCHEMA``), such as a Hive metastore.

The tables of such a lake are external Delta tables in the folder of the schema, so a job reads and
writes them as those of any other lake. In addition, they are registered in the catalog, where other
programs find them by name.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple
from urllib.parse import unquote

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from kip848_spark.errors import LakeError
from kip848_spark.lake.location import schema_names


class CatalogSchema(NamedTuple):
    """A schema of a catalog that the session knows."""

    catalog: str
    schema: str

    def __str__(self) -> str:
        return f"{self.catalog}.{self.schema}"

    @property
    def sql(self) -> str:
        """The name in SQL."""
        return f"`{self.catalog}`.`{self.schema}`"

    def folder(self, spark: SparkSession) -> str:
        """The URI of the schema's folder. Raises LakeError if there is no such schema, or if it has
        no folder."""
        try:
            rows = spark.sql(f"DESCRIBE SCHEMA {self.sql}").collect()
        except PySparkException as cause:
            if cause.getCondition() == "SCHEMA_NOT_FOUND":
                raise LakeError(
                    f"The catalog {self.catalog} has no schema {self.schema}.",
                    f"Create it: CREATE SCHEMA {self} LOCATION 'URI'.",
                ) from None
            raise LakeError(
                f"The catalog {self.catalog} does not answer: {_first_line(cause)}"
            ) from None
        found = {row[0]: row[1] for row in rows}
        if not found.get("Location"):
            raise LakeError(
                f"The schema {self} has no folder.",
                f"Create one that has: CREATE SCHEMA {self.catalog}.NAME LOCATION 'URI'.",
            )
        return unquote(str(found["Location"]))  # Spark escapes it as a URI

    def register(
        self, spark: SparkSession, tables: Iterable[str], location: Callable[[str], str]
    ) -> None:
        """Adds those of ``tables`` that the schema does not have. ``location`` gives the URI of a
        table's Delta folder. Raises LakeError."""
        try:
            rows = spark.sql(f"SHOW TABLES IN {self.sql}").collect()
            known = {row["tableName"] for row in rows}
            for name in tables:
                if name not in known:
                    path = location(name).replace("\\", "\\\\").replace("'", "\\'")
                    spark.sql(f"CREATE TABLE {self.sql}.`{name}` USING delta LOCATION '{path}'")
        except PySparkException as cause:
            raise LakeError(
                f"The tables can't be added to the schema {self}: {_first_line(cause)}",
                "The user of the session needs the right to create tables in it.",
            ) from None


def find_schema(spark: SparkSession, text: str) -> CatalogSchema | None:
    """The schema that ``text`` (``CATALOG.SCHEMA``) names; None if the session has no such catalog,
    so that ``text`` is a path."""
    names = schema_names(text, lambda name: spark.conf.get(name, None) is not None)
    return None if names is None else CatalogSchema(*names)


def _first_line(cause: PySparkException) -> str:
    return str(cause).splitlines()[0]
