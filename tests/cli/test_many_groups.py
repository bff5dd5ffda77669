"""The descriptions of very many groups: laying out their tables would take minutes."""

from __future__ import annotations

from pathlib import Path

import pytest

from kip848_spark.cli import display
from tests.cli.command import Command
from tests.lake.written_lake import write_lake

LONG = "assignor-" * 400


@pytest.mark.parametrize("most", [2, 3])
def test_of_many_groups_each_row_is_one_line(
    kip848: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, most: int
) -> None:
    monkeypatch.setattr("kip848_spark.cli.groups.MOST_FOLDED", most)
    assert most < display.MOST_FOLDED, "the tables themselves are short"
    rows = [
        {"group_id": name, "type": "consumer", "state": "Stable", "epoch": 3, "assignor": LONG}
        for name in ("a", "b", "c")
    ]
    write_lake(tmp_path / "lake", {"groups": rows})
    ended = kip848("groups", "--all", "--lake", str(tmp_path / "lake"))
    assert ended.code == 0, ended.err
    lines = ended.out.split("\n")
    assert {"a", "b", "c"} <= set(lines)
    folded = most == 3
    assert sum(LONG in line for line in lines) == (0 if folded else 3)
