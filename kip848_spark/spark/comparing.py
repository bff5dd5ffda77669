"""The live comparison: the state tables of a lake against the cluster's own answers."""

from __future__ import annotations

from typing import Any

from kip848_spark.audit.live import Comparison, Rebuilt, compare
from kip848_spark.live import snapshot
from kip848_spark.spark.lake import Lake
from kip848_spark.spark.sources import KafkaSource
from kip848_spark.spark.views import Views


def compare_live(lake: Lake, source: KafkaSource) -> Comparison:
    """What the last run rebuilt against what the cluster says now. Raises SourceError.

    The state comes to the driver, as the cluster's answers do.
    """
    views = Views(lake)

    def rows(table: str) -> list[dict[str, Any]]:
        return [row.asDict(recursive=True) for row in views.table(table).collect()]

    rebuilt = Rebuilt(*(rows(name) for name in ("groups", "members", "assignments", "offsets")))
    live = snapshot(source.bootstrap, source.settings.librdkafka(), source.topic)
    return compare(rebuilt, live, {r.partition: r.end for r in views.run.ranges})
