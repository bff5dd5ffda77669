"""The stated rules of the scalar codec against bytes made by hand."""

from __future__ import annotations

import pytest

from tests.kafka_oracle import Oracle
from tests.wire import scalar, scalar_writer
from tests.wire.scalar import UNKNOWN_TAGS, Plain
from tests.wire.schema_definitions import messages, records

GROUP = "0003 0001 67"
"""A key 3, whose value is an epoch and tags: 0 is the metadata hash."""
COMMIT = "0001 0001 67 0001 74 00000000"
MEMBER = "0005 0001 67 0001 6d"
"""A key 5, and a value of it up to its tags."""
MEMBER_VALUE = "0000 00 00 01 01 01 00 ffffffff 00"
ASSIGNMENT_KEY = "0008 0001 67 0001 6d"
STREAMS_MEMBER = "0013 0001 67 0001 6d"
TOPIC_ID = "00" * 16


@pytest.mark.parametrize(
    ("key", "value", "reason", "side", "position"),
    [
        (None, None, "null_key", "key", 0),
        ("", None, "empty_key", "key", 0),
        ("00", None, "truncated", "key", 0),
        ("0009 0001 67", None, "unknown_key_type", "key", 0),
        ("ffff", None, "unknown_key_type", "key", 0),
        ("0018 0001 67", "0000", "unknown_key_type", "key", 0),
        ("0003", None, "truncated", "key", 2),
        ("0003 00", None, "truncated", "key", 2),
        ("0003 0002 67", None, "bad_length", "key", 2),
        ("0003 ffff", None, "null_not_allowed", "key", 2),
        ("0003 fffe 67", None, "bad_length", "key", 2),
        ("0003 0001 ff", None, "bad_utf8", "key", 2),
        ("0003 0003 eda080", None, "bad_utf8", "key", 2),
        ("0003 0002 c080", None, "bad_utf8", "key", 2),
        ("0003 0004 f4908080", None, "bad_utf8", "key", 2),
        ("0003 0001 67 00", None, "trailing_bytes", "key", 5),
        ("0001 0001 67 0001 74 000000", None, "truncated", "key", 8),
        ("0009", "zz", "unknown_key_type", "key", 0),
        (GROUP, "", "empty_value", "value", 0),
        (GROUP, "00", "truncated", "value", 0),
        (GROUP, "0001 00000001 00", "unknown_value_version", "value", 0),
        (GROUP, "ffff 00000001 00", "unknown_value_version", "value", 0),
        ("0000 0001 67 0001 74 00000000", "0001", "unknown_value_version", "value", 0),
        (GROUP, "0000 000001", "truncated", "value", 2),
        (GROUP, "0000 00000001", "truncated", "value", 6),
        (GROUP, "0000 00000001 00 00", "trailing_bytes", "value", 7),
        (GROUP, "0000 00000001 01", "bad_length", "value", 6),
        (GROUP, "0000 00000001 ffffffff0f", "bad_length", "value", 6),
        (GROUP, "0000 00000001 ffffffff1f", "bad_varint", "value", 6),
        (GROUP, "0000 00000001 808080808000", "bad_varint", "value", 6),
        (GROUP, "0000 00000001 80808080", "truncated", "value", 6),
        (GROUP, "0000 00000001 01 05", "bad_length", "value", 6),
        (GROUP, "0000 00000001 02 05 00 06", "bad_length", "value", 6),
        (GROUP, "0000 00000001 01 05 80", "truncated", "value", 8),
        (GROUP, "0000 00000001 01 80 80", "truncated", "value", 7),
        (GROUP, "0000 00000001 01 05 01", "bad_length", "value", 8),
        (GROUP, "0000 00000001 02 05 00 05 00", "bad_tag", "value", 9),
        (GROUP, "0000 00000001 02 05 00 04 00", "bad_tag", "value", 9),
        (GROUP, "0000 00000001 01 8080808008 00", "bad_tag", "value", 7),
        (GROUP, "0000 00000001 01 ffffffff0f 00", "bad_tag", "value", 7),
        (GROUP, "0000 00000001 01 00 07 00000000000000", "truncated", "value", 9),
        (GROUP, "0000 00000001 01 00 07 0000000000000000", "truncated", "value", 9),
        (GROUP, "0000 00000001 01 00 09 000000000000000000", "bad_tag", "value", 7),
        (COMMIT, "0003 0000000000000000 00000000 ffff", "null_not_allowed", "value", 14),
        (COMMIT, "0003 0000000000000000 00000000 0001", "bad_length", "value", 14),
        (COMMIT, "0003 0000000000000000 00000000 8000", "bad_length", "value", 14),
        (COMMIT, "0004 0000000000000000 00000000 00", "null_not_allowed", "value", 14),
        (COMMIT, "0004 0000000000000000 00000000 03 61", "bad_length", "value", 14),
        (COMMIT, "0004 0000000000000000 00000000 818002" + "61" * 32768, "bad_length", "value", 14),
        (MEMBER, f"{MEMBER_VALUE} 01 00 01 02", "bad_presence", "value", 16),
        (MEMBER, f"{MEMBER_VALUE} 01 00 01 ff", "truncated", "value", 16),
        (MEMBER, f"{MEMBER_VALUE} 01 00 01 01", "truncated", "value", 17),
        (STREAMS_MEMBER, "0000 00 00 01 01 ffffffff 00000000 01 00", "bad_presence", "value", 15),
        (STREAMS_MEMBER, "0000 00 00 01 01 ffffffff 00000000 01 fe", "bad_presence", "value", 15),
        (ASSIGNMENT_KEY, "0000 00000000 00000000 00 00", "null_not_allowed", "value", 11),
        (ASSIGNMENT_KEY, "0000 00000000 00000000 00 ffffffff07", "bad_length", "value", 11),
        (ASSIGNMENT_KEY, "0000 00000000 00000000 00 02 00", "truncated", "value", 12),
        (
            ASSIGNMENT_KEY,
            f"0000 00000000 00000000 00 02 {TOPIC_ID} 03 00000001 000000",
            "truncated",
            "value",
            33,
        ),
        (
            ASSIGNMENT_KEY,
            f"0000 00000000 00000000 00 02 {TOPIC_ID} 03 0000",
            "truncated",
            "value",
            29,
        ),
        (
            ASSIGNMENT_KEY,
            f"0000 00000000 00000000 00 02 {TOPIC_ID} 04 0000",
            "bad_length",
            "value",
            28,
        ),
        (
            "0002 0001 67",
            "0000 0000 00000000 ffff ffff 00000001 0001 6d 0000 0000 00000000 ffffffff",
            "null_not_allowed",
            "value",
            27,
        ),
        (
            "0002 0001 67",
            "0000 0000 00000000 ffff ffff fffffffe",
            "bad_length",
            "value",
            12,
        ),
    ],
)
def test_reasons_and_positions(
    key: str | None, value: str | None, reason: str, side: str, position: int
) -> None:
    key_bytes = None if key is None else bytes.fromhex(key)
    value_bytes = None if value is None or value == "zz" else bytes.fromhex(value)
    error = scalar.decode(key_bytes, value_bytes).error
    assert error is not None
    assert (error.reason, error.side, error.position) == (reason, side, position)


