"""The jobs as functions, for notebooks and programs. docs/api.md shows how they are used."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from kip848_spark.errors import UsageError
from kip848_spark.lake.lake import AsOf, Lake, utc_time
from kip848_spark.lake.ledger import Run
from kip848_spark.lake.tables import TABLES
from kip848_spark.wire.definitions import SHIPPED

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from kip848_spark.spark.pipeline import RunOutcome
    from kip848_spark.spark.sources import CaptureSource, KafkaSource
    from kip848_spark.spark.storage.tables import LakeTables


@dataclass(frozen=True)
class RunResult:
    """The result of a job.

    ``changed`` is False if there was nothing to do; ``run_id`` is then the last finished run (None
    in an empty lake). ``recovered`` names an unfinished run that was undone first. ``open_offsets``
    is the number of offsets behind open transactions, which a later run reads. ``ledger`` is the
    row of the table `runs`. ``agreement`` has a row for each check of the audit, without rows if
    the job did not audit. ``differences`` lists where the lake and the running cluster differ; it
    is None if they were not compared.
    """

    lake: Lake
    run_id: str | None
    changed: bool
    recovered: str | None
    open_offsets: int
    ledger: Mapping[str, Any]
    agreement: pa.Table
    differences: tuple[str, ...] | None

    @property
    def findings(self) -> pa.Table:
        """The rows of the table `findings` that the audit of this run wrote. Raises LakeError."""
        of_run = pc.field("run_id") == (self.run_id or "")
        return self.lake.snapshot().select("findings", of_run)

    @property
    def disagreed(self) -> int:
        """The number of recorded decisions and rows that the audit disagrees with."""
        return pc.sum(self.agreement["disagreed"]).as_py() or 0


def run(
    source: KafkaSource | CaptureSource,
    lake: Lake,
    *,
    spark: SparkSession | None = None,
    dialect: str = SHIPPED,
    keep_commits_raw: bool = False,
) -> RunResult:
    """The nightly job, as `kip848 run` runs it. It reads what is new in ``source`` into ``lake``,
    brings the state tables up to date, audits what is new, and compares the state with the cluster
    if the source is one.

    ``spark`` is the session to use. Without one, the active session is used, or a local session is
    started for the job and stopped afterwards. The job sets what it needs in a session and restores
    it. ``dialect`` and ``keep_commits_raw`` are as on the command line.

    A job that was killed is undone by the next one, and a job that is repeated changes nothing.
    Raises SourceError, CaptureError, LakeError, UsageError or EnvironmentFault; readers of the lake
    then still see the last finished run.
    """
    from kip848_spark.spark.pipeline import run_ingest

    with _tables(lake, spark, source) as tables:
        outcome = run_ingest(
            source,
            tables,
            keep_commits_raw=keep_commits_raw,
            then_replay=True,
            dialect=dialect,
            then_audit=True,
        )
        return _result(lake, tables, outcome)


def ingest(
    source: KafkaSource | CaptureSource,
    lake: Lake,
    *,
    spark: SparkSession | None = None,
    dialect: str = SHIPPED,
    keep_commits_raw: bool = False,
) -> RunResult:
    """Reads what is new in ``source`` into ``lake`` and leaves the state tables as they are. See
    `run` for the arguments and errors."""
    from kip848_spark.spark.pipeline import run_ingest

    with _tables(lake, spark, source) as tables:
        outcome = run_ingest(source, tables, keep_commits_raw=keep_commits_raw, dialect=dialect)
        return _result(lake, tables, outcome)


def replay(
    lake: Lake, *, spark: SparkSession | None = None, from_scratch: bool = False
) -> RunResult:
    """Brings the state tables of ``lake`` up to date with what was ingested, or rebuilds them and
    the history from all ingested records if ``from_scratch``. See `run` for ``spark``. Raises
    LakeError if there is no lake."""
    from kip848_spark.spark.pipeline import run_replay

    with _tables(lake, spark) as tables:
        return _result(lake, tables, run_replay(tables, from_scratch=from_scratch))


def audit(
    lake: Lake,
    *,
    source: KafkaSource | None = None,
    groups: Sequence[str] | None = None,
    since: AsOf = None,
    release: str | None = None,
    assignors: Sequence[str] | None = None,
    spark: SparkSession | None = None,
) -> RunResult:
    """Re-derives every recorded decision, of ``groups`` only if they are named, and adds the result
    to `agreement` and `findings`. With the ``source`` of the lake, also compares the state with the
    running cluster.

    ``since`` restricts the audit to decisions recorded since that time (UTC). ``release`` is the
    Kafka release to audit by, such as ``4.1``; without one it follows from the records.
    ``assignors`` is the brokers' setting ``group.consumer.assignors``, of which the first one is
    the default. A custom assignor is named ``module:Class``, see docs/coordinator.md; the targets
    of one that is only named are not judged. See `run`
    for ``spark``. Raises LakeError if something was ingested and not replayed, NotFoundError if
    there is no such group, and UsageError if there is no such release or ``assignors`` is empty.
    """
    from kip848_spark.coordinator.assignors import find_assignors
    from kip848_spark.coordinator.releases import find_release
    from kip848_spark.lake.groups import check_groups
    from kip848_spark.spark.jobs.audit import AuditRequest
    from kip848_spark.spark.pipeline import run_audit
    from kip848_spark.spark.views import LakeViews

    if release is not None:
        find_release(release)
    names = None if groups is None else list(groups)
    known = None if assignors is None else find_assignors(assignors)
    request = AuditRequest(names, utc_time(since, "since"), release, assignors=known)
    with _tables(lake, spark) as tables:
        if names is not None:
            check_groups(names, LakeViews(tables).group_ids)
        return _result(lake, tables, run_audit(tables, request, source=source))


def write_report(
    lake: Lake,
    page: str | os.PathLike[str],
    *,
    since: AsOf = None,
    cluster: Mapping[str, Any] | None = None,
) -> Mapping[str, Any]:
    """Writes the page that shows ``lake`` to the file ``page`` (``*.html``), and its data beside it
    (``*.json``); returns the data, which docs/report.md describes. Starts no JVM.

    ``since``: rebalances are those that began then or later; None: in the 30 days before the newest
    record. ``cluster`` are facts for the migration readiness, such as ``{"release": "4.3.1"}``.

    Raises UsageError if the file can't be written, and LakeError if the lake can't be read.
    """
    from kip848_spark.report.data import ReportOptions
    from kip848_spark.report.files import write_report as write

    options = ReportOptions(utc_time(since, "since"), cluster)
    return write(lake.snapshot(), Path(page), options).report


def decode_records(records: DataFrame, *, dialect: str = SHIPPED) -> DataFrame:
    """Decodes a Spark DataFrame that has the binary columns ``key`` and ``value`` of records of
    ``__consumer_offsets``, in any order.

    Returns the decoded columns (those of `decode`) after the other columns of ``records``; of
    these, one that has the name of a decoded column gets the prefix ``record_``, as does ``topic``
    of Spark's Kafka source. Spark decodes when the result is used.

    Raises UsageError if a column is missing or not binary, or if there is no such dialect. ``auto``
    is not possible here, since it would read the records first.
    """
    from kip848_spark.spark.decode_records import decode_records as decode_frame

    return decode_frame(records, dialect)


@contextmanager
def _tables(
    lake: Lake, spark: SparkSession | None, source: KafkaSource | CaptureSource | None = None
) -> Iterator[LakeTables]:
    """The tables of ``lake``, in ``spark`` or a session that `kip848_spark.spark.session` finds or
    starts."""
    from kip848_spark.spark.session import session
    from kip848_spark.spark.storage.opening import open_lake

    if not isinstance(lake, Lake):
        raise UsageError(f"{lake!r} is not a Lake.", 'Write Lake("/data/kip848").')
    paths = (lake.path, getattr(source, "path", ""))
    s3 = any(path.startswith("s3a://") for path in paths)
    with session(storage=lake.storage, given=spark, s3=s3) as active:
        yield open_lake(active, lake.path, storage=lake.storage)


def _result(lake: Lake, tables: LakeTables, outcome: RunOutcome) -> RunResult:
    from kip848_spark.spark.jobs.audit import agreement_rows

    run: Run | None = outcome.run
    rows = agreement_rows(tables, run.run_id) if run is not None and outcome.changed else []
    schema = pa.schema(list(TABLES["agreement"].fields.items()))
    return RunResult(
        lake=lake,
        run_id=None if run is None else run.run_id,
        changed=outcome.changed,
        recovered=outcome.recovered,
        open_offsets=outcome.open_offsets,
        ledger={} if run is None else run.row(),
        agreement=pa.Table.from_pylist(
            [{**row, "reasons": list((row["reasons"] or {}).items())} for row in rows], schema
        ),
        differences=None if outcome.live is None else tuple(map(str, outcome.live.differences)),
    )
