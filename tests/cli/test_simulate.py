"""`simulate` on the command line."""

from __future__ import annotations

import json
from pathlib import Path

from tests.cli.command import Command


def test_a_capture_and_its_truth(kip848: Command, tmp_path: Path) -> None:
    out = tmp_path / "capture"
    made = kip848("simulate", "--profile", "churn", "--records", "3000", "--out", str(out))
    assert made.code == 0, made
    assert "3,000 records" in made.err
    about = json.loads((out / "_truth" / "about.json").read_text())
    assert (about["profile"], about["records"], about["release"]) == ("churn", 3_000, "4.3")
    again = tmp_path / "again"
    options = ("--profile", "churn", "--records", "3000", "--compact", "--out", str(again))
    assert kip848("simulate", *options).code == 0
    assert json.loads((again / "_truth" / "about.json").read_text())["records"] < 3_000


def test_what_is_wrong_is_said(kip848: Command, tmp_path: Path) -> None:
    out = str(tmp_path / "capture")
    no_profile = kip848("simulate", "--profile", "calm", "--out", out)
    assert (no_profile.code, "no profile calm" in no_profile.err) == (2, True)
    few = kip848("simulate", "--profile", "chaos", "--records", "10", "--groups", "2", "--out", out)
    assert (few.code, "too few" in few.err) == (2, True)
    (tmp_path / "file").write_text("")
    there = kip848("simulate", "--profile", "chaos", "--out", str(tmp_path))
    assert (there.code, "already exists" in there.err) == (2, True)
