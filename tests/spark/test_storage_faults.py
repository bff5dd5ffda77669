"""A run in which one storage operation fails, for every operation: the next run makes it good.

After the fault, a reader sees the run before, or the whole new one. After one more run, the tables
have the rows of an undisturbed run. An even sample of the points is tried; `KIP848_FAULT_POINTS` is
its size in the long test, or ``all``.
"""

from __future__ import annotations

import itertools
import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import orjson
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from kip848_spark.errors import Kip848Error, LakeError
from kip848_spark.lake import lease
from kip848_spark.lake.folders import LEASES
from kip848_spark.lake.location import locate
from kip848_spark.lake.snapshot import LakeSnapshot
from kip848_spark.spark.error_messages import translate_spark_errors
from kip848_spark.spark.jobs import audit, audit_input
from kip848_spark.spark.maintenance import run_maintenance
from kip848_spark.spark.pipeline import run_ingest
from kip848_spark.spark.storage.opening import open_lake
from kip848_spark.state.partition_fold import CARRY
from tests.captures import COMMITTED
from tests.conftest import DATA
from tests.spark.lakes import DATA_TABLES, halves, source, write_part
from tests.spark.storage_faults import ERROR, KILL, Killed, StorageFaults

CAPTURE = DATA / "kafka-4.3.1" / COMMITTED
Seen = dict[str, list[str]]
Act = Callable[[Path], None]


def seen_by_readers(lake: Path) -> Seen | None:
    """The rows of each table as a reader gets them, and the runs; None if no run has finished."""
    try:
        snapshot = LakeSnapshot(locate(str(lake)))
    except LakeError:
        return None
    found = {table: _rows(snapshot.table(table)) for table in DATA_TABLES}
    columns = ["from_offsets", "to_offsets", "records_read", "decoded", "missing", "dialect"]
    return found | {"runs": _rows(snapshot.select("runs", columns=columns))}


def _rows(table: pa.Table) -> list[str]:
    if "raw_key" in table.column_names and "kind" in table.column_names:
        table = table.filter(pc.fill_null(pc.not_equal(table["kind"], CARRY), True))
    names = [n for n in table.column_names if n not in ("run_id", "cluster_id", "finding_id")]
    return sorted(map(repr, table.select(names).to_pylist()))


class Scene:
    """A lake before a command, and the command: ``act`` gets the folder of a copy. With
    ``adds_a_run``, the command makes a run even if there is nothing to do."""

    def __init__(self, folder: Path, template: Path | None, act: Act, adds_a_run: bool) -> None:
        self.folder = folder
        self.repeats_add_a_run = adds_a_run
        self.template = template
        self.act = act
        self._numbers = itertools.count()
        self.before = None if template is None else seen_by_readers(template)
        faults, self.after, raised = self.play(0, ERROR)
        if raised is not None:
            raise raised
        assert self.after is not None
        self.points = faults.reached()

    def play(self, at: int, kind: str) -> tuple[StorageFaults, Seen | None, BaseException | None]:
        """The command with a fault at the point ``at``: what readers see then, and what it raised.
        The lake is in ``self.lake``."""
        place = self.folder / f"{next(self._numbers)}"
        place.mkdir(parents=True)
        self.lake = place / "lake"
        if self.template is not None:
            shutil.copytree(self.template, self.lake)
        faults = StorageFaults(place, at, kind)
        raised: BaseException | None = None
        try:
            with faults.in_driver(), translate_spark_errors():
                self.act(self.lake)
        except (Exception, Killed) as cause:
            raised = cause
        if isinstance(raised, Killed) or (place / "dead").exists():
            end_owner(self.lake)
        return faults, seen_by_readers(self.lake), raised

    def check(self, at: int, kind: str) -> str | None:
        """Plays the fault, then repeats the command; describes what is wrong afterwards."""
        faults, seen, raised = self.play(at, kind)
        try:
            what = (faults.reached() or ["nothing"])[:at][-1]
            where = f"{kind} at {at} ({what}): {raised!r}: "
            if kind == ERROR and not isinstance(raised, Kip848Error | None):
                return f"{where}no error of one sentence"
            if seen not in (self.before, self.after):
                return f"{where}a reader saw half of a run: {self._differing(seen)}"
            try:
                self.act(self.lake)
            except Exception as cause:
                return f"{where}the next run failed: {cause!r}"
            found = seen_by_readers(self.lake)
            if found and self.repeats_add_a_run and seen == self.after:
                found["runs"] = self.after["runs"]
            if found != self.after:
                return f"{where}after the next run: {self._differing(found)}"
            return None
        finally:
            shutil.rmtree(self.lake.parent)

    def _differing(self, seen: Seen | None) -> str:
        if seen is None or self.after is None:
            return "no finished run"
        return ", ".join(
            f"{name} ({len(seen[name])} rows, not {len(self.after[name])})"
            for name in seen
            if seen[name] != self.after[name]
        )


