"""`groups`: lists and describes the groups of a lake."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from kip848_spark.cli.display import (
    MOST_FOLDED,
    note,
    out,
    print_json,
    print_rows,
    printable,
    say,
)
from kip848_spark.cli.options import (
    AsOfOption,
    ConfigOption,
    Invocation,
    JsonOption,
    LakeOption,
    parse_time_option,
)
from kip848_spark.cli.verbs import VerbCommand
from kip848_spark.errors import FINDINGS, UsageError, near
from kip848_spark.insight.phrases import ranges

if TYPE_CHECKING:
    from kip848_spark.lake.history import StateAt
    from kip848_spark.lake.snapshot import LakeSnapshot

GroupRow = dict[str, Any]

STATES = (
    "PreparingRebalance", "CompletingRebalance", "Stable", "Dead", "Empty", "Assigning",
    "Reconciling", "NotReady",
)  # fmt: skip
"""The states of groups of all types, by their names in Kafka."""
TYPES = ("classic", "consumer", "share", "streams")
"""The types of groups, by their names in Kafka."""
LEFT_FOR_NOW = -2
"""The epoch of a static member that has left temporarily."""


class _Command(VerbCommand):
    """`groups`, whose options ``--state`` and ``--type`` may have no value, as in
    kafka-consumer-groups. Typer has no such option."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        following = [*args[1:], "-"]
        arguments = [
            f"{word}=" if word in ("--state", "--type") and after.startswith("-") else word
            for word, after in zip(args, following, strict=False)
        ]
        return super().parse_args(ctx, arguments)


def register(app: typer.Typer) -> None:
    app.command(cls=_Command)(groups)


def groups(
    lake: LakeOption = None,
    describe: Annotated[
        list[str] | None,
        typer.Option("--describe", help="Describe this group. May be repeated.", metavar="GROUP"),
    ] = None,
    all_: Annotated[bool, typer.Option("--all", help="Describe every group.")] = False,
    state: Annotated[
        str | None,
        typer.Option(
            "--state",
            help="List only groups in these states, such as Stable,Empty. With --describe or "
            "--all, without a value: show epochs and state only.",
            metavar="[STATES]",
        ),
    ] = None,
    type_: Annotated[
        str | None,
        typer.Option(
            "--type",
            help="Show only groups of these types, such as classic,consumer.",
            metavar="[TYPES]",
        ),
    ] = None,
    validate_regex: Annotated[
        str | None,
        typer.Option(
            "--validate-regex",
            help="Only check whether brokers accept this expression in a subscription.",
            metavar="REGEX",
        ),
    ] = None,
    members: Annotated[
        bool, typer.Option("--members", help="Show members and their partitions.")
    ] = False,
    offsets: Annotated[bool, typer.Option("--offsets", help="Show committed offsets.")] = False,
    as_of: AsOfOption = None,
    config: ConfigOption = None,
    json: JsonOption = False,
) -> None:
    """Show the groups of a lake, as kafka-consumer-groups shows those of a broker.

    Without --describe or --all, the groups are listed. A description has the state, members and
    offsets, unless --state, --members or --offsets selects some of these.
    """
    from kip848_spark.lake.groups import describe_groups

    if validate_regex is not None:
        _validate(validate_regex)
        return
    if all_ and describe:
        raise UsageError("--all describes every group, and --describe only some.", "Use one.")
    if (members or offsets) and not (all_ or describe):
        raise UsageError(
            "--members and --offsets select parts of a description.",
            "Add --describe GROUP, or --all.",
        )
    states = _choices(state or "", STATES, "No group has a state {}.")
    types = _choices(type_ or "", TYPES, "No group is of type {}.")
    time = parse_time_option("--as-of", as_of)
    state_ = Invocation.of(config, lake=lake).state_at(time)
    parts = {"state": state is not None, "members": members, "offsets": offsets}
    wanted = [name for name, asked in parts.items() if asked] or list(parts)
    described = bool(describe) or all_
    found = describe_groups(
        state_,
        None if all_ or not describe else list(describe),
        members_too=described and "members" in wanted,
        offsets_too=described and "offsets" in wanted,
    )
    _note_time(state_, complete=bool(describe) and not all_)
    if states:
        found = [group for group in found if group["state"] in states]
    if types:
        found = [group for group in found if group["type"] in types]
    if not found and not json:
        which = f" of type {' or '.join(sorted(types))}" if types else ""
        which += f" in state {' or '.join(sorted(states))}" if states else ""
        out.print(f"The lake has no groups{which}.")
    elif not described:
        _list(found, json)
    elif json:
        keep = {"state": (), "members": ("members_now",), "offsets": ("offsets",)}
        kept = {name for part in wanted for name in keep[part]}
        print_json([_json_group(group, kept) for group in found])
    elif len(wanted) == 1 and (all_ or len(found) > 1):
        _show_part(found, wanted[0], named=True)
    else:
        for group in found:
            out.print(f"\n[bold]{printable(group['group_id'])}[/]")
            for part in wanted:
                _show_part([group], part, folded=len(found) <= MOST_FOLDED)


