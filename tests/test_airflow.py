"""The DAGs of airflow_dags/ in a real Airflow, on a real broker and lake.

Airflow pins hundreds of packages, so it has an environment of its own. The variable KIP848_AIRFLOW
names its command ``airflow`` (docs/airflow.md).
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pyarrow.compute as pc
import pytest
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

from kip848_spark.lake.location import locate
from kip848_spark.lake.snapshot import LakeSnapshot
from kip848_spark.local.broker import Broker
from tests.cli.test_audit import planted

AIRFLOW = os.environ.get("KIP848_AIRFLOW")
DAGS = Path(__file__).parents[1] / "airflow_dags"

pytestmark = [
    pytest.mark.long,
    pytest.mark.timeout(1200),
    pytest.mark.skipif(not AIRFLOW, reason="KIP848_AIRFLOW does not name Airflow's command"),
]


class Airflow:
    """Airflow with a home folder of its own; ``kip848`` is the command that its tasks start."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.kip848 = home / "kip848"
        self.kip848.write_text(f'#!/bin/sh\nexec {sys.executable} -m kip848_spark "$@"\n')
        self.kip848.chmod(0o755)
        self("db", "migrate")

    def __call__(self, *arguments: str, succeeds: bool = True) -> str:
        environment = {
            **os.environ,
            "AIRFLOW_HOME": str(self.home),
            "AIRFLOW__CORE__DAGS_FOLDER": str(DAGS),
            "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        }
        done = subprocess.run(
            [str(AIRFLOW), *arguments],
            env=environment,
            capture_output=True,
            text=True,
            timeout=900,
            check=False,
        )
        output = done.stdout + done.stderr
        assert (done.returncode == 0) is succeeds, output[-6000:]
        return output

    def test(self, dag: str, *, succeeds: bool = True, **params: str) -> str:
        """Runs a DAG once with ``params``."""
        conf = {"kip848": str(self.kip848), **params}
        return self("dags", "test", dag, "--conf", json.dumps(conf), succeeds=succeeds)


@pytest.fixture(scope="module")
def airflow(tmp_path_factory: pytest.TempPathFactory) -> Airflow:
    return Airflow(tmp_path_factory.mktemp("airflow"))


@pytest.fixture(scope="module")
def bootstrap() -> Iterator[str]:
    """A broker whose topic has records of a group."""
    with Broker(offsets_partitions=2) as broker:
        admin = AdminClient({"bootstrap.servers": broker.bootstrap})
        for created in admin.create_topics([NewTopic("foo", 2)]).values():
            created.result(30)
        consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": "airflow.group"})
        consumer.commit(offsets=[TopicPartition("foo", 0, 5)], asynchronous=False)
        consumer.close()
        yield broker.bootstrap


def test_the_dags_parse(airflow: Airflow) -> None:
    listed = airflow("dags", "list", "--local", "--output", "json")
    assert "kip848_nightly_spark_submit" in listed
    assert "kip848_maintenance" in listed
    assert "No data found" in airflow("dags", "list-import-errors", "--local")


def test_a_night_and_the_upkeep(airflow: Airflow, bootstrap: str, tmp_path: Path) -> None:
    """Twice, because a night without news must not fail either."""
    lake, page = tmp_path / "lake", tmp_path / "report.html"
    params = {"source": f"kafka:{bootstrap}", "lake": str(lake), "out": str(page)}
    airflow.test("kip848_nightly", **params)
    assert page.exists()
    first = LakeSnapshot(locate(str(lake)))
    assert "airflow.group" in first.group_ids("groups")
    airflow.test("kip848_nightly", **params)


def test_findings_fail_the_gate_and_not_the_run(airflow: Airflow, tmp_path: Path) -> None:
    """The run ends with exit code 1, which Airflow takes for a failure and would repeat."""
    capture, lake = tmp_path / "capture.parquet", tmp_path / "lake"
    planted(capture)
    output = airflow.test(
        "kip848_nightly", source=f"parquet:{capture}", lake=str(lake), succeeds=False
    )
    assert "The audit has findings" in output
    runs = LakeSnapshot(locate(str(lake))).table("runs")
    assert pc.count(runs["run_id"]).as_py() == 1


def test_wrong_usage_is_not_retried(airflow: Airflow, tmp_path: Path) -> None:
    output = airflow.test(
        "kip848_nightly", source="nonsense", lake=str(tmp_path / "lake"), succeeds=False
    )
    assert "The command or a setting is wrong" in output
