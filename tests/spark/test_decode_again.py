"""Records of a format that an earlier version did not know are decoded again after an upgrade."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark import cloudpickle
from pyspark.sql import SparkSession

from kip848_spark.lake import erasure
from kip848_spark.lake.ledger import Ledger, RecordCounts
from kip848_spark.lake.snapshot import LakeSnapshot
from kip848_spark.lake.tables import TABLES
from kip848_spark.spark import plans
from kip848_spark.spark.jobs import decode_again, ingest
from kip848_spark.spark.jobs.decode_again import DecodeAgain, correct_counts
from kip848_spark.spark.jobs.erasure import ErasedNames
from kip848_spark.spark.maintenance import run_maintenance
from kip848_spark.spark.pipeline import run_ingest, run_repair
from kip848_spark.spark.storage.opening import open_lake
from kip848_spark.spark.storage.tables import LakeTables
from kip848_spark.state.kinds import COMMIT
from kip848_spark.wire.control import ControlPlan
from kip848_spark.wire.decode import DecodePlan, decode
from kip848_spark.wire.dialects import load_plan
from kip848_spark.wire.tables import record_columns
from tests.captures import COMMITTED
from tests.conftest import DATA
from tests.spark.conftest import Copy
from tests.spark.lakes import TABLES_OF_RECORDS, assert_same_rows, halves, rows, source, write_part

CAPTURE = DATA / "kafka-4.3.1" / COMMITTED
EPOCHS, TARGETS, COMMITS = 3, 6, 1
"""Key types of the records of consumer groups, and of offset commits."""
OF_THE_TIME = ("run_id", "cluster_id", "cause", "gap_cause")
"""The causes of gaps depend on the keys that a run has seen."""
GROUP = "demo.uniform"
MILLISECOND = timedelta(milliseconds=1)


def known_to_earlier_version(without: int, versions: int | None = None) -> DecodePlan:
    """What a version of this program knows that lacks the key type ``without``, or its value
    versions from ``versions`` on."""
    plan = load_plan("shipped")
    records = dict(plan.records)
    values = {v: one for v, one in records[without].values.items() if v < (versions or 0)}
    records[without] = replace(records[without], values=values)
    if not values:
        del records[without]
    return replace(plan, records=records)


@contextmanager
def earlier_version(without: int, versions: int | None = None) -> Iterator[None]:
    """In the block, this program is such a version, in the driver and in the workers."""
    known = ControlPlan.of(known_to_earlier_version(without, versions))
    cloudpickle.register_pickle_by_value(erasure)  # type: ignore[no-untyped-call]
    try:
        with (
            patch.object(ingest, "control_plan", lambda _: known),
            patch.object(plans, "control_plan", lambda _: known),
            patch.object(decode_again, "control_plan", lambda _: known),
            patch.object(erasure, "control_plan", lambda _: known),
        ):
            yield
    finally:
        cloudpickle.unregister_pickle_by_value(erasure)  # type: ignore[no-untyped-call]


def run(lake: LakeTables, capture: Path = CAPTURE, *, then_audit: bool = False) -> bool:
    return run_ingest(source(capture), lake, then_replay=True, then_audit=then_audit).changed


def unknown(lake: LakeTables) -> int:
    """How many records the ledger counts as unknown."""
    return sum(one.counts.unknown for one in Ledger(lake).finished() if one.counts)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("key_type", "versions", "by_spark"),
    [
        pytest.param(EPOCHS, None, False, id="a new record"),
        pytest.param(COMMITS, 4, False, id="a new version of commits"),
        pytest.param(EPOCHS, None, True, id="spark", marks=pytest.mark.long),
    ],
)
def test_an_upgrade_reads_what_was_unknown(
    key_type: int,
    versions: int | None,
    by_spark: bool,
    spark: SparkSession,
    capture_lake: LakeTables,
    tmp_path: Path,
) -> None:
    """The older version runs twice, the newer one without new records, and once more."""
    lake = open_lake(spark, str(tmp_path / "lake"), by_spark=by_spark)
    first = write_part(CAPTURE, tmp_path / "first.parquet", halves(CAPTURE))
    with earlier_version(key_type, versions):
        run(lake, first)
        run(lake)
        assert not run(lake)
    assert unknown(lake) > 0

    assert run(lake)

    assert_same_rows(lake, capture_lake, TABLES_OF_RECORDS, leave_out=OF_THE_TIME)
    assert unknown(lake) == 0
    found = [one.counts for one in Ledger(lake).finished() if one.counts]
    wanted = Ledger(capture_lake).last()
    assert wanted is not None
    assert wanted.counts is not None
    for name in ("records_read", "decoded", "tombstones", "quarantined"):
        assert sum(getattr(one, name) for one in found) == getattr(wanted.counts, name), name
    assert not any(one.errors for one in found)
    versions_then = lake.versions()
    assert not run(lake)
    assert lake.versions() == versions_then


@pytest.mark.slow
def test_killed_and_then_audited(
    spark: SparkSession, audited_lake: LakeTables, tmp_path: Path
) -> None:
    """The audit of the earlier version could not judge the records, so the next one does."""
    lake = open_lake(spark, str(tmp_path / "lake"))
    with earlier_version(TARGETS):
        run(lake, then_audit=True)

    def killed(*_: object) -> None:
        raise KeyboardInterrupt

    for place in ("replay_from_scratch", "finish_run"):
        with patch.object(decode_again, place, killed), pytest.raises(KeyboardInterrupt):
            run(lake)
        assert unknown(lake) > 0
    run(lake, then_audit=True)

    tables = [name for name in TABLES_OF_RECORDS if name not in ("agreement", "findings")]
    assert_same_rows(lake, audited_lake, tables, leave_out=OF_THE_TIME)
    assert unknown(lake) == 0
    assert {row["outcome"] for row in lake.rows("runs")} == {"done"}
    for table in ("agreement", "findings"):
        assert of_last_run(lake, table) == of_last_run(audited_lake, table)


def of_last_run(lake: LakeTables, table: str) -> list[str]:
    last = Ledger(lake).last()
    assert last is not None
    found = [row for row in lake.rows(table) if row["run_id"] == last.run_id]
    return sorted(repr({n: v for n, v in row.items() if n not in OF_THE_TIME}) for row in found)


@pytest.mark.slow
def test_what_retention_has_removed_stays_removed(
    spark: SparkSession, capture_lake: LakeTables, copied: Copy, tmp_path: Path
) -> None:
    """Some commits of the unknown version were deleted before the cut. Their tombstones are gone,
    and they must not come back. The other lake had nothing unknown, and was replayed again."""
    since = after_the_deletions(capture_lake)
    expected = copied(capture_lake)
    run_maintenance(expected, 24, keep_since=since)
    expected.append("records", expected.read("records").limit(1))
    assert run_repair(expected).removed == 1
    lake = open_lake(spark, str(tmp_path / "earlier"))
    with earlier_version(COMMITS, 4):
        run(lake)
        run_maintenance(lake, 24, keep_since=since)
    counted = rows(lake, "offset_activity")
    assert counted
    assert unknown(lake) > 0

    assert run(lake)

    tables = [name for name in TABLES_OF_RECORDS if name != "offset_activity"]
    assert_same_rows(lake, expected, tables, leave_out=OF_THE_TIME)
    assert rows(lake, "offset_activity") == counted, "the day of the cut is as it was"
    assert not run(lake), "the ledger agrees with the tables"


@pytest.mark.slow
def test_an_erased_group_stays_erased(
    spark: SparkSession, capture_lake: LakeTables, copied: Copy, tmp_path: Path
) -> None:
    """Nobody knew of which group the records were, so the erasure put zeros in place of its
    name. The other lake had nothing unknown."""
    names = ErasedNames.parse([f"group:{GROUP}"])
    expected = copied(capture_lake)
    run_maintenance(expected, 24, erased=names)
    lake = open_lake(spark, str(tmp_path / "earlier"))
    with earlier_version(EPOCHS):
        run(lake)
        run_maintenance(lake, 24, erased=names)
    zeros = bytes(len(GROUP))
    raw = LakeSnapshot(lake.place).select("records", columns=["raw_key"])["raw_key"].to_pylist()
    of_group = sum(zeros in key for key in raw if key)
    assert of_group > 0

    assert run(lake)

    assert_same_rows(lake, expected, TABLES_OF_RECORDS, leave_out=OF_THE_TIME)
    removed = [sum(one.removed.values()) for one in Ledger(lake).finished() if one.decoded_again]
    assert removed == [of_group]
    assert not run(lake), "the ledger agrees with the tables"


def after_the_deletions(lake: LakeTables) -> datetime:
    """The first millisecond after the last tombstone of a commit: a cut that follows them all."""
    columns = ["kind", "tombstone", "timestamp"]
    records = LakeSnapshot(lake.place).select("records", columns=columns).to_pylist()
    deletions = [r["timestamp"] for r in records if r["kind"] == COMMIT and r["tombstone"]]
    last: datetime = max(deletions)
    assert any(row["timestamp"] > last + MILLISECOND for row in records)
    return last.astimezone(UTC) + MILLISECOND


def unknown_rows(plan: DecodePlan, keys: list[bytes], run_ids: list[str]) -> pa.RecordBatch:
    """Rows of `records` as a version with ``plan`` has them, for tombstones with these keys."""
    fields = TABLES["records"].fields
    raw = pa.array(keys, pa.binary()), pa.nulls(len(keys), pa.binary())
    columns: dict[str, Any] = {name: pa.nulls(len(keys), type_) for name, type_ in fields.items()}
    columns |= record_columns(plan, decode(plan, *raw), *raw)
    columns |= {"run_id": pa.array(run_ids)}
    return pa.RecordBatch.from_pydict({name: columns[name].cast(t) for name, t in fields.items()})


def test_names_in_which_an_erasure_left_zeros() -> None:
    """The name of a group in a key of the capture is replaced in part and as a whole."""
    keys = pq.read_table(CAPTURE, columns=["key"])["key"].to_pylist()
    key = next(key for key in keys if key[1] == EPOCHS and GROUP.encode() in key)
    whole, part = (key.replace(name, bytes(len(name))) for name in (GROUP.encode(), b"uniform"))
    batch = unknown_rows(
        known_to_earlier_version(EPOCHS), [key, whole, part, whole], ["1", "1", "1", "2"]
    )
    assert batch.column("error").null_count == 0
    (found,) = DecodeAgain(load_plan("shipped"), erased_until="2")(iter([batch]))
    assert found.column("_erased").to_pylist() == [False, True, False, False]
    assert found.column("group_id").to_pylist()[0] == GROUP
    assert found.column("error").to_pylist() == [None, None, "unknown_key_type at key byte 0", None]
    assert found.column("kind").to_pylist()[2] == "unknown"
    assert found.column("raw_key").to_pylist() == batch.column("raw_key").to_pylist()


def test_counts_of_a_run_are_corrected() -> None:
    """Of ten unknown records, maintenance has removed three; one of the rest is damaged, and one
    is of a version that is still unknown."""
    before = RecordCounts(
        20, 6, 2, 10, 2, 5, errors={"unknown_key_type": 10, "truncated": 2}, unknown_tags={"a": 1}
    )
    one = {"before": "unknown_key_type", "reason": None, "tombstone": False, "tags": 0, "kind": "a"}
    found = [
        one | {"records": 3, "tags": 4},
        one | {"records": 2, "tombstone": True, "tags": None},
        one | {"records": 1, "reason": "truncated", "kind": "b"},
        one | {"records": 1, "reason": "unknown_value_version"},
    ]
    assert correct_counts(before, found) == RecordCounts(
        20, 9, 4, 4, 3, 5,
        errors={"unknown_key_type": 3, "truncated": 3, "unknown_value_version": 1},
        unknown_tags={"a": 5},
    )  # fmt: skip
