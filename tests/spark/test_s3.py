"""A lake on S3: equal to one on a local disk, read without a JVM, written by one run at a time.

Each test runs on moto's server, and on the Versity S3 Gateway if `OTHER_SERVER` names its program.
The gateway checks signatures and keeps objects in files; the two have no code in common.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from kip848_spark.lake.folders import LEASES
from kip848_spark.lake.location import locate
from kip848_spark.lake.snapshot import LakeSnapshot
from tests.captures import COMMITTED, LIVE, read_live
from tests.conftest import DATA
from tests.spark.lakes import TABLES_OF_RECORDS, rows_of_files
from tests.spark.s3 import (
    OTHER_SERVER,
    SECRET,
    SECRET_OF,
    S3Server,
    client,
    s3_server,
    versity_server,
)
from tests.spark.stores import check_folder, kip848
from tests.spark.test_erasure import files_with

CAPTURE = DATA / "kafka-4.3.1"

pytestmark = [pytest.mark.long, pytest.mark.timeout(1200)]


@pytest.fixture(scope="module", params=["moto", "versity"])
def s3(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[S3Server]:
    """A server with a bucket."""
    if request.param == "moto":
        with s3_server(tmp_path_factory.mktemp("moto") / "server.log") as server:
            yield server
        return
    program = os.environ.get(OTHER_SERVER)
    if not program:
        pytest.skip(f"{OTHER_SERVER} does not name the program of the Versity S3 Gateway")
    with versity_server(program, tmp_path_factory.mktemp("versity")) as server:
        yield server


def test_a_lake_on_s3(s3: S3Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The job as a user runs it, on the server and on the disk."""
    lake, local = s3.path("lake"), str(tmp_path / "lake")
    monkeypatch.setenv(SECRET_OF, SECRET)
    config = tmp_path / "s3.toml"
    config.write_text(s3.file())
    on_s3 = ("--config", str(config), "--lake", lake)
    source = f"parquet:{CAPTURE / COMMITTED}"
    output = kip848("run", "--source", source, *on_s3, "--json")
    assert json.loads(output)["changed"]
    kip848("run", "--source", source, "--lake", local)

    for table in TABLES_OF_RECORDS:
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
    assert committers(s3, "lake") == {"delta-rs"}, "Spark committed as well, which is unsafe on S3"
    read_without_java(s3, lake, local, tmp_path)


def committers(s3: S3Server, lake: str) -> set[str]:
    """The programs that committed to the tables of a lake, by the commits themselves."""
    store = client(s3)
    pages = store.get_paginator("list_objects_v2").paginate(Bucket=s3.bucket, Prefix=f"{lake}/")
    keys = [entry["Key"] for page in pages for entry in page["Contents"]]
    found = set()
    for key in keys:
        if "/_delta_log/" in key and key.endswith(".json"):
            commit = store.get_object(Bucket=s3.bucket, Key=key)["Body"].read()
            actions = [json.loads(line) for line in commit.splitlines()]
            (info,) = [action["commitInfo"] for action in actions if "commitInfo" in action]
            found.add(info["engineInfo"].partition(":")[0])
    return found


def read_without_java(s3: S3Server, lake: str, local: str, tmp_path: Path) -> None:
    """The commands that read a lake give what they give for the one on the disk."""
    no_java = {"JAVA_HOME": str(tmp_path / "no-java"), "PATH": "/nowhere"}
    query = "SELECT kind, count(*) AS n FROM records GROUP BY kind ORDER BY kind"
    group = json.loads(kip848("rebalances", "--lake", local, "--json"))[0]["group_id"]
    for command in (
        ("sql", query, "--json"),
        ("rebalances", "--json"),
        ("history", group, "--json"),
    ):
        both = [
            kip848(*command, "--lake", path, **no_java, **s3.storage_options)
            for path in (lake, local)
        ]
        assert both[0] == both[1], command
        assert len(both[0]) > 2, command
    told = kip848("explain", group, "--lake", lake, **no_java, **s3.storage_options)
    assert group in told
    page = tmp_path / "report.html"
    kip848("report", "--lake", lake, "--out", str(page), **no_java, **s3.storage_options)
    assert page.stat().st_size > 100_000


