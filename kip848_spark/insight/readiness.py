"""Migration readiness: which groups can move to the consumer protocol of KIP-848.

`assess` applies the rules of ``conf/readiness.toml`` to the facts of all groups at once. A group's
verdict is the strongest one that follows from its rules (docs/readiness.md). What concerns the
cluster, and what is not known of it, is a `Note`, said once and not for each group."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from string import Formatter

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kip848_spark.insight.readiness_cluster import CLUSTER_WORDS, KnownCluster
from kip848_spark.insight.readiness_conditions import cluster_status, groups_matching
from kip848_spark.insight.readiness_rules import (
    RISKS,
    RULE_LISTS,
    ReadinessRule,
    RuleBook,
    load_rules,
)
from kip848_spark.insight.readiness_simulation import SIMULATION_FIELDS
from kip848_spark.insight.readiness_waves import wave_numbers
from kip848_spark.state.codes import factorize
from kip848_spark.wire.array_types import BoolArray, Int64Array
from kip848_spark.wire.columns import list_offsets

_STRINGS = pa.list_(pa.string())

READINESS_FIELDS: dict[str, pa.DataType] = {
    "group_id": pa.string(),
    "partition": pa.int32(),
    "type": pa.string(),
    "state": pa.string(),
    "protocol": pa.string(),
    "members": pa.int64(),
    "classic_members": pa.int64(),
    "verdict": pa.string(),
    "blockers": _STRINGS,
    "warnings": _STRINGS,
    "unknowns": _STRINGS,
    "notes": _STRINGS,
    "details": pa.map_(pa.string(), pa.string()),
    "evidence": _STRINGS,
    "likely_client": pa.string(),
    "likely_client_from": pa.string(),
    "risk": pa.string(),
    "wave": pa.int32(),
    "rebalances": pa.int64(),
    "cheaper_rebalances": pa.int64(),
    "avoidable_stops": pa.int64(),
    "avoidable_unowned": pa.int64(),
    **SIMULATION_FIELDS,
}
"""The columns of the table `readiness`, and their Arrow types. The table in the lake also has the
columns ``run_id`` and ``cluster_id``.

