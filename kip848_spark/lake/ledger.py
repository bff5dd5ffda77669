"""The ledger, which is the table `runs`: the commit point of everything that a run writes.

A run's plan (its offsets, and the Delta version each table had) is stored before anything else is
written. A run that was killed therefore leaves a plan; the next run restores the tables to those
versions and repeats the plan. Readers see the tables as the last finished run left them.
"""

from __future__ import annotations

import secrets
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from datetime import UTC, datetime, timedelta
from typing import Any, Protocol

from kip848_spark.errors import LakeError, UsageError
from kip848_spark.kafka.topic import OffsetRange, PartitionExtent, TopicIdentity
from kip848_spark.lake.tables import TABLES

PLANNED = "planned"
DONE = "done"
LAKE = "lake"
"""The ``source`` of a run that reads no source."""
_RUN_ID_TIME = "%Y%m%dT%H%M%S.%f"
READINESS = "readiness"
"""The name of the step that judges which groups can move to the consumer protocol."""
ERASURE = "erasure"
"""The name of the step that erases names."""
DECODE_AGAIN = "decode_again"
"""The name of the step that decodes records which an earlier version did not know."""
REPLAY = "replay"
"""The name of the step that updates the state tables."""
AUDIT = "audit"
"""The name of the step of a complete audit."""
PARTIAL_AUDIT = "audit_of_a_part"
"""The name of the step of an audit that is restricted to groups, a time, or a release."""
RETENTION = "retention"
"""The name of the step that removes rows that are older than the kept time."""
VACUUM, FORGET = "vacuum", "forget"
"""The names of the steps that delete old files, and all old versions of the tables."""


@dataclass(frozen=True)
class RecordCounts:
    """The number of records that a run read, and of those that were decoded, tombstones, of an
    unknown (newer) version, or quarantined.

    ``missing`` is the number of offsets without a record. ``errors`` counts records by reason,
    ``unknown_tags`` counts unknown tagged fields by record kind.
    """

    records_read: int = 0
    decoded: int = 0
    tombstones: int = 0
    unknown: int = 0
    quarantined: int = 0
    missing: int = 0
    errors: Mapping[str, int] = field(default_factory=dict)
    unknown_tags: Mapping[str, int] = field(default_factory=dict)
    inferred: int = 0
    """The number of rows of `records` that are inferred tombstones, beside those that were read."""


@dataclass(frozen=True)
class Run:
    """One row of `runs`. Times are in UTC, durations in ms."""

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
    open_offsets: Mapping[int, int] | None = None
    """By partition, the offsets behind the last stable one; None if no cluster was asked."""
    kept_since: datetime | None = None
    """Maintenance has removed older history, in this run or before; None if it never has."""
    kept_from: Mapping[int, int] | None = None
    """By partition: of the records before this offset, only the newest one of each key is there."""
    removed: Mapping[str, int] = field(default_factory=dict)
    """The number of rows of `records` that this run has removed, by the run that had read them."""
    broker_line: str | None = None
    """The line of releases, such as ``4.3``, that all brokers answered at this run."""
    formats: str | None = None
    """The formats by which the records were decoded (`DecodePlan.known_formats`); None if a version
    of this program without this field decoded them."""

    @property
    def is_empty(self) -> bool:
        """True if the run reads no offsets."""
        return all(r.start == r.end for r in self.ranges)

    @property
    def audited(self) -> bool:
        """True if everything in the lake at the end of this run has been audited."""
        return AUDIT in self.durations_ms

    @property
    def is_replayed(self) -> bool:
        """True if the state tables at the end of this run have all records that were read."""
        return self.replayed_through == self.run_id

    @property
    def decoded_again(self) -> bool:
        """True if this run decoded records of earlier runs again, and nothing else."""
        return DECODE_AGAIN in self.durations_ms

    def row(self) -> dict[str, Any]:
        """The row of `runs`: plain values by column."""
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
            "open_offsets": None if self.open_offsets is None else dict(self.open_offsets),
            "kept_since": self.kept_since,
            "kept_from": None if self.kept_from is None else dict(self.kept_from),
            "removed": dict(self.removed) or None,
            "broker_line": self.broker_line,
            "formats": self.formats,
            "inferred": (counts and counts.inferred) or None,
        }

    @classmethod
    def from_row(cls, row: Mapping[str, Any]) -> Run:
        """The run in a row of `runs`. Raises LakeError if the row lacks what every run has."""
        starts, ends = row["from_offsets"], row["to_offsets"]
        whole = row["run_id"] and row["topic"] and row["dialect"] and row["table_versions"]
        if not whole or starts is None or ends is None or starts.keys() != ends.keys():
            raise LakeError(
                f"The ledger of the lake is damaged: the run {row['run_id']} is incomplete.",
                "Restore the table runs from a copy.",
            )
        counts = None
        if row["records_read"] is not None:
            names = [each.name for each in fields(RecordCounts) if each.name != "inferred"]
            counts = RecordCounts(
                **{name: row[name] for name in names}, inferred=row.get("inferred") or 0
            )
        return cls(
            run_id=row["run_id"],
            source=row["source"],
            identity=TopicIdentity(row["topic"], row["cluster_id"], row["topic_id"]),
            dialect=row["dialect"],
            ranges=tuple(
                OffsetRange(partition, start, ends[partition])
                for partition, start in sorted(starts.items())
            ),
            table_versions=row["table_versions"],
            started_at=row["started_at"],
            outcome=row["outcome"],
            replayed_through=row["replayed_through"],
            counts=counts,
            finished_at=row["finished_at"],
            durations_ms=row["durations_ms"] or {},
            open_offsets=row.get("open_offsets"),
            kept_since=row.get("kept_since"),
            kept_from=row.get("kept_from"),
            removed=row.get("removed") or {},
            broker_line=row.get("broker_line"),
            formats=row.get("formats"),
        )


