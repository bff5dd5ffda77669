"""``kip848 coordinate``: the coordinator driven by JSON lines.

In: ``{"at":MS,"api":NAME,"clientId":…,"clientHost":…,"request":{…}}``,
``{"at":MS,"event":"topic","name":…,"topicId":…,"partitions":N,"racks":[…]}`` (no partitions:
deleted), ``{"at":MS,"event":"tick"}``. A request may name its ``apiVersion``; without one it is
the newest that the release knows (a heartbeat that has no ``memberId`` at all is version 0,
where the coordinator makes the id).

Out: ``{"at":MS,"response":{…}}`` and, for each record, ``{"at":MS,"record":{…}}``. A response
that had to wait (JoinGroup, SyncGroup) also says which line of the script it answers: ``"line"``.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from kip848_spark.coordinator.coordinator import Coordinator, Step
from kip848_spark.coordinator.javahash import uuid_halves
from kip848_spark.coordinator.shard import Client
from kip848_spark.errors import UsageError

_NO_TOPIC = "AAAAAAAAAAAAAAAAAAAAAA"
"""The id of no topic: whose id a deletion may leave out."""


def run_script(
    lines: Iterable[str], release: str, seed: int, config: Mapping[str, str]
) -> Iterator[str]:
    """The output lines of a script; a line that can't be understood ends it with UsageError."""
    coordinator = Coordinator(release, config, seed)
    for number, text in enumerate(lines, 1):
        if not text.strip():
            continue
        try:
            line = json.loads(text)
            if not isinstance(line, dict):
                raise UsageError("not a JSON object")
            steps = _play(coordinator, line, number)
        except UsageError as bad:
            raise UsageError(f"line {number}: {bad.message}", bad.hint) from None
        except json.JSONDecodeError as bad:
            raise UsageError(f"line {number}: not JSON: {bad}") from None
        except (KeyError, TypeError, ValueError, AttributeError) as bad:
            raise UsageError(f"line {number}: {_explain(bad)}") from None
        for step in steps:
            yield from _show(step, number)


def _explain(bad: Exception) -> str:
    if isinstance(bad, KeyError):
        return f"field {bad.args[0]!r} is missing"
    return f"a field has the wrong form: {bad}"


def _play(coordinator: Coordinator, line: dict[str, Any], number: int) -> list[Step]:
    at = line.get("at")
    if not isinstance(at, int) or isinstance(at, bool):
        raise UsageError("'at' must be a whole number of milliseconds")
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
        if not isinstance(partitions, int) or partitions < 0:
            raise UsageError("'partitions' must be a whole number, 0 for a deleted topic")
        topic_id = str(line["topicId"] if partitions else line.get("topicId") or _NO_TOPIC)
        uuid_halves(topic_id)
        return coordinator.topic(at, line["name"], topic_id, partitions, line.get("racks") or ())
    if event == "tick":
        return coordinator.run_until(at)
    raise UsageError("neither an 'api' nor an 'event' of topic or tick")


def _show(step: Step, number: int) -> Iterator[str]:
    for ticket, response in step.answers:
        out: dict[str, Any] = {"at": step.at, "response": response}
        if ticket != number:
            out["line"] = ticket
        yield json.dumps(out, separators=(",", ":"))
    for record in step.records:
        yield json.dumps({"at": step.at, "record": record}, separators=(",", ":"))
