"""What strangers chose (names, metadata) does nothing to the terminal of who looks at a lake."""

from __future__ import annotations

import unicodedata
from pathlib import Path

import pytest

from tests.cli.command import Command
from tests.insight.story_rows import GROUP
from tests.report.audited_lake import HOSTILE, write_audited_lake

VERBS = [
    ("groups",),
    ("groups", "--all"),
    ("groups", "--all", "--members"),
    ("groups", "--all", "--offsets"),
    ("groups", "--all", "--state"),
    ("rebalances", "--top", "5"),
    ("hygiene",),
    ("findings", "--run", "all", "--follow"),
    ("readiness",),
    ("readiness", "--csv"),
    ("explain", GROUP),
    ("history", "--partition", "orders:7"),
    ("sql", "SELECT group_id, metadata FROM offsets"),
]


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_audited_lake(tmp_path_factory.mktemp("hostile") / "lake")


@pytest.mark.parametrize("verb", VERBS, ids=" ".join)
def test_nothing_that_is_no_text_reaches_the_terminal(
    kip848: Command, lake: Path, verb: tuple[str, ...]
) -> None:
    ended = kip848(*verb, "--lake", str(lake))
    assert ended.code in (0, 1), ended
    bad = {c for c in ended.out if unicodedata.category(c) in ("Cc", "Cf", "Zl", "Zp")}
    assert bad <= {"\n", "\r"}
    assert not {"\0", "\x1b", "\u202e"} & set(ended.err)


def test_the_name_is_shown_as_it_is_written(kip848: Command, lake: Path) -> None:
    """So that the checks above are about something: the name is in the output."""
    shown = kip848("groups", "--all", "--offsets", "--lake", str(lake)).out
    escaped = HOSTILE.replace("\x00", "\\x00").replace("\x1b", "\\x1b")
    escaped = escaped.replace("\u202e", "\\u202e").replace("\u2028", "\\u2028")
    assert escaped in "".join(shown.split("\n"))
