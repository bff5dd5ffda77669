"""When regular expressions are resolved again, to the millisecond."""

from __future__ import annotations

import pytest

from kip848_spark.coordinator import Coordinator
from tests.coordinator.kip_notation import FOO

BAR = "YmFyAAAAAAAAAAAAAAAAAA"
TEN_SECONDS, TEN_MINUTES = 10_000, 600_000
SETTINGS = {
    "group.consumer.session.timeout.ms": "900000",
    "group.consumer.max.session.timeout.ms": "900000",
}


class Group:
    """One member that subscribes to ``f.*``, resolved at 1 s."""

    def __init__(self, release: str) -> None:
        self.coordinator = Coordinator(release, SETTINGS)
        self.coordinator.topic(0, "foo", FOO, 2)
        self.epoch = 0
        joins = {
            "rebalanceTimeoutMs": 60_000,
            "topicPartitions": [],
            "subscribedTopicRegex": "f.*",
        }
        assert self.resolves(1_000, **joins)

    def resolves(self, at: int, **more: object) -> bool:
        """Whether a heartbeat at this time has the expression resolved."""
        request = {"groupId": "g", "memberId": "A", "memberEpoch": self.epoch} | more
        steps = self.coordinator.request(at, "ConsumerGroupHeartbeat", request)
        self.epoch = steps[0].answers[0][1]["memberEpoch"]
        return any(record["key"]["type"] == "16" for step in steps for record in step.records)


@pytest.mark.parametrize("release", ["4.0", "4.1", "4.3"])
def test_not_until_more_than_ten_seconds_have_passed(release: str) -> None:
    group = Group(release)
    group.coordinator.topic(2_000, "far", BAR, 1)
    assert not group.resolves(1_000 + TEN_SECONDS)
    assert group.resolves(1_000 + TEN_SECONDS + 1)


@pytest.mark.parametrize(("release", "again"), [("4.0", False), ("4.1", True), ("4.3", True)])
def test_after_more_than_ten_minutes_from_4_1_on(release: str, again: bool) -> None:
    group = Group(release)
    assert not group.resolves(1_000 + TEN_MINUTES)
    assert group.resolves(1_000 + TEN_MINUTES + 1) is again
