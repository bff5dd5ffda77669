"""`conform` through the command line, on captures of real brokers."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from tests.captures import COMMITTED, DUMP, read_dump
from tests.cli.command import Command
from tests.conftest import DATA

CAPTURE = DATA / "kafka-4.3.1" / COMMITTED


@pytest.fixture
def damaged(tmp_path: Path) -> tuple[Path, str, int]:
    """The capture with one epoch record raised by 7: the file, the group and the offset."""
    line = next(
        line
        for line in read_dump(CAPTURE.with_name(DUMP))
        if "key" in line
        and line["key"]["type"] == "3"
        and line["payload"]
        and line["payload"]["data"]["epoch"] == 3
    )
    table = pq.read_table(CAPTURE)
    rows = zip(table["partition"].to_pylist(), table["offset"].to_pylist(), strict=True)
    row = list(rows).index((line["partition"], line["offset"]))
    values = table["value"].to_pylist()
    value = bytearray(values[row])  # int16 version, int32 epoch
    value[2:6] = (10).to_bytes(4, "big")
    values[row] = bytes(value)
    column = table.column_names.index("value")
    path = tmp_path / "damaged"
    path.mkdir()
    changed = table.set_column(column, "value", pa.array(values, table["value"].type))
    pq.write_table(changed, path / "0.parquet")
    return path, line["key"]["data"]["groupId"], line["offset"]


def test_a_real_log_conforms(kip848: Command, spark: SparkSession) -> None:
    ended = kip848("conform", "--source", f"parquet:{CAPTURE}", "--release", "4.3", "--json")
    assert ended.code == 0, ended
    rows = json.loads(ended.out)
    verdicts = {row["group_id"]: row["verdict"] for row in rows}
    lines = (line for line in read_dump(CAPTURE.with_name(DUMP)) if "key" in line)
    keys = [(line["key"]["type"], line["key"]["data"]) for line in lines]
    consumer = {data["groupId"] for kind, data in keys if kind in ("3", "8")}
    assert {group for group, verdict in verdicts.items() if verdict == "conforms"} == consumer
    assert {row["reason"] for row in rows} == {None, "it is a classic group"}


def test_what_is_wrong_is_said(
    kip848: Command, spark: SparkSession, damaged: tuple[Path, str, int]
) -> None:
    path, group, offset = damaged
    ended = kip848("conform", "--source", f"parquet:{path}", "--group", group)
    assert ended.code == 1, ended
    assert f"{group} does not conform at offset {offset} of partition" in ended.out
    assert "recorded  3, the group epoch: epoch 10" in ended.out
    assert "allowed   3, the group epoch: epoch 3" in ended.out
    assert "1 groups: 0 conform, 1 do not, 0 not judged" in ended.out


def test_a_compacted_log_is_not_judged(kip848: Command, spark: SparkSession) -> None:
    """Of a compacted log, the records that justify later ones are gone."""
    source = f"parquet:{DATA / 'cleaned-4.3.1' / COMMITTED}"
    ended = kip848("conform", "--source", source, "--json")
    assert ended.code == 0, ended
    rows = json.loads(ended.out)
    assert {row["verdict"] for row in rows} == {"not_judged"}
    assert any("records before it may be missing" in row["reason"] for row in rows)


def test_wrong_usage_is_said(kip848: Command, spark: SparkSession) -> None:
    source = ("--source", f"parquet:{CAPTURE}")
    bad = kip848("conform", *source, "--release", "3.9")
    assert bad.code == 2
    assert "no model of release 3.9" in bad.err
    unknown = kip848("conform", *source, "--group", "nobody")
    assert unknown.code == 2
    assert "no control record of a group nobody" in unknown.err
