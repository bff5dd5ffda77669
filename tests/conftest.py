"""Fixtures that all tests share (a broker, a Spark session), and how tests run side by side."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings
from pyspark.sql import SparkSession

from kip848_spark.local.broker import Broker
from kip848_spark.local.scenarios import SETTINGS, IdleConsumers, drive
from kip848_spark.spark.session import local_session
from tests import groups
from tests.spark.s3 import S3Server, s3_server

# How long an example takes says nothing of the code on a busy machine. On CI the examples are the
# same every time: what is new is found where somebody can look at it.
settings.register_profile("here", deadline=None, derandomize=bool(os.environ.get("CI")))
settings.load_profile("here")

DATA = Path(__file__).parent / "data"
RELEASES = ("4.3.1", "4.0.2")
CAPTURED = ("4.3.1", "4.2.0", "4.1.2", "4.0.2")
"""Releases of which there is a capture of all scenarios; Spark tests use the newest and oldest."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    groups.check(items)
    items.sort(key=lambda item: groups.place_of(groups.group_of(item.nodeid)))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> groups.Scheduler:
    return groups.Scheduler(config, log)


@pytest.fixture(scope="session")
def broker() -> Iterator[Broker]:
    """A running Kafka 4.3.1; groups and topics of a test need names of their own."""
    with Broker("4.3.1", settings=SETTINGS) as running:
        yield running


@pytest.fixture(scope="session")
def idle_consumers(broker: Broker) -> Iterator[IdleConsumers]:
    """The same broker after all scenarios, their consumers running and writing nothing."""
    with drive(broker) as rest:
        yield rest


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """A local Spark session, as the command line makes it."""
    session = local_session()
    yield session
    session.stop()


@pytest.fixture(scope="session")
def s3(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    """A local S3 server with a bucket; each test needs paths of its own."""
    with s3_server(tmp_path_factory.mktemp("s3") / "server.log") as server:
        yield server


@pytest.fixture(scope="session")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel of this checkout."""
    folder = tmp_path_factory.mktemp("wheel")
    options = ["--quiet", "--no-deps", "--no-build-isolation", "--wheel-dir", str(folder)]
    command = [sys.executable, "-m", "pip", "wheel", *options, str(DATA.parents[1])]
    subprocess.run(command, check=True, timeout=300)
    (built,) = folder.glob("*.whl")
    return built


@pytest.fixture(params=RELEASES)
def capture(request: pytest.FixtureRequest) -> Path:
    """The folder of a capture of a real broker, one release after the other."""
    return DATA / f"kafka-{request.param}"
