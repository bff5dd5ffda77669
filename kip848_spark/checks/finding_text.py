"""The text of a finding for people: what is wrong, what was expected and recorded, what it means
for the consumers, and what to do.

The table `findings` keeps the values as JSON in `expected` and `recorded`, and this text in
`explanation`. It is made for findings alone, not for what the audit verifies.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

import orjson

from kip848_spark.checks import finding_phrases as phrases
from kip848_spark.checks.finding_kinds import KINDS
from kip848_spark.checks.finding_phrases import TopicNames
from kip848_spark.checks.finding_sides import Case, sides_of
from kip848_spark.checks.log_entries import JsonValue
from kip848_spark.checks.results import Finding

EXPECTED, RECORDED, MEANS, ACTION = "Expected: ", "Recorded: ", "Means: ", "To do: "
"""How the lines of an explanation begin, after the first one."""


@dataclass(frozen=True)
class FindingText:
    """The parts of an explanation, each in one line. ``expected`` and ``recorded`` show only what
    differs."""

    summary: str
    expected: str
    recorded: str
    consequence: str
    action: str

    def __str__(self) -> str:
        parts = (
            self.summary,
            EXPECTED + self.expected,
            RECORDED + self.recorded,
            MEANS + self.consequence,
            ACTION + self.action,
        )
        return "\n".join(part.replace("\n", "\\n") for part in parts)  # names may have line ends


def with_texts(findings: Iterable[Finding], names: TopicNames) -> list[Finding]:
    """The ``findings`` with their explanations."""
    return [replace(finding, explanation=str(text_of(finding, names))) for finding in findings]


def text_of(finding: Finding, names: TopicNames) -> FindingText:
    """The text of a finding. ``names`` are the names of topics by id; a topic that is not in it is
    shown by its id."""
    kind = KINDS[finding.check, finding.reason]
    case = Case(
        finding.member_id, orjson.loads(finding.expected), orjson.loads(finding.recorded), names
    )
    facts = {"member": finding.member_id or "?"}
    facts |= _facts(case) | _FACTS.get(finding.reason, _no_facts)(case)
    expected, recorded = sides_of(finding.reason, case)
    return FindingText(
        kind.summary.format_map(facts), expected, recorded, kind.consequence, kind.action
    )


Facts = dict[str, str]
_TOPIC_ID = re.compile(r"[A-Za-z0-9_-]{22}")


def _facts(case: Case) -> Facts:
    """What most summaries name: the two values, and the fields of the recorded one."""
    fields = case.recorded if isinstance(case.recorded, dict) else {}
    return {
        "expected": phrases.value_text(case.expected, {}) if _is_plain(case.expected) else "",
        "recorded": phrases.value_text(case.recorded, {}) if _is_plain(case.recorded) else "",
        **{name: phrases.text(value) for name, value in fields.items() if _is_plain(value)},
    }


def _is_plain(value: JsonValue) -> bool:
    items = value if isinstance(value, list) else [value]
    return not any(isinstance(item, dict | list) for item in items)


def _no_facts(case: Case) -> Facts:
    return {}


def _partition_facts(case: Case) -> Facts:
    return {
        "partition": phrases.partition(case.expected["partition"], case.names),
        "owner": str(case.expected.get("owner")),
    }


def _record_name(case: Case) -> Facts:
    return {"record": phrases.record_name(case.recorded)}


def _fault_with_names(case: Case) -> Facts:
    def name_of(found: re.Match[str]) -> str:
        return case.names.get(found[0], found[0])

    return {"fault": _TOPIC_ID.sub(name_of, phrases.text(case.recorded["fault"]))}


_FACTS: dict[str, Callable[[Case], Facts]] = {
    "row_differs": lambda case: {"table": case.expected["table"]},
    "row_missing": lambda case: {"table": case.expected["table"]},
    "row_without_record": lambda case: {"table": case.expected["table"]},
    "no_change": _record_name,
    "unknown_member": _record_name,
    "repeated_partition": _record_name,
    "orphan_tombstone": _record_name,
    "no_new_epoch": lambda case: {"causes": phrases.words(case.recorded["causes"])},
    "wrong_hash": lambda case: {"topics": phrases.words(sorted(case.expected["topics"])) or "none"},
    "another_target": _fault_with_names,
    "not_loadable": _fault_with_names,
    "partition_in_two_targets": _partition_facts,
    "two_owners": _partition_facts,
    "not_initialized": _partition_facts,
    "assigned_and_revoked": _partition_facts,
    "task_with_two_owners": lambda case: {
        "task": "_".join(map(str, case.expected["task"])),
        "owner": case.expected["owner"],
    },
    "task_twice_in_process": lambda case: {
        "task": "_".join(map(str, case.expected["task"])),
        "owner": case.expected["member"],
        "member": case.recorded["member"],
    },
    "cluster_differs": lambda case: {"what": next(iter(case.expected))},
}
"""What the summary of a reason names beside `_facts`."""
