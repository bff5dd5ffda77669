"""The KIP's worked examples, step by step ("Case Studies" of KIP-848).

The KIP shows group, target and members after each step, and so do these tests. Where the KIP takes
the target as given ("the coordinator computes and installs"), the example's target is installed, so
that the steps equal the KIP's. The KIP separates the computation of a target from the heartbeat
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
from tests.coordinator.kip_notation import FOO, KipExample, to_base64


@pytest.mark.parametrize("release", ["kip", "4.0", "4.1", "4.2", "4.3"])
def test_three_members_join_one_after_the_other(release: str) -> None:
    """A, B and C join a group subscribed to foo, which has three partitions."""
    example = KipExample(release, partitions=3)
    first = example.coordinator.release.first_epoch  # 4.3 starts one later than the KIP's example

    example.target(A=[0, 1, 2])
    example.joins("A")
    example.shows(
        group=first + 1, target={"A": [0, 1, 2]}, members={"A": (first + 1, [0, 1, 2], [])}
    )

    example.target(A=[0, 1], B=[2])
    example.joins("B")
    example.shows(
        group=first + 2,
        target={"A": [0, 1], "B": [2]},
        members={"A": (first + 1, [0, 1, 2], []), "B": (first + 2, [], [])},
    )
    assert example.heartbeats("A") == [0, 1]  # told to revoke foo-2
    example.shows(members={"A": (first + 1, [0, 1], [2]), "B": (first + 2, [], [])})
    example.acknowledges("A")  # released: A is at the target epoch
    example.shows(members={"A": (first + 2, [0, 1], []), "B": (first + 2, [], [])})
    assert example.heartbeats("B") == [2]

    example.target(A=[0], B=[2], C=[1])
    example.joins("C")
    example.heartbeats("B")  # nothing to revoke: it moves to the new epoch
    example.shows(
        group=first + 3,
        members={
            "A": (first + 2, [0, 1], []),
            "B": (first + 3, [2], []),
            "C": (first + 3, [], []),
        },
    )
    assert example.heartbeats("A") == [0]
    example.acknowledges("A")
    assert example.heartbeats("C") == [1]
    example.shows(
        group=first + 3,
        target={"A": [0], "B": [2], "C": [1]},
        members={
            "A": (first + 3, [0], []),
            "B": (first + 3, [2], []),
            "C": (first + 3, [1], []),
        },
    )


def two_members_at_21() -> KipExample:
    example = KipExample("kip", partitions=6)
    example.loads(21, A=[0, 1, 2], B=[3, 4, 5])
    return example


def three_members_at_22() -> KipExample:
    example = KipExample("kip", partitions=6)
    example.loads(22, A=[0, 1], B=[3, 4], C=[2, 5])
    return example


def test_third_member_joins_at_epoch_21() -> None:
    example = two_members_at_21()
    example.target(A=[0, 1], B=[3, 4], C=[2, 5])
    example.joins("C")
    example.shows(
        group=22,
        target={"A": [0, 1], "B": [3, 4], "C": [2, 5]},
        members={"A": (21, [0, 1, 2], []), "B": (21, [3, 4, 5], []), "C": (22, [], [])},
    )
    assert example.heartbeats("A") == [0, 1]
    assert example.heartbeats("B") == [3, 4]
    assert example.heartbeats("C") is None  # no changes for it
    example.acknowledges("A")  # foo-2 is free now
    assert example.heartbeats("C") == [2]  # but foo-5 is not
    example.shows(members={"A": (22, [0, 1], []), "B": (21, [3, 4], [5]), "C": (22, [2], [])})
    example.acknowledges("B")
    assert example.heartbeats("C") == [2, 5]
    example.shows(members={"A": (22, [0, 1], []), "B": (22, [3, 4], []), "C": (22, [2, 5], [])})


def test_member_fails_at_epoch_22() -> None:
    example = three_members_at_22()
    example.now += 40_000
    example.heartbeats("B")
    example.heartbeats("C")
    example.now += 10_000  # A's session has ended
    example.coordinator.run_until(example.now)
    example.shows(group=23, members={"B": (22, [3, 4], []), "C": (22, [2, 5], [])})
    example.target(B=[3, 4, 0], C=[2, 5, 1])
    assert example.heartbeats("B") == [0, 3, 4]
    assert example.heartbeats("C") == [1, 2, 5]
    example.shows(
        group=23,
        target={"B": [0, 3, 4], "C": [1, 2, 5]},
        members={"B": (23, [0, 3, 4], []), "C": (23, [1, 2, 5], [])},
    )


def test_partition_is_added_at_epoch_22() -> None:
    example = KipExample("kip", partitions=1)
    example.loads(22, A=[0], B=[])
    example.grows(2)
    example.target(A=[0], B=[1])
    assert example.heartbeats("A") is None
    example.shows(
        group=23,
        target={"A": [0], "B": [1]},
        members={"A": (23, [0], []), "B": (22, [], [])},
    )
    assert example.heartbeats("B") == [1]
    example.shows(members={"A": (23, [0], []), "B": (23, [1], [])})


def test_online_migration_at_epoch_22() -> None:
    """A classic group at generation 22; A and B return with the new protocol."""
    example = KipExample("kip", partitions=6)
    example.loads_classic(22, A=[0, 1], B=[3, 4], C=[2, 5])

    example.target(A=[0, 1], B=[3, 4], C=[2, 5])
    example.joins("A")  # converted: the generation is the epoch, and no partition moved
    example.shows(
        target={"A": [0, 1], "B": [3, 4], "C": [2, 5]},
        members={"A": (22, [0, 1], []), "B": (22, [3, 4], []), "C": (22, [2, 5], [])},
    )
    assert example.classic_heartbeat("C", 22) == "NONE"

    example.target(A=[0, 1, 3], C=[2, 5, 4])
    example.leaves_classic("B")
    example.shows(group=23, members={"A": (22, [0, 1], []), "C": (22, [2, 5], [])})
    assert example.heartbeats("A") == [0, 1, 3]
    assert example.classic_heartbeat("C", 22) == "REBALANCE_IN_PROGRESS"
    assert example.classic_join("C", owned=[]) == 23  # eager: it revoked all partitions
    assert example.classic_sync("C", 23) == [2, 4, 5]
    example.shows(group=23, members={"A": (23, [0, 1, 3], []), "C": (23, [2, 4, 5], [])})

    example.target(A=[0, 1], B=[3, 4], C=[2, 5])
    example.joins("B")
    example.shows(group=24, members={"B": (24, [], [])})
    assert example.heartbeats("A") == [0, 1]  # told to revoke foo-3
    assert example.classic_heartbeat("C", 23) == "REBALANCE_IN_PROGRESS"
    assert example.classic_join("C", owned=[]) == 24  # foo-4 is released
    assert example.heartbeats("B") == [4]
    assert example.classic_sync("C", 24) == [2, 5]
    example.acknowledges("A")
    assert example.heartbeats("B") == [3, 4]
    example.shows(
        group=24,
        target={"A": [0, 1], "B": [3, 4], "C": [2, 5]},
        members={"A": (24, [0, 1], []), "B": (24, [3, 4], []), "C": (24, [2, 5], [])},
    )


def test_data_model_of_the_kip() -> None:
    """Group, target assignment and current assignment each have an epoch (KIP draft)."""
    example = KipExample("kip", partitions=4)
    example.target(A=[0, 1, 2, 3])
    example.joins("A")
    example.target(A=[0, 1], B=[2, 3])
    example.joins("B")
    group = example.group
    assert (group.epoch, group.target_epoch) == (2, 2)
    assert {m.member_id: m.epoch for m in group.members.values()} == {"A": 1, "B": 2}
    assert group.state == "Reconciling"
    example.heartbeats("A")
    example.acknowledges("A")
    example.heartbeats("B")
    assert group.state == "Stable"


def test_subscription_and_assignment_round_trip() -> None:
    """Subscription and assignment of a classic member, encoded and decoded."""
    coordinator = Coordinator("kip")
    assert coordinator.metrics()["group-count[protocol=consumer]"] == 0
    subscription = Subscription(3, ("foo",), None, (("foo", (0, 1)),), 5, "rack")
    assert to_base64(write_subscription(subscription))
    assert to_base64(write_assignment(ClassicAssignment(1, (("foo", (1,)),))))
    assert FOO
