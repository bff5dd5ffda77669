"""`simulate`: a capture from the command line, which the other verbs take for a real one."""

from __future__ import annotations

import json
from pathlib import Path

from tests.cli.command import Command


def test_a_simulated_capture_is_a_source(kip848: Command, tmp_path: Path) -> None:
    out, lake = tmp_path / "capture", tmp_path / "lake"
    made = kip848("simulate", "--profile", "churn", "--records", "3000", "--out", str(out))
    assert made.code == 0, made
    assert "3,000 records" in made.err
    ran = kip848("run", "--source", f"parquet:{out}", "--lake", str(lake))
    assert ran.code in (0, 1), ran
    listed = kip848("groups", "--lake", str(lake), "--json")
    found = {row["group_id"]: row["state"] for row in json.loads(listed.out)}
    truth = (out / "_truth" / "groups.jsonl").read_text().splitlines()
    assert found == {row["group_id"]: row["state"] for row in map(json.loads, truth)}


def test_what_is_wrong_is_said(kip848: Command, tmp_path: Path) -> None:
    out = str(tmp_path / "capture")
    no_profile = kip848("simulate", "--profile", "calm", "--out", out)
    assert (no_profile.code, "no profile calm" in no_profile.err) == (2, True)
    few = kip848("simulate", "--profile", "chaos", "--records", "10", "--groups", "2", "--out", out)
    assert (few.code, "too few" in few.err) == (2, True)
    (tmp_path / "file").write_text("")
    there = kip848("simulate", "--profile", "chaos", "--out", str(tmp_path))
    assert (there.code, "is there already" in there.err) == (2, True)
