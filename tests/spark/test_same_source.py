"""A lake refuses the records of another topic, and accepts its own topic in whatever form."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from kip848_spark.errors import CaptureError, UsageError
from kip848_spark.kafka.topic import TopicIdentity
from kip848_spark.lake.ledger import Ledger
from kip848_spark.simulation import plan_cluster, simulate
from kip848_spark.spark.pipeline import run_ingest
from kip848_spark.spark.sources import CaptureSource
from kip848_spark.spark.storage.opening import open_lake
from kip848_spark.spark.storage.tables import LakeTables
from tests.capture_churn import FIRST
from tests.captures import COMMITTED
from tests.conftest import DATA
from tests.spark.lakes import as_dicts, halves, source, write_part

TOPIC = "__consumer_offsets"
NEWEST = DATA / "kafka-4.3.1" / COMMITTED
OLDER = DATA / "kafka-4.0.2" / COMMITTED
OTHER = "is not the topic that this lake holds"
ONE = {"cluster_id": "cGFnZWQtYXQtdGhlLWRvb3", "topic_id": "b25lLXRvcGljLW9mLW1hbn"}
TWO = {"cluster_id": "YW5vdGhlci1jbHVzdGVyLW", "topic_id": "YW5vdGhlci10b3BpYy1vZi"}


def folder(path: Path, records: Path, ids: dict[str, str] | None) -> Path:
    """A capture that is a folder, with its origin."""
    path.mkdir()
    pq.write_table(pq.read_table(records), path / "records.parquet")
    if ids is not None:
        origin = {"format": 1, "topic": TOPIC, "captured_at": "2026-11-20T06:00:00Z", **ids}
        (path / "_origin.json").write_text(json.dumps(origin))
    return path


def without_origin(capture: Path) -> Path:
    (capture / "_origin.json").unlink(missing_ok=True)
    return capture


def refused(lake: LakeTables, capture: Path, *words: str) -> str:
    """The sentence with which the lake refuses a capture. The lake stays as it is."""
    before = lake.versions()
    with pytest.raises(UsageError) as caught:
        run_ingest(source(capture), lake, then_replay=True)
    assert lake.versions() == before
    assert "one lake for each topic" in (caught.value.hint or "")
    for word in words:
        assert word in caught.value.message
    return caught.value.message


def known_ids(lake: LakeTables) -> dict[str, Any]:
    """The ids that the last run of a lake stored."""
    last = max(as_dicts(lake, "runs"), key=lambda row: str(row["run_id"]))
    return {name: last[name] for name in ("cluster_id", "topic_id")}


@pytest.fixture
def lake(spark: SparkSession, tmp_path: Path) -> LakeTables:
    return open_lake(spark, str(tmp_path / "lake"))


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (NEWEST, OLDER),
        (NEWEST, DATA / "moving-4.3.1" / COMMITTED),
        (OLDER, NEWEST),
        (DATA / "cleaned-4.3.1" / COMMITTED, DATA / "churn-4.0.2" / COMMITTED),
    ],
)
def test_two_real_topics_without_ids(lake: LakeTables, first: Path, second: Path) -> None:
    run_ingest(source(first), lake)
    message = refused(lake, second, OTHER)
    place = message.split("at partition ")[1].split(" the lake")[0]
    partition, offset = (int(word) for word in place.split(", offset "))
    for capture, side in ((first, "the lake has a record "), (second, "the source one ")):
        (there,) = [
            row
            for row in pq.read_table(capture).to_pylist()
            if (row["partition"], row["offset"]) == (partition, offset)
        ]
        reported = message.split(side)[1].removesuffix(".").split(",")[0]
        group, time = reported.removeprefix("of group ").split(" from ")
        assert group.encode() in there["key"]
        assert time == there["timestamp"].isoformat(timespec="milliseconds").replace("+00:00", "Z")


def test_ids_settle_it(lake: LakeTables, tmp_path: Path) -> None:
    run_ingest(source(folder(tmp_path / "one", NEWEST, ONE)), lake)
    refused(lake, folder(tmp_path / "two", NEWEST, TWO), ONE["cluster_id"], TWO["cluster_id"])
    made_again = {**ONE, "topic_id": TWO["topic_id"]}
    refused(lake, folder(tmp_path / "again", NEWEST, made_again), TWO["topic_id"])
    same = folder(tmp_path / "same", OLDER, ONE)
    assert run_ingest(source(same), lake).changed, "the ids are the same"


def test_ids_are_not_forgotten(lake: LakeTables, tmp_path: Path) -> None:
    half = write_part(NEWEST, tmp_path / "half.parquet", halves(NEWEST))
    run_ingest(source(folder(tmp_path / "one", half, ONE)), lake)
    assert known_ids(lake) == ONE
    assert run_ingest(source(NEWEST), lake).changed
    assert known_ids(lake) == ONE
    refused(lake, folder(tmp_path / "two", NEWEST, TWO), ONE["cluster_id"])


def test_ids_are_learnt(lake: LakeTables, tmp_path: Path) -> None:
    half = write_part(NEWEST, tmp_path / "half.parquet", halves(NEWEST))
    run_ingest(source(half), lake)
    assert known_ids(lake) == dict.fromkeys(ONE)
    refused(lake, folder(tmp_path / "two", OLDER, TWO), OTHER)
    assert run_ingest(source(folder(tmp_path / "one", NEWEST, ONE)), lake).changed
    assert known_ids(lake) == ONE
    everything = pq.read_table(NEWEST)
    assert lake.read("records").count() == everything.num_rows


def test_jobs_run_only_where_ids_do_not_settle_it(
    lake: LakeTables, spark: SparkSession, tmp_path: Path
) -> None:
    from kip848_spark.spark.jobs.same_source import check_same_source

    run_ingest(source(folder(tmp_path / "one", NEWEST, ONE)), lake)
    last = Ledger(lake).last()
    capture = source(NEWEST)
    extents = capture.extents(spark)
    behind = {p: type(e)(e.end, e.end + 5) for p, e in extents.items()}
    context = spark.sparkContext

    def jobs(name: str, identity: TopicIdentity, some: Any) -> int:
        context.setJobGroup(name, name)
        try:
            assert check_same_source(lake, last, capture, identity, some) == TopicIdentity(
                TOPIC, **ONE
            )
        finally:
            context.setLocalProperty("spark.jobGroup.id", None)
        return len(context.statusTracker().getJobIdsForGroup(name))

    assert jobs("ids", TopicIdentity(TOPIC, **ONE), extents) == 0
    assert jobs("apart", TopicIdentity(TOPIC), behind) == 0
    assert jobs("records", TopicIdentity(TOPIC), extents) > 0


@pytest.mark.parametrize("release", ["4.3.1", "4.0.2"])
def test_a_topic_that_the_cleaner_was_over(lake: LakeTables, release: str) -> None:
    """Captures of one real log, before and after the broker's own cleaner."""
    log = DATA / f"cleaned-{release}"
    run_ingest(source(log / FIRST), lake)
    assert run_ingest(source(log / COMMITTED), lake).changed


