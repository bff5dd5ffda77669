"""The package imported from its wheel as it is, a zip file: as Spark's executors import it."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path
from typing import Any

import pytest

from tests.captures import COMMITTED, read_dump
from tests.conftest import DATA
from tests.report.example import report

pytestmark = pytest.mark.slow

ROOT = DATA.parents[1]
CAPTURE = DATA / "kafka-4.3.1" / COMMITTED
FROM_ZIP = """
import sys
from pathlib import Path
others = [path for path in sys.path if not Path(path, "kip848_spark/__init__.py").exists()]
sys.path[:] = [sys.argv[1], *others]
import kip848_spark
assert kip848_spark.__file__.startswith(sys.argv[1] + "/"), kip848_spark.__file__
"""
DECODES = """
import json
import pyarrow.parquet as pq
from kip848_spark.wire.decode import DecodePlan, decode
from kip848_spark.wire.definitions import dialects, load_shipped
from kip848_spark.wire.tables import record_columns
rows = pq.read_table(sys.argv[2], columns=["partition", "offset", "key", "value"]).combine_chunks()
keys, values = rows["key"].chunk(0), rows["value"].chunk(0)
plan = DecodePlan.of(load_shipped())
found = record_columns(plan, decode(plan, keys, values), keys, values)
names = ("key_type", "group_id", "value_version", "error")
columns = [rows["partition"], rows["offset"], *(found[name] for name in names)]
read = list(zip(*(column.to_pylist() for column in columns)))
print(json.dumps({"read": read, "dialects": dialects()}))
"""
RESOURCES = """
import json
from kip848_spark.config import settings as config
from kip848_spark.runtime import jars
from kip848_spark.runtime.resources import resource, resource_path
print(json.dumps({
    "defaults": config.load().model_dump(),
    "locked": jars.locked("spark"),
    "ivy.xml": resource("conf/ivy.xml").read_text(),
    "log4j2.properties": resource_path("conf/log4j2.properties").read_text(),
}))
"""

PAGE = """
import json
from kip848_spark.report.page import render
print(json.dumps(render(json.loads(Path(sys.argv[2]).read_text()))))
"""


def run(script: str, wheel: Path, folder: Path, *arguments: object) -> Any:
    """What ``script`` prints, in a process of its own that finds the package in ``wheel`` only."""
    command = [sys.executable, "-I", "-c", FROM_ZIP + script, str(wheel), *map(str, arguments)]
    where = {"KIP848_CACHE": str(folder / "cache"), "PATH": "/usr/bin:/bin"}
    done = subprocess.run(
        command, cwd=folder, env=where, capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_it_decodes(wheel: Path, tmp_path: Path) -> None:
    """What is read is what Kafka's tool printed of the same records."""
    found = run(DECODES, wheel, tmp_path, CAPTURE)
    assert found["dialects"] == ["kip", "kip-draft", "shipped"]
    dump = {
        (line["partition"], line["offset"]): (
            int(line["key"]["type"]),
            line["key"]["data"].get("groupId", line["key"]["data"].get("group")),
            None if line["payload"] is None else int(line["payload"]["version"]),
            None,
        )
        for line in read_dump(CAPTURE.with_name("dump.jsonl.gz"))
        if "key" in line
    }
    assert len(found["read"]) > 400
    for partition, offset, *row in found["read"]:
        assert tuple(row) == dump[partition, offset], (partition, offset)


def test_compiled_kernels_are_found_again(wheel: Path, tmp_path: Path) -> None:
    """Spark copies a zip file to another folder for each application."""
    run(DECODES, wheel, tmp_path, CAPTURE)
    compiled = {file: file.stat().st_mtime_ns for file in tmp_path.rglob("*.nb?")}
    assert {file.suffix for file in compiled} == {".nbi", ".nbc"}
    copied = tmp_path / "application-2" / "kip848.zip"
    copied.parent.mkdir()
    shutil.copy(wheel, copied)
    run(DECODES, copied, tmp_path, CAPTURE)
    assert {file: file.stat().st_mtime_ns for file in tmp_path.rglob("*.nb?")} == compiled


def test_its_own_files_are_those_of_the_checkout(wheel: Path, tmp_path: Path) -> None:
    found = run(RESOURCES, wheel, tmp_path)
    for name in ("ivy.xml", "log4j2.properties"):
        assert found[name] == (ROOT / "conf" / name).read_text()
    defaults = tomllib.loads((ROOT / "conf" / "defaults.toml").read_text())
    assert defaults.items() <= found["defaults"].items()
    lock = (ROOT / "conf" / "jars.lock").read_text()
    section = lock.partition("[spark]\n")[2].partition("\n\n")[0]
    lines = (line.split() for line in section.splitlines())
    assert found["locked"] == {name: digest for digest, name in lines}


def test_it_has_the_files_of_the_report_and_their_licences(wheel: Path, tmp_path: Path) -> None:
    given = tmp_path / "report.json"
    given.write_text(json.dumps(report(groups=9, rebalances=5)))
    page = run(PAGE, wheel, tmp_path, given)
    assets = ROOT / "kip848_spark" / "report" / "assets"
    for name in ("echarts.min.js", "tabulator.min.js", "tabulator.min.css"):
        assert (assets / name).read_text() in page
    names = set(zipfile.ZipFile(wheel).namelist())
    licences = [path.name for path in assets.iterdir() if "LICENSE" in path.name]
    assert len(licences) == 3
    assert {f"kip848_spark/report/assets/{name}" for name in licences} <= names
