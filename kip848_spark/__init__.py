"""Batch analytics over Kafka's ``__consumer_offsets``. docs/api.md describes the names below.

A name is imported when it is first used: reading a lake or decoding does not import pyspark.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from kip848_spark.version import __version__

__all__ = [
    "CaptureSource",
    "KafkaSource",
    "Lake",
    "RunResult",
    "__version__",
    "audit",
    "decode",
    "decode_records",
    "ingest",
    "replay",
    "run",
    "write_report",
]

if TYPE_CHECKING:
    from kip848_spark.api import (
        RunResult,
        audit,
        decode_records,
        ingest,
        replay,
        run,
        write_report,
    )
    from kip848_spark.lake.lake import Lake
    from kip848_spark.spark.sources import CaptureSource, KafkaSource
    from kip848_spark.wire.decode_table import decode

_MODULES = {
    "CaptureSource": "kip848_spark.spark.sources",
    "KafkaSource": "kip848_spark.spark.sources",
    "Lake": "kip848_spark.lake.lake",
    "decode": "kip848_spark.wire.decode_table",
}


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = getattr(import_module(_MODULES.get(name, "kip848_spark.api")), name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
