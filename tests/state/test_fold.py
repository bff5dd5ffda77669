"""The fold, compared with the rules of the coordinator's replay one by one, and with a plain
dictionary that is updated record by record."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kip848_spark.state import fold as fold_module
from kip848_spark.state.fold import Fold, OutOfOrderError

CLASSIC = "group_metadata"
COMMIT = "offset_commit"
GROUP = "consumer_group_metadata"
MEMBER = "consumer_group_member_metadata"
EPOCH = "consumer_group_target_assignment_metadata"
TARGET = "consumer_group_target_assignment_member"
CURRENT = "consumer_group_current_member_assignment"
REGEX = "consumer_group_regular_expression"
OF_MEMBERS = (MEMBER, TARGET, CURRENT)


@dataclass(frozen=True)
class Record:
    kind: str
    group: str = "g"
    member: str | None = None
    regex: str | None = None
    dead: bool = False


def table(records: list[Record], first: int = 0) -> pa.Table:
    return pa.table(
        {
            "offset": pa.array(range(first, first + len(records)), pa.int64()),
            "kind": pa.array([r.kind for r in records], pa.string()),
            "group_id": pa.array([r.group for r in records], pa.string()),
            "member_id": pa.array([r.member for r in records], pa.string()),
            "regular_expression": pa.array([r.regex for r in records], pa.string()),
            "tombstone": pa.array([r.dead for r in records], pa.bool_()),
        }
    )


def folded(records: list[Record]) -> list[int]:
    fold = Fold()
    fold.add(table(records))
    carried = fold.carried()
    return [] if carried is None else carried["offset"].to_pylist()


def plain(records: list[Record]) -> list[int]:
    """The same result, record by record: group -> key -> (offset, tombstone)."""
    groups: dict[str, dict[Any, tuple[int, bool]]] = {}
    for offset, r in enumerate(records):
        group = groups.setdefault(r.group, {})
        if r.kind == CLASSIC or (r.kind == GROUP and r.dead):
            group.clear()
            if r.dead:
                continue
        if r.kind == MEMBER and r.dead:
            group.pop((MEMBER, r.member, None), None)
            group.pop((CURRENT, r.member, None), None)
        elif r.dead:
            group.pop((r.kind, r.member, r.regex), None)
        else:
            group[r.kind, r.member, r.regex] = (offset, r.dead)
    left = [offset for group in groups.values() for offset, _ in group.values()]
    return sorted(left)


records = st.lists(
    st.one_of(
        st.builds(
            Record,
            st.sampled_from((CLASSIC, GROUP, EPOCH)),
            st.sampled_from("gh"),
            dead=st.booleans(),
        ),
        st.builds(Record, st.just(COMMIT), st.sampled_from("gh")),
        st.builds(
            Record,
            st.sampled_from(OF_MEMBERS),
            st.sampled_from("gh"),
            st.sampled_from("ab"),
            dead=st.booleans(),
        ),
        st.builds(
            Record,
            st.just(REGEX),
            st.sampled_from("gh"),
            regex=st.sampled_from(("^x", "^y")),
            dead=st.booleans(),
        ),
    ),
    max_size=40,
)


@settings(deadline=None)
@given(records)
def test_the_fold_equals_a_plain_replay(some: list[Record]) -> None:
    assert folded(some) == plain(some)


@settings(deadline=None)
@given(records, st.lists(st.integers(0, 40), max_size=4))
def test_folding_in_steps_equals_folding_at_once(some: list[Record], cuts: list[int]) -> None:
    complete = table(some)
    fold = Fold()
    bounds = sorted({0, *(min(cut, len(some)) for cut in cuts), len(some)})
    for start, end in itertools.pairwise(bounds):
        # Each part is folded onto the control state of the one before, as runs do.
        carried = fold.carried()
        fold = Fold()
        if carried is not None:
            fold.add(carried)
        fold.add(complete.slice(start, end - start))
    carried = fold.carried()
    assert ([] if carried is None else carried["offset"].to_pylist()) == plain(some)


def test_new_rows_are_folded_when_the_buffer_is_full(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fold_module, "MIN_BUFFER", 3)
    fold = Fold()
    some = [Record(MEMBER, "g", "a"), Record(CURRENT, "g", "a")] * 5
    for start in range(0, 10, 2):
        fold.add(table(some[start : start + 2], start))
    carried = fold.carried()
    assert carried is not None
    assert carried["offset"].to_pylist() == [8, 9]


def test_few_large_records_do_not_wait_for_a_full_buffer() -> None:
    """Otherwise a night of a large classic group needs all of its memory at once."""
    some = [Record(CLASSIC, "g" * 1_000_000)] * 100
    fold = Fold()
    waiting, chunks = 0, []
    for offset, record in enumerate(some):
        waiting += 1
        if (chunk := fold.add(table([record], offset))) is not None:
            chunks.append(waiting)
            assert chunk.rows.num_rows == waiting
            waiting = 0
    assert chunks == [68]
    assert (last := fold.settle()) is not None
    assert (last.first, last.rows.num_rows) == (1, 32)
    carried = fold.carried()
    assert carried is not None
    assert carried["offset"].to_pylist() == [99]


def test_offsets_must_ascend() -> None:
    fold = Fold()
    fold.add(table([Record(MEMBER, "g", "a")], 5))
    with pytest.raises(OutOfOrderError, match="offset 5 came after offset 5"):
        fold.add(table([Record(MEMBER, "g", "a")], 5))


@pytest.mark.parametrize(
    ("some", "left"),
    [
        pytest.param(
            [Record(CLASSIC), Record(MEMBER, "g", "a"), Record(CLASSIC)], [2], id="classic-replaces"
        ),
        pytest.param(
            [Record(GROUP), Record(MEMBER, "g", "a"), Record(CLASSIC, dead=True)],
            [],
            id="classic-tombstone-removes-any-type",
        ),
        pytest.param(
            [Record(CLASSIC), Record(CLASSIC, dead=True), Record(MEMBER, "g", "a"), Record(GROUP)],
            [2, 3],
            id="online-upgrade",
        ),
        pytest.param(
            [
                Record(MEMBER, "g", "a"),
                Record(CURRENT, "g", "a"),
                Record(MEMBER, "g", "a", dead=True),
                Record(GROUP),
            ],
            [3],
            id="a-member-takes-its-assignment-along",
        ),
        pytest.param(
            [Record(MEMBER, "g", "a"), Record(CURRENT, "g", "a", dead=True)],
            [0],
            id="a-member-stays-without-its-assignment",
        ),
        pytest.param([Record(EPOCH, dead=True)], [], id="tombstone-of-a-missing-group"),
        pytest.param(
            [Record(COMMIT), Record(CLASSIC, dead=True)], [], id="a-simple-group-is-deleted"
        ),
        pytest.param(
            [Record(CLASSIC, dead=True), Record(COMMIT)], [1], id="a-commit-makes-a-group"
        ),
    ],
)
def test_rules(some: list[Record], left: list[int]) -> None:
    assert folded(some) == left
