"""`explain`, `history`, `rebalances` and `groups --as-of` as a shell or a terminal shows them."""

from __future__ import annotations

import json
import os
import pty
import re
import subprocess
import sys
from pathlib import Path

import pytest

from kip848_spark.kafka.topic import OffsetRange
from kip848_spark.lake.ledger import RETENTION
from tests.cli.command import Command
from tests.cli.test_terminal import UNFIT
from tests.insight.story_rows import GROUP, PARTITION, at, group, member, part, rebalance
from tests.lake.billing_lake import write_billing_lake
from tests.lake.written_lake import write_lake

EXPLAINED = """\
orders-billing rebalanced at 2026-11-20 02:14:07 UTC (epoch 41 → 42, converged after 38.2 s)
  cause   worker-3 (10.0.4.17) left or its session expired; its last commit was 44.9 s before \
(session timeout 45 s, assumed): probably expired
  waited  38.1 s for worker-1 to give up orders-7 and orders-9; worker-2 had to wait
  moved   3 of 24 partitions (1 was necessary); orders-3, orders-7 and orders-9 had no owner \
for up to 38.2 s
  then    worker-3 came back at 02:15:31 (epoch 43)

UTC       02:14:03                       02:14:26                       02:14:48
epoch         ▼42
worker-1  ────▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓────
worker-2  ─────┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄────
worker-3  ────×
─ member  ┄ waits for partitions  ▓ must give up partitions  × gone  1 column = 633 ms
"""
STRANGE = "g\x1b[31m\u202e"
ESCAPED = r"g\x1b[31m\u202e"


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_billing_lake(tmp_path_factory.mktemp("insight") / "lake")


def test_explain(kip848: Command, lake: Path) -> None:
    ended = kip848("explain", GROUP, "--epoch", "42", "--lake", str(lake))
    assert ended.code == 0, ended
    assert ended.out == EXPLAINED
    assert ended.err == ""
    found = json.loads(kip848("explain", GROUP, "--json", "--lake", str(lake)).out)
    assert found["state"] == "Stable"
    assert [row["epoch"] for row in found["rebalances"]] == [43]


def test_two_rebalances_to_the_same_epoch(kip848: Command, tmp_path: Path) -> None:
    """The group was deleted and created again in between."""
    rows = [rebalance(2, ["member_joined"], start, start + 1, start) for start in (10, 400)]
    write_lake(tmp_path / "lake", {"groups": [group(2, 0, None, (0, None))], "rebalances": rows})
    ended = kip848("explain", GROUP, "--epoch", "2", "--lake", str(tmp_path / "lake"))
    first = "2 rebalances of orders-billing to epoch 2 from 2026-11-20 02:14:17 to 02:20:47 UTC: "
    assert ended.out.startswith(first), ended


REMOVED = {"durations_ms": {RETENTION: 1}, "removed": {"an earlier run": 5}}
"""Of a run that has removed older rows."""


def test_history_that_maintenance_has_removed(kip848: Command, tmp_path: Path) -> None:
    ranges = (OffsetRange(PARTITION, 0, 130),)
    cut = {"kept_since": at(60), "kept_from": {PARTITION: 115}, "ranges": ranges, **REMOVED}
    lake = write_billing_lake(tmp_path / "lake", run=cut)
    note = "note Maintenance has removed what happened before 2026-11-20 02:15:07 UTC."
    found = kip848("history", GROUP, "--lake", str(lake))
    assert "group created" not in found.out
    assert re.search(r"02:15:07 +42 +worker-1 +was a member .* and owned orders-3", found.out)
    assert found.err == note
    assert kip848("rebalances", "--lake", str(lake)).err == note
    later = ("--since", "2026-11-20T02:15:20", "--lake", str(lake))
    assert kip848("rebalances", *later).err == ""
    assert kip848("history", GROUP, *later).err == ""
    assert note in kip848("explain", GROUP, "--since", "2026-11-20", "--lake", str(lake)).err


def test_a_cut_before_the_first_record_removed_nothing(kip848: Command, tmp_path: Path) -> None:
    """The first records of a compacted topic do not have the offset 0."""
    ranges = (OffsetRange(PARTITION, 0, 130),)
    cut = {"kept_since": at(-9000), "kept_from": {PARTITION: 10}, "ranges": ranges}
    for name, removed in (("none", {}), ("elsewhere", REMOVED | {"kept_from": {0: 10}})):
        lake = write_billing_lake(tmp_path / name, run=cut | removed)
        found = kip848("history", GROUP, "--lake", str(lake))
        assert "group created" in found.out
        assert found.err == ""
        assert kip848("rebalances", GROUP, "--lake", str(lake)).err == ""


