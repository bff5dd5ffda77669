"""Modules stay short, and a name of a type means one thing in the whole package."""

from __future__ import annotations

import ast
from collections import defaultdict
from pathlib import Path

import kip848_spark

PACKAGE = Path(kip848_spark.__file__).parent
MODULES = sorted(PACKAGE.rglob("*.py"))
MOST_LINES = 400
SAME_MEANING = {
    "TopicPartition": "a topic's name, and the number of a partition of it",
    "TopicIdPartition": "a topic's id, and the number of a partition of it",
}
"""Names that are defined more than once, in parts that share no code, with one meaning."""


def test_modules_are_short() -> None:
    lines = {str(path.relative_to(PACKAGE)): path.read_text().count("\n") for path in MODULES}
    assert {name: count for name, count in lines.items() if count > MOST_LINES} == {}


def test_a_type_name_has_one_meaning() -> None:
    defined: dict[str, list[str]] = defaultdict(list)
    for path in MODULES:
        for name in _types(ast.parse(path.read_text())):
            defined[name].append(str(path.relative_to(PACKAGE)))
    repeated = {name: where for name, where in defined.items() if len(where) > 1}
    assert repeated.keys() == SAME_MEANING.keys(), repeated


def _types(module: ast.Module) -> set[str]:
    """Classes, and aliases such as ``Row = dict[str, Any]``."""
    names = set()
    for statement in module.body:
        if isinstance(statement, ast.ClassDef):
            names.add(statement.name)
        elif isinstance(statement, ast.Assign) and isinstance(statement.targets[0], ast.Name):
            name = statement.targets[0].id
            if name[0].isupper() and not name.isupper():
                names.add(name)
    return names
