"""How long the tasks of Spark's stages took, from its event log."""

from __future__ import annotations

import json
from collections import defaultdict
from pathlib import Path

EVENT_LOG = {
    "spark.eventLog.enabled": "true",
    "spark.eventLog.compress": "false",
    "spark.eventLog.rolling.enabled": "false",
}
"""Settings of a session that writes an event log; ``spark.eventLog.dir`` is its folder."""
STAGES = 5
"""The number of stages that `stages` finds."""

Stage = tuple[str, list[float]]
"""The name of a stage, and the seconds of each of its tasks."""


def stages(events: Path, since_ms: float) -> list[Stage]:
    """Of the event log in the folder ``events``: the stages with the longest tasks, of the tasks
    that began after ``since_ms`` (ms since 1970)."""
    names: dict[int, str] = {}
    tasks: dict[int, list[float]] = defaultdict(list)
    for path in events.glob("local-*"):
        for line in path.read_text().splitlines():
            event = json.loads(line)
            if event["Event"] == "SparkListenerStageSubmitted":
                info = event["Stage Info"]
                names[info["Stage ID"]] = info["Stage Name"].split(" at ")[0]
            elif event["Event"] == "SparkListenerTaskEnd":
                times = event["Task Info"]
                if times["Launch Time"] >= since_ms:
                    seconds = (times["Finish Time"] - times["Launch Time"]) / 1000
                    tasks[event["Stage ID"]].append(seconds)
    stages = [(f"{number} {names[number]}", seconds) for number, seconds in tasks.items()]
    return sorted(stages, key=lambda stage: -max(stage[1]))[:STAGES]
