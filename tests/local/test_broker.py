"""The local broker answers, reports why it can't start, and leaves nothing behind."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import psutil
import pytest

from kip848_spark.errors import SourceError
from kip848_spark.kafka.admin import Cluster
from kip848_spark.local.broker import Broker
from kip848_spark.local.testbed import BrokerTestbed

pytestmark = pytest.mark.slow


def have_ended(pids: list[int], within: float = 20) -> bool:
    """Whether all of these processes end in time."""
    deadline = time.monotonic() + within
    while time.monotonic() < deadline:
        if not any(psutil.pid_exists(pid) for pid in pids):
            return True
        time.sleep(0.05)
    return False


def test_it_starts_answers_and_leaves_nothing() -> None:
    others = {child.pid for child in psutil.Process().children(recursive=True)}
    with Broker() as broker:
        folder, pid = broker.folder, broker.pid
        assert Cluster(broker.bootstrap).cluster_id == broker.cluster_id
        now = {child.pid for child in psutil.Process().children(recursive=True)}
        children = [pid, *(now - others)]
        assert broker.log_dir.is_dir()
    assert have_ended(children)
    assert not folder.exists()


def test_a_restart_keeps_the_log_and_the_address(tmp_path: Path) -> None:
    with Broker(folder=tmp_path) as broker:
        testbed = BrokerTestbed(broker)
        testbed.create_topics(kept=2)
        address, pid = broker.bootstrap, broker.pid
        broker.restart()
        assert (broker.bootstrap, broker.pid != pid) == (address, True)
        assert Cluster(address).topics()["kept"].partitions == 2
    assert (tmp_path / "broker.log").exists()


def test_a_broker_that_cannot_start_says_why() -> None:
    with pytest.raises(SourceError, match=r"log\.retention\.ms") as fault:
        Broker(settings={"log.retention.ms": "soon"}).start()
    assert "\n" not in fault.value.message


DRIVER = textwrap.dedent(
    """
    import os
    from kip848_spark.local.broker import Broker
    from kip848_spark.local.scenarios import SETTINGS, drive

    def told(title, step):
        if step == "done":
            os.write(1, b"going on\\n")

    with Broker(settings=SETTINGS) as broker, drive(broker, told):
        pass
    """
)

OWNER = textwrap.dedent(
    """
    import json, time
    from kip848_spark.local.broker import Broker
    from kip848_spark.local.testbed import BrokerTestbed

    with Broker() as broker:
        testbed = BrokerTestbed(broker)
        testbed.create_offsets_topic()
        testbed.create_topics(foo=1)
        member = testbed.join("orphans", ["foo"])
        try:
            print(json.dumps([broker.pid, member.pid, str(broker.folder)]), flush=True)
            time.sleep(300)
        finally:
            testbed.close()
    """
)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_nothing_outlives_its_owner(number: signal.Signals) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", OWNER],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    ) as owner:
        assert owner.stdout is not None
        broker, member, folder = json.loads(owner.stdout.readline())
        assert psutil.pid_exists(broker)
        started = [child.pid for child in psutil.Process(owner.pid).children(recursive=True)]
        assert {broker, member} <= set(started)
        if number == signal.SIGINT:
            os.killpg(owner.pid, number)  # as a terminal does it: to the whole group
        else:
            owner.send_signal(number)
        owner.wait(30)
        assert have_ended(started)
    deadline = time.monotonic() + 10
    while Path(folder).exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not Path(folder).exists()


def test_the_scenarios_can_be_interrupted() -> None:
    with subprocess.Popen(
        [sys.executable, "-c", DRIVER],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    ) as driver:
        assert driver.stdout is not None
        assert driver.stdout.readline() == b"going on\n"
        started = [child.pid for child in psutil.Process(driver.pid).children(recursive=True)]
        assert len(started) > 4
        os.killpg(driver.pid, signal.SIGINT)
        interrupted = time.monotonic()
        driver.wait(30)
        assert time.monotonic() - interrupted < 15
        assert have_ended(started)


@pytest.mark.skipif(sys.platform != "linux", reason="asks the Linux kernel")
def test_the_broker_dies_with_its_supervisor() -> None:
    broker = Broker()
    broker.start()
    try:
        pid = broker.pid
        supervisor = psutil.Process(pid).parent()
        assert supervisor is not None
        supervisor.kill()
        assert have_ended([pid])
    finally:
        broker.close()
