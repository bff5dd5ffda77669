"""Runs the jobs: plans a run, ingests, replays, audits, and marks the run as done in the ledger."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from kip848_spark.checks.live_comparison import LiveComparison
from kip848_spark.checks.results import LIVE
from kip848_spark.coordinator.assignors import ASSIGNORS, Assignor, find_assignors
from kip848_spark.errors import LakeError
from kip848_spark.insight.readiness_versions import line_of_levels
from kip848_spark.kafka.topic import PartitionExtent, TopicIdentity
from kip848_spark.lake.ledger import (
    AUDIT,
    DONE,
    PARTIAL_AUDIT,
    READINESS,
    REPLAY,
    Ledger,
    RecordCounts,
    Run,
    plan_ranges,
)
from kip848_spark.lake.readiness import LakeReadiness
from kip848_spark.lake.rows_with import COMMITS
from kip848_spark.spark.jobs.audit import AuditRequest, audit
from kip848_spark.spark.jobs.decode_again import decode_unknown_records
from kip848_spark.spark.jobs.detect_dialect import detect_dialect
from kip848_spark.spark.jobs.ingest import ingest, topic_rows
from kip848_spark.spark.jobs.integrity import (
    check_counts,
    count_mismatch,
    find_damage,
    split_finished_runs,
)
from kip848_spark.spark.jobs.live_check import try_live, write_live
from kip848_spark.spark.jobs.lost_tombstones import Survey, add_lost_tombstones, survey_if_late
from kip848_spark.spark.jobs.readiness import cluster_facts, judge_readiness
from kip848_spark.spark.jobs.repair import RepairResult, repair, replay_from_scratch
from kip848_spark.spark.jobs.replay import replay
from kip848_spark.spark.jobs.same_source import check_same_source, new_partitions
from kip848_spark.spark.plans import (
    finish_run,
    known_formats,
    new_offsets,
    offset_count,
    plan_lake_run,
    plan_run,
    undo_run,
)
from kip848_spark.spark.progress import show_read_progress, show_worker_progress
from kip848_spark.spark.session_settings import in_prepared_session, size_tasks
from kip848_spark.spark.sources import KafkaSource, RecordSource
from kip848_spark.spark.steps import Progress, Steps
from kip848_spark.spark.storage.tables import LakeTables
from kip848_spark.wire.definitions import SHIPPED
from kip848_spark.wire.dialects import AUTO, candidate_plans


@dataclass(frozen=True)
class RunOutcome:
    """The result of a run. ``run`` is the lake's last finished run; ``changed`` is False if there
    was nothing to do. ``recovered`` is the id of an unfinished run that was undone or repeated.
    ``open_offsets`` is the number of offsets behind open transactions, ``new_partitions`` that of
    partitions that the topic did not have at the last run. ``live`` is the result of
    the comparison with the cluster, if there was one, and ``readiness`` the verdicts on the groups
    if the run replayed. ``missed_since``: the start of the last run that read records, if deletions
    since then may be missing (see `lost_tombstones`)."""

    run: Run | None
    changed: bool
    recovered: str | None = None
    open_offsets: int = 0
    live: LiveComparison | None = None
    readiness: LakeReadiness | None = None
    new_partitions: int = 0
    missed_since: datetime | None = None


@in_prepared_session
def run_ingest(
    source: RecordSource,
    lake: LakeTables,
    progress: Progress = lambda _: None,
    keep_commits_raw: bool = False,
    then_replay: bool = False,
    dialect: str = SHIPPED,
    then_audit: bool = False,
) -> RunOutcome:
    """Reads new records of ``source`` into ``lake``; with ``then_replay`` also updates the state
    tables, and with ``then_audit`` also audits the new records (the nightly job).

    If it is killed at any point, the next run repeats it. A second run on the same offsets changes
    nothing. Raises SourceError, LakeError or UsageError; readers then still see the previous run.
    """
    steps = Steps(progress)
    identity = source.identity()
    extents = source.extents(lake.spark)
    with lake.hold_lease(), ExitStack() as stack:
        if not lake.exists():
            with steps.step("make", "creating the lake's tables"):
                lake.create()
        else:
            lake.upgrade()
        ledger = Ledger(lake)
        last = before = ledger.last()
        identity = check_same_source(lake, last, source, identity, extents)
        added = new_partitions(ledger, source, extents)
        survey = stack.enter_context(survey_if_late(source, ledger, extents, steps))
        extents = source.extents(lake.spark) if survey else extents
        repeat = survey is None
        plan, recovered = _recover(ledger, source, identity, extents, dialect, repeat=repeat)
        check_counts(lake)
        if plan is None:
            last = decode_unknown_records(lake, last, steps)
            is_live = isinstance(source, KafkaSource) and bool(last and last.identity.topic_id)
            ranges = plan_ranges(last, extents, is_live=is_live)
            choice = detect_dialect(
                source, lake.spark, ranges, dialect, last.dialect if last else None
            )
            if dialect == AUTO:
                progress(f"the dialect is {choice.variant}: {choice.evidence}")
            plan = plan_run(source.name, identity, ranges, choice.variant, last, lake)
        size_tasks(lake.spark, offset_count(plan))
        opened = sum(extent.open for extent in extents.values())
        after, ends = ledger.audit_start() if then_audit else (None, {})
        audited = not then_audit or (after is not None and ends == _read_up_to(last))
        replayed = not then_replay or _is_up_to_date(last)
        if plan.is_empty and last is not None and audited and replayed:
            return RunOutcome(last, last is not before, recovered, opened)
        if isinstance(source, KafkaSource):
            plan = replace(plan, open_offsets={n: e.open for n, e in extents.items() if e.open})
        ledger.write(plan)
        steps.run_started(plan.run_id)
        counts, missed = _ingest(source, lake, plan, survey, steps, keep_commits_raw)
        answered = _ask_cluster(lake, source, plan, steps)
        line = line_of_levels(answered.get("metadata_versions", ()))
        plan = replace(plan, counts=counts, broker_line=line)
        readiness = live = None
        if then_replay:
            plan = _replay(lake, plan, last, steps)
            readiness = _judge_readiness(lake, plan, steps, answered)
        if then_replay and then_audit:
            request = AuditRequest(after=after, offsets=ends, assignors=_assignors(answered))
            live = _audit(source, lake, plan, request, steps)
        done = finish_run(ledger, plan, steps)
        return RunOutcome(done, True, recovered, opened, live, readiness, added, missed)


@in_prepared_session
def run_replay(
    lake: LakeTables, progress: Progress = lambda _: None, *, from_scratch: bool = False
) -> RunOutcome:
    """Updates the state tables with all ingested records that they lack; rebuilds them and the
    history from all records if ``from_scratch``. Raises LakeError."""
    steps = Steps(progress)
    lake.require()
    with _open_ledger(lake) as (ledger, recovered):
        last = decode_unknown_records(lake, ledger.last(), steps)
        if last is None or (_is_up_to_date(last) and not from_scratch):
            return RunOutcome(last, False, recovered)
        plan = _start_lake_run(lake, ledger, last, steps)
        plan = replace(plan, counts=RecordCounts())
        if from_scratch:
            with steps.step(REPLAY, "replaying all control records"):
                replay_from_scratch(lake, plan)
            plan = replace(plan, replayed_through=plan.run_id)
        else:
            plan = _replay(lake, plan, last, steps)
        _judge_readiness(lake, plan, steps)
        return RunOutcome(finish_run(ledger, plan, steps), True, recovered)


@in_prepared_session
def run_audit(
    lake: LakeTables,
    request: AuditRequest,
    progress: Progress = lambda _: None,
    source: KafkaSource | None = None,
) -> RunOutcome:
    """Audits the replayed records of the lake, and adds rows to `agreement` and `findings`. With
    the ``source`` of the lake, also compares the state with the running cluster.

    Raises LakeError if some ingested records were not replayed, or UsageError if the source is not
    that of the lake.
    """
    steps = Steps(progress)
    lake.require()
    identity = None if source is None else source.identity()
    with _open_ledger(lake) as (ledger, recovered):
        last = ledger.last()
        if last is None or not last.is_replayed:
            raise LakeError(
                f"Not all records of the lake {lake.path} were replayed.",
                "Run `kip848 replay` first.",
            )
        if source is not None and identity is not None:
            check_same_source(lake, last, source, identity, source.extents(lake.spark))
            if request.assignors is None:
                request = replace(request, assignors=_assignors(cluster_facts(source)))
        plan = _start_lake_run(lake, ledger, last, steps)
        live = _audit(source, lake, plan, request, steps)
        plan = replace(plan, counts=RecordCounts(), replayed_through=plan.run_id)
        return RunOutcome(finish_run(ledger, plan, steps), True, recovered, live=live)


@in_prepared_session
def run_repair(lake: LakeTables, progress: Progress = lambda _: None) -> RepairResult:
    """Repairs a lake that two programs wrote to at once; changes nothing if it is not damaged.

    Raises LakeError if there is none, or if it can't be repaired.
    """
    steps = Steps(progress)
    lake.require()
    with lake.hold_lease():
        lake.upgrade()
        ledger = Ledger(lake)
        last = ledger.last()
        if last is None:
            raise LakeError(
                f"No run of the lake {lake.path} has ever finished.",
                "Delete its folder, and start the run again.",
            )
        unsound = None
        if (unfinished := ledger.unfinished()) is not None:
            unsound = count_mismatch(lake, unfinished)
            if unsound is None:
                undo_run(ledger, unfinished)
            else:  # to restore its versions would bring the damage back
                ledger.delete(unfinished)
        with steps.step("check", "looking for damage"):
            found = find_damage(lake) or ([unsound] if unsound else [])
        if not found:
            return RepairResult()
        last = split_finished_runs(lake)[0][-1]
        plan = _start_lake_run(lake, ledger, last, steps)
        removed, dropped = repair(lake, plan, progress)
        plan = replace(plan, counts=RecordCounts(), replayed_through=plan.run_id)
        finish_run(ledger, plan, steps)
        return RepairResult(tuple(found), removed, dropped)


@contextmanager
def _open_ledger(lake: LakeTables) -> Iterator[tuple[Ledger, str | None]]:
    """The ledger of ``lake``, which no other run changes meanwhile, and the id of the unfinished
    run that was undone, if there was one. Raises LakeError if the lake is damaged or in use."""
    with lake.hold_lease():
        lake.upgrade()
        ledger = Ledger(lake)
        unfinished = ledger.unfinished()
        recovered = undo_run(ledger, unfinished) if unfinished else None
        check_counts(lake)
        yield ledger, recovered


def _start_lake_run(lake: LakeTables, ledger: Ledger, last: Run, steps: Steps) -> Run:
    """Plans a run that reads no records of the topic, and writes it to the ledger."""
    plan = plan_lake_run(last, lake)
    size_tasks(lake.spark, offset_count(plan))
    ledger.write(plan)
    steps.run_started(plan.run_id)
    return plan


def _is_up_to_date(last: Run | None) -> bool:
    """Whether the state tables and the readiness have all records that were read up to ``last``."""
    return last is None or (last.is_replayed and not last.decoded_again)


def _read_up_to(last: Run | None) -> dict[int, int]:
    """The end of each partition in the run ``last``."""
    return {r.partition: r.end for r in last.ranges} if last else {}


def _records_to_read(lake: LakeTables, run: Run, after: str | None) -> int:
    """About the number of records of ``run`` and the runs later than ``after`` that a replay reads,
    to find the control records."""
    done = (row for row in lake.rows("runs") if row["outcome"] == DONE)
    later = (row for row in done if after is None or row["run_id"] > after)
    new = 0 if run.counts is None else run.counts.records_read
    new += sum(row["records_read"] or 0 for row in later)
    return min(new, lake.rows_to_read("records", after, COMMITS))


def _recover(
    ledger: Ledger,
    source: RecordSource,
    identity: TopicIdentity,
    extents: dict[int, PartitionExtent],
    dialect: str,
    *,
    repeat: bool,
) -> tuple[Run | None, str | None]:
    """Restores the tables after an unfinished run. Returns its plan, which is to be repeated with
    the same table versions, and its id. If it is not to ``repeat``, or if the source is another one
    or no longer has the planned offsets, or if it was to be read by another ``dialect``, the plan
    is deleted (None is returned for it)."""
    unfinished = ledger.unfinished()
    if unfinished is None:
        return None, None
    ends = {partition: extent.end for partition, extent in extents.items()}
    there = all(r.start == r.end or ends.get(r.partition, 0) >= r.end for r in unfinished.ranges)
    same = unfinished.source == source.name and unfinished.identity == identity
    if not (repeat and there and same and unfinished.dialect in candidate_plans(dialect)):
        return None, undo_run(ledger, unfinished)
    newest = ledger.lake.versions()
    ledger.restore(unfinished)
    # A plan of an earlier version of this program does not have the tables that were added since.
    versions = {**newest, **unfinished.table_versions}
    formats = known_formats(unfinished.dialect)
    return replace(unfinished, table_versions=versions, formats=formats), unfinished.run_id


def _ingest(
    source: RecordSource,
    lake: LakeTables,
    plan: Run,
    survey: Survey | None,
    steps: Steps,
    keep_commits_raw: bool,
) -> tuple[RecordCounts, datetime | None]:
    """Reads the new records. Returns what `add_lost_tombstones` does."""
    if plan.is_empty:
        return RecordCounts(), None
    shuffled = not isinstance(source, KafkaSource)  # a capture's files are in no order
    with (
        steps.step("ingest", "reading and decoding the topic"),
        show_worker_progress(
            lake.spark, steps.progress, "offsets", new_offsets(plan), shuffled=shuffled
        ) as count,
    ):
        counts = ingest(source, lake, plan, keep_commits_raw, count)
    return add_lost_tombstones(lake, plan, counts, survey, steps)


def _ask_cluster(lake: LakeTables, source: RecordSource, plan: Run, steps: Steps) -> dict[str, Any]:
    """Adds the cluster's topics to `topics`, and returns its settings that readiness depends on.
    Does nothing for a capture."""
    if not isinstance(source, KafkaSource):
        return {}
    with steps.step("topics", "asking the cluster for its topics and settings"):
        rows = topic_rows(source.cluster.topics())
        lake.append_rows("topics", rows, plan.run_id, plan.identity.cluster_id)
        return cluster_facts(source)


def _assignors(answered: Mapping[str, Any]) -> Mapping[str, Assignor | None] | None:
    """The brokers' setting ``group.consumer.assignors`` if its default is a custom assignor, so
    that its targets are not judged. Otherwise None: with the default that the brokers have now,
    the audit would reject targets of another one of Kafka's that they had before."""
    names = tuple(answered.get("assignors") or ())
    return find_assignors(names) if names and names[0] not in ASSIGNORS else None


