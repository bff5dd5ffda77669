"""The vectorized encoder: against the scalar one, Kafka's classes, and the decoder's way back."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kip848_spark.wire import concat
from kip848_spark.wire.decode import DecodedRows, decode
from kip848_spark.wire.definitions import MessageDefinition, load_message
from kip848_spark.wire.encode import (
    EncodeError,
    encode_keys,
    encode_message,
    encode_values,
)
from kip848_spark.wire.faults import Reason
from kip848_spark.wire.layout import message_layout, message_type
from kip848_spark.wire.reader import LINE_ZERO, ByteRows, ProgramTable
from tests.kafka_oracle import Oracle
from tests.wire.golden import GOLDEN
from tests.wire.scalar_comparison import Pair, as_columns, binary, plan
from tests.wire.schema_definitions import Record, records
from tests.wire.strategies import Bulk, Sample, samples, samples_of
from tests.wire.test_decode import mixed
from tests.wire.test_scalar import expected_json

FOLDERS = ("shipped", "kip", "kip_ea37", "kip_draft")
SLOW = settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])


def layouts() -> list[Any]:
    return [
        pytest.param(folder, record, version, id=f"{folder}-{record.key_type}-v{version}")
        for folder in FOLDERS
        for record in records(folder).values()
        for version in record.value.valid
        if folder == "shipped" or record.key_type > 2
    ]


def encoded(made: Sequence[Sample], folder: str = "shipped") -> list[Pair]:
    """What we write for records of one kind and version, from columns made by Arrow itself."""
    record, version = made[0].record, made[0].version
    assert version is not None
    how = plan(folder).records[record.key_type]
    keys = [as_columns(record.key.fields, 0, sample.key) for sample in made]
    values = [as_columns(record.value.fields, version, sample.value or {}) for sample in made]
    key_bytes = encode_keys(how, pa.array(keys, how.key.arrow))
    value_bytes = encode_values(how, version, pa.array(values, how.value_type))
    for array in (key_bytes, value_bytes):
        array.validate(full=True)
        assert array.type == pa.binary()
    return list(zip(key_bytes.to_pylist(), value_bytes.to_pylist(), strict=True))


@pytest.mark.parametrize(("folder", "record", "version"), layouts())
def test_the_same_bytes_as_the_scalar_encoder(folder: str, record: Record, version: int) -> None:
    made = list(Bulk(40, unknown_tags=False).samples(record, version, 200))
    assert encoded(made, folder) == [sample.encoded() for sample in made]
    for sample in made[:5]:  # alone, a row has none that differ from it
        assert encoded([sample], folder) == [sample.encoded()]


@pytest.mark.long
@pytest.mark.parametrize(("folder", "record", "version"), layouts())
def test_kafka_reads_what_we_write(folder: str, record: Record, version: int) -> None:
    if folder != "shipped":
        pytest.skip("no release has these layouts")
    made = list(Bulk(41, unknown_tags=False).samples(record, version, 10_000))
    for sample, answer in zip(made, Oracle().decode(encoded(made)), strict=True):
        assert answer == expected_json(sample)


@given(samples(unknown_tags=False).filter(lambda sample: sample.value is not None))
@SLOW
def test_what_hypothesis_finds(sample: Sample) -> None:
    assert encoded([sample]) == [sample.encoded()]


@given(st.data())
@SLOW
def test_batches_that_hypothesis_finds(data: st.DataObject) -> None:
    record = data.draw(st.sampled_from(list(records().values())))
    version = data.draw(st.sampled_from(list(record.value.valid)))
    made = data.draw(st.lists(samples_of(record, version, unknown_tags=False), min_size=1))
    assert encoded(made) == [sample.encoded() for sample in made]


# --- there and back --------------------------------------------------------------------------


def encode_part(part: DecodedRows) -> pa.BinaryArray:
    """The values (or keys) that ``part`` was decoded from, if they were canonical."""
    columns = dict(zip((slot.column for slot in part.struct.slots), part.fields, strict=True))
    if part.struct is part.plan.key:
        return encode_keys(part.plan, columns)
    return encode_values(part.plan, part.version, columns)


def test_canonical_bytes_come_back() -> None:
    pairs = mixed(42, 30)
    keys, values = (binary(half) for half in zip(*pairs, strict=True))
    decoded = decode(plan(), keys, values)
    canonical = decoded.unknown_tags == 0
    seen = 0
    for part in decoded.values:
        again = encode_part(part)
        kept = pa.array(canonical[part.rows])
        assert again.filter(kept) == values.take(pa.array(part.rows)).filter(kept)
        seen += len(part.rows)
    assert seen == sum(value is not None for _, value in pairs)
    distinct = keys.unique()
    for part in decoded.keys:
        assert encode_part(part) == distinct.take(pa.array(part.rows))


def test_golden_bytes_come_back() -> None:
    canonical = [each for each in GOLDEN if each.canonical and not each.unknown_tags]
    assert len(canonical) > 30
    for each in canonical:
        key, value = bytes.fromhex(each.key), bytes.fromhex(each.value)
        decoded = decode(plan(), binary([key]), binary([value]))
        assert encode_part(decoded.values[0]).to_pylist() == [value]
        assert encode_part(decoded.keys[0]).to_pylist() == [key]


def test_tombstones() -> None:
    how = plan().records[3]
    structs = pa.array([None, {"epoch": 7}, None], pa.struct([("epoch", pa.int32())]))
    found = encode_values(how, 0, structs)
    assert found.to_pylist() == [None, bytes.fromhex("0000 00000007 00"), None]


def test_no_rows() -> None:
    for record in plan().records.values():
        assert len(encode_keys(record, pa.array([], record.key.arrow))) == 0
        for version in record.values:
            assert len(encode_values(record, version, pa.array([], record.value_type))) == 0


# --- forms of the columns --------------------------------------------------------------------

COMMIT = plan().records[1]


def commits() -> dict[str, pa.Array]:
    return {
        "offset": pa.array([1, 2, 3]),
        "leader_epoch": pa.array([5, -1, 0], pa.int32()),
        "metadata": pa.array(["", "x", "yy"]),
        "commit_timestamp": pa.array([10, 11, 12]),
        "topic_id": pa.array([bytes(16), b"i" * 16, bytes(16)], pa.binary(16)),
    }


def test_columns_by_name_sliced_chunked_or_of_another_type() -> None:
    right = encode_values(COMMIT, 4, commits())
    assert right.to_pylist()[1] == bytes.fromhex(
        "0004 0000000000000002 ffffffff 02 78 000000000000000b 01 00 10" + "69" * 16
    )
    other = commits()
    other["metadata"] = pa.chunked_array([other["metadata"].slice(0, 1), other["metadata"][1:]])
    other["offset"] = other["offset"].cast(pa.int16())
    other["leader_epoch"] = other["leader_epoch"].dictionary_encode()
    assert encode_values(COMMIT, 4, other) == right
    other["metadata"] = commits()["metadata"].cast(pa.large_string())
    assert encode_values(COMMIT, 4, other) == right
    for first in range(3):
        part = {name: array.slice(first, 2) for name, array in commits().items()}
        assert encode_values(COMMIT, 4, part) == right.slice(first, 2)
        whole = pa.StructArray.from_arrays(list(commits().values()), list(commits()))
        assert encode_values(COMMIT, 4, whole.slice(first, 2)) == right.slice(first, 2)


def test_missing_columns_have_their_default() -> None:
    found = encode_values(COMMIT, 4, {"offset": pa.array([9])})
    assert found.to_pylist() == [
        bytes.fromhex("0004 0000000000000009 ffffffff 01 0000000000000000 00")
    ]
    member = plan().records[19]
    found = encode_values(member, 0, {"process_id": pa.array(["p"])})
    assert decode_one(19, found[0].as_py())["user_endpoint"] is None


def decode_one(key_type: int, value: bytes) -> dict[str, Any]:
    struct = plan().records[key_type].key
    empty = {slot.column: pa.array([slot.default], slot.arrow) for slot in struct.slots}
    key = encode_keys(plan().records[key_type], empty)
    decoded = decode(plan(), key, binary([value]))
    found: dict[str, Any] = decoded.values[0].as_struct()[0].as_py()
    return found


def test_lists_with_bytes_under_their_nulls() -> None:
    """Arrow allows a null list to span elements: they are not written."""
    how = plan().records[17]
    pair = pa.struct([("key", pa.string()), ("value", pa.string())])
    elements = pa.array([{"key": "a", "value": "b"}] * 3, pair)
    configs = pa.ListArray.from_arrays(
        pa.array([0, 1, 2, 3], pa.int32()), elements, mask=pa.array([False, True, False])
    )
    columns = {"epoch": pa.array([1, 1, 1], pa.int32()), "last_assignment_configs": configs}
    found = encode_values(how, 0, columns)
    whole = [decode_one(17, value)["last_assignment_configs"] for value in found.to_pylist()]
    assert whole == [[{"key": "a", "value": "b"}], None, [{"key": "a", "value": "b"}]]
    sliced = {name: array.slice(1, 2) for name, array in columns.items()}
    assert encode_values(how, 0, sliced) == found.slice(1)


@pytest.mark.parametrize("sizes", [[0], [127, 128], [1, 16383, 16384, 5], [32767, 32766]])
def test_lengths_around_the_steps_of_a_varint(sizes: list[int]) -> None:
    text = pa.array(["x" * size for size in sizes])
    found = encode_values(COMMIT, 4, {"offset": pa.array(range(len(sizes))), "metadata": text})
    key = bytes.fromhex("0001 0001 67 0001 74 00000000")
    back = decode(plan(), binary([key] * len(sizes)), found)
    assert back.values[0].field("metadata").to_pylist() == text.to_pylist()


# --- refusals --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("key_type", "version", "columns", "output"),
    [
        (1, 5, {"offset": [1]}, "offset_commit has no version 5"),
        (1, 3, {"offsett": [1]}, "there is no field offsett"),
        (1, 3, {"offset": [1, None]}, r"offset can't be null \(row 1\)"),
        (1, 3, {"metadata": ["", None]}, r"metadata can't be null \(row 1\)"),
        (1, 3, {"metadata": ["x" * 32768]}, "metadata has 32768 bytes, 32767 is the limit"),
        (1, 3, {"offset": [1], "metadata": ["", ""]}, "differ in length"),
        (1, 3, {}, "there is no column"),
        (1, 3, {"offset": ["x"]}, "offset is string and not int64"),
        (3, 0, {"epoch": [2**31]}, "epoch is int64 and not int32"),
        (3, 0, {"metadata_hash": [None]}, "metadata_hash can't be null"),
        (2, 3, {"members": [[{"member_id": None}]]}, r"members\[\].member_id can't be null"),
        (2, 3, {"members": [None]}, r"members can't be null \(row 0\)"),
        (2, 3, {"members": [[None]]}, r"members\[\] can't be null \(element 0\)"),
        (2, 3, {"members": [[{"member": ""}]]}, r"no field members\[\].member$"),
        (19, 0, {"user_endpoint": [{"port": 65536}]}, "user_endpoint.port is 65536"),
        (19, 0, {"user_endpoint": [{"port": -1}]}, "more than 16 bits"),
    ],
)
def test_refusals(key_type: int, version: int, columns: dict[str, Any], output: str) -> None:
    arrays = {name: pa.array(values) for name, values in columns.items()}
    with pytest.raises(EncodeError, match=output):
        encode_values(plan().records[key_type], version, arrays)


def test_a_field_the_version_lacks(tmp_path: Path) -> None:
    """Null or its default will do; a value only if the definition calls it ignorable."""
    plain = encode_values(COMMIT, 0, {"offset": pa.array([1])})
    epoch = {"offset": pa.array([1]), "leader_epoch": pa.array([5], pa.int32())}
    assert encode_values(COMMIT, 0, epoch) == plain
    layout = message_layout(made_up(tmp_path), 0)
    for harmless in ([None, None], [1.5, None]):
        columns = {"on": pa.array([True, False]), "later": pa.array(harmless, pa.float64())}
        assert encode_message(layout, 0, columns).to_pylist() == [b"\0\0\1", b"\0\0\0"]
    columns["later"] = pa.array([1.5, 2.5])
    with pytest.raises(EncodeError, match=r"this version has no later \(row 1\)"):
        encode_message(layout, 0, columns)


def made_up(folder: Path) -> MessageDefinition:
    """Types that no record uses yet."""
    fields = [
        {"name": "on", "type": "bool", "versions": "0+"},
        {"name": "later", "type": "float64", "versions": "1+", "default": "1.5"},
        {"name": "flags", "type": "[]bool", "versions": "1+", "nullableVersions": "1+"},
    ]
    message = {"name": "MadeUp", "validVersions": "0-1", "flexibleVersions": "1+"}
    (folder / "MadeUp.json").write_text(json.dumps(message | {"fields": fields}))
    return load_message(folder / "MadeUp.json")


def test_types_that_no_record_uses_yet(tmp_path: Path) -> None:
    message = made_up(tmp_path)
    rows = [
        {"on": True, "later": -0.5, "flags": [True, False]},
        {"on": False, "later": 1.5, "flags": None},
    ]
    layout = message_layout(message, 1)
    found = encode_message(layout, 1, pa.array(rows, message_type(message)))
    assert found.to_pylist() == [
        bytes.fromhex("0001 01 bfe0000000000000 03 01 00 00"),
        bytes.fromhex("0001 00 3ff8000000000000 00 00"),
    ]
    (read,), _, faults = ProgramTable([{1: layout}]).read(
        ByteRows.of(found), np.zeros(2, np.int32), LINE_ZERO, Reason.NONE, Reason.NONE
    )
    assert pa.StructArray.from_arrays(read.fields, fields=list(layout.arrow)).to_pylist() == rows
    assert not faults.reason.any()


def test_more_than_an_array_can_hold() -> None:
    with pytest.raises(OverflowError, match="encode fewer rows"):
        concat.binary_array(np.array([0, 1 << 31]), None)