def test_compaction_may_leave_nothing_of_the_newest_offsets(
    lake: LakeTables, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One record a partition is compared at first, then a sample of all that there are."""
    monkeypatch.setattr("kip848_spark.spark.jobs.same_source.MAX_RECORDS", 4, raising=False)
    first, cleaned, churn = (
        DATA / name
        for name in (
            f"cleaned-4.0.2/{FIRST}",
            f"cleaned-4.0.2/{COMMITTED}",
            f"churn-4.0.2/{COMMITTED}",
        )
    )
    there = {(row["partition"], row["offset"]) for row in pq.read_table(cleaned).to_pylist()}
    ends: dict[int, int] = {}  # behind the last record that the cleaner has removed
    for row in pq.read_table(first).to_pylist():
        if (row["partition"], row["offset"]) not in there:
            ends[row["partition"]] = max(row["offset"] + 1, ends.get(row["partition"], 0))
    assert len(ends) == 4

    run_ingest(source(write_part(first, tmp_path / "first.parquet", ends)), lake)
    assert run_ingest(source(cleaned), lake).changed
    other = open_lake(lake.spark, str(tmp_path / "other"))
    run_ingest(source(write_part(churn, tmp_path / "churn.parquet", ends)), other)
    refused(other, cleaned, OTHER)


@pytest.mark.slow
def test_simulated_clusters(spark: SparkSession, tmp_path: Path) -> None:
    """Of two seeds, of one seed and two lengths, and one as written and as compacted."""
    plans = {"short": (4_000, 1), "long": (8_000, 1), "seed": (8_000, 2)}
    made: dict[str, Path] = {}
    for name, (records, seed) in plans.items():
        made[name] = tmp_path / name
        simulate(plan_cluster("churn", records, seed, partitions=2, groups=4), made[name])
    made["clean"] = tmp_path / "clean"
    plan = plan_cluster("churn", 4_000, 1, partitions=2, groups=4)
    simulate(plan, made["clean"], compact=True)

    own = open_lake(spark, str(tmp_path / "own"))
    run_ingest(source(made["short"]), own)
    other = open_lake(spark, str(tmp_path / "other"))
    run_ingest(source(made["long"]), other)
    refused(own, made["seed"], "of cluster")
    refused(own, made["long"], "of cluster")
    refused(other, made["seed"], "of cluster")
    assert not run_ingest(source(made["clean"]), own).changed
    for capture in made.values():
        without_origin(capture)
    refused(own, made["seed"], OTHER)
    refused(own, made["long"], OTHER)
    refused(other, made["seed"], OTHER)
    assert not run_ingest(source(made["clean"]), own).changed


def test_captures_that_follow_one_another_have_no_offset_in_common(
    lake: LakeTables, tmp_path: Path
) -> None:
    cuts = halves(NEWEST)
    run_ingest(source(write_part(NEWEST, tmp_path / "half.parquet", cuts)), lake)
    table = pq.read_table(NEWEST)
    places = zip(*(table[name].to_pylist() for name in ("partition", "offset")), strict=True)
    rest = table.filter(pa.array([offset >= cuts[p] for p, offset in places]))
    pq.write_table(rest, tmp_path / "rest.parquet")
    run_ingest(source(tmp_path / "rest.parquet"), lake)
    assert lake.read("records").count() == table.num_rows


def test_each_dialect_reads_the_same_bytes(lake: LakeTables, tmp_path: Path) -> None:
    half = write_part(NEWEST, tmp_path / "half.parquet", halves(NEWEST))
    run_ingest(source(half), lake, dialect="kip-draft")
    assert run_ingest(source(NEWEST), lake, dialect="shipped").changed
    assert not run_ingest(source(NEWEST), lake, dialect="shipped").changed


@pytest.mark.parametrize(
    "content",
    [b"", b"{", b"[]", b"\xff\xfe", b'{"format": 2, "topic": "t"}', b'{"format": 1}'],
)
def test_a_damaged_origin(lake: LakeTables, tmp_path: Path, content: bytes) -> None:
    capture = folder(tmp_path / "capture", NEWEST, ONE)
    (capture / "_origin.json").write_bytes(content)
    with pytest.raises(CaptureError, match=r"_origin\.json of the capture") as caught:
        run_ingest(source(capture), lake)
    assert "\n" not in caught.value.message
    assert caught.value.hint
    assert not Path(lake.path).exists()


def test_every_kind_of_capture_has_an_origin(spark: SparkSession, tmp_path: Path) -> None:
    parquet = folder(tmp_path / "parquet", NEWEST, ONE)
    delta = tmp_path / "delta"
    spark.read.parquet(str(NEWEST)).write.format("delta").save(str(delta))
    (delta / "_origin.json").write_bytes((parquet / "_origin.json").read_bytes())
    for path, format_ in (
        (str(parquet), "parquet"),
        (parquet.as_uri(), "parquet"),
        (str(delta), "delta"),
    ):
        capture = CaptureSource(path, format_, TOPIC)
        assert capture.identity() == TopicIdentity(TOPIC, **ONE)
        assert len(capture.extents(spark)) == 8
    assert CaptureSource(str(parquet), "parquet", "t").identity() == TopicIdentity(
        "t", ONE["cluster_id"]
    )
    for path in (NEWEST, tmp_path / "missing", parquet / "*.parquet"):
        assert source(path).identity() == TopicIdentity(TOPIC)
