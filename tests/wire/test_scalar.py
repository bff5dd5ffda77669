"""The scalar codec against Kafka's own classes."""

from __future__ import annotations

import random
from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings

from tests.kafka_oracle import ASSIGNMENT, SUBSCRIPTION, Oracle
from tests.kafka_releases import NEWEST, RELEASES, message_definitions
from tests.wire import scalar, scalar_writer
from tests.wire.scalar import UNKNOWN_TAGS, MalformedError
from tests.wire.schema_definitions import Message, Record, messages, records
from tests.wire.strategies import Bulk, Sample, damaged, samples
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
        json = scalar_writer.to_kafka_json(
            value or sample.record.value, sample.version, sample.value
        )
    return {
        "type": sample.record.key_type,
        "key": scalar_writer.to_kafka_json(key or sample.record.key, 0, sample.key),
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
    blobs = [scalar_writer.encode_embedded(name, version, value) for value in made]
    jsons = [scalar_writer.to_kafka_json(message, version, value) for value in made]
    for value, blob in zip(made, blobs, strict=True):
        assert scalar.decode_embedded(name, blob) == (version, value, b"")
    for answer, json in zip(Oracle().decode_embedded(name, blobs), jsons, strict=True):
        assert answer == {"version": version, "value": json, "rest": 0, "canonical": True}
    asked = [{"version": version, "value": json} for json in jsons]
    assert [it.key for it in Oracle().encode_embedded(name, asked)] == blobs


def test_embedded_metadata_of_a_later_version() -> None:
    value = {"topics": ["t"], "userData": None, "ownedPartitions": [], "generationId": 4}
    blob = scalar_writer.encode_embedded(SUBSCRIPTION, 3, value)
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
        scalar_writer.encode_key(record, ours.key),
        scalar_writer.encode_value(record, ours.version, ours.value),
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
