"""The ledger: the table `runs`, the commit point of everything a run writes.

A run's plan (its offsets, and the Delta version each table had) is stored before anything else is
written. A run that was killed therefore leaves a plan behind; the next one restores the tables to
those versions and repeats it. Readers see the tables as the last finished run left them.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Protocol

from kip848_spark.errors import LakeError
from kip848_spark.kafka.topic import OffsetRange, PartitionExtent, TopicIdentity
from kip848_spark.lake.tables import TABLES

PLANNED = "planned"
DONE = "done"
AUDIT = "audit"
"""The step of an audit that left nothing out."""


@dataclass(frozen=True)
class RecordCounts:
    """What became of the records of a run. ``missing`` offsets were not there to be read."""

    records_read: int = 0
    decoded: int = 0
    tombstones: int = 0
    unknown: int = 0
    quarantined: int = 0
    missing: int = 0
    errors: Mapping[str, int] = field(default_factory=dict)
    unknown_tags: Mapping[str, int] = field(default_factory=dict)

    @property
    def adds_up(self) -> bool:
        """True if every record read is accounted for."""
        kinds = self.decoded + self.tombstones + self.unknown + self.quarantined
        return self.records_read == kinds


@dataclass(frozen=True)
class Run:
    """One row of `runs`. Times are UTC, durations in ms."""

    run_id: str
    source: str
    identity: TopicIdentity
    dialect: str
    ranges: tuple[OffsetRange, ...]
    table_versions: Mapping[str, int]
    started_at: datetime
    outcome: str = PLANNED
    replayed_through: str | None = None
    counts: RecordCounts | None = None
    finished_at: datetime | None = None
    durations_ms: Mapping[str, int] = field(default_factory=dict)

    @property
    def is_empty(self) -> bool:
        """True if there is nothing new to read."""
        return all(r.start == r.end for r in self.ranges)

    @property
    def audited(self) -> bool:
        """True if all that was in the lake at its end has been audited, then or before."""
        return AUDIT in self.durations_ms

    def row(self) -> dict[str, Any]:
        """The columns of `runs`."""
        counts = self.counts
        return {
            "run_id": self.run_id,
            "outcome": self.outcome,
            "source": self.source,
            "cluster_id": self.identity.cluster_id,
            "topic": self.identity.topic,
            "topic_id": self.identity.topic_id,
            "dialect": self.dialect,
            "from_offsets": {r.partition: r.start for r in self.ranges},
            "to_offsets": {r.partition: r.end for r in self.ranges},
            "replayed_through": self.replayed_through,
            "records_read": counts and counts.records_read,
            "decoded": counts and counts.decoded,
            "tombstones": counts and counts.tombstones,
            "unknown": counts and counts.unknown,
            "quarantined": counts and counts.quarantined,
            "missing": counts and counts.missing,
            "errors": dict(counts.errors) if counts else None,
            "unknown_tags": dict(counts.unknown_tags) if counts else None,
            "table_versions": dict(self.table_versions),
            "started_at": self.started_at,
            "finished_at": self.finished_at,
            "durations_ms": dict(self.durations_ms),
        }

    @classmethod
    def from_row(cls, row: Mapping[str, Any]) -> Run:
        """The run that a row of `runs` describes."""
        counts = None
        if row["records_read"] is not None:
            counts = RecordCounts(
                *(row[n] for n in ("records_read", "decoded", "tombstones", "unknown")),
                *(row[n] for n in ("quarantined", "missing", "errors", "unknown_tags")),
            )
        ends = row["to_offsets"]
        return cls(
            run_id=row["run_id"],
            source=row["source"],
            identity=TopicIdentity(row["topic"], row["cluster_id"], row["topic_id"]),
            dialect=row["dialect"],
            ranges=tuple(
                OffsetRange(partition, start, ends[partition])
                for partition, start in sorted(row["from_offsets"].items())
            ),
            table_versions=row["table_versions"],
            started_at=row["started_at"],
            outcome=row["outcome"],
            replayed_through=row["replayed_through"],
            counts=counts,
            finished_at=row["finished_at"],
            durations_ms=row["durations_ms"],
        )


class LedgerTables(Protocol):
    """What the ledger needs of a lake."""

    def rows(self, table: str) -> list[dict[str, Any]]:
        """All rows of ``table``."""

    def replace_rows(
        self, table: str, rows: Sequence[Mapping[str, Any]], column: str, value: str
    ) -> None:
        """Replaces the rows that have ``value`` in ``column`` by ``rows``."""

    def versions(self) -> dict[str, int]:
        """The newest Delta version of each table."""

    def restore(self, versions: Mapping[str, int]) -> None:
        """Restores tables to Delta versions."""


class Ledger:
    """The runs of a lake."""

    def __init__(self, lake: LedgerTables) -> None:
        self.lake = lake

    def last(self) -> Run | None:
        """The last finished run."""
        return self._newest(DONE)

    def last_audited(self) -> tuple[str | None, dict[int, int]]:
        """The last run whose end was audited (None if there is none), and the first offset of each
        partition that was read after it."""
        done = sorted(
            (Run.from_row(row) for row in self.lake.rows("runs") if row["outcome"] == DONE),
            key=lambda run: run.run_id,
        )
        after = max((run.run_id for run in done if run.audited), default=None)
        ends = {r.partition: r.end for run in done if run.run_id == after for r in run.ranges}
        return after, ends

    def unfinished(self) -> Run | None:
        """The run that was begun and not finished, if there is one."""
        return self._newest(PLANNED)

    def _newest(self, outcome: str) -> Run | None:
        runs = [row for row in self.lake.rows("runs") if row["outcome"] == outcome]
        return Run.from_row(max(runs, key=lambda row: str(row["run_id"]))) if runs else None

    def write(self, run: Run) -> None:
        """Stores ``run``, in the place of what was stored of it before."""
        self.lake.replace_rows("runs", [run.row()], "run_id", run.run_id)

    def restore(self, run: Run) -> None:
        """Brings the tables back to what they were when ``run`` was planned."""
        versions = {n: v for n, v in run.table_versions.items() if n in TABLES and n != "runs"}
        self.lake.restore(versions)

    def delete(self, run: Run) -> None:
        """Takes the row of an unfinished run out again."""
        self.lake.replace_rows("runs", [], "run_id", run.run_id)


def new_run_id(now: datetime) -> str:
    """A name that sorts by time: ``20261121T101502.123456Z-9f3a``."""
    return f"{now.astimezone(UTC):%Y%m%dT%H%M%S.%f}Z-{secrets.token_hex(2)}"


def plan_ranges(
    last: Run | None, extents: Mapping[int, PartitionExtent]
) -> tuple[OffsetRange, ...]:
    """What is new since ``last``: from its end (0 at first) to the end of each partition.

    Raises LakeError if a partition ends before the offset it was read up to.
    """
    read = {r.partition: r.end for r in last.ranges} if last else {}
    ranges = []
    for partition in sorted(extents.keys() | read.keys()):
        start = read.get(partition, 0)
        extent = extents.get(partition, PartitionExtent(start, start))
        if extent.end < start and extent.end > 0:
            raise LakeError(
                f"Partition {partition} ends at offset {extent.end}, but this lake has read it up "
                f"to {start}.",
                "The source is an older capture, or the topic was recreated: "
                "read a newer capture, or use a lake of its own.",
            )
        ranges.append(OffsetRange(partition, start, max(start, extent.end)))
    return tuple(ranges)
