"""The oracle says what a release's own classes say: bytes written by hand, and round trips."""

from __future__ import annotations

import pytest

from tests.kafka_oracle import ASSIGNMENT, SUBSCRIPTION, Encoded, Oracle, OracleError
from tests.kafka_releases import NEWEST, RELEASES

COMMIT = (
    bytes.fromhex("0001 0001 67 0001 74 00000007"),
    bytes.fromhex("0003 000000000000002a 00000005 0002 6869 0000018bcfe56800"),
)
COMMIT_JSON = {
    "type": 1,
    "key": {"group": "g", "topic": "t", "partition": 7},
    "version": 3,
    "value": {
        "offset": 42,
        "leaderEpoch": 5,
        "metadata": "hi",
        "commitTimestamp": 1_700_000_000_000,
    },
    "canonical": True,
}
TOMBSTONE_JSON = COMMIT_JSON | {"version": None, "value": None}


@pytest.mark.parametrize("release", RELEASES)
def test_every_release_reads_a_commit_and_its_tombstone(release: str) -> None:
    pairs = [COMMIT, (COMMIT[0], None)]
    assert Oracle(release).decode(pairs) == [COMMIT_JSON, TOMBSTONE_JSON]


def test_releases_differ_in_one_process() -> None:
    """The early-access broker's key 4 begins with an epoch; later ones have no such field."""
    record = (bytes.fromhex("0004 0001 67"), bytes.fromhex("0000 00000007 01 00"))
    early = Oracle("3.7.2").decode([record])[0]
    assert early["value"] == {"epoch": 7, "topics": []}
    assert "topics was serialized as null" in Oracle("4.0.2").decode([record])[0]["error"]


def test_a_tag_the_release_does_not_know_is_kept() -> None:
    record = (
        bytes.fromhex("0003 0001 67"),
        bytes.fromhex("0000 00000007 01 00 08 0000000000000063"),
    )
    hashed = {"epoch": 7, "metadataHash": 99}
    assert Oracle("4.1.2").decode([record])[0]["value"] == hashed
    older = Oracle("4.0.2").decode([record])[0]
    assert (older["value"], older["canonical"]) == ({"epoch": 7}, True)


def test_not_canonical() -> None:
    longer_varint = (bytes.fromhex("0003 0001 67"), bytes.fromhex("0000 00000007 8000"))
    answer = Oracle().decode([longer_varint])[0]
    assert (answer["value"], answer["canonical"]) == ({"epoch": 7}, False)


def test_what_the_release_reads_and_could_not_write() -> None:
    highest_tag = (bytes.fromhex("0003 0001 67"), bytes.fromhex("0000 00000007 01 ffffffff07 00"))
    answer = Oracle().decode([highest_tag])[0]
    assert (answer["value"], answer["canonical"]) == ({"epoch": 7}, False)


@pytest.mark.parametrize(
    ("key", "value", "output"),
    [
        (None, None, "NullPointerException"),
        (b"", None, "Could not read version from key's buffer"),
        (b"\0\x09\0\1g", None, "UnknownRecordTypeException"),
        (b"\0\3\0\1g", b"\0\5", "UnknownRecordVersionException"),
        (b"\0\3\0\1g", b"\0\0\0", "Could not read record with version 0 from value's buffer"),
        (b"\0\3\0\5g", None, "Could not read record with version 3 from key's buffer"),
    ],
)
def test_exceptions_are_answers(key: bytes | None, value: bytes | None, output: str) -> None:
    before, answer, after = Oracle().decode([COMMIT, (key, value), COMMIT])
    assert answer.keys() == {"error"}
    assert output in answer["error"]
    assert before == after == COMMIT_JSON


def test_more_than_one_chunk() -> None:
    answers = Oracle().decode([COMMIT, (COMMIT[0], None)] * 10_001)
    assert answers == [COMMIT_JSON, TOMBSTONE_JSON] * 10_001


def test_nothing() -> None:
    assert Oracle().decode([]) == []
    assert Oracle().encode([]) == []


@pytest.mark.parametrize("release", [release for release in RELEASES if release != "3.7.2"])
def test_encode(release: str) -> None:
    commit = {
        "key_type": 1,
        "key": COMMIT_JSON["key"],
        "version": 3,
        "value": COMMIT_JSON["value"],
    }
    wrong = commit | {"value": {"offset": 42}}
    written, tombstone, refused = Oracle(release).encode([commit, commit | {"value": None}, wrong])
    assert written == Encoded(*COMMIT, None)
    assert tombstone == Encoded(COMMIT[0], None, None)
    assert refused.error is not None
    assert "leaderEpoch" in refused.error


def test_early_access_jars_have_no_json_readers() -> None:
    record = {"key_type": 3, "version": 0, "key": {"groupId": "g"}, "value": {"epoch": 1}}
    assert "ClassNotFoundException" in str(Oracle("3.7.2").encode([record])[0].error)


@pytest.mark.parametrize("release", RELEASES)
def test_embedded(release: str) -> None:
    oracle = Oracle(release)
    subscription = bytes.fromhex(
        "0001 00000001 0001 74 ffffffff 00000001 0001 74 00000001 00000003"
    )
    newer = bytes.fromhex("0007 00000000 ffffffff 00000000 00000009 ffff") + b"more"
    read, later, underflow, negative = oracle.decode_embedded(
        SUBSCRIPTION, [subscription, newer, b"\0", b"\xff\xff"]
    )
    value = {
        "topics": ["t"],
        "userData": None,
        "ownedPartitions": [{"topic": "t", "partitions": [3]}],
    }
    assert read == {"version": 1, "value": value, "rest": 0, "canonical": True}
    assert (later["version"], later["value"]["generationId"], later["rest"]) == (7, 9, 4)
    assert "underflow" in underflow["error"]
    assert "Unsupported subscription version: -1" in negative["error"]
    encoded = oracle.encode_embedded(SUBSCRIPTION, [{"version": 1, "value": value}])
    assert encoded == [Encoded(subscription, None, None)]

    assignment = bytes.fromhex("0000 00000001 0001 74 00000002 00000000 00000001 00000002 6869")
    given = {"assignedPartitions": [{"topic": "t", "partitions": [0, 1]}], "userData": "aGk="}
    expected = {"version": 0, "value": given, "rest": 0, "canonical": True}
    assert oracle.decode_embedded(ASSIGNMENT, [assignment]) == [expected]


def test_a_failure_of_the_whole_is_raised_and_survived() -> None:
    with pytest.raises(OracleError, match="NoSuchMessage"):
        Oracle(NEWEST).decode_embedded("NoSuchMessage", [b""])
    assert Oracle(NEWEST).decode([COMMIT]) == [COMMIT_JSON]
