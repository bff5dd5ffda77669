"""The scalar codec against Kafka's own classes, and its stated rules against bytes made by hand."""

from __future__ import annotations

import random
from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings

from tests.kafka_oracle import ASSIGNMENT, SUBSCRIPTION, Oracle
from tests.kafka_releases import NEWEST, RELEASES, message_definitions
from tests.wire import scalar
from tests.wire.definitions import Field, Message, Record, messages, records
from tests.wire.scalar import UNKNOWN_TAGS, MalformedError, Plain
from tests.wire.strategies import Bulk, Sample, damaged, samples, values
from tests.wire.test_schemas_conform import NOT_READ

FOLDERS = ("shipped", "kip", "kip_ea37", "kip_draft")
EMBEDDED = [(name, version) for name in (SUBSCRIPTION, ASSIGNMENT) for version in range(4)]
BATCH = 400
LONG_BATCH = 10_000

OURS_ALONE = {
    "bad_length",
    "bad_presence",
    "bad_tag",
    "bad_utf8",
    "bad_varint",
    "trailing_bytes",
    "truncated",  # by the size of a tag: Kafka does not look at that
}
"""Reasons for which we refuse what Kafka takes."""


def layouts(folder: str) -> list[Any]:
    """Every key type with every value version, and with none (a tombstone)."""
    return [
        pytest.param(record, version, id=f"{record.key_type}-{record.kind}-v{version}")
        for record in records(folder).values()
        for version in (*record.value.valid, None)
    ]


def expected_json(
    sample: Sample, key: Message | None = None, value: Message | None = None
) -> dict[str, Any]:
    """What the oracle should say, read by these definitions or else by ours."""
    json = None
    if sample.value is not None:
        assert sample.version is not None
        json = scalar.to_kafka_json(value or sample.record.value, sample.version, sample.value)
    return {
        "type": sample.record.key_type,
        "key": scalar.to_kafka_json(key or sample.record.key, 0, sample.key),
        "version": sample.version,
        "value": json,
        "canonical": True,
    }


def unknown_tags(value: Any) -> list[int]:
    """The tags that no definition knows, of a value and all in it."""
    if isinstance(value, list):
        return [tag for item in value for tag in unknown_tags(item)]
    if not isinstance(value, dict):
        return []
    own = [tag for tag, _ in value.get(UNKNOWN_TAGS, [])]
    inner = [item for name, item in value.items() if name != UNKNOWN_TAGS]
    return own + unknown_tags(inner)


def check_own_round_trip(sample: Sample, folder: str) -> None:
    decoded = scalar.decode(*sample.encoded(), folder)
    assert decoded.error is None
    assert (decoded.key_type, decoded.kind) == (sample.record.key_type, sample.record.kind)
    assert (decoded.key, decoded.value) == (sample.key, sample.value)
    assert (decoded.version, decoded.tombstone) == (sample.version, sample.value is None)
    assert decoded.unknown_tags == len(unknown_tags(sample.value))


def check_against_kafka(made: Iterable[Sample]) -> None:
    made = list(made)
    for sample, answer in zip(made, Oracle().decode(s.encoded() for s in made), strict=True):
        assert answer == expected_json(sample)


def check_kafkas_encoder(made: Iterable[Sample]) -> None:
    """JSON in, bytes out; unknown tags have no place in the JSON, so the samples have none."""
    made = list(made)
    asked = []
    for sample in made:
        json = expected_json(sample)
        json["key_type"] = json["type"]
        asked.append(json)
    for sample, encoded in zip(made, Oracle().encode(asked), strict=True):
        assert encoded == (*sample.encoded(), None)


# --- round trips -----------------------------------------------------------------------------


@pytest.mark.parametrize(("record", "version"), layouts("shipped"))
def test_kafka_agrees(record: Record, version: int | None) -> None:
    made = list(Bulk(seed=1).samples(record, version, BATCH))
    for sample in made:
        check_own_round_trip(sample, "shipped")
    check_against_kafka(made)
    check_kafkas_encoder(Bulk(seed=2, unknown_tags=False).samples(record, version, BATCH))


@pytest.mark.long
@pytest.mark.parametrize(("record", "version"), layouts("shipped"))
def test_kafka_agrees_at_length(record: Record, version: int | None) -> None:
    check_against_kafka(Bulk(seed=3).samples(record, version, LONG_BATCH))
    check_kafkas_encoder(Bulk(seed=4, unknown_tags=False).samples(record, version, LONG_BATCH))


@pytest.mark.parametrize(("record", "version"), layouts("kip") + layouts("kip_draft"))
def test_layouts_no_release_ever_had(record: Record, version: int | None) -> None:
    folder = "kip" if record in records("kip").values() else "kip_draft"
    for sample in Bulk(seed=5).samples(record, version, BATCH):
        check_own_round_trip(sample, folder)


