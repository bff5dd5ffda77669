"""A name that would not be seen is in quotes."""

from __future__ import annotations

import pytest

from tests.cli.command import Command
from tests.lake.billing_lake import write_billing_lake


@pytest.mark.parametrize("name", ["", " "])
@pytest.mark.parametrize(
    "arguments",
    [("explain",), ("history",), ("groups", "--describe"), ("readiness",)],
    ids=" ".join,
)
def test_a_group_without_a_visible_name(
    kip848: Command, lake: str, arguments: tuple[str, ...], name: str
) -> None:
    ended = kip848(*arguments, name, "--lake", lake)
    assert ended.code == 1
    assert f'The lake has no group "{name}".' in ended.err


def test_an_ordinary_name_has_no_quotes(kip848: Command, lake: str) -> None:
    ended = kip848("explain", "nobody", "--lake", lake)
    assert "The lake has no group nobody." in ended.err


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(write_billing_lake(tmp_path_factory.mktemp("names") / "lake"))
