"""The section `readiness` of the report: who can move to the new protocol, and what stands against
it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from kip848_spark.insight.readiness import verdict_counts
from kip848_spark.insight.readiness_rules import (
    RULE_LISTS,
    SEVERITIES,
    VERDICTS,
    ReadinessRule,
    load_rules,
)
from kip848_spark.lake.readiness import LakeReadiness
from kip848_spark.lake.snapshot import LakeSnapshot
from kip848_spark.report.columns import GroupNumbers, ReportTable, encode, rows_table, values
from kip848_spark.wire.tables import TIMESTAMP

VERDICTS_IN_WORDS = {
    "ready": "no blocker and no warning in the records",
    "ready_with_warnings": "the brokers accept the move, but something changes or is not known",
    "blocked": "the brokers refuse a member of the new protocol",
    "already_migrated": "a consumer group without classic members",
    "migrating": "converted, and some members still use the classic protocol",
    "not_applicable": "the consumer protocol is not for this group",
    "unknown": "records of the group could not be decoded",
}
"""What each verdict means (docs/readiness.md)."""

_NUMBERS = (
    "members", "classic_members", "uniform_moves", "uniform_rounds", "range_moves", "range_rounds",
    "cheaper_rebalances",
)  # fmt: skip
_ENCODED = ("verdict", "risk", "likely_client", "likely_client_from")
_TEXT = pa.string()


def readiness_section(
    snapshot: LakeSnapshot, found: LakeReadiness, numbers: GroupNumbers
) -> dict[str, Any]:
    """The section `readiness` (docs/report.md)."""
    rows = found.assessment.rows
    rules, of_rule = _rules(found)
    counts = verdict_counts(rows)
    return {
        "verdicts": rows_table(
            [
                {"verdict": name, "groups": counts[name], "about": VERDICTS_IN_WORDS.get(name)}
                for name in VERDICTS
                if name in counts
            ],
            {"verdict": _TEXT, "groups": pa.int64(), "about": _TEXT},
            ["verdict"],
        ),
        "waves": _waves(rows),
        "rules": rules,
        "list": _list(rows, numbers, of_rule),
        "notes": _notes(found),
        "release": found.cluster.release_words,
        "settings": [[name, _shown(value)] for name, value in found.cluster.facts.items()],
        "progress": _progress(snapshot),
    }


def verdicts_of_groups(found: LakeReadiness, numbers: GroupNumbers) -> dict[str, pa.Array]:
    """``verdict`` in the order of the groups; null for deleted ones."""
    return numbers.aligned(found.assessment.rows, ["verdict"])


def _shown(value: Any) -> str:
    return ", ".join(map(str, value)) if isinstance(value, list | tuple) else str(value)


def _waves(rows: pa.Table) -> ReportTable:
    waves = Counter(wave for wave in rows["wave"].to_pylist() if wave is not None)
    found = [{"wave": wave, "groups": count} for wave, count in sorted(waves.items())]
    return rows_table(found, {"wave": pa.int32(), "groups": pa.int64()})


def _rules(found: LakeReadiness) -> tuple[ReportTable, Mapping[str, int]]:
    """The rules that hold for some group or the cluster, and their row numbers by id."""
    counts: Counter[str] = Counter()
    for name in RULE_LISTS:
        counts.update(pc.list_flatten(found.assessment.rows[name].combine_chunks()).to_pylist())
    for note in found.assessment.notes:
        if note.severity != "unknown":
            for rule in note.rules:
                counts.setdefault(rule, note.groups)
    book = {rule.id: rule for rule in load_rules().rules}
    known = [book[name] for name in counts if name in book]

    def order(rule: ReadinessRule) -> tuple[int, int, str]:
        return SEVERITIES.index(rule.severity), -counts[rule.id], rule.id

    rules = sorted(known, key=order)
    table = rows_table(
        [
            {
                "rule": rule.id,
                "severity": rule.severity,
                "means": rule.means,
                "todo": rule.todo,
                "source": list(rule.source),
                "groups": counts[rule.id],
            }
            for rule in rules
        ],
        {
            "rule": _TEXT,
            "severity": _TEXT,
            "means": _TEXT,
            "todo": _TEXT,
            "source": pa.list_(_TEXT),
            "groups": pa.int64(),
        },
        ["severity"],
    )
    return table, {rule.id: row for row, rule in enumerate(rules)}


def _list(rows: pa.Table, numbers: GroupNumbers, of_rule: Mapping[str, int]) -> ReportTable:
    order = [("wave", "ascending"), ("verdict", "ascending"), ("group_id", "ascending")]
    rows = rows.filter(numbers.column(rows["group_id"]).is_valid())
    rows = rows.sort_by(order)  # null comes last
    columns: dict[str, list[Any]] = {"group": values(numbers.column(rows["group_id"]))}
    dictionaries: dict[str, list[Any]] = {}
    columns["verdict"], dictionaries["verdict"] = encode(rows["verdict"])
    columns["wave"] = values(rows["wave"])
    columns["risk"], dictionaries["risk"] = encode(rows["risk"])
    for name in RULE_LISTS:
        columns[name] = [
            [of_rule[rule] for rule in rules or () if rule in of_rule]
            for rules in rows[name].to_pylist()
        ]
    columns["details"] = [
        [[of_rule[rule], text] for rule, text in pairs if rule in of_rule] or None
        if pairs
        else None
        for pairs in rows["details"].to_pylist()
    ]
    for name in _ENCODED[2:]:
        columns[name], dictionaries[name] = encode(rows[name])
    for name in _NUMBERS:
        columns[name] = values(rows[name])
    return {"length": rows.num_rows, "columns": columns, "dictionaries": dictionaries}


def _notes(found: LakeReadiness) -> ReportTable:
    rows: Sequence[Mapping[str, Any]] = [
        {
            "severity": note.severity,
            "text": note.text,
            "todo": note.todo,
            "source": list(note.source),
            "groups": note.groups,
            "rules": list(note.rules),
        }
        for note in found.assessment.notes
    ]
    texts = pa.list_(_TEXT)
    fields = {
        "severity": _TEXT, "text": _TEXT, "todo": _TEXT, "source": texts, "groups": pa.int64(),
        "rules": texts,
    }  # fmt: skip
    return rows_table(rows, fields, ["severity"])


def _progress(snapshot: LakeSnapshot) -> ReportTable:
    """How many groups had which verdict at the end of each run; no rows if the lake does not keep
    them."""
    fields = {"run_id": _TEXT, "at": TIMESTAMP, "verdict": _TEXT, "groups": pa.int64()}
    if not snapshot.has("readiness"):
        return rows_table([], fields, ["verdict"])
    rows = snapshot.select("readiness", None, ["run_id", "verdict"])
    counted = rows.group_by(["run_id", "verdict"]).aggregate([([], "count_all")]).to_pylist()
    runs = snapshot.select("runs", None, ["run_id", "finished_at"])
    ends = dict(zip(runs["run_id"].to_pylist(), runs["finished_at"].to_pylist(), strict=True))
    counted.sort(key=lambda row: (row["run_id"], VERDICTS.index(row["verdict"])))
    found = [{**row, "at": ends.get(row["run_id"]), "groups": row["count_all"]} for row in counted]
    return rows_table(found, fields, ["verdict"])