def test_records_that_were_not_replayed(kip848: Command, tmp_path: Path) -> None:
    write_lake(tmp_path / "lake", {}, run={"replayed_through": None})
    ended = kip848("groups", "--lake", str(tmp_path / "lake"))
    assert ended.err.startswith("note The last records of the lake were not replayed.")


def test_explain_says_what_it_can_not_explain(kip848: Command, lake: Path) -> None:
    at = ("--lake", str(lake))
    nothing = kip848("explain", GROUP, "--since", "2026-11-20T03:00", *at)
    assert nothing.code == 0
    assert nothing.out.splitlines() == [
        "orders-billing did not rebalance since 2026-11-20 03:00:00 UTC.",
        "Its last rebalance was at 2026-11-20 02:15:31 UTC (epoch 43). "
        "Without --since and --until, it is explained.",
    ]
    simple = kip848("explain", "reports", *at)
    assert "It only commits offsets" in simple.out
    unknown = kip848("explain", "order-billing", *at)
    assert unknown.code == 1
    assert "Did you mean orders-billing?" in unknown.err
    both = kip848("explain", GROUP, "--epoch", "42", "--since", "2h ago", *at)
    assert both.code == 2
    reverse = kip848(
        "explain", GROUP, "--since", "2026-11-20T03:00", "--until", "2026-11-20T02:00", *at
    )
    assert reverse.code == 2
    assert "2026-11-20 03:00:00 UTC) is not before --until" in reverse.err


def test_history(kip848: Command, lake: Path) -> None:
    at = ("--lake", str(lake))
    ended = kip848("history", GROUP, "--since", "2026-11-20T02:14", *at)
    assert ended.code == 0, ended
    lines = [re.split(r"  +", line.strip()) for line in ended.out.splitlines()]
    assert lines[0] == ["time (UTC)", "epoch", "member", "event"]
    had = "was a member (10.0.4.1) and owned orders-7 and orders-9"
    assert ["2026-11-20 02:14:00", "41", "worker-1", had] in lines
    assert ["2026-11-20 02:14:07", "42", "worker-3", "left, expired or was removed"] in lines
    assert ["2026-11-20 02:14:07", "42", "worker-1", "must give up orders-7 and orders-9"] in lines
    assert ["2026-11-20 02:14:45", "42", "worker-2", "got orders-7 and orders-9"] in lines
    assert ["2026-11-20 02:15:31", "43", "worker-3", "joined (10.0.4.17)"] in lines
    later = kip848("history", "reports", "--since", "2026-11-20T03:00", *at)
    assert later.out == "The lake knows of no event in reports since 2026-11-20 03:00:00 UTC.\n"
    neither = kip848("history", *at)
    assert neither.code == 2
    assert "Neither a group nor a partition is given." in neither.err


def test_the_owner_of_a_partition(kip848: Command, lake: Path) -> None:
    at = ("--lake", str(lake))

    def owner(time: str) -> str:
        ended = kip848("history", "--partition", "orders-7", "--at", time, "--json", *at)
        assert ended.code == 0, ended
        (row,) = json.loads(ended.out)
        return f"{row['name']}{' gives it up' if row['giving_up'] else ''}"

    assert owner("2026-11-20T02:14") == "worker-1"
    assert owner("2026-11-20T02:14:20") == "worker-1 gives it up"
    assert owner("2026-11-20T02:15") == "worker-2"
    shown = kip848("history", "--partition", "orders:3", *at).out.splitlines()
    assert re.split(r"  +", shown[2].strip()) == [
        "orders-billing", "2026-11-20 02:14:07", "2026-11-20 02:14:45", "38.2 s", "nobody", "-",
    ]  # fmt: skip
    early = kip848("history", "--partition", "orders:7", "--at", "2026-11-20", *at)
    assert early.code == 1
    assert "The first known owner is of 2026-11-20 01:24:07 UTC." in early.err
    for wrong in ("orders", "orders:", ":3", "orders:x", "orders-", "orders-x", "orders-3:x"):
        assert kip848("history", "--partition", wrong, *at).code == 2, wrong
    alone = kip848("history", GROUP, "--at", "2h ago", *at)
    assert alone.code == 2
    assert "--at needs --partition" in alone.err
    two = kip848("history", GROUP, "--group", "another", *at)
    assert two.code == 2
    assert "Two groups are given" in two.err


