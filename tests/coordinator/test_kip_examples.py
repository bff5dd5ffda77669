"""The KIP's worked examples, step by step ("Case Studies" of KIP-848).

The KIP shows group, target and members after each step; so do these. Where the KIP takes the
target as given ("the coordinator computes and installs"), the example's own target is installed,
so that the steps read as on the page. The KIP separates computing a target from the heartbeat
that follows; a coordinator does both in one heartbeat.
"""

from __future__ import annotations

import pytest

from kip848_spark.coordinator import Coordinator
from kip848_spark.coordinator.consumer_protocol import (
    ClassicAssignment,
    Subscription,
    write_assignment,
    write_subscription,
)
from tests.coordinator.kip_notation import FOO, Page, encoded


@pytest.mark.parametrize("release", ["kip", "4.0", "4.1", "4.2", "4.3"])
def test_three_members_join_one_after_the_other(release: str) -> None:
    """A, B and C join a group subscribed to foo, which has three partitions."""
    page = Page(release, partitions=3)
    first = page.coordinator.release.first_epoch  # 4.3 starts one later than the KIP's page

    page.target(A=[0, 1, 2])
    page.joins("A")
    page.shows(group=first + 1, target={"A": [0, 1, 2]}, members={"A": (first + 1, [0, 1, 2], [])})

    page.target(A=[0, 1], B=[2])
    page.joins("B")
    page.shows(
        group=first + 2,
        target={"A": [0, 1], "B": [2]},
        members={"A": (first + 1, [0, 1, 2], []), "B": (first + 2, [], [])},
    )
    assert page.heartbeats("A") == [0, 1]  # told to revoke foo-2
    page.shows(members={"A": (first + 1, [0, 1], [2]), "B": (first + 2, [], [])})
    page.acknowledges("A")  # released: A is at its target's epoch
    page.shows(members={"A": (first + 2, [0, 1], []), "B": (first + 2, [], [])})
    assert page.heartbeats("B") == [2]

    page.target(A=[0], B=[2], C=[1])
    page.joins("C")
    page.heartbeats("B")  # nothing to revoke: straight to the new epoch
    page.shows(
        group=first + 3,
        members={
            "A": (first + 2, [0, 1], []),
            "B": (first + 3, [2], []),
            "C": (first + 3, [], []),
        },
    )
    assert page.heartbeats("A") == [0]
    page.acknowledges("A")
    assert page.heartbeats("C") == [1]
    page.shows(
        group=first + 3,
        target={"A": [0], "B": [2], "C": [1]},
        members={
            "A": (first + 3, [0], []),
            "B": (first + 3, [2], []),
            "C": (first + 3, [1], []),
        },
    )


def two_members_at_21() -> Page:
    page = Page("kip", partitions=6)
    page.loads(21, A=[0, 1, 2], B=[3, 4, 5])
    return page


def three_members_at_22() -> Page:
    page = Page("kip", partitions=6)
    page.loads(22, A=[0, 1], B=[3, 4], C=[2, 5])
    return page


def test_c_joins_a_and_b_at_epoch_21() -> None:
    page = two_members_at_21()
    page.target(A=[0, 1], B=[3, 4], C=[2, 5])
    page.joins("C")
    page.shows(
        group=22,
        target={"A": [0, 1], "B": [3, 4], "C": [2, 5]},
        members={"A": (21, [0, 1, 2], []), "B": (21, [3, 4, 5], []), "C": (22, [], [])},
    )
    assert page.heartbeats("A") == [0, 1]
    assert page.heartbeats("B") == [3, 4]
    assert page.heartbeats("C") is None  # no changes for it
    page.acknowledges("A")  # foo-2 is free now
    assert page.heartbeats("C") == [2]  # but foo-5 is not
    page.shows(members={"A": (22, [0, 1], []), "B": (21, [3, 4], [5]), "C": (22, [2], [])})
    page.acknowledges("B")
    assert page.heartbeats("C") == [2, 5]
    page.shows(members={"A": (22, [0, 1], []), "B": (22, [3, 4], []), "C": (22, [2, 5], [])})


