"""The sentence that counts the causes of many rebalances."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.command import Command
from tests.insight.story_rows import GROUP, group, rebalance
from tests.lake.billing_lake import current
from tests.lake.written_lake import write_lake

MANY = {
    "member_joined": 7,
    "left_or_expired": 6,
    "rejoined": 5,
    "upgraded": 4,
    "topics_changed": 3,
    "assignor_changed": 2,
    "unknown": 1,
}


def write_lake_of(path: Path, counts: dict[str, int]) -> tuple[str, str]:
    """A lake of a group that rebalanced so often for each cause, as an option."""
    causes = [cause for cause, number in counts.items() for _ in range(number)]
    rows = [
        rebalance(epoch, [cause], 10.0 * epoch, 10.0 * epoch + 1, 10 * epoch)
        for epoch, cause in enumerate(causes, start=1)
    ]
    history = [group(len(rows), 0, None, (1, None))]
    write_lake(path, {"rebalances": rows, "groups": current(history), "group_history": history})
    return ("--lake", str(path))


@pytest.mark.parametrize("arguments", [(), ("--top", "3")])
def test_causes_without_a_name_are_counted_in_rebalances(
    kip848: Command, tmp_path: Path, arguments: tuple[str, ...]
) -> None:
    found = kip848("rebalances", *arguments, *write_lake_of(tmp_path / "lake", MANY))
    assert (
        "28 rebalances of 1 group: 7 member_joined, 6 left_or_expired, 5 rejoined, 4 upgraded "
        "and 6 of 3 other causes;"
    ) in " ".join(found.out.split())


def test_a_single_further_cause_is_named(kip848: Command, tmp_path: Path) -> None:
    five = dict(list(MANY.items())[:5])
    found = kip848("rebalances", *write_lake_of(tmp_path / "lake", five))
    assert "4 upgraded and 3 topics_changed;" in " ".join(found.out.split())


def test_explain_counts_them_too(kip848: Command, tmp_path: Path) -> None:
    at = write_lake_of(tmp_path / "lake", MANY)
    found = kip848("explain", GROUP, "--since", "2026-11-01", *at)
    text = " ".join(found.out.split())
    assert "28 rebalances of orders-billing" in text
    assert " and 6 of 3 other causes" in text