def test_rebalances(kip848: Command, lake: Path) -> None:
    at = ("--lake", str(lake))
    listed = kip848("rebalances", *at)
    assert listed.code == 0, listed
    header, first, second, _, summary = listed.out.splitlines()
    assert re.split(r"  +", header.strip()) == [
        "started (UTC)", "group", "epoch", "causes", "took", "moved", "waited for",
    ]  # fmt: skip
    assert re.split(r"  +", first.strip()) == [
        "2026-11-20 02:14:07", GROUP, "42", "left_or_expired", "38.2 s", "3 (1 necessary)",
        "worker-1 38.1 s",
    ]  # fmt: skip
    assert "member_joined" in second
    assert summary.startswith("2 rebalances of 1 group: 1 left_or_expired and 1 member_joined")
    raw = json.loads(kip848("rebalances", GROUP, "--cause", "member_joined", "--json", *at).out)
    assert [row["epoch"] for row in raw] == [43]
    none = kip848("rebalances", "--cause", "upgraded", "--since", "2026-11-20", *at)
    assert none.out == (
        "The lake has no rebalance with the cause upgraded since 2026-11-20 00:00:00 UTC.\n"
    )
    wrong = kip848("rebalances", "--cause", "left", *at)
    assert wrong.code == 2
    assert "Choose from assignor_changed" in wrong.err


def test_the_groups_that_rebalance_most(kip848: Command, tmp_path: Path) -> None:
    """One client of `busy` came and went three times; `quiet` rebalanced once."""
    rows, members = [], []
    for number in range(3):
        name, start = f"id-{number}", 100.0 * number
        offset = 10 * number
        members.append(
            member("app", start, start + 50, (offset, offset + 5), member_id=name)
            | {"group_id": "busy"}
        )
        joined = rebalance(number * 2 + 1, ["member_joined"], start, start + 1, offset)
        left = rebalance(number * 2 + 2, ["left_or_expired"], start + 50, start + 51, offset + 5)
        rows += [
            joined | {"joined": [name], "group_id": "busy"},
            left | {"left": [name], "group_id": "busy"},
        ]
    rows.append(rebalance(1, ["member_joined"], 0, 3, 90) | {"group_id": "quiet"})
    write_lake(tmp_path / "lake", {"rebalances": rows, "member_history": members})
    at = ("--lake", str(tmp_path / "lake"))
    found = json.loads(kip848("rebalances", "--top", "5", "--json", *at).out)
    assert [(one["group_id"], one["rebalances"]) for one in found["groups"]] == [
        ("busy", 6),
        ("quiet", 1),
    ]
    (client,) = found["clients"]
    assert (client["client"], client["joined"], client["left"]) == ("app", 3, 3)
    assert client["member_ids"] == 3
    shown = kip848("rebalances", "--top", "1", *at).out
    assert "Groups that rebalance most" in shown
    assert "quiet" not in shown


def test_groups_at_a_time(kip848: Command, lake: Path) -> None:
    at = ("--lake", str(lake))
    ended = kip848("groups", "--as-of", "2026-11-20 02:14:20 UTC", *at)
    assert ended.code == 0, ended
    assert re.search(r"orders-billing +consumer +Reconciling +2 +42 ", ended.out)
    assert ended.err == "State at 2026-11-20 02:14:20 UTC"
    described = kip848("groups", "--describe", GROUP, "--as-of", "2026-11-20T03:14:20+01:00", *at)
    assert re.search(r"worker-1 .* orders\(7,9\)", described.out)
    early = kip848("groups", "--as-of", "2020-01-01", *at)
    assert early.code == 1
    assert "The lake's history begins at 2026-11-20 01:24:07 UTC." in early.err
    future = kip848("groups", "--as-of", "2999-01-01", *at)
    assert future.code == 2
    assert "--as-of '2999-01-01' is in the future" in future.err


def test_groups_that_may_be_missing_at_a_time(kip848: Command, tmp_path: Path) -> None:
    rows = [
        group(7, 0, 60, (20, 40)) | {"group_id": "ends", "known_to": at(60)},
        group(4, 100, None, (70, None)) | {"group_id": "begins", "known_from": at(100)},
        group(1, 0, None, (2, None)) | {"group_id": "other", "partition": 1},
    ]
    write_lake(tmp_path / "lake", {"group_history": rows, "groups": rows[1:]})
    ended = kip848("groups", "--as-of", "2026-11-20 02:15:17", "--lake", str(tmp_path / "lake"))
    assert [line.split()[0] for line in ended.out.splitlines()[1:]] == ["other"]
    assert "note 1 group is not known before 2026-11-20 02:15:47 UTC or later" in ended.err
    assert "note 1 group is not known at this time" in ended.err


def test_the_owner_while_records_are_missing(kip848: Command, tmp_path: Path) -> None:
    groups = [
        group(1, 0, 60, (1, 40)) | {"known_to": at(60)},
        group(2, 100, None, (70, None)) | {"known_from": at(100)},
    ]
    tables = {
        "groups": groups[1:],
        "group_history": groups,
        "assignment_history": [part("worker-1", 0, "assigned", 0, 30, (2, 20))],
    }
    write_lake(tmp_path / "lake", tables)
    given = ("history", "--partition", "orders-0", "--lake", str(tmp_path / "lake"))
    lines = kip848(*given).out.splitlines()[1:]
    owner = [re.split(" {2,}", line)[4] for line in lines]
    assert owner == ["id-of-worker-1", "nobody", "not known", "nobody"], lines
    rows = json.loads(kip848(*given, "--json").out)
    assert [(row["from"][11:19], row["member_id"]) for row in rows[1:]] == [
        ("02:14:37", None),
        ("02:15:47", None),
    ]
    ended = kip848(*given, "--at", "2026-11-20 02:15:17")
    assert ended.code == 1
    assert "The owner at 2026-11-20 02:15:17 UTC is not known." in ended.err
    assert "Records of that time are missing." in ended.err


