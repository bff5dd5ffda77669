"""How the carry of a fold is stored: in several rows if it is large, and compressed then."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from kip848_spark.state.partition_fold import (
    MAX_CARRY_BYTES,
    pack_carry,
    repack_carry,
    unpack_carry,
)
from tests.state.control_logs import CONTROL_STATE_SCHEMA


@pytest.mark.parametrize("rows", [0, 1, 1_000, 100_000, 1_000_000])
def test_a_carry_of_any_size_comes_back(rows: int) -> None:
    table = pa.table(
        {
            "offset": pa.array(range(rows), pa.int64()),
            "group": pa.array([f"group-{n % 7}" for n in range(rows)], pa.string()),
        }
    )
    packed = pack_carry(
        {"fold": {"seen": table, "none": table.slice(0, 0)}}, CONTROL_STATE_SCHEMA, 3
    )

    found = unpack_carry(packed)["fold"]
    assert found["seen"].equals(table)
    assert found["none"].equals(table.slice(0, 0))

    stored = pc.sum(pc.binary_length(packed["raw_value"])).as_py()
    assert packed.num_rows == 1 + max(1, -(-table.nbytes // MAX_CARRY_BYTES))
    if rows >= 100_000:
        assert stored < table.nbytes / 2
    else:
        assert stored < table.nbytes + 2_000


def test_a_changed_carry_is_stored_again() -> None:
    table = pa.table({"group": ["a", "b"]})
    row = pack_carry({"fold": {"seen": table}}, CONTROL_STATE_SCHEMA, 0)
    value = row["raw_value"][0].as_py()
    assert repack_carry(value, lambda same: same) is None
    changed = repack_carry(value, lambda it: it.filter(pc.equal(it["group"], "b")))
    assert changed is not None
    assert pa.ipc.open_stream(changed).read_all()["group"].to_pylist() == ["b"]
