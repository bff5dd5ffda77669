"""Measures the report and the readiness of a finished lake (part of `make bench`).

    python -m benchmarks.report [MILLIONS]

A lake is made of the records of `benchmarks.captures`: 500 groups for each million. What verdicts
and report add to a night is measured beside ingest and replay, in the same session. Then the lake's
history is lengthened: the rows of the history tables and of the rebalances are repeated at earlier
times, until there are 40 rebalances a group. The verbs are run on both lakes, each in a process of
its own, so that the seconds include the start of Python."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from statistics import median

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable, write_deltalake
from rich.console import Console
from rich.table import Table

from benchmarks.captures import create_captures
from kip848_spark.lake.ledger import new_run_id
from kip848_spark.lake.location import locate
from kip848_spark.lake.snapshot import LakeSnapshot
from kip848_spark.report.data import ReportOptions
from kip848_spark.report.files import write_report
from kip848_spark.spark.pipeline import run_ingest
from kip848_spark.spark.session import local_session
from kip848_spark.spark.sources import RecordSource
from kip848_spark.spark.storage.opening import open_lake
from kip848_spark.state.history_fields import HISTORY_FIELDS

MILLIONS = 10
ROUNDS = 3
REBALANCES_A_GROUP = 40
_TIMES = ("valid_from", "valid_to", "known_from", "started_at", "converged_at")
_OFFSETS = ("from_offset", "to_offset")
Row = dict[str, float]


def main(millions: int = MILLIONS) -> None:
    """Makes the lakes, measures, prints the table and writes it as JSON beside this file."""
    console = Console(width=110)
    with tempfile.TemporaryDirectory(prefix="kip848-bench-") as name:
        folder = Path(name)
        _, capture = create_captures(folder, (millions,), console)
        nights = measure_nights(capture, folder)
        lake = folder / f"lake{ROUNDS}"
        rows = [measure(lake, folder)]
        lengthen(lake, REBALANCES_A_GROUP)
        rows.append(measure(lake, folder))
    show_nights(console, nights)
    show(console, rows)
    found = {"nights": nights, "verbs": rows}
    Path(__file__).with_suffix(".json").write_text(json.dumps(found, indent=1) + "\n")


def measure_nights(capture: RecordSource, folder: Path) -> list[Row]:
    """Seconds of the steps of a first run with a report, a row a round, each into a lake of its
    own. One round before them warms the session up and is left out."""
    rows = []
    spark = local_session()
    try:
        for number in range(ROUNDS + 1):
            path = folder / f"lake{number}"
            outcome = run_ingest(capture, open_lake(spark, str(path)), then_replay=True)
            assert outcome.run is not None
            started = time.perf_counter()
            options = ReportOptions(readiness=outcome.readiness)
            write_report(LakeSnapshot(locate(str(path))), folder / "night.html", options)
            took = outcome.run.durations_ms
            steps = {name: took[name] / 1000 for name in ("ingest", "replay", "readiness")}
            rows.append({**steps, "report": time.perf_counter() - started})
    finally:
        spark.stop()
    for row in rows:
        added = row["readiness"] + row["report"]
        row["ratio"] = added / (row["ingest"] + row["replay"])
    return rows[1:]


def lengthen(path: Path, rebalances_a_group: int) -> None:
    """Repeats the closed rows of the history of the lake at ``path`` before its first record, until
    there are so many rebalances a group. The open rows, which are the current state, stay."""
    snapshot = LakeSnapshot(locate(str(path)))
    groups = snapshot.select("groups", columns=["group_id"]).num_rows
    rebalances = snapshot.table("rebalances")
    times = round(rebalances_a_group * groups / max(1, rebalances.num_rows))
    span = pc.subtract(pc.max(rebalances["started_at"]), pc.min(rebalances["started_at"])).as_py()
    length = span + timedelta(minutes=10)
    for name in (*HISTORY_FIELDS, "rebalances"):
        rows = snapshot.table(name)
        closed = rows.filter(rows["to_offset"].is_valid())
        copies = [_earlier(closed, length * copy, copy) for copy in range(1, times)]
        if copies:
            write_deltalake(path / name, pa.concat_tables(copies), mode="append")
    _add_run(path, snapshot)


def _earlier(rows: pa.Table, time: timedelta, copy: int) -> pa.Table:
    """The rows as of ``time`` before: at lower offsets, in episodes of their own."""
    for name in rows.column_names:
        place = rows.column_names.index(name)
        column = rows[name]
        if name in _TIMES:
            moved = pc.subtract(column, pa.scalar(time, pa.duration("us"))).cast(column.type)
            rows = rows.set_column(place, name, moved)
        elif name in _OFFSETS:
            rows = rows.set_column(place, name, pc.subtract(column, copy * 10**9))
        elif name == "episode_id":
            named = pc.binary_join_element_wise(column, f"of copy {copy}", " ")
            rows = rows.set_column(place, name, named)
    return rows


def _add_run(path: Path, snapshot: LakeSnapshot) -> None:
    """A finished run that leaves the tables as they are now."""
    now = datetime.now(UTC)
    row = snapshot.run.row() | {"run_id": new_run_id(now), "started_at": now, "finished_at": now}
    row |= {"records_read": 0, "decoded": 0, "tombstones": 0, "missing": 0}
    row["table_versions"] = {
        name: DeltaTable(path / name).version() for name in snapshot.run.table_versions
    }
    schema = snapshot.dataset("runs").schema
    columns = {
        field.name: pa.array([_value(row[field.name], field.type)], field.type) for field in schema
    }
    write_deltalake(path / "runs", pa.table(columns), mode="append")


def _value(value: object, type_: pa.DataType) -> object:
    return list(value.items()) if isinstance(value, dict) and pa.types.is_map(type_) else value


def measure(lake: Path, folder: Path) -> Row:
    """Seconds of the verbs (the median of three), and the sizes of the report in bytes."""
    page = folder / "report.html"
    report = _seconds(["report", "--out", str(page), "--lake", str(lake)])
    readiness = _seconds(["readiness", "--json", "--lake", str(lake)])
    summary = json.loads(page.with_suffix(".json").read_text())["summary"]
    return {
        "records": summary["records"],
        "groups": summary["groups"],
        "rebalances": summary["rebalances"],
        "report": report,
        "readiness": readiness,
        "page": page.stat().st_size,
        "data": page.with_suffix(".json").stat().st_size,
    }


def _seconds(words: list[str]) -> float:
    took = []
    for _ in range(ROUNDS):
        started = time.perf_counter()
        subprocess.run(
            [sys.executable, "-m", "kip848_spark", *words], check=True, stdout=subprocess.DEVNULL
        )
        took.append(time.perf_counter() - started)
    return median(took)


def show_nights(console: Console, nights: list[Row]) -> None:
    """The table of what verdicts and report add to a run: a row a round."""
    table = Table(title="a first run, in one warm session")
    steps = ("ingest", "replay", "readiness", "report")
    for name in (*(f"{step} s" for step in steps), "(readiness + report) / (ingest + replay)"):
        table.add_column(name, justify="right")
    for row in nights:
        table.add_row(*(f"{row[step]:.1f}" for step in steps), f"{row['ratio']:.2f}")
    console.print(table)
    console.print(f"median of the ratios: {median(row['ratio'] for row in nights):.2f}")


def show(console: Console, rows: list[Row]) -> None:
    """The table: a row a lake."""
    table = Table(title=f"without a JVM, each in a process of its own; medians of {ROUNDS}")
    counts = ("records", "groups", "rebalances")
    for name in (*counts, "report s", "readiness s", "page MB", "data MB"):
        table.add_column(name, justify="right")
    for row in rows:
        table.add_row(
            *(f"{row[name]:,.0f}" for name in counts),
            *(f"{row[name]:.1f}" for name in ("report", "readiness")),
            *(f"{row[name] / 1e6:.1f}" for name in ("page", "data")),
        )
    console.print(table)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:2]))
