"""What happened in a group whose records are missing for some time."""

from __future__ import annotations

from kip848_spark.insight import chronicle
from kip848_spark.insight.chronicle import events, owners
from kip848_spark.insight.ownership import times_without_owner
from tests.insight.story_rows import Row, at, group, member, part


def lost(row: Row) -> Row:
    """A row whose true end was not seen."""
    return row | {"known_to": row["valid_to"]}


def found_again(row: Row) -> Row:
    """A row whose true beginning was not seen."""
    return row | {"known_from": row["valid_from"]}


GROUPS = [
    group(1, 0, 60, (0, 40)),
    lost(group(2, 60, 60, (40, 50))),  # the last record before the missing ones
    found_again(group(5, 100, 100, (90, 91))),
    group(6, 100, None, (91, None)),
]
MEMBERS = [
    member("worker-1", 0, 30, (1, 20)),
    member("worker-2", 0, 60, (2, 40)),
    lost(member("worker-2", 60, 60, (40, 50), member_epoch=2)),
    found_again(member("worker-2", 100, 100, (90, 91), member_epoch=5)),
    member("worker-2", 100, None, (91, None), member_epoch=6),
    found_again(member("worker-3", 100, None, (90, None))),
    member("worker-4", 120, None, (95, None)),
]
PARTITIONS = [
    part("worker-1", 0, "assigned", 0, 30, (1, 20)),
    lost(part("worker-2", 0, "assigned", 30, 60, (20, 50))),
    found_again(part("worker-3", 0, "assigned", 100, None, (90, None))),
]


def test_missing_records_end_the_history_and_not_the_group() -> None:
    kinds = chronicle.KNOWN, chronicle.CREATED, chronicle.DELETED, chronicle.UNKNOWN
    found = events(GROUPS, MEMBERS, PARTITIONS)
    of_group = [(one.kind, one.at, one.offset) for one in found if one.kind in kinds]
    assert of_group == [
        (chronicle.CREATED, at(0), 0),
        (chronicle.UNKNOWN, at(60), 50),
        (chronicle.KNOWN, at(100), 90),
    ]
    assert set(chronicle.EVENTS) >= {one.kind for one in found}


def test_nobody_leaves_or_joins_at_missing_records() -> None:
    found = events(GROUPS, MEMBERS, PARTITIONS)

    def of(kind: str) -> list[tuple[str | None, object]]:
        return [(one.member_id, one.at) for one in found if one.kind == kind]

    assert of(chronicle.GONE) == [("id-of-worker-1", at(30))]
    present = [("id-of-worker-2", at(100)), ("id-of-worker-3", at(100))]
    assert of(chronicle.PRESENT) == present
    joined = [("id-of-worker-1", at(0)), ("id-of-worker-2", at(0)), ("id-of-worker-4", at(120))]
    assert of(chronicle.JOINED) == joined
    assert of(chronicle.GAVE_UP) == [("id-of-worker-1", at(30))]
    assert of(chronicle.GOT) == [("id-of-worker-1", at(0)), ("id-of-worker-2", at(30))]


def test_a_member_may_get_back_what_it_gives_up() -> None:
    rows = [
        part("worker-1", 0, "assigned", 0, 30, (1, 20)),
        part("worker-1", 0, "pending_revocation", 30, 40, (20, 24)),
        part("worker-1", 0, "assigned", 40, None, (24, None)),
    ]
    found = events([group(1, 0, None, (0, None))], [], rows)
    of_member = [(one.kind, one.at) for one in found if one.member_id]
    assert of_member == [
        (chronicle.GOT, at(0)),
        (chronicle.MUST_GIVE_UP, at(30)),
        (chronicle.GOT, at(40)),
    ]


def test_a_member_joins_before_it_gets_partitions() -> None:
    """As the records of a static member that replaces another one show it."""
    old = member("worker-1", 0, 30, (1, 21))
    new = member("worker-1", 30, None, (24, None), member_id="id-after-the-restart")
    rows = [
        part("worker-1", 0, "assigned", 0, 30, (1, 20)),
        part("worker-1", 0, "assigned", 30, None, (23, None)) | {"member_id": new["member_id"]},
    ]
    found = events([group(1, 0, None, (0, None))], [old, new], rows)
    assert [(one.kind, one.offset) for one in found if one.member_id and one.at == at(30)] == [
        (chronicle.GAVE_UP, 20),
        (chronicle.GONE, 21),
        (chronicle.JOINED, 24),
        (chronicle.GOT, 23),
    ]


def test_a_group_that_ends_without_missing_records_was_deleted() -> None:
    (created, deleted) = events([group(1, 0, 60, (0, 40))], [], [])
    assert (created.kind, deleted.kind) == (chronicle.CREATED, chronicle.DELETED)


def owned(rows: list[Row], groups: list[Row]) -> list[tuple[str, object, object]]:
    return [
        (one.member_id or ("nobody" if one.known else "not known"), one.start, one.end)
        for one in owners(rows, groups)
    ]


