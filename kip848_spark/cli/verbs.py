"""The classes of the verbs. They change what Typer's help shows: it would keep the line breaks of
docstrings, and put ``<bool>`` behind each flag, as if the flag took a value."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, TypeVar

import typer
from typer.core import TyperCommand, TyperGroup

from kip848_spark.cli.stopping import says_if_stopped

_Function = TypeVar("_Function", bound=Callable[..., Any])


class VerbCommand(TyperCommand):
    """A verb."""

    def __init__(self, *arguments: Any, help: str | None = None, **options: Any) -> None:
        super().__init__(*arguments, help=_joined(help), **options)

    def get_params(self, ctx: Any) -> list[Any]:
        return _without_types_of_flags(super().get_params(ctx))

    def invoke(self, ctx: Any) -> Any:
        with says_if_stopped():
            return super().invoke(ctx)


class VerbGroup(TyperGroup):
    """`kip848` itself, or a verb that has verbs."""

    def __init__(self, *arguments: Any, help: str | None = None, **options: Any) -> None:
        super().__init__(*arguments, help=_joined(help), **options)

    def get_params(self, ctx: Any) -> list[Any]:
        return _without_types_of_flags(super().get_params(ctx))


class Verbs(typer.Typer):
    """A `typer.Typer` with these classes."""

    def __init__(self, **options: Any) -> None:
        super().__init__(cls=VerbGroup, **options)

    def command(self, *arguments: Any, **options: Any) -> Callable[[_Function], _Function]:
        return super().command(*arguments, **{"cls": VerbCommand, **options})


def _joined(text: str | None) -> str | None:
    """``text`` with one line for each paragraph."""
    if text is None:
        return None
    return "\n\n".join(" ".join(part.split("\n")) for part in inspect.cleandoc(text).split("\n\n"))


def _without_types_of_flags(params: list[Any]) -> list[Any]:
    for param in params:
        if getattr(param, "is_bool_flag", False) and param.metavar is None:
            param.metavar = ""
    return params