@pytest.mark.parametrize(
    ("key", "value", "plain", "tags"),
    [
        (GROUP, "0000 00000007 00", {"epoch": 7, "metadataHash": 0}, 0),
        (GROUP, "0000 00000007 01 00 08 ffffffffffffffff", {"epoch": 7, "metadataHash": -1}, 0),
        (
            GROUP,
            "0000 00000007 02 05 00 feffffff07 02 6869",
            {
                "epoch": 7,
                "metadataHash": 0,
                UNKNOWN_TAGS: [(5, b""), (2**31 - 2, b"hi")],
            },
            2,
        ),
        (
            COMMIT,
            "0001 000000000000002a 0001 78 0000000000000001 0000000000000002",
            {
                "offset": 42,
                "leaderEpoch": -1,
                "metadata": "x",
                "commitTimestamp": 1,
                "expireTimestamp": 2,
                "topicId": bytes(16),
            },
            0,
        ),
        (
            COMMIT,
            "0004 000000000000002a 00000005 02 78 0000000000000001 01 00 10" + "ab" * 16,
            {
                "offset": 42,
                "leaderEpoch": 5,
                "metadata": "x",
                "commitTimestamp": 1,
                "expireTimestamp": -1,
                "topicId": b"\xab" * 16,
            },
            0,
        ),
    ],
)
def test_bytes_by_hand(key: str, value: str, plain: Plain, tags: int) -> None:
    pair = (bytes.fromhex(key), bytes.fromhex(value))
    decoded = scalar.decode(*pair)
    assert decoded.error is None
    assert decoded.value == plain
    assert decoded.unknown_tags == tags
    assert decoded.version is not None
    record = records()[pair[0][1]]
    assert scalar_writer.encode_value(record, decoded.version, plain) == pair[1]
    assert Oracle().decode([pair])[0]["canonical"]