``blockers``, ``warnings``, ``unknowns`` and ``notes`` hold ids of rules by their severity (notes:
info and not_applicable), sorted; ``details`` has what the topic shows for them, by rule id.
``evidence`` are offsets of records in ``partition`` of __consumer_offsets, as text. ``rebalances``
are those of the last 30 days, ``cheaper_rebalances`` those of them that the new protocol would make
cheaper, ``avoidable_stops`` and ``avoidable_unowned`` by how much at least
(`readiness_facts.FACTS`)."""

_STRENGTH = ("unknown", "not_applicable", "already_migrated", "migrating", "blocked")
"""Verdicts that rules and types decide; an earlier one counts before a later one."""


@dataclass(frozen=True)
class Note:
    """Something about the cluster, said once.

    ``severity`` is that of the rule, or ``unknown`` if a fact of the cluster is missing: then
    ``rules`` are the rules that could not be judged. ``groups`` is the number of groups that it
    concerns; 0 if it concerns the cluster as a whole.
    """

    severity: str
    rules: tuple[str, ...]
    text: str
    todo: str
    source: tuple[str, ...]
    groups: int


@dataclass(frozen=True)
class Assessment:
    """``rows`` has the columns `READINESS_FIELDS`, in the order of the facts; ``notes`` begin with
    the most severe."""

    rows: pa.Table
    notes: tuple[Note, ...]


def assess(
    facts: pa.Table,
    cluster: KnownCluster,
    simulated: pa.Table | None = None,
    book: RuleBook | None = None,
) -> Assessment:
    """The verdicts, and the notes on the cluster. ``facts`` as of `group_facts`.

    ``simulated`` (``group_id`` and `SIMULATION_FIELDS`) has the groups that were simulated."""
    book = book or load_rules()
    rules = book.of_subject("group")
    hits = np.zeros((len(rules), facts.num_rows), bool)
    notes = []
    unjudged = _Unjudged()
    for number, rule in enumerate(rules):
        status, missing = cluster_status(rule, cluster)
        if status is False:
            continue
        found = groups_matching(rule.group_conditions, facts, cluster)
        concerned = int(np.count_nonzero(found))
        if status is None:
            if concerned:
                unjudged.add(rule, missing, concerned)
            continue
        hits[number] = found
        if rule.is_cluster_wide and concerned:
            notes.append(_note(rule, concerned))
    for rule in book.of_subject("cluster"):
        status, missing = cluster_status(rule, cluster)
        if status:
            notes.append(_note(rule, 0))
        elif status is None:
            unjudged.add(rule, missing, 0)
    notes += unjudged.notes()
    order = {name: rank for rank, name in enumerate(("blocker", "warning", "unknown", "info"))}
    notes.sort(key=lambda note: order[note.severity])
    return Assessment(_rows(facts, rules, hits, simulated), tuple(notes))


def _note(rule: ReadinessRule, groups: int) -> Note:
    return Note(rule.severity, (rule.id,), rule.means, rule.todo, rule.source, groups)


class _Unjudged:
    """The rules that can't be judged because a fact of the cluster is not known."""

    def __init__(self) -> None:
        self._rules: dict[bool, dict[str, int]] = {False: {}, True: {}}
        self._missing: dict[bool, dict[str, None]] = {False: {}, True: {}}

    def add(self, rule: ReadinessRule, missing: Sequence[str], groups: int) -> None:
        """A rule that would concern ``groups`` groups, and the facts that are missing."""
        by_release = "release" in missing
        self._rules[by_release][rule.id] = groups
        self._missing[by_release].update(dict.fromkeys(missing))

    def notes(self) -> list[Note]:
        """At most two: one on settings of the cluster, one on its release."""
        todo = ("Name the cluster with --source.", "Name the release with --release.")
        words = [
            ", ".join(dict.fromkeys(CLUSTER_WORDS[name] for name in self._missing[by_release]))
            for by_release in (False, True)
        ]
        return [
            Note(
                "unknown",
                tuple(sorted(rules)),
                f"Not known: {words[by_release]}.",
                todo[by_release],
                (),
                max(rules.values()),
            )
            for by_release, rules in self._rules.items()
            if rules
        ]


def _rows(
    facts: pa.Table, rules: Sequence[ReadinessRule], hits: BoolArray, simulated: pa.Table | None
) -> pa.Table:
    columns: dict[str, pa.Array] = {
        name: facts[name].combine_chunks() for name in READINESS_FIELDS if name in FACT_COLUMNS
    }
    for name, severities in RULE_LISTS.items():
        columns[name] = _rule_lists(rules, hits, severities)
    columns["details"] = _details(facts, rules, hits)
    columns["risk"] = _risks(rules, hits)
    verdict = _verdicts(facts, rules, hits)
    columns["verdict"] = verdict
    columns["wave"] = wave_numbers(facts, verdict)
    columns |= _simulation(facts, simulated)
    arrays = [columns[name].cast(type_) for name, type_ in READINESS_FIELDS.items()]
    return pa.table(arrays, schema=pa.schema(list(READINESS_FIELDS.items())))


FACT_COLUMNS = (
    "group_id", "partition", "type", "state", "protocol", "members", "classic_members", "evidence",
    "likely_client", "likely_client_from", "rebalances", "cheaper_rebalances", "avoidable_stops",
    "avoidable_unowned",
)  # fmt: skip
"""The columns that are facts."""


def _simulation(facts: pa.Table, simulated: pa.Table | None) -> dict[str, pa.Array]:
    if simulated is None:
        return {name: pa.nulls(facts.num_rows, type_) for name, type_ in SIMULATION_FIELDS.items()}
    row = pc.index_in(facts["group_id"], simulated["group_id"].combine_chunks()).combine_chunks()
    return {name: simulated[name].combine_chunks().take(row) for name in SIMULATION_FIELDS}