def _note_time(state: LakeSnapshot | StateAt, *, complete: bool) -> None:
    """Prints the time of an earlier state; and, unless the requested groups are ``complete``, how
    many groups may be missing."""
    from kip848_spark.lake.history import StateAt

    if not isinstance(state, StateAt):
        return
    say(f"State at {state.time:%Y-%m-%d %H:%M:%S} UTC", style="dim", wrap=True)
    if complete:
        return
    unknown = state.unknown_groups()
    if unknown.first is not None:
        first = f"{unknown.first:%Y-%m-%d %H:%M:%S} UTC"
        number = unknown.first_known_later
        _note_unknown(number, f"not known before {first} or later", "earlier records")
    if unknown.last_known_before:
        _note_unknown(unknown.last_known_before, "not known at this time", "records before it")


def _note_unknown(number: int, what: str, removed: str) -> None:
    groups = "1 group is" if number == 1 else f"{number:,} groups are"
    note(f"{groups} {what}: the log cleaner had removed {removed}.")


def _choices(text: str, names: Sequence[str], refusal: str) -> set[str]:
    """Those of ``names`` that are in ``text``, separated by commas. Raises UsageError with the
    sentence ``refusal`` about another word."""
    by_word = {name.lower(): name for name in names}
    found = set()
    for word in filter(None, map(str.strip, text.split(","))):
        if word.lower() not in by_word:
            like = word.capitalize() if names[0][0].isupper() else word.lower()
            hint = near(like, names, f"Choose from {', '.join(names)}.")
            raise UsageError(refusal.format(word), hint)
        found.add(by_word[word.lower()])
    return found


def _validate(regex: str) -> None:
    """Prints whether brokers accept an expression. Ends with `FINDINGS` if they do not."""
    from kip848_spark.coordinator.re2 import compile_re2

    shown = printable(regex)
    try:
        compile_re2(regex)
    except ValueError as fault:
        out.print(
            f"The regular expression `{shown}` is invalid: {fault}.", markup=False, soft_wrap=True
        )
        raise typer.Exit(FINDINGS) from None
    out.print(f"The regular expression `{shown}` is valid.", markup=False, soft_wrap=True)
    try:
        compile_re2(regex, short_names=False)
    except ValueError:
        note("Brokers of 4.0 refuse a group that is named with `(?<`.", wrap=True)


def _json_group(group: GroupRow, kept: set[str]) -> GroupRow:
    """A group with the requested lists. ``members`` is the list, ``member_count`` the number."""
    shown = {k: v for k, v in group.items() if k not in ("members_now", "offsets", "members")}
    shown["member_count"] = group["members"]
    if "members_now" in kept:
        shown["members"] = group["members_now"]
    if "offsets" in kept:
        shown["offsets"] = group["offsets"]
    return shown


def _list(found: Sequence[GroupRow], json: bool) -> None:
    columns = ["group_id", "type", "state", "members", "epoch", "assignor", "updated_at"]
    if json:
        hidden = ("members_now", "offsets")
        print_json([{k: v for k, v in group.items() if k not in hidden} for group in found])
    else:
        print_rows(
            [g | {"assignor": g["assignor"] or g["protocol"] or None} for g in found], columns
        )


def _show_part(
    found: Sequence[GroupRow], part: str, *, named: bool = False, folded: bool = True
) -> None:
    """Prints one part of the groups' descriptions; ``named``: with a column of group ids.
    ``folded`` is that of `print_rows`."""
    rows = [
        {"group_id": group["group_id"], **row} if named else row
        for group in found
        for row in _PARTS[part](group)
    ]
    if rows:
        shown = [n for n in rows[0] if any(row[n] is not None for row in rows)]
        print_rows(rows, shown, folded=folded)
    if part == "members" and any(row["epoch"] == LEFT_FOR_NOW for row in rows):
        out.print(
            f"[dim]Epoch {LEFT_FOR_NOW}: a static member that has left temporarily; it keeps its "
            "partitions until its session times out.[/]"
        )


def _state(group: GroupRow) -> list[GroupRow]:
    shown = ("type", "state", "epoch", "target_epoch", "assignor", "protocol", "members")
    return [{name: group[name] for name in shown}]


def _members(group: GroupRow) -> list[GroupRow]:
    return [
        {
            "member_id": m["member_id"],
            "client_id": m["client_id"],
            "instance_id": m["instance_id"],
            "host": m["client_host"],
            "epoch": m["member_epoch"],
            "state": m["member_state"],
            "assigned": _places(m["assigned"]),
            "to give up": _places(m["pending_revocation"]),
            "target": _places(m["target"]),
        }
        for m in group["members_now"]
    ]


def _offsets(group: GroupRow) -> list[GroupRow]:
    shown = ("topic", "topic_partition", "committed_offset", "metadata", "commit_timestamp")
    return [{name: offset[name] for name in shown} for offset in group["offsets"]]


_PARTS = {"state": _state, "members": _members, "offsets": _offsets}


def _places(places: Sequence[GroupRow]) -> str | None:
    """``foo(0-24,30) bar(3)``; a topic whose name is not known is shown by its id."""
    topics: dict[str, list[int]] = {}
    for place in places:
        name = place["topic"] or place["topic_id"] or "?"
        topics.setdefault(name, []).append(place["topic_partition"])
    return " ".join(f"{name}({ranges(numbers)})" for name, numbers in topics.items()) or None
