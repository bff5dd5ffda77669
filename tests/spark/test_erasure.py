"""Erasure on request: afterwards, no byte of the lake's folder has the names."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from kip848_spark.errors import LakeError, UsageError
from kip848_spark.lake.snapshot import LakeSnapshot
from kip848_spark.spark.jobs.audit import AuditRequest
from kip848_spark.spark.jobs.erasure import ErasedNames
from kip848_spark.spark.maintenance import run_maintenance
from kip848_spark.spark.pipeline import run_audit, run_ingest
from kip848_spark.spark.storage.opening import open_lake
from kip848_spark.spark.storage.tables import LakeTables
from kip848_spark.state.partition_fold import CARRY
from tests.captures import COMMITTED
from tests.conftest import DATA
from tests.spark.conftest import Copy
from tests.spark.lakes import rows_of_files, source

pytestmark = [pytest.mark.long, pytest.mark.timeout(1200)]

CAPTURE = DATA / "kafka-4.3.1" / COMMITTED
GROUP, CLIENT, HOST = "demo.uniform", "classic-3", "127.0.0.1"
NAMES = [f"group:{GROUP}", f"client:{CLIENT}", f"host:{HOST}"]


def contents(folder: Path) -> Iterator[tuple[Path, bytes]]:
    """Every file of a lake: its bytes, and those of all values of a Parquet file."""
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            yield path, path.read_bytes()
            if path.suffix == ".parquet":
                for values in leaves(pq.read_table(path)):
                    yield path, values


def leaves(table: pa.Table) -> Iterator[bytes]:
    for column in table.columns:
        array = column.combine_chunks()
        yield repr(array.to_pylist()).encode()
        if pa.types.is_binary(array.type):
            yield b"|".join(value for value in array.to_pylist() if value)
    if "kind" in table.column_names and "raw_value" in table.column_names:
        for value in table.filter(pc.equal(table["kind"], CARRY))["raw_value"].to_pylist():
            yield from leaves(pa.ipc.open_stream(value).read_all())


def files_with(folder: Path, name: str) -> set[str]:
    return {
        str(path.relative_to(folder)) for path, found in contents(folder) if name.encode() in found
    }


def groups_of(rows: list[dict[str, Any]]) -> set[str]:
    return {row["group_id"] for row in rows}


@pytest.mark.parametrize("by_spark", [False, True], ids=["workers", "spark"])
def test_no_trace_is_left(
    by_spark: bool,
    spark: SparkSession,
    audited_lake: LakeTables,
    copied: Copy,
    tmp_path: Path,
) -> None:
    if by_spark:
        lake = open_lake(spark, str(tmp_path / "lake"), by_spark=True)
        run_ingest(source(CAPTURE), lake, then_replay=True, then_audit=True)
    else:
        lake = copied(audited_lake)
    folder = Path(lake.path)
    run_audit(lake, AuditRequest())
    before = LakeSnapshot(lake.place)
    others = {
        table: [row for row in before.rows(table) if row["group_id"] != GROUP]
        for table in ("groups", "members", "offsets", "assignments")
    }
    hosts = sum(row["client_host"] == f"/{HOST}" for row in others["members"])
    for name in (GROUP, CLIENT, HOST):
        tables = {name.split("/")[0] for name in files_with(folder, name)}
        assert {"records", "group_records", "control_state", "member_history"} <= tables, name
    assert any("_delta_log" in name for name in files_with(folder, GROUP))

    done = run_maintenance(lake, 24, erased=ErasedNames.parse(NAMES))

    for name in (GROUP, CLIENT, HOST):
        assert files_with(folder, name) == set(), name
    assert done.present > 0
    after = LakeSnapshot(lake.place)
    for table in ("groups", "offsets"):
        assert sorted(map(repr, after.rows(table))) == sorted(map(repr, others[table]))
    members = after.rows("members")
    assert len(members) == len(others["members"])
    assert sum(row["client_host"].startswith("/erased-") for row in members) == hosts > 0
    assert len({row["client_host"] for row in members}) == 1, "one host has one new name"

    # The lake goes on: nothing comes back, the state follows from the changed records.
    assert not run_ingest(source(CAPTURE), lake, then_replay=True, then_audit=True).changed
    run_audit(lake, AuditRequest())
    newest = LakeSnapshot(lake.place)
    audited = [row for row in newest.rows("agreement") if row["run_id"] == newest.run.run_id]
    assert sum(row["disagreed"] for row in audited) == 0
    assert sum(row["verified"] for row in audited) > 100
    assert GROUP not in groups_of(newest.rows("groups"))
    for name in (GROUP, CLIENT, HOST):
        assert files_with(folder, name) == set(), name

    again = run_maintenance(lake, 24, erased=ErasedNames.parse(NAMES))
    assert not any(again.erased.values())
    assert rows_of_files(f"{lake.path}/records")


def test_members_of_the_new_protocol_with_a_client_id_in_their_id(
    audited_lake: LakeTables,
) -> None:
    """A classic consumer in a consumer group keeps the id that the broker gave it."""
    types = {
        row["group_id"]: row["type"] for row in LakeSnapshot(audited_lake.place).rows("groups")
    }
    (client, *_) = (
        row["client_id"]
        for row in LakeSnapshot(audited_lake.place).rows("members")
        if types[row["group_id"]] == "consumer" and row["member_id"].startswith(row["client_id"])
    )
    with pytest.raises(LakeError, match="begins with its name"):
        run_maintenance(audited_lake, 24, erased=ErasedNames.parse([f"client:{client}"]))


def test_a_lake_without_a_finished_run(spark: SparkSession, tmp_path: Path) -> None:
    """It can't be said that its older versions were deleted."""
    lake = open_lake(spark, str(tmp_path / "lake"))
    lake.create()
    with pytest.raises(LakeError, match="nothing was erased"):
        run_maintenance(lake, 24, erased=ErasedNames.parse(["group:orders"]))


@pytest.mark.parametrize("text", ["orders", "topic:orders", "group:", "user:me"])
def test_what_can_not_be_erased(text: str) -> None:
    with pytest.raises(UsageError, match="does not say what to erase"):
        ErasedNames.parse([text])
