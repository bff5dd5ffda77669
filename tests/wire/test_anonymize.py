"""Anonymized records contain no names, and are otherwise unchanged."""

from __future__ import annotations

import base64
import json
import random
import uuid
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kip848_spark.kafka.snapshot import ClusterSnapshot
from kip848_spark.lake.erasure import Erasure
from kip848_spark.wire.anonymize import NameCollector, Pseudonyms, rewrite
from kip848_spark.wire.array_types import BoolArray
from kip848_spark.wire.control import ControlPlan
from kip848_spark.wire.decode import DecodePlan, decode
from kip848_spark.wire.definitions import load_shipped
from kip848_spark.wire.faults import Reason
from kip848_spark.wire.java_reader import java_text
from kip848_spark.wire.kafka_json import json_lines
from tests.captures import LIVE, RECORDS, read_dump, read_live
from tests.wire import scalar, scalar_writer
from tests.wire.mutations import arrays
from tests.wire.schema_definitions import records

PLAN = ControlPlan.of(DecodePlan.of(load_shipped()))
SECRET = b"only for this test"


def renamed(capture: Path) -> tuple[pa.Table, pa.Array, pa.Array]:
    table = pq.read_table(capture / RECORDS).combine_chunks()
    keys, values = table["key"].combine_chunks(), table["value"].combine_chunks()
    names = NameCollector()
    rewrite(PLAN, keys, values, names)
    new_keys, new_values, good = rewrite(PLAN, keys, values, Pseudonyms.of(names.found, SECRET))
    assert good.all()
    return table, new_keys, new_values


def names_of(live: ClusterSnapshot) -> set[str]:
    members = [member for group in live.groups.values() for member in group.members]
    metadata = {o.metadata for offsets in live.offsets.values() for o in offsets if o.metadata}
    return {
        *live.groups,
        *(t.name for t in live.topics.values() if not t.internal),
        *(member.client_id for member in members),
        *(member.client_host for member in members),
        *(member.instance_id for member in members if member.instance_id),
        *metadata,
    }


def test_no_name_is_left(capture: Path) -> None:
    _, keys, values = renamed(capture)
    left = b"\n".join(raw for raw in (*keys.to_pylist(), *values.to_pylist()) if raw)
    live = names_of(read_live(capture / LIVE))
    assert len(live) > 40
    # A client id such as "A" is in any bytes; longer ones are not by accident.
    leaked = {name for name in live if len(name) > 2 and name.encode() in left}
    assert leaked == set()


def shape(value: Any) -> Any:
    """A record without its names and their hashes: the numbers and the structure."""
    if isinstance(value, dict):
        hashes = {name: bool(value[name]) for name in value.keys() & {"metadataHash"}}
        return {name: shape(item) for name, item in value.items()} | hashes
    if isinstance(value, list):
        return [shape(item) for item in value]
    return "" if isinstance(value, str) else value


def test_only_names_are_changed(capture: Path) -> None:
    table, keys, values = renamed(capture)
    places = (
        table["partition"].to_numpy(),
        table["offset"].to_numpy(),
        table["timestamp"].cast("int64").to_numpy() // 1000,
    )
    ours = [json.loads(line) for line in json_lines(PLAN, *places, keys, values)]
    theirs = [line for line in read_dump(capture / "dump.jsonl.gz") if "key" in line]
    pairs: dict[str, str] = {}
    for mine, kafka in zip(ours, theirs, strict=True):
        assert shape(mine["key"]) == shape(kafka["key"])
        assert shape(mine["value"]) == shape(kafka["payload"])
        group = next(iter(kafka["key"]["data"].values()))
        new = next(iter(mine["key"]["data"].values()))
        assert pairs.setdefault(group, new) == new
    assert len(set(pairs.values())) == len(pairs) > 15
    assert [pairs[name] for name in sorted(pairs)] == sorted(pairs.values())


def test_records_that_cannot_be_decoded_are_null() -> None:
    key = bytes.fromhex("0003000167")
    keys = pa.array([key, b"\x00\x63secret", key, None], pa.binary())
    values = pa.array(
        [bytes.fromhex("00000000000500"), b"secret", b"\x00\x00sec", b"x"], pa.binary()
    )
    _, _, good = rewrite(PLAN, keys, values, Pseudonyms({}, SECRET))
    assert good.tolist() == [True, False, False, False]


