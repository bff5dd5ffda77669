"""Every rebalance of a simulated partition, with its cause: what an analysis of the log
should find.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from kip848_spark.coordinator import Coordinator, Step, classic, member_timers, streams_group
from kip848_spark.coordinator.classic_group import PREPARING, ClassicGroup
from kip848_spark.coordinator.consumer_group import ConsumerGroup
from kip848_spark.coordinator.records import CLASSIC_GROUP, GROUP, MEMBER, REGEX, Json
from kip848_spark.coordinator.share_group import SHARE_GROUP, SHARE_MEMBER, ShareGroup
from kip848_spark.coordinator.streams_group import StreamsGroup, TaskState

Rebalance = dict[str, Any]
"""group_id, type, epoch, causes, members, started_at, converged_at (ms; null if not converged by
the end). A group without members has converged: nothing is left to reconcile.
"""
_TYPES = {GROUP: "consumer", SHARE_GROUP: "share", streams_group.GROUP: "streams"}
"""The key types of group epochs, and the types of their groups."""
_MEMBERS = (MEMBER, SHARE_MEMBER, streams_group.MEMBER)
_AT_REST = ("Stable", "Empty")


class GroupBefore(NamedTuple):
    """A group before a request or a timer. ``generation`` and ``state`` are None unless the group
    is classic.
    """

    group_id: str
    members: frozenset[str]
    generation: int | None
    state: str | None


class RebalanceHistory:
    """The rebalances of one partition's groups, in order of their start."""

    def __init__(self, coordinator: Coordinator, group_ids: list[str]) -> None:
        self._shard = coordinator.shard
        self._group_ids = group_ids
        self.rebalances: list[Rebalance] = []
        self._open: dict[str, list[Rebalance]] = {}
        self._generations: dict[str, int] = {}
        self._unwritten: dict[str, Rebalance] = {}
        """Rebalances of classic groups whose generation has no record yet."""
        self._hashes: dict[str, int | None] = {}
        """The last metadata hash of each group that is not classic."""
        self._expired_sessions: set[str] = set()
        """Members whose session ends with the timers that run now."""
        self._classic_members: frozenset[str] = frozenset()
        """Members of consumer groups that used the classic protocol before these timers."""

    def observe(self, step: Step, api: str, request: Json) -> None:
        """A step of the coordinator and the request that caused it (no API: a timer)."""
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
            if kind in _TYPES and value is not None:
                causes, members = _find_cause(step, group_id, api, request, self._timer_cause)
                epoch, metadata_hash = value["data"]["epoch"], value["data"].get("metadataHash")
                same = self._hashes.get(group_id) == metadata_hash
                if kind == streams_group.GROUP and same and causes == ["topics_changed"]:
                    causes = ["settings_changed"]
                self._hashes[group_id] = metadata_hash
                self._begin(group_id, _TYPES[kind], epoch, step.at, causes, members)
            elif kind == CLASSIC_GROUP and value is not None:
                gone = _removed_members(step, group_id) if group_id in converted else None
                self._observe_classic(group_id, value["data"], step.at, gone)
            if kind != "1":
                touched[group_id] = None
        for group_id in touched:
            group = self._shard.groups.get(group_id)
            if group is None or isinstance(group, ClassicGroup):
                self._open.pop(group_id, None)
            elif _has_converged(group):
                for row in self._open.pop(group_id, ()):
                    row["converged_at"] = step.at
            if not isinstance(group, ClassicGroup):
                self._unwritten.pop(group_id, None)
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
        """Why a timer removed a member: its session ended, or it did not revoke, rejoin or sync in
        time. The log shows only the revocation (a classic member of a consumer group has no timer
        for it).
        """
        if member_id in self._expired_sessions:
            return "session_timeout"
        return "join_timeout" if member_id in self._classic_members else "rebalance_timeout"

    # Classic groups: a rebalance starts in memory and is written when it completes

    def before(self, group_id: str) -> GroupBefore:
        """The group before a request; pass the result to `after_request`."""
        group = self._shard.groups.get(group_id)
        members = frozenset(group.members) if group is not None else frozenset()
        if isinstance(group, ClassicGroup):
            return GroupBefore(group_id, members, group.generation, group.state)
        return GroupBefore(group_id, members, None, None)

    def before_timers(self, due: int) -> list[GroupBefore]:
        """All groups before the timers due at ``due`` run; pass the result to `after_timers`."""
        shard = self._shard
        found = [self.before(group_id) for group_id in self._group_ids]
        self._expired_sessions = {
            member_id
            for before in found
            for member_id in before.members
            if due
            in (
                shard.timers.due_of(key(before.group_id, member_id))
                for key in (classic.session_key, member_timers.session_key)
            )
        }
        groups = (shard.groups.get(before.group_id) for before in found)
        self._classic_members = frozenset(
            member.member_id
            for group in groups
            if isinstance(group, ConsumerGroup)
            for member in group.classic_members
        )
        return found

    def after_request(self, before: GroupBefore, api: str, request: Json) -> None:
        """The coordinator handled a request that may change a group's members."""
        group = self._in_rebalance(before)
        if group is None:
            return
        if api == "JoinGroup":
            joined = sorted(group.members.keys() - before.members)
            if joined:
                self._add_cause(group, "member_joined", joined)
            elif before.state != PREPARING:
                self._add_cause(group, "rejoined", [request["memberId"]])
        elif removed := sorted(before.members - group.members.keys()):
            self._add_cause(group, "member_left", removed)
        elif before.state != PREPARING:
            # A member that was given an id left before it joined with that id.
            self._add_cause(group, "member_left", [row["memberId"] for row in request["members"]])

    def after_timers(self, groups: list[GroupBefore]) -> None:
        """Timers ran: members that are no longer in their group were removed by them."""
        for before in groups:
            group = self._in_rebalance(before)
            if group is not None:
                for member_id in sorted(before.members - group.members.keys()):
                    self._add_cause(group, self._timer_cause(member_id), [member_id])

    def _in_rebalance(self, before: GroupBefore) -> ClassicGroup | None:
        """The group, if it is classic and a rebalance is in progress or has just ended."""
        group = self._shard.groups.get(before.group_id)
        if not isinstance(group, ClassicGroup):
            return None
        if PREPARING in (before.state, group.state):
            return group
        return group if before.generation not in (None, group.generation) else None

    def _add_cause(self, group: ClassicGroup, cause: str, members: list[str]) -> None:
        row = self._unwritten.setdefault(
            group.group_id, {"started_at": self._shard.now, "causes": [], "members": []}
        )
        if cause not in row["causes"]:
            row["causes"].append(cause)
        row["members"] += [member for member in members if member not in row["members"]]

    def _observe_classic(
        self, group_id: str, value: Json, at: int, removed: list[str] | None
    ) -> None:
        """A classic group was written. If it was converted from a consumer group, ``removed`` are
        the members of that group. It keeps the group's epoch, and the rebalance that follows is yet
        to be recorded.
        """
        before = self._generations.get(group_id, 0)
        self._generations[group_id] = value["generation"]
        if removed is None and value["generation"] == before:
            return
        row = self._unwritten.pop(group_id, None) if removed is None else None
        if removed is not None:
            if not value["generation"]:  # an empty consumer group, and a new classic group
                return
            present = {member["memberId"] for member in value["members"]}
            members = [member for member in removed if member not in present] or sorted(present)
            row = {"started_at": at, "causes": ["downgraded"], "members": members}
        assert row is not None
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


