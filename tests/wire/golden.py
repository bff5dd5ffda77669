"""Records written out by hand, one or more of each kind: bytes beside what they mean.

Here are the groups of consumers, in `golden_share_streams` those of the other two kinds.
"""

from __future__ import annotations

from typing import Any

from tests.wire.golden_share_streams import ID, SHARE_AND_STREAMS, Golden
from tests.wire.golden_share_streams import OF_GROUP as _OF_GROUP
from tests.wire.golden_share_streams import OF_MEMBER as _OF_MEMBER

_ID = ID.hex()
_OTHER = "ff" * 16


_COMMIT_KEY = "0001 0001 67 0001 74 00000007"
_COMMIT_KEY_FIELDS = {"group": "g", "topic": "t", "partition": 7}
_GROUP = {"group_id": "g"}
_MEMBER = {"group_id": "g", "member_id": "m1"}


def _commit(offset: int, metadata: str, time: int, **more: Any) -> dict[str, Any]:
    fields = {"offset": offset, "leader_epoch": None, "metadata": metadata}
    fields |= {"commit_timestamp": time, "expire_timestamp": None, "topic_id": None}
    return fields | more


GOLDEN = [
    Golden(
        "offset_commit",
        "0000 0001 67 0001 74 ffffffff",
        {"group": "g", "topic": "t", "partition": -1},
        "0000 0000000000000001 0000 00000193a0c4e800",
        0,
        {"offset": 1, "metadata": "", "commit_timestamp": 0x193A0C4E800},
    ),
    Golden(
        "offset_commit",
        _COMMIT_KEY,
        _COMMIT_KEY_FIELDS,
        "0000 8000000000000000 0002 c3a9 ffffffffffffffff",
        0,
        _commit(-(2**63), "é", -1),
    ),
    Golden(
        "offset_commit",
        _COMMIT_KEY,
        _COMMIT_KEY_FIELDS,
        "0001 000000000000002a 0000 0000000000000001 0000000000000002",
        1,
        _commit(42, "", 1, expire_timestamp=2),
    ),
    Golden(
        "offset_commit",
        _COMMIT_KEY,
        _COMMIT_KEY_FIELDS,
        "0002 000000000000002a 0003 e697a5 0000000000000001",
        2,
        _commit(42, "日", 1),
    ),
    Golden(
        "offset_commit",
        _COMMIT_KEY,
        _COMMIT_KEY_FIELDS,
        "0003 7fffffffffffffff ffffffff 0004 6e6f7465 0000000000000001",
        3,
        _commit(2**63 - 1, "note", 1, leader_epoch=-1),
    ),
    Golden(
        "offset_commit",
        _COMMIT_KEY,
        _COMMIT_KEY_FIELDS,
        "0004 000000000000002a 00000005 01 0000000000000001 00",
        4,
        _commit(42, "", 1, leader_epoch=5, topic_id=bytes(16)),
    ),
    Golden(
        "offset_commit",
        _COMMIT_KEY,
        _COMMIT_KEY_FIELDS,
        f"0004 000000000000002a 00000005 03 6869 0000000000000001 01 00 10 {_ID}",
        4,
        _commit(42, "hi", 1, leader_epoch=5, topic_id=ID),
    ),
    Golden(
        "offset_commit",
        _COMMIT_KEY,
        _COMMIT_KEY_FIELDS,
        f"0004 000000000000002a 00000005 8300 6869 0000000000000001 02 00 10 {_ID} ac02 8100 ff",
        4,
        _commit(42, "hi", 1, leader_epoch=5, topic_id=ID),
        unknown_tags=1,
        canonical=False,
    ),
    Golden(
        "group_metadata",
        f"0002 {_OF_GROUP}",
        {"group": "g"},
        "0003 0008 636f6e73756d6572 00000002 0005 72616e6765 0002 6d31 0000000000000009 00000002"
        " 0002 6d31 ffff 0001 63 0002 2f68 00000064 000000c8 00000002 abcd 00000000"
        " 0002 6d32 0001 69 0001 64 0000 00000065 000000c9 00000000 00000001 ff",
        3,
        {
            "protocol_type": "consumer",
            "generation": 2,
            "protocol": "range",
            "leader": "m1",
            "current_state_timestamp": 9,
            "members": [
                {
                    "member_id": "m1",
                    "group_instance_id": None,
                    "client_id": "c",
                    "client_host": "/h",
                    "rebalance_timeout": 100,
                    "session_timeout": 200,
                    "subscription": b"\xab\xcd",
                    "assignment": b"",
                },
                {
                    "member_id": "m2",
                    "group_instance_id": "i",
                    "client_id": "d",
                    "client_host": "",
                    "rebalance_timeout": 101,
                    "session_timeout": 201,
                    "subscription": b"",
                    "assignment": b"\xff",
                },
            ],
        },
    ),
    Golden(
        "group_metadata",
        f"0002 {_OF_GROUP}",
        {"group": "g"},
        "0000 0000 00000000 ffff ffff 00000001 0001 6d 0000 0000 00000001 00000001 61 00000000",
        0,
        {
            "protocol_type": "",
            "generation": 0,
            "protocol": None,
            "leader": None,
            "current_state_timestamp": None,
            "members": [
                {
                    "member_id": "m",
                    "group_instance_id": None,
                    "client_id": "",
                    "client_host": "",
                    "rebalance_timeout": None,
                    "session_timeout": 1,
                    "subscription": b"a",
                    "assignment": b"",
                }
            ],
        },
    ),
    Golden(
        "group_metadata",
        f"0002 {_OF_GROUP}",
        {"group": "g"},
        "0004 01 00000001 00 00 0000000000000009 01 00",
        4,
        {
            "protocol_type": "",
            "generation": 1,
            "protocol": None,
            "leader": None,
            "current_state_timestamp": 9,
            "members": [],
        },
    ),
    Golden(
        "consumer_group_metadata",
        f"0003 {_OF_GROUP}",
        _GROUP,
        "0000 00000007 00",
        0,
        {"epoch": 7, "metadata_hash": 0},
    ),
    Golden(
        "consumer_group_metadata",
        f"0003 {_OF_GROUP}",
        _GROUP,
        "0000 00000007 03 00 08 fffffffffffffffe 05 00 feffffff07 02 6869",
        0,
        {"epoch": 7, "metadata_hash": -2},
        unknown_tags=2,
    ),
    Golden(
        "consumer_group_partition_metadata",
        f"0004 {_OF_GROUP}",
        _GROUP,
        f"0000 02 {_ID} 02 74 00000002 03 00000000 02 02 72 00 00000001 01 00 00 00",
        0,
        {
            "topics": [
                {
                    "topic_id": ID,
                    "topic_name": "t",
                    "num_partitions": 2,
                    "partition_metadata": [
                        {"partition": 0, "racks": ["r"]},
                        {"partition": 1, "racks": []},
                    ],
                }
            ]
        },
    ),
    Golden(
        "consumer_group_member_metadata",
        f"0005 {_OF_MEMBER}",
        _MEMBER,
        "0000 00 02 72 02 63 03 2f68 03 02 61 02 62 00 ffffffff 08 756e69666f726d 01 00 01 00",
        0,
        {
            "instance_id": None,
            "rack_id": "r",
            "client_id": "c",
            "client_host": "/h",
            "subscribed_topic_names": ["a", "b"],
            "subscribed_topic_regex": None,
            "rebalance_timeout_ms": -1,
            "server_assignor": "uniform",
            "classic_member_metadata": None,
        },
    ),
    Golden(
        "consumer_group_member_metadata",
        f"0005 {_OF_MEMBER}",
        _MEMBER,
        "0000 02 69 00 01 01 01 03 742a 00000064 00"
        " 01 00 10 01 00000064 02 06 72616e6765 02 aa 00 00",
        0,
        {
            "instance_id": "i",
            "rack_id": None,
            "client_id": "",
            "client_host": "",
            "subscribed_topic_names": [],
            "subscribed_topic_regex": "t*",
            "rebalance_timeout_ms": 100,
            "server_assignor": None,
            "classic_member_metadata": {
                "session_timeout_ms": 100,
                "supported_protocols": [{"name": "range", "metadata": b"\xaa"}],
            },
        },
    ),
    Golden(
        "consumer_group_target_assignment_metadata",
        f"0006 {_OF_GROUP}",
        _GROUP,
        "0000 00000008 01 00 08 0000000000000001",
        0,
        {"assignment_epoch": 8, "assignment_timestamp": 1},
    ),
    Golden(
        "consumer_group_target_assignment_member",
        f"0007 {_OF_MEMBER}",
        _MEMBER,
        f"0000 03 {_ID} 03 00000000 00000003 00 {_OTHER} 01 00 00",
        0,
        {
            "topic_partitions": [
                {"topic_id": ID, "partitions": [0, 3]},
                {"topic_id": b"\xff" * 16, "partitions": []},
            ]
        },
    ),
    Golden(
        "consumer_group_current_member_assignment",
        f"0008 {_OF_MEMBER}",
        _MEMBER,
        f"0000 00000005 00000004 01 02 {_ID} 02 00000003 00 02 {_ID} 02 00000004"
        " 01 00 05 02 00000005 00",
        0,
        {
            "member_epoch": 5,
            "previous_member_epoch": 4,
            "state": 1,
            "assigned_partitions": [{"topic_id": ID, "partitions": [3], "assignment_epochs": []}],
            "partitions_pending_revocation": [
                {"topic_id": ID, "partitions": [4], "assignment_epochs": [5]}
            ],
        },
    ),
    Golden(
        "consumer_group_current_member_assignment",
        f"0008 {_OF_MEMBER}",
        _MEMBER,
        f"0000 fffffffe 00000004 7f 02 {_ID} 01 01 00 01 00 01 00",
        0,
        {
            "member_epoch": -2,
            "previous_member_epoch": 4,
            "state": 127,
            "assigned_partitions": [{"topic_id": ID, "partitions": [], "assignment_epochs": None}],
            "partitions_pending_revocation": [],
        },
    ),
    *SHARE_AND_STREAMS,
]