def test_many_names_keep_their_order() -> None:
    """An assignor sorts topics by their names, so another order would be another assignment."""
    names = [f"{number:07d}" for number in range(1_000_002)]
    new = Pseudonyms.of({"topic": set(names)}, SECRET).ordinals["topic"]
    ordered = [new[name] for name in names]
    assert ordered == sorted(ordered)


@pytest.mark.parametrize(
    "name",
    [
        "demo-EMqWgRveQ3ed8o9jXZ/+ew",
        "consumer-1",
        "payments-service-prod1",  # as long as a UUID in base64
        "PaymentsServiceProduct",
        "EMqWgRveA3ed8o9jXZ/+ew",  # of another version
        "EMqWgRveQ3ed8o9jXZ/+ex",  # of more than 128 bits
        "EMqWgRveQ3ed8o9jXZ/-ew",  # of two alphabets
        "2fd5c8a1-8a5e-1c43-9d2b-000000000000",  # of a host and a time
    ],
)
def test_a_member_id_that_may_name_something_is_replaced(name: str) -> None:
    names = NameCollector()
    names("member", pa.array([name]))
    for some in (names.found, {}):
        new = Pseudonyms.of(some, SECRET)("member", pa.array([name])).to_pylist()[0]
        assert new.startswith("member-")


def test_a_random_member_id_stays() -> None:
    """Kafka's assignors order by it."""
    ids = ["EMqWgRveQ3ed8o9jXZ/+ew", "2fd5c8a1-8a5e-4c43-9d2b-000000000000"]
    chance = random.Random(7)
    for _ in range(1000):
        raw = uuid.UUID(int=chance.getrandbits(128), version=4)
        coded = base64.b64encode(raw.bytes).decode().rstrip("=")
        of_java = coded.replace("+", "-").replace("/", "_")
        ids += [str(raw), coded] + ([] if of_java.startswith("-") else [of_java])
    assert Pseudonyms({}, SECRET)("member", pa.array(ids)).to_pylist() == ids


SUBSCRIPTION_NAME = "ConsumerProtocolSubscription"
SUBSCRIPTION = "000300000001000174ffffffff0000000000000007ffff"
"""Version 3: topic t, no user data, no owned partitions, generation 7, no rack."""


@pytest.mark.parametrize(
    "blob",
    [
        SUBSCRIPTION[:-2],  # the last field is cut
        "00000000",  # the version, and half a count
        "00",  # half a version
        "ffff" + SUBSCRIPTION[4:],  # a negative version
    ],
)
def test_malformed_metadata_stays_malformed(blob: str) -> None:
    """Of zeros, Kafka would read a subscription without topics."""
    raw = bytes.fromhex(blob)
    keys, values = _group_with([raw])
    (new,) = _members(*rewrite(PLAN, keys, values, Pseudonyms({}, SECRET)))
    for name in ("subscription", "assignment"):
        assert new[name] == b"\xff" * len(raw)
    for name in (SUBSCRIPTION_NAME, "ConsumerProtocolAssignment"):
        with pytest.raises(scalar.MalformedError):
            scalar.decode_embedded(name, new["subscription"])


@pytest.mark.parametrize("topic", [b"\xffab", b"\xff" * 20_000, b"a\xed\xa0\x80b"])
def test_metadata_that_is_not_utf8_stays_readable(topic: bytes) -> None:
    """Kafka puts U+FFFD into the topic's name and goes on. U+FFFD has three bytes: a long name does
    not fit with its old content."""
    raw = _subscription_to(topic)
    pairs = _group_with([raw, bytes.fromhex(SUBSCRIPTION), raw])
    names = NameCollector()
    rewrite(PLAN, *pairs, names)
    assert names.found["topic"] == {java_text(topic), "t"}
    members = _members(*rewrite(PLAN, *pairs, Pseudonyms.of(names.found, SECRET)))
    read = [scalar.decode_embedded(SUBSCRIPTION_NAME, member["subscription"]) for member in members]
    topics = [one.value["topics"] for one in read]
    order = sorted({java_text(topic), "t"}).index("t")
    assert topics == [[f"topic-{number:06d}"] for number in (1 - order, order, 1 - order)]


