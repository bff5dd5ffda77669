"""Captures that are no captures: one sentence, no lake, and no file elsewhere is read."""

from __future__ import annotations

import json
import re
import shutil
import struct
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, write_deltalake
from pyspark.sql import SparkSession

from kip848_spark.errors import CaptureError, Kip848Error
from kip848_spark.kafka.admin import OFFSETS_TOPIC
from kip848_spark.lake.lake import Lake
from kip848_spark.lake.location import locate
from kip848_spark.lake.snapshot import LakeSnapshot
from kip848_spark.report.files import write_report
from kip848_spark.spark.pipeline import RunOutcome, run_ingest
from kip848_spark.spark.sources import CaptureSource
from kip848_spark.spark.storage.opening import open_lake
from tests.captures import COMMITTED
from tests.conftest import DATA
from tests.spark.lakes import as_dicts

pytestmark = pytest.mark.slow

CAPTURE = DATA / "kafka-4.3.1" / COMMITTED
NOW = datetime(2026, 11, 20, tzinfo=UTC)
NOW_MS = round(NOW.timestamp() * 1000)
FIRST_MICROS, LAST_MICROS = -62_135_596_800_000_000, 253_402_300_799_999_999
"""The first and the last moment that Python can show (us since 1970)."""


def changed(column: str, at: int, value: Any, type_: pa.DataType | None = None) -> pa.Table:
    """The capture with another value of ``column`` in the row ``at``."""
    table = pq.read_table(CAPTURE)
    place = table.column_names.index(column)
    values = table[column].cast(type_ or table.schema.field(column).type).to_pylist()
    values[at] = value
    return table.set_column(place, column, pa.array(values, type_ or table[column].type))


def commit_key(group: str, partition: int) -> bytes:
    """The key of a commit for a partition of the topic ``orders``."""
    return struct.pack(
        f">hh{len(group)}sh6si", 1, len(group), group.encode(), 6, b"orders", partition
    )


def commit_value(offset: int, time_ms: int = NOW_MS) -> bytes:
    """The value of a commit in version 3, without leader epoch and metadata."""
    return struct.pack(">hqihq", 3, offset, -1, 0, time_ms)


def refusal(spark: SparkSession, folder: Path, source: CaptureSource) -> str:
    """The sentence with which a run refuses ``source``. There is no lake afterwards."""
    with pytest.raises(Kip848Error) as refused:
        run_ingest(source, open_lake(spark, str(folder / "lake")), then_replay=True)
    assert "\n" not in refused.value.message
    assert len(refused.value.message) < 2_000
    assert refused.value.hint
    assert not (folder / "lake").exists()
    return refused.value.message


def outcome_of(act: Callable[[], RunOutcome]) -> tuple[Kip848Error | None, RunOutcome | None]:
    """The error with which a run was refused, or its outcome."""
    try:
        return None, act()
    except Kip848Error as refused:
        return refused, None


@pytest.mark.parametrize(
    ("column", "value", "type_", "words"),
    [
        ("offset", -1, None, "an offset -1 in partition"),
        ("offset", 2**63 - 1, None, "an offset 9223372036854775807 in partition"),
        ("offset", None, None, "records without an offset in partition"),
        ("partition", -1, None, "a partition -1"),
        ("partition", 2**31, pa.int64(), "a partition 2147483648"),
        ("partition", None, None, "records without a partition"),
        ("topic", None, None, "records without a topic"),
    ],
)
def test_places_that_kafka_does_not_have(
    spark: SparkSession,
    tmp_path: Path,
    column: str,
    value: int | None,
    type_: pa.DataType | None,
    words: str,
) -> None:
    file = tmp_path / "capture.parquet"
    pq.write_table(changed(column, 5, value, type_), file)
    source = CaptureSource(str(file), "parquet", OFFSETS_TOPIC)
    assert f"The capture {file} has {words}" in refusal(spark, tmp_path, source)


