"""What the tasks of airflow_dags/ tell each other, without Airflow: stand-ins for its decorators
make each task a plain function. tests/test_airflow.py runs the DAGs in a real Airflow."""

from __future__ import annotations

import json
import runpy
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

FILE = Path(__file__).parents[1] / "airflow_dags" / "kip848_nightly.py"


def decorator(*arguments: Any, **_: Any) -> Any:
    """A decorator with or without arguments that leaves the function as it is."""
    return arguments[0] if arguments and callable(arguments[0]) else lambda function: function


def dag(*_: Any, **__: Any) -> Callable[[Any], Callable[[], None]]:
    """A decorator of DAGs that no call runs."""
    return lambda _: lambda: None


@pytest.fixture
def tasks(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """The functions of the file."""
    faults = {name: type(name, (Exception,), {}) for name in ("AirflowException",)}
    faults["AirflowFailException"] = type("AirflowFailException", (faults["AirflowException"],), {})
    sdk = {"Asset": str, "Param": lambda *_, **__: None, "dag": dag, "task": decorator}
    for name, names in (("airflow", {}), ("airflow.sdk", sdk), ("airflow.sdk.exceptions", faults)):
        module = ModuleType(name)
        vars(module).update(names)
        monkeypatch.setitem(sys.modules, name, module)
    return SimpleNamespace(**runpy.run_path(str(FILE)))


@pytest.mark.parametrize(
    ("changed", "attempt", "asked"),
    [(True, 1, "a-run"), (True, 2, "a-run"), (False, 1, None), (False, 2, "last")],
)
def test_the_findings_that_the_gate_asks_for(
    changed: bool, attempt: int, asked: str | None, tasks: SimpleNamespace, tmp_path: Path
) -> None:
    """After a failed attempt, a night without news may find a lake whose last run was maintenance,
    and ``findings --run`` refuses the id of a run that has not audited."""
    kip848 = tmp_path / "kip848"
    said = json.dumps({"run_id": "a-run", "changed": changed})
    kip848.write_text(f"#!/bin/sh\necho \"$@\" >> {tmp_path}/called\necho '{said}'\n")
    kip848.chmod(0o755)
    params = dict.fromkeys(("source", "config", "metrics", "severity"), "")
    params |= {"kip848": str(kip848), "lake": "lake"}

    done = tasks.run(params, SimpleNamespace(try_number=attempt))
    tasks.findings_gate(done, params)

    _, *gate = (tmp_path / "called").read_text().splitlines()
    assert gate == ([f"findings --run {asked} --lake lake"] if asked else [])