def test_metadata_that_does_not_fit_any_more_is_made_unreadable() -> None:
    """Its neighbours keep their names, and nothing is raised."""
    raw = _subscription_to(b"\xff" * 20_000)
    good = bytes.fromhex(SUBSCRIPTION)
    old = _members(*rewrite(PLAN, *_group_with([good, raw, good]), lambda _, names: names))
    assert [member["subscription"] for member in old] == [good, b"\xff" * len(raw), good]


def _subscription_to(topic: bytes) -> bytes:
    return bytes(5) + b"\x01" + len(topic).to_bytes(2, "big") + topic + b"\xff" * 4


def _group_with(blobs: list[bytes]) -> tuple[pa.Array, pa.Array]:
    """The record of a classic group. Each member has a blob as its subscription and assignment."""
    keys = pa.array([b"\x00\x02\x00\x01g"], pa.binary())
    head = b"\x00\x03" + _string("consumer") + b"\x00\x00\x00\x05" + _string("range")
    value = head + _string("m1") + bytes(8) + len(blobs).to_bytes(4, "big")
    for blob in blobs:
        value += b"".join(map(_string, ("m1", "i", "c", "h"))) + bytes(8)
        value += (len(blob).to_bytes(4, "big") + blob) * 2
    return keys, pa.array([value], pa.binary())


def _members(keys: pa.Array, values: pa.Array, good: BoolArray) -> list[dict[str, Any]]:
    """The members in the only record."""
    assert good.all()
    (part,) = decode(PLAN.plan, keys, values).values
    at = [slot.column for slot in part.struct.slots].index("members")
    members: list[dict[str, Any]] = part.fields[at].to_pylist()[0]
    return members


def _string(text: str) -> bytes:
    return len(text).to_bytes(2, "big") + text.encode()


def test_values_that_cannot_be_decoded_keep_their_fault() -> None:
    """Without them, a group would be judged by the record before, as if it were the newest."""
    key = b"\x00\x03\x00\x01g"
    values = [b"", b"\x00\x07secret", b"\x00\x00sec", b"s", b"\x00\x00secret and more"]
    pairs = pa.array([key] * len(values), pa.binary()), pa.array(values, pa.binary())
    new_keys, new_values, good = rewrite(PLAN, *pairs, Pseudonyms({}, SECRET))
    assert not good.any()
    assert len(set(new_keys.to_pylist())) == 1
    assert new_keys[0].as_py()[4:] != b"g"
    assert not any(set(value) & set(b"secrtandmo") for value in new_values.to_pylist())
    again = decode(PLAN.plan, new_keys, new_values)
    unknown = Reason.UNKNOWN_VALUE_VERSION
    assert again.reason.tolist()[:2] == [Reason.EMPTY_VALUE, unknown]
    assert not set(again.reason.tolist()[2:]) & {0, Reason.EMPTY_VALUE, unknown}


def test_hashes_of_names_are_replaced() -> None:
    """Whoever guesses a topic's name could confirm it by its hash. A hash that changes explains a
    new epoch, and 0 says that there is no topic: both stay."""
    old = [2**63 - 1, -(2**63), 0, 5, 2**63 - 1, 1]
    numbers = [number.to_bytes(8, "big", signed=True) for number in old]
    keys = pa.array([b"\x00\x0b\x00\x01g"] * len(old), pa.binary())
    values = [b"\x00\x00" + bytes(4) + number + b"\x00" for number in numbers]
    _, found, good = rewrite(PLAN, keys, pa.array(values, pa.binary()), Pseudonyms({}, SECRET))
    assert good.all()
    new = [int.from_bytes(value[6:14], "big", signed=True) for value in found.to_pylist()]
    assert new[2] == 0
    assert new[0] == new[4]
    assert len(set(new)) == len(set(old))
    assert set(new) & set(old) == {0}
    other = rewrite(PLAN, keys, pa.array(values, pa.binary()), Pseudonyms({}, b"another"))[1]
    assert other[0] != found[0]
    assert other[2] == found[2]


