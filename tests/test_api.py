"""The Python API: what docs/api.md promises, in sessions as notebooks have them."""

from __future__ import annotations

import subprocess
import sys
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

import kip848_spark
from kip848_spark import CaptureSource, KafkaSource, Lake, RunResult, decode, decode_records
from kip848_spark.errors import LakeError, NotFoundError, SourceError, UsageError
from kip848_spark.lake.tables import TABLES
from kip848_spark.local.broker import Broker
from kip848_spark.local.scenarios import IdleConsumers
from tests.captures import COMMITTED, DUMP, RECORDS, read_dump
from tests.conftest import DATA
from tests.spark.lakes import OF_THE_RUN, halves, write_part

CAPTURE = DATA / "kafka-4.3.1"
OLD = DATA / "kafka-4.0.2"


@pytest.fixture(scope="module")
def result(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> RunResult:
    lake = Lake(tmp_path_factory.mktemp("api") / "lake")
    return kip848_spark.run(CaptureSource(CAPTURE / COMMITTED), lake, spark=spark)


def test_public_names_are_those_that_are_listed() -> None:
    assert kip848_spark.__all__ == sorted(kip848_spark.__all__)
    for name in kip848_spark.__all__:
        assert getattr(kip848_spark, name) is not None
        assert name in dir(kip848_spark)
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        kip848_spark.nothing  # noqa: B018


def test_decoding_and_reading_need_no_pyspark() -> None:
    """In a process in which pyspark, pandas and confluent_kafka can't be imported."""
    program = f"""
import sys
for name in ("pyspark", "pandas", "confluent_kafka", "py4j"):
    sys.modules[name] = None
import pyarrow.parquet as pq
from kip848_spark import Lake, decode
records = pq.read_table({str(CAPTURE / COMMITTED)!r})
print(decode(records["key"], records["value"]).num_rows)
try:
    Lake("/nowhere").groups()
except Exception as error:
    print(type(error).__name__)
"""
    done = subprocess.run(
        [sys.executable, "-c", program], check=False, capture_output=True, text=True
    )
    expected = f"{pq.read_metadata(CAPTURE / COMMITTED).num_rows}\nLakeError\n"
    assert (done.stdout, done.returncode) == (expected, 0), done.stderr


# Decoding


def as_rows(table: pa.Table) -> list[str]:
    """The rows of a table as text, without the columns of the run, sorted."""
    names = [name for name in table.column_names if name not in OF_THE_RUN]
    return sorted(map(repr, table.select(names).to_pylist()))


def test_decoding_agrees_with_kafkas_own_tool() -> None:
    records = pq.read_table(CAPTURE / RECORDS)
    decoded = decode(records["key"], records["value"])
    places = zip(records["partition"].to_pylist(), records["offset"].to_pylist(), strict=True)
    found = dict(zip(places, decoded.to_pylist(), strict=True))
    dump = {(row["partition"], row["offset"]): row for row in read_dump(CAPTURE / DUMP)}
    for place, row in found.items():
        record = dump[place]
        key = record["key"]["data"]
        assert row["key_type"] == int(record["key"]["type"])
        assert row["group_id"] == key.get("group", key.get("groupId"))
        assert row["tombstone"] == (record["payload"] is None)


def test_arrow_arrays_are_decoded_in_their_order() -> None:
    records = pq.read_table(CAPTURE / COMMITTED)
    decoded = decode(records["key"], records["value"])
    assert decoded.num_rows == records.num_rows
    assert decoded["error"].null_count == records.num_rows
    backwards = pa.array(range(records.num_rows - 1, -1, -1))
    turned = decode(records["key"].take(backwards), records["value"].take(backwards))
    assert turned.equals(decoded.take(backwards).combine_chunks())
    parts = [records.slice(a, b - a) for a, b in pairwise((0, 1, 2, records.num_rows))]
    chunked = pa.concat_tables(parts)
    assert decode(chunked["key"], chunked["value"]).combine_chunks().equals(decoded)


def test_a_record_that_cannot_be_read_has_its_reason() -> None:
    decoded = decode(pa.array([b"\x00\x03\x00\x01g"]), pa.array([b"\x00\x00\x00"]))
    assert decoded["error"].to_pylist() == ["truncated at value byte 2"]
    assert decode(pa.array([], pa.binary()), pa.nulls(0)).num_rows == 0


def test_what_cannot_be_decoded_is_refused() -> None:
    with pytest.raises(UsageError, match="The keys are of type string, not binary"):
        decode(pa.array(["a"]), pa.array([b"b"]))
    with pytest.raises(UsageError, match="2 keys and 1 values"):
        decode(pa.array([b"a", b"b"]), pa.array([b"b"]))
    with pytest.raises(UsageError, match="no dialect kop"):
        decode(pa.array([b"a"]), pa.array([b"b"]), dialect="kop")


def test_auto_chooses_the_dialect_by_the_records() -> None:
    early = pq.read_table(next((DATA / "early-3.7.2").glob("*.parquet")))
    kip = decode(early["key"], early["value"], dialect="kip")
    assert decode(early["key"], early["value"], dialect="auto").equals(kip)
    assert kip["error"].null_count == kip.num_rows


def test_a_dataframe_is_decoded_as_the_arrays_are(spark: SparkSession) -> None:
    frame = spark.read.parquet(str(CAPTURE / COMMITTED)).select(
        "value", "offset", "topic", "partition", "key", "timestamp"
    )
    decoded = decode_records(frame)
    assert decoded.columns[:4] == ["offset", "record_topic", "partition", "timestamp"]
    found = decoded.orderBy("partition", "offset").toArrow()
    records = pq.read_table(CAPTURE / COMMITTED)
    records = records.sort_by([("partition", "ascending"), ("offset", "ascending")])
    wanted = decode(records["key"], records["value"])
    for name in wanted.column_names:
        assert found[name].to_pylist() == wanted[name].to_pylist(), name
    assert found["timestamp"].cast(pa.int64()).equals(records["timestamp"].cast(pa.int64()))


def test_a_dataframe_without_keys_or_of_text_is_refused(spark: SparkSession) -> None:
    frame = spark.createDataFrame([("a", bytearray(b"b"))], "key string, value binary")
    with pytest.raises(UsageError, match="binary column key; it is string"):
        decode_records(frame)
    with pytest.raises(UsageError, match="binary column value; it is missing"):
        decode_records(frame.selectExpr("CAST(key AS BINARY) AS key"))
    with pytest.raises(UsageError, match="auto does not name one dialect"):
        decode_records(frame, dialect="auto")


# Jobs


def test_a_run_says_what_it_did(result: RunResult) -> None:
    assert result.changed
    assert result.recovered is None
    assert result.ledger["run_id"] == result.run_id
    assert result.ledger["records_read"] == pq.read_metadata(CAPTURE / COMMITTED).num_rows
    assert result.agreement.num_rows > 5
    assert sum(result.agreement["verified"].to_pylist()) > 1000
    assert result.disagreed == 0
    assert result.findings.num_rows == 0
    assert result.differences is None


@pytest.mark.slow
def test_the_steps_give_what_the_run_gives(
    result: RunResult, spark: SparkSession, tmp_path: Path
) -> None:
    lake = Lake(tmp_path / "lake")
    source = CaptureSource(str(CAPTURE / COMMITTED))
    first = kip848_spark.ingest(source, lake, spark=spark)
    assert first.changed
    assert first.agreement.num_rows == 0
    with pytest.raises(LakeError, match="Not all records of the lake"):
        kip848_spark.audit(lake, spark=spark)
    assert kip848_spark.replay(lake, spark=spark).changed
    audited = kip848_spark.audit(lake, spark=spark)
    assert audited.disagreed == 0
    for table in ("groups", "members", "assignments", "offsets"):
        assert as_rows(lake.table(table)) == as_rows(result.lake.table(table)), table
    part = kip848_spark.audit(lake, groups=["demo.three"], spark=spark)
    assert 0 < pa.compute.sum(part.agreement["verified"]).as_py() < 200
    with pytest.raises(NotFoundError, match=r"no group demo\.thre"):
        kip848_spark.audit(lake, groups=["demo.thre"], spark=spark)
    with pytest.raises(UsageError, match="release"):
        kip848_spark.audit(lake, release="9.9", spark=spark)


def test_a_second_run_changes_nothing(result: RunResult, spark: SparkSession) -> None:
    again = kip848_spark.run(CaptureSource(CAPTURE / COMMITTED), result.lake, spark=spark)
    assert not again.changed
    assert again.run_id == result.run_id
    assert again.agreement.num_rows == 0


def test_a_running_cluster_is_compared(
    idle_consumers: IdleConsumers, broker: Broker, spark: SparkSession, tmp_path: Path
) -> None:
    source = KafkaSource(broker.bootstrap, settings={"client.id": "api"})
    done = kip848_spark.run(source, Lake(tmp_path / "lake"), spark=spark)
    assert done.differences == ()


# Reading


def test_tables_are_those_of_the_lake(result: RunResult) -> None:
    lake = result.lake
    for name, table in TABLES.items():
        found = lake.table(name)
        assert found.column_names == list(table.fields), name
    assert lake.groups().num_rows == len(lake.describe())
    assert lake.members(groups=["demo.three"]).num_rows == 3
    assert lake.assignments(groups=["demo.three"])["group_id"].unique().to_pylist() == [
        "demo.three"
    ]
    assert lake.offsets(groups=["no such group"]).num_rows == 0
    assert lake.runs()["run_id"].to_pylist() == [result.run_id]
    with pytest.raises(NotFoundError, match="no table group"):
        lake.table("group")
    with pytest.raises(NotFoundError, match=r"no group demo\.thre"):
        lake.describe(["demo.thre"])


def test_others_take_the_tables_from_there(result: RunResult) -> None:
    records = result.lake.dataset("records")
    counted = duckdb.sql("SELECT kind, count(*) FROM records GROUP BY kind").fetchall()
    assert sum(number for _, number in counted) == result.ledger["records_read"]
    assert records.count_rows() == result.ledger["records_read"]
    assert len(result.lake.groups().to_pandas()) == result.lake.groups().num_rows


@pytest.mark.slow
def test_a_time_names_the_last_run_that_had_finished(spark: SparkSession, tmp_path: Path) -> None:
    half = write_part(OLD / COMMITTED, tmp_path / "half.parquet", halves(OLD / COMMITTED))
    lake = Lake(tmp_path / "lake")
    first = kip848_spark.run(CaptureSource(half), lake, spark=spark)
    second = kip848_spark.run(CaptureSource(OLD / COMMITTED), lake, spark=spark)
    ends = {run["run_id"]: run["finished_at"] for run in lake.runs().to_pylist()}
    between = ends[first.run_id]
    early = first.ledger["records_read"]
    assert lake.table("records", as_of=between).num_rows == early
    assert lake.table("records", as_of=between.isoformat()).num_rows == early
    assert lake.table("records", as_of=between.replace(tzinfo=None)).num_rows == early
    assert lake.runs(as_of=between)["run_id"].to_pylist() == [first.run_id]
    assert lake.table("records").num_rows == early + second.ledger["records_read"]
    with pytest.raises(LakeError, match="No run of the lake"):
        lake.table("records", as_of=datetime.now(UTC) - timedelta(days=1))
    with pytest.raises(NotFoundError, match="Nothing is known of 2020-01-01"):
        lake.groups(as_of="2020-01-01")
    with pytest.raises(UsageError, match="'soon' is not a time"):
        lake.groups(as_of="soon")


def test_mistakes_are_one_sentence(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(LakeError, match="no lake at"):
        Lake(tmp_path).groups()
    with pytest.raises(UsageError, match="no valid port: '90a2'"):
        KafkaSource("localhost:9092,localhost:90a2")
    with pytest.raises(UsageError, match="has no port"):
        KafkaSource(",")
    with pytest.raises(UsageError, match="has no port"):
        KafkaSource("broker")
    with pytest.raises(UsageError, match="'csv' is not a format of captures"):
        CaptureSource(tmp_path, "csv")
    with pytest.raises(SourceError, match="no capture at"):
        kip848_spark.run(CaptureSource(tmp_path / "none"), Lake(tmp_path / "lake"), spark=spark)
    with pytest.raises(UsageError, match="is not a Lake"):
        kip848_spark.replay(str(tmp_path), spark=spark)  # type: ignore[arg-type]