def test_one_of_the_files_has_no_topics(spark: SparkSession, tmp_path: Path) -> None:
    """Spark reads a column that a file lacks as null: its records would be left out."""
    table = pq.read_table(CAPTURE)
    folder = tmp_path / "capture"
    folder.mkdir()
    pq.write_table(table.slice(0, 100), folder / "1.parquet")
    pq.write_table(table.slice(100).drop_columns("topic"), folder / "2.parquet")
    source = CaptureSource(str(folder), "parquet", OFFSETS_TOPIC)
    words = refusal(spark, tmp_path, source)
    assert "records without a topic" in words or "lacks the column topic" in words


def test_names_of_other_topics_are_cut(spark: SparkSession, tmp_path: Path) -> None:
    table = pq.read_table(CAPTURE)
    names = pa.array([f"{n}-" + "x" * 100_000 for n in range(len(table))])
    file = tmp_path / "capture.parquet"
    pq.write_table(table.set_column(table.column_names.index("topic"), "topic", names), file)
    words = refusal(spark, tmp_path, CaptureSource(str(file), "parquet", OFFSETS_TOPIC))
    assert "holds no record of __consumer_offsets, only of" in words
    assert "and others" in words


def test_order_repeats_and_times(spark: SparkSession, tmp_path: Path) -> None:
    """A capture in no order, with each record twice and times that no clock shows, is read like the
    one it was made from; two records at one offset count once."""
    table = pq.read_table(CAPTURE)
    lakes = []
    for name, found in (("plain", table), ("shuffled", pa.concat_tables([table, table[::-1]]))):
        pq.write_table(found, tmp_path / f"{name}.parquet", row_group_size=50)
        lake = open_lake(spark, str(tmp_path / name))
        source = CaptureSource(str(tmp_path / f"{name}.parquet"), "parquet", OFFSETS_TOPIC)
        run_ingest(source, lake, then_replay=True, then_audit=True)
        places = [
            (row["partition"], row["offset"], row["kind"]) for row in as_dicts(lake, "records")
        ]
        lakes.append(sorted(places))
    assert lakes[0] == lakes[1]
    assert len(lakes[0]) == len(table)


def test_two_different_records_at_one_offset(spark: SparkSession, tmp_path: Path) -> None:
    """Also when they are far from each other; a run of the undamaged capture follows."""
    table = pq.read_table(CAPTURE)
    row = table.slice(3, 1)
    place = row.column_names.index("value")
    other = row.set_column(place, "value", pa.array([b"other"], pa.binary()))
    wrong = pa.concat_tables([table, other])
    pq.write_table(wrong, tmp_path / "capture.parquet")
    source = CaptureSource(str(tmp_path / "capture.parquet"), "parquet", OFFSETS_TOPIC)
    lake = open_lake(spark, str(tmp_path / "lake"))
    offset, partition = row["offset"][0], row["partition"][0]
    words = f"two different records at offset {offset} of partition {partition}"
    with pytest.raises(CaptureError, match=words):
        run_ingest(source, lake)
    pq.write_table(table, tmp_path / "capture.parquet")
    outcome = run_ingest(source, lake)
    assert outcome.run is not None
    assert outcome.run.counts is not None
    assert outcome.run.counts.records_read == len(table)


@pytest.mark.parametrize(
    ("micros", "words"),
    [
        (None, "records without a timestamp"),
        (-(2**63), "a timestamp outside of the years 1 to 9999"),
        (FIRST_MICROS - 1, "a timestamp outside of the years 1 to 9999"),
        (FIRST_MICROS, ""),
        (LAST_MICROS, ""),
        (LAST_MICROS + 1, "a timestamp outside of the years 1 to 9999"),
        (2**63 - 1, "a timestamp outside of the years 1 to 9999"),
    ],
)
@pytest.mark.parametrize("zone", ["UTC", None])
def test_times_that_no_clock_shows(
    spark: SparkSession, tmp_path: Path, micros: int | None, words: str, zone: str | None
) -> None:
    """Without a time zone, as some writers of Parquet leave it, and with it."""
    table = changed("timestamp", 7, micros, pa.int64())
    place = table.column_names.index("timestamp")
    times = table["timestamp"].cast(pa.timestamp("us", zone))
    file = tmp_path / "capture.parquet"
    pq.write_table(table.set_column(place, "timestamp", times), file)
    source = CaptureSource(str(file), "parquet", OFFSETS_TOPIC)
    if words:
        assert f"The capture {file} has {words} in partition" in refusal(spark, tmp_path, source)
        return
    lake = open_lake(spark, str(tmp_path / "lake"))
    outcome = run_ingest(source, lake, then_replay=True, then_audit=True)
    assert outcome.run is not None
    assert outcome.run.counts is not None
    assert outcome.run.counts.records_read == len(table)


