"""A run after missed nights warns that tombstones may be gone."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from kip848_spark.cli.jobs import show_outcome
from kip848_spark.spark.jobs import lost_tombstones
from kip848_spark.spark.pipeline import RunOutcome, run_ingest
from kip848_spark.spark.storage.opening import open_lake
from tests.captures import COMMITTED
from tests.conftest import DATA
from tests.spark.lakes import source

pytestmark = pytest.mark.slow

LOG = pq.read_table(DATA / "churn-4.3.1" / COMMITTED)


def two_nights(spark: SparkSession, folder: Path, *, cleaned: bool) -> list[RunOutcome]:
    """The first half of a log, then the rest of it: as it is, or without the records that are
    followed by another one with their key, and without tombstones."""
    offset = LOG["offset"].to_numpy()
    half = int(np.median(offset))
    rest = LOG.filter(pa.array(offset > half)).to_pylist()
    newest = {(row["partition"], row["key"]): row["offset"] for row in rest}
    if cleaned:
        rest = [
            row
            for row in rest
            if newest[row["partition"], row["key"]] == row["offset"] and row["value"] is not None
        ]
    nights = (LOG.filter(pc.less_equal(LOG["offset"], half)), rest)
    lake, outcomes = open_lake(spark, str(folder / "lake")), []
    for number, rows in enumerate(nights):
        table = rows if isinstance(rows, pa.Table) else pa.Table.from_pylist(rows, LOG.schema)
        path = folder / f"night-{number}.parquet"
        pq.write_table(table, path)
        outcomes.append(run_ingest(source(path), lake, then_replay=True))
    return outcomes


@pytest.mark.parametrize(
    ("retention", "cleaned", "warns"),
    [(timedelta(0), True, True), (timedelta(0), False, False), (timedelta(hours=24), True, False)],
    ids=["late", "nothing removed", "in time"],
)
def test_a_run_after_missed_nights(
    retention: timedelta,
    cleaned: bool,
    warns: bool,
    spark: SparkSession,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(lost_tombstones, "RETENTION", retention)
    monkeypatch.setattr(lost_tombstones, "LATE", timedelta(0))
    first, second = two_nights(spark, tmp_path, cleaned=cleaned)
    assert first.missed_since is None
    assert first.run is not None
    assert second.missed_since == (first.run.started_at if warns else None)
    show_outcome(second, "lake")
    assert ("still show groups" in capsys.readouterr().err) == warns
