"""Reads and writes the origin file of a capture, on any file system that Spark can reach."""

from __future__ import annotations

from pydantic import ValidationError
from pyspark.sql import SparkSession

from kip848_spark.errors import CaptureError
from kip848_spark.kafka.capture_origin import ORIGIN, Origin
from kip848_spark.spark.hadoop import folder_of, location_of


def read_origin(spark: SparkSession, capture: str) -> Origin | None:
    """The origin of the capture at ``capture`` (a path or a URI); None if it has none, or is a
    single file. Raises CaptureError if the origin can't be read."""
    try:
        content = folder_of(spark, location_of(spark, capture)).read(ORIGIN)
        return None if content is None else Origin.model_validate_json(content)
    except NotADirectoryError:
        return None
    except ConnectionError:  # Spark's JVM has ended
        raise
    except (OSError, ValidationError) as cause:
        raise CaptureError(
            f"The file {ORIGIN} of the capture {capture} can't be read: {_first_line(cause)}.",
            "Write the capture again, or delete that file. Without it, the records are compared.",
        ) from None


def write_origin(spark: SparkSession, capture: str, origin: Origin) -> None:
    """Writes ``origin`` into the folder of a capture. Raises OSError."""
    folder_of(spark, location_of(spark, capture)).replace(ORIGIN, origin.to_json())


def _first_line(cause: OSError | ValidationError) -> str:
    if isinstance(cause, ValidationError):
        first = cause.errors()[0]
        where = ".".join(map(str, first["loc"]))
        return f"{where}: {first['msg']}" if where else first["msg"]
    return (cause.strerror or str(cause)).splitlines()[0]
