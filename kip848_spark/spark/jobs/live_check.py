"""The live comparison: the state tables of a lake against the cluster's own answers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass

import pyarrow as pa
from pyspark.sql import Column
from pyspark.sql import functions as F

from kip848_spark.checks.live_comparison import Comparison, Moved, Rebuilt, compare
from kip848_spark.checks.settings import BUCKETS, bucket_of
from kip848_spark.errors import SourceError
from kip848_spark.kafka.admin import snapshot
from kip848_spark.kafka.snapshot import LiveEnds
from kip848_spark.kafka.topic import OffsetRange
from kip848_spark.lake.ledger import Run
from kip848_spark.spark.jobs.sampling import sampled
from kip848_spark.spark.map_in_arrow import map_in_arrow
from kip848_spark.spark.sources import KafkaSource
from kip848_spark.spark.storage.tables import LakeTables
from kip848_spark.state import kinds
from kip848_spark.wire.control_plans import control_plan
from kip848_spark.wire.record_stream import STREAM_FIELDS, records_decoder

GROUPS_ASKED = 5_000
"""Groups that are compared, about: each costs a request, and comes to the driver."""


@dataclass(frozen=True)
class Sample:
    """Groups to compare: those named, or those in one of the first ``share`` of `BUCKETS`."""

    share: int = BUCKETS
    names: frozenset[str] | None = None

    @classmethod
    def of(cls, groups: int, names: Sequence[str] | None) -> Sample:
        """A sample of so many groups, or the groups with these ``names``."""
        if names is not None:
            return cls(names=frozenset(names))
        return cls(BUCKETS * GROUPS_ASKED // max(groups, GROUPS_ASKED))

    def has(self, name: str) -> bool:
        """Whether the group is one of them."""
        return bucket_of(name) < self.share if self.names is None else name in self.names

    def rows(self) -> Column:
        """Whether the group of a row is."""
        return sampled(self.share) if self.names is None else F.col("group_id").isin(*self.names)


def judge_live(
    lake: LakeTables, source: KafkaSource, run: Run, groups: Sequence[str] | None = None
) -> Comparison:
    """Compares, and adds the rows of ``run`` to `agreement` and `findings`. A cluster that does
    not answer any more is no failure of the run: nothing could be judged."""
    try:
        comparison = compare_live(lake, source, run, groups)
    except SourceError as cause:
        comparison = Comparison()
        comparison.unjudged[f"no answer: {cause.message}"] += 1
    tally, cluster_id = comparison.tally(), run.identity.cluster_id
    lake.append_rows("agreement", tally.rows(), run.run_id, cluster_id)
    if tally.findings:
        lake.append_rows("findings", list(map(asdict, tally.findings)), run.run_id, cluster_id)
    return comparison


def compare_live(
    lake: LakeTables, source: KafkaSource, run: Run, groups: Sequence[str] | None = None
) -> Comparison:
    """The state tables as they are, up to the ends of ``run``, against what the cluster says now:
    of ``groups``, else of all or, where there are many, a sample. Raises SourceError."""
    sample = Sample.of(lake.count("groups"), groups)
    chosen = sample.rows()
    rebuilt = Rebuilt(
        *(
            [row.asDict(recursive=True) for row in lake.read(table).where(chosen).collect()]
            for table in ("groups", "members", "assignments", "offsets")
        )
    )
    ours = {row["group_id"] for row in rebuilt.groups}
    live = snapshot(
        source.bootstrap,
        source.settings.librdkafka(),
        source.topic,
        chosen=lambda listed: sorted(ours.union(filter(sample.has, listed))),
    )
    return compare(rebuilt, live, _moved(lake, source, run, live.ends, chosen))


def _moved(
    lake: LakeTables, source: KafkaSource, run: Run, ends: Mapping[int, LiveEnds], chosen: Column
) -> Moved:
    """What later records than those of ``run`` are about, in open transactions as well."""
    read = {r.partition: r.end for r in run.ranges}
    starts = {p: max(read.get(p, 0), end.first) for p, end in ends.items()}
    ranges = [OffsetRange(p, starts[p], end.end) for p, end in ends.items() if end.end > starts[p]]
    if not ranges:
        return Moved()
    decoder = records_decoder(control_plan(run.dialect).plan, starts)
    raw = source.read(lake.spark, ranges, committed=False)
    rows = map_in_arrow(raw, decoder, pa.schema(list(STREAM_FIELDS.items())))
    nameless = F.col("group_id").isNull()
    commit = F.col("kind") == kinds.COMMIT
    told = (
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
    named = [row for row in told if row["group_id"] is not None]
    return Moved(
        {row["group_id"] for row in named if row["topic"] is None},
        {tuple(row)[1:] for row in named if row["topic"] is not None},
        {row["partition"] for row in told if row["group_id"] is None},
    )
