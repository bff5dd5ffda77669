"""The counterexamples of docs/model.md on the reference: what each release answers."""

from __future__ import annotations

import json
from typing import Any

import pytest

from kip848_spark.coordinator import run_script
from tests.spec.assumptions import Line, late_commit, late_heartbeat
from tests.spec.test_behaviours import settings


def last_answer(lines: list[Line], release: str) -> dict[str, Any]:
    text = [json.dumps({"at": at} | line) for at, line in enumerate(lines)]
    output = [json.loads(line) for line in run_script(text, release, 0, settings(release))]
    answer: dict[str, Any] = [line["response"] for line in output if "response" in line][-1]
    return answer


@pytest.mark.parametrize(
    ("release", "first", "error"),
    [
        ("4.0", 1, "STALE_MEMBER_EPOCH"),
        ("4.1", 1, "STALE_MEMBER_EPOCH"),
        ("4.2", 1, "NONE"),
        ("4.3", 2, "NONE"),
    ],
)
def test_late_commit_of_a_partition_that_another_member_owns(
    release: str, first: int, error: str
) -> None:
    answer = last_answer(late_commit(first), release)
    assert answer["topics"][0]["partitions"] == [{"partitionIndex": 0, "errorCode": error}]


@pytest.mark.parametrize(("release", "first"), [("4.0", 1), ("4.1", 1), ("4.2", 1), ("4.3", 2)])
def test_late_heartbeat_is_taken_for_an_acknowledgement(release: str, first: int) -> None:
    answer = last_answer(late_heartbeat(first), release)
    assert [row["partitions"] for row in answer["assignment"]["topicPartitions"]] == [[1]]