def test_a_capture_on_s3(s3: S3Server) -> None:
    """Written there with its origin, and read from there."""
    original, copy = f"parquet:{CAPTURE / COMMITTED}", s3.path("capture")
    kip848("capture", "--source", original, "--out", copy, **s3.storage_options)
    output = kip848("dump", "--source", f"parquet:{copy}", **s3.storage_options)
    assert output == kip848("dump", "--source", original)
    objects = client(s3).list_objects_v2(Bucket=s3.bucket, Prefix="capture/")["Contents"]
    assert "capture/_origin.json" in [entry["Key"] for entry in objects]


def test_the_jars_for_spark_submit() -> None:
    names = {Path(jar).name for jar in json.loads(kip848("jars", "--s3", "--json"))}
    assert {"hadoop-aws-3.5.0.jar", "delta-spark_4.2_2.13-4.4.0.jar"} < names


def started(s3: S3Server, *arguments: str) -> subprocess.Popen[str]:
    """The command line in a process of its own, with the store's settings in the environment."""
    return subprocess.Popen(
        [sys.executable, "-m", "kip848_spark", *arguments],
        env=os.environ | s3.storage_options,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def leases(s3: S3Server, lake: str) -> list[str]:
    listed = client(s3).list_objects_v2(Bucket=s3.bucket, Prefix=f"{lake}/{LEASES}/")
    return [entry["Key"] for entry in listed.get("Contents", ())]


def test_of_many_that_create_an_object_one_does(s3: S3Server) -> None:
    pairs = [f"{name}={value}" for name, value in s3.spark.items()]
    check_folder(s3.path("folder"), *pairs)


def test_two_runs_at_once_and_one_that_is_killed(s3: S3Server) -> None:
    """The second one leaves; after the first one was killed, the next one repeats its plan."""
    run = ("run", "--source", f"parquet:{CAPTURE / COMMITTED}", "--lake", s3.path("two"), "--json")
    first = started(s3, *run)
    deadline = time.monotonic() + 300
    while not leases(s3, "two"):
        assert first.poll() is None, first.communicate()
        assert time.monotonic() < deadline, "no lease appeared"
        time.sleep(0.2)
    second = started(s3, *run)
    _, output = second.communicate(timeout=300)
    assert second.returncode == 3, output
    assert "Another run is writing to the lake" in " ".join(output.split())
    assert first.poll() is None, "the first run ended before the second one looked"
    os.killpg(first.pid, signal.SIGKILL)
    first.communicate()

    third = started(s3, *run)
    out, output = third.communicate(timeout=600)
    assert third.returncode == 0, output
    state = LakeSnapshot(locate(s3.path("two")), storage=s3.storage_options)
    assert state.run.run_id in out
    records = state.rows("records")
    places = [(row["partition"], row["offset"]) for row in records]
    assert state.run.counts is not None
    assert len(places) == len(set(places)) == state.run.counts.records_read > 0


def test_maintenance(s3: S3Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Retention and erasure, on the server as on the disk."""
    erased = "demo.uniform"
    monkeypatch.setenv(SECRET_OF, SECRET)
    config = tmp_path / "s3.toml"
    config.write_text(s3.file())
    on_s3 = ("--config", str(config), "--lake", s3.path("kept"))
    source = f"parquet:{CAPTURE / COMMITTED}"
    kip848("run", "--source", source, *on_s3)
    before = json.loads(kip848("groups", "--all", "--json", *on_s3[2:], **s3.storage_options))
    assert files_with(downloaded(s3, "kept", tmp_path / "before"), erased)

    told = kip848("maintain", *on_s3, "--keep", "1h", "--erase", f"group:{erased}", "--json")

    done = json.loads(told)
    assert done["removed"]["records"] > 100
    assert done["erased"]["records"] > 0
    assert not files_with(downloaded(s3, "kept", tmp_path / "after"), erased)
    after = json.loads(kip848("groups", "--all", "--json", *on_s3[2:], **s3.storage_options))
    assert after == [group for group in before if group["group_id"] != erased]
    assert committers(s3, "kept") == {"delta-rs"}
    assert not json.loads(kip848("run", "--source", source, *on_s3, "--json"))["changed"]


def downloaded(s3: S3Server, lake: str, to: Path) -> Path:
    """A copy of all objects of a lake."""
    store = client(s3)
    for page in store.get_paginator("list_objects_v2").paginate(
        Bucket=s3.bucket, Prefix=f"{lake}/"
    ):
        for entry in page["Contents"]:
            path = to / entry["Key"]
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(store.get_object(Bucket=s3.bucket, Key=entry["Key"])["Body"].read())
    return to
