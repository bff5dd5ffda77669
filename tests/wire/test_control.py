"""Control columns: embedded metadata and its kind; it is decoded only where it is that of
consumers."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from kip848_spark.wire.control import ControlPlan, control_columns
from tests.kafka_oracle import ASSIGNMENT, SUBSCRIPTION
from tests.wire import scalar_writer
from tests.wire.scalar_comparison import binary, plan
from tests.wire.schema_definitions import records

SUBSCRIBED = {"topics": ["orders"], "userData": b"own", "ownedPartitions": []}
ASSIGNED: dict[str, Any] = {"assignedPartitions": [{"topic": "orders", "partitions": [1, 2]}]}
READABLE = scalar_writer.encode_embedded(SUBSCRIPTION, 1, SUBSCRIBED)
GIVEN = scalar_writer.encode_embedded(ASSIGNMENT, 1, ASSIGNED)
CONNECT = bytes.fromhex("0001 0015") + b"http://127.0.0.1:8083" + bytes(8)


def columns_of(key: bytes, value: bytes, kind: str) -> dict[str, Any]:
    control = ControlPlan.of(plan())
    found = control_columns(control, control.fields(), binary([key]), binary([value]))
    array: pa.Array = found[kind]
    array.validate(full=True)
    (row,) = array.to_pylist()
    return dict(row)


@pytest.mark.parametrize(
    ("protocol_type", "protocol", "subscription", "assignment", "kind", "is_read"),
    [
        ("consumer", "range", READABLE, GIVEN, "consumer", True),
        ("consumer", "range", READABLE, b"", "consumer", True),
        ("consumer", "stream", READABLE, GIVEN, "streams", True),
        ("consumer", "range", b"\xff\xff\0", b"\0", "unknown", False),
        ("consumer", None, b"", b"", None, False),
        ("connect", "sessioned", CONNECT, CONNECT, "connect", False),
        ("connect", "sessioned", READABLE, GIVEN, "connect", False),
        ("sr", "v0", b"{}", b"", "sr", False),
        ("", None, b"x", b"", "unknown", False),
        ("", None, b"", b"", None, False),
    ],
)
def test_a_classic_groups_metadata(
    protocol_type: str,
    protocol: str | None,
    subscription: bytes,
    assignment: bytes,
    kind: str | None,
    is_read: bool,
) -> None:
    member = {"memberId": "m", "subscription": subscription, "assignment": assignment}
    value = {"protocolType": protocol_type, "protocol": protocol, "members": [member]}
    record = records()[2]
    encoded = scalar_writer.encode_value(record, 3, value)
    found = columns_of(scalar_writer.encode_key(record, {"group": "g"}), encoded, "group_metadata")
    (output,) = found["members"]
    assert output["metadata_kind"] == kind
    assert (output["subscription"], output["assignment"]) == (subscription, assignment)
    assert (output["consumer_subscription"] is not None) == is_read
    if is_read:
        assert output["consumer_subscription"]["topics"] == ["orders"]
        assert output["consumer_subscription"]["user_data"] == b"own"
    if is_read and assignment:
        given = output["consumer_assignment"]["assigned_partitions"]
        assert given == [{"topic": "orders", "partitions": [1, 2]}]


def test_the_protocols_of_a_migrating_member() -> None:
    names = {"range": READABLE, "stream": READABLE, "odd": b"\xff\xff", "none": b""}
    protocols = [{"name": name, "metadata": octets} for name, octets in names.items()]
    record = records()[5]
    value = scalar_writer.encode_value(
        record, 0, {"classicMemberMetadata": {"supportedProtocols": protocols}}
    )
    key = scalar_writer.encode_key(record, {"groupId": "g", "memberId": "m"})
    found = columns_of(key, value, "consumer_group_member_metadata")
    shown = found["classic_member_metadata"]["supported_protocols"]
    kinds = {one["name"]: one["metadata_kind"] for one in shown}
    assert kinds == {"range": "consumer", "stream": "streams", "odd": "unknown", "none": None}
    assert [one["consumer_subscription"] is not None for one in shown] == [True, True, False, False]


def test_members_of_several_groups() -> None:
    """The protocol type of its own group decides for each member."""
    record = records()[2]
    made = [("consumer", 2), ("connect", 0), ("connect", 3), ("consumer", 1)]
    values = [
        scalar_writer.encode_value(
            record, 3, {"protocolType": type_, "members": [{"subscription": READABLE}] * count}
        )
        for type_, count in made
    ]
    keys = [scalar_writer.encode_key(record, {"group": str(number)}) for number in range(len(made))]
    control = ControlPlan.of(plan())
    found = control_columns(control, control.fields(), binary(keys), binary(values))
    kinds = [
        [member["metadata_kind"] for member in row["members"]]
        for row in found["group_metadata"].to_pylist()
    ]
    assert kinds == [["consumer"] * 2, [], ["connect"] * 3, ["consumer"]]