def _rule_lists(
    rules: Sequence[ReadinessRule], hits: BoolArray, severities: Sequence[str]
) -> pa.ListArray:
    """list<string>[groups]: the ids of the rules of these severities that hold, sorted."""
    chosen = [n for n, rule in enumerate(rules) if rule.severity in severities]
    chosen.sort(key=lambda n: rules[n].id)
    group, number = np.nonzero(hits[chosen].T)
    names = pa.array([rules[n].id for n in chosen], pa.string()).take(pa.array(number))
    return pa.ListArray.from_arrays(_offsets(group, hits.shape[1]), names)


def _offsets(group: Int64Array, count: int) -> pa.Array:
    return list_offsets(np.bincount(group, minlength=count))


def _details(facts: pa.Table, rules: Sequence[ReadinessRule], hits: BoolArray) -> pa.MapArray:
    """map<string, string>[groups]: the filled-in details of the rules that hold, by rule id."""
    groups, ids, texts = [np.empty(0, np.int64)], [pa.array([], pa.string())], []
    texts.append(pa.array([], pa.string()))
    for number, rule in enumerate(rules):
        rows = np.flatnonzero(hits[number])
        if rule.detail is None or not len(rows):
            continue
        groups.append(rows)
        ids.append(pa.array([rule.id]).take(pa.array(np.zeros(len(rows), np.int64))))
        texts.append(_filled(rule.detail, facts.take(pa.array(rows))))
    group = np.concatenate(groups)
    order = np.argsort(group, kind="stable")
    keys, values = (pa.concat_arrays(some).take(pa.array(order)) for some in (ids, texts))
    return pa.MapArray.from_arrays(_offsets(group, facts.num_rows), keys, values)


def _filled(template: str, facts: pa.Table) -> pa.Array:
    """string[n]: ``template`` with the facts of each row; a fact that is null is ``?``."""
    parts: list[pa.Array | pa.Scalar] = []
    for words, name, _, _ in Formatter().parse(template):
        parts.append(pa.scalar(words))
        if name is not None:
            fact = facts[name].combine_chunks()
            parts.append(pc.fill_null(fact.cast(pa.string()), "?"))
    if all(isinstance(part, pa.Scalar) for part in parts):
        return pa.array(["".join(part.as_py() for part in parts)] * facts.num_rows)
    return pc.binary_join_element_wise(*parts, "")


def _risks(rules: Sequence[ReadinessRule], hits: BoolArray) -> pa.Array:
    """string[groups]: the highest risk of the rules that hold; null without one."""
    highest = np.full(hits.shape[1], -1, np.int64)
    for number, rule in enumerate(rules):
        if rule.risk is not None:
            highest[hits[number]] = np.maximum(highest[hits[number]], RISKS.index(rule.risk))
    return pa.array(RISKS).take(pa.array(highest, mask=highest < 0))


def _verdicts(facts: pa.Table, rules: Sequence[ReadinessRule], hits: BoolArray) -> pa.Array:
    """string[groups]: see docs/readiness.md#verdicts."""
    count = facts.num_rows
    holds = {name: np.zeros(count, bool) for name in _STRENGTH}
    consumer = pc.equal(facts["type"], "consumer").to_numpy()
    classic_left = facts["classic_members"].to_numpy() > 0
    holds["already_migrated"] = consumer & ~classic_left
    holds["migrating"] = consumer & classic_left
    doubtful = np.zeros(count, bool)
    for number, rule in enumerate(rules):
        if rule.verdict is not None:
            holds[rule.verdict] |= hits[number]
        elif rule.severity in ("warning", "unknown"):
            doubtful |= hits[number]
    names = [*_STRENGTH, "ready_with_warnings", "ready"]
    code = np.select([holds[name] for name in _STRENGTH] + [doubtful], range(len(names) - 1), -1)
    return pa.array(names).take(pa.array(np.where(code < 0, len(names) - 1, code)))


def verdict_counts(rows: pa.Table) -> dict[str, int]:
    """The number of groups by verdict."""
    verdicts = rows["verdict"].combine_chunks()
    counts = np.bincount(factorize(verdicts)).tolist() if rows.num_rows else []
    return dict(zip(pc.unique(verdicts).to_pylist(), counts, strict=True))
