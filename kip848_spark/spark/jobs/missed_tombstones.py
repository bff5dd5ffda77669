"""Whether tombstones may have gone before a run could read them.

The log cleaner keeps a tombstone for ``delete.retention.ms`` after it has processed it. If runs
were missed for longer, the lake never reads that a group, a member or an offset was deleted.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from kip848_spark.lake.conditions import Condition
from kip848_spark.lake.ledger import Ledger, Run
from kip848_spark.spark.storage.tables import LakeTables
from kip848_spark.wire.offset_gaps import COMPACTION

RETENTION = timedelta(hours=24)
"""Kafka's default of ``delete.retention.ms``."""
LATE = timedelta(hours=6)
"""A nightly job may start this much later than the night before: no night was missed."""


def tombstones_missed_since(lake: LakeTables, ledger: Ledger, run: Run) -> datetime | None:
    """The start of the last run before ``run`` that read records, if tombstones that were written
    after it may be gone; else None. They may be gone if that run is longer ago than Kafka keeps
    tombstones, and the log cleaner has removed records that ``run`` would have read.

    Raises LakeError."""
    started = [
        earlier.started_at
        for earlier in ledger.finished()
        if earlier.run_id != run.run_id
        and earlier.counts is not None
        and earlier.counts.records_read
    ]
    if not started or run.started_at - max(started) <= RETENTION + LATE:
        return None
    cleaned = [Condition("run_id", "equals", run.run_id), Condition("cause", "equals", COMPACTION)]
    return max(started) if lake.distinct("gaps", ["partition"], cleaned) else None
