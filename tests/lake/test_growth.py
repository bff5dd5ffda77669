"""How the work of what reads a lake grows with the lake: of twice the rows, twice as many lines of
code are executed, and not four times as many."""

from __future__ import annotations

import sys
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import FrameType

import pyarrow as pa

from kip848_spark.insight.chronicle import owners
from kip848_spark.insight.patterns import find_patterns
from kip848_spark.insight.rebalances import REBALANCE_FIELDS
from kip848_spark.lake.chronicle import partition_chronicles
from kip848_spark.lake.location import locate
from kip848_spark.lake.snapshot import LakeSnapshot
from tests.insight.story_rows import Row, group, member, part
from tests.lake.written_lake import write_lake

MOST = 2.2
NOON = datetime(2026, 11, 20, 12, tzinfo=UTC)


def growth(make: Callable[[int], Callable[[], object]], count: int) -> float:
    """How many times as many lines a function executes for twice as many rows; ``make`` prepares
    it."""
    return executed(make(2 * count)) / executed(make(count))


def executed(run: Callable[[], object]) -> int:
    """The number of lines of Python that ``run`` executes, each turn of a loop counted."""
    lines = 0

    def count(_: FrameType, event: str, __: object) -> Callable[..., object]:
        nonlocal lines
        lines += event == "line"
        return count

    before = sys.gettrace()
    sys.settrace(count)
    try:
        run()
    finally:
        sys.settrace(before)
    return lines


def test_a_partition_with_many_owners() -> None:
    groups = [group(1, 0, None, (0, None))]

    def make(count: int) -> Callable[[], object]:
        rows = [part(f"m{n}", 7, "assigned", n, n + 1, (n, n + 1)) for n in range(count)]
        return lambda: owners(rows, groups)

    assert growth(make, 200) < MOST


def test_a_partition_that_many_groups_have_read(tmp_path: Path) -> None:
    def make(count: int) -> Callable[[], object]:
        histories: dict[str, list[Row]] = {"group": [], "member": [], "assignment": []}
        for n in range(count):
            new = {"group_id": f"ci-{n:05}"}
            life = (n, n + 1, (n, n + 1))
            histories["group"].append(group(1, *life) | new)
            histories["member"].append(member("m", *life) | new)
            histories["assignment"].append(part("m", 7, "assigned", *life) | new)
        path = tmp_path / str(count)
        write_lake(path, {f"{name}_history": rows for name, rows in histories.items()})
        snapshot = LakeSnapshot(locate(str(path)))
        found = partition_chronicles(snapshot, ("orders", 7))
        assert [one.owners[0].member_id for one in found] == ["id-of-m"] * count
        return lambda: partition_chronicles(snapshot, ("orders", 7))

    assert growth(make, 100) < MOST


def test_a_group_whose_members_all_come_back_again_and_again() -> None:
    def make(count: int) -> Callable[[], object]:
        rows: list[Row] = []
        members: list[Row] = []
        everyone = [f"client-{n}" for n in range(count)]
        for start in range(5):
            begin = NOON + timedelta(minutes=10 * start)
            ids = [f"{name}-{start}" for name in everyone]
            for step, changed in enumerate(("joined", "left")):
                rows.append(
                    {
                        "partition": 3, "group_id": "g", "type": "consumer",
                        "started_at": begin + timedelta(minutes=5 * step),
                        "joined": [], "left": [], "members": (1 - step) * count,
                        "episode_id": f"3-{len(rows)}", "from_offset": len(rows),
                    } | {changed: ids}
                )  # fmt: skip
            members += [
                {
                    "group_id": "g", "member_id": id_, "instance_id": None, "client_id": name,
                    "client_host": "", "valid_from": begin,
                    "valid_to": begin + timedelta(minutes=5),
                }
                for id_, name in zip(ids, everyone, strict=True)
            ]  # fmt: skip
        rebalances = pa.Table.from_pylist(rows, schema=pa.schema(list(REBALANCE_FIELDS.items())))
        table = pa.Table.from_pylist(members)
        loops = find_patterns(rebalances, table).to_pylist()
        assert [row["pattern"] for row in loops].count("restart_loop") == count
        return lambda: find_patterns(rebalances, table)

    assert growth(make, 50) < MOST
