"""`explain`: the rebalances of a group in words, with a timeline."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from kip848_spark.cli.display import note, out, print_json, printable
from kip848_spark.cli.options import (
    ConfigOption,
    Invocation,
    JsonOption,
    LakeOption,
    SinceOption,
    UntilOption,
    parse_window,
)
from kip848_spark.errors import UsageError, quoted_if_blank

if TYPE_CHECKING:
    from kip848_spark.insight.story import RebalanceStory
    from kip848_spark.lake.explanation import Explanation

MOST_CLIENTS = 24
"""The largest number of clients in a timeline."""
_CLASSIC_NOTE = (
    "The records of a classic group show the result of a rebalance only: neither how long it took "
    "nor who was waited for."
)


def register(app: typer.Typer) -> None:
    app.command()(explain)


def explain(
    group: Annotated[str, typer.Argument(help="The group.", metavar="GROUP")],
    lake: LakeOption = None,
    since: SinceOption = None,
    until: UntilOption = None,
    epoch: Annotated[
        int | None,
        typer.Option(
            "--epoch", help="Explain the rebalance to this group epoch or generation.", metavar="N"
        ),
    ] = None,
    config: ConfigOption = None,
    json: JsonOption = False,
) -> None:
    """Explain why a group rebalanced, who was waited for, what moved and what happened next.

    Without --since or --epoch, the last rebalance is explained, with those that overlap with it.
    """
    from kip848_spark.lake.explanation import explain as explain_group

    if epoch is not None and (since or until):
        raise UsageError("--epoch can't be combined with --since or --until.", "Choose one.")
    start, end = parse_window(since, until)
    state = Invocation.of(config, lake=lake).state()
    found = explain_group(state, group, start, end, epoch)
    if json:
        print_json(found.described())
    else:
        show_explanation(found)


def show_explanation(found: Explanation) -> None:
    """Prints an explanation for people."""
    from kip848_spark.cli.timeline import show_timeline
    from kip848_spark.insight.story import CLASSIC, pattern_sentence

    if not found.stories:
        for sentence in _nothing(found):
            out.print(printable(sentence), soft_wrap=not out.is_terminal)
        _note_removed(found)
        return
    if len(found.rebalances) > 1:
        out.print(
            f"[bold]{printable(_encodable(found.summary()))}[/]", soft_wrap=not out.is_terminal
        )
    left_out = len(found.rebalances) - len(found.stories)
    if left_out:
        first = found.rebalances[0]["started_at"]
        out.print(
            f"[dim]{left_out:,} earlier rebalances since {first:%Y-%m-%d %H:%M:%S} UTC are left "
            f"out; `kip848 rebalances {printable(found.group['group_id'])}` lists them.[/]",
            soft_wrap=not out.is_terminal,
        )
    for pattern in found.evidence.patterns:
        show_labelled("pattern", pattern_sentence(pattern))
    if found.evidence.patterns or len(found.rebalances) > 1:
        out.print()
    for number, story in enumerate(found.stories):
        if number:
            out.print()
        show_story(story)
    timeline = found.timeline(width=1, most=1)
    if timeline is not None:
        out.print()
        show_timeline(lambda width: found.timeline(width, MOST_CLIENTS), out)
    if found.stories[-1].row["type"] == CLASSIC:
        out.print(
            f"\n[dim]{_CLASSIC_NOTE}[/]",
            soft_wrap=not out.is_terminal,
        )
    if found.since is not None:
        _note_removed(found)


def _note_removed(found: Explanation) -> None:
    from kip848_spark.lake.history import removed_note

    removed = found.removed_before
    if removed is not None and (found.since is None or found.since < removed):
        note(removed_note(removed))


def show_story(story: RebalanceStory) -> None:
    """Prints the story of one rebalance: the headline, and its lines indented below it."""
    out.print(f"[bold]{printable(_encodable(story.headline))}[/]", soft_wrap=not out.is_terminal)
    before = ""
    for line in story.lines:
        show_labelled("" if line.label == before else line.label, line.text)
        before = line.label


def show_labelled(label: str, text: str) -> None:
    """Prints a line of a story. On a terminal, it is wrapped beside its label."""
    from rich.text import Text

    words = Text.from_markup(printable(_encodable(text)))
    width = max(20, out.width - _INDENT)
    lines = words.wrap(out, width) if out.is_terminal else [words]
    for number, part in enumerate(lines):
        part.rstrip()
        head = f"  {'' if number else label:<{_INDENT - 2}}"
        out.print(Text.assemble((head, _COLOURS.get(label, "")), part), soft_wrap=True)


def _encodable(text: str) -> str:
    """``text`` without the arrow and the ellipsis, if the terminal has no Unicode."""
    if (out.encoding or "").lower().startswith("utf"):
        return text
    return text.replace("→", "->").replace("…", "~").replace("×", "x")


_INDENT = 10
_COLOURS = {
    "cause": "bold",
    "pattern": "bold red",
    "waited": "yellow",
    "moved": "cyan",
    "then": "bold",
}


def _nothing(found: Explanation) -> Sequence[str]:
    """Sentences about a group without a rebalance in the requested time."""
    group: dict[str, Any] = dict(found.group)
    name, last = quoted_if_blank(group["group_id"]), found.last
    times = [
        f"{word} {time:%Y-%m-%d %H:%M:%S} UTC"
        for word, time in (("since", found.since), ("before", found.until))
        if time is not None
    ]
    if last is not None:
        return (
            f"{name} did not rebalance {' and '.join(times)}.",
            f"Its last rebalance was at {last['started_at']:%Y-%m-%d %H:%M:%S} UTC (epoch "
            f"{last['epoch']}). Without --since and --until, it is explained.",
        )
    if group["type"] == "classic" and not group.get("protocol"):
        return (
            f"{name} has never rebalanced: the lake has no record of a member.",
            "It only commits offsets, as a client does that assigns partitions to itself.",
        )
    if group["type"] == "classic":
        return (
            f"The lake has no rebalance of {name}, a classic group: no record shows that its "
            "generation changed.",
            _CLASSIC_NOTE,
        )
    if found.removed_before is not None:
        return (f"The lake has no rebalance of {name}.",)
    return (f"The lake has no rebalance of {name}: none of its records raises its epoch.",)
