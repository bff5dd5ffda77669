"""The nightly job in somebody else's session: default settings, another time zone. A process.

Prints one JSON object: the settings before and after, the tasks of each lake's run, what the audit
and the readers say of it.
"""

from __future__ import annotations

import json
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
from pyspark.sql import SparkSession

from kip848_spark.runtime import jars
from kip848_spark.spark.jobs.audit import AuditRequest, agreement_rows
from kip848_spark.spark.jobs.capture import write_capture
from kip848_spark.spark.pipeline import run_audit, run_ingest
from kip848_spark.spark.query import query_table
from kip848_spark.spark.storage.opening import open_lake
from kip848_spark.spark.storage.tables import LakeTables
from kip848_spark.spark.views import LakeViews
from tests.captures import COMMITTED
from tests.conftest import DATA
from tests.spark.lakes import source

ZONE = "America/New_York"
DELTA = {
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
}
CAPTURE = DATA / "kafka-4.3.1" / COMMITTED
TIMES = sorted(pq.read_table(CAPTURE, columns=["timestamp"])["timestamp"].to_pylist())
SINCE = TIMES[len(TIMES) // 2]
"""A time in the middle of the capture."""


def plain(settings: dict[str, str]) -> SparkSession:
    """A session as a notebook makes it: Delta, a time zone, and Spark's defaults."""
    builder = SparkSession.builder.master("local[2]")
    options = {
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.jars": ",".join(map(str, jars.spark_jars())),
        "spark.sql.session.timeZone": ZONE,
        "spark.ui.showConsoleProgress": "false",
        **settings,
    }
    for name, value in options.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


def tasks(spark: SparkSession) -> int:
    """How many tasks have been done."""
    store = spark.sparkContext._jsc.sc().statusStore()
    executors = store.executorList(False)
    return sum(executors.apply(n).totalTasks() for n in range(executors.size()))


def main(folder: Path, capture: Path, settings: dict[str, str]) -> None:
    spark = plain({**DELTA, **settings})
    before = dict(spark.conf.getAll)
    tasks_of: dict[str, int] = {}
    agreement: dict[str, list[dict[str, Any]]] = {}
    for name in ("local", "uri"):
        path = folder / name
        lake = open_lake(spark, str(path) if name == "local" else path.as_uri())
        done = tasks(spark)
        outcome = run_ingest(source(capture), lake, then_replay=True, then_audit=True)
        assert outcome.run is not None
        tasks_of[name] = tasks(spark) - done
        agreement[name] = agreement_rows(lake, outcome.run.run_id)
    now = datetime.now(UTC)
    as_of = [_as_of(lake, now + difference) for difference in (timedelta(0), -timedelta(hours=1))]
    since = run_audit(lake, AuditRequest(since=SINCE)).run
    assert since is not None
    agreement["since"] = agreement_rows(lake, since.run_id)
    write_capture(source(capture), spark, str(folder / "copy"))
    LakeViews(lake).register()
    zone = query_table(spark, "SELECT current_timezone() AS zone")["zone"][0].as_py()
    reported = {
        "before": before,
        "after": dict(spark.conf.getAll),
        "tasks": tasks_of,
        "agreement": agreement,
        "as of": as_of,
        "zone": zone,
    }
    print(json.dumps(reported, default=str))
    spark.stop()


def _as_of(lake: LakeTables, time: datetime) -> str:
    try:
        return LakeViews(lake, time).run.finished_at.astimezone(UTC).isoformat()  # type: ignore[union-attr]
    except Exception as error:
        return str(error)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), json.loads(sys.argv[3]))
