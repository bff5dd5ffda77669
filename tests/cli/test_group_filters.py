"""`groups --state`, `--type` and `--validate-regex` beside Kafka's own ConsumerGroupCommand."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from kip848_spark.local.broker import CANONICAL, Broker
from kip848_spark.local.testbed import BrokerTestbed
from kip848_spark.runtime.jars import broker_jars
from kip848_spark.runtime.java import find_java
from kip848_spark.spark.pipeline import run_ingest
from kip848_spark.spark.sources import KafkaSource
from kip848_spark.spark.storage.opening import open_lake
from tests.cli.command import Command

PREFIX = "filtered."
"""Of the groups of these tests: the broker is shared with others."""


def kafka_command(*arguments: str) -> str:
    """What ConsumerGroupCommand prints."""
    jars = os.pathsep.join(str(jar) for jar in broker_jars(CANONICAL))
    tool = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"
    done = subprocess.run(
        [str(find_java()), "-Xmx256m", "-cp", jars, tool, *arguments],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout


def listed(broker: Broker, *options: str) -> dict[str, tuple[str, ...]]:
    """The groups of a broker with the columns that the options show."""
    printed = kafka_command("--bootstrap-server", broker.bootstrap, "--list", *options)
    rows = [line.split() for line in printed.splitlines()[1:] if line.strip()]
    return {row[0]: tuple(row[1:]) for row in rows if row[0].startswith(PREFIX)}


@pytest.fixture(scope="module")
def lake(
    broker: Broker, spark: SparkSession, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Path]:
    """A lake of a broker with a stable and an empty group of both types."""
    path: Path = tmp_path_factory.mktemp("filters") / "lake"
    testbed = BrokerTestbed(broker)
    try:
        testbed.create_topics(filtered=2)
        for protocol in ("consumer", "classic"):
            testbed.join(f"{PREFIX}{protocol}-stable", ["filtered"], protocol=protocol)
            leaving = testbed.join(f"{PREFIX}{protocol}-empty", ["filtered"], protocol=protocol)
            testbed.wait_until_stable(f"{PREFIX}{protocol}-stable", 2)
            testbed.wait_until_stable(f"{PREFIX}{protocol}-empty", 2)
            leaving.close()
        run_ingest(KafkaSource(broker.bootstrap), open_lake(spark, str(path)), then_replay=True)
        yield path
    finally:
        testbed.close()


@pytest.mark.parametrize(
    "options",
    [
        ("--type", "consumer"),
        ("--type", "CLASSIC"),
        ("--state", "stable,Empty"),
        ("--type", "consumer,classic", "--state", "Stable"),
    ],
)
def test_filters_select_what_kafkas_tool_selects(
    kip848: Command, broker: Broker, lake: Path, options: tuple[str, ...]
) -> None:
    ours = json.loads(kip848("groups", "--lake", str(lake), *options, "--json").out)
    found = {
        group["group_id"]: (group["type"].capitalize(), group["state"])
        for group in ours
        if group["group_id"].startswith(PREFIX)
    }
    shown = ("--type" in options, "--state" in options)
    theirs = listed(broker, *options)
    assert theirs
    assert {
        name: tuple(value for value, wanted in zip(row, shown, strict=True) if wanted)
        for name, row in found.items()
    } == theirs


def test_the_options_without_a_value_select_nothing_away(kip848: Command, lake: Path) -> None:
    everything = kip848("groups", "--lake", str(lake), "--json").out
    assert kip848("groups", "--lake", str(lake), "--type", "--state", "--json").out == everything
    mistaken = kip848("groups", "--lake", str(lake), "--type", "consumr")
    assert mistaken.code == 2
    assert "consumr" in mistaken.err
    assert "consumer" in mistaken.err.split("consumr", 1)[1]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--members",), "Add --describe GROUP, or --all."),
        (("--offsets",), "Add --describe GROUP, or --all."),
        (("--all", "--describe", "orders"), "--all describes every group"),
    ],
)
def test_options_that_would_have_no_effect_are_refused(
    kip848: Command, lake: Path, options: tuple[str, ...], words: str
) -> None:
    ended = kip848("groups", "--lake", str(lake), *options)
    assert ended.code == 2
    assert words in ended.err


@pytest.mark.parametrize("regex", ["orders.(eu|us)+", "orders(?=-eu)", "[a-", "a**"])
def test_an_expression_is_judged_as_by_kafkas_tool(kip848: Command, regex: str) -> None:
    theirs = kafka_command("--bootstrap-server", "127.0.0.1:1", "--validate-regex", regex)
    ours = kip848("groups", "--validate-regex", regex)
    assert ours.out.strip() == theirs.strip()
    assert ours.code == (0 if "is valid" in theirs else 1)
    assert not ours.err