@pytest.mark.parametrize(
    ("tags", "plain"),
    [
        ("00", {"sessionTimeoutMs": 0, "supportedProtocols": []}),
        ("01 00 01 00", None),
        (
            "01 00 0b 01 00000001 02 01 02 61 00 00",
            {"sessionTimeoutMs": 1, "supportedProtocols": [{"name": "", "metadata": b"a"}]},
        ),
    ],
)
def test_a_tagged_struct_that_is_absent_null_or_there(tags: str, plain: Plain | None) -> None:
    pair = (bytes.fromhex(MEMBER), bytes.fromhex(MEMBER_VALUE + tags))
    decoded = scalar.decode(*pair)
    assert decoded.error is None
    assert decoded.value is not None
    assert decoded.value["classicMemberMetadata"] == plain
    assert scalar_writer.encode_value(records()[5], 0, decoded.value) == pair[1]
    assert Oracle().decode([pair])[0]["canonical"]


def test_the_key_of_a_bad_value_is_still_known() -> None:
    decoded = scalar.decode(bytes.fromhex(GROUP), b"\0\0\0")
    assert (decoded.key, decoded.version, decoded.value) == ({"groupId": "g"}, 0, None)


# --- refusals of the encoder -----------------------------------------------------------------


@pytest.mark.parametrize(
    ("key_type", "version", "value", "output"),
    [
        (1, 5, {}, "no version 5"),
        (1, 3, {"offsett": 1}, "no such fields"),
        (1, 3, {"metadata": None}, "metadata can't be null"),
        (1, 3, {"metadata": "x" * 32768}, "longer than 32767"),
        (1, 3, {UNKNOWN_TAGS: [(1, b"")]}, "has no tags"),
        (3, 0, {"metadataHash": 1, UNKNOWN_TAGS: [(0, b"")]}, "twice"),
        (2, 0, {"members": [{"memberId": None}]}, "memberId can't be null"),
    ],
)
def test_refusals(key_type: int, version: int, value: Plain, output: str) -> None:
    with pytest.raises(ValueError, match=output):
        scalar_writer.encode_value(records()[key_type], version, value)


def test_a_field_the_version_lacks() -> None:
    """Left out if the definition calls it ignorable, as the leader epoch of a commit is."""
    encoded = scalar_writer.encode_value(records()[1], 0, {"leaderEpoch": 5})
    assert encoded == scalar_writer.encode_value(records()[1], 0, {})
    assert not messages("shipped")["ConsumerGroupMetadataValue"].fields[0].ignorable
