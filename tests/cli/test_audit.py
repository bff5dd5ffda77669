"""`run` and `audit` on a log with a fault in it: exit code, the finding, and how to narrow it."""

from __future__ import annotations

import json
import struct
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from tests.captures import COMMITTED
from tests.cli.command import Command
from tests.conftest import DATA

GROUP = b"demo.grown"


def planted(to: Path) -> tuple[int, int]:
    """The capture with the epoch of a member's last assignment 40 too high; where that is."""
    table = pq.read_table(DATA / "kafka-4.3.1" / COMMITTED)
    keys, values = table["key"].to_pylist(), table["value"].to_pylist()
    at = max(
        i
        for i, (key, value) in enumerate(zip(keys, values, strict=True))
        if key[:2] == b"\0\x08" and GROUP in key and value is not None
    )
    epoch = struct.unpack_from(">i", values[at], 2)[0]
    values[at] = values[at][:2] + struct.pack(">i", epoch + 40) + values[at][6:]
    column = table.column_names.index("value")
    pq.write_table(table.set_column(column, "value", pa.array(values, pa.binary())), to)
    return table["partition"][at].as_py(), table["offset"][at].as_py()


@pytest.mark.slow
@pytest.mark.usefixtures("spark")
def test_a_planted_fault(kip848: Command, tmp_path: Path, spark: SparkSession) -> None:
    place = planted(tmp_path / "capture.parquet")
    lake = str(tmp_path / "lake")
    night = kip848("run", "--source", f"parquet:{tmp_path / 'capture.parquet'}", "--lake", lake)
    assert night.code == 1, night
    assert f"demo.grown at {place[0]}/{place[1]}" in " ".join(night.out.split())

    reported = kip848("audit", "--lake", lake, "--json")
    assert reported.code == 1
    output = json.loads(reported.out)
    assert {row["check"] for row in output["agreement"] if row["disagreed"]} <= {
        row["check"] for row in output["findings"]
    }
    assert {(f["group_id"], f["partition"], f["offset"]) for f in output["findings"]} == {
        ("demo.grown", *place)
    }
    assert all(f["explanation"].count("\n") == 4 for f in output["findings"])
    (root,) = (f for f in output["findings"] if f["caused_by"] is None)
    assert {f["caused_by"] for f in output["findings"]} == {None, root["finding_id"]}

    listed = kip848("findings", "--lake", lake, "--run", "all", "--follow", "--json")
    assert listed.code == 1
    ids: dict[str, set[str]] = {}
    for row in json.loads(listed.out):
        ids.setdefault(row["run_id"], set()).add(row["finding_id"])
    assert list(ids.values()) == [{f["finding_id"] for f in output["findings"]}] * 2
    assert f"and {len(output['findings']) - 1} that follow" in night.out

    other = kip848("audit", "--lake", lake, "--json", "--group", "demo.three")
    assert other.code == 0, other
    assert json.loads(other.out)["findings"] == []
    later = kip848("audit", "--lake", lake, "--since", "now")
    assert later.code == 0, later
    assert "Nothing disagrees" in later.out
    again = kip848("run", "--source", f"parquet:{tmp_path / 'capture.parquet'}", "--lake", lake)
    assert again.code == 0, again
    assert "no new records" in again.out
    wrong = kip848("audit", "--lake", lake, "--since", "soon")
    assert wrong.code == 2
    assert "--since 'soon' is not a time." in wrong.err
    future = kip848("audit", "--lake", lake, "--since", "2999-01-01")
    assert future.code == 2
    assert "--since '2999-01-01' is in the future" in future.err
    unknown = kip848("audit", "--lake", lake, "--release", "9.9")
    assert unknown.code == 2

    named = kip848("audit", "--lake", lake, "--release", "4.3.1")
    assert named.code == 1, named
    assert "All records were judged by the rules of release 4.3.1." in " ".join(named.err.split())
    assert "All records were judged" not in reported.err + other.err
    typing_error = kip848("maintain", "--lake", lake, "--erase", "group:demo.thre")
    assert typing_error.code == 0, typing_error
    assert "No row has group:demo.thre. Check the spelling" in typing_error.out
    found = kip848("maintain", "--lake", lake, "--erase", "group:demo.three")
    assert found.code == 0, found
    assert "rows were removed or changed." in found.out
    assert "No row has" not in found.out