def test_nobody_is_said_to_own_a_partition_only_where_that_is_known() -> None:
    assert owned(PARTITIONS, GROUPS) == [
        ("id-of-worker-1", at(0), at(30)),
        ("id-of-worker-2", at(30), at(60)),
        ("not known", at(60), at(100)),
        ("id-of-worker-3", at(100), None),
    ]
    assert owned(PARTITIONS[:1], GROUPS[:1]) == [
        ("id-of-worker-1", at(0), at(30)),
        ("nobody", at(30), None),
    ]


def test_missing_records_end_the_time_in_which_nobody_owned_a_partition() -> None:
    nobody = ("nobody", at(30), at(60))
    unknown = ("not known", at(60), at(100))
    assert owned(PARTITIONS[:1], GROUPS)[1:] == [nobody, unknown, ("nobody", at(100), None)]
    assert owned(PARTITIONS[::2], GROUPS)[1:3] == [nobody, unknown]
    ended = GROUPS[:2]
    assert owned(PARTITIONS[:1], ended)[1:] == [nobody, ("not known", at(60), None)]


def test_a_partition_may_get_its_owner_with_the_last_record() -> None:
    """Then nobody is said to own it after that, though its last owner had it for no time."""
    groups = [group(1, 0, 30, (0, 20)), lost(group(2, 30, 30, (20, 22)))]
    last = lost(part("worker-2", 0, "assigned", 30, 30, (20, 22)))
    assert owned([PARTITIONS[0], last], groups) == [
        ("id-of-worker-1", at(0), at(30)),
        ("not known", at(30), None),
    ]


def test_the_time_of_missing_records_is_not_one_without_an_owner() -> None:
    later = [part("worker-3", 0, "assigned", 100, 200, (90, 120)) | {"known_from": at(100)}]
    rows = [*PARTITIONS[:2], *later, part("worker-2", 0, "assigned", 230, None, (130, None))]
    for groups in (GROUPS, GROUPS[:1]):  # all rows of the group, and those of the beginning
        found = [(one.start, one.end) for one in times_without_owner(rows, groups, at(0), None)]
        assert found == [(at(200), at(230))]


def test_a_partition_given_up_before_the_missing_records_may_have_an_owner_after_them() -> None:
    given_up = PARTITIONS[:1]
    assert times_without_owner(given_up, GROUPS, at(0), None) == []
    (before,) = times_without_owner(given_up, GROUPS, at(0), at(50))
    assert (before.start, before.end) == (at(30), at(50))


def test_rows_of_an_earlier_version_have_no_such_column() -> None:
    rows = [{k: v for k, v in row.items() if k != "known_to"} for row in GROUPS]
    assert chronicle.DELETED in {one.kind for one in events(rows, [], [])}


AWAY = [
    member("worker-1", 0, 10, (1, 20)),
    member("worker-1", 10, 30, (20, 31), member_epoch=-2),
    member("worker-1", 30, 30, (31, 32), member_epoch=0),
]


def test_a_static_member_is_away_until_it_returns_or_its_session_expires() -> None:
    found = events([group(1, 0, None, (0, None))], AWAY, [])
    of_member = [(one.kind, one.at, one.offset) for one in found if one.member_id]
    assert of_member == [
        (chronicle.JOINED, at(0), 1),
        (chronicle.AWAY, at(10), 20),
        (chronicle.GONE, at(30), 31),
    ]
    back = [*AWAY[:2], member("worker-1", 30, None, (31, None), member_epoch=5)]
    assert [one.kind for one in events([], back, [])][-2:] == [chronicle.AWAY, chronicle.RETURNED]
    late = events([], AWAY, [], since=at(20))
    assert [(one.kind, one.at) for one in late] == [
        (chronicle.PRESENT, at(20)),
        (chronicle.AWAY, at(20)),
        (chronicle.GONE, at(30)),
    ]


def test_an_owner_may_be_away() -> None:
    rows = [
        part("worker-1", 0, "assigned", 5, 30, (2, 32)),
        part("worker-2", 0, "assigned", 40, None, (40, None)),
    ]
    groups = [group(1, 0, None, (0, None))]
    found = [(one.member_id, one.away, one.start, one.end) for one in owners(rows, groups, AWAY)]
    assert found == [
        ("id-of-worker-1", False, at(5), at(10)),
        ("id-of-worker-1", True, at(10), at(30)),
        (None, False, at(30), at(40)),
        ("id-of-worker-2", False, at(40), None),
    ]
    back = [*AWAY[:2], member("worker-1", 30, None, (31, None))]
    kept = owners([part("worker-1", 0, "assigned", 5, None, (2, None))], groups, back)
    assert [(one.away, one.end) for one in kept] == [(False, at(10)), (True, at(30)), (False, None)]


def test_the_order_of_rows_does_not_matter() -> None:
    """One record of a classic group gives partitions to several members."""
    rows = [part(name, n, "assigned", 0, None, (4, None)) for n, name in enumerate("abab")]
    expected = [(chronicle.GOT, "id-of-a", 2), (chronicle.GOT, "id-of-b", 2)]
    for order in (rows, rows[::-1], sorted(rows, key=lambda row: str(row["member_id"]))):
        found = events([], [], order)
        assert [(one.kind, one.member_id, len(one.partitions)) for one in found] == expected
