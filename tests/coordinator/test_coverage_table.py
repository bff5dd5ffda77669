"""The table in docs/coordinator.md names every module with a rule and every conversation."""

from __future__ import annotations

import re
from pathlib import Path

from tests.coordinator.conversations import SCRIPTED

ROOT = Path(__file__).parents[2]
CODE = ROOT / "kip848_spark" / "coordinator"
TESTS = [ROOT / "tests" / "coordinator", ROOT / "tests", ROOT / "kip848_spark"]
NO_RULES = {
    *("__init__.py", "faults.py", "model.py", "records.py", "script.py", "shard.py", "timers.py"),
    *("consumer_protocol.py", "javahash.py", "releases.py", "partition_state.py"),
}
"""Modules without a rule of the KIP: data types, infrastructure, and differences of releases."""
BESIDE = {"consumer", "classic", "upgrade", "downgrade", "disabled", "migrations"}
"""Kinds of brokers, and the generator of migrations."""


def rows() -> list[list[str]]:
    text = (ROOT / "docs" / "coordinator.md").read_text()
    table = text.split("## Where each rule is implemented")[1].split("\n## ")[0]
    lines = [line.strip("|").split("|") for line in table.splitlines() if line.startswith("| ")]
    return [line for line in lines if len(line) == 3]


def named(column: int) -> set[str]:
    return {name for row in rows() for name in re.findall(r"`([^`]+)`", row[column])}


def test_every_module_with_a_rule_is_named() -> None:
    modules_with_rules = {file.name for file in CODE.rglob("*.py")} - NO_RULES
    modules = {name for name in named(1) if name.endswith(".py")}
    functions = {name.split(".")[0] + ".py" for name in named(1) - modules}
    assert {Path(name).name for name in modules} | functions >= modules_with_rules
    assert all((CODE / name).exists() for name in modules)


def test_every_conversation_is_named_and_exists() -> None:
    conversations = {item.function_name for item in SCRIPTED.values()}
    tests = named(2)
    files = {name for name in tests if name.endswith(".py")}
    assert all(any((folder / name).exists() for folder in TESTS) for name in files)
    assert tests - files - BESIDE <= conversations, "no such conversation"
    assert conversations <= tests, "a conversation without a rule"