def _has_converged(group: ConsumerGroup | ShareGroup | StreamsGroup) -> bool:
    """Whether every member has what the newest target gives it, as far as records show. A streams
    group that is not ready has converged to a target without tasks.
    """
    if isinstance(group, ConsumerGroup):
        return group.state in _AT_REST
    reached = group.target_epoch == group.epoch
    if isinstance(group, StreamsGroup):
        reached &= all(member.state == TaskState.STABLE for member in group.members.values())
    at_target = all(member.epoch == group.target_epoch for member in group.members.values())
    return not group.members or (reached and at_target)


def _removed_members(step: Step, group_id: str) -> list[str]:
    """The members of a consumer group that the records of a step remove."""
    return [
        record["key"]["data"]["memberId"]
        for record in step.records
        if record["key"]["type"] in _MEMBERS
        and record["value"] is None
        and record["key"]["data"]["groupId"] == group_id
    ]


def _find_cause(
    step: Step, group_id: str, api: str, request: Json, timer_cause: Any
) -> tuple[list[str], list[str]]:
    """Why the epoch of a group was bumped, and by which members, from the records of the same
    step.
    """
    there: dict[str, bool] = {}
    kinds = set()
    has_classic_members = False
    for record in step.records:
        key = record["key"]["data"]
        if (key.get("groupId") or key.get("group")) != group_id:
            continue
        kinds.add((record["key"]["type"], record["value"] is None))
        if record["key"]["type"] in _MEMBERS:
            there[key["memberId"]] = record["value"] is not None
            value = (record["value"] or {}).get("data", {})
            has_classic_members |= value.get("classicMemberMetadata") is not None
    removed = [member for member, present in there.items() if not present]
    joined = [member for member, present in there.items() if present]
    replaced = _removed_members(step, group_id)
    if (CLASSIC_GROUP, True) in kinds and has_classic_members:
        return ["upgraded"], joined
    if removed and not joined:
        if not api:
            return sorted({timer_cause(member) for member in removed}), removed
        return ["member_left"], removed
    if (REGEX, False) in kinds:
        return ["regex_resolved"], []
    if joined and replaced:
        return ["static_member_replaced"], sorted({*joined, *replaced})
    if joined:
        joins = request.get("memberEpoch") == 0 or api == "JoinGroup"
        return ["member_joined" if joins else "subscription_changed"], joined
    return ["topics_changed"], []
