"""What ``--help`` shows, verb by verb."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator

import pytest
import typer
from typer.core import TyperCommand, TyperGroup

from kip848_spark.cli import app
from tests.cli.command import Command

WIDTH = 80
TYPES = re.compile(r"<(bool|str|int|float|list.*|Path)>")
"""What Typer shows for an option for which nobody chose a word."""


def verbs() -> Iterator[tuple[str, ...]]:
    """The words of each verb."""

    def below(command: object, words: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
        if isinstance(command, TyperGroup):
            for name, one in command.commands.items():
                yield from below(one, (*words, name))
        else:
            assert isinstance(command, TyperCommand)
            yield words

    yield from below(typer.main.get_command(app), ())


VERBS = list(verbs())


def test_all_verbs_are_found() -> None:
    """Otherwise, the other tests would check nothing."""
    assert len(VERBS) > 20
    assert {("run",), ("config", "show")} <= set(VERBS)


@pytest.mark.parametrize("verb", VERBS, ids=" ".join)
def test_the_help_of_a_verb(
    verb: tuple[str, ...], kip848: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each option has a word for its value, and each line of the text is filled."""
    monkeypatch.setenv("COLUMNS", str(WIDTH))
    monkeypatch.setenv("TERMINAL_WIDTH", str(WIDTH))
    shown = kip848(*verb, "--help")
    assert shown.code == 0
    text, _, _ = shown.out.partition("╭")
    _, _, options = shown.out.partition("─ Options ─")
    assert "--help" in options
    assert not TYPES.search(options), options
    paragraphs = [part.splitlines() for part in re.split(r"\n\s*\n", text) if part.strip()]
    assert len(paragraphs) > 1, "usage, and what the verb does"
    for lines in paragraphs[1:]:
        for line, following in itertools.pairwise(lines):
            first = following.split()[0]
            assert len(line.rstrip()) + 1 + len(first) > WIDTH - 2, f"{line!r} {following!r}"


@pytest.mark.parametrize("verb", VERBS, ids=" ".join)
def test_every_option_has_a_meaning(verb: tuple[str, ...]) -> None:
    command = typer.main.get_command(app)
    for word in verb:
        assert isinstance(command, TyperGroup)
        command = command.commands[word]
    for param in command.params:
        assert getattr(param, "help", None), f"{param.name} of {' '.join(verb)}"
