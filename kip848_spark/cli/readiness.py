"""`readiness`: which groups can move to the consumer protocol of KIP-848."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from kip848_spark.cli.cluster_settings import ClusterOption, ReleaseOption, cluster_facts
from kip848_spark.cli.display import out, print_json, print_rows, printable
from kip848_spark.cli.options import (
    ConfigOption,
    Invocation,
    JsonOption,
    KafkaOption,
    LakeOption,
    RunAsOfOption,
    parse_time_option,
)
from kip848_spark.errors import UsageError, near, no_such_group

if TYPE_CHECKING:
    from kip848_spark.insight.readiness import Note
    from kip848_spark.lake.readiness import LakeReadiness
    from kip848_spark.lake.readiness_runs import RunChanges
    from kip848_spark.lake.snapshot import LakeSnapshot
    from kip848_spark.wire.tables import Row

MOST_ROWS = 200
"""The number of groups that a terminal shows; `--json` and `--csv` have all."""
_COLOURS = {"blocker": "red", "warning": "yellow", "unknown": "magenta", "info": "cyan"}
_COLUMNS = ("group_id", "verdict", "wave", "why")


def register(app: typer.Typer) -> None:
    app.command()(readiness)


def readiness(
    group: Annotated[
        list[str] | None,
        typer.Argument(help="Explain these groups. Without one, list all groups.", metavar="GROUP"),
    ] = None,
    lake: LakeOption = None,
    source: ClusterOption = None,
    release: ReleaseOption = None,
    verdict: Annotated[
        str | None,
        typer.Option("--verdict", help="Show only groups with this verdict.", metavar="V"),
    ] = None,
    topic: Annotated[
        str | None,
        typer.Option("--topic", help="Show only groups that read this topic.", metavar="TOPIC"),
    ] = None,
    checklist: Annotated[
        str | None,
        typer.Option(
            "--checklist", help="Print a checklist for this group's owner.", metavar="GROUP"
        ),
    ] = None,
    diff: Annotated[
        str | None,
        typer.Option(
            "--diff",
            help="Show what has changed since this run; last: the run before the newest one.",
            metavar="RUN",
        ),
    ] = None,
    as_of: RunAsOfOption = None,
    kafka_option: KafkaOption = None,
    config: ConfigOption = None,
    json: JsonOption = False,
    csv: Annotated[bool, typer.Option("--csv", help="Print the result as CSV.")] = False,
) -> None:
    """Show which classic groups can migrate to the consumer protocol, and what prevents the others.

    A verdict follows from the records, and from the cluster's settings if --source names it.
    What the records can't show is in the checklist. docs/readiness.md lists all rules.
    """
    from kip848_spark.insight.readiness_rules import VERDICTS

    if json and csv:
        raise UsageError("--json and --csv exclude each other.", "Use one of them.")
    if verdict is not None and verdict not in VERDICTS:
        raise UsageError(
            f"There is no verdict {verdict}.",
            near(verdict, VERDICTS, f"Choose from {', '.join(VERDICTS)}."),
        )
    if diff is not None and (source or release or checklist):
        raise UsageError(
            "--diff compares what two runs wrote, so --source, --release and --checklist do not "
            "go with it.",
            "Leave them out.",
        )
    invocation = Invocation.of(config, kafka_option, lake=lake, source=source)
    snapshot = invocation.state(parse_time_option("--as-of", as_of))
    if diff is not None:
        _print_diff(snapshot, diff, group or [], verdict, topic, json=json, csv=csv)
        return
    named = [*(group or ()), *([checklist] if checklist is not None else ())]
    found = _assess(snapshot, cluster_facts(invocation, release), named)
    rows = _chosen(snapshot, found, group or [], verdict, topic)
    if checklist is not None:
        _print_checklist(snapshot, found, checklist)
    elif json:
        print_json(_json_report(snapshot, found, rows, group or []))
    elif csv:
        from kip848_spark.cli.csv_rows import csv_text
        from kip848_spark.insight.readiness import READINESS_FIELDS

        out.file.write(csv_text(rows, list(READINESS_FIELDS)))
    else:
        _show(found, rows, topic, explain=bool(group))


def _assess(snapshot: LakeSnapshot, answered: Row, named: Sequence[str]) -> LakeReadiness:
    from kip848_spark.lake.readiness import assess_lake

    found = assess_lake(snapshot, answered, named or None)
    known = set(found.facts["group_id"].to_pylist())
    for name in named:
        if name not in known:
            raise no_such_group(name, known)
    return found


def _chosen(
    snapshot: LakeSnapshot,
    found: LakeReadiness,
    groups: Sequence[str],
    verdict: str | None,
    topic: str | None,
) -> list[Row]:
    """The rows to show: by wave, the groups without one last."""
    from kip848_spark.lake.readiness import groups_of_topic

    of_topic = groups_of_topic(snapshot, topic) if topic is not None else None
    rows = [
        {**row, "details": dict(row["details"] or ())}
        for row in found.assessment.rows.to_pylist()
        if (not groups or row["group_id"] in groups)
        and (verdict is None or row["verdict"] == verdict)
        and (of_topic is None or row["group_id"] in of_topic)
    ]
    return sorted(
        rows,
        key=lambda row: (row["wave"] is None, row["wave"] or 0, row["verdict"], row["group_id"]),
    )


def _show(found: LakeReadiness, rows: Sequence[Row], topic: str | None, *, explain: bool) -> None:
    for note in found.assessment.notes:
        _print_note(note)
    if found.missing:
        out.print(
            f"[magenta]unknown[/] This lake lacks {', '.join(found.missing)}: rules about the past "
            "are not judged."
        )
    out.print()
    if not rows:
        out.print("No group is left to show.")
        if topic is not None:
            out.print(
                f"--topic selects the groups that subscribe to {printable(topic)} or commit on it."
            )
        return
    shown = rows[:MOST_ROWS]
    print_rows([{**row, "why": _why(row)} for row in shown], _COLUMNS)
    if len(rows) > len(shown):
        out.print(f"… and {len(rows) - len(shown):,} more, with --json or --csv.")
    from kip848_spark.insight.phrases import count

    counts: dict[str, int] = {}
    for row in rows:
        counts[row["verdict"]] = counts.get(row["verdict"], 0) + 1
    parts = ", ".join(f"{number:,} {name}" for name, number in counts.items())
    out.print(f"\n{count(len(rows), 'group')}: {parts}.")
    if explain:
        for row in rows:
            _explain(row)


def _print_note(note: Note) -> None:
    which = "" if not note.groups else f" Groups concerned: {note.groups:,}."
    rules = f" Rules not judged: {len(note.rules)}." if note.severity == "unknown" else ""
    sources = f" ({', '.join(note.source)})" if note.source else ""
    colour = _COLOURS[note.severity]
    words = printable(f"{note.text}{rules}{which} {note.todo}{sources}")
    out.print(f"[{colour}]{note.severity}[/] {words}")


def _why(row: Mapping[str, Any]) -> str | None:
    reasons = [*row["blockers"], *row["warnings"], *row["unknowns"]]
    return ", ".join(reasons or row["notes"]) or None


def _explain(row: Mapping[str, Any]) -> None:
    from kip848_spark.insight.readiness_rules import RULE_LISTS, load_rules

    out.print(f"\n[bold]{printable(row['group_id'])}[/]")
    for column, (severity, *_) in RULE_LISTS.items():
        for rule_id in row[column]:
            rule = load_rules().named(rule_id)
            seen = row["details"].get(rule_id)
            words = f" Seen: {printable(seen)}." if seen else ""
            out.print(
                f"  [{_COLOURS[severity]}]{severity}[/] {rule_id}: {printable(rule.means)}{words} "
                f"{printable(rule.todo)} ({printable(', '.join(rule.source))})"
            )
    if row["likely_client"]:
        out.print(
            f"  Client library, a guess from {printable(row['likely_client_from'])}: "
            f"{printable(row['likely_client'])}."
        )
    if row["uniform_moves"] is not None:
        assumed = row["assumed_topics"]
        out.print(
            f"  Simulated: of {row['partitions']} partitions, {row['uniform_moves']} move to "
            f"another member with uniform (rounds of heartbeats until Stable: "
            f"{row['uniform_rounds']}), "
            f"{row['range_moves']} with range ({row['range_rounds']})."
        )
        if assumed:
            names = printable(", ".join(assumed))
            out.print(f"  The numbers of partitions are those of the assignment: {names}.")
    if row["cheaper_rebalances"]:
        out.print(
            f"  Of {row['rebalances']:,} rebalances in 30 days, {row['cheaper_rebalances']:,} "
            f"would be cheaper in the new protocol: at least {row['avoidable_stops']:,} times a "
            f"member would not have stopped, and {row['avoidable_unowned']:,} times a partition "
            "would not have been without an owner."
        )
    out.print(f"  Evidence: partition {row['partition']}, offset {', '.join(row['evidence'])}.")


def _print_checklist(snapshot: LakeSnapshot, found: LakeReadiness, name: str) -> None:
    import pyarrow.compute as pc

    from kip848_spark.insight.readiness_checklist import checklist
    from kip848_spark.lake.rebalances import require_group

    mine = (pc.field("group_id") == name) & (
        pc.field("partition") == require_group(snapshot, name)["partition"]
    )
    (row,) = found.assessment.rows.filter(mine).to_pylist()
    facts = found.facts.filter(mine)
    out.file.write(checklist(row, facts, found.cluster, found.assessment.notes) + "\n")


def _json_report(
    snapshot: LakeSnapshot, found: LakeReadiness, rows: Sequence[Row], named: Sequence[str]
) -> Row:
    from dataclasses import asdict

    from kip848_spark.lake.readiness import simulated_assignments

    if named:
        given = simulated_assignments(snapshot, named)
        rows = [{**row, "simulated": given.get(row["group_id"])} for row in rows]
    return {
        "run_id": snapshot.run.run_id,
        "cluster": {**found.cluster.facts, "release": found.cluster.release_words},
        "notes": [asdict(note) for note in found.assessment.notes],
        "missing_tables": found.missing,
        "groups": rows,
    }


def _print_diff(
    snapshot: LakeSnapshot,
    run: str,
    groups: Sequence[str],
    verdict: str | None,
    topic: str | None,
    *,
    json: bool,
    csv: bool,
) -> None:
    """A change is of a verdict if the group had it before, or has it after."""
    from kip848_spark.insight.readiness_changes import CHANGE_COLUMNS
    from kip848_spark.lake.readiness import groups_of_topic
    from kip848_spark.lake.readiness_runs import changes_since

    found = changes_since(snapshot, run)
    of_topic = groups_of_topic(snapshot, topic) if topic is not None else None
    changes = [
        change
        for change in found.changes
        if (not groups or change["group_id"] in groups)
        and (verdict is None or verdict in (change["before"], change["after"]))
        and (of_topic is None or change["group_id"] in of_topic)
    ]
    if json:
        counts = {"before": found.counts_before, "after": found.counts_after}
        print_json(
            {"before": found.before, "after": found.after, "verdicts": counts, "changes": changes}
        )
    elif csv:
        from kip848_spark.cli.csv_rows import csv_text

        out.file.write(csv_text(changes, CHANGE_COLUMNS))
    else:
        _show_diff(found, changes)


def _show_diff(found: RunChanges, changes: Sequence[Mapping[str, Any]]) -> None:
    from kip848_spark.insight.readiness_changes import CHANGE_COLUMNS
    from kip848_spark.insight.readiness_rules import VERDICTS

    runs = f"from run {printable(found.before)} to run {printable(found.after)}"
    if not changes:
        out.print(f"Nothing has changed {runs}.")
        return
    shown = changes[:MOST_ROWS]
    print_rows(shown, CHANGE_COLUMNS)
    if len(changes) > len(shown):
        out.print(f"… and {len(changes) - len(shown):,} more, with --json or --csv.")
    out.print(f"\n{len(changes):,} groups changed {runs}.")
    parts = []
    for name in VERDICTS:
        before, after = found.counts_before.get(name, 0), found.counts_after.get(name, 0)
        if before or after:
            same = f"{after:,}" if before == after else f"{before:,} before, {after:,} now"
            parts.append(f"{name}: {same}")
    out.print(f"All groups: {'; '.join(parts)}.")