@pytest.mark.parametrize("release", [release for release in RELEASES if release != NEWEST])
def test_older_releases_read_what_they_know_of_it(release: str) -> None:
    """Our bytes, tags of later releases among them, as an older release's classes read them."""
    folder = "kip_ea37" if release == "3.7.2" else "shipped"
    theirs = {name: Message.parse(d) for name, d in message_definitions(release).items()}
    bulk = Bulk(seed=6)
    made: list[Sample] = []
    expected = []
    for record in records(folder).values():
        value = theirs.get(record.value.name)
        if record.key_type == 0:  # before 4.1 the definitions of type 1 served type 0 too
            value = value or theirs["OffsetCommitValue"]
        if value is None or value.name in NOT_READ.get(release, set()):
            continue
        for version in (*record.value.valid, None):
            for sample in bulk.samples(record, version, 100):
                made.append(sample)
                expected.append(expected_json(sample, value=value))
    assert len(made) > 2000
    for answer, right in zip(
        Oracle(release).decode(s.encoded() for s in made), expected, strict=True
    ):
        assert answer == right


@given(samples())
@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_kafka_agrees_on_what_hypothesis_finds(sample: Sample) -> None:
    check_own_round_trip(sample, "shipped")
    check_against_kafka([sample])


@given(samples(unknown_tags=False))
@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_kafkas_encoder_agrees_on_what_hypothesis_finds(sample: Sample) -> None:
    check_kafkas_encoder([sample])


@pytest.mark.parametrize(("name", "version"), EMBEDDED)
def test_embedded_consumer_metadata(name: str, version: int) -> None:
    message = messages("consumer_protocol")[name]
    made = list(Bulk(seed=7).values(message, version, BATCH))
    blobs = [scalar.encode_embedded(name, version, value) for value in made]
    jsons = [scalar.to_kafka_json(message, version, value) for value in made]
    for value, blob in zip(made, blobs, strict=True):
        assert scalar.decode_embedded(name, blob) == (version, value, b"")
    for answer, json in zip(Oracle().decode_embedded(name, blobs), jsons, strict=True):
        assert answer == {"version": version, "value": json, "rest": 0, "canonical": True}
    asked = [{"version": version, "value": json} for json in jsons]
    assert [it.key for it in Oracle().encode_embedded(name, asked)] == blobs


def test_embedded_metadata_of_a_later_version() -> None:
    value = {"topics": ["t"], "userData": None, "ownedPartitions": [], "generationId": 4}
    blob = scalar.encode_embedded(SUBSCRIPTION, 3, value)
    later = b"\0\x09" + blob[2:] + b"more"
    read = scalar.decode_embedded(SUBSCRIPTION, later)
    assert read == (9, value | {"rackId": None}, b"more")
    answer = Oracle().decode_embedded(SUBSCRIPTION, [later])[0]
    assert (answer["version"], answer["rest"]) == (9, 4)
    with pytest.raises(MalformedError, match="unknown_value_version at byte 0"):
        scalar.decode_embedded(SUBSCRIPTION, b"\xff\xff" + blob[2:])
    with pytest.raises(MalformedError, match="truncated at byte 0"):
        scalar.decode_embedded(SUBSCRIPTION, b"\0")


# --- damaged bytes ---------------------------------------------------------------------------


def check_damaged(seed: int, count: int) -> set[str]:
    """Damaged records by us and by Kafka; gives the reasons met."""
    draw = random.Random(seed)
    bulk = Bulk(seed)
    met = set()
    for record in records().values():
        for version in record.value.valid:
            good = [sample.encoded() for sample in bulk.samples(record, version, count)]
            bad: list[tuple[bytes, bytes | None]] = []
            for key, value in good:
                assert value is not None
                other_key, other_value = draw.choice(good)
                if draw.random() < 0.3:
                    bad.append((damaged(draw, key, other_key), value))
                else:
                    bad.append((key, damaged(draw, value, other_value or b"")))
            for pair, answer in zip(bad, Oracle().decode(bad), strict=True):
                met.add(check_one_damaged(pair, answer))
    return met


def check_one_damaged(pair: tuple[bytes, bytes | None], answer: dict[str, Any]) -> str:
    ours = scalar.decode(*pair)
    if ours.error is not None:
        side = pair[0] if ours.error.side == "key" else pair[1]
        assert side is not None
        assert 0 <= ours.error.position <= len(side)
        assert "error" in answer or ours.error.reason in OURS_ALONE, (pair, answer)
        return ours.error.reason
    assert ours.key_type is not None
    assert ours.key is not None
    assert ours.value is not None
    assert ours.version is not None
    record = records()[ours.key_type]
    again = (
        scalar.encode_key(record, ours.key),
        scalar.encode_value(record, ours.version, ours.value),
    )
    writable = scalar.HIGHEST_TAG not in unknown_tags(ours.value)  # Kafka reads it, and no more
    right = expected_json(Sample(record, ours.key, ours.version, ours.value))
    assert answer == right | {"canonical": again == pair and writable}, pair
    return "none"


