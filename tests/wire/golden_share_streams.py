"""Share groups and streams groups, written out by hand: see `golden`."""

from __future__ import annotations

from typing import Any, NamedTuple

ID = bytes(range(16))
_ID = ID.hex()
_OTHER = "ff" * 16
_GROUP = {"group_id": "g"}
_MEMBER = {"group_id": "g", "member_id": "m1"}
OF_GROUP = "0001 67"
OF_MEMBER = "0001 67 0002 6d31"


class Golden(NamedTuple):
    """``key`` and ``value`` are hex; ``fields`` the value's columns, None where it lacks one."""

    kind: str
    key: str
    key_fields: dict[str, Any]
    value: str
    version: int
    fields: dict[str, Any]
    unknown_tags: int = 0
    canonical: bool = True


SHARE_AND_STREAMS = [
    Golden(
        "share_group_member_metadata",
        f"000a {OF_MEMBER}",
        _MEMBER,
        "0000 00 02 63 02 68 02 02 74 00",
        0,
        {
            "rack_id": None,
            "client_id": "c",
            "client_host": "h",
            "subscribed_topic_names": ["t"],
        },
    ),
    Golden(
        "share_group_metadata",
        f"000b {OF_GROUP}",
        _GROUP,
        "0000 00000001 0000000000000002 00",
        0,
        {"epoch": 1, "metadata_hash": 2},
    ),
    Golden(
        "share_group_target_assignment_metadata",
        f"000c {OF_GROUP}",
        _GROUP,
        "0000 00000008 00",
        0,
        {"assignment_epoch": 8, "assignment_timestamp": 0},
    ),
    Golden(
        "share_group_target_assignment_member",
        f"000d {OF_MEMBER}",
        _MEMBER,
        f"0000 02 {_ID} 02 00000001 00 00",
        0,
        {"topic_partitions": [{"topic_id": ID, "partitions": [1]}]},
    ),
    Golden(
        "share_group_current_member_assignment",
        f"000e {OF_MEMBER}",
        _MEMBER,
        f"0000 00000002 00000001 00 02 {_ID} 02 00000001 00 00",
        0,
        {
            "member_epoch": 2,
            "previous_member_epoch": 1,
            "state": 0,
            "assigned_partitions": [{"topic_id": ID, "partitions": [1]}],
        },
    ),
    Golden(
        "share_group_state_partition_metadata",
        f"000f {OF_GROUP}",
        _GROUP,
        f"0000 02 {_ID} 02 74 02 00000001 00 01 02 {_OTHER} 01 00 00",
        0,
        {
            "initializing_topics": [{"topic_id": ID, "topic_name": "t", "partitions": [1]}],
            "initialized_topics": [],
            "deleting_topics": [{"topic_id": b"\xff" * 16, "topic_name": ""}],
        },
    ),
    Golden(
        "consumer_group_regular_expression",
        "0010 0001 67 0002 2e2a",
        {"group_id": "g", "regular_expression": ".*"},
        "0000 03 02 61 01 0000000000000003 0000000000000004 00",
        0,
        {"topics": ["a", ""], "version": 3, "timestamp": 4},
    ),
    Golden(
        "streams_group_metadata",
        f"0011 {OF_GROUP}",
        _GROUP,
        "0000 00000001 0000000000000002 02 00 04 00000003 01 06 02 02 6b 02 76 00",
        0,
        {
            "epoch": 1,
            "metadata_hash": 2,
            "validated_topology_epoch": 3,
            "last_assignment_configs": [{"key": "k", "value": "v"}],
            "stored_description_topology_epoch": -1,
            "failed_description_topology_epoch": -1,
        },
    ),
    Golden(
        "streams_group_metadata",
        f"0011 {OF_GROUP}",
        _GROUP,
        "0000 00000001 0000000000000002 01 01 01 00",
        0,
        {
            "epoch": 1,
            "metadata_hash": 2,
            "validated_topology_epoch": -1,
            "last_assignment_configs": None,
            "stored_description_topology_epoch": -1,
            "failed_description_topology_epoch": -1,
        },
    ),
    Golden(
        "streams_group_metadata",
        f"0011 {OF_GROUP}",
        _GROUP,
        "0000 00000001 0000000000000002 02 02 04 fffffffe 03 04 00000007",
        0,
        {
            "epoch": 1,
            "metadata_hash": 2,
            "validated_topology_epoch": -1,
            "last_assignment_configs": [],
            "stored_description_topology_epoch": -2,
            "failed_description_topology_epoch": 7,
        },
    ),
    Golden(
        "streams_group_member_metadata",
        f"0013 {OF_MEMBER}",
        _MEMBER,
        "0000 00 00 02 63 01 00000064 00000001 02 70 01 02 68 ffff 00 02 02 6b 02 76 00 00",
        0,
        {
            "instance_id": None,
            "rack_id": None,
            "client_id": "c",
            "client_host": "",
            "rebalance_timeout_ms": 100,
            "topology_epoch": 1,
            "process_id": "p",
            "user_endpoint": {"host": "h", "port": 65535},
            "client_tags": [{"key": "k", "value": "v"}],
        },
    ),
    Golden(
        "streams_group_member_metadata",
        f"0013 {OF_MEMBER}",
        _MEMBER,
        "0000 00 00 01 01 00000064 00000001 01 ff 01 00",
        0,
        {
            "instance_id": None,
            "rack_id": None,
            "client_id": "",
            "client_host": "",
            "rebalance_timeout_ms": 100,
            "topology_epoch": 1,
            "process_id": "",
            "user_endpoint": None,
            "client_tags": [],
        },
    ),
    Golden(
        "streams_group_target_assignment_metadata",
        f"0014 {OF_GROUP}",
        _GROUP,
        "0000 00000008 01 00 08 0000000000000001",
        0,
        {"assignment_epoch": 8, "assignment_timestamp": 1},
    ),
    Golden(
        "streams_group_target_assignment_member",
        f"0015 {OF_MEMBER}",
        _MEMBER,
        "0000 02 02 73 02 00000000 00 01 02 02 73 01 00 00",
        0,
        {
            "active_tasks": [{"subtopology_id": "s", "partitions": [0]}],
            "standby_tasks": [],
            "warmup_tasks": [{"subtopology_id": "s", "partitions": []}],
        },
    ),
    Golden(
        "streams_group_current_member_assignment",
        f"0016 {OF_MEMBER}",
        _MEMBER,
        "0000 00000002 00000001 00 02 02 73 02 00000000 01 00 05 02 00000002 01 01 01 01 01 00",
        0,
        {
            "member_epoch": 2,
            "previous_member_epoch": 1,
            "state": 0,
            "active_tasks": [{"subtopology_id": "s", "partitions": [0], "assignment_epochs": [2]}],
            "standby_tasks": [],
            "warmup_tasks": [],
            "active_tasks_pending_revocation": [],
            "standby_tasks_pending_revocation": [],
            "warmup_tasks_pending_revocation": [],
        },
    ),
    Golden(
        "streams_group_topology",
        f"0017 {OF_GROUP}",
        _GROUP,
        "0000 00000001 02 02 30 02 02 69 01"
        " 02 02 63 00000004 0003 02 02 6b 02 76 00 00 01 01 02 02 0000 01 01 00 00 00",
        0,
        {
            "epoch": 1,
            "subtopologies": [
                {
                    "subtopology_id": "0",
                    "source_topics": ["i"],
                    "source_topic_regex": [],
                    "state_changelog_topics": [
                        {
                            "name": "c",
                            "partitions": 4,
                            "replication_factor": 3,
                            "topic_configs": [{"key": "k", "value": "v"}],
                        }
                    ],
                    "repartition_sink_topics": [],
                    "repartition_source_topics": [],
                    "copartition_groups": [
                        {
                            "source_topics": [0],
                            "source_topic_regex": [],
                            "repartition_source_topics": [],
                        }
                    ],
                }
            ],
        },
    ),
]
