"""Every rebalance as it happened, with its cause: what an analysis of the log should find again."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kip848_spark.coordinator import Step
from kip848_spark.coordinator.classic_group import PREPARING, ClassicGroup
from kip848_spark.coordinator.consumer_group import ConsumerGroup
from kip848_spark.coordinator.records import GROUP, MEMBER, REGEX, Json

if TYPE_CHECKING:
    from kip848_spark.simulation.client import Client
    from kip848_spark.simulation.partition import PartitionLife

Rebalance = dict[str, Any]
"""group_id, type, epoch, causes, members, started_at, converged_at (ms; null: not by the end)."""


class History:
    """The rebalances of one partition's groups, in order of their start."""

    def __init__(self, life: PartitionLife) -> None:
        self.life = life
        self.rebalances: list[Rebalance] = []
        self._open: dict[str, list[Rebalance]] = {}
        self._generations: dict[str, int] = {}
        self._coming: dict[str, Rebalance] = {}
        """Rebalances of classic groups whose generation is not written yet."""

    def observe(self, step: Step, api: str, request: Json, sent_by: Client | None) -> None:
        """A step of the coordinator, and what made it (no API: a timer)."""
        touched: dict[str, None] = {}
        for record in step.records:
            key = record["key"]["data"]
            group_id = key.get("groupId") or key.get("group")
            kind, value = record["key"]["type"], record["value"]
            if kind == GROUP and value is not None:
                causes, members = _why(step, group_id, api, request, self._timer_cause)
                self._begin(group_id, "consumer", value["data"]["epoch"], step.at, causes, members)
            elif kind == "2" and value is not None:
                self._classic_written(group_id, value["data"], step.at)
            if kind != "1":
                touched[group_id] = None
        for group_id in touched:
            group = self.life.coordinator.shard.groups.get(group_id)
            if isinstance(group, ConsumerGroup) and group.state == "Stable":
                for row in self._open.pop(group_id, ()):
                    row["converged_at"] = step.at
            elif group is None:
                self._open.pop(group_id, None)

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
        """Why a timer took a member out: it took too long to revoke, or nobody heard of it."""
        client = self.life.client_of(member_id)
        late = client is not None and client.running and not client.cut_off
        return "rebalance_timeout" if late else "session_timeout"

    # Classic groups: the rebalance begins in memory and is written when it is over

    def watch_classic(self, group_id: str, api: str, request: Json, was: str | None) -> None:
        """A request to a classic group was handled; ``was`` is its state before."""
        group = self.life.coordinator.shard.groups.get(group_id)
        if not isinstance(group, ClassicGroup):
            return
        if PREPARING not in (was, group.state) and api != "LeaveGroup":
            return
        if api == "LeaveGroup":
            members = [row["memberId"] for row in request["members"]]
            self._note(group, "member_left", members)
        elif not request["memberId"]:
            self._note(group, "member_joined", [])
        elif was != PREPARING:
            new = request["memberId"] in group.members and group.members[request["memberId"]].is_new
            self._note(group, "member_joined" if new else "rejoined", [request["memberId"]])

    def _note(self, group: ClassicGroup, cause: str, members: list[str]) -> None:
        row = self._coming.setdefault(
            group.group_id, {"started_at": self.life.now, "causes": [], "members": []}
        )
        if cause not in row["causes"]:
            row["causes"].append(cause)
        row["members"] += [member for member in members if member not in row["members"]]

    def _classic_written(self, group_id: str, value: Json, at: int) -> None:
        if not value["generation"] or value["generation"] == self._generations.get(group_id):
            return
        unseen = {"started_at": at, "causes": ["session_timeout"], "members": []}
        row = self._coming.pop(group_id, unseen)
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
        self._generations[group_id] = value["generation"]


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
    if ("2", True) in kinds:
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
