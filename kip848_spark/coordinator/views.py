"""ListGroups, and DescribeGroups of classic groups; `group_descriptions` has the other types."""

from __future__ import annotations

from kip848_spark.coordinator.classic import to_base64
from kip848_spark.coordinator.classic_group import DEAD, STABLE, ClassicGroup
from kip848_spark.coordinator.group_descriptions import NOT_REQUESTED
from kip848_spark.coordinator.records import Json
from kip848_spark.coordinator.shard import Shard

_FILTERS = {"NotReady": "not_ready"}
"""How filters of ListGroups name a state, if not by the name that answers show in small letters."""


def list_groups(shard: Shard, request: Json) -> Json:
    """Every group that passes both filters; an empty filter passes every group."""
    states = {state.lower() for state in request.get("statesFilter") or ()}
    types = {kind.lower() for kind in request.get("typesFilter") or ()}
    rows = []
    for group in shard.readable_groups().values():
        if states and _FILTERS.get(group.state, group.state.lower()) not in states:
            continue
        if types and group.type not in types:
            continue
        protocol_type = group.type
        if isinstance(group, ClassicGroup):
            protocol_type = group.protocol_type or ""
        rows.append(
            {
                "groupId": group.group_id,
                "protocolType": protocol_type,
                "groupState": group.state,
                "groupType": group.type,
            }
        )
    return {"throttleTimeMs": 0, "errorCode": "NONE", "groups": rows}


def describe_groups(shard: Shard, request: Json, version: int) -> Json:
    """Classic groups; any other group is reported as dead."""
    rows = []
    for group_id in request.get("groups") or ():
        group = shard.readable_groups().get(group_id)
        if isinstance(group, ClassicGroup):
            rows.append(_classic(group))
        else:
            rows.append(
                {
                    "errorCode": "GROUP_ID_NOT_FOUND" if version >= 6 else "NONE",
                    "errorMessage": (
                        f"there is no classic group {group_id!r}" if version >= 6 else None
                    ),
                    "groupId": group_id,
                    "groupState": DEAD,
                    "protocolType": "",
                    "protocolData": "",
                    "members": [],
                    "authorizedOperations": NOT_REQUESTED,
                }
            )
    return {"throttleTimeMs": 0, "groups": rows}


def _classic(group: ClassicGroup) -> Json:
    stable = group.state == STABLE
    members = [
        {
            "memberId": member.member_id,
            "groupInstanceId": member.instance_id,
            "clientId": member.client_id,
            "clientHost": member.client_host,
            "memberMetadata": to_base64(member.metadata(group.protocol)) if stable else "",
            "memberAssignment": to_base64(member.assignment),
        }
        for member in group.members.values()
    ]
    return {
        "errorCode": "NONE",
        "errorMessage": None,
        "groupId": group.group_id,
        "groupState": group.state,
        "protocolType": group.protocol_type or "",
        "protocolData": (group.protocol or "") if stable else "",
        "members": members,
        "authorizedOperations": NOT_REQUESTED,
    }