def removed_records(runs: Iterable[Mapping[str, Any]]) -> Counter[str]:
    """The number of rows of `records` that finished runs have removed, by the run that had read
    them. ``runs`` are rows of the table `runs`."""
    found: Counter[str] = Counter()
    for row in runs:
        if row["outcome"] == DONE:
            found.update(row.get("removed") or {})
    return found


def written_records(runs: Iterable[Mapping[str, Any]]) -> int:
    """The number of rows that finished runs have added to `records`. ``runs`` are rows of the table
    `runs`."""
    done = (row for row in runs if row["outcome"] == DONE)
    return sum((row["records_read"] or 0) + (row.get("inferred") or 0) for row in done)


def quarantined_records(runs: Iterable[Mapping[str, Any]]) -> int:
    """The number of records that finished runs could not decode. ``runs`` are rows of the table
    `runs`."""
    return sum(row["quarantined"] or 0 for row in runs if row["outcome"] == DONE)


class LedgerTables(Protocol):
    """The access to a lake's tables that the ledger needs."""

    def rows(self, table: str) -> list[dict[str, Any]]:
        """All rows of ``table``."""

    def replace_rows(
        self, table: str, rows: Sequence[Mapping[str, Any]], column: str, values: Sequence[str]
    ) -> None:
        """Replaces the rows with one of ``values`` in ``column`` by ``rows``, in one commit."""

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
        """The id of the last run that was audited completely (None if there is none), and the end
        offset of each partition in that run."""
        done = self.finished()
        after = max((run.run_id for run in done if run.audited), default=None)
        ends = {r.partition: r.end for run in done if run.run_id == after for r in run.ranges}
        return after, ends

    def audit_start(self) -> tuple[str | None, dict[int, int]]:
        """Where the next complete audit continues: at `last_audited`, or at the first record if
        records were decoded again since then."""
        after, ends = self.last_audited()
        later = (run for run in self.finished() if after is not None and run.run_id > after)
        return (None, {}) if any(run.decoded_again for run in later) else (after, ends)

    def finished(self) -> list[Run]:
        """All finished runs, in the order in which they were started."""
        done = (Run.from_row(row) for row in self.lake.rows("runs") if row["outcome"] == DONE)
        return sorted(done, key=lambda run: run.run_id)

    def unfinished(self) -> Run | None:
        """The run that was planned and has not finished, if there is one."""
        return self._newest(PLANNED)

    def _newest(self, outcome: str) -> Run | None:
        runs = [row for row in self.lake.rows("runs") if row["outcome"] == outcome]
        return Run.from_row(max(runs, key=lambda row: str(row["run_id"]))) if runs else None

    def write(self, *runs: Run) -> None:
        """Stores ``runs`` and replaces their previous rows, in one commit."""
        rows = [run.row() for run in runs]
        self.lake.replace_rows("runs", rows, "run_id", [run.run_id for run in runs])

    def restore(self, run: Run) -> None:
        """Restores all tables but `runs` to the versions they had when ``run`` was planned."""
        versions = {n: v for n, v in run.table_versions.items() if n in TABLES and n != "runs"}
        self.lake.restore(versions)

    def delete(self, run: Run) -> None:
        """Deletes the row of ``run``."""
        self.lake.replace_rows("runs", [], "run_id", [run.run_id])


def new_run_id(now: datetime, last: Run | None = None) -> str:
    """A new run id, which sorts by time: ``20261121T101502.123456Z-9f3a``. It sorts after that of
    the run ``last`` also if this machine's clock is behind the one of that run."""
    if last is not None:
        after = datetime.strptime(last.run_id.partition("Z-")[0], _RUN_ID_TIME)
        now = max(now, after.replace(tzinfo=UTC) + timedelta(microseconds=1))
    return f"{now.astimezone(UTC):{_RUN_ID_TIME}}Z-{secrets.token_hex(2)}"


def were_names_erased(runs: Iterable[Mapping[str, Any]]) -> bool:
    """Whether one of these rows of `runs` is of maintenance that has erased names."""
    return any(ERASURE in row["durations_ms"] for row in runs)


_LOST = (
    "The topic is the same one, so the cluster has lost records: look for an unclean leader "
    "election. Use a new lake; this one stays readable."
)


def plan_ranges(
    last: Run | None, extents: Mapping[int, PartitionExtent], *, is_live: bool = False
) -> tuple[OffsetRange, ...]:
    """The offsets to read after the run ``last``: from its end (0 without one) to the end of each
    partition. ``is_live``: the source is a cluster, and its topic is that of ``last``.

    Raises UsageError if a partition ends before the offset it was read up to.
    """
    read = {r.partition: r.end for r in last.ranges} if last else {}
    ranges = []
    for partition in sorted(extents.keys() | read.keys()):
        start = read.get(partition, 0)
        extent = extents.get(partition, PartitionExtent(start, start))
        if max(extent.end, extent.captured_to) < start and extent.end > 0:
            raise UsageError(
                f"Partition {partition} ends at offset {extent.end}, but this lake has read it up "
                f"to offset {start}.",
                _LOST
                if is_live
                else "The source is an older capture, or the topic was recreated. "
                "Read a newer capture, or use a new lake.",
            )
        ranges.append(OffsetRange(partition, start, max(start, extent.end)))
    return tuple(ranges)
