"""Measures `kip848 simulate`: records per second with one process for each core, and the memory.

python -m benchmarks.simulate [PROFILE] [RECORDS]
"""

from __future__ import annotations

import os
import resource
import sys
import tempfile
import time
from pathlib import Path

from kip848_spark.simulation import plan_cluster, simulate

RECORDS = 10_000_000


def main() -> None:
    """Simulates one cluster; prints the time, the size and the peak memory."""
    profile = sys.argv[1] if len(sys.argv) > 1 else "churn"
    records = int(sys.argv[2]) if len(sys.argv) > 2 else RECORDS
    with tempfile.TemporaryDirectory(prefix="kip848-bench-") as folder:
        out = Path(folder) / "capture"
        started = time.perf_counter()
        outcome = simulate(plan_cluster(profile, records, seed=848), out)
        took = time.perf_counter() - started
        size = sum(file.stat().st_size for file in out.glob("*.parquet"))
    print(
        f"{profile}: {outcome.records:,} records of {outcome.groups} groups in {took:.0f} s on "
        f"{os.cpu_count()} cores: {outcome.records / took:,.0f} a second, {size / 1e6:,.0f} MB; "
        f"peak memory {_peak(resource.RUSAGE_SELF):,} MB, "
        f"of the largest worker {_peak(resource.RUSAGE_CHILDREN):,} MB"
    )


def _peak(who: int) -> int:
    """The peak resident memory in MB. Linux counts in KB, macOS in bytes."""
    peak = resource.getrusage(who).ru_maxrss
    return peak // (1 << 20 if sys.platform == "darwin" else 1 << 10)


if __name__ == "__main__":
    main()
