"""The checklist for a group's owner, in Markdown: what the topic shows of the group, and questions
about what it can't show. Ready to paste into a ticket."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pyarrow as pa

from kip848_spark.insight.readiness import Note
from kip848_spark.insight.readiness_cluster import KnownCluster
from kip848_spark.insight.readiness_conditions import cluster_status, groups_matching
from kip848_spark.insight.readiness_rules import Library, ReadinessRule, RuleBook, load_rules

_VERDICTS = {
    "ready": "Ready: nothing in the records prevents the migration.",
    "ready_with_warnings": "Ready, with warnings: the brokers will accept the move. Read the "
    "warnings first.",
    "blocked": "Blocked: the brokers would refuse a member of the new protocol.",
    "already_migrated": "Already migrated.",
    "migrating": "Migrating: some members still use the classic protocol.",
    "not_applicable": "The consumer protocol of KIP-848 does not apply to this group.",
    "unknown": "Unknown: the records of the group could not all be read.",
}
_SEVERITIES = {
    "blockers": "What the brokers refuse",
    "warnings": "What changes",
    "unknowns": "What is not known",
    "notes": "Good to know",
}

_TABLE_HEAD = ("| library | at least | better | |", "|---|---|---|---|")


def checklist(
    row: Mapping[str, Any],
    facts: pa.Table,
    cluster: KnownCluster,
    notes: Iterable[Note] = (),
) -> str:
    """Markdown for one group. ``row`` is its row (`READINESS_FIELDS`), ``facts`` its one row of
    facts."""
    book = load_rules()
    lines = [f"# Moving {_code(row['group_id'])} to the consumer protocol (KIP-848)", ""]
    lines += [_VERDICTS[row["verdict"]], ""]
    lines += [f"* {words}" for words in _summary(row)] + [""]
    details = dict(row["details"] or {})
    for column, title in _SEVERITIES.items():
        rules = [book.named(rule_id) for rule_id in row[column] or ()]
        if rules:
            lines += [f"## {title}", ""]
            lines += [line for rule in rules for line in _rule(rule, details.get(rule.id))] + [""]
    shown = [
        note for note in notes if note.severity in ("blocker", "warning") and _concerns(note, row)
    ]
    if shown:
        lines += ["## The cluster", ""]
        lines += [f"* {note.text} {note.todo}{_sources(note.source)}" for note in shown] + [""]
    questions = checklist_rules(facts, cluster)
    if questions:
        lines += ["## Please check", "", "The records do not show these.", ""]
        for rule in questions:
            lines.append(f"- [ ] **{rule.id}** {rule.means} *{rule.todo}*{_sources(rule.source)}")
        lines += ["", "## Client libraries", "", *_TABLE_HEAD]
        lines += [_library(one) for one in book.libraries] + [""]
    return "\n".join(lines)


def checklist_rules(
    facts: pa.Table, cluster: KnownCluster, book: RuleBook | None = None
) -> tuple[ReadinessRule, ...]:
    """The questions for the owner of the group whose one row of facts is ``facts``."""
    found = []
    for rule in (book or load_rules()).of_subject("checklist"):
        status, _ = cluster_status(rule, cluster)
        matching = groups_matching(rule.group_conditions, facts, cluster)
        if status is not False and bool(matching.any()):
            found.append(rule)
    return tuple(found)


def _concerns(note: Note, row: Mapping[str, Any]) -> bool:
    """Whether a note is about the cluster alone. Others are among the rules of the groups."""
    return note.groups == 0 and row["verdict"] not in ("not_applicable", "already_migrated")


def _summary(row: Mapping[str, Any]) -> list[str]:
    words = [f"Type {_code(row['type'])}, state {_code(row['state'])}, {row['members']} members"]
    if row["protocol"]:
        words.append(f"Assignor {_code(row['protocol'])}")
    if row["likely_client"]:
        words.append(
            f"Client library, guessed from {_code(row['likely_client_from'])}: "
            f"{_code(row['likely_client'])}"
        )
    if row["wave"] is not None:
        words.append(f"Wave {row['wave']}, risk {row['risk'] or 'low'}")
    if row["uniform_moves"] is not None:
        assumed = " (number of partitions assumed)" if row["assumed_topics"] else ""
        words.append(
            f"Of {row['partitions']} partitions{assumed}, {row['uniform_moves']} would move to "
            f"another member with uniform, {row['range_moves']} with range"
        )
    if row["cheaper_rebalances"]:
        words.append(
            f"Rebalances in 30 days: {row['rebalances']}, of which {row['cheaper_rebalances']} "
            f"would be cheaper in the new protocol: at least {row['avoidable_stops']} times a "
            f"member would not have stopped, and {row['avoidable_unowned']} times a partition "
            "would not have been without an owner"
        )
    offsets = ", ".join(row["evidence"] or ())
    words.append(
        f"Evidence: partition {row['partition']} of `__consumer_offsets`, offset {offsets}"
    )
    return words


def _rule(rule: ReadinessRule, detail: str | None) -> list[str]:
    seen = f" Seen: {_code(detail)}." if detail else ""
    return [f"* **{rule.id}** {rule.means}{seen} *{rule.todo}*{_sources(rule.source)}"]


def _sources(source: Sequence[str]) -> str:
    return f" ({', '.join(source)})" if source else ""


def _library(one: Library) -> str:
    return f"| {one.name} | {one.minimum or '-'} | {one.better or ''} | {one.note or ''} |"


def _code(text: str) -> str:
    """``text`` as a code span that no text can end or leave: names come from strangers."""
    shown = "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)
    longest = max((len(run) for run in re.findall("`+", shown)), default=0)
    fence = "`" * (longest + 1)
    pad = " " if shown[:1] in ("`", " ") or shown[-1:] in ("`", " ") or not shown else ""
    return f"{fence}{pad}{shown}{pad}{fence}"
