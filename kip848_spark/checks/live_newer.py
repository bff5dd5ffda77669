"""Check `live` for share and streams groups: epochs, members, and what the members work on.

The broker describes no target of share groups. The tasks and the topology of streams groups are in
no state table; they are read from the control records (`kip848_spark.state.streams_tasks`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any

from kip848_spark.kafka.snapshot import LiveEpochs, LiveGroup, LiveMember, LiveTasks

NEWER_TYPES = ("share", "streams")
"""The types of group that this module compares."""

NOT_READY = "NotReady"
"""The state of a streams group whose topics the broker misses, or has not looked for yet."""
NO_RECORD_OF_READINESS = "a streams group that is not ready, which no record says"
DELETED = "a partition of a topic that does not exist"

_UNRECORDED = (0, 1)
"""The epochs that a group may have before a record names one; it depends on the release."""
_ROLES = {"active": "active", "standby": "standby", "warmup": "warm-up"}

Say = Callable[[str, Any, Any, str | None], None]
"""Compares one thing: its name, the lake's value, the cluster's value, the member."""
LakeRow = Mapping[str, Any]
"""A row of a state table, by column."""


def compare_epochs(ours: LakeRow, epochs: LiveEpochs, say: Say) -> None:
    """Compares the epochs of a group, a row of `groups`, with those that the cluster names."""
    for what, column, theirs in (
        ("group epoch", "epoch", epochs.group),
        ("assignment epoch", "target_epoch", epochs.assignment),
    ):
        own = ours[column]
        unrecorded = own in _UNRECORDED and theirs in _UNRECORDED
        say(what, theirs if unrecorded else own, theirs, None)


class NewerComparison:
    """The comparison of a share or streams group. ``ours`` is the row of `groups`, ``theirs`` what
    the cluster says. ``say`` receives each pair of values; ``compared`` and ``not_compared`` count
    as in `LiveComparison`."""

    def __init__(
        self,
        ours: LakeRow,
        theirs: LiveGroup,
        say: Say,
        compared: Counter[str],
        not_compared: Counter[str],
    ) -> None:
        self.ours = ours
        self.theirs = theirs
        self.say = say
        self.compared = compared
        self.not_compared = not_compared

    def compare_group(self, topology: int | None) -> None:
        """Compares state and epochs. ``topology`` is the epoch of a streams group's topology in the
        lake, if it has one."""
        if self.theirs.state == NOT_READY and self.ours["state"] != "Empty":
            self.not_compared[NO_RECORD_OF_READINESS] += 1
        else:
            self.say("state", self.ours["state"], self.theirs.state, None)
        epochs = self.theirs.epochs or LiveEpochs(0, 0)
        compare_epochs(self.ours, epochs, self.say)
        if epochs.topology is not None:
            self.say("topology epoch", topology, epochs.topology, None)

    def compare_members(
        self,
        members: Iterable[LakeRow],
        assignments: Iterable[LakeRow],
        tasks: Iterable[LakeRow],
        topics: Collection[str],
    ) -> None:
        """Compares the members with their partitions or tasks. ``topics`` are those of the cluster:
        it does not list the partitions of others."""
        ours = {row["member_id"]: row for row in members}
        live = {member.member_id: member for member in self.theirs.members}
        partitions = _by_member(assignments)
        tasks_of = _by_member(tasks)
        self.say("members", sorted(ours), sorted(live), None)
        for member_id in sorted(ours.keys() & live.keys()):
            self.compared["members"] += 1
            row, member = ours[member_id], live[member_id]
            for column in ("instance_id", "client_id", "client_host"):
                self._say(column, row[column], getattr(member, column), member_id)
            # A member without a record of its assignment has only just joined.
            self._say("member epoch", row["member_epoch"] or 0, member.epoch, member_id)
            if member.tasks is None:
                self._compare_partitions(member, partitions.get(member_id, []), topics)
            else:
                own = tasks_of.get(member_id, [])
                self._compare_tasks(member_id, "", own, member.tasks)
                self._compare_tasks(member_id, "target ", own, member.target_tasks or LiveTasks())

    def _compare_partitions(
        self, member: LiveMember, rows: Iterable[LakeRow], topics: Collection[str]
    ) -> None:
        assigned = [row for row in rows if row["role"] == "assigned"]
        own = [(r["topic"], r["topic_partition"]) for r in assigned if r["topic"] in topics]
        if missing := len(assigned) - len(own):
            self.not_compared[DELETED] += missing
        self.compared["partitions"] += len(own)
        self._say("assignment", sorted(own), sorted(member.assigned), member.member_id)

    def _compare_tasks(
        self, member_id: str, prefix: str, rows: Iterable[LakeRow], theirs: LiveTasks
    ) -> None:
        for field, word in _ROLES.items():
            role = f"{prefix}{field}"
            own = sorted(row["task"] for row in rows if row["role"] == role)
            self.compared["tasks"] += len(own)
            what = f"{prefix}{word} tasks"
            self._say(what, own, sorted(getattr(theirs, field)), member_id)

    def _say(self, what: str, ours: Any, theirs: Any, member_id: str) -> None:
        self.say(f"{what} of {member_id}", ours, theirs, member_id)


def _by_member(rows: Iterable[LakeRow]) -> dict[str, list[LakeRow]]:
    found: dict[str, list[LakeRow]] = {}
    for row in rows:
        found.setdefault(row["member_id"], []).append(row)
    return found
