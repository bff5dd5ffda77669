"""Members of a consumer group that stay while the brokers get a release with assignment epochs."""

from __future__ import annotations

from typing import Any

import pytest

from kip848_spark.checks.log_entries import LogEntry, log_entry
from kip848_spark.checks.results import TRANSITIONS
from kip848_spark.checks.topics import KnownTopics
from tests.audit.captured_logs import audit

TOPIC = "Bqn4wAuVRzeyDddfcb7M_g"


class Log:
    """The log of one group; `write` appends an operation."""

    def __init__(self) -> None:
        self.entries: list[LogEntry] = []

    def write(self, *records: tuple[int, str | None, dict[str, Any]]) -> None:
        time = 1_795_949_590_000 + 1_000 * len(self.entries)
        for kind, member, value in records:
            key = {"groupId": "g"} | ({} if member is None else {"memberId": member})
            record = {
                "key": {"type": str(kind), "data": key},
                "value": {"version": "0", "data": value},
            }
            self.entries.append(log_entry(0, len(self.entries), time, record))


def owned(numbers: list[int], epochs: list[int] | None) -> list[dict[str, Any]]:
    listed = [{"topicId": TOPIC, "partitions": numbers, "assignmentEpochs": epochs}]
    return listed if numbers else []


def join(member: str) -> tuple[int, str, dict[str, Any]]:
    value = {
        "instanceId": None, "rackId": None, "clientId": member, "clientHost": "/10.0.0.1",
        "subscribedTopicNames": ["pay"], "subscribedTopicRegex": "",
        "rebalanceTimeoutMs": 300_000, "serverAssignor": None, "classicMemberMetadata": None,
    }  # fmt: skip
    return 5, member, value


def epoch(number: int) -> tuple[int, None, dict[str, Any]]:
    return 3, None, {"epoch": number, "metadataHash": 0}


def target(member: str, numbers: list[int]) -> tuple[int, str, dict[str, Any]]:
    rows = [{"topicId": TOPIC, "partitions": numbers}] if numbers else []
    return 7, member, {"topicPartitions": rows}


def target_epoch(number: int, time: int = 0) -> tuple[int, None, dict[str, Any]]:
    return 6, None, {"assignmentEpoch": number, "assignmentTimestamp": time}


def current(
    member: str,
    number: int,
    previous: int,
    numbers: list[int],
    epochs: list[int] | None = None,
    *,
    pending: list[int] | None = None,
) -> tuple[int, str, dict[str, Any]]:
    since = None if epochs is None else [epochs[0]] * len(pending or ())
    value = {
        "memberEpoch": number, "previousMemberEpoch": previous, "state": 1 if pending else 0,
        "assignedPartitions": owned(numbers, epochs),
        "partitionsPendingRevocation": owned(pending or [], since),
    }  # fmt: skip
    return 8, member, value


@pytest.mark.parametrize(("recorded", "disagreed"), [(2, 0), (1, 1), (3, 1)])
def test_a_newer_broker_reads_what_has_no_assignment_epochs(recorded: int, disagreed: int) -> None:
    """It takes the member epoch, here 2, as a broker did after an upgrade from 4.0.2 to 4.4.0."""
    log = Log()
    topics = {"topics": [{"topicId": TOPIC, "topicName": "pay", "numPartitions": 4,
                          "partitionMetadata": []}]}  # fmt: skip
    log.write(join("m"), (4, None, topics), epoch(1), target("m", [0, 1, 2, 3]), target_epoch(1),
              current("m", 1, 0, [0, 1, 2, 3]))  # fmt: skip
    log.write(join("n"), epoch(2), target("n", [2, 3]), target("m", [0, 1]), target_epoch(2))
    log.write(current("m", 1, 1, [0, 1], pending=[2, 3]))
    log.write(current("m", 2, 1, [0, 1]))
    log.write((3, None, {"epoch": 3, "metadataHash": 3859548753227354610}))
    log.write(target_epoch(3, 1_795_949_780_800))
    log.write(current("m", 3, 2, [0, 1], [recorded, recorded]))
    tally = audit(log.entries, KnownTopics())
    assert tally.verified[TRANSITIONS] == 4 - disagreed
    found = [one.offset for one in tally.findings if one.check == TRANSITIONS]
    assert found == [log.entries[-1].offset] * disagreed
