"""A run in a session of others that is not fit for it; a process prints what is raised, as JSON."""

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


def main(lake: str, settings: dict[str, str], capture: str) -> None:
    builder = SparkSession.builder.master(settings.pop("spark.master", "local[1]"))
    for name, value in (LOOPBACK | settings).items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    told: dict[str, str | None]
    try:
        run_ingest(CaptureSource(capture, "parquet", OFFSETS_TOPIC), open_lake(spark, lake))
        told = {"kind": "none"}
    except Kip848Error as error:
        told = {"kind": type(error).__name__, "message": error.message, "hint": error.hint}
    print(json.dumps(told))
    spark.stop()


if __name__ == "__main__":
    main(sys.argv[1], json.loads(sys.argv[2]), sys.argv[3])
