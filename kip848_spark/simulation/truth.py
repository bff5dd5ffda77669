"""What a simulated partition came to: the state a broker would load, and how it got there.

Rows have the columns of the tables of the same names. The state of a classic group is what its
last record says, as a broker has only that; ``live_state`` is what the coordinator itself knew.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from kip848_spark.coordinator.classic_group import ClassicGroup
from kip848_spark.coordinator.consumer_group import ConsumerGroup
from kip848_spark.simulation.partition import PartitionLife

Rows = list[dict[str, Any]]
_STATES = {0: "stable", 1: "unrevoked_partitions", 2: "unreleased_partitions", 127: "unknown"}


def truth_of(life: PartitionLife) -> dict[str, Rows]:
    """Rows by the name of their table: groups, members, assignments, offsets, rebalances."""
    out: dict[str, Rows] = {
        "groups": [],
        "members": [],
        "assignments": [],
        "offsets": [],
        "rebalances": [{"partition": life.partition, **row} for row in life.history.rebalances],
    }
    shard = life.coordinator.shard
    loaded = set(shard.groups) & (set(life.written) | set(shard.offsets.committed))
    for group_id in sorted(loaded):
        group = shard.groups[group_id]
        if isinstance(group, ConsumerGroup):
            _consumer(out, life, group)
        else:
            _classic(out, life, group)
    for group_id, places in sorted(shard.offsets.committed.items()):
        for (topic, number), offset in sorted(places.items()):
            out["offsets"].append(
                {
                    "group_id": group_id,
                    "topic": topic,
                    "topic_partition": number,
                    "committed_offset": offset.offset,
                    "leader_epoch": offset.leader_epoch,
                    "metadata": offset.metadata,
                    "commit_timestamp": offset.commit_timestamp,
                    "topic_id": offset.topic_id,
                }
            )
    return out


def _consumer(out: dict[str, Rows], life: PartitionLife, group: ConsumerGroup) -> None:
    said = life.written.get(group.group_id)  # nothing until there is an epoch record
    out["groups"].append(
        {
            "group_id": group.group_id,
            "type": "consumer",
            "state": group.state,
            "protocol_type": "consumer",
            "epoch": group.epoch,
            "target_epoch": group.target_epoch,
            "metadata_hash": said.get("metadataHash", 0) if said else None,
            "members": len(group.members),
            "partition": life.partition,
            "live_state": group.state,
        }
    )
    for member_id, member in sorted(group.members.items()):
        out["members"].append(
            {
                "group_id": group.group_id,
                "member_id": member_id,
                "instance_id": member.instance_id,
                "rack_id": member.rack_id,
                "client_id": member.client_id,
                "subscribed_topics": sorted(member.topic_names),
                "subscribed_regex": member.regex or None,
                "member_epoch": member.epoch,
                "previous_member_epoch": member.previous_epoch,
                "member_state": _STATES[int(member.state)],
                "is_classic": member.classic is not None,
            }
        )
        for role, places in (
            ("assigned", member.assigned),
            ("pending_revocation", member.pending),
            ("target", group.target_of(member_id)),
        ):
            rows = [(topic, n) for topic, numbers in places.items() for n in numbers]
            for topic_id, number in sorted(rows):
                out["assignments"].append(
                    {
                        "group_id": group.group_id,
                        "member_id": member_id,
                        "topic_id": topic_id,
                        "topic": life.topic_names.get(topic_id),
                        "topic_partition": number,
                        "role": role,
                    }
                )


def _classic(out: dict[str, Rows], life: PartitionLife, group: ClassicGroup) -> None:
    value: dict[str, Any] = life.written.get(group.group_id) or {}
    members = value.get("members", [])
    out["groups"].append(
        {
            "group_id": group.group_id,
            "type": "classic",
            "state": "Stable" if members else "Empty",
            "protocol_type": value.get("protocolType") or "",
            "epoch": value.get("generation", 0),
            "target_epoch": None,
            "metadata_hash": None,
            "members": len(members),
            "partition": life.partition,
            "live_state": group.state,
        }
    )
    for member in sorted(members, key=lambda row: row["memberId"]):
        out["members"].append(
            {
                "group_id": group.group_id,
                "member_id": member["memberId"],
                "instance_id": member["groupInstanceId"],
                "rack_id": member["subscription"].get("rackId"),
                "client_id": member["clientId"],
                "subscribed_topics": sorted(member["subscription"]["topics"]),
                "subscribed_regex": None,
                "member_epoch": None,
                "previous_member_epoch": None,
                "member_state": None,
                "is_classic": True,
            }
        )
        for topic, number in _given(member):
            out["assignments"].append(
                {
                    "group_id": group.group_id,
                    "member_id": member["memberId"],
                    "topic_id": None,
                    "topic": topic,
                    "topic_partition": number,
                    "role": "assigned",
                }
            )


def _given(member: dict[str, Any]) -> Iterator[tuple[str, int]]:
    assignment = member["assignment"]
    rows = assignment["assignedPartitions"] if isinstance(assignment, dict) else []
    yield from sorted((row["topic"], n) for row in rows for n in row["partitions"])
