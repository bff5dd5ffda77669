"""Turns the exceptions of a job that reads a capture into errors of one sentence."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from urllib.parse import unquote

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException

from kip848_spark.errors import CaptureError, SourceError


@contextmanager
def translate_capture_errors(path: str) -> Iterator[None]:
    """Turns Spark's exceptions about a capture into a CaptureError, or a SourceError if it does not
    exist."""
    try:
        yield
    except (PySparkException, Py4JJavaError) as cause:
        text = str(cause)
        if found := _DIFFERENT_RECORDS.search(text):
            raise CaptureError(f"The capture {path} {found[1]}", _MIXED) from None
        if "PATH_NOT_FOUND" in text:
            raise SourceError(f"The capture {path} does not exist.", "Check the path.") from None
        for sign, meaning in _CAPTURE_ERRORS.items():
            if sign in text:
                file = _FILE.search(text)
                raise CaptureError(
                    f"The capture {path} {meaning}{f' ({unquote(file[1])})' if file else ''}.",
                    "Write the capture again.",
                ) from None
        raise


_FILE = re.compile(r"reading file \S*?([^\s/]+)\.\s")
"""The name of a file in Spark's words about it, percent-encoded."""
_DIFFERENT_RECORDS = re.compile(r"kip848_spark\.errors\.CaptureError: The capture ([^\n]+)")
"""The last line of a Python worker's traceback, with the error of `without_repeats`."""
_MIXED = (
    "A capture holds the records of one topic. It can't mix those of several clusters, or those of "
    "a topic before and after it was deleted and created again."
)

_CAPTURE_ERRORS: Mapping[str, str] = {
    "is not a Parquet file": "is not a Parquet file, or is cut short",
    "Could not read footer": "is damaged: a file's footer can't be read",
    "PARQUET_COLUMN_DATA_TYPE_MISMATCH": "has a column of different types in its files",
    "CANNOT_READ_FILE": "is damaged: a file can't be read",
    "FAILED_READ_FILE": "is damaged: a file can't be read",
    "Illegal Parquet type": "has a column of a type that Spark can't read (times in nanoseconds?)",
    "PARQUET_TYPE_ILLEGAL": "has a column of a type that Spark can't read (times in nanoseconds?)",
    "COLUMN_ALREADY_EXISTS": "has two columns of one name (Spark ignores case)",
    "UNABLE_TO_INFER_SCHEMA": "holds no Parquet file",
    "DELTA_TABLE_NOT_FOUND": "is not a Delta table",
    "DELTA_MISSING_DELTA_TABLE": "is not a Delta table",
}
