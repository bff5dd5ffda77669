"""Random behaviours of the model, sent as requests to the reference: equal answers and records."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kip848_spark.coordinator import run_script
from spec import scripts
from spec.tlc import FOLDER, State, simulate

SETTINGS = {
    "group.consumer.session.timeout.ms": "60000",  # longer than a behaviour
    "group.consumer.max.session.timeout.ms": "60000",
}
INSTANCES = {"s1": "s", "s2": "s"}


def settings(release: str) -> dict[str, str]:
    if release == "4.3":
        return SETTINGS | {"group.consumer.assignment.interval.ms": "0"}
    return SETTINGS


def behaviours(folder: Path, release: str, *, static: bool, number: int) -> list[tuple[State, ...]]:
    config = (FOLDER / "behaviours" / "Behaviours.cfg").read_text(encoding="utf-8")
    config = config.replace('"4.3"', f'"{release}"')
    if static:
        config = config.replace("<- ThreeMembers", "<- StaticAndDynamic")
        config = config.replace("<- NoInstances", "<- InstanceOfS")
    path = folder / "behaviours.cfg"
    path.write_text(config, encoding="utf-8")
    return simulate(path, number=number, depth=150, seed=848)


@pytest.mark.long
@pytest.mark.parametrize("static", [False, True], ids=["dynamic", "static"])
@pytest.mark.parametrize("release", ["4.0", "4.1", "4.2", "4.3"])
def test_reference_does_what_the_model_does(tmp_path: Path, release: str, static: bool) -> None:
    records = 0
    for behaviour in behaviours(tmp_path, release, static=static, number=20):
        calls = scripts.script(behaviour, INSTANCES)
        output = [
            json.loads(line)
            for line in run_script(scripts.lines(calls), release, 0, settings(release))
        ]
        assert scripts.differences(calls, output) == []
        records += sum(len(call.records) for call in calls)
    assert records > 500
