"""The verbs on a real capture: what they print, and that scripts can use it."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from kip848_spark.config.settings import meanings
from kip848_spark.runtime.resources import resource
from tests.captures import COMMITTED, LIVE, read_live
from tests.cli.command import Command
from tests.conftest import DATA

NEWEST = DATA / "kafka-4.3.1"


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("verbs") / "lake"


@pytest.mark.slow
def test_a_run_ends_with_the_report(kip848: Command, spark: SparkSession, tmp_path: Path) -> None:
    """A folder that is missing is noticed before the work, and a run without news writes a report
    as well."""
    source = f"parquet:{NEWEST / COMMITTED}"
    words = ("run", "--source", source, "--lake", str(tmp_path / "lake"), "--report")
    refused = kip848(*words, str(tmp_path / "nowhere" / "report.html"))
    assert refused.code == 2
    assert not (tmp_path / "lake").exists()
    page = tmp_path / "report.html"
    ended = kip848(*words, str(page))
    assert ended.code == 0, ended
    assert str(page) in ended.out
    report = json.loads(page.with_suffix(".json").read_text())
    live = read_live(NEWEST / LIVE)
    states = zip(*(report["groups"]["columns"][n] for n in ("group_id", "state")), strict=True)
    names = report["groups"]["dictionaries"]["state"]
    assert {group for group, state in states if names[state] != "Dead"} == live.groups.keys()
    assert report["summary"]["members"] == sum(len(g.members) for g in live.groups.values())
    assert report["summary"]["verified"] > 0
    assert report["summary"]["findings"] == 0
    page.unlink()
    again = kip848(*words, str(page), "--json")
    assert again.code == 0
    assert json.loads(again.out)["report"] == str(page)
    assert page.exists()


def test_run_groups_and_sql(kip848: Command, spark: SparkSession, lake: Path) -> None:
    source = f"parquet:{NEWEST / COMMITTED}"
    first = kip848("run", "--source", source, "--lake", str(lake), "--json")
    assert first.code == 0, first
    run = json.loads(first.out)
    assert run["changed"]
    kinds = ("decoded", "tombstones", "unknown", "quarantined")
    assert run["records_read"] == sum(run[kind] for kind in kinds) > 400
    again = kip848("run", "--source", source, "--lake", str(lake))
    assert again.code == 0
    assert "There are no new records." in again.out

    live = read_live(NEWEST / LIVE)
    output = kip848("groups", "--all", "--json", "--lake", str(lake))
    assert output.code == 0
    groups = {group["group_id"]: group for group in json.loads(output.out)}
    assert groups.keys() == live.groups.keys()
    for name, group in groups.items():
        assert group["type"] == live.groups[name].type
        ids = [member["member_id"] for member in group["members"]]
        assert ids == sorted(member.member_id for member in live.groups[name].members)
        assert group["member_count"] == len(ids)
        committed = {
            (o["topic"], o["topic_partition"]): o["committed_offset"] for o in group["offsets"]
        }
        assert committed == {(o.topic, o.partition): o.offset for o in live.offsets[name]}

    table = kip848("groups", "--describe", "demo.three", "--lake", str(lake))
    assert table.code == 0
    assert "foo(0)" in table.out
    listed = kip848("groups", "--lake", str(lake))
    assert listed.code == 0
    assert "demo.three" in listed.out

    unknown = kip848("groups", "--describe", "demo.tree", "--lake", str(lake))
    assert unknown.code == 1
    assert "Did you mean demo.three" in unknown.err

    query = "SELECT count(*) AS n FROM records"
    asked = kip848("sql", query, "--lake", str(lake), "--json")
    assert asked.code == 0
    assert json.loads(asked.out) == [{"n": run["records_read"]}]
    wrong = kip848("sql", "SELECT nonsense FROM records", "--lake", str(lake))
    assert wrong.code == 2
    assert "nonsense" in wrong.err
    assert "Traceback" not in wrong.err

    before = kip848("groups", "--lake", str(lake), "--as-of", "2020-01-01")
    assert before.code == 1
    assert "2020-01-01" in before.err


def test_capture_is_a_source(kip848: Command, spark: SparkSession, tmp_path: Path) -> None:
    out = tmp_path / "capture"
    ended = kip848("capture", "--source", f"parquet:{NEWEST / COMMITTED}", "--out", str(out))
    assert ended.code == 0, ended
    wanted = ["topic", "partition", "offset", "timestamp", "key", "value"]
    copy = (
        pq.read_table(out)
        .select(wanted)
        .sort_by([("partition", "ascending"), ("offset", "ascending")])
    )
    assert copy.to_pylist() == pq.read_table(NEWEST / COMMITTED).to_pylist()
    there = kip848("capture", "--source", f"parquet:{NEWEST / COMMITTED}", "--out", str(out))
    assert there.code == 2


def test_a_delta_capture_is_a_source(kip848: Command, spark: SparkSession, tmp_path: Path) -> None:
    out = tmp_path / "delta"
    frame = spark.read.parquet(str(NEWEST / COMMITTED))
    frame.write.format("delta").save(str(out))
    from_delta = kip848("dump", "--source", f"delta:{out}", "--partition", "4")
    from_parquet = kip848("dump", "--source", f"parquet:{NEWEST / COMMITTED}", "--partition", "4")
    assert from_delta.code == from_parquet.code == 0
    assert from_delta.out == from_parquet.out


def test_dump_of_one_partition(kip848: Command, spark: SparkSession) -> None:
    ended = kip848("dump", "--source", f"parquet:{NEWEST / COMMITTED}", "--partition", "4")
    assert ended.code == 0, ended
    lines = [json.loads(line) for line in ended.out.splitlines()]
    assert {line["partition"] for line in lines} == {4}
    offsets = [line["offset"] for line in lines]
    assert offsets == sorted(offsets)
    missing = kip848("dump", "--source", f"parquet:{NEWEST / COMMITTED}", "--partition", "99")
    assert missing.code == 2


def test_doctor(kip848: Command, spark: SparkSession, tmp_path: Path) -> None:
    ended = kip848(
        "doctor",
        "--source",
        f"parquet:{NEWEST / COMMITTED}",
        "--lake",
        str(tmp_path / "new"),
        "--json",
    )
    assert ended.code == 0, ended
    checks = json.loads(ended.out)
    assert [check["check"] for check in checks][-2:] == ["source", "lake"]
    assert all(check["ok"] for check in checks)
    broken = kip848("doctor", "--source", "parquet:/no/such", "--json")
    assert broken.code == 3
    assert json.loads(broken.out)[-1]["hint"] is None or "/no/such" in broken.out


def test_config_show_masks_secrets(kip848: Command, tmp_path: Path) -> None:
    file = tmp_path / "kip848.toml"
    file.write_text('lake = "/l"\n[kafka]\n"sasl.password" = "${SECRET_OF_MINE}"\n')
    ended = kip848("config", "show", "--config", str(file), "--json")
    assert ended.code == 0
    shown = json.loads(ended.out)
    assert shown["lake"] == "/l"
    assert shown["kafka"] == {"sasl.password": "********"}


def test_every_setting_has_its_meaning(kip848: Command) -> None:
    """`config show` and the file of the defaults say the same of each setting."""
    defaults = resource("conf/defaults.toml").read_text()
    comments = " ".join(re.findall(r"^# (.*)$", defaults, re.MULTILINE))
    shown = kip848("config", "show").out
    for name, meaning in meanings().items():
        assert meaning, name
        assert meaning in comments
        assert f"# {meaning}\n" in shown
        key = name.rpartition(".")[2]
        assert re.search(rf"^(# )?(\[{key}\]|{key} = )", defaults, re.MULTILINE), name
        assert re.search(rf"^(\[{key}\]|{key} = )", shown, re.MULTILINE), name


@pytest.mark.slow
def test_an_anonymized_capture_gives_the_same_state(
    kip848: Command, spark: SparkSession, tmp_path: Path
) -> None:
    out, lake = tmp_path / "capture", tmp_path / "lake"
    source = f"parquet:{NEWEST / COMMITTED}"
    made = kip848("capture", "--anonymize", "--source", source, "--out", str(out))
    assert made.code == 0, made
    assert "left out" not in made.err
    ran = kip848("run", "--source", f"parquet:{out}", "--lake", str(lake))
    assert ran.code == 0, ran
    output = json.loads(kip848("groups", "--all", "--json", "--lake", str(lake)).out)
    live = read_live(NEWEST / LIVE)
    shape = sorted((g["type"], g["member_count"], len(g["offsets"])) for g in output)
    theirs = [(g.type, len(g.members), len(live.offsets[g.group_id])) for g in live.groups.values()]
    assert shape == sorted(theirs)
    assert not {group["group_id"] for group in output} & live.groups.keys()


@pytest.mark.slow
def test_an_anonymized_capture_keeps_that_a_value_is_damaged(
    kip848: Command, tmp_path: Path
) -> None:
    """Only a record whose key can't be decoded is left out."""
    key, good = b"\x00\x03\x00\x01g", bytes.fromhex("00000000000500")
    records = [(key, good), (key, b"\x00\x00sec"), (b"\x00\x63secret", good), (key, None)]
    rows = [
        {"partition": 0, "offset": at, "timestamp": 0, "key": key, "value": value}
        for at, (key, value) in enumerate(records)
    ]
    source, out = tmp_path / "source", tmp_path / "out"
    source.mkdir()
    schema = pq.read_schema(NEWEST / COMMITTED)
    table = pa.Table.from_pylist(
        [{"topic": "__consumer_offsets", **row} for row in rows], schema=schema
    )
    pq.write_table(table, source / "records.parquet")
    made = kip848("capture", "--anonymize", "--source", f"parquet:{source}", "--out", str(out))
    assert made.code == 0, made
    assert "1 records were left out" in made.err
    left = pq.read_table(out).sort_by("offset")
    assert left["offset"].to_pylist() == [0, 1, 3]
    assert left["value"].to_pylist() == [good, b"\x00", None]
    assert len(set(left["key"].to_pylist())) == 1
