"""``kip848 coordinate``: drives the coordinator with JSON lines.

Input: ``{"at":MS,"api":NAME,"clientId":…,"clientHost":…,"request":{…}}``,
``{"at":MS,"event":"topic","name":…,"topicId":…,"partitions":N,"racks":[…]}`` (0 partitions:
deleted), ``{"at":MS,"event":"tick"}``. A request may set its ``apiVersion``; the default is the
newest that the release knows (a heartbeat without any ``memberId`` is version 0, where the
coordinator creates the id).

Output: ``{"at":MS,"response":{…}}`` and, for each record, ``{"at":MS,"record":{…}}``. A delayed
response (JoinGroup, SyncGroup) also has ``"line"``: the number of the script's line that it
answers.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from kip848_spark.coordinator.coordinator import Coordinator, Step
from kip848_spark.coordinator.javahash import uuid_halves
from kip848_spark.coordinator.shard import Client
from kip848_spark.errors import UsageError

_MOST_PARTITIONS = 1_000_000
"""A limit of this program. Each partition takes memory."""
_NO_TOPIC = "AAAAAAAAAAAAAAAAAAAAAA"
"""The zero topic id, used where a deletion omits the id."""


def run_script(
    lines: Iterable[str], release: str, seed: int, config: Mapping[str, str]
) -> Iterator[str]:
    """Yield the output lines of a script. Raises UsageError at a line that is invalid."""
    coordinator = Coordinator(release, config, seed)
    for number, text in enumerate(lines, 1):
        if not text.strip():
            continue
        try:
            line = json.loads(text)
            if not isinstance(line, dict):
                raise UsageError("not a JSON object")
            steps = _run_line(coordinator, line, number)
        except UsageError as bad:
            raise UsageError(f"line {number}: {bad.message}", bad.hint) from None
        except json.JSONDecodeError as bad:
            raise UsageError(f"line {number}: not JSON: {bad}") from None
        except RecursionError:
            raise UsageError(f"line {number}: nested too deeply") from None
        except (KeyError, TypeError, ValueError, AttributeError) as bad:
            raise UsageError(f"line {number}: {_explain(bad)}") from None
        for step in steps:
            yield from _format_step(step, number)


def _explain(bad: Exception) -> str:
    if isinstance(bad, KeyError):
        return f"field {bad.args[0]!r} is missing"
    return f"a field has the wrong type: {bad}"


def _run_line(coordinator: Coordinator, line: dict[str, Any], number: int) -> list[Step]:
    at = line.get("at")
    if not isinstance(at, int) or isinstance(at, bool):
        raise UsageError("'at' must be an integer (ms)")
    if "api" in line:
        request = line.get("request", {})
        if not isinstance(request, dict):
            raise UsageError("'request' must be an object")
        client = Client(line.get("clientId") or "", line.get("clientHost") or "/127.0.0.1")
        return coordinator.request(
            at, line["api"], request, client, version=line.get("apiVersion"), ticket=number
        )
    event = line.get("event")
    if event == "topic":
        partitions = line["partitions"]
        if not isinstance(partitions, int) or not 0 <= partitions <= _MOST_PARTITIONS:
            raise UsageError(
                f"'partitions' must be an integer up to {_MOST_PARTITIONS:,}, 0 for a deleted topic"
            )
        topic_id = str(line["topicId"] if partitions else line.get("topicId") or _NO_TOPIC)
        uuid_halves(topic_id)
        return coordinator.topic(at, line["name"], topic_id, partitions, line.get("racks") or ())
    if event == "tick":
        return coordinator.run_until(at)
    raise UsageError("the line has neither an 'api' nor an 'event' of topic or tick")


def _format_step(step: Step, number: int) -> Iterator[str]:
    for ticket, response in step.answers:
        out: dict[str, Any] = {"at": step.at, "response": response}
        if ticket != number:
            out["line"] = ticket
        yield json.dumps(out, separators=(",", ":"))
    for record in step.records:
        yield json.dumps({"at": step.at, "record": record}, separators=(",", ":"))
