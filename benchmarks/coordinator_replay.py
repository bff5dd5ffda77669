"""Measures how fast the reference coordinator loads a log: control records per second on one core.

    python -m benchmarks.coordinator_replay [CAPTURE ...]

The records are those of the captures in tests/data, parsed before the measurement. Offset commits
are left out."""

from __future__ import annotations

import gzip
import json
import sys
import time
from pathlib import Path
from typing import Any

from kip848_spark.coordinator import Coordinator

DATA = Path(__file__).parents[1] / "tests" / "data"
SECONDS = 5.0


def control_records(capture: Path) -> list[dict[str, Any]]:
    """The control records of classic and consumer groups in a capture's dump."""
    kinds = {"2", "3", "4", "5", "6", "7", "8", "16"}
    with gzip.open(capture / "dump.jsonl.gz", "rt") as lines:
        rows = [json.loads(line) for line in lines]
    return [
        {"key": row["key"], "value": row["payload"]}
        for row in rows
        if not row.get("marker") and row["key"]["type"] in kinds
    ]


def rate(release: str, records: list[dict[str, Any]], seconds: float = SECONDS) -> float:
    """Records per second, loading the same log repeatedly for ``seconds`` seconds."""
    started = time.perf_counter()
    done = 0
    while time.perf_counter() - started < seconds:
        coordinator = Coordinator(release)
        for record in records:
            coordinator.replay(record)
        done += len(records)
    return done / (time.perf_counter() - started)


def main() -> None:
    """Measures each capture."""
    for capture in [Path(name) for name in sys.argv[1:]] or sorted(DATA.glob("kafka-*")):
        records = control_records(capture)
        found = rate(capture.name.removeprefix("kafka-"), records)
        print(f"{capture.name}: {found:,.0f} control records a second ({len(records)} in the log)")


if __name__ == "__main__":
    main()
