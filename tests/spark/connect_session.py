"""Calls the API in a Spark Connect session, and prints what each call says, as a JSON list."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from typing import Any

from pyspark.sql import SparkSession

import kip848_spark
from kip848_spark.errors import Kip848Error


def said(call: Callable[[], Any]) -> str:
    try:
        call()
    except Kip848Error as error:
        return f"{type(error).__name__}: {error.message}"
    return "no error"


def main(source: str, folder: str) -> None:
    spark = SparkSession.builder.remote("local[1]").getOrCreate()
    lake = kip848_spark.Lake(folder)
    calls: list[Callable[[], Any]] = [
        lambda: kip848_spark.run(source, lake, spark=spark),  # type: ignore[arg-type]
        lambda: kip848_spark.run(source, lake),
    ]
    print(json.dumps([said(call) for call in calls]))
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
