"""Measures our decoder over one file: `benchmarks.decode` starts it like the programs in `peers/`.

    python -m benchmarks.ours FILE MODE PASSES ROWS

ROWS is the number of records in a batch. MODE ``kept`` keeps the columns of all batches until the
pass ends, ``dropped`` does not; ``flat`` is ``kept`` with the fields of the key repeated for every
record, where otherwise a record refers to its distinct key."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

import pyarrow as pa

from kip848_spark.wire.decode import Decoded, DecodePlan, decode
from kip848_spark.wire.definitions import load_shipped
from kip848_spark.wire.tables import key_column

KEPT, DROPPED, FLAT = "kept", "dropped", "flat"


def main() -> None:
    file, mode, passes, rows = sys.argv[1:]
    pa.set_cpu_count(1)
    plan = DecodePlan.of(load_shipped())
    with pa.OSFile(file) as source:
        (batch,) = pa.ipc.open_file(source).read_all().to_batches()
    keys, values = batch.columns
    best = float("inf")
    for _ in range(int(passes)):
        results: list[Any] = []
        start = time.process_time()
        for first in range(0, len(keys), int(rows)):
            part = slice(first, first + int(rows))
            decoded = decode(plan, keys[part], values[part])
            if decoded.reason.any():
                raise RuntimeError("a record could not be read")
            if mode == FLAT:
                results.append((decoded, key_columns(decoded)))
            elif mode == KEPT:
                results.append(decoded)
        best = min(best, time.process_time() - start)
        del results
    peak = int(Path("/proc/self/status").read_text().split("VmHWM:")[1].split()[0])
    print(json.dumps({"seconds": best, "read": len(keys), "peak_kib": peak}))


def key_columns(decoded: Decoded) -> list[pa.Array]:
    """The fields of the key, for every record."""
    return [
        key_column(decoded, None, pa.string()),
        key_column(decoded, "member_id", pa.string()),
        key_column(decoded, "topic", pa.string()),
        key_column(decoded, "partition", pa.int32()),
    ]


if __name__ == "__main__":
    main()
