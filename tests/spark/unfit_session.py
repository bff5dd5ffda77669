"""Runs in sessions of others that are not fit for them, one after another in one process.

Prints what each of them raises, as a JSON list.
"""

from __future__ import annotations

import json
import sys

from pyspark.sql import SparkSession

from kip848_spark.errors import Kip848Error
from kip848_spark.kafka.admin import OFFSETS_TOPIC
from kip848_spark.spark.pipeline import run_ingest
from kip848_spark.spark.sources import CaptureSource
from kip848_spark.spark.storage.opening import open_lake

LOOPBACK = {"spark.driver.bindAddress": "127.0.0.1", "spark.driver.host": "127.0.0.1"}


def raised(lake: str, settings: dict[str, str], capture: str) -> dict[str, str | None]:
    """What a run in a session with these settings raises. The JVM keeps the class path of the
    first session."""
    builder = SparkSession.builder.master(settings.pop("spark.master", "local[1]"))
    for name, value in (LOOPBACK | settings).items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    try:
        run_ingest(CaptureSource(capture, "parquet", OFFSETS_TOPIC), open_lake(spark, lake))
    except Kip848Error as error:
        return {"kind": type(error).__name__, "message": error.message, "hint": error.hint}
    finally:
        spark.stop()
    return {"kind": "none"}


def main(lake: str, cases: list[tuple[dict[str, str], str]]) -> None:
    """Each case is the settings of a session and the capture that is read in it."""
    print(json.dumps([raised(lake, settings, capture) for settings, capture in cases]))


if __name__ == "__main__":
    main(sys.argv[1], json.loads(sys.argv[2]))
