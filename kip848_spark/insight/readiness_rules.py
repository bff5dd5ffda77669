"""The rules of migration readiness, read from ``conf/readiness.toml``.

A rule names conditions over facts (`readiness_facts.FACTS`, one row a group, and
`readiness_cluster.CLUSTER_FACTS`). The conditions are checked when the rules are read, so that a
new rule can't name a fact or an operator that does not exist. docs/readiness.md describes the
fields."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from string import Formatter
from typing import Any

import pyarrow as pa

from kip848_spark.insight.readiness_cluster import CLUSTER_FACTS
from kip848_spark.insight.readiness_facts import FACTS
from kip848_spark.insight.readiness_guesses import Guess
from kip848_spark.insight.readiness_versions import ReleaseRange
from kip848_spark.runtime.resources import resource

RULES_FILE = "conf/readiness.toml"
SUBJECTS = ("group", "cluster", "checklist")
SEVERITIES = ("blocker", "warning", "unknown", "info", "not_applicable")
RULE_LISTS = {
    "blockers": ("blocker",),
    "warnings": ("warning",),
    "unknowns": ("unknown",),
    "notes": ("info", "not_applicable"),
}
"""The columns of `readiness` with ids of rules, and the severities of the rules in each."""
VERDICTS = (
    "ready",
    "ready_with_warnings",
    "blocked",
    "already_migrated",
    "migrating",
    "not_applicable",
    "unknown",
)
RISKS = ("low", "medium", "high")
_DEFAULT_RISK = {"blocker": "high", "warning": "medium", "unknown": "medium"}
_DEFAULT_VERDICT = {"blocker": "blocked", "not_applicable": "not_applicable"}
_OPERATORS: dict[str, tuple[str, ...]] = {
    "number": ("==", "!=", "<", "<=", ">", ">="),
    "text": ("==", "!=", "in", "not_in"),
    "flag": ("==",),
    "list": ("contains", "not_contains", "contains_any", "may_contain"),
}
"""The operators by kind of fact. ``may_contain``: the list is empty or contains the value."""
_FIELDS = {
    "id", "subject", "severity", "verdict", "risk", "of", "when", "brokers", "fixed_in", "since",
    "clients", "source", "means", "todo", "detail",
}  # fmt: skip


class RuleError(ValueError):
    """The rules can't be used. The message names the rule and the field."""


@dataclass(frozen=True)
class RuleCondition:
    """A comparison. The left side is a fact of the group, or, if ``fact`` is None, of the cluster.

    The right side is ``value``, or the fact ``cluster`` (if the left side is a fact of the group),
    or ``default`` while that is not known.
    """

    fact: str | None
    op: str
    value: Any = None
    cluster: str | None = None
    default: Any = None


@dataclass(frozen=True)
class ReadinessRule:
    """A rule; the fields are those of ``conf/readiness.toml``."""

    id: str
    subject: str
    severity: str
    risk: str | None
    means: str
    todo: str
    source: tuple[str, ...]
    when: tuple[RuleCondition, ...] = ()
    releases: ReleaseRange = field(default_factory=ReleaseRange)
    verdict: str | None = None
    detail: str | None = None
    clients: str | None = None

    @property
    def group_conditions(self) -> tuple[RuleCondition, ...]:
        """The conditions on facts of a group."""
        return tuple(c for c in self.when if c.fact is not None)

    @property
    def cluster_conditions(self) -> tuple[RuleCondition, ...]:
        """The conditions on facts of the cluster alone."""
        return tuple(c for c in self.when if c.fact is None)

    @property
    def is_cluster_wide(self) -> bool:
        """Whether the rule's text is about the cluster, and is shown once."""
        return self.subject == "cluster" or bool(self.cluster_conditions)


@dataclass(frozen=True)
class Library:
    """A client library, and the first release that can speak the new protocol (None: not known to
    exist)."""

    id: str
    name: str
    minimum: str | None
    better: str | None
    note: str | None


@dataclass(frozen=True)
class RuleBook:
    """All rules, the client libraries, and the patterns by which a library is guessed."""

    rules: tuple[ReadinessRule, ...]
    libraries: tuple[Library, ...]
    guesses: tuple[Guess, ...]

    def of_subject(self, subject: str) -> tuple[ReadinessRule, ...]:
        """The rules about ``subject``, in the order of the file."""
        return tuple(rule for rule in self.rules if rule.subject == subject)

    def named(self, rule_id: str) -> ReadinessRule:
        """The rule ``rule_id``. Raises KeyError."""
        for rule in self.rules:
            if rule.id == rule_id:
                return rule
        raise KeyError(rule_id)


@cache
def load_rules() -> RuleBook:
    """The rules that this program comes with. Raises RuleError."""
    return read_rules(resource(RULES_FILE).read_text(encoding="utf-8"))


