"""The Kafka releases the tests hold the codec to, and what their jars say about records."""

from __future__ import annotations

import functools
import json
import re
import zipfile
from pathlib import Path
from typing import Any

from kip848_spark.runtime.jars import artifact_jars

RELEASES = ("3.7.2", "4.0.2", "4.1.2", "4.2.2", "4.3.1", "4.4.0")
NEWEST = RELEASES[-1]

_ARTIFACTS = ("kafka-group-coordinator", "kafka-server-common", "kafka-clients")
_DEFINITIONS = "common/message/"
_STRING_OR_COMMENT = re.compile(r'("(?:\\.|[^"\\])*")|//[^\n]*')


@functools.cache
def record_jars(release: str) -> tuple[Path, ...]:
    """The jars with a release's record classes, and what these classes need to be loaded."""
    artifacts = [*_ARTIFACTS]
    if not release.startswith("3."):
        artifacts.append("kafka-coordinator-common")  # the record serde's base, split off in 4.0
    coordinates = [f"org.apache.kafka:{artifact}:{release}" for artifact in artifacts]
    return tuple(artifact_jars(f"record-classes-{release}", coordinates))


@functools.cache
def message_definitions(release: str) -> dict[str, dict[str, Any]]:
    """Every definition in those jars that is a record of the topic or embedded in one, by name."""
    found: dict[str, dict[str, Any]] = {}
    for jar in record_jars(release):
        with zipfile.ZipFile(jar) as archive:
            for entry in archive.namelist():
                of_topic = jar.name.startswith("kafka-group-coordinator-")
                embedded = entry.startswith(f"{_DEFINITIONS}ConsumerProtocol")
                if entry.startswith(_DEFINITIONS) and entry.endswith(".json"):
                    definition = parse_with_comments(archive.read(entry).decode())
                    if (of_topic and definition.get("type") != "request") or embedded:
                        found[definition["name"]] = definition
    return found


def parse_with_comments(text: str) -> dict[str, Any]:
    """JSON with ``//`` comments, as Kafka writes its definitions."""
    parsed: dict[str, Any] = json.loads(_STRING_OR_COMMENT.sub(r"\1", text))
    return parsed