def end_owner(lake: Path) -> None:
    """Makes this process, which holds the lake's lease, one that has ended."""
    ended = subprocess.Popen(["true"])
    ended.wait()
    files = sorted((lake / LEASES).glob("[0-9]*.json"))
    if files and (content := files[-1].read_bytes()):
        record: dict[str, Any] = orjson.loads(content)
        if not record["released"]:
            record["owner"]["pid"] = ended.pid
            files[-1].write_bytes(orjson.dumps(record))


@pytest.fixture(scope="module")
def halves_of_a_capture(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """The first half of a small capture, and the whole."""
    folder = tmp_path_factory.mktemp("captures")
    whole = folder / "whole.parquet"
    pq.write_table(pq.read_table(CAPTURE), whole)
    return write_part(whole, folder / "first.parquet", halves(whole)), whole


@pytest.fixture(scope="module", params=["new lake", "second night", "maintenance"])
def scene(
    request: pytest.FixtureRequest,
    halves_of_a_capture: tuple[Path, Path],
    spark: SparkSession,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Scene]:
    first, whole = halves_of_a_capture
    folder = tmp_path_factory.mktemp("faults")

    def night(lake: Path, capture: Path = whole) -> None:
        opened = open_lake(spark, str(lake))
        run_ingest(source(capture), opened, then_replay=True, then_audit=True)

    def maintain(lake: Path) -> None:
        run_maintenance(open_lake(spark, str(lake)), 24)

    with pytest.MonkeyPatch.context() as short:
        # A lease file that was being written when its owner ended is watched for a minute.
        short.setattr(lease, "EXPIRY_S", 2.0)
        template = folder / "template"
        if request.param == "new lake":
            yield Scene(folder, None, lambda lake: night(lake, first), False)
            return
        if request.param == "second night":  # of a large lake, in which audits are saved
            short.setattr(audit, "SAVE_AFTER", 10)
            for module in (audit, audit_input):
                short.setattr(module, "COMMITS_REPLAYED", 0)
        night(template, first)
        if request.param == "maintenance":
            night(template)
            yield Scene(folder, template, maintain, True)
        else:
            second = Scene(folder, template, night, False)
            assert second.after is not None
            assert second.before is not None
            assert second.after["audited_groups"] != second.before["audited_groups"] != []
            yield second


def chosen(count: int, sample: int) -> list[int]:
    """``sample`` evenly spread numbers from 1 to ``count``."""
    return sorted({1 + round(n * (count - 1) / (sample - 1)) for n in range(sample)})


def check_points(scene: Scene, kind: str, sample: int) -> None:
    wrong = []
    print(f"{len(scene.points)} points", flush=True)
    for at in chosen(len(scene.points), sample):
        if (words := scene.check(at, kind)) is not None:
            print(words, flush=True)
            wrong.append(words)
    assert not wrong, "\n".join(wrong)


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("scene", ["second night"], indirect=True)
@pytest.mark.parametrize("kind", [ERROR, KILL])
def test_a_fault_at_some_points(scene: Scene, kind: str) -> None:
    check_points(scene, kind, 5)


@pytest.mark.long
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("kind", [ERROR, KILL])
def test_a_fault_at_many_points(scene: Scene, kind: str) -> None:
    wanted = os.environ.get("KIP848_FAULT_POINTS", "20")
    check_points(scene, kind, len(scene.points) if wanted == "all" else int(wanted))