def test_further_columns_are_ignored(spark: SparkSession, tmp_path: Path) -> None:
    """Whatever their names: those that the program gives to columns of its own, too."""
    table = pq.read_table(CAPTURE)
    for name in ("_partition", "_task", "_start", "kind", "run_id"):
        table = table.append_column(name, pa.array([7] * len(table)))
    file = tmp_path / "capture.parquet"
    pq.write_table(table, file)
    source = CaptureSource(str(file), "parquet", OFFSETS_TOPIC)
    outcome = run_ingest(source, open_lake(spark, str(tmp_path / "lake")), then_replay=True)
    assert outcome.run is not None
    assert outcome.run.counts is not None
    assert outcome.run.counts.records_read == len(table)


def test_two_columns_of_one_name(spark: SparkSession, tmp_path: Path) -> None:
    table = pq.read_table(CAPTURE)
    file = tmp_path / "capture.parquet"
    pq.write_table(table.append_column("KEY", table["key"]), file)
    source = CaptureSource(str(file), "parquet", OFFSETS_TOPIC)
    assert "has two columns of one name" in refusal(spark, tmp_path, source)


def test_the_damaged_file_of_a_folder_is_named(spark: SparkSession, tmp_path: Path) -> None:
    folder = tmp_path / "capture"
    folder.mkdir()
    table = pq.read_table(CAPTURE)
    place = table.column_names.index("partition")
    texts = pa.array([str(n).encode() for n in table["partition"].to_pylist()])
    for name, words in {
        "cut short": r"is not a Parquet file, or is cut short \(b 1\.parquet\)\.$",
        "of other types": r"has a column of different types in its files \(b 1\.parquet\)\.$",
    }.items():
        pq.write_table(table, folder / "a.parquet")
        if name == "cut short":
            (folder / "b 1.parquet").write_bytes(CAPTURE.read_bytes()[:-100])
        else:
            pq.write_table(table.set_column(place, "partition", texts), folder / "b 1.parquet")
        source = CaptureSource(str(folder), "parquet", OFFSETS_TOPIC)
        assert re.search(words, refusal(spark, tmp_path, source))


def test_offsets_at_the_end_of_what_kafka_can_count(spark: SparkSession, tmp_path: Path) -> None:
    """The offsets without a record, of all partitions, are more than a 64-bit number can hold."""
    keys = [commit_key(f"group-{n}", 0) for n in range(6)]
    table = pa.table(
        {
            "topic": [OFFSETS_TOPIC] * 6,
            "partition": pa.array([0, 0, 1, 1, 2, 2], pa.int32()),
            "offset": pa.array([0, 2**63 - 2] * 3, pa.int64()),
            "timestamp": pa.array([NOW] * 6, pa.timestamp("us", "UTC")),
            "key": pa.array(keys, pa.binary()),
            "value": pa.array([commit_value(5)] * 6, pa.binary()),
        }
    )
    pq.write_table(table, tmp_path / "capture.parquet")
    source = CaptureSource(str(tmp_path / "capture.parquet"), "parquet", OFFSETS_TOPIC)
    lake = open_lake(spark, str(tmp_path / "lake"))
    outcome = run_ingest(source, lake, then_replay=True, then_audit=True)
    assert outcome.run is not None
    assert outcome.run.counts is not None
    assert outcome.run.counts.missing == 2**63 - 1
    assert len(as_dicts(lake, "offsets")) == 6
    assert not run_ingest(source, lake, then_replay=True).changed


