"""The texts of findings: one of each kind, and those of faults put into real logs."""

from __future__ import annotations

import ast
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from kip848_spark import checks
from kip848_spark.checks.finding_kinds import KINDS
from kip848_spark.checks.finding_phrases import assignments, places, ranges
from kip848_spark.checks.finding_text import ACTION, EXPECTED, MEANS, RECORDED, text_of, with_texts
from tests.audit.captured_logs import audit
from tests.audit.fault_rates import instances, real_logs
from tests.audit.faults import FAULTS
from tests.audit.finding_examples import EXAMPLES, NAMES, ORDERS, UNNAMED, example

GOLDEN = Path(__file__).with_name("finding_texts.txt")
FEW = 3
ID = re.compile(r"\b[A-Za-z0-9_-]{22}\b")


def test_one_text_of_each_kind() -> None:
    """The file was read by people: a change of a text is a change of this file."""
    found = []
    for check, reason in EXAMPLES:
        lines = str(text_of(example(check, reason), NAMES)).split("\n")
        found += [f"{check} {reason}", *(f"    {line}" for line in lines), ""]
    assert GOLDEN.read_text() == "\n".join(found).rstrip() + "\n"


def test_every_reason_in_the_checks_has_a_text() -> None:
    """A reason without one would be an error in the audit of the group that has it."""
    reasons = {reason for _, reason in KINDS}
    assert reasons == {reason for _, reason in EXAMPLES}
    texts = set()
    for path in Path(checks.__file__).parent.glob("*.py"):
        if not path.name.startswith("finding_"):
            for node in ast.walk(ast.parse(path.read_text())):
                if isinstance(node, ast.Constant) and isinstance(node.value, str):
                    texts.add(node.value)
    assert reasons <= texts  # every kind of finding is made somewhere
    made = re.compile(r'add_disagreement\(\s*[A-Z_]+,\s*"(\w+)"')
    for path in Path(checks.__file__).parent.glob("*.py"):
        assert set(made.findall(path.read_text())) <= reasons, path.name


def test_every_kind_has_its_own_consequence_and_action() -> None:
    for key, kind in KINDS.items():
        assert kind.summary.endswith("."), key
        assert kind.consequence.endswith("."), key
        assert kind.action.endswith((".", "file.")), key


@pytest.mark.parametrize(
    ("numbers", "shown"),
    [([], ""), ([3], "3"), ([4, 3], "3-4"), ([5, 3, 4], "3-5"), ([0, 1, 2, 30], "0-2,30")],
)
def test_ranges_of_partitions(numbers: list[int], shown: str) -> None:
    assert ranges(numbers) == shown


def test_topics_have_names_as_far_as_they_are_known() -> None:
    held = {UNNAMED: [7], ORDERS: [3, 4, 5]}
    assert places(held, NAMES) == f"orders(3-5) {UNNAMED}(7)"


def test_a_name_with_line_ends_adds_no_line() -> None:
    """Clients choose names: such a name could otherwise forge a line of the explanation."""
    finding = example("order", "unmatched_topic")
    forged = replace(finding, expected='{"expression":"a\\nTo do: b","topics":"c"}')
    forged = replace(forged, recorded=forged.expected.replace('"c"', '["c"]'))
    assert str(text_of(forged, NAMES)).count("\n") == 4


@pytest.mark.parametrize("name", FAULTS)
def test_the_text_of_an_injected_fault(name: str) -> None:
    """No raw JSON, and no topic id where the name is known."""
    for log, _, own in instances(name, FAULTS[name], FEW, real_logs()):
        expressions = {e.record["key"]["data"]["regularExpression"] for e in own if e.kind == "16"}
        for finding in with_texts(audit(own, log.topics).findings, log.topics.names):
            lines = finding.explanation.split("\n")
            assert [line.startswith(part) for line, part in _parts(lines)] == [True] * 5
            text = finding.explanation
            for expression in expressions:
                text = text.replace(expression, "")
            assert not any(sign in text for sign in '{}["]'), text
            ids = set(ID.findall(finding.explanation))
            assert ids.isdisjoint(log.topics.names), finding.explanation
            expected, recorded = lines[1].removeprefix(EXPECTED), lines[2].removeprefix(RECORDED)
            assert "" not in (expected, recorded), finding.explanation
            assert expected != recorded, finding.explanation


def _parts(lines: list[str]) -> list[tuple[str, str]]:
    return list(zip(lines, ("", EXPECTED, RECORDED, MEANS, ACTION), strict=True))


def test_a_difference_names_only_what_differs() -> None:
    """The issue's own example, and its opposite: what is equal on both sides is not shown."""
    text = text_of(example("transitions", "unreachable"), NAMES)
    assert text.expected.startswith("orders(3-5)")
    assert text.recorded == "orders(3-4)"
    assert "epoch" not in text.expected + text.recorded


@pytest.mark.parametrize(
    ("field", "value", "word"),
    [
        ("memberEpoch", 9, "member epoch 9"),
        ("previousMemberEpoch", 1, "previous member epoch 1"),
        ("state", 2, "state unreleased partitions"),
        ("pendingRevocation", {ORDERS: [9]}, "orders(9) to give up"),
        ("assigned", {}, "no partition"),
        ("assignmentEpochs", [[ORDERS, 0, 4], [ORDERS, 1, 3]], "orders(1) since epoch 3"),
    ],
)
def test_a_field_that_differs_is_the_only_one_shown(field: str, value: Any, word: str) -> None:
    base = EXAMPLES["transitions", "unreachable"][0]["from"]
    expected, recorded = assignments(base, base | {field: value}, NAMES)
    assert recorded == word
    assert "," not in expected.replace("(0-2)", "")