def test_a_member_fails_at_22() -> None:
    page = three_members_at_22()
    page.now += 40_000
    page.heartbeats("B")
    page.heartbeats("C")
    page.now += 10_000  # A's session is over
    page.coordinator.run_until(page.now)
    page.shows(group=23, members={"B": (22, [3, 4], []), "C": (22, [2, 5], [])})
    page.target(B=[3, 4, 0], C=[2, 5, 1])
    assert page.heartbeats("B") == [0, 3, 4]
    assert page.heartbeats("C") == [1, 2, 5]
    page.shows(
        group=23,
        target={"B": [0, 3, 4], "C": [1, 2, 5]},
        members={"B": (23, [0, 3, 4], []), "C": (23, [1, 2, 5], [])},
    )


def test_a_partition_is_added_at_22() -> None:
    page = Page("kip", partitions=1)
    page.loads(22, A=[0], B=[])
    page.grows(2)
    page.target(A=[0], B=[1])
    assert page.heartbeats("A") is None
    page.shows(
        group=23,
        target={"A": [0], "B": [1]},
        members={"A": (23, [0], []), "B": (22, [], [])},
    )
    assert page.heartbeats("B") == [1]
    page.shows(members={"A": (23, [0], []), "B": (23, [1], [])})


def test_online_migration_at_22() -> None:
    """A classic group at generation 22; A and B come back with the new protocol."""
    page = Page("kip", partitions=6)
    page.loads_classic(22, A=[0, 1], B=[3, 4], C=[2, 5])

    page.target(A=[0, 1], B=[3, 4], C=[2, 5])
    page.joins("A")  # converted: the generation is the epoch, and nothing moved
    page.shows(
        target={"A": [0, 1], "B": [3, 4], "C": [2, 5]},
        members={"A": (22, [0, 1], []), "B": (22, [3, 4], []), "C": (22, [2, 5], [])},
    )
    assert page.classic_heartbeat("C", 22) == "NONE"

    page.target(A=[0, 1, 3], C=[2, 5, 4])
    page.leaves_classic("B")
    page.shows(group=23, members={"A": (22, [0, 1], []), "C": (22, [2, 5], [])})
    assert page.heartbeats("A") == [0, 1, 3]
    assert page.classic_heartbeat("C", 22) == "REBALANCE_IN_PROGRESS"
    assert page.classic_join("C", owned=[]) == 23  # eager: it gave up everything
    assert page.classic_sync("C", 23) == [2, 4, 5]
    page.shows(group=23, members={"A": (23, [0, 1, 3], []), "C": (23, [2, 4, 5], [])})

    page.target(A=[0, 1], B=[3, 4], C=[2, 5])
    page.joins("B")
    page.shows(group=24, members={"B": (24, [], [])})
    assert page.heartbeats("A") == [0, 1]  # told to revoke foo-3
    assert page.classic_heartbeat("C", 23) == "REBALANCE_IN_PROGRESS"
    assert page.classic_join("C", owned=[]) == 24  # foo-4 is released
    assert page.heartbeats("B") == [4]
    assert page.classic_sync("C", 24) == [2, 5]
    page.acknowledges("A")
    assert page.heartbeats("B") == [3, 4]
    page.shows(
        group=24,
        target={"A": [0, 1], "B": [3, 4], "C": [2, 5]},
        members={"A": (24, [0, 1], []), "B": (24, [3, 4], []), "C": (24, [2, 5], [])},
    )


def test_the_drafts_data_model() -> None:
    """Group, target and current assignment are three things with an epoch each (the draft)."""
    page = Page("kip", partitions=4)
    page.target(A=[0, 1, 2, 3])
    page.joins("A")
    page.target(A=[0, 1], B=[2, 3])
    page.joins("B")
    group = page.group
    assert (group.epoch, group.target_epoch) == (2, 2)
    assert {m.member_id: m.epoch for m in group.members.values()} == {"A": 1, "B": 2}
    assert group.state == "Reconciling"
    page.heartbeats("A")
    page.acknowledges("A")
    page.heartbeats("B")
    assert group.state == "Stable"


def test_subscription_and_assignment_survive_the_wire() -> None:
    """What a classic member says and is told, as bytes."""
    coordinator = Coordinator("kip")
    assert coordinator.metrics()["group-count[protocol=consumer]"] == 0
    subscription = Subscription(3, ("foo",), None, (("foo", (0, 1)),), 5, "rack")
    assert encoded(write_subscription(subscription))
    assert encoded(write_assignment(ClassicAssignment(1, (("foo", (1,)),))))
    assert FOO