def _replay(lake: LakeTables, plan: Run, last: Run | None, steps: Steps) -> Run:
    after = last.replayed_through if last else None
    with (
        steps.step(REPLAY, "replaying control records"),
        show_read_progress(
            lake.spark, steps.progress, "records", lambda: _records_to_read(lake, plan, after)
        ),
    ):
        replay(lake, plan, after)
    return replace(plan, replayed_through=plan.run_id)


def _audit(
    source: RecordSource | None, lake: LakeTables, plan: Run, request: AuditRequest, steps: Steps
) -> LiveComparison | None:
    """Audits the records that ``request`` asks for. If the source is a cluster, compares the state
    with it: the cluster is asked while Spark audits."""
    name = AUDIT if request.is_complete else PARTIAL_AUDIT
    with ThreadPoolExecutor(1) as pool:
        asked = None
        if isinstance(source, KafkaSource):
            asked = pool.submit(try_live, lake, source, plan, request.groups)
        with (
            steps.step(name, f"auditing {'the new' if request.after else 'all'} records"),
            show_worker_progress(lake.spark, steps.progress, "rows") as count,
        ):
            audit(lake, plan, request, count)
        if asked is None:
            return None
        with steps.step(LIVE, "comparing with the running cluster"):
            comparison = asked.result()
            write_live(lake, plan, comparison)
            return comparison


def _judge_readiness(
    lake: LakeTables, plan: Run, steps: Steps, answered: Mapping[str, Any] | None = None
) -> LakeReadiness:
    with steps.step(READINESS, "judging which groups can move to the new protocol"):
        return judge_readiness(lake, plan, answered or {})
