"""The stories of the report, against those of `kip848 explain`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from kip848_spark import Lake
from kip848_spark.lake.location import locate
from kip848_spark.lake.snapshot import LakeSnapshot
from kip848_spark.report.data import report_data
from tests.insight.story_rows import GROUP, at, group, member, part, rebalance
from tests.lake.written_lake import write_lake
from tests.report.report_reader import group_names

LEFT = (0, 1200, 2400)
"""Seconds at which a client left. It came back, each time with another member id, after 30 s."""


def _tables() -> dict[str, Any]:
    members = [
        member("steady", -3000, None, (1, None)),
        member("app", -3000, 0, (2, 100), member_id="app-0"),
    ]
    groups = [group(40, -3000, 0, (3, 101))]
    rebalances = []
    for number, start in enumerate(LEFT):
        offset, epoch, end = 101 + 100 * number, 41 + 2 * number, start + 30
        following = LEFT[number + 1] if number + 1 < len(LEFT) else None
        old, new = f"app-{number}", f"app-{number + 1}"
        next_offset = None if following is None else offset + 100
        gone = None if next_offset is None else next_offset - 1
        members.append(member("app", end, following, (offset + 50, gone), member_id=new))
        groups += [
            group(epoch, start, end, (offset, offset + 51)),
            group(epoch + 1, end, following, (offset + 51, next_offset)),
        ]
        episode = {"episode_id": f"12-{offset}"}
        rebalances += [
            rebalance(epoch, ["left_or_expired"], start, start + 1, offset)
            | {"left": [old], "trigger_members": [old]}
            | episode,
            rebalance(epoch + 1, ["member_joined"], end, end + 1, offset + 51)
            | {"joined": [new], "trigger_members": [new]}
            | episode,
        ]
    owned = part("steady", 3, "assigned", -3000, None, (4, None))
    current = groups[-1] | {"last_offset": 999, "updated_at": at(LEFT[-1] + 31)}
    return {
        "groups": [current],
        "group_history": groups,
        "member_history": members,
        "assignment_history": [owned],
        "rebalances": rebalances,
    }


def test_a_story_with_a_pattern(tmp_path: Path) -> None:
    """The earlier returns are more than five minutes, and less than an hour, before the episode:
    without them the story would not know the client, nor count its returns. Only the cause differs:
    `explain` also looks for the commits of the member that left."""
    write_lake(tmp_path / "lake", _tables())
    explained = Lake(tmp_path / "lake").explain(GROUP)["rebalances"]
    report = report_data(LakeSnapshot(locate(str(tmp_path / "lake"))))
    number = group_names(report).index(GROUP)
    (drawn,) = (one for one in report["timelines"] if one["group"] == number)
    expected = [
        (row["epoch"], row["headline"], [[line["label"], line["text"]] for line in row["lines"]])
        for row in explained
    ]
    found = [(one["epoch"], one["headline"], one["lines"]) for one in drawn["stories"]]
    assert [epoch for epoch, *_ in found] == [45, 46]
    assert _without_causes(found[0]) == _without_causes(expected[0])
    assert found[1] == expected[1]
    (then,) = (text for label, text in found[0][2] if label == "then")
    assert then.endswith("(epoch 46): the third time in an hour: restart loop")


def _without_causes(story: tuple[int, str, list[list[str]]]) -> tuple[int, str, list[list[str]]]:
    epoch, headline, lines = story
    return epoch, headline, [line for line in lines if line[0] != "cause"]


def test_a_static_member_that_closed(tmp_path: Path) -> None:
    """This needs no commits, so the report says it as `explain` does."""
    rows = {"member_id": "app-0", "instance_id": "app"}
    members = [
        member("app", -3000, -45, (2, 90), **rows),
        member("app", -45, 0, (90, 101), **rows, member_epoch=-2),
    ]
    groups = [group(40, -3000, 0, (3, 101)), group(41, 0, None, (101, None))]
    gone = rebalance(41, ["left_or_expired"], 0, 1, 101) | {"likely": "expired"}
    gone |= {"left": ["app-0"], "trigger_members": ["app-0"]}
    tables = {
        "groups": [groups[-1] | {"last_offset": 999, "updated_at": at(1)}],
        "group_history": groups,
        "member_history": members,
        "rebalances": [gone],
    }
    write_lake(tmp_path / "lake", tables)
    (explained,) = Lake(tmp_path / "lake").explain(GROUP)["rebalances"]
    report = report_data(LakeSnapshot(locate(str(tmp_path / "lake"))))
    (drawn,) = report["timelines"]
    (found,) = drawn["stories"]
    assert found["lines"] == [[line["label"], line["text"]] for line in explained["lines"]]
    assert "did not come back within its session timeout" in found["lines"][0][1]


def test_a_share_group_whose_partitions_were_initialized(tmp_path: Path) -> None:
    """The metadata hash stays the same, so no topic has changed."""
    groups = [
        group(2, -5, 0, (90, 101), type="share", metadata_hash=7),
        group(3, 0, None, (101, None), type="share", metadata_hash=7),
    ]
    tables = {
        "groups": [groups[-1] | {"last_offset": 999, "updated_at": at(1)}],
        "group_history": groups,
        "member_history": [member("worker", -5, None, (91, None))],
        "assignment_history": [part("worker", 0, "target", 0.01, None, (103, None))],
        "rebalances": [rebalance(3, ["topics_changed"], 0, 1, 101, type="share")],
    }
    write_lake(tmp_path / "lake", tables)
    (explained,) = Lake(tmp_path / "lake").explain(GROUP)["rebalances"]
    (drawn,) = report_data(LakeSnapshot(locate(str(tmp_path / "lake"))))["timelines"]
    (found,) = drawn["stories"]
    assert found["lines"] == [[line["label"], line["text"]] for line in explained["lines"]]
    assert "was initialized" in found["lines"][0][1]
