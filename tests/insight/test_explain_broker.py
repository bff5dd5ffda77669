"""`explain` of a real broker's groups, held against what a script did to their members."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from kip848_spark import KafkaSource, Lake, run
from kip848_spark.local.broker import Broker
from kip848_spark.local.consumer_process import ConsumerProcess
from kip848_spark.local.testbed import BrokerTestbed

pytestmark = pytest.mark.slow

ROLLED, LEAVES, DIES, REPLACED, HANGS = (
    f"explained.{name}" for name in ("rolled", "leaves", "dies", "replaced", "hangs")
)
SESSION_MS, COMMITS, BETWEEN_S = 3_000, 6, 0.4
POLL_INTERVAL_MS, HANGING = 4_000, 3


@pytest.fixture(scope="module")
def lake(
    broker: Broker, spark: SparkSession, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Lake]:
    """A lake of the topic after the script below."""
    testbed = BrokerTestbed(broker)
    try:
        testbed.create_topics(explained=5, replacing=2)
        restart_one_after_the_other(testbed)
        one_of_two_goes(testbed, LEAVES, ConsumerProcess.close)
        one_of_two_goes(testbed, DIES, ConsumerProcess.kill)
        replace_a_static_member(testbed)
        hang_again_and_again(testbed)
        path: Path = tmp_path_factory.mktemp("explained") / "lake"
        found = Lake(path)
        run(KafkaSource(broker.bootstrap), found, spark=spark)
        yield found
    finally:
        testbed.close()


def restart_one_after_the_other(testbed: BrokerTestbed) -> None:
    names = [f"app-{number}" for number in range(5)]
    members = {name: testbed.join(ROLLED, ["explained"], client_id=name) for name in names}
    testbed.wait_until_stable(ROLLED, 1, 1, 1, 1, 1)
    for name in names:
        members[name].close()
        testbed.wait_until_stable(ROLLED, 2, 1, 1, 1)
        testbed.join(ROLLED, ["explained"], client_id=name)
        testbed.wait_until_stable(ROLLED, 1, 1, 1, 1, 1)


def one_of_two_goes(
    testbed: BrokerTestbed, group: str, end: Callable[[ConsumerProcess], None]
) -> None:
    """Both commit several times a second; one of them ends."""
    testbed.configure_group(group, consumer_session_timeout_ms=str(SESSION_MS))
    stays, goes = (testbed.join(group, ["explained"], client_id=name) for name in ("stays", "goes"))
    testbed.wait_until_stable(group, 3, 2)
    places = {member: member.wait_for_partitions() for member in (stays, goes)}
    for number in range(COMMITS):
        for member, owned in places.items():
            member.commit([(topic, partition, number, "") for topic, partition in owned])
        time.sleep(BETWEEN_S)
    end(goes)
    testbed.wait_until_stable(group, 5)
    testbed.configure_group(group, consumer_session_timeout_ms="60000")


def replace_a_static_member(testbed: BrokerTestbed) -> None:
    """Another process takes its place and wants another topic too."""
    member = testbed.join(REPLACED, ["explained"], instance_id="static-1", client_id="first")
    testbed.wait_until_stable(REPLACED, 5)
    member.close()
    topics = ["explained", "replacing"]
    testbed.join(REPLACED, topics, instance_id="static-1", client_id="second")
    testbed.wait_until_stable(REPLACED, 7)


def hang_again_and_again(testbed: BrokerTestbed) -> None:
    """One of two members does not poll within max.poll.interval.ms, and comes back later."""
    testbed.join(HANGS, ["explained"], client_id="polls")
    testbed.wait_until_stable(HANGS, 5)
    interval = {"max.poll.interval.ms": str(POLL_INTERVAL_MS)}
    hangs = testbed.join(HANGS, ["explained"], client_id="hangs", config=interval)
    for _ in range(HANGING):
        testbed.wait_until_stable(HANGS, 3, 2)
        hangs.stall()
        testbed.wait_until_stable(HANGS, 5)
        hangs.resume()
    testbed.wait_until_stable(HANGS, 3, 2)


def rebalances(lake: Lake, group: str) -> list[dict[str, Any]]:
    return list(lake.explain(group, since="2020-01-01")["rebalances"])


def departure(lake: Lake, group: str) -> dict[str, Any]:
    last = rebalances(lake, group)[-1]
    assert last["causes"] == ["left_or_expired"]
    (found,) = last["departures"]
    return dict(found)


def test_a_member_that_closes_has_left(lake: Lake) -> None:
    assert departure(lake, LEAVES)["likely"] == "left"


def test_a_member_that_is_killed_has_not_just_left(lake: Lake) -> None:
    found = departure(lake, DIES)
    assert found["likely"] != "left"
    assert found["silent_ms"] >= SESSION_MS / 2


def test_a_rolling_restart_is_leaves_and_joins(lake: Lake) -> None:
    found = rebalances(lake, ROLLED)
    # Members that join at once may share an epoch; those of the restarts do not join at once.
    causes = [row["causes"] for row in found[-10:]]
    assert causes == [["left_or_expired"], ["member_joined"]] * 5
    assert {row["outcome"] for row in found} <= {"converged", "superseded"}
    members = {name["client_id"] for row in found[-10:] for name in row["member_names"]}
    assert members >= {f"app-{number}" for number in range(5)}


def test_a_static_member_is_replaced(lake: Lake) -> None:
    causes = {cause for row in rebalances(lake, REPLACED) for cause in row["causes"]}
    assert "static_member_replaced" in causes


def test_a_member_that_does_not_poll_in_time(lake: Lake) -> None:
    found = lake.explain(HANGS, since="2020-01-01")
    causes = [row["causes"] for row in found["rebalances"][-2 * HANGING :]]
    assert causes == [["left_or_expired"], ["member_joined"]] * HANGING
    (pattern,) = (one for one in found["patterns"] if one["pattern"] == "poll_interval_loop")
    assert (pattern["count"], len(pattern["members"])) == (HANGING, 1)
    assert "hangs" in pattern["explanation"]
    assert f"about {POLL_INTERVAL_MS // 1000} s" in pattern["explanation"]
