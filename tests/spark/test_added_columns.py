"""A lake of an earlier version, whose tables lack columns of the present ones."""

from __future__ import annotations

import shutil
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from kip848_spark.kafka.topic import TopicIdentity
from kip848_spark.lake.ledger import DONE, Ledger, Run
from kip848_spark.lake.snapshot import LakeSnapshot
from kip848_spark.lake.tables import TABLES
from kip848_spark.spark.storage.opening import open_lake
from kip848_spark.spark.storage.spark_written import SparkWrittenTables
from kip848_spark.spark.storage.tables import LakeTables
from kip848_spark.spark.storage.worker_written import WorkerWrittenTables
from kip848_spark.spark.views import LakeViews

pytestmark = pytest.mark.slow

ADDED = {"findings": ("finding_id", "caused_by"), "topics": ("racks",), "runs": ("durations_ms",)}
"""Columns that the tables of the lake lack: of each kind of type, and of the ledger itself."""
LATER_FIELDS = ("stored_description_topology_epoch", "failed_description_topology_epoch")
"""Fields of the struct ``streams_group_metadata`` of `group_records` that Kafka 4.4 added."""
TOPIC = {"topic": "foo", "topic_id": "id", "partitions": 3, "racks": [["a"], []]}
FINDING = dict.fromkeys(TABLES["findings"].fields) | {"group_id": "early", "run_id": "1"}


@pytest.fixture(scope="module", params=[False, True], ids=["workers", "spark"])
def untouched(
    request: pytest.FixtureRequest, spark: SparkSession, tmp_path_factory: pytest.TempPathFactory
) -> LakeTables:
    """A lake without the columns, with a row in each of the tables. Tests only copy it."""
    place = str(tmp_path_factory.mktemp("old") / "lake")
    lake = open_lake(spark, place, by_spark=request.param)
    with pytest.MonkeyPatch.context() as earlier:
        for name, columns in ADDED.items():
            table = TABLES[name]
            fields = {n: type_ for n, type_ in table.fields.items() if n not in columns}
            earlier.setitem(TABLES, name, replace(table, fields=fields))
        records = TABLES["group_records"]
        struct = records.fields["streams_group_metadata"]
        before = pa.struct([field for field in struct if field.name not in LATER_FIELDS])
        fields = dict(records.fields) | {"streams_group_metadata": before}
        earlier.setitem(TABLES, "group_records", replace(records, fields=fields))
        lake.create()
        lake.append_rows("findings", [FINDING], "1", None)
        lake.append_rows("topics", [TOPIC], "1", None)
        now = datetime.now(UTC)
        identity = TopicIdentity("__consumer_offsets", None, None)
        run = Run("1", "test", identity, "shipped", (), lake.versions(), now, DONE, finished_at=now)
        Ledger(lake).write(run)
    return lake


@pytest.fixture
def old_lake(untouched: LakeTables, tmp_path: Path) -> LakeTables:
    """A copy of that lake, opened by this version of the program."""
    shutil.copytree(str(untouched.place.folder), tmp_path / "lake")
    by_spark = isinstance(untouched, SparkWrittenTables)
    return open_lake(untouched.spark, str(tmp_path / "lake"), by_spark=by_spark)


def test_the_same_implementation_opens_it(old_lake: LakeTables, spark: SparkSession) -> None:
    """A lake that the workers wrote must not go over to Spark's slower writer for good."""
    if not isinstance(old_lake, SparkWrittenTables):
        old_lake.upgrade()
        assert isinstance(open_lake(spark, old_lake.path), WorkerWrittenTables)


def test_fields_of_a_struct_are_added(old_lake: LakeTables) -> None:
    """Otherwise a run could not write the records of a newer Kafka to a lake of an earlier
    version."""
    assert set(LATER_FIELDS).isdisjoint(_struct_fields(old_lake))
    with old_lake.hold_lease():
        old_lake.upgrade()
        again = old_lake.versions()
        old_lake.upgrade()
    assert set(LATER_FIELDS) <= set(_struct_fields(old_lake))
    assert old_lake.versions() == again, "there is nothing left to add"


def _struct_fields(lake: LakeTables) -> list[str]:
    """The fields that are stored; a reader completes them."""
    prefix = "streams_group_metadata."
    paths = lake._field_paths("group_records")
    return [path.removeprefix(prefix) for path in paths if path.startswith(prefix)]


def test_every_reader_gives_nulls_before_and_after(old_lake: LakeTables) -> None:
    for upgraded in (False, True):
        if upgraded:
            with old_lake.hold_lease():
                old_lake.upgrade()
        for table in ("findings", "topics"):
            versions = old_lake.read(table), old_lake.read(table, 1)
            in_views = LakeViews(old_lake).table(table)
            rows = [frame.collect()[0].asDict() for frame in (*versions, in_views)]
            rows += old_lake.rows(table)
            rows += LakeSnapshot(old_lake.place).rows(table)
            assert len(rows) == 5
            for row in rows:
                assert row.keys() == TABLES[table].fields.keys()
                assert all(row[name] is None for name in ADDED[table])
                assert row["group_id" if table == "findings" else "topic"] in ("early", "foo")
        (run,) = LakeSnapshot(old_lake.place).rows("runs")
        assert run["durations_ms"] is None


def test_an_upgrade_adds_the_columns_once(old_lake: LakeTables, spark: SparkSession) -> None:
    before = old_lake.versions()
    with old_lake.hold_lease():
        old_lake.upgrade()
        after = old_lake.versions()
        old_lake.upgrade()
    assert {name for name in TABLES if after[name] != before[name]} == {*ADDED, "group_records"}
    assert old_lake.versions() == after
    for table, columns in ADDED.items():
        described = spark.sql(f"DESCRIBE TABLE delta.`{old_lake.location(table)}`").collect()
        comments = {row.col_name: row.comment for row in described}
        for name in columns:
            assert comments[name] == TABLES[table].comments[name]


def test_new_rows_have_the_columns(old_lake: LakeTables) -> None:
    with old_lake.hold_lease():
        old_lake.upgrade()
        old_lake.append_rows("topics", [TOPIC | {"topic": "new"}], "2", None)
        added = FINDING | {"group_id": "late", "caused_by": "another"}
        old_lake.append_rows("findings", [added], "2", None)
    racks = {row["topic"]: row["racks"] for row in old_lake.rows("topics")}
    assert racks == {"foo": None, "new": [["a"], []]}
    found = old_lake.read("findings").select("group_id", "caused_by").collect()
    assert {tuple(row) for row in found} == {("early", None), ("late", "another")}


def test_a_restored_table_gets_the_columns_again(old_lake: LakeTables) -> None:
    """A version from before the upgrade, which an unfinished run may name, lacks them."""
    version = old_lake.versions()["topics"]
    with old_lake.hold_lease():
        old_lake.upgrade()
        old_lake.append_rows("topics", [TOPIC], "2", None)
        old_lake.restore({"topics": version})
        old_lake.append_rows("topics", [TOPIC | {"topic": "new"}], "2", None)
    racks = {row["topic"]: row["racks"] for row in old_lake.rows("topics")}
    assert racks == {"foo": None, "new": [["a"], []]}