def test_names_of_strangers_are_escaped(kip848: Command, tmp_path: Path) -> None:
    rows = [group(1, 0, None, (1, None)) | {"group_id": STRANGE}]
    members = [
        member(STRANGE, 0, None, (1, None), host=STRANGE, instance_id=f"i{STRANGE}")
        | {"group_id": STRANGE}
    ]
    rebalances = [
        rebalance(1, ["member_joined"], 0, None, 1, joined=[STRANGE]) | {"group_id": STRANGE}
    ]
    tables = {
        "groups": rows,
        "group_history": rows,
        "member_history": members,
        "rebalances": rebalances,
    }
    write_lake(tmp_path / "lake", tables)
    at = ("--lake", str(tmp_path / "lake"))
    for arguments in (
        ("explain", STRANGE),
        ("history", STRANGE),
        ("rebalances",),
        ("rebalances", STRANGE, "--top", "3"),
        ("groups", "--as-of", "2026-11-20T02:20"),
        ("explain", STRANGE, "--since", "2026-11-21"),
        ("rebalances", STRANGE, "--since", "2026-11-21"),
    ):
        ended = kip848(*arguments, *at)
        assert ended.code == 0, ended
        assert ESCAPED in ended.out, arguments
        assert not UNFIT.search(ended.out + ended.err), arguments
    for arguments in (("explain", "x\x1b"), ("history", "--partition", "x\x1b:1")):
        ended = kip848(*arguments, *at)
        assert ended.code == 1
        assert r"x\x1b" in ended.err


def test_a_big_group_is_shown_in_part(kip848: Command, tmp_path: Path) -> None:
    """1,000 members; those to which something happened are in the timeline."""
    members = [
        member(f"worker-{n}", -300, None if n % 100 else 0, (n, None if n % 100 else 5000 + n))
        for n in range(1000)
    ]
    left = [f"worker-{n}" for n in range(0, 1000, 100)]
    rows = [rebalance(2, ["left_or_expired"], 0, 5, 6000, left=left, trigger_members=left)]
    groups = [group(1, -300, 0, (0, 6000)), group(2, 0, None, (6000, None), members=990)]
    tables = {"groups": groups[1:], "group_history": groups, "member_history": members}
    write_lake(tmp_path / "lake", {**tables, "rebalances": rows})
    ended = kip848("explain", GROUP, "--lake", str(tmp_path / "lake"))
    assert ended.code == 0, ended
    lines = ended.out.splitlines()
    assert "worker-0, worker-100, worker-200 and 7 others left" in ended.out
    shown = [line.split()[0] for line in lines if re.match(r"worker-\d+ +[─×]", line)]
    assert set(left) <= set(shown)
    assert len(shown) == 24
    assert lines[-1] == "and 976 other clients, to which less happened"


@pytest.mark.parametrize("encoding", ["utf-8", "ascii"])
def test_a_terminal_of_80_columns(lake: Path, encoding: str) -> None:
    """Nothing is wider than the terminal, colours are used, and what they say is there without
    them."""
    environment = {
        **os.environ,
        "COLUMNS": "80",
        "TERM": "xterm-256color",
        "PYTHONIOENCODING": encoding,
    }
    environment.pop("NO_COLOR", None)
    command = [sys.executable, "-m", "kip848_spark", "explain", GROUP, "--since", "2026-11-20"]
    main, terminal = pty.openpty()
    with subprocess.Popen(
        [*command, "--lake", str(lake)], stdout=terminal, stderr=terminal, env=environment
    ) as process:
        os.close(terminal)
        shown = b""
        while True:
            try:
                part = os.read(main, 65536)
            except OSError:
                break
            if not part:
                break
            shown += part
        os.close(main)
    assert process.returncode == 0, shown
    text = shown.decode(encoding)
    assert "\x1b[1;33m" in text, "what waits for a revocation has a colour of its own"
    plain = re.sub(r"\x1b\[[0-9;]*m", "", text).replace("\r", "")
    assert max(map(len, plain.splitlines())) <= 80
    revoking, gone = ("▓", "×") if encoding == "utf-8" else ("#", "x")
    assert re.search(f"worker-1 +.*{revoking}{{10}}", plain)
    assert re.search(f"worker-3 +.*{gone}", plain)
    assert "  waited  38.1 s for worker-1" in plain
