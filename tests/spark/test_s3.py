"""A lake on S3 equals a lake on a local disk, and is read from there without a JVM."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.captures import COMMITTED, LIVE, read_live
from tests.conftest import DATA
from tests.spark.lakes import DATA_TABLES, rows_of_files
from tests.spark.s3 import S3Server

CAPTURE = DATA / "kafka-4.3.1"

pytestmark = [pytest.mark.long, pytest.mark.timeout(1200)]


def kip848(*arguments: str, **environment: str) -> str:
    """What a command prints, in a process of its own."""
    done = subprocess.run(
        [sys.executable, "-m", "kip848_spark", *arguments],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_lake_on_s3(s3: S3Server, tmp_path: Path) -> None:
    """The job as a user runs it, on the server and on the disk."""
    lake, local = s3.path("lake"), str(tmp_path / "lake")
    settings = "".join(f"{json.dumps(n)} = {json.dumps(v)}\n" for n, v in s3.spark.items())
    config = tmp_path / "s3.toml"
    config.write_text(f"[spark]\n{settings}")
    on_s3 = ("--config", str(config), "--lake", lake)
    source = f"parquet:{CAPTURE / COMMITTED}"
    said = kip848("run", "--source", source, *on_s3, "--json")
    assert json.loads(said)["changed"]
    kip848("run", "--source", source, "--lake", local)

    for table in DATA_TABLES:
        of_local = rows_of_files(f"{local}/{table}")
        assert rows_of_files(f"{lake}/{table}", s3.storage_options) == of_local, table
    assert rows_of_files(f"{local}/agreement")

    shown = [
        json.loads(kip848("groups", "--all", "--lake", path, "--json", **environment))
        for path, environment in ((lake, s3.storage_options), (local, {}))
    ]
    assert shown[0] == shown[1]
    assert {group["group_id"] for group in shown[0]} == read_live(CAPTURE / LIVE).groups.keys()

    again = kip848("run", "--source", source, *on_s3, "--json")
    assert not json.loads(again)["changed"]


def test_the_jars_for_spark_submit() -> None:
    names = {Path(jar).name for jar in json.loads(kip848("jars", "--s3", "--json"))}
    assert {"hadoop-aws-3.5.0.jar", "delta-spark_4.2_2.13-4.4.0.jar"} < names
