"""The tasks of airflow_dags/ as plain functions, without Airflow: what they start, and when."""

from __future__ import annotations

import importlib.util
import json
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any
from unittest.mock import MagicMock

import pytest

DAGS = Path(__file__).parents[1] / "airflow_dags" / "kip848_nightly.py"


def _task(function: Callable[..., Any] | None = None, **_: object) -> Any:
    """Airflow's decorator `task`, which here leaves the function as it is."""
    return _task if function is None else function


@pytest.fixture
def dags(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The module of the DAGs. Its DAGs are not built."""
    errors = {"AirflowException": RuntimeError, "AirflowFailException": RuntimeError}
    sdk = SimpleNamespace(Asset=MagicMock(), Param=MagicMock(), dag=MagicMock(), task=_task)
    monkeypatch.setitem(sys.modules, "airflow", ModuleType("airflow"))
    monkeypatch.setitem(sys.modules, "airflow.sdk", sdk)
    monkeypatch.setitem(sys.modules, "airflow.sdk.exceptions", SimpleNamespace(**errors))
    spec = importlib.util.spec_from_file_location("kip848_nightly_alone", DAGS)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(
    ("printed", "attempt", "checked"),
    [
        ({"changed": True, "run_id": "r1"}, 1, ["r1"]),
        ({"changed": False, "run_id": "r1"}, 1, []),
        ({"changed": True, "run_id": "r1"}, 2, ["r1"]),
        ({"changed": False, "run_id": "r1"}, 2, ["last"]),
        ({"changed": False}, 1, []),
        ({"changed": False}, 2, []),
    ],
    ids=[
        "news",
        "no news",
        "a retry with news",
        "a retry",
        "an empty topic",
        "a retry and an empty topic",
    ],
)
def test_the_gate_checks_a_run_with_news(
    dags: ModuleType,
    monkeypatch: pytest.MonkeyPatch,
    printed: dict[str, Any],
    attempt: int,
    checked: list[str],
) -> None:
    """After a failed attempt, a night without news may find a lake whose last run was maintenance,
    and ``findings --run`` refuses the id of a run that has not audited. Of a topic that has never
    had a record there is no run to check, not even after a retry."""
    started: list[list[str]] = []

    def run_command(command: list[str]) -> tuple[int, str]:
        started.append(command)
        return 0, json.dumps(printed)

    monkeypatch.setattr(dags, "run_command", run_command)
    names = ("source", "lake", "config", "metrics", "severity")
    params = {"kip848": "kip848", **dict.fromkeys(names, "")}
    done = dags.run(params, SimpleNamespace(try_number=attempt))
    dags.findings_gate(done, params)
    assert [command[3] for command in started if command[1] == "findings"] == checked