def read_rules(text: str) -> RuleBook:
    """The rules of a file's text. Raises RuleError."""
    try:
        data = tomllib.loads(text)
    except tomllib.TOMLDecodeError as bad:
        raise RuleError(f"{RULES_FILE} is not TOML: {bad}") from None
    sets = {
        name: tuple(_condition(name, one) for one in conditions)
        for name, conditions in data.get("sets", {}).items()
    }
    rules = tuple(_rule(one, sets) for one in data.get("rule", ()))
    seen: set[str] = set()
    for rule in rules:
        if rule.id in seen:
            raise RuleError(f"there are two rules {rule.id}")
        seen.add(rule.id)
    libraries = tuple(
        Library(one["id"], one["name"], *(one.get(n) for n in ("minimum", "better", "note")))
        for one in data.get("library", ())
    )
    return RuleBook(rules, libraries, tuple(_guess(one) for one in data.get("guess", ())))


def _rule(data: Mapping[str, Any], sets: Mapping[str, tuple[RuleCondition, ...]]) -> ReadinessRule:
    name = data.get("id", "without id")
    unknown = data.keys() - _FIELDS
    if unknown:
        raise RuleError(f"rule {name} has an unknown field {min(unknown)}")
    for key in ("id", "subject", "severity", "source", "means", "todo"):
        if not data.get(key):
            raise RuleError(f"rule {name} lacks {key}")
    severity, verdict = data["severity"], data.get("verdict")
    _check(name, "subject", data["subject"], SUBJECTS)
    _check(name, "severity", severity, SEVERITIES)
    _check(name, "verdict", verdict, (None, *VERDICTS))
    _check(name, "of", data.get("of"), (None, *sets))
    risk = data.get("risk", _DEFAULT_RISK.get(severity))
    _check(name, "risk", risk, (None, *RISKS))
    when = sets.get(data.get("of", ""), ()) + tuple(
        _condition(name, c) for c in data.get("when", ())
    )
    if data["subject"] == "cluster" and any(c.fact is not None for c in when):
        raise RuleError(f"rule {name} is about the cluster and names a fact of a group")
    if data["subject"] != "cluster" and not any(c.fact is not None for c in when):
        raise RuleError(f"rule {name} names no fact of a group")
    try:
        releases = ReleaseRange.of(data.get("brokers"), data.get("fixed_in", ()), data.get("since"))
    except ValueError as bad:
        raise RuleError(f"rule {name}: {bad}") from None
    detail = data.get("detail")
    for _, used, _, _ in Formatter().parse(detail or ""):
        if used is not None and used not in FACTS:
            raise RuleError(f"rule {name}: detail names {used}, which is no fact")
    clients = data.get("clients")
    return ReadinessRule(
        name,
        data["subject"],
        severity,
        risk,
        data["means"],
        data["todo"],
        tuple(data["source"]),
        when,
        releases,
        verdict or _DEFAULT_VERDICT.get(severity),
        detail,
        f"{clients['library']} before {clients['below']}" if clients else None,
    )


def _check(rule: str, key: str, value: Any, allowed: Sequence[Any]) -> None:
    if value not in allowed:
        words = ", ".join(str(one) for one in allowed if one is not None)
        raise RuleError(f"rule {rule}: {key} {value!r} is not one of {words}")


def _condition(rule: str, data: Mapping[str, Any]) -> RuleCondition:
    if data.keys() - {"fact", "op", "value", "cluster", "default"} or "op" not in data:
        raise RuleError(f"rule {rule}: {dict(data)} is not a condition")
    fact, cluster = data.get("fact"), data.get("cluster")
    if fact is None and cluster is None:
        raise RuleError(f"rule {rule}: a condition names no fact")
    if fact is not None and fact not in FACTS:
        raise RuleError(f"rule {rule}: there is no fact {fact}")
    if cluster is not None and cluster not in CLUSTER_FACTS:
        raise RuleError(f"rule {rule}: there is no fact {cluster} of the cluster")
    type_ = FACTS[fact] if fact is not None else CLUSTER_FACTS[str(cluster)]
    _check(rule, "op", data["op"], _OPERATORS[kind_of(type_)])
    if fact is None and "value" not in data:
        raise RuleError(f"rule {rule}: a condition on {cluster} has no value")
    if fact is not None and ("value" in data) == (cluster is not None):
        raise RuleError(f"rule {rule}: a condition on {fact} needs either value or cluster")
    if fact is not None:
        return RuleCondition(fact, data["op"], data.get("value"), cluster, data.get("default"))
    return RuleCondition(None, data["op"], data["value"], cluster)


def kind_of(type_: pa.DataType) -> str:
    """The kind of a fact, which decides its operators: number, text, flag or list."""
    if pa.types.is_boolean(type_):
        return "flag"
    if pa.types.is_list(type_):
        return "list"
    return "text" if pa.types.is_string(type_) else "number"


def _guess(data: Mapping[str, Any]) -> Guess:
    try:
        re.compile(data["pattern"])
    except re.error as bad:
        raise RuleError(f"the pattern {data['pattern']!r} is not valid: {bad}") from None
    if data["column"] not in ("client_id", "member_id"):
        raise RuleError(f"a guess looks at client_id or member_id, not at {data['column']}")
    return Guess(data["library"], data["column"], data["pattern"])
