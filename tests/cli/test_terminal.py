"""What reaches the terminal: names as any client may choose them, records that can't be read,
groups that are not there, and times."""

from __future__ import annotations

import json
import re
import struct
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from kip848_spark import Lake
from kip848_spark.errors import LakeError, NotFoundError
from kip848_spark.lake.groups import check_groups
from kip848_spark.spark.storage.opening import open_lake
from kip848_spark.spark.views import LakeViews
from tests.captures import COMMITTED
from tests.cli.command import Command
from tests.cli.test_errors import alone
from tests.conftest import DATA

CAPTURE = DATA / "kafka-4.3.1" / COMMITTED
GROUP = "g\0\x1b\x7f\x9b\u202e!"  # as many bytes as demo.three
TOPIC = "t\x1b[31m"
METADATA = "m\nerror: forged\0"
DELETED = "demo.vanished"
UNFIT = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
"""Control characters but the line end, and what changes the direction of text."""


def text(output: str) -> bytes:
    raw = output.encode()
    return struct.pack(">h", len(raw)) + raw


def commit(group: str, topic: str, metadata: str | None) -> tuple[bytes, bytes | None]:
    key = struct.pack(">h", 1) + text(group) + text(topic) + struct.pack(">i", 0)
    if metadata is None:
        return key, None
    return key, struct.pack(">hq", 1, 5) + text(metadata) + struct.pack(">qq", 10**12, -1)


def strange(to: Path) -> None:
    """The capture with a group of another name and one more commit of it, a static member that left
    for a time, and in partition 0 a commit of a group deleted since, and a value cut short."""
    rows = pq.read_table(CAPTURE).to_pylist()
    for row in rows:
        for half in ("key", "value"):
            row[half] = row[half] and row[half].replace(b"demo.three", GROUP.encode())
    current = [r for r in rows if r["key"][:2] == b"\0\x08" and b"demo.grown" in r["key"]]
    current[-1]["value"] = b"\0\0" + struct.pack(">i", -2) + current[-1]["value"][6:]
    home = next(row["partition"] for row in rows if GROUP.encode() in row["key"])
    lasts = {row["partition"]: row for row in sorted(rows, key=lambda row: row["offset"])}
    whole = commit("demo.cut", "orders", "metadata")
    more = (
        (home, commit(GROUP, TOPIC, METADATA)),
        (0, commit(DELETED, "orders", "m")),
        (0, commit(DELETED, "orders", None)),
        (0, (struct.pack(">h", 2) + text(DELETED), None)),
        (0, (whole[0], whole[1] and whole[1][:6])),
    )
    for partition, (key, value) in more:
        last = lasts[partition]
        lasts[partition] = {**last, "offset": last["offset"] + 1, "key": key, "value": value}
        rows.append(lasts[partition])
    pq.write_table(pa.Table.from_pylist(rows, pq.read_schema(CAPTURE)), to)


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("terminal") / "lake"


def test_a_record_that_can_not_be_read_is_a_warning(
    kip848: Command, spark: SparkSession, lake: Path
) -> None:
    strange(lake.parent / "strange.parquet")
    run = kip848("run", "--source", f"parquet:{lake.parent}/strange.parquet", "--lake", str(lake))
    assert "warning 1 of 500 records can't be decoded: 1 × truncated." in run.err
    (query,) = re.findall(r'kip848 sql --lake \S+ "(.*)"', run.err)
    listed = kip848("sql", "--lake", str(lake), "--json", query)
    (row,) = json.loads(listed.out)
    assert row["partition"] == 0
    assert row["error"].startswith("truncated")


def test_what_could_not_be_checked_is_counted(
    kip848: Command, spark: SparkSession, tmp_path: Path
) -> None:
    cleaned = DATA / "cleaned-4.3.1" / COMMITTED
    run = kip848("run", "--source", f"parquet:{cleaned}", "--lake", str(tmp_path / "lake"))
    judged = Lake(tmp_path / "lake").table("agreement").to_pylist()
    assert sum(row["unverifiable"] for row in judged) > 0
    output = re.findall(r"unverifiable: ([\d,]+) × (\w+): ", run.out)
    assert sum(int(number.replace(",", "")) for number, _ in output) == sum(
        row["unverifiable"] for row in judged
    )
    assert {check for _, check in output} == {r["check"] for r in judged if r["unverifiable"]}


def test_control_characters_are_escaped(kip848: Command, spark: SparkSession, lake: Path) -> None:
    at = ("--lake", str(lake))
    shown = r"g\x00\x1b\x7f\x9b\u202e!"
    for arguments in (
        ("groups",),
        ("groups", "--describe", GROUP),
        ("groups", "--all", "--members"),
        ("sql", "SELECT group_id AS `n\x1b\u202e` FROM groups"),
        ("sql", "SELECT collect_list(struct(group_id, topic)) AS all FROM offsets"),
    ):
        ended = kip848(*arguments, *at)
        assert ended.code == 0, ended
        assert shown in re.sub(r"\s", "", ended.out)
        assert not UNFIT.search(ended.out + ended.err), arguments
    offsets = kip848("groups", "--all", "--offsets", *at).out
    assert r"t\x1b[31m" in offsets
    assert r"m\nerror: forged\x00" in offsets
    unknown = kip848("groups", "--describe", "x\x1b]0;\x07", *at)
    assert r"no group x\x1b]0;\x07" in unknown.err
    raw = json.loads(kip848("groups", "--describe", GROUP, "--json", *at).out)
    assert raw[0]["group_id"] == GROUP
    assert METADATA in [offset["metadata"] for offset in raw[0]["offsets"]]


