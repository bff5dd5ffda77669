"""Reads and writes the origin of a capture wherever Spark can reach the capture."""

from __future__ import annotations

from typing import Any

from py4j.protocol import Py4JJavaError
from pydantic import ValidationError
from pyspark.sql import SparkSession

from kip848_spark.errors import CaptureError
from kip848_spark.origin import ORIGIN, Origin


def read_origin(spark: SparkSession, capture: str) -> Origin | None:
    """The origin of the capture at ``capture`` (a path or a URI); None if it has none, or is a
    single file. Raises CaptureError if the origin can't be read."""
    system, folder, path = _place(spark, capture)
    if not system.isDirectory(folder) or not system.exists(path):
        return None
    try:
        stream = system.open(path)
        try:
            return Origin.model_validate_json(bytes(stream.readAllBytes()))
        finally:
            stream.close()
    except (Py4JJavaError, ValidationError) as cause:
        what = _first_line(cause)
        raise CaptureError(
            f"The file {ORIGIN} of the capture {capture} can't be read: {what}.",
            "Write the capture again, or delete that file: the records are compared then.",
        ) from None


def write_origin(spark: SparkSession, capture: str, origin: Origin) -> None:
    """Writes ``origin`` into the folder of a capture."""
    system, _, path = _place(spark, capture)
    stream = system.create(path, True)
    try:
        stream.write(bytearray(origin.to_json()))
    finally:
        stream.close()


def _place(spark: SparkSession, capture: str) -> tuple[Any, Any, Any]:
    """Hadoop's file system of a capture, its folder, and the path of its origin."""
    jvm, context = spark._jvm, spark.sparkContext
    assert jvm is not None
    folder = jvm.org.apache.hadoop.fs.Path(capture)
    system = folder.getFileSystem(context._jsc.hadoopConfiguration())
    return system, folder, jvm.org.apache.hadoop.fs.Path(folder, ORIGIN)


def _first_line(cause: Py4JJavaError | ValidationError) -> str:
    if isinstance(cause, ValidationError):
        first = cause.errors()[0]
        where = ".".join(map(str, first["loc"]))
        return f"{where}: {first['msg']}" if where else first["msg"]
    return str(cause.java_exception.getMessage()).splitlines()[0]
