"""The Python counterpart of ``java/OneTakesAll.java``, and classes that are no assignors."""

from __future__ import annotations

from kip848_spark.coordinator.assignors import GroupSpec

_Shares = dict[str, dict[str, list[int]]]


class OneTakesAll:
    """Gives every partition to the first member that subscribes to its topic."""

    name = "one-takes-all"

    def assign(self, group: GroupSpec) -> _Shares:
        shares: _Shares = {}
        taken: set[str] = set()
        for member_id in sorted(group.members):
            wanted = set(group.members[member_id].subscribed_topic_ids) - taken
            taken |= wanted
            shares[member_id] = {
                topic_id: list(range(group.topics[topic_id].partitions)) for topic_id in wanted
            }
        return shares


class Uniform(OneTakesAll):
    name = "uniform"


class NotAnAssignor:
    name = "nothing"


class Needs(OneTakesAll):
    def __init__(self, rack: str) -> None:
        self.rack = rack


class Failing(OneTakesAll):
    name = "failing"

    def assign(self, group: GroupSpec) -> _Shares:
        raise ValueError("no rack")