def test_a_plan_keeps_its_lines(kip848: Command, spark: SparkSession, lake: Path) -> None:
    query = ("sql", "EXPLAIN SELECT 1", "--lake", str(lake))
    assert "┌" in kip848(*query).out
    explained = kip848(*query, "--engine", "spark")
    assert "== Physical Plan ==" in [line.strip() for line in explained.out.splitlines()]


def test_what_spark_does_not_accept(kip848: Command, spark: SparkSession, lake: Path) -> None:
    by_spark = ("--lake", str(lake), "--engine", "spark")
    typo = kip848("sql", "SELECT 1\nFORM records WHERE", *by_spark)
    assert typo.code == 2
    assert "query (line 2, column 6): Syntax error at or near 'records'" in typo.err
    column = kip848("sql", "SELECT nonsense FROM groups", *by_spark)
    assert "There is no column nonsense (line 1, column 8)." in column.err
    for output in (typo.err, column.err):
        assert not re.search("SQLSTATE|== SQL|Project|[A-Z]_[A-Z]", output)


def test_a_group_that_is_not_there(
    kip848: Command, spark: SparkSession, lake: Path, tmp_path: Path
) -> None:
    no_java = {"PATH": str(tmp_path)}
    ended = alone(no_java, "audit", "--lake", str(lake), "--group", "demo.gron")
    assert ended.code == 1, ended
    assert "The lake has no group demo.gron. Did you mean demo.grown" in ended.err
    for known in ("demo.grown", DELETED):  # now it is Java that is missed
        ended = alone(no_java, "audit", "--lake", str(lake), "--group", known)
        assert ended.code == 2, ended
        assert "Java" in ended.err
    listed = json.loads(kip848("groups", "--json", "--lake", str(lake)).out)
    assert DELETED not in {group["group_id"] for group in listed}
    views = LakeViews(open_lake(spark, str(lake)))
    check_groups(["demo.grown", DELETED], views.group_ids)
    with pytest.raises(NotFoundError, match=r"no group demo\.gron"):
        check_groups(["demo.grown", "demo.gron"], views.group_ids)


def test_before_the_first_run(kip848: Command, spark: SparkSession, lake: Path) -> None:
    runs = "SELECT date_format(finished_at, 'yyyy-MM-dd HH:mm:ss') AS t FROM runs"
    (run,) = json.loads(kip848("sql", "--lake", str(lake), "--json", runs).out)
    hint = f"The first run finished at {run['t']}, the last at {run['t']} (UTC)."
    ended = kip848("groups", "--lake", str(lake), "--as-of", "2020-01-01T02:00+02:00")
    assert ended.code == 1
    assert "error: Nothing is known of 2020-01-01 00:00:00 UTC." in ended.err
    with pytest.raises(LakeError) as raised:
        LakeViews(open_lake(spark, str(lake)), datetime(2020, 1, 1, tzinfo=UTC))
    assert raised.value.hint == hint


def test_states(kip848: Command, spark: SparkSession, lake: Path) -> None:
    at = ("--lake", str(lake))
    every = {g["group_id"]: g["state"] for g in json.loads(kip848("groups", "--json", *at).out)}
    assert len(set(every.values())) > 1
    for asked, states in (
        (("--state", "Stable"), {"Stable"}),
        (("--state", "stable, EMPTY"), {"Stable", "Empty"}),
        (("--state=Empty",), {"Empty"}),
        (("--state",), set(every.values())),
    ):
        listed = json.loads(kip848("groups", "--json", *asked, *at).out)
        ids = [group["group_id"] for group in listed]
        assert ids == [name for name, state in every.items() if state in states]
    none = kip848("groups", "--state", "Dead", *at)
    assert none.code == 0
    assert "no groups in state Dead" in none.out
    wrong = kip848("groups", "--state", "stabel", *at)
    assert wrong.code == 2
    assert "Did you mean Stable?" in wrong.err
    described = kip848("groups", *at, "--describe", "demo.grown", "--state")
    assert described.code == 0
    assert described.out.split()[1:3] == ["type", "state"]
    table = kip848("groups", *at, "--all", "--state", "Stable").out.splitlines()
    assert table[0].split()[:3] == ["group_id", "type", "state"]
    assert len(table) == 1 + list(every.values()).count("Stable")


def test_one_table_of_all_groups(kip848: Command, spark: SparkSession, lake: Path) -> None:
    at = ("--lake", str(lake))
    groups = json.loads(kip848("groups", "--all", "--json", *at).out)
    members = kip848("groups", "--all", "--members", *at).out
    assert members.count("member_id") == 1
    grown = [line for line in members.splitlines() if line.startswith("demo.grown")]
    assert len(grown) == next(len(g["members"]) for g in groups if g["group_id"] == "demo.grown")
    assert re.search(r"orders\(0-2\)", members)
    assert re.search(r"demo\.grown .* -2 ", members)
    assert "Epoch -2: a static member" in members
    regex = kip848("groups", "--describe", "demo.regex", "--members", *at).out
    assert "Epoch -2" not in regex
    offsets = kip848("groups", "--all", "--offsets", *at).out
    header, *rows = offsets.splitlines()
    assert header.startswith("group_id")
    assert "commit_timestamp (UTC)" in header
    assert len(rows) == sum(len(group["offsets"]) for group in groups)
