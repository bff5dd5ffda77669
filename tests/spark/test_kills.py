"""`kip848 run` and `kip848 maintain`, killed at random moments: the next run makes it good.

SIGKILL ends the driver, its JVM or a Python worker. `KIP848_KILLS` is the number of kills (6), and
`KIP848_KILLS_SEED` the seed (0).
"""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from kip848_spark.errors import LakeError
from kip848_spark.lake.location import locate
from kip848_spark.lake.snapshot import LakeSnapshot
from tests.captures import COMMITTED
from tests.conftest import DATA
from tests.spark.lakes import DATA_TABLES, halves, rows_of_files, write_part
from tests.spark.s3 import S3Server

pytestmark = [pytest.mark.long, pytest.mark.timeout(6 * 3600)]

CAPTURE = DATA / "kafka-4.3.1" / COMMITTED
KILLS = int(os.environ.get("KIP848_KILLS", "6"))
SEED = int(os.environ.get("KIP848_KILLS_SEED", "0"))
DRIVER, JVM, WORKER = "driver", "JVM", "Python worker"
OF_THE_RUN = ("run_id", "cluster_id", "finding_id")


def start(arguments: list[str], options: dict[str, str]) -> subprocess.Popen[str]:
    """Starts a command."""
    return subprocess.Popen(
        [sys.executable, "-m", "kip848_spark", *arguments],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | options,
    )


def completed(arguments: list[str], options: dict[str, str]) -> float:
    """Runs a command to its end; returns its duration in seconds."""
    began = time.monotonic()
    process = start(arguments, options)
    _, error = process.communicate()
    assert process.returncode == 0, error
    return time.monotonic() - began


def victim(process: subprocess.Popen[str], kind: str) -> psutil.Process:
    """A process of ``kind`` that belongs to ``process``; the driver if there is none now."""
    driver = psutil.Process(process.pid)
    if kind == DRIVER:
        return driver
    name = "java" if kind == JVM else "python"
    found = []
    for child in driver.children(recursive=True):
        try:
            if child.name().startswith(name):
                found.append(child)
        except psutil.NoSuchProcess:
            continue
    return found[-1] if found else driver


def tables(lake: str, options: dict[str, str]) -> dict[str, list[str]]:
    """The rows of each table at its newest version."""
    delta = lake.replace("s3a://", "s3://")
    return {name: rows_of_files(f"{delta}/{name}", options, OF_THE_RUN) for name in DATA_TABLES}


def finished_runs(lake: str, options: dict[str, str]) -> int:
    """How many finished runs a reader sees."""
    try:
        return LakeSnapshot(locate(lake), storage=options).table("runs").num_rows
    except LakeError:
        return 0


@pytest.mark.parametrize("where", ["local", "s3"])
def test_kills(where: str, request: pytest.FixtureRequest, tmp_path: Path) -> None:
    """In each round, a first night, and then a second one or the maintenance that is killed."""
    options: dict[str, str] = {}
    base = str(tmp_path)
    if where == "s3":
        server: S3Server = request.getfixturevalue("s3")
        options, base = server.storage_options, server.path("kills")
    first = write_part(CAPTURE, tmp_path / "first.parquet", halves(CAPTURE))

    def night(lake: str, capture: Path = CAPTURE) -> list[str]:
        return ["run", "--source", f"parquet:{capture}", "--lake", lake]

    wanted = f"{base}/wanted"
    completed(night(wanted, first), options)
    duration = completed(night(wanted), options)
    expected = tables(wanted, options)
    chance = random.Random(SEED)
    killed: list[str] = []
    for number in range(KILLS):
        lake = f"{base}/lake-{number}"
        maintenance = number % 3 == 2
        completed(night(lake, first), options)
        if maintenance:
            completed(night(lake), options)
        before = finished_runs(lake, options)
        command = ["maintain", "--lake", lake] if maintenance else night(lake)
        kind = chance.choice((DRIVER, JVM) if maintenance else (DRIVER, JVM, WORKER))
        process = start(command, options)
        moment = chance.uniform(0.05, 1.0) * duration
        time.sleep(moment)
        what = f"{command[0]}: {kind} after {moment:.1f} of {duration:.1f} s"
        if process.poll() is None:
            victim(process, kind).send_signal(signal.SIGKILL)
        _, error = process.communicate()
        assert "Traceback" not in error, f"{what}: {error}"
        assert process.returncode in (0, 3, -signal.SIGKILL), f"{what}: {error}"
        assert finished_runs(lake, options) - before in (0, 1), what
        completed(night(lake), options)
        found = tables(lake, options)
        differing = [name for name in DATA_TABLES if found[name] != expected[name]]
        assert not differing, f"{what}: {differing}"
        killed.append(f"{what}: exit {process.returncode}")
        print(killed[-1], flush=True)
        if where == "local":
            shutil.rmtree(lake)
    assert len(killed) == KILLS
