"""Control records as plain values: what the columns of `group_records` say, under Kafka's names."""

from __future__ import annotations

import random

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from kip848_spark.checks import audit_rows
from kip848_spark.checks.control_values import ControlValue, control_values
from kip848_spark.wire.definitions import SHIPPED
from tests.audit.raw_records import entry_of, raw_control, rows_of
from tests.captures import COMMITTED
from tests.conftest import DATA

CAPTURES = sorted(
    path.parent.name for path in DATA.glob(f"*/{COMMITTED}") if "early" not in path.parent.name
)


def raw_columns(capture: str) -> tuple[pa.Table, pa.Array, pa.Array]:
    raw = raw_control(pq.read_table(DATA / capture / COMMITTED)).combine_chunks()
    return raw, *(pa.concat_arrays(raw[name].chunks) for name in ("raw_key", "raw_value"))


@pytest.mark.parametrize("capture", CAPTURES)
def test_values_are_those_of_the_columns(capture: str) -> None:
    raw, keys, values = raw_columns(capture)
    compared = 0
    for row, found in zip(rows_of(raw), control_values(keys, values), strict=True):
        if (entry := entry_of(row)) is not None:
            assert found == ControlValue(row["member_id"], row["regular_expression"], entry.value)
            compared += 1
    assert compared


def test_parts_of_a_batch_are_decoded_as_the_whole() -> None:
    """A slice of an Arrow array begins inside of its buffers."""
    _, keys, values = raw_columns("kafka-4.3.1")
    whole = control_values(keys, values)
    rng = random.Random(0)
    for _ in range(50):
        start = rng.randrange(len(keys))
        count = rng.choice((0, 1, 2, 100))
        part = control_values(keys.slice(start, count), values.slice(start, count))
        assert part == whole[start : start + count]


@pytest.mark.parametrize("most", [1, 100, 5_000, 10**9])
def test_few_bytes_are_decoded_at_once(most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The objects of large values would take the memory of a worker."""
    raw, keys, values = raw_columns("kafka-4.3.1")
    count = len(keys)
    rows = {
        "group_id": pa.repeat("g", count), "partition": raw["partition"], "offset": raw["offset"],
        "millis": pa.repeat(0, count), "kind": pa.repeat("k", count),
        "dialect": pa.repeat(SHIPPED, count), "key": keys, "value": values,
        "stage": pa.repeat(pa.scalar(0, pa.int32()), count),
    }  # fmt: skip
    calls: list[int] = []

    def decode(some: pa.Array, bytes_: pa.Array) -> list[ControlValue | None]:
        calls.append(sum(len(value or b"") for value in bytes_.to_pylist()))
        assert calls[-1] <= most or len(some) == 1
        return control_values(some, bytes_)

    monkeypatch.setattr(audit_rows, "control_values", decode)
    monkeypatch.setattr(audit_rows, "_MOST_BYTES_AT_ONCE", most)
    [batch] = pa.table(rows, schema=audit_rows.AUDIT_ROWS).combine_chunks().to_batches()
    found = list(audit_rows.decoded_rows(iter([batch])))
    assert [row.offset for row, _ in found] == raw["offset"].to_pylist()
    assert [value for _, value in found] == control_values(keys, values)
    assert sum(calls) == sum(len(value or b"") for value in values.to_pylist())


def test_a_record_that_cannot_be_decoded_has_no_value() -> None:
    _, keys, values = raw_columns("kafka-4.3.1")
    at = next(row for row, value in enumerate(values.to_pylist()) if value)
    cut = pa.array([values[at].as_py()[:3], values[at].as_py()], pa.binary())
    same_key = pa.array([keys[at].as_py()] * 2, pa.binary())
    torn, good = control_values(same_key, cut)
    assert torn is None
    assert good is not None
