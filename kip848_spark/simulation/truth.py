"""The expected results of a simulated partition: the state a broker would load, and the rebalances.

Rows have the columns of the tables of the same names. The state of a classic group is the one in
its last record, as a broker would load it; ``live_state`` is the state that the coordinator held in
memory.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from kip848_spark.coordinator.classic_group import ClassicGroup
from kip848_spark.coordinator.consumer_group import ConsumerGroup
from kip848_spark.coordinator.share_group import ShareGroup
from kip848_spark.coordinator.streams_group import StreamsGroup, TaskState
from kip848_spark.simulation.partition import SimulatedPartition

TruthRows = list[dict[str, Any]]
_STATES = {0: "stable", 1: "unrevoked_partitions", 2: "unreleased_partitions", 127: "unknown"}


def collect_truth(partition: SimulatedPartition) -> dict[str, TruthRows]:
    """Rows by table name: groups, members, assignments, offsets, rebalances."""
    out: dict[str, TruthRows] = {
        "groups": [],
        "members": [],
        "assignments": [],
        "offsets": [],
        "rebalances": [
            {"partition": partition.number, **row} for row in partition.history.rebalances
        ],
    }
    shard = partition.coordinator.shard
    loaded = set(shard.groups) & (set(partition.last_values) | set(shard.offsets.committed))
    for group_id in sorted(loaded):
        group = shard.groups[group_id]
        if isinstance(group, ConsumerGroup):
            _consumer(out, partition, group)
        elif isinstance(group, ClassicGroup):
            _classic(out, partition, group)
        elif isinstance(group, ShareGroup):
            _share(out, partition, group)
        else:
            _streams(out, partition, group)
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


def _consumer(
    out: dict[str, TruthRows], partition: SimulatedPartition, group: ConsumerGroup
) -> None:
    value = partition.last_values.get(group.group_id)  # None before the first epoch record
    out["groups"].append(
        {
            "group_id": group.group_id,
            "type": "consumer",
            "state": group.state,
            "protocol_type": "consumer",
            "epoch": group.epoch,
            "target_epoch": group.target_epoch,
            "metadata_hash": value.get("metadataHash", 0) if value else None,
            "members": len(group.members),
            "partition": partition.number,
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
                        "topic": partition.topic_names.get(topic_id),
                        "topic_partition": number,
                        "role": role,
                    }
                )


def _share(out: dict[str, TruthRows], partition: SimulatedPartition, group: ShareGroup) -> None:
    out["groups"].append(_newer_group(partition, group, group.state))
    for member_id, member in sorted(group.members.items()):
        out["members"].append(
            {
                "group_id": group.group_id,
                "member_id": member_id,
                "instance_id": None,
                "rack_id": member.rack_id,
                "client_id": member.client_id,
                "subscribed_topics": sorted(member.topic_names),
                "subscribed_regex": None,
                "member_epoch": member.epoch,
                "previous_member_epoch": member.previous_epoch,
                "member_state": "stable",
                "is_classic": False,
            }
        )
        for role, places in (
            ("assigned", member.assigned),
            ("target", group.target_of(member_id)),
        ):
            for topic_id, numbers in sorted(places.items()):
                for number in sorted(numbers):
                    out["assignments"].append(
                        {
                            "group_id": group.group_id,
                            "member_id": member_id,
                            "topic_id": topic_id,
                            "topic": partition.topic_names.get(topic_id),
                            "topic_partition": number,
                            "role": role,
                        }
                    )


def _streams(out: dict[str, TruthRows], partition: SimulatedPartition, group: StreamsGroup) -> None:
    """A streams group; its tasks are no partitions, so it has no rows of assignments."""
    members = group.members.values()
    moves = any(m.state != TaskState.STABLE or m.epoch != group.target_epoch for m in members)
    state = "Reconciling" if moves else "Stable"
    if group.target_epoch < group.epoch:
        state = "Assigning"
    out["groups"].append(_newer_group(partition, group, state if members else "Empty"))
    for member_id, member in sorted(group.members.items()):
        out["members"].append(
            {
                "group_id": group.group_id,
                "member_id": member_id,
                "instance_id": member.instance_id,
                "rack_id": member.metadata["rackId"],
                "client_id": member.metadata["clientId"],
                "subscribed_topics": None,
                "subscribed_regex": None,
                "member_epoch": member.epoch,
                "previous_member_epoch": member.previous_epoch,
                "member_state": _STATES[int(member.state) - 1],
                "is_classic": False,
            }
        )


def _newer_group(
    partition: SimulatedPartition, group: ShareGroup | StreamsGroup, state: str
) -> dict[str, Any]:
    return {
        "group_id": group.group_id,
        "type": group.type,
        "state": state,
        "protocol_type": group.type,
        "epoch": group.epoch,
        "target_epoch": group.target_epoch,
        "metadata_hash": group.metadata_hash,
        "members": len(group.members),
        "partition": partition.number,
        "live_state": group.state,
    }


def _classic(out: dict[str, TruthRows], partition: SimulatedPartition, group: ClassicGroup) -> None:
    value: dict[str, Any] = partition.last_values.get(group.group_id) or {}
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
            "partition": partition.number,
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
        for topic, number in _assigned_partitions(member):
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


def _assigned_partitions(member: dict[str, Any]) -> Iterator[tuple[str, int]]:
    assignment = member["assignment"]
    rows = assignment["assignedPartitions"] if isinstance(assignment, dict) else []
    yield from sorted((row["topic"], n) for row in rows for n in row["partitions"])