def test_what_we_accept_of_damaged_records_kafka_reads_the_same() -> None:
    met = check_damaged(seed=8, count=BATCH)
    assert met >= OURS_ALONE | {"none", "null_not_allowed", "empty_key"}


@pytest.mark.long
def test_damaged_records_at_length() -> None:
    check_damaged(seed=9, count=LONG_BATCH)


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
    assert scalar.encode_value(record, decoded.version, plain) == pair[1]
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
    assert scalar.encode_value(records()[5], 0, decoded.value) == pair[1]
    assert Oracle().decode([pair])[0]["canonical"]


def test_the_key_of_a_bad_value_is_still_known() -> None:
    decoded = scalar.decode(bytes.fromhex(GROUP), b"\0\0\0")
    assert (decoded.key, decoded.version, decoded.value) == ({"groupId": "g"}, 0, None)


# --- refusals of the encoder -----------------------------------------------------------------


@pytest.mark.parametrize(
    ("key_type", "version", "value", "said"),
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
def test_refusals(key_type: int, version: int, value: Plain, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        scalar.encode_value(records()[key_type], version, value)


def test_a_field_the_version_lacks() -> None:
    """Left out if the definition calls it ignorable, as the leader epoch of a commit is."""
    encoded = scalar.encode_value(records()[1], 0, {"leaderEpoch": 5})
    assert encoded == scalar.encode_value(records()[1], 0, {})
    assert not messages("shipped")["ConsumerGroupMetadataValue"].fields[0].ignorable


# --- the generators --------------------------------------------------------------------------


def seen(fields: tuple[Field, ...], version: int, value: Plain, met: set[tuple[str, str]]) -> None:
    for field in fields:
        if version not in field.versions:
            continue
        item = value[field.key]
        if field.is_nullable(version):
            met.add((field.key, "null" if item is None else "not null"))
        if field.is_tagged(version):
            met.add((field.key, "default" if item == field.default else "not default"))
        if field.array and item is not None:
            met.add((field.key, "empty" if not item else "many" if len(item) > 60 else "some"))
        inner = item if field.array else [item]
        if field.type == "struct":
            for each in inner or []:
                if each is not None:
                    seen(field.fields, version, each, met)
        elif item is not None and field.type == "string":
            for text in inner:
                met.add((field.key, "empty text" if not text else "text"))
                if any(ord(character) > 0xFFFF for character in text):
                    met.add((field.key, "astral"))


def due(fields: tuple[Field, ...], version: int) -> set[tuple[str, str]]:
    wanted: set[tuple[str, str]] = set()
    for field in fields:
        if version not in field.versions:
            continue
        wanted |= due(field.fields, version)
        if field.is_nullable(version):
            wanted |= {(field.key, "null"), (field.key, "not null")}
        if field.is_tagged(version):
            wanted |= {(field.key, "default"), (field.key, "not default")}
        if field.array:
            wanted |= {(field.key, "empty"), (field.key, "some")}
            if field.type != "struct":
                wanted |= {(field.key, "many")}
        if field.type == "string":
            wanted |= {(field.key, "empty text"), (field.key, "text"), (field.key, "astral")}
    return wanted


@pytest.mark.parametrize("folder", FOLDERS)
def test_the_bulk_generator_leaves_nothing_out(folder: str) -> None:
    bulk = Bulk(seed=10)
    for record in records(folder).values():
        for version in record.value.valid:
            met: set[tuple[str, str]] = set()
            tags: list[int] = []
            for value in bulk.values(record.value, version, 1500):
                seen(record.value.fields, version, value, met)
                tags += unknown_tags(value)
            assert due(record.value.fields, version) <= met, (record.value.name, version)
            assert bool(tags) == (version in record.value.flexible)


def test_the_same_seed_gives_the_same_values() -> None:
    message = messages("shipped")["GroupMetadataValue"]
    assert [*Bulk(1).values(message, 4, 50)] == [*Bulk(1).values(message, 4, 50)]
    assert [*Bulk(1).values(message, 4, 50)] != [*Bulk(2).values(message, 4, 50)]


@given(values(messages("shipped")["StreamsGroupTopologyValue"], 0))
@settings(max_examples=50, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_the_deepest_message(value: Plain) -> None:
    check_against_kafka([Sample(records()[23], {"groupId": "g"}, 0, value)])
