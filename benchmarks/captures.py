"""The captures of the benchmarks of whole jobs: a simulated cluster, repeated to any size.

The cluster has stable groups, so most records are commits: 50 partitions of `__consumer_offsets`,
one of which has half of the records, and one group for every 2,000 records. One million records are
simulated; larger captures repeat them with other group names."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from rich.console import Console

from benchmarks.replicate import replicate
from kip848_spark.simulation import plan_cluster, simulate
from kip848_spark.spark.sources import CaptureSource

SIMULATED, WARM_UP = 1_000_000, 50_000
RECORDS_A_GROUP = 2_000
TOPIC = "__consumer_offsets"


def create_captures(folder: Path, millions: Sequence[int], console: Console) -> list[CaptureSource]:
    """Writes captures of 50,000 records, for warming up, and of so many ``millions`` of records, to
    ``folder``; returns them in this order."""
    for records in (WARM_UP, SIMULATED):
        console.print(f"simulating {records:,} records …")
        groups = records // RECORDS_A_GROUP
        plan = plan_cluster("steady", records, seed=848, groups=groups, busiest=0.5)
        simulate(plan, folder / f"{records}", check=False)
    for times in millions:
        replicate(folder / f"{SIMULATED}", folder / f"{times}m", times)
    paths = [folder / f"{WARM_UP}", *(folder / f"{times}m" for times in millions)]
    return [CaptureSource(str(path), "parquet", TOPIC) for path in paths]