def test_committed_offsets_at_the_bounds(spark: SparkSession, tmp_path: Path) -> None:
    """A broker takes any number from a client, and a difference of two may need 65 bits."""
    bounds = [2**63 - 1, -(2**63), 2**63 - 1, -1, 0, -(2**63), 5, 4]
    times = [-(2**63), 2**63 - 1, -1, 0, NOW_MS, NOW_MS, NOW_MS, NOW_MS]
    count = len(bounds)
    table = pa.table(
        {
            "topic": [OFFSETS_TOPIC] * count,
            "partition": pa.array([3] * count, pa.int32()),
            "offset": pa.array(range(count), pa.int64()),
            "timestamp": pa.array([NOW] * count, pa.timestamp("us", "UTC")),
            "key": pa.array([commit_key("group", -(2**31))] * count, pa.binary()),
            "value": pa.array(list(map(commit_value, bounds, times)), pa.binary()),
        }
    )
    pq.write_table(table, tmp_path / "capture.parquet")
    for nights, ends in (("one", [count]), ("several", [1, 2, 5, count])):
        lake = open_lake(spark, str(tmp_path / nights))
        for end in ends:
            pq.write_table(table.slice(0, end), tmp_path / f"{end}.parquet")
            source = CaptureSource(str(tmp_path / f"{end}.parquet"), "parquet", OFFSETS_TOPIC)
            run_ingest(source, lake, then_replay=True, then_audit=True)
        rewinds = sorted(as_dicts(lake, "rewinds"), key=lambda row: row["offset"])
        assert [(row["from_committed"], row["to_committed"]) for row in rewinds] == [
            (2**63 - 1, -(2**63)), (2**63 - 1, -1), (0, -(2**63)), (5, 4)
        ]  # fmt: skip
        (day,) = as_dicts(lake, "offset_activity")
        assert (day["commits"], day["rewinds"], day["largest_rewind"]) == (count, 4, 2**63 - 1)
        shown = Lake(str(tmp_path / nights)).hygiene()["rewinds"]
        far = 2**63 - 1
        assert sorted(row["distance"] for row in shown) == [1, far, far, far]
        write_report(LakeSnapshot(locate(str(tmp_path / nights))), tmp_path / f"{nights}.html")


@pytest.mark.parametrize("at", [0.3, 0.9])
def test_bytes_that_are_damaged(spark: SparkSession, tmp_path: Path, at: float) -> None:
    content = bytearray(CAPTURE.read_bytes())
    start = int(len(content) * at)
    content[start : start + 40] = b"\xff" * min(40, len(content) - start)
    (tmp_path / "capture.parquet").write_bytes(content)
    source = CaptureSource(str(tmp_path / "capture.parquet"), "parquet", OFFSETS_TOPIC)
    lake = open_lake(spark, str(tmp_path / "lake"))
    refused, outcome = outcome_of(lambda: run_ingest(source, lake, then_replay=True))
    if refused:
        assert "\n" not in refused.message
        assert str(tmp_path) in refused.message
    else:  # the damage is inside of a key or a value
        assert outcome is not None
        assert outcome.changed


@pytest.mark.parametrize("name", ["a[1]", "{a,b}*"])
def test_a_path_is_no_pattern(spark: SparkSession, tmp_path: Path, name: str) -> None:
    for other in ("a1", "ab", "a", "axb"):  # what a pattern would find
        (tmp_path / other).mkdir()
        pq.write_table(changed("topic", 0, "other"), tmp_path / other / "x.parquet")
    (tmp_path / name).mkdir(exist_ok=True)
    pq.write_table(pq.read_table(CAPTURE).slice(0, 10), tmp_path / name / "x.parquet")
    write_deltalake(tmp_path / "delta", pq.read_table(CAPTURE).slice(0, 10))
    (tmp_path / "delta").rename(tmp_path / f"delta-{name}")  # delta-rs can't write there
    for path, format_ in ((tmp_path / name, "parquet"), (tmp_path / f"delta-{name}", "delta")):
        source = CaptureSource(str(path), format_, OFFSETS_TOPIC)
        first = pq.read_table(CAPTURE).slice(0, 10)["partition"].to_pylist()
        assert source.extents(spark).keys() == set(first)
    lake = open_lake(spark, str(tmp_path / f"lake {name}"))
    run_ingest(CaptureSource(str(tmp_path / name), "parquet", OFFSETS_TOPIC), lake)
    assert lake.read("records").count() == 10


