"""A behaviour of the model as a script for ``kip848 coordinate``, and what the model expects of it.

The coordinator's own steps have no counterpart in a script: where a session or a rebalance timeout
ends, the script has a leave of that member, which writes the same records.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from spec.traces import State

GROUP, TOPIC, TOPIC_ID = "g", "foo", "Zm9vAAAAAAAAAAAAAAAAAA"
HEARTBEAT = "ConsumerGroupHeartbeat"
_STEP_MS = 10
_TIMEOUT_MS = 300_000
STATES = {0: "STABLE", 1: "UNREVOKED_PARTITIONS", 2: "UNRELEASED_PARTITIONS"}
_FENCING = {"EndSession", "SessionTimeout", "RebalanceTimeout"}
Json = dict[str, Any]


@dataclass(frozen=True)
class Call:
    """One line of a script."""

    line: Json
    answer: Json | None
    """What the model's coordinator answers; ``None`` if the line is no heartbeat."""
    records: tuple[Any, ...]
    """What it writes, in the form of `from_model`."""


def script(
    trace: Sequence[State], instances: dict[str, str] | None = None, assignor: str = "range"
) -> list[Call]:
    """The requests and topic changes of a behaviour. ``instances``: instance ids of static
    members.
    """
    calls = [_topic(0, trace[0]["partitions"])]
    for number, (before, after) in enumerate(pairwise(trace), 1):
        at, action, member = number * _STEP_MS, after["step"]["action"], after["step"]["member"]
        if action == "Grow":
            calls.append(_topic(at, after["partitions"]))
        elif action == "Handle" or action in _FENCING:
            if action in _FENCING:
                request: Json = {"epoch": -1, "full": False, "owned": {"reported": False}}
            elif before["late"] != after["late"]:
                request = before["late"]["request"]
            else:
                request = before["wire"][member]
            asked = _request(member, request, (instances or {}).get(member), assignor)
            answer = after["wire"][member]
            if action in _FENCING or before["wire"] == after["wire"] or answer["type"] != "answer":
                answer = None
            records = tuple(from_model(after["step"]["records"]))
            line = {"at": at, "api": HEARTBEAT, "clientId": member, "request": asked}
            calls.append(Call(line, answer, records))
    return calls


def _topic(at: int, partitions: int) -> Call:
    line = {
        "at": at,
        "event": "topic",
        "name": TOPIC,
        "topicId": TOPIC_ID,
        "partitions": partitions,
    }
    return Call(line, None, ())


def _request(member: str, sent: Json, instance: str | None, assignor: str) -> Json:
    request: Json = {"groupId": GROUP, "memberId": member, "memberEpoch": sent["epoch"]}
    if instance:
        request["instanceId"] = instance
    if sent["full"]:
        request |= {"rebalanceTimeoutMs": _TIMEOUT_MS, "subscribedTopicNames": [TOPIC]}
        request["serverAssignor"] = assignor
    if sent["owned"]["reported"]:
        numbers = sorted(sent["owned"]["partitions"])
        rows = [{"topicId": TOPIC_ID, "partitions": numbers}] if numbers else []
        request["topicPartitions"] = rows
    return request


def lines(calls: Iterable[Call]) -> Iterator[str]:
    """The script as JSON lines."""
    for call in calls:
        yield json.dumps(call.line)


def from_model(written: Iterable[Json]) -> list[Any]:
    """Records of the model: key type, member id, value (``None``: tombstone)."""
    found = []
    for record in written:
        value = record["value"]
        if record["deleted"] or record["key"] == 5:
            value = None if record["deleted"] else ""
        elif record["key"] == 3:
            value = value["epoch"]
        elif record["key"] == 7:
            value = tuple(sorted(value))
        elif record["key"] == 8:
            value = (
                value["epoch"],
                value["previous"],
                value["state"],
                tuple(sorted(value["assigned"])),
                tuple(sorted(value["pending"])),
                _gained(value["gained"]),
            )
        found.append((record["key"], record["member"], value))
    return sort_targets(found)


