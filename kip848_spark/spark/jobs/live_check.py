"""Check `live`: the state tables of a lake against the answers of the cluster's admin API."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass

import pyarrow as pa
from pyspark.sql import Column
from pyspark.sql import functions as F

from kip848_spark.checks.context import BUCKETS, bucket_of
from kip848_spark.checks.finding_ids import with_ids
from kip848_spark.checks.finding_text import with_texts
from kip848_spark.checks.live_comparison import (
    LAKE_COLUMNS,
    ChangedSince,
    LakeState,
    LiveComparison,
    compare,
)
from kip848_spark.checks.live_newer import LakeRow
from kip848_spark.errors import SourceError
from kip848_spark.kafka.cluster import snapshot
from kip848_spark.kafka.snapshot import LiveEnds
from kip848_spark.kafka.topic import OffsetRange
from kip848_spark.lake.conditions import Condition
from kip848_spark.lake.ledger import Run, were_names_erased
from kip848_spark.spark.collect import collect_rows
from kip848_spark.spark.error_messages import translate_spark_errors
from kip848_spark.spark.jobs.sampling import in_sample
from kip848_spark.spark.map_in_arrow import map_in_arrow
from kip848_spark.spark.offset_reader import bounded_offset_reader
from kip848_spark.spark.sources import KafkaSource
from kip848_spark.spark.storage.tables import LakeTables
from kip848_spark.state import kinds
from kip848_spark.state.streams_tasks import (
    STREAMS_COLUMNS,
    STREAMS_KINDS,
    StreamsState,
    streams_state,
)
from kip848_spark.wire.control_plans import control_plan
from kip848_spark.wire.record_stream import STREAM_FIELDS, records_decoder

MOST_GROUPS = 5_000
"""Approximate number of groups that are compared: the driver collects their rows."""


@dataclass(frozen=True)
class GroupSample:
    """The groups to compare: those called ``names``, or those in the first ``buckets`` of
    `BUCKETS`."""

    buckets: int = BUCKETS
    names: frozenset[str] | None = None

    @classmethod
    def of(cls, groups: int, names: Sequence[str] | None) -> GroupSample:
        """The groups with these ``names``; if None, a sample of a lake's ``groups``, a number."""
        if names is not None:
            return cls(names=frozenset(names))
        return cls(BUCKETS * MOST_GROUPS // max(groups, MOST_GROUPS))

    def has(self, name: str) -> bool:
        """Whether the group is in the sample."""
        return bucket_of(name) < self.buckets if self.names is None else name in self.names

    def rows(self) -> Column:
        """The same, as a condition on the column group_id."""
        return (
            in_sample(self.buckets) if self.names is None else F.col("group_id").isin(*self.names)
        )


def try_live(
    lake: LakeTables, source: KafkaSource, run: Run, groups: Sequence[str] | None = None
) -> LiveComparison:
    """As `compare_live`; if the cluster cannot be reached, nothing is compared, for that reason.
    Writes nothing, so that it can run beside other steps."""
    client = source.client
    try:
        with translate_spark_errors(client), bounded_offset_reader(lake.spark, client):
            return compare_live(lake, source, run, groups)
    except SourceError as cause:
        comparison = LiveComparison()
        comparison.not_compared[f"no answer: {cause.message}"] += 1
        return comparison


def write_live(lake: LakeTables, run: Run, comparison: LiveComparison) -> None:
    """Adds the rows of ``run`` to `agreement` and `findings`."""
    tally, cluster_id = comparison.tally(), run.identity.cluster_id
    findings = with_texts(with_ids(tally.findings), {})
    lake.append_rows("agreement", tally.rows(), run.run_id, cluster_id)
    if findings:
        lake.append_rows("findings", list(map(asdict, findings)), run.run_id, cluster_id)


def compare_live(
    lake: LakeTables, source: KafkaSource, run: Run, groups: Sequence[str] | None = None
) -> LiveComparison:
    """Compares the state tables, which are as of the end of ``run``, with what the cluster says
    now: of ``groups``; if None, of all groups or, if there are many, of a sample. Raises
    SourceError if the cluster does not answer."""
    sample = GroupSample.of(lake.count("groups"), groups)
    with ThreadPoolExecutor(1) as pool:
        reading = pool.submit(_lake_state, lake, sample)

        def chosen(listed: list[str]) -> list[str]:
            ours = {row["group_id"] for row in reading.result().groups}
            return sorted(ours.union(filter(sample.has, listed)))

        live = snapshot(
            source.bootstrap,
            source.settings.librdkafka(),
            source.topic,
            chosen=chosen,
            cluster=source.cluster,
        )
        state = reading.result()
    read = {r.partition: r.end for r in run.ranges}
    changed = _changed_between(lake, source, run, read, live.ends, sample.rows())
    found = compare(state, live, changed)
    if not found.differences:
        return found
    # If the log cleaner has removed a record that was about to be read, a later one has its key.
    read = {partition: end.end for partition, end in live.ends.items()}
    later = _changed_between(
        lake, source, run, read, source.cluster.ends(source.topic), sample.rows()
    )
    return compare(state, live, changed | later)


def _lake_state(lake: LakeTables, sample: GroupSample) -> LakeState:
    """The state of the groups of ``sample``. Only a sample by hashes needs Spark."""
    if sample.names is None and sample.buckets < BUCKETS:
        rows = {
            table: collect_rows(lake.read(table).where(sample.rows()).select(*columns))
            for table, columns in LAKE_COLUMNS.items()
        }
    else:
        names = sample.names
        wanted = [] if names is None else [Condition("group_id", "among", tuple(sorted(names)))]
        rows = {
            table: lake.columns(table, columns, wanted).to_pylist()
            for table, columns in LAKE_COLUMNS.items()
        }
    streams = _streams_state(lake, rows["groups"])
    return LakeState(
        **rows,
        tasks=streams.tasks,
        topologies=streams.topologies,
        erased=were_names_erased(lake.rows("runs")),
    )


def _streams_state(lake: LakeTables, groups: Sequence[LakeRow]) -> StreamsState:
    """The tasks and topologies of the streams groups among ``groups``."""
    names = tuple(row["group_id"] for row in groups if row["type"] == "streams")
    if not names:
        return StreamsState()
    wanted = [Condition("kind", "among", STREAMS_KINDS), Condition("group_id", "among", names)]
    return streams_state(lake.columns("control_state", STREAMS_COLUMNS, wanted))


def _changed_between(
    lake: LakeTables,
    source: KafkaSource,
    run: Run,
    read: Mapping[int, int],
    ends: Mapping[int, LiveEnds],
    chosen: Column,
) -> ChangedSince:
    """What the records from the offsets ``read`` to ``ends`` change, those of open transactions
    included."""
    starts = {p: max(read.get(p, 0), end.first) for p, end in ends.items()}
    ranges = [OffsetRange(p, starts[p], end.end) for p, end in ends.items() if end.end > starts[p]]
    if not ranges:
        return ChangedSince()
    decoder = records_decoder(control_plan(run.dialect).plan, starts)
    raw = source.read(lake.spark, ranges, committed=False)
    rows = map_in_arrow(raw, decoder, pa.schema(list(STREAM_FIELDS.items())))
    nameless = F.col("group_id").isNull()
    commit = F.col("kind") == kinds.COMMIT
    changes = (
        rows.where(nameless | chosen)
        .select(
            F.when(nameless, F.col("partition")).alias("partition"),
            "group_id",
            F.when(commit, F.col("topic")).alias("topic"),
            F.when(commit, F.col("topic_partition")).alias("topic_partition"),
        )
        .distinct()
        .collect()
    )
    named = [row for row in changes if row["group_id"] is not None]
    return ChangedSince(
        {row["group_id"] for row in named if row["topic"] is None},
        {tuple(row)[1:] for row in named if row["topic"] is not None},
        {row["partition"] for row in changes if row["group_id"] is None},
    )
