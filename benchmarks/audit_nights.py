"""Measures the audits of nights in which all groups change (part of `make bench`).

    python -m benchmarks.audit_nights [--records N] [--groups N] [--nights N]

The records are those of a simulated cluster with much churn (profile churn, 16 partitions). A first
night reads half of them, and each further night an equal part of the rest. Two lakes read the same
nights, one after another in one warm session: the audits of the one go on from saved audits, those
of the other replay all control records of the changed groups. Both must give the same verdicts."""

from __future__ import annotations

import argparse
import json
import tempfile
from collections.abc import Iterator
from pathlib import Path
from unittest.mock import patch

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.sql import SparkSession
from rich.console import Console
from rich.table import Table

from benchmarks.captures import TOPIC
from kip848_spark.simulation import plan_cluster, simulate
from kip848_spark.spark.jobs import audit
from kip848_spark.spark.jobs.audit import agreement_rows
from kip848_spark.spark.pipeline import run_ingest
from kip848_spark.spark.session import local_session
from kip848_spark.spark.sources import CaptureSource
from kip848_spark.spark.storage.opening import open_lake

RECORDS, GROUPS, NIGHTS = 5_000_000, 200, 10
PARTITIONS = 16
SAVED, WHOLE = "from saved audits", "from the first record"

Night = dict[str, float]


def main() -> None:
    """Measures, prints the table and writes it as JSON beside this file."""
    parser = argparse.ArgumentParser(description="What an audit costs if all groups change.")
    parser.add_argument("--records", type=int, default=RECORDS)
    parser.add_argument("--groups", type=int, default=GROUPS)
    parser.add_argument("--nights", type=int, default=NIGHTS)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="kip848-bench-") as name:
        folder = Path(name)
        plan = plan_cluster(
            "churn", arguments.records, 0, partitions=PARTITIONS, groups=arguments.groups
        )
        simulate(plan, folder / "capture", check=False)
        captures = list(parts(folder, arguments.nights))
        spark = local_session()
        try:
            measure(spark, captures[:1], folder / "warm-up")
            found = {SAVED: measure(spark, captures, folder / "saved")}
            with patch.object(audit, "find_saved", return_value=None):
                found[WHOLE] = measure(spark, captures, folder / "whole")
        finally:
            spark.stop()
    if [n["verdicts"] for n in found[SAVED]] != [n["verdicts"] for n in found[WHOLE]]:
        raise RuntimeError("an audit from a saved one gives other verdicts")
    show(found)
    Path(__file__).with_suffix(".json").write_text(json.dumps(found, indent=1) + "\n")


def parts(folder: Path, nights: int) -> Iterator[Path]:
    """The capture as each night finds it: a part of each partition, each time a larger one."""
    files = sorted((folder / "capture").glob("*.parquet"))
    records = pa.concat_tables(pq.read_table(file) for file in files)
    last = records.group_by("partition").aggregate([("offset", "max")]).sort_by("partition")
    ends = pc.add(last["offset_max"], 1).combine_chunks()
    place = pc.index_in(records["partition"], value_set=last["partition"].combine_chunks())
    share = pc.divide(records["offset"].cast(pa.float64()), ends.take(place).cast(pa.float64()))
    for number in range(nights + 1):
        read = records.filter(pc.less(share, 0.5 + 0.5 * number / nights))
        pq.write_table(read, folder / f"{number}.parquet")
        yield folder / f"{number}.parquet"


def measure(spark: SparkSession, captures: list[Path], place: Path) -> list[Night]:
    """Reads the captures into a lake, one a night. By night: the seconds of the audit, the control
    records that are new and all there are, and the verdicts."""
    lake = open_lake(spark, str(place))
    nights: list[Night] = []
    for capture in captures:
        source = CaptureSource(str(capture), "parquet", TOPIC)
        run = run_ingest(source, lake, then_replay=True, then_audit=True).run
        assert run is not None
        agreement = agreement_rows(lake, run.run_id)
        if any(row["disagreed"] for row in agreement):
            raise RuntimeError("verdicts disagree on simulated records")
        control = lake.count("group_records")
        nights.append(
            {
                "new": control - (nights[-1]["control"] if nights else 0),
                "control": control,
                "verdicts": sum(row["verified"] + row["unverifiable"] for row in agreement),
                "audit": run.durations_ms["audit"] / 1000,
            }
        )
    return nights


def show(found: dict[str, list[Night]]) -> None:
    """A row for each night."""
    table = Table(title="seconds of the audit; control records; one warm session")
    for column in ("night", "new", "all", "verdicts", SAVED, WHOLE):
        table.add_column(column, justify="right")
    for number, (saved, whole) in enumerate(zip(found[SAVED], found[WHOLE], strict=True)):
        counts = (f"{saved[name]:,.0f}" for name in ("new", "control", "verdicts"))
        table.add_row(str(number), *counts, f"{saved['audit']:.2f}", f"{whole['audit']:.2f}")
    Console(width=110).print(table)


if __name__ == "__main__":
    main()