@pytest.mark.parametrize(
    ("category", "kept", "replaced"),
    [
        ("protocol-type", ["consumer", "connect", "sr", ""], ["acme-elector", "Consumer"]),
        ("assignor", ["range", "uniform", "cooperative-sticky", "v0"], ["acme-billing-assignor"]),
        ("client", ["rdkafka", "sarama", "kafka-python-2.0.2"], ["kafka-python-billing", "kgo-1"]),
        ("process", ["44c8505b-dbc4-41f0-ae70-c7ae764b90e8"], ["billing-host-1"]),
        ("subtopology", ["0", "12"], ["billing"]),
        ("config-key", ["cleanup.policy", "retention.ms"], ["acme.owner"]),
        ("config-value", ["-1", "0.5", "compact", "CreateTime"], ["billing team"]),
    ],
)
def test_only_names_that_users_do_not_choose_stay(
    category: str, kept: list[str], replaced: list[str]
) -> None:
    names = NameCollector()
    names(category, pa.array(kept + replaced))
    new = Pseudonyms.of(names.found, SECRET)(category, pa.array(kept + replaced)).to_pylist()
    assert new[: len(kept)] == kept
    assert all(name.startswith(f"{category}-") for name in new[len(kept) :])


def test_the_assignor_of_a_user_is_replaced_everywhere() -> None:
    keys = pa.array([b"\x00\x02\x00\x01g"], pa.binary())
    named = _string("acme-elector") + bytes(4) + _string("acme-assignor") + b"\xff\xff"
    value = b"\x00\x03" + named + bytes(8) + bytes(4)
    new = rewrite(PLAN, keys, pa.array([value], pa.binary()), Pseudonyms({}, SECRET))[1]
    assert b"acme" not in new[0].as_py()


_TEXT_BYTES = st.binary(max_size=8) | st.builds(
    lambda octets, size: octets * size, st.binary(min_size=1, max_size=3), st.integers(0, 9_000)
)
_SUBSCRIPTIONS = st.builds(
    lambda topic, at, extra: (raw := _subscription_to(topic))[:at] + extra + raw[at:],
    _TEXT_BYTES,
    st.integers(0, 40),
    st.just(b"") | st.binary(max_size=4),
)
_BLOBS = _SUBSCRIPTIONS | st.binary(max_size=24)


@settings(max_examples=150, deadline=None)
@given(st.lists(_BLOBS, min_size=1, max_size=4), st.integers(0, 200), st.binary(max_size=3))
def test_any_metadata_can_be_rewritten(blobs: list[bytes], at: int, edit: bytes) -> None:
    """No bytes of a group or of a migrating member stop a capture or an erasure."""
    protocols = [{"name": "range", "metadata": blob} for blob in blobs]
    member = {"classicMemberMetadata": {"supportedProtocols": protocols}}
    of_member = scalar_writer.encode_value(records()[5], 0, member)
    ((key,), (group,)) = (column.to_pylist() for column in _group_with(blobs))
    pairs = [(key, group), (b"\x00\x05\x00\x01g\x00\x01m", of_member)]
    pairs += [(key, value[:at] + edit + value[at + len(edit) :]) for key, value in pairs]
    keys, values = arrays(pairs)
    erasure = Erasure(frozenset(), {"a": "erased-1"}, "shipped")
    names = NameCollector()
    *_, good = rewrite(PLAN, keys, values, names)
    assert good[:2].all()
    rewrite(PLAN, keys, values, erasure.rename)
    new = rewrite(PLAN, keys, values, Pseudonyms.of(names.found, SECRET))
    again = decode(PLAN.plan, *new[:2])
    assert ((again.reason == 0) == good).all()
    members = _members(*(column[:1] for column in new))
    after = [member["subscription"] for member in members]
    readable = [PLAN.subscription.decode(pa.array(some, pa.binary())) for some in (blobs, after)]
    assert readable[0].is_valid().equals(readable[1].is_valid())
