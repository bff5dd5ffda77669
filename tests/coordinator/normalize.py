"""What must be equal in a broker's and the reference's answers and records, and what may differ."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

Json = dict[str, Any]
_MADE_UP = frozenset(
    ["commitTimestamp", "currentStateTimestamp", "assignmentTimestamp", "timestamp", "version"]
)


_SHARE_KINDS = frozenset({"13", "14", "15"})
"""Records of share groups list partitions in the order of hash tables that change with time."""


_NOT_COMPARED = frozenset(
    [
        "errorMessage", "throttleTimeMs", "authorizedOperations",
        # Of streams groups: texts for people, and what interactive queries and warm-up tasks need.
        "status", "endpointInformationEpoch", "partitionsByUserEndpoint", "acceptableRecoveryLag",
        "taskOffsetIntervalMs",
    ]
)  # fmt: skip


@dataclass(slots=True)
class Difference:
    where: str
    broker: Any
    reference: Any

    def __str__(self) -> str:
        return f"{self.where}\n   broker    {self.broker}\n   reference {self.reference}"


def plain(response: Any, like: Any = None) -> Any:
    """A response without the fields that may differ: messages, throttle time, order of groups."""
    if isinstance(response, dict):
        out = {}
        for key, value in response.items():
            if key in _NOT_COMPARED:
                continue
            if isinstance(like, dict) and key not in like:
                continue
            out[key] = plain(value, like.get(key) if isinstance(like, dict) else None)
            if key == "protocolName" and "protocolType" not in (like or response):
                out[key] = value or ""  # nullable only in versions with protocolType
        return out
    if isinstance(response, list):
        rows = [
            plain(item, like[0] if isinstance(like, list) and like else None) for item in response
        ]
        if rows and isinstance(rows[0], dict) and {"groupId", "memberId"} & rows[0].keys():
            rows.sort(key=lambda row: row.get("groupId") or row.get("memberId") or "")
        return rows
    return response


def normal(record: Json) -> Json:
    """A record without the fields that may differ: times, and the image version."""
    value = record["value"]
    if value is not None:
        data = {k: (0 if k in _MADE_UP else v) for k, v in value["data"].items()}
        if data.get("expireTimestamp", -1) != -1:
            data["expireTimestamp"] = 0
        if record["key"]["type"] == "2":
            data["members"] = sorted(data["members"], key=lambda row: row["memberId"])
        if record["key"]["type"] in _SHARE_KINDS:
            data = sort_partitions(data)
        value = {"version": value["version"], "data": data}
    return {"key": record["key"], "value": value}


def sort_partitions(value: Any) -> Any:
    """A value with its topics, their names and partitions sorted."""
    if isinstance(value, dict):
        return {key: sort_partitions(item) for key, item in value.items()}
    if isinstance(value, list):
        rows = [sort_partitions(item) for item in value]
        if rows and isinstance(rows[0], dict) and "topicId" in rows[0]:
            rows.sort(key=lambda row: row["topicId"])
        elif rows and isinstance(rows[0], int | str):
            rows.sort()
        return rows
    return value


def without_order(value: Any) -> Any:
    """A response or record with its lists of topics sorted."""
    if isinstance(value, dict):
        return {key: without_order(item) for key, item in value.items()}
    if isinstance(value, list):
        rows = [without_order(item) for item in value]
        if rows and isinstance(rows[0], dict) and "topicId" in rows[0]:
            rows.sort(key=lambda row: row["topicId"])
        return rows
    return value
