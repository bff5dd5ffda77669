"""Every rebalance as it happened, with its cause: what an analysis of the log should find again."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from kip848_spark.coordinator import Step, classic, sessions
from kip848_spark.coordinator.classic_group import PREPARING, ClassicGroup
from kip848_spark.coordinator.consumer_group import ConsumerGroup
from kip848_spark.coordinator.records import CLASSIC_GROUP, GROUP, MEMBER, REGEX, Json

if TYPE_CHECKING:
    from kip848_spark.simulation.partition import PartitionLife

Rebalance = dict[str, Any]
"""group_id, type, epoch, causes, members, started_at, converged_at (ms; null: not by the end)."""


class Before(NamedTuple):
    """A group before a request arrived or a timer ran. ``generation`` and ``state`` are those of a
    classic group, None of any other."""

    group_id: str
    members: frozenset[str]
    generation: int | None
    state: str | None


class History:
    """The rebalances of one partition's groups, in order of their start."""

    def __init__(self, life: PartitionLife) -> None:
        self.life = life
        self.rebalances: list[Rebalance] = []
        self._open: dict[str, list[Rebalance]] = {}
        self._generations: dict[str, int] = {}
        self._coming: dict[str, Rebalance] = {}
        """Rebalances of classic groups whose generation is not written yet."""
        self._sessions_over: set[str] = set()
        """Members whose session ends with the timers that run now."""

    def observe(self, step: Step, api: str, request: Json) -> None:
        """A step of the coordinator, and what made it (no API: a timer)."""
        touched: dict[str, None] = {}
        converted = {
            record["key"]["data"]["groupId"]
            for record in step.records
            if record["key"]["type"] == GROUP and record["value"] is None
        }
        for record in step.records:
            key = record["key"]["data"]
            group_id = key.get("groupId") or key.get("group")
            kind, value = record["key"]["type"], record["value"]
            if kind == GROUP and value is not None:
                causes, members = _why(step, group_id, api, request, self._timer_cause)
                self._begin(group_id, "consumer", value["data"]["epoch"], step.at, causes, members)
            elif kind == CLASSIC_GROUP and value is not None:
                self._classic_written(group_id, value["data"], step.at, group_id in converted)
            if kind != "1":
                touched[group_id] = None
        for group_id in touched:
            group = self.life.coordinator.shard.groups.get(group_id)
            if isinstance(group, ConsumerGroup) and group.state == "Stable":
                for row in self._open.pop(group_id, ()):
                    row["converged_at"] = step.at
            elif not isinstance(group, ConsumerGroup):
                self._open.pop(group_id, None)
            if not isinstance(group, ClassicGroup):
                self._coming.pop(group_id, None)
                self._generations.pop(group_id, None)

    def _begin(
        self, group_id: str, type_: str, epoch: int, at: int, causes: list[str], members: list[str]
    ) -> None:
        row: Rebalance = {
            "group_id": group_id, "type": type_, "epoch": epoch, "causes": causes,
            "members": members, "started_at": at, "converged_at": None,
        }  # fmt: skip
        self.rebalances.append(row)
        self._open.setdefault(group_id, []).append(row)

    def _timer_cause(self, member_id: str) -> str:
        """Why a timer took a member out: nobody heard of it, or it took too long to revoke, to join
        again or to sync."""
        return "session_timeout" if member_id in self._sessions_over else "rebalance_timeout"

    # Classic groups: the rebalance begins in memory and is written when it is over

    def before(self, group_id: str) -> Before:
        """The group as it is now: to be had before a request, for `after_request`."""
        group = self.life.coordinator.shard.groups.get(group_id)
        members = frozenset(group.members) if group is not None else frozenset()
        if isinstance(group, ClassicGroup):
            return Before(group_id, members, group.generation, group.state)
        return Before(group_id, members, None, None)

    def before_timers(self, due: int) -> list[Before]:
        """All groups as they are now, before the timers of ``due`` run: for `after_timers`."""
        shard = self.life.coordinator.shard
        found = [self.before(group.plan.group_id) for group in self.life.groups]
        self._sessions_over = {
            member_id
            for was in found
            for member_id in was.members
            if due
            in (
                shard.timers.due_of(key(was.group_id, member_id))
                for key in (classic.session_key, sessions.session_key)
            )
        }
        return found

    def after_request(self, was: Before, api: str, request: Json) -> None:
        """A request that may change who is in a group was handled."""
        group = self._rebalancing(was)
        if group is None:
            return
        if api == "JoinGroup":
            come = sorted(group.members.keys() - was.members)
            if come:
                self._note(group, "member_joined", come)
            elif was.state != PREPARING:
                self._note(group, "rejoined", [request["memberId"]])
        elif gone := sorted(was.members - group.members.keys()):
            self._note(group, "member_left", gone)
        elif was.state != PREPARING:  # one that was given an id left before it joined with that
            self._note(group, "member_left", [row["memberId"] for row in request["members"]])

    def after_timers(self, before: list[Before]) -> None:
        """Timers ran: whoever is not in a group any more was taken out by them."""
        for was in before:
            group = self._rebalancing(was)
            if group is not None:
                for member_id in sorted(was.members - group.members.keys()):
                    self._note(group, self._timer_cause(member_id), [member_id])

    def _rebalancing(self, was: Before) -> ClassicGroup | None:
        """The group, if it is a classic one that is in a rebalance, or just was."""
        group = self.life.coordinator.shard.groups.get(was.group_id)
        if not isinstance(group, ClassicGroup):
            return None
        if PREPARING in (was.state, group.state):
            return group
        return group if was.generation not in (None, group.generation) else None

    def _note(self, group: ClassicGroup, cause: str, members: list[str]) -> None:
        row = self._coming.setdefault(
            group.group_id, {"started_at": self.life.now, "causes": [], "members": []}
        )
        if cause not in row["causes"]:
            row["causes"].append(cause)
        row["members"] += [member for member in members if member not in row["members"]]

    def _classic_written(self, group_id: str, value: Json, at: int, converted: bool) -> None:
        """The group as it is on record. ``converted`` from a consumer group: it keeps that one's
        epoch, and the rebalance that follows is still to come."""
        before = self._generations.get(group_id, 0)
        self._generations[group_id] = value["generation"]
        if converted or value["generation"] == before:
            return
        row = self._coming.pop(group_id)
        self.rebalances.append(
            {
                "group_id": group_id,
                "type": "classic",
                "epoch": value["generation"],
                "causes": row["causes"],
                "members": row["members"],
                "started_at": row["started_at"],
                "converged_at": at,
            }
        )


def _why(
    step: Step, group_id: str, api: str, request: Json, timer_cause: Any
) -> tuple[list[str], list[str]]:
    """Why a consumer group's epoch was bumped, and by whom; told from what was written with it."""
    there: dict[str, bool] = {}
    kinds = set()
    for record in step.records:
        key = record["key"]["data"]
        if (key.get("groupId") or key.get("group")) != group_id:
            continue
        kinds.add((record["key"]["type"], record["value"] is None))
        if record["key"]["type"] == MEMBER:
            there[key["memberId"]] = record["value"] is not None
    gone = [member for member, present in there.items() if not present]
    come = [member for member, present in there.items() if present]
    if (CLASSIC_GROUP, True) in kinds:
        return ["upgraded"], come
    if gone and not come:
        if not api:
            return sorted({timer_cause(member) for member in gone}), gone
        return ["member_left"], gone
    if (REGEX, False) in kinds:
        return ["regex_resolved"], []
    if come:
        joins = request.get("memberEpoch") == 0 or api == "JoinGroup"
        return ["member_joined" if joins else "subscription_changed"], come
    return ["topics_changed"], []
