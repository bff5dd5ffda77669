"""A lake: a folder of Delta tables, made, written, restored and read at one point in time."""

from __future__ import annotations

import fcntl
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from kip848_spark.errors import LakeError
from kip848_spark.spark.tables import TABLES, Table
from kip848_spark.state import LOCK, is_lake


class Lake:
    """The tables below ``path`` (a folder or a URI). Nothing is touched before it is asked for."""

    def __init__(self, spark: SparkSession, path: str) -> None:
        self.spark = spark
        self.path = path.rstrip("/") or "/"

    @property
    def is_local(self) -> bool:
        return "://" not in self.path

    def location(self, table: str) -> str:
        """Where the Delta folder of ``table`` is."""
        return f"{self.path}/{table}"

    # -- making ------------------------------------------------------------------------------

    def exists(self) -> bool:
        """True if there is a lake here. Raises LakeError if there is something else."""
        if not self.is_local:
            return self._is_table("runs")
        return is_lake(self.path, TABLES)

    def must_exist(self) -> None:
        """Raises LakeError unless there is a lake here."""
        if not self.exists():
            raise LakeError(
                f"There is no lake at {self.path}.", "`kip848 run` makes it, or name another."
            )

    def make(self) -> None:
        """Makes the tables that are not there yet, empty; `runs` last, so that it vouches for
        the others."""
        for table in sorted(TABLES.values(), key=lambda t: t.name == "runs"):
            if not self._is_table(table.name):
                with self._faults("made"):
                    self._create(table)

    def _create(self, table: Table) -> None:
        columns = ", ".join(
            f"`{f.name}` {f.dataType.simpleString()} COMMENT '{_sql(f.metadata['comment'])}'"
            for f in table.schema.fields
        )
        properties = ""
        if table.stats:
            names = ",".join(table.stats)
            properties = f" TBLPROPERTIES ('delta.dataSkippingStatsColumns' = '{names}')"
        place = f"delta.`{self.location(table.name)}`"
        self.spark.sql(f"CREATE TABLE {place} ({columns}) USING delta{properties}")

    def _is_table(self, name: str) -> bool:
        if self.is_local:
            return (Path(self.location(name)) / "_delta_log").is_dir()
        jvm = self.spark._jvm
        assert jvm is not None
        delta = jvm.io.delta.tables.DeltaTable
        return bool(delta.isDeltaTable(self.spark._jsparkSession, self.location(name)))

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Keeps other writers of this machine out; the lock goes with the process that holds it.

        For a lake behind a URI the scheduler has to see to that (one run at a time). Raises
        LakeError if it is held, or if the path is no place for a lake.
        """
        self.exists()  # never put a lock into a folder that is something else
        if not self.is_local:
            yield
            return
        folder = Path(self.path)
        try:
            folder.mkdir(parents=True, exist_ok=True)
            handle = (folder / LOCK).open("w")
        except OSError as cause:
            raise LakeError(
                f"The lake {self.path} can't be written: {cause.strerror}.",
                "Check the path and its permissions.",
            ) from None
        with handle:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise LakeError(
                    f"Another run is writing to the lake {self.path}.", "Wait until it is done."
                ) from None
            yield

    # -- writing -----------------------------------------------------------------------------

    def append(self, table: str, rows: DataFrame) -> None:
        """Adds ``rows`` (the columns of the table, in its order)."""
        self._write(table, rows, "append", {})

    def overwrite(self, table: str, rows: DataFrame, where: str | None = None) -> None:
        """Puts ``rows`` in the place of all there are, or of those for which ``where`` holds."""
        self._write(table, rows, "overwrite", {"replaceWhere": where} if where else {})

    def _write(self, table: str, rows: DataFrame, mode: str, options: Mapping[str, str]) -> None:
        columns = [field.name for field in TABLES[table].schema.fields]
        with self._faults("written"):
            rows.select(columns).write.format("delta").mode(mode).options(**options).save(
                self.location(table)
            )

    def versions(self) -> dict[str, int]:
        """The newest Delta version of each table: its last commit file's number.

        `DESCRIBE HISTORY` says the same, a second a table.
        """
        return {name: self._version(name) for name in TABLES}

    def _version(self, table: str) -> int:
        spark = self.spark
        jvm, context = spark._jvm, spark.sparkContext
        assert jvm is not None
        log = jvm.org.apache.hadoop.fs.Path(f"{self.location(table)}/_delta_log")
        system = log.getFileSystem(context._jsc.hadoopConfiguration())
        names = (status.getPath().getName() for status in system.listStatus(log))
        return max(int(name[:20]) for name in names if _COMMIT_FILE.fullmatch(name))

    def restore(self, versions: Mapping[str, int]) -> None:
        """Brings each table back to what it was at its version."""
        now = self.versions()
        for name, version in versions.items():
            if now[name] != version:
                with self._faults("restored"):
                    self.spark.sql(
                        f"RESTORE TABLE delta.`{self.location(name)}` TO VERSION AS OF {version}"
                    ).count()

    # -- reading -----------------------------------------------------------------------------

    def read(self, table: str, version: int | None = None) -> DataFrame:
        """A table, as it is now or as it was at ``version``."""
        reader = self.spark.read.format("delta")
        if version is not None:
            reader = reader.option("versionAsOf", version)
        with self._faults("read"):
            return reader.load(self.location(table))

    @contextmanager
    def _faults(self, verb: str) -> Iterator[None]:
        """Turns what Spark says of an unreachable or foreign folder into one sentence."""
        try:
            yield
        except (PySparkException, Py4JJavaError) as cause:
            text = str(cause)
            for sign in ("Permission denied", "Read-only file system", "No space left", "Mkdirs"):
                if sign in text:
                    raise LakeError(
                        f"The lake {self.path} can't be {verb}: {sign.lower()}.",
                        "Check the path and its permissions.",
                    ) from None
            raise


_COMMIT_FILE = re.compile(r"\d{20}\.json")


def _sql(text: str) -> str:
    return text.replace("\\", "\\\\").replace("'", "\\'")


def with_run(rows: DataFrame, run_id: str, cluster_id: str | None) -> DataFrame:
    """``rows`` with the columns ``run_id`` and ``cluster_id``."""
    return rows.withColumns(
        {"run_id": F.lit(run_id), "cluster_id": F.lit(cluster_id).cast("string")}
    )