def from_reference(written: Iterable[Json]) -> list[Any]:
    """Records as ``kip848 coordinate`` prints them, in the same form."""
    found: list[Any] = []
    for record in written:
        kind, member = int(record["key"]["type"]), record["key"]["data"].get("memberId", "")
        if record["value"] is None:
            found.append((kind, member, None))
            continue
        data = record["value"]["data"]
        match kind:
            case 3:
                value: Any = data["epoch"]
            case 6:
                value = data["assignmentEpoch"]
            case 7:
                value = _numbers(data["topicPartitions"])
            case 8:
                value = (
                    data["memberEpoch"],
                    data["previousMemberEpoch"],
                    STATES[data["state"]],
                    _numbers(data["assignedPartitions"]),
                    _numbers(data["partitionsPendingRevocation"]),
                    _assignment_epochs(data),
                )
            case 5:
                value = ""
            case _:
                continue
        found.append((kind, member, value))
    return sort_targets(found)


def _gained(gained: Any) -> tuple[tuple[int, int], ...]:
    """Partition and assignment epoch; TLC prints a function whose domain is 1..n as a sequence."""
    pairs = gained.items() if isinstance(gained, dict) else enumerate(gained, 1)
    return tuple(sorted(pairs))


def _assignment_epochs(data: Json) -> tuple[tuple[int, int], ...]:
    """The same of a record; releases before 4.3 have none, for which the model has 0."""
    pairs: list[tuple[int, int]] = []
    for row in (*data["assignedPartitions"], *data["partitionsPendingRevocation"]):
        epochs = row.get("assignmentEpochs") or [0] * len(row["partitions"])
        pairs += zip(row["partitions"], epochs, strict=True)
    return tuple(sorted(pairs))


def _numbers(rows: Iterable[Json]) -> tuple[int, ...]:
    return tuple(sorted(number for row in rows for number in row["partitions"]))


def sort_targets(found: list[Any]) -> list[Any]:
    """Consecutive targets in the order of their members: a broker writes them in another one."""
    result: list[Any] = []
    for record in found:
        at = len(result)
        while at and _precedes(record, result[at - 1]):
            at -= 1
        result.insert(at, record)
    return result


def _precedes(record: Any, other: Any) -> bool:
    targets = record[0] == other[0] == 7 and None not in (record[2], other[2])
    return targets and bool(record[1] < other[1])


def differences(calls: Sequence[Call], output: Sequence[Json]) -> list[str]:
    """Where the output of ``kip848 coordinate`` differs from what the model expects."""
    by_time: dict[int, list[Json]] = {}
    for line in output:
        by_time.setdefault(line["at"], []).append(line)
    found = []
    for call in calls:
        got = by_time.pop(call.line["at"], [])
        records = from_reference(line["record"] for line in got if "record" in line)
        if records != list(call.records):
            found.append(f"{call.line}: the model writes {list(call.records)}, found {records}")
        answer = next((line["response"] for line in got if "response" in line), None)
        if answer is not None:
            found += answer_difference(call, answer)
    found += [f"unexpected output at {at}: {got}" for at, got in by_time.items()]
    return found


def answer_difference(call: Call, answer: Json) -> list[str]:
    """Where the answer to one request differs from the model's."""
    if call.answer is None:
        return []
    expected, actual = _answer(call.answer), _reference_answer(answer)
    return (
        [] if expected == actual else [f"{call.line}: the model answers {expected}, not {actual}"]
    )


def _answer(answer: Json) -> tuple[Any, ...]:
    if answer["error"] != "NONE":
        return (answer["error"],)
    assigned = tuple(sorted(answer["assigned"])) if answer["hasAssignment"] else None
    return ("NONE", answer["epoch"], assigned)


def _reference_answer(answer: Json) -> tuple[Any, ...]:
    if answer["errorCode"] != "NONE":
        return (answer["errorCode"],)
    assignment = answer["assignment"]
    numbers = None if assignment is None else _numbers(assignment["topicPartitions"])
    return ("NONE", answer["memberEpoch"], numbers)