def test_a_delta_capture_that_names_a_file_elsewhere(spark: SparkSession, tmp_path: Path) -> None:
    whole = pq.read_table(CAPTURE)
    pq.write_table(whole, tmp_path / "secret.parquet")
    for number, path in enumerate((f"file://{tmp_path}/secret.parquet", "../secret.parquet")):
        capture = tmp_path / f"capture-{number}"
        write_deltalake(capture, whole.slice(0, 10))
        log = capture / "_delta_log" / f"{0:020}.json"
        actions = [json.loads(line) for line in log.read_text().splitlines()]
        for action in actions:
            if "add" in action:
                size = (tmp_path / "secret.parquet").stat().st_size
                action["add"] |= {"path": path, "size": size, "stats": None}
        log.write_text("".join(json.dumps(action) + "\n" for action in actions))
        source = CaptureSource(str(capture), "delta", OFFSETS_TOPIC)
        words = refusal(spark, tmp_path, source)
        assert "names a file outside of that folder" in words, words


def test_statistics_that_lie(spark: SparkSession, tmp_path: Path) -> None:
    """Row groups are read even if their statistics say that they hold nothing of the topic."""
    table = pq.read_table(CAPTURE)
    file = tmp_path / "capture.parquet"
    lied = pc.replace_substring(table["topic"], "__consumer_offsets", "a_consumer_offsets")
    lying = table.set_column(table.column_names.index("topic"), "topic", lied)
    pq.write_table(lying, file, use_dictionary=False, compression="none")
    content = file.read_bytes()
    end = int.from_bytes(content[-8:-4], "little") + 8
    data, footer = content[:-end], content[-end:]
    assert b"a_consumer_offsets" in footer  # the statistics
    file.write_bytes(data.replace(b"a_consumer_offsets", b"__consumer_offsets") + footer)
    source = CaptureSource(str(file), "parquet", OFFSETS_TOPIC)
    lake = open_lake(spark, str(tmp_path / "lake"))
    outcome = run_ingest(source, lake, then_replay=True)
    assert outcome.run is not None
    assert outcome.run.counts is not None
    assert outcome.run.counts.records_read == len(table)


def forge_first(log: Path, change: Callable[[dict[str, Any]], None]) -> None:
    """Changes the actions of a commit file."""
    actions = [json.loads(line) for line in log.read_text().splitlines()]
    for action in actions:
        change(action)
    log.write_text("".join(json.dumps(action) + "\n" for action in actions))


def test_a_lake_of_spark_that_names_a_file_elsewhere(spark: SparkSession, tmp_path: Path) -> None:
    """Spark's own reader of Delta tables follows such names."""
    lake = open_lake(spark, str(tmp_path / "lake"), by_spark=True)
    source = CaptureSource(str(CAPTURE), "parquet", OFFSETS_TOPIC)
    run_ingest(source, open_lake(spark, str(tmp_path / "lake")), then_replay=True)
    groups = tmp_path / "lake" / "groups"
    name = pa.table(DeltaTable(groups).get_add_actions())["path"][0].as_py()
    shutil.move(groups / name, tmp_path / "secret.parquet")

    def outside(action: dict[str, Any]) -> None:
        if "add" in action and action["add"]["path"] == name:
            action["add"]["path"] = f"file://{tmp_path}/secret.parquet"

    forge_first(max((groups / "_delta_log").glob("*.json")), outside)
    with pytest.raises(Kip848Error, match="names a file outside of that folder"):
        lake.read("groups")
    assert lake.read("members").count()
